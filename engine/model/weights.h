/* A model's parameters on the host: a table of named tensors over one block of floats, and what is done to them
 * whole: initialise, grow, cut to a scale, save and load (safetensors).
 *
 * Every tensor belongs to one chain; tensors of chain 1 come first, then chain 2 and so on, so a scale's
 * tensors are a prefix of the table. A chain's rows of a linear are one tensor of all columns it may read,
 * (e_i, D_i): the blocks above the diagonal do not exist. Chains are numbered from 0 here and from 1 in names:
 * "layers.0.q.1" is chain 1's query matrix. */
#ifndef COLM_MODEL_WEIGHTS_H
#define COLM_MODEL_WEIGHTS_H

#include "engine/base/hash.h"
#include "engine/base/str.h"
#include "engine/model/config.h"

/* In table order: a chain's embeddings, then its layers, then its end. Letters: d_i width, f_i feed-forward
 * columns, q_i and k_i query and key-value columns of the chain; D_i, Q_i, F_i of chains 1..i together. */
typedef enum {
    PARAM_EMBED, /* (V, d_i) */
    PARAM_POS,   /* (context, d_i) learned positions */
    PARAM_NORM1,
    PARAM_NORM1B, /* (d_i) gain, bias */
    PARAM_Q,
    PARAM_K,
    PARAM_V, /* (q_i, D_i), (k_i, D_i) twice */
    PARAM_BQ,
    PARAM_BK,
    PARAM_BV, /* their biases */
    PARAM_QN,
    PARAM_KN, /* (head_dim) gains of the QK-norm */
    PARAM_O,
    PARAM_BO,    /* (d_i, Q_i), (d_i) */
    PARAM_POST1, /* (d_i) gain of the norm after attention */
    PARAM_NORM2,
    PARAM_NORM2B, /* (d_i) */
    PARAM_W1,
    PARAM_W3,
    PARAM_B1,
    PARAM_B3, /* (f_i, D_i) gate and up, (f_i) */
    PARAM_W2,
    PARAM_B2,    /* (d_i, F_i), (d_i) */
    PARAM_POST2, /* (d_i) */
    PARAM_NORMF,
    PARAM_NORMFB, /* (d_i) */
    PARAM_HEAD,   /* (V, d_i); separate heads (V, D_i); a tied chain has none */
    PARAM_KINDS
} param_kind;

/* Column spaces: the residual stream, query heads, key-value heads, feed-forward, one head, vocabulary,
 * positions. */
typedef enum { SPACE_D, SPACE_Q, SPACE_K, SPACE_F, SPACE_HEAD, SPACE_V, SPACE_POS, SPACE_ONE } param_space;
typedef enum { INIT_MATRIX, INIT_RESIDUAL, INIT_GAIN, INIT_ZERO } param_init;
typedef struct {
    const char *name;       /* "q" */
    param_space rows, cols; /* rows SPACE_ONE: a vector */
    bool own;               /* reads only the chain's own columns; else those of chains 1..i */
    bool per_layer;
    param_init init;
} param_info;
const param_info *param_get(param_kind k);
static inline bool param_is_vector(param_kind k) {
    return param_get(k)->rows == SPACE_ONE;
}
/* Columns of chain i in a space. */
uint32_t param_space_width(const model_config *c, param_space s, uint32_t chain);
/* Whether a kind reads only its own chain's columns, in this configuration. */
bool param_is_own(const model_config *c, param_kind k);
/* True shape of a chain's tensor; 0 rows when it has none. Columns of chains from+1 .. i only, when it reads
 * several. */
uint32_t param_rows(const model_config *c, param_kind k, uint32_t chain);
uint32_t param_cols(const model_config *c, param_kind k, uint32_t chain, uint32_t from);

typedef struct {
    char name[48];
    param_kind kind;
    uint32_t layer, chain; /* 0-based; layer 0 for those outside layers */
    uint32_t rows, cols;   /* true counts; a vector has rows 1 */
    size_t off;            /* first element in weights.data */
} model_tensor;

typedef struct {
    model_config config;
    model_tensor *tensor;
    size_t n_tensors;
    float *data; /* n_elems floats, row-major per tensor, no padding */
    size_t n_elems;
} model_weights;

/* The table of a configuration's tensors alone, data NULL: what a plan machine needs, at any size. */
COLM_MUST_USE colm_status model_weights_outline(const model_config *c, model_weights **ret, colm_err *err);
/* All tensors of a configuration, zero-filled. */
COLM_MUST_USE colm_status model_weights_create(const model_config *c, model_weights **ret, colm_err *err);
void model_weights_free(model_weights **w);
const model_tensor *model_weights_find(const model_weights *w, const char *name);
const model_tensor *model_weights_at(const model_weights *w, param_kind k, uint32_t layer,
                                     uint32_t chain); /* or NULL */

/* Random start: matrices and embeddings normal(0, 0.02), those that write to the residual stream 0.02/sqrt(2L),
 * gains 1. Each element is a pure function of (seed, tensor name, index): a chain starts the same whatever
 * stands beside it. */
COLM_MUST_USE colm_status model_weights_init(const model_config *c, uint64_t seed, model_weights **ret,
                                             colm_err *err);
/* Appends the chains of `bigger` beyond w's: old tensors keep their bytes, the new chains' bodies start as
 * above, their heads at zero, so that the logits do not change (colm.md section 3; paper section 3.3). */
COLM_MUST_USE colm_status model_weights_grow(const model_weights *w, const model_config *bigger, uint64_t seed,
                                             model_weights **ret, colm_err *err);
/* Copy of chains 1..scale alone. */
COLM_MUST_USE colm_status model_weights_prefix(const model_weights *w, uint32_t scale, model_weights **ret,
                                               colm_err *err);

/* The configuration as one line of JSON, keys in fixed order; and back, `name` standing for the file in errors.
 * Family keys may be missing: plain. */
void model_config_json(const model_config *c, str *out);
COLM_MUST_USE colm_status model_config_read(const char *name, const char *text, model_config *ret,
                                            colm_err *err);

/* Checkpoints. The file holds the configuration and the tensors, nothing of time, host or path: equal weights,
 * equal bytes. Loading is strict: missing, extra or misshapen tensors are COLM_E_INPUT with their names. */
COLM_MUST_USE colm_status model_weights_save(const model_weights *w, const char *path, colm_err *err);
COLM_MUST_USE colm_status model_weights_load(const char *path, model_weights **ret, colm_err *err);
/* Digest of one tensor's bytes; and of tensors of the first `chains` chains with their names. */
void model_tensor_digest(const model_weights *w, const model_tensor *t, char ret[HASH_TEXT]);
COLM_MUST_USE colm_status model_weights_digest(const model_weights *w, uint32_t chains, char ret[HASH_TEXT],
                                               colm_err *err);

#endif
