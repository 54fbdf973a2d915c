/* A training stage: weights in, weights out.
 *
 * Batches, schedule and update are pure functions of (seed, step), so equal inputs on one device, driver and
 * build give equal bits. Chains 1..params.frozen keep their bytes. */
#ifndef COLM_TRAIN_LOOP_H
#define COLM_TRAIN_LOOP_H

#include "engine/data/corpus.h"
#include "engine/model/graph.h"
#include "engine/train/params.h"

typedef struct {
    uint64_t step, steps; /* this step (from 0), and all */
    double loss, grad_norm, lr;
    double tokens_per_s; /* of this step */
    double loss_scale;   /* of this step in float16, else 0 */
    uint64_t skipped;    /* steps so far whose gradients overflowed float16: they changed nothing. grad_norm of
                            such a step is not finite */
} train_tick;

typedef struct {
    train_params params;
    const batch_part *part;
    size_t n_parts;
    uint64_t seed;
    uint32_t eos; /* the token that ends documents; for params.documents */
    /* After every step; may be NULL. Returning true stops with COLM_E_INTERRUPTED. */
    bool (*tick)(void *user, const train_tick *t);
    void *user;
} train_job;

typedef struct {
    uint64_t steps, tokens;
    double flops;     /* forward and backward work done, by the convention of colm.md section 2 */
    double seconds;   /* of the steps, without set-up */
    double loss;      /* mean over the last tenth of the steps */
    uint64_t memory;  /* device bytes at the peak */
    uint64_t skipped; /* steps without an update, in float16: engine/train/scale.h */
} train_result;

/* Trains w in place. On failure w keeps its old values (but for a device lost while the result is read back,
 * which may leave some tensors new). A loss or gradient that is not finite (in float16 LOSS_SCALE_PATIENCE such
 * gradients one after another), and a trained tensor that never had a gradient, are COLM_E_CHECK with the step
 * or the tensor's name. */
COLM_MUST_USE colm_status train_run(ops_machine *m, model_weights *w, const train_job *job, train_result *ret,
                                    colm_err *err);

/* Parameters that a stage trains, and tokens that it reads: whole steps. */
uint64_t train_trained(const model_config *c, const train_params *p);
uint64_t train_tokens(const train_params *p);
/* FLOPs of a stage (exact up to 2^53; a day of a large GPU passes 2^64), and the device bytes it will take,
 * found by building it on a plan machine. COLM_E_INPUT when a part of it could never train. */
double train_flops(const model_config *c, const train_params *p);
COLM_MUST_USE colm_status train_memory(const model_config *c, const train_params *p, uint64_t *ret,
                                       colm_err *err);
/* COLM_E_MEMORY when that is more than `available`, with the bytes of each purpose and what would lower them.
 */
COLM_MUST_USE colm_status train_fits(const model_config *c, const train_params *p, uint64_t available,
                                     colm_err *err);

#endif
