/* What a chain-of-language-model is made of, and what follows from it by arithmetic alone.
 *
 * Letters: B batch, T context, V vocabulary, L layers, H heads, D width, F feed-forward width, C chains. "Scale
 * i" is the model made of chains 1..i (arXiv 2505.11820 section 3). A chain is explicit: its own columns and
 * heads. */
#ifndef COLM_MODEL_CONFIG_H
#define COLM_MODEL_CONFIG_H

#include "engine/base/err.h"
#include "engine/model/family.h"

#define MODEL_MAX_CHAINS 32

typedef struct {
    uint32_t width;    /* columns of the residual stream that the chain owns */
    uint32_t heads;    /* query heads, each head_dim wide */
    uint32_t kv_heads; /* key-value heads; divides heads */
    uint32_t ffn;      /* columns of the feed-forward product */
    bool tied;         /* its output head is its embedding, stored once */
    double embed_scale,
        attn_scale; /* factors of the token embedding and of q.k that the family derives from the width; 0: 1
                       and 1/sqrt(head_dim). Stored, so that growth never changes them */
} model_chain;

typedef struct {
    uint32_t vocab;    /* V, true count */
    uint32_t context;  /* largest T */
    uint32_t layers;   /* L */
    uint32_t head_dim; /* even (rotary halves) */
    uint32_t n_chains; /* C */
    model_chain chain[MODEL_MAX_CHAINS];
    double rope_theta; /* 10000 */
    double norm_eps;   /* 1e-5 */
    model_family family;
} model_config;

/* Limits, chosen so that no count below leaves 64 bits. */
#define MODEL_MAX_VOCAB (1u << 24)
#define MODEL_MAX_CONTEXT 65536u
#define MODEL_MAX_LAYERS 512u
#define MODEL_MAX_WIDTH 65536u /* all chains together; also of heads * head_dim */
#define MODEL_MAX_FFN 262144u  /* all chains together */
#define MODEL_MAX_HEAD_DIM 1024u

/* Refuses what cannot be a model, naming the numbers: "chain 2: 3 heads are not divisible by 2 kv heads". */
COLM_MUST_USE colm_status model_config_check(const model_config *c, colm_err *err);
/* The first `scale` chains alone (all of them when there are no more); unused entries of chain[] are zero. */
model_config model_config_prefix(const model_config *c, uint32_t scale);
/* "<4,2>" of query heads; cut to n - 1 characters. */
void model_config_name(const model_config *c, char *buf, size_t n);
/* True when `small`'s chains are `big`'s first ones and everything else agrees, but for context (unless
 * positions are learned) and for `kv` of a single chain whose heads read the same key-value heads either way.
 */
bool model_config_extends(const model_config *big, const model_config *small);

/* Turns the short form, heads c_1..c_n of a model with width D, ffn F and kv_heads K in all (S = sum c), into
 * explicit chains: d_i = c_i D / S and so on; what does not divide exactly is refused with the numbers.
 * n is 1 .. MODEL_MAX_CHAINS, ret has room for n. */
COLM_MUST_USE colm_status model_chains_split(const uint32_t *c, uint32_t n, uint32_t width, uint32_t ffn,
                                             uint32_t kv_heads, model_chain *ret, colm_err *err);
/* A new chain of `heads` heads at the proportions of chains 1..n of c (constant head size): width = heads * sum
 * width / sum heads, likewise ffn and kv_heads; what does not divide is refused. */
COLM_MUST_USE colm_status model_chain_grow(const model_config *c, uint32_t heads, model_chain *ret,
                                           colm_err *err);

/* One chain linear of n chains with in[i] input and out[i] output columns: W_i is out[i] x (in[0]+..+in[i]).
 * Weights of chains from+1 .. n, which is also the multiply-adds of one row's forward. */
uint64_t model_linear_params(const uint32_t *in, const uint32_t *out, uint32_t n, uint32_t from);
/* Multiply-adds of one row's backward when chains 1..frozen are frozen: dW of the trained rows, dx for the
 * trained columns. */
uint64_t model_linear_backward(const uint32_t *in, const uint32_t *out, uint32_t n, uint32_t frozen);

/* Parameters of chains from+1 .. to (0-based half-open from, to), embeddings and head included. */
uint64_t model_params(const model_config *c, uint32_t from, uint32_t to);
/* Floating-point operations of one sequence of T tokens, multiply-add = 2, causal pairs T(T+1)/2, head
 * included; norms and other elementwise work is not counted, nor is recomputation. Forward of chains 1..to (the
 * logits of all scales cost no more than the last one's); backward when chains 1..frozen are frozen (only work
 * that is done counts). */
uint64_t model_flops_forward(const model_config *c, uint32_t to, uint32_t T);
uint64_t model_flops_backward(const model_config *c, uint32_t frozen, uint32_t T);

#endif
