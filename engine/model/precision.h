/* In what a run keeps the weights that its matrix products read and most of its activations: float32, or 16
 * bits with float32 arithmetic.
 *
 * In every precision the parameters themselves (the masters that AdamW moves), their gradients and moments, the
 * residual stream, the sums that go into it, statistics and logits are float32. 16-bit: a working copy of the
 * parameters, rounded to nearest even after every update; what chain linears and attention read; and the
 * gradients of queries, keys, values and the feed-forward's hidden columns. */
#ifndef COLM_MODEL_PRECISION_H
#define COLM_MODEL_PRECISION_H

typedef enum {
    PRECISION_F32,
    PRECISION_BF16, /* the range of float32, 8 bits of precision */
    PRECISION_F16,  /* 11 bits of precision, up to 65504: gradients need a loss scale (engine/train/scale.h) */
    PRECISIONS
} model_precision;

extern const char *const model_precision_name[PRECISIONS]; /* "f32", "bf16", "f16" */

#endif
