/* The loss scale of float16 training: gradients are computed times a power of two, so that small ones do not
 * vanish below 2^-24, and divided again in float32 by the update. As in mixed precision training (arXiv
 * 1710.03740): a step whose gradients overflowed is skipped whole and halves the scale; a long series without
 * one doubles it.
 *
 * A value that follows from the verdicts on all steps so far and from nothing else: stored and read back, a
 * training goes on with the same bits. */
#ifndef COLM_TRAIN_SCALE_H
#define COLM_TRAIN_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define LOSS_SCALE_FIRST 65536.0
#define LOSS_SCALE_LEAST 1.0
#define LOSS_SCALE_MOST 16777216.0
#define LOSS_SCALE_SERIES 2000u /* good steps before it doubles */
#define LOSS_SCALE_PATIENCE 20u /* steps skipped one after another before the training fails */

typedef struct {
    double factor;    /* of the next step's loss */
    uint64_t applied; /* steps that moved parameters: what the bias correction of AdamW counts */
    uint64_t skipped; /* and those that did not */
    uint32_t good;    /* applied since the factor last changed */
    uint32_t in_row;  /* skipped since one was last applied */
} loss_scale;

loss_scale loss_scale_first(void);                       /* before the first step */
loss_scale loss_scale_after(loss_scale s, bool skipped); /* after one more */

#endif
