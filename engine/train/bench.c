#include "engine/train/bench.h"

#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/model/weights.h"

#define MAX_STEPS 1000

#define CONFIG(layers_, hd, ...)                                                                             \
    {                                                                                                        \
        .vocab = 4096, .context = 1024, .layers = layers_, .head_dim = hd, .rope_theta = 10000,              \
        .norm_eps = 1e-5, .n_chains = sizeof((model_chain[]){__VA_ARGS__}) / sizeof(model_chain), .chain = { \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
static const bench_case cases[] = {
    {"a", "dense 256, 6 layers", CONFIG(6, 32, {256, 8, 8, 688}), 0},
    {"b", "chains {4,4} of 256", CONFIG(6, 32, {128, 4, 4, 344}, {128, 4, 4, 344}), 0},
    {"c", "chains {2,2,2,2} of 256",
     CONFIG(6, 32, {64, 2, 2, 172}, {64, 2, 2, 172}, {64, 2, 2, 172}, {64, 2, 2, 172}), 0},
    {"d", "256 frozen + 64 trained", CONFIG(6, 32, {256, 8, 8, 688}, {64, 2, 2, 172}), 1},
    {"e", "dense 512, 8 layers", CONFIG(8, 64, {512, 8, 8, 1376}), 0},
    {"f", "dense 320, 6 layers", CONFIG(6, 32, {320, 10, 10, 860}), 0},
};

const bench_case *bench_case_at(size_t i) {
    return i < sizeof cases / sizeof *cases ? &cases[i] : NULL;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static int by_time(const void *a, const void *b) {
    double x = ((const graph_cost *)a)->seconds, y = ((const graph_cost *)b)->seconds;
    return (x < y) - (x > y);
}

static colm_status profile_pass(model_graph *g, bench_result *r, colm_err *err) {
    graph_cost op[OP_COUNT] = {0};
    colm_status st = model_graph_profile(g, op, err);
    for (size_t i = 0; i < OP_COUNT && !st; i++)
        if (op[i].calls) r->op[r->n_ops++] = op[i];
    qsort(r->op, r->n_ops, sizeof *r->op, by_time);
    return st;
}

colm_status bench_step(ops_machine *m, const bench_case *c, uint32_t B, uint32_t T, double seconds,
                       bool profile, bench_result *ret, colm_err *err) {
    bench_result r = {.tokens = (uint64_t)B * T};
    model_weights *w = NULL;
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params gp = {.B = B, .T = T, .train = true};
    double start = clock_seconds(), *time = mem_alloc(MAX_STEPS, sizeof *time);
    uint32_t *ids = mem_alloc(2 * r.tokens, sizeof *ids);
    colm_status st = time && ids ? COLM_OK : err_nomem(err, 2 * r.tokens * sizeof *ids, "batch");
    if (!st) st = model_weights_init(&c->config, 1, &w, err);
    if (!st) st = model_state_create(m, w, c->frozen, &s, err);
    if (!st) st = model_graph_create(s, &gp, &g, err);
    r.memory = ops_bytes(m, NULL);
    r.flops = (double)B * (double)(model_flops_forward(&c->config, c->config.n_chains, T) +
                                   model_flops_backward(&c->config, c->frozen, T));
    rng_stream stream = rng_open(1, "bench tokens");
    for (size_t i = 0; i < 2 * r.tokens && !st; i++) ids[i] = (uint32_t)rng_below(&stream, i, c->config.vocab);
    for (double began = 0; !st && r.steps < MAX_STEPS && (r.steps < 5 || clock_seconds() - began < seconds);) {
        graph_update u = {3e-4, 0.9, 0.95, 1e-8, 0.1, 1, r.steps + 1};
        graph_report report;
        double before = clock_seconds();
        st = model_graph_train(g, ids, ids + r.tokens, &u, &report, err);
        if (r.first == 0) { /* the first step also compiles and touches memory: it is not measured */
            r.first = clock_seconds() - start;
            began = clock_seconds();
            continue;
        }
        time[r.steps++] = clock_seconds() - before;
    }
    if (!st && profile) st = profile_pass(g, &r, err);
    if (!st) {
        qsort(time, r.steps, sizeof *time, by_value);
        r.median = time[r.steps / 2];
        r.best = time[0];
        *ret = r;
    }
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w);
    free(time);
    free(ids);
    return st;
}
