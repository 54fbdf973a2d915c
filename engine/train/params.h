/* What a training stage is told. Zero is not a default here: the spec fills every field. */
#ifndef COLM_TRAIN_PARAMS_H
#define COLM_TRAIN_PARAMS_H

#include "engine/model/config.h"
#include "engine/model/precision.h"

typedef struct {
    uint32_t batch;   /* B: sequences per step */
    uint32_t context; /* T: tokens per sequence, <= model context */
    uint64_t tokens;  /* to train on: steps = ceil(tokens / (accumulate*B*T)) */
    double lr;        /* peak learning rate */
    double min_lr;    /* floor of the cosine, as a fraction of lr */
    uint32_t warmup;  /* steps of linear rise: step s (from 0) has lr (s+1)/warmup; 0: none */
    double beta1, beta2, eps;
    double decay;       /* decoupled weight decay of matrices (norm gains never decay) */
    double clip;        /* global gradient norm; 0: off */
    uint32_t log_every; /* steps between stored metrics */
    uint32_t frozen;    /* chains 1..frozen do not train */
    bool head_only;     /* only the output heads of the chains beyond `frozen` train */
    bool documents;     /* windows see their own document only; false: packed windows see across documents */
    bool recompute;     /* keep each layer's input alone and compute the rest again: less memory, more time */
    /* Of these zero is the default. */
    uint32_t accumulate; /* micro-batches of `batch` sequences per step; 0: one. Targets weigh the same however
                            they are split */
    model_precision precision;
    uint32_t scale; /* the largest scale with a loss; later chains do not take part. 0: the full scale */
    double lambda[MODEL_MAX_CHAINS]; /* weight of each scale's cross-entropy, that of `scale` above 0; all 0:
                                        `scale` alone */
} train_params;

uint64_t train_steps(const train_params *p); /* 0 when batch or context is 0 */
/* Learning rate of step s in 0 .. steps-1: one pure function. Rises to lr at step warmup-1, still lr at step
 * warmup, then half a cosine towards lr * min_lr, which it meets at s = steps. So no step's rate is 0, and a
 * warmup of 0, of all steps, or of more (the peak is then never met) needs no special case. */
double train_lr(const train_params *p, uint64_t step);

#endif
