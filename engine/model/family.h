/* What differs between families of models (Llama, Mistral, Qwen, GPT-2, Gemma, CoLM-Air): one table of
 * switches. Zero is the plain CoLM of arXiv 2505.11820: RMSNorm, rotary positions, SwiGLU, own keys and values
 * per chain, no biases. */
#ifndef COLM_MODEL_FAMILY_H
#define COLM_MODEL_FAMILY_H

#include "engine/base/json.h"
#include "engine/base/str.h"

typedef enum { NORM_RMS, NORM_RMS_PLUS_ONE, NORM_LAYER } model_norm; /* x s g; x s (1+g); (x-mean) s g + b */
typedef enum {
    FFN_SWIGLU,
    FFN_GEGLU,
    FFN_GELU,
    FFN_GELU_ERF
} model_ffn; /* two gated, two of two matrices; geglu and gelu
                by tanh */
typedef enum { POSITION_ROPE, POSITION_LEARNED } model_position;
typedef enum { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3 } model_rope_scaling;
typedef enum {
    KV_OWN,
    KV_GROUPED,
    KV_TILED
} model_kv; /* each chain its own keys and values; or CoLM-Air: those of
               chain 1, by one of two head maps (colm.md section 1) */
typedef enum {
    HEAD_NESTED,
    HEAD_SEPARATE
} model_head; /* logits add up over chains; or an own matrix per scale */

typedef struct {
    uint32_t norm, ffn, position, rope_scaling, kv, head; /* the enums above */
    bool bias_qkv, bias_o, bias_ffn;
    bool qk_norm;    /* RMS over each head of q and k before the rotation, gains per chain */
    bool post_norms; /* a norm (as `norm`, without bias) on the output of attention and of the feed-forward,
                        before the residual sum */
    double rope_factor, rope_low, rope_high; /* of linear and llama3 scaling; 0 where unused */
    uint32_t rope_original;                  /* llama3: the context it was trained for */
    double attn_softcap, logit_softcap;      /* 0: none */
    uint32_t window;                         /* sliding window in tokens, 0: none */
    uint32_t
        window_every; /* with a window: layer l sees all where (l+1) % window_every == 0; 0: no layer does */
} model_family;

static inline bool model_ffn_gated(const model_family *f) {
    return f->ffn == FFN_SWIGLU || f->ffn == FFN_GEGLU;
}

/* Members of a JSON object of these names; those that are missing keep their value. Combinations are checked by
 * model_config_check. */
COLM_MUST_USE colm_status model_family_read(json_value object, model_family *io, colm_err *err);
/* The i-th member (model_family_key) from its value. */
COLM_MUST_USE colm_status model_family_read_member(size_t i, json_value v, model_family *io, colm_err *err);
/* ,"norm":"rms",... : every member, each after a comma. */
void model_family_add(const model_family *f, str *out);
/* The i-th member's name, NULL after the last. */
const char *model_family_key(size_t i);
bool model_family_equal(const model_family *a, const model_family *b);

#endif
