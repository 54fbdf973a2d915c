/* Shapes that hurt, and a model scored or differentiated in one call: what the tests of colm's invariants
 * share. */
#ifndef COLM_TESTS_MODEL_RUNS_H
#define COLM_TESTS_MODEL_RUNS_H

#include "tests/model/models.h"

typedef struct {
    const char *what;
    uint32_t n_chains, head_dim, layers, vocab;
    model_chain chain[4];
} run_shape;

/* Unequal chains, grouped heads, odd widths; narrower and wider than a tile; vocabularies off every multiple.
 */
static const run_shape run_shapes[] = {
    {"a chain of one column", 3, 8, 2, 50, {{12, 2, 1, 20}, {1, 1, 1, 3}, {9, 3, 1, 17}}},
    {"heads of six", 2, 6, 1, 257, {{16, 4, 2, 24}, {7, 1, 1, 9}}},
    {"across tiles", 4, 16, 2, 33, {{72, 2, 1, 100}, {8, 1, 1, 8}, {33, 4, 2, 65}, {24, 1, 1, 31}}},
};
#define RUN_SHAPES (sizeof run_shapes / sizeof *run_shapes)

/* In which run_score, run_gradients and run_state keep models: set by run_in_all. */
static model_precision run_precision;

static const char *const run_machines[] = {"reference", "cpu", "gpu", "portable"};

#define RUN_MACHINES (sizeof run_machines / sizeof *run_machines)

/* Without one the first gradients of a new chain vanish in float16. */
static inline double run_loss_scale(void) {
    return run_precision == PRECISION_F16 ? 4096 : 1;
}

/* body on every machine and shape; without a device the case is skipped after the reference. */
static inline void run_everywhere(void (*body)(ops_machine *m, const run_shape *shape)) {
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        ops_machine *m = test_machine(run_machines[i]);
        for (size_t k = 0; m && k < RUN_SHAPES; k++) {
            int bad = test_bad_;
            body(m, &run_shapes[k]);
            if (test_bad_ > bad)
                printf("#   on %s, %s, %s\n", run_machines[i], run_shapes[k].what,
                       model_precision_name[run_precision]);
        }
        ops_close(&m);
    }
}

/* The same in every precision. */
static inline void run_in_all(void (*body)(ops_machine *m, const run_shape *shape)) {
    for (run_precision = PRECISION_F32; run_precision < PRECISIONS; run_precision++) run_everywhere(body);
    run_precision = PRECISION_F32;
}

static inline colm_status run_state(ops_machine *m, const model_weights *w, uint32_t frozen, model_state **ret,
                                    colm_err *err) {
    return model_state_create_trained(m, w, (model_trained){.frozen = frozen, .precision = run_precision}, ret,
                                      err);
}

static inline model_config run_config(const run_shape *s) {
    model_config c = test_config(s->n_chains, s->chain);
    c.context = 40;
    c.head_dim = s->head_dim, c.layers = s->layers, c.vocab = s->vocab;
    return c;
}

static inline model_weights *run_weights(const run_shape *s) {
    colm_err err = {0};
    model_config c = run_config(s);
    model_weights *w = NULL;
    if (CHECK_OK(model_weights_create(&c, &w, &err), err)) test_shake(w, 7);
    return w;
}

/* The larger error; NaN is the largest of all and stays. */
static inline double run_worse(double worst, double e) {
    return isnan(worst) || e <= worst ? worst : e;
}

static inline size_t run_elems(const model_tensor *t) {
    return (size_t)t->rows * t->cols;
}

/* A gain; and what reads its own chain's columns only, while other matrices read those of chains 1..i. */
static inline bool run_is_gain(const model_tensor *t) {
    return t->kind == PARAM_NORM1 || t->kind == PARAM_NORM2 || t->kind == PARAM_NORMF;
}
static inline bool run_is_own(const model_tensor *t) {
    return run_is_gain(t) || t->kind == PARAM_EMBED || t->kind == PARAM_HEAD;
}

