/* A model's computation as flat lists of operations, built once per shape (B, T) and run many times.
 *
 * A training graph runs forward, the cross-entropy of every scale that has a weight, backward and the AdamW
 * update of the trained chains in one recording. An evaluation graph runs forward and gives every scale's score
 * per row from one pass: logits of scale i are those of scale i-1 plus W_i x_i (colm.md section 1). Rows are
 * b*T + t. Of a frozen prefix the forward keeps only what later chains read (both norm outputs, attention
 * output, feed-forward product; in CoLM-Air keys and values); the rest lives in scratch. */
#ifndef COLM_MODEL_GRAPH_H
#define COLM_MODEL_GRAPH_H

#include "engine/model/state.h"
#include "engine/ops/ceiling.h"

typedef struct {
    uint32_t B, T;
    bool train;           /* needs a state with trained parameters */
    bool keep_logits;     /* evaluation: every scale's logits of all rows can be read afterwards */
    uint32_t head_rows;   /* rows of logits at a time, a multiple of 64; 0: as many as fit 32 MiB */
    const double *lambda; /* training: weight of each scale's cross-entropy, not all 0; NULL: the full
                             scale alone. Copied */
    bool documents; /* packed windows: a row sees its own document only, which begins after a token `eos` */
    uint32_t eos;
    bool recompute; /* keep each layer's input only and compute the rest again in the backward pass */
} graph_params;

typedef struct model_graph model_graph;
COLM_MUST_USE colm_status model_graph_create(model_state *s, const graph_params *p, model_graph **ret,
                                             colm_err *err);
void model_graph_free(model_graph **g);

/* One step of AdamW (Loshchilov & Hutter 2019) with global norm clipping. */
typedef struct {
    double lr, beta1, beta2, eps, decay, clip;
    uint64_t t; /* 1 for the first step: bias correction */
} graph_update;
typedef struct {
    double
        loss; /* sum over scales of lambda times the mean cross-entropy in nats per target, before the update */
    double grad_norm; /* before clipping, without the loss scale; of trained parameters */
    bool skipped;     /* gradients were not finite: no parameter and no moment changed */
} graph_report;
/* Gradients of the loss times a positive factor (1 at first), so that small ones are not lost in float16; the
 * update divides it out again, nothing reported shows it. A power of two changes no bit where nothing overflows
 * or underflows. To be kept during the micro-batches of a step. */
void model_graph_scale_loss(model_graph *g, double scale);
/* A step over one batch. tokens, targets: B*T ids each, below the vocabulary, or ABI_NO_TARGET. Allocates
 * nothing. */
COLM_MUST_USE colm_status model_graph_train(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                            const graph_update *u, graph_report *ret, colm_err *err);
/* The same over several micro-batches, weighted by targets over the whole step: model_graph_accumulate for
 * each, where `targets_in_step` counts the rows with a target in all of them and `micro` is its number from 0;
 * then model_graph_apply. *ret's loss is this micro-batch's share of the step's. */
COLM_MUST_USE colm_status model_graph_accumulate(model_graph *g, const uint32_t *tokens,
                                                 const uint32_t *targets, uint64_t targets_in_step,
                                                 uint32_t micro, graph_report *ret, colm_err *err);
COLM_MUST_USE colm_status model_graph_apply(model_graph *g, const graph_update *u, graph_report *ret,
                                            colm_err *err);
/* Forward and backward without the update: gradients, times the loss scale, stay in the state (tests). */
COLM_MUST_USE colm_status model_graph_gradients(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                                graph_report *ret, colm_err *err);

/* Where a step's time goes: sums over its calls by operation, or by operation and shape. */
typedef struct {
    const char *op;
    char shape[OPS_SHAPE]; /* "" where shapes are summed up */
    uint64_t calls;
    double seconds, flops, bytes; /* flops: the table's estimate; bytes: ops_call_bytes */
    double ideal;                 /* seconds at the device's ceilings, call by call; 0 without them */
} graph_cost;
typedef struct {
    bool by_shape;              /* set before the first step */
    const ops_ceiling *ceiling; /* NULL: none */
    graph_cost *cost;           /* rows in order of first appearance; sums over all profiled steps */
    size_t n;
    uint64_t steps;
    double step_seconds; /* by the host's clock: with batch, recording and reports that no call accounts for */
    ops_timing timing;
} graph_profile;
/* A step as model_graph_train does it, each call timed (ops_run_timed) and added to *io. */
COLM_MUST_USE colm_status model_graph_profile(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                              const graph_update *u, graph_profile *io, colm_err *err);
/* What a step comes to, counted and not run: calls, flops, bytes and ideal are added to *io. */
COLM_MUST_USE colm_status model_graph_count(const model_graph *g, graph_profile *io, colm_err *err);
/* Every operation alone: of each row's first call as many as take about `seconds`, one behind the other; their
 * median stands for all calls of the row. Values are garbage afterwards, parameters too. by_shape must be set.
 */
COLM_MUST_USE colm_status model_graph_alone(model_graph *g, double seconds, graph_profile *io, colm_err *err);
void graph_profile_done(graph_profile *p);

/* The buffer of per-row losses (tests read its doubles on the reference machine). */
ops_buf model_graph_nll(const model_graph *g);

/* Evaluation: per scale s and row r, nll[s*B*T + r] = -log p(target) (0 where the target is ABI_NO_TARGET) and
 * whether the target is the first maximum. top may be NULL. */
COLM_MUST_USE colm_status model_graph_score(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                            float *ret_nll, uint32_t *ret_top, colm_err *err);
/* Logits of a scale (1-based) after model_graph_score, with keep_logits: B*T rows of V floats. */
COLM_MUST_USE colm_status model_graph_logits(model_graph *g, uint32_t scale, float *ret, colm_err *err);

#endif
