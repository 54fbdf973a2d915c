/* What calls move and what they look like: elements per tensor, each tensor once, and their sizes in words. */
#include <stdio.h>

#include "engine/ops/groups.h"
#include "engine/ops/internal.h"

static void fill(uint64_t *n, const uint64_t *of, size_t count) {
    for (size_t i = 0; i < count; i++) n[i] = of[i];
}
#define FILL(...) fill(n, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

OPS_ELEMENTS(embed) {
    const struct abi_embed *p = &c->p.embed;
    const uint64_t all = (uint64_t)p->rows * p->cols;
    FILL(p->rows, all, p->acc ? 2 * all : all);
}
/* How many rows there are stands in `order` alone. */
OPS_ELEMENTS(embed_grad) {
    const struct abi_embed_grad *p = &c->p.embed_grad;
    const uint64_t rows = c->t[2].len, made = (uint64_t)p->unique * p->cols;
    FILL(p->unique, p->unique + 1ull, rows, rows * p->cols, p->acc ? 2 * made : made);
}
OPS_SHAPE_OF(embed) {
    snprintf(buf, size, "cols=%u", p->embed.cols);
}
OPS_SHAPE_OF(embed_grad) {
    snprintf(buf, size, "cols=%u", p->embed_grad.cols);
}

static uint64_t norm_all(const ops_call *c) {
    return (uint64_t)c->p.norm.rows * c->p.norm.cols;
}
static uint64_t norm_stats(const ops_call *c) {
    return (c->p.norm.kind == ABI_NORM_LAYER ? 2ull : 1ull) * c->p.norm.rows;
}
OPS_ELEMENTS(norm) {
    FILL(norm_all(c), c->p.norm.cols, norm_all(c), norm_stats(c));
}
OPS_ELEMENTS(norm_dx) {
    FILL(norm_all(c), c->p.norm.cols, norm_stats(c), norm_all(c), 2 * norm_all(c));
}
OPS_ELEMENTS(norm_dg) {
    FILL(norm_all(c), norm_stats(c), norm_all(c), 2ull * c->p.norm.cols);
}
OPS_SHAPE_OF(norm) {
    snprintf(buf, size, "width=%u", p->norm.width);
}

static uint64_t head_norm_heads(const ops_call *c) {
    return (uint64_t)c->p.head_norm.rows * c->p.head_norm.heads;
}
static uint64_t head_norm_all(const ops_call *c) {
    return head_norm_heads(c) * c->p.head_norm.hd;
}
OPS_ELEMENTS(head_norm) {
    FILL(head_norm_all(c), c->p.head_norm.hd, head_norm_all(c), head_norm_heads(c));
}
OPS_ELEMENTS(head_norm_dx) {
    FILL(head_norm_all(c), c->p.head_norm.hd, head_norm_heads(c), head_norm_all(c), head_norm_all(c));
}
OPS_ELEMENTS(head_norm_dg) {
    FILL(head_norm_all(c), head_norm_heads(c), head_norm_all(c), 2ull * c->p.head_norm.hd);
}
OPS_SHAPE_OF(head_norm) {
    snprintf(buf, size, "heads=%u hd=%u", p->head_norm.heads, p->head_norm.hd);
}

/* X (M x K), W (N x K) and Y (M x N): two of them make the third, which starts from R or from zero. */
static void product(uint64_t n[], uint64_t a, uint64_t b, uint64_t made, bool init) {
    FILL(a, b, init ? made : 0, made);
}
OPS_ELEMENTS(linear) {
    const struct abi_linear *p = &c->p.linear;
    product(n, (uint64_t)p->M * p->K, (uint64_t)p->N * p->K, (uint64_t)p->M * p->N, p->init);
}
OPS_ELEMENTS(linear_dx) {
    const struct abi_linear *p = &c->p.linear;
    product(n, (uint64_t)p->M * p->N, (uint64_t)p->N * p->K, (uint64_t)p->M * p->K, p->init);
}
OPS_ELEMENTS(linear_dw) {
    const struct abi_linear *p = &c->p.linear;
    product(n, (uint64_t)p->M * p->N, (uint64_t)p->M * p->K, (uint64_t)p->N * p->K, p->init);
}
OPS_SHAPE_OF(linear) {
    snprintf(buf, size, "M=%u N=%u K=%u", p->linear.M, p->linear.N, p->linear.K);
}

/* Joined linears: their blocks' weights, and of the activations what the views span. */
static void products(uint64_t n[], const ops_call *c, bool gradient) {
    const uint64_t weights = 64ull * c->p.linears.work, made = gradient ? weights : c->t[3].len;
    const bool from = c->p.linears.init || c->t[2].buf != c->t[3].buf || c->t[2].off != c->t[3].off;
    FILL(c->t[0].len, gradient ? c->t[1].len : weights, from ? made : 0, made, c->t[4].len);
}
OPS_ELEMENTS(linears) {
    products(n, c, false);
}
OPS_ELEMENTS(linears_dx) {
    products(n, c, false);
}
OPS_ELEMENTS(linears_dw) {
    products(n, c, true);
}
OPS_SHAPE_OF(linears) {
    snprintf(buf, size, "tiles=%u", p->linears.tiles);
}