static inline model_weights *run_copy(const model_weights *w) {
    colm_err err = {0};
    model_weights *c = NULL;
    if (CHECK_OK(model_weights_create(&w->config, &c, &err), err))
        memcpy(c->data, w->data, w->n_elems * sizeof *w->data);
    return c;
}

/* Tensor i of both has the same bytes. */
static inline bool run_same_tensor(const model_weights *a, const model_weights *b, size_t i) {
    return run_elems(&a->tensor[i]) == run_elems(&b->tensor[i]) &&
           memcmp(a->data + a->tensor[i].off, b->data + b->tensor[i].off,
                  run_elems(&a->tensor[i]) * sizeof(float)) == 0;
}

static inline bool run_all_zero(const model_weights *w, size_t i) {
    const float *x = w->data + w->tensor[i].off;
    for (size_t k = 0; k < run_elems(&w->tensor[i]); k++)
        if (x[k] != 0) return false;
    return true;
}

/* Scores of B x T rows at every scale, 0-based: nll and top [scale][row], logits [scale][row][vocabulary]. */
typedef struct {
    uint32_t rows, vocab;
    float *nll, *logits;
    uint32_t *top;
} run_scores;

static inline run_scores run_score(ops_machine *m, const model_weights *w, uint32_t B, uint32_t T,
                                   const uint32_t *tokens, const uint32_t *targets) {
    colm_err err = {0};
    uint32_t C = w->config.n_chains, V = w->config.vocab;
    run_scores r = {.rows = B * T, .vocab = V};
    size_t n = (size_t)r.rows * C;
    graph_params gp = {.B = B, .T = T, .keep_logits = true};
    model_state *s = NULL;
    model_graph *g = NULL;
    r.nll = calloc(n, sizeof *r.nll), r.top = calloc(n, sizeof *r.top);
    r.logits = calloc(n * V, sizeof *r.logits);
    if (CHECK(r.nll && r.top && r.logits) && CHECK_OK(run_state(m, w, C, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &gp, &g, &err), err) &&
        CHECK_OK(model_graph_score(g, tokens, targets, r.nll, r.top, &err), err))
        for (uint32_t i = 0; i < C; i++)
            CHECK_OK(model_graph_logits(g, i + 1, r.logits + (size_t)i * r.rows * V, &err), err);
    model_graph_free(&g);
    model_state_free(&s);
    return r;
}

static inline void run_scores_free(run_scores *r) {
    free(r->nll), free(r->top), free(r->logits);
    *r = (run_scores){0};
}

static inline bool run_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return n > 0;
}

/* n rows from row ra of scale sa in a, and from rb of scale sb in b: the same bits in everything. */
static inline bool run_same_rows(const run_scores *a, uint32_t sa, uint32_t ra, const run_scores *b,
                                 uint32_t sb, uint32_t rb, uint32_t n) {
    size_t i = (size_t)sa * a->rows + ra, k = (size_t)sb * b->rows + rb, V = a->vocab;
    return run_finite(a->logits + i * V, n * V) && memcmp(a->nll + i, b->nll + k, n * sizeof *a->nll) == 0 &&
           memcmp(a->top + i, b->top + k, n * sizeof *a->top) == 0 &&
           memcmp(a->logits + i * V, b->logits + k * V, n * V * sizeof *a->logits) == 0;
}

/* Gradients of the chains behind the first `frozen`, in the shape of the weights (zero where frozen). */
static inline model_weights *run_gradients(ops_machine *m, const model_weights *w, uint32_t frozen,
                                           graph_params gp, const uint32_t *tokens, const uint32_t *targets,
                                           graph_report *ret) {
    colm_err err = {0};
    model_weights *grads = NULL;
    model_state *s = NULL;
    model_graph *g = NULL;
    gp.train = true;
    if (CHECK_OK(model_weights_create(&w->config, &grads, &err), err) &&
        CHECK_OK(run_state(m, w, frozen, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &gp, &g, &err), err) &&
        CHECK_OK(model_graph_gradients(g, tokens, targets, ret, &err), err))
        CHECK_OK(model_state_download_grads(s, grads, &err), err);
    model_graph_free(&g);
    model_state_free(&s);
    return grads;
}

#endif
