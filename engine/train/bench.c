#include "engine/train/bench.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/model/weights.h"

#define MIN_STEPS 5
#define MAX_STEPS 1000

#define PROFILED 3 /* steps that a profile sums up, after one to get warm */

#define CONFIG(layers_, hd, kv_, ...)                                                             \
    {                                                                                             \
        .vocab = 4096, .context = 1024, .layers = layers_, .head_dim = hd, .rope_theta = 10000,   \
        .norm_eps = 1e-5, .n_chains = sizeof((model_chain[]){__VA_ARGS__}) / sizeof(model_chain), \
        .chain = {__VA_ARGS__}, .family.kv = kv_                                                  \
    }
static const bench_case cases[] = {
    {"a", "dense 256, 6 layers", CONFIG(6, 32, KV_OWN, {256, 8, 8, 688}), 0},
    {"b", "chains {4,4} of 256", CONFIG(6, 32, KV_OWN, {128, 4, 4, 344}, {128, 4, 4, 344}), 0},
    {"c", "chains {2,2,2,2} of 256",
     CONFIG(6, 32, KV_OWN, {64, 2, 2, 172}, {64, 2, 2, 172}, {64, 2, 2, 172}, {64, 2, 2, 172}), 0},
    {"d", "256 frozen + 64 trained", CONFIG(6, 32, KV_OWN, {256, 8, 8, 688}, {64, 2, 2, 172}), 1},
    {"e", "dense 512, 8 layers", CONFIG(8, 64, KV_OWN, {512, 8, 8, 1376}), 0},
    {"f", "dense 320, 6 layers", CONFIG(6, 32, KV_OWN, {320, 10, 10, 860}), 0},
    {"g", "CoLM-Air {4,4} of 256", CONFIG(6, 32, KV_GROUPED, {128, 4, 4, 344}, {128, 4, 0, 344}), 0},
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

/* A case on its way: what a step needs, and the tokens of all of them. */
typedef struct {
    model_weights *w;
    model_state *s;
    model_graph *g;
    uint32_t *ids; /* inputs, then targets */
    uint64_t tokens, done;
} bench_run;

static graph_update next_update(bench_run *r) {
    return (graph_update){3e-4, 0.9, 0.95, 1e-8, 0.1, 1, ++r->done};
}

static colm_status open_run(ops_machine *m, const bench_case *c, uint32_t B, uint32_t T,
                            model_precision precision, bench_run *r, colm_err *err) {
    const graph_params gp = {.B = B, .T = T, .train = true};
    colm_status st = model_weights_init(&c->config, 1, &r->w, err);
    const model_trained what = {.frozen = c->frozen, .precision = precision};
    if (!st) st = model_state_create_trained(m, r->w, what, &r->s, err);
    if (!st) st = model_graph_create(r->s, &gp, &r->g, err);
    if (st) return st;
    if (precision == PRECISION_F16) model_graph_scale_loss(r->g, 1024); /* no step of random tokens overflows */
    r->tokens = (uint64_t)B * T;
    r->ids = mem_alloc(2 * r->tokens, sizeof *r->ids);
    if (!r->ids) return err_nomem(err, 2 * r->tokens * sizeof *r->ids, "batch");
    const rng_stream stream = rng_open(1, "bench tokens");
    for (size_t i = 0; i < 2 * r->tokens; i++) r->ids[i] = (uint32_t)rng_below(&stream, i, c->config.vocab);
    return COLM_OK;
}

static void close_run(bench_run *r) {
    model_graph_free(&r->g);
    model_state_free(&r->s);
    model_weights_free(&r->w);
    free(r->ids);
}

static colm_status step(bench_run *r, double *ret_seconds, colm_err *err) {
    const graph_update u = next_update(r);
    graph_report report;
    const double before = clock_seconds();
    colm_status st = model_graph_train(r->g, r->ids, r->ids + r->tokens, &u, &report, err);
    *ret_seconds = clock_seconds() - before;
    return st;
}

/* A step of each run in turn until `seconds` a run are over. */
static colm_status measure(bench_run *run, size_t n, double seconds, bench_result *ret, colm_err *err) {
    colm_status st = COLM_OK;
    const double began = clock_seconds();
    for (size_t k = 0; k < MAX_STEPS && !st; k++) {
        if (k >= MIN_STEPS && clock_seconds() - began >= seconds * (double)n) break;
        for (size_t i = 0; i < n && !st; i++) st = step(&run[i], &ret[i].time[ret[i].steps++], err);
    }
    return st;
}

static colm_status summarize(bench_result *r, colm_err *err) {
    double *sorted = mem_alloc(r->steps, sizeof *sorted);
    if (!sorted) return err_nomem(err, r->steps * sizeof *sorted, "times of steps");
    memcpy(sorted, r->time, r->steps * sizeof *sorted);
    qsort(sorted, r->steps, sizeof *sorted, by_value);
    r->median = sorted[r->steps / 2];
    r->best = sorted[0];
    free(sorted);
    return COLM_OK;
}

/* The first profiled step warms up, and settles how calls are timed. */
static colm_status look_inside(bench_run *r, graph_profile *io, colm_err *err) {
    graph_profile warm = *io;
    graph_update u = next_update(r);
    colm_status st = model_graph_profile(r->g, r->ids, r->ids + r->tokens, &u, &warm, err);
    graph_profile_done(&warm);
    for (int i = 0; i < PROFILED && !st; i++) {
        u = next_update(r);
        st = model_graph_profile(r->g, r->ids, r->ids + r->tokens, &u, io, err);
    }
    return st;
}

/* The profile that was asked for, longest rows first. */
static colm_status look(bench_run *r, const bench_params *p, double seconds, bench_result *ret, colm_err *err) {
    ret->profile = (graph_profile){.by_shape = p->by_shape || p->look == BENCH_ALONE, .ceiling = p->ceiling};
    colm_status st = model_graph_count(r->g, &ret->profile, err);
    const size_t n = ret->profile.n;
    for (size_t i = 0; i < n; i++) {
        ret->bytes += ret->profile.cost[i].bytes;
        ret->ideal += ret->profile.cost[i].ideal;
    }
    if (st || p->look == BENCH_STEPS) return st;
    graph_profile_done(&ret->profile);
    st = p->look == BENCH_INSIDE ? look_inside(r, &ret->profile, err)
                                 : model_graph_alone(r->g, seconds / (double)n, &ret->profile, err);
    qsort(ret->profile.cost, ret->profile.n, sizeof *ret->profile.cost, by_time);
    return st;
}

/* Everything until the first step has been done, which also finishes kernels and touches memory. */
static colm_status start(ops_machine *m, const bench_case *c, const bench_params *p, bench_run *run,
                         bench_result *r, colm_err *err) {
    const uint32_t B = p->batch ? p->batch : 8, T = p->context ? p->context : 256;
    const uint64_t before = ops_bytes(m, NULL);
    const double began = clock_seconds();
    r->time = mem_alloc(MAX_STEPS, sizeof *r->time);
    if (!r->time) return err_nomem(err, MAX_STEPS * sizeof *r->time, "times of steps");
    colm_status st = open_run(m, c, B, T, p->precision, run, err);
    r->tokens = run->tokens;
    r->memory = ops_bytes(m, NULL) - before;
    r->flops = (double)B * (double)(model_flops_forward(&c->config, c->config.n_chains, T) +
                                    model_flops_backward(&c->config, c->frozen, T));
    r->ready = clock_seconds() - began;
    return st ? st : step(run, &r->first, err);
}

static colm_status group(ops_machine *m, const bench_case *const *c, size_t n, const bench_params *p,
                         bench_result *ret, colm_err *err) {
    const double seconds = p->seconds > 0 ? p->seconds : 5;
    colm_status st = COLM_OK;
    bench_run *run = mem_alloc(n, sizeof *run);
    if (!run) return err_nomem(err, n * sizeof *run, "cases");
    for (size_t i = 0; i < n && !st; i++)
        if ((st = start(m, c[i], p, &run[i], &ret[i], err))) err_at(err, "case %s", c[i]->name);
    if (!st) st = measure(run, n, seconds, ret, err);
    for (size_t i = 0; i < n && !st; i++)
        if (!(st = summarize(&ret[i], err))) st = look(&run[i], p, seconds, &ret[i], err);
    for (size_t i = 0; i < n; i++) close_run(&run[i]);
    free(run);
    return st;
}

colm_status bench_cases(ops_machine *m, const bench_case *const *c, size_t n, const bench_params *p,
                        bench_result *ret, colm_err *err) {
    const size_t at_once = p->interleave ? n : 1;
    colm_status st = COLM_OK;
    for (size_t i = 0; i < n && !st; i += at_once) st = group(m, c + i, at_once, p, ret + i, err);
    return st;
}

void bench_result_done(bench_result *r) {
    graph_profile_done(&r->profile);
    free(r->time);
    *r = (bench_result){0};
}