OPS_ELEMENTS(bias) {
    const uint64_t all = (uint64_t)c->p.bias.rows * c->p.bias.cols;
    FILL(2 * all, c->p.bias.cols);
}
OPS_ELEMENTS(bias_grad) {
    const uint64_t all = (uint64_t)c->p.bias.rows * c->p.bias.cols;
    FILL(all, 2ull * c->p.bias.cols);
}
OPS_SHAPE_OF(bias) {
    snprintf(buf, size, "cols=%u", p->bias.cols);
}

OPS_ELEMENTS(rope) {
    const struct abi_rope *p = &c->p.rope;
    FILL(2ull * p->rows * p->heads * p->hd, (uint64_t)p->T * p->hd);
}
OPS_SHAPE_OF(rope) {
    snprintf(buf, size, "heads=%u hd=%u", p->rope.heads, p->rope.hd);
}

typedef struct {
    uint64_t q, kv, heads, first; /* elements of Q, of K as far as it is read, of one statistic, of first */
} attn_sizes;
static attn_sizes attn_of(const struct abi_attn *p) {
    const uint64_t kv_heads = p->heads < p->kv_heads ? p->heads : p->kv_heads, rows = p->rows;
    return (attn_sizes){rows * p->heads * p->hd, rows * kv_heads * p->hd, rows * p->heads,
                        p->masked ? rows : 0};
}
OPS_ELEMENTS(attn) {
    const attn_sizes s = attn_of(&c->p.attn);
    FILL(s.q, s.kv, s.kv, s.first, s.q, s.heads);
}
OPS_ELEMENTS(attn_delta) {
    const attn_sizes s = attn_of(&c->p.attn);
    FILL(s.q, s.q, s.heads);
}
OPS_ELEMENTS(attn_dq) {
    const attn_sizes s = attn_of(&c->p.attn);
    FILL(s.q, s.kv, s.kv, s.q, 2 * s.heads, s.first, s.q);
}
OPS_ELEMENTS(attn_dkv) {
    const attn_sizes s = attn_of(&c->p.attn);
    const uint64_t made = c->p.attn.acc ? 2 * s.kv : s.kv;
    FILL(s.q, s.kv, s.kv, s.q, 2 * s.heads, s.first, made, made);
}
OPS_SHAPE_OF(attn) {
    snprintf(buf, size, "heads=%u/%u hd=%u T=%u", p->attn.heads, p->attn.kv_heads, p->attn.hd, p->attn.T);
}

static uint64_t ew_all(const ops_call *c) {
    return (uint64_t)c->p.ew.rows * c->p.ew.cols;
}
OPS_ELEMENTS(swiglu) {
    FILL(ew_all(c), c->p.ew.plain ? 0 : ew_all(c), ew_all(c));
}
OPS_ELEMENTS(swiglu_grad) {
    FILL(2 * ew_all(c), c->p.ew.plain ? 0 : 2 * ew_all(c), ew_all(c));
}
OPS_ELEMENTS(add) {
    FILL(ew_all(c), ew_all(c), ew_all(c));
}
OPS_SHAPE_OF(ew) {
    snprintf(buf, size, "cols=%u", p->ew.cols);
}

OPS_ELEMENTS(xent) {
    const struct abi_xent *p = &c->p.xent;
    FILL((uint64_t)p->rows * p->vocab, p->rows, p->rows, p->rows);
}
OPS_ELEMENTS(xent_grad) {
    const struct abi_xent *p = &c->p.xent;
    FILL(2ull * p->rows * p->vocab, p->rows, p->rows);
}
OPS_SHAPE_OF(xent) {
    snprintf(buf, size, "rows=%u vocab=%u", p->xent.rows, p->xent.vocab);
}

OPS_ELEMENTS(sumsq) {
    FILL(c->p.sumsq.n, groups_ceil(c->p.sumsq.n, ABI_SUMSQ_CHUNK));
}
OPS_SHAPE_OF(sumsq) {
    snprintf(buf, size, "n=%u", p->sumsq.n);
}
OPS_ELEMENTS(clip) {
    FILL(c->p.clip.n, 3);
}
OPS_SHAPE_OF(clip) {
    snprintf(buf, size, "n=%u", p->clip.n);
}
OPS_ELEMENTS(adamw) {
    const uint64_t each = c->p.adamw.n;
    FILL(2 * each, each, 2 * each, 2 * each, 2);
}
OPS_SHAPE_OF(adamw) {
    snprintf(buf, size, "n=%u", p->adamw.n);
}
OPS_ELEMENTS(cast) {
    FILL(c->p.cast.n, c->p.cast.n);
}
OPS_SHAPE_OF(cast) {
    snprintf(buf, size, "n=%u", p->cast.n);
}
OPS_ELEMENTS(zero) {
    FILL(c->p.zero.n);
}
OPS_SHAPE_OF(zero) {
    snprintf(buf, size, "n=%u", p->zero.n);
}

uint64_t ops_call_bytes(const ops_machine *m, const ops_call *c) {
    const ops_row *row = ops_get(c->op);
    uint64_t n[OPS_MAX_TENSORS] = {0}, sum = 0;
    row->elements(c, n);
    for (size_t k = 0; row->access[k]; k++) sum += n[k] * ops_dtype_size(machine_slot(m, c->t[k].buf)->dtype);
    return sum;
}
