/* The table of operations. */
#include "engine/ops/internal.h"

static uint64_t flops_linear(const ops_push *p) {
    return 2ull * p->linear.M * p->linear.N * p->linear.K;
}
static uint64_t flops_linears(const ops_push *p) {
    return 128ull * p->linears.M * p->linears.work;
}
/* T(T+1)/2 pairs a sequence; each pair costs `products` dot products of hd. */
static uint64_t attn_pairs(const struct abi_attn *a, uint64_t products) {
    return products * a->rows * (a->T + 1ull) / 2 * a->heads * a->hd * 2;
}
static uint64_t flops_attn(const ops_push *p) {
    return attn_pairs(&p->attn, 2);
}
static uint64_t flops_attn_dq(const ops_push *p) {
    return attn_pairs(&p->attn, 3);
}
static uint64_t flops_attn_dkv(const ops_push *p) {
    return attn_pairs(&p->attn, 4);
}
static uint64_t flops_attn_delta(const ops_push *p) {
    return 2ull * p->attn.rows * p->attn.heads * p->attn.hd;
}
static uint64_t flops_rope(const ops_push *p) {
    return 3ull * p->rope.rows * p->rope.heads * p->rope.hd;
}
static uint64_t flops_norm(const ops_push *p) {
    return 4ull * p->norm.rows * p->norm.cols;
}
static uint64_t flops_ew(const ops_push *p) {
    return 10ull * p->ew.rows * p->ew.cols;
}
static uint64_t flops_xent(const ops_push *p) {
    return 10ull * p->xent.rows * p->xent.vocab;
}
static uint64_t flops_embed(const ops_push *p) {
    return (uint64_t)p->embed.rows * p->embed.cols;
}
static uint64_t flops_embed_grad(const ops_push *p) {
    return (uint64_t)p->embed_grad.unique * p->embed_grad.cols;
}
static uint64_t flops_sumsq(const ops_push *p) {
    return 2ull * p->sumsq.n;
}
static uint64_t flops_clip(const ops_push *p) {
    return p->clip.n;
}
static uint64_t flops_adamw(const ops_push *p) {
    return 16ull * p->adamw.n;
}
static uint64_t flops_zero(const ops_push *p) {
    return p->zero.n;
}
static uint64_t flops_cast(const ops_push *p) {
    return p->cast.n;
}

static uint64_t flops_head_norm(const ops_push *p) {
    return 4ull * p->head_norm.rows * p->head_norm.heads * p->head_norm.hd;
}
static uint64_t flops_bias(const ops_push *p) {
    return (uint64_t)p->bias.rows * p->bias.cols;
}
static uint64_t flops_add(const ops_push *p) {
    return (uint64_t)p->ew.rows * p->ew.cols;
}

#define ROW(id, member, access, dtypes, cost)                                                                \
    {                                                                                                        \
#id, access, dtypes, sizeof(((ops_push *)0)->member), ref_##id, cost, elements_##id, shape_##member, \
            variants_##id, &n_variants_##id                                                                  \
    }

static const ops_row table[OP_COUNT] = {
    [OP_EMBED] = ROW(embed, embed, "rrm", "uff", flops_embed),
    [OP_EMBED_GRAD] = ROW(embed_grad, embed_grad, "rrrrm", "uuuff", flops_embed_grad),
    [OP_NORM] = ROW(norm, norm, "rrww", "ffhf", flops_norm),
    [OP_NORM_DX] = ROW(norm_dx, norm, "rrrrm", "fffhf", flops_norm),
    [OP_NORM_DG] = ROW(norm_dg, norm, "rrrm", "ffhf", flops_norm),
    [OP_LINEAR] = ROW(linear, linear, "rrrw", "hhhh", flops_linear),
    [OP_LINEAR_DX] = ROW(linear_dx, linear, "rrrw", "hhhh", flops_linear),
    [OP_LINEAR_DW] = ROW(linear_dw, linear, "rrrw", "hhff", flops_linear),
    [OP_LINEARS] = ROW(linears, linears, "rrrwr", "hhhhf", flops_linears),
    [OP_LINEARS_DX] = ROW(linears_dx, linears, "rrrwr", "hhhhf", flops_linears),
    [OP_LINEARS_DW] = ROW(linears_dw, linears, "rrrwr", "hhfff", flops_linears),
    [OP_ROPE] = ROW(rope, rope, "mr", "hf", flops_rope),
    [OP_ATTN] = ROW(attn, attn, "rrrrwm", "hhhuhf", flops_attn),
    [OP_ATTN_DELTA] = ROW(attn_delta, attn, "rrm", "hhf", flops_attn_delta),
    [OP_ATTN_DQ] = ROW(attn_dq, attn, "rrrrrrw", "hhhhfuh", flops_attn_dq),
    [OP_ATTN_DKV] = ROW(attn_dkv, attn, "rrrrrrmm", "hhhhfuhh", flops_attn_dkv),
    [OP_SWIGLU] = ROW(swiglu, ew, "rrw", "hhh", flops_ew),
    [OP_SWIGLU_GRAD] = ROW(swiglu_grad, ew, "mmr", "hhh", flops_ew),
    [OP_XENT] = ROW(xent, xent, "rrww", "fufu", flops_xent),
    [OP_XENT_GRAD] = ROW(xent_grad, xent, "mrw", "fuf", flops_xent),
    [OP_SUMSQ] = ROW(sumsq, sumsq, "rw", "ff", flops_sumsq),
    [OP_CLIP] = ROW(clip, clip, "rw", "ff", flops_clip),
    [OP_ADAMW] = ROW(adamw, adamw, "mrmmr", "fffff", flops_adamw),
    [OP_ZERO] = ROW(zero, zero, "w", "h", flops_zero),
    [OP_HEAD_NORM] = ROW(head_norm, head_norm, "rrww", "hfhf", flops_head_norm),
    [OP_HEAD_NORM_DX] = ROW(head_norm_dx, head_norm, "rrrrw", "hffhh", flops_head_norm),
    [OP_HEAD_NORM_DG] = ROW(head_norm_dg, head_norm, "rrrm", "hfhf", flops_head_norm),
    [OP_BIAS] = ROW(bias, bias, "mr", "hf", flops_bias),
    [OP_BIAS_GRAD] = ROW(bias_grad, bias, "rm", "hf", flops_bias),
    [OP_ADD] = ROW(add, ew, "rrw", "hhh", flops_add),
    [OP_CAST] = ROW(cast, cast, "rw", "fh", flops_cast),
};

const ops_row *ops_get(ops_id op) {
    return &table[op];
}
