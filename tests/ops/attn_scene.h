/* Scenes of attention and its gradients: shapes with odd layouts, masks of every kind, and the inputs that a
 * gradient has from the passes before it. */
#ifndef COLM_TESTS_OPS_ATTN_SCENE_H
#define COLM_TESTS_OPS_ATTN_SCENE_H

#include "tests/ops/scene.h"

/* What the rows of a sequence see: all before them by no mask or by one that hides nothing; the last 5
 * positions; documents of 1 to 12 positions in windows of 7; themselves alone; anything. */
typedef enum { OPEN, ALL, WINDOW, DOCUMENTS, SELF, WILD, SIGHTS } sight;

typedef struct {
    uint32_t B, T, heads, kv_heads, hd, i; /* i picks offsets and strides */
    sight sees;
    float cap;
    uint32_t map, h0, acc;
} shape;

static inline uint32_t first_seen(sight sees, uint32_t row, uint32_t pos) {
    rng_stream r = rng_open(sees, "first");
    uint32_t start = 0, at = 0;
    switch (sees) {
    case WINDOW:
        return pos < 4 ? 0 : pos - 4;
    case SELF:
        return pos;
    case WILD:
        return (uint32_t)(rng_u64(&r, row) % (pos + 1));
    case DOCUMENTS:
        for (uint64_t d = 0; at <= pos; d++) start = at, at += 1 + (uint32_t)(rng_u64(&r, d) % 12);
        return pos < start + 6 ? start : pos - 6;
    default:
        return 0;
    }
}

static inline struct abi_attn attn_layout(shape z) {
    static const uint32_t o[] = {0, 8, 40, 16}, more[] = {0, 8, 24};
    struct abi_attn p = {.rows = z.B * z.T, .T = z.T, .heads = z.heads, .kv_heads = z.kv_heads, .hd = z.hd};
    p.qo = o[z.i % 4], p.ko = o[(z.i + 1) % 4], p.oo = o[(z.i + 2) % 4], p.so = z.i % 5;
    p.ldq = ops_stride(p.qo + ops_pad(z.heads * z.hd) + more[z.i % 3]);
    p.ldk = ops_stride(p.ko + ops_pad(z.kv_heads * z.hd) + more[(z.i + 1) % 3]);
    p.ldo = ops_stride(p.oo + ops_pad(z.heads * z.hd) + more[(z.i + 2) % 3]);
    p.masked = z.sees != OPEN, p.cap = z.cap, p.map = z.map, p.h0 = z.h0, p.acc = z.acc;
    p.dlo = p.so + z.heads * p.rows + z.i % 3;
    p.scale = (float)(1 / sqrt(z.hd));
    return p;
}

static inline size_t size_q(const struct abi_attn *p) {
    return (size_t)p->rows * p->ldq;
}
static inline size_t size_k(const struct abi_attn *p) {
    return (size_t)p->rows * p->ldk;
}
static inline size_t size_o(const struct abi_attn *p) {
    return (size_t)p->rows * p->ldo;
}
static inline size_t size_stat(const struct abi_attn *p) {
    return p->dlo + (size_t)p->heads * p->rows;
}

static inline void put_qkv(scene *s) {
    struct abi_attn p = s->call.p.attn;
    uint32_t wq = p.heads * p.hd, wk = p.kv_heads * p.hd;
    put(scene_tensor(s, size_q(&p)), p.rows, wq, wq, p.ldq, p.qo, 1);
    put(scene_tensor(s, size_k(&p)), p.rows, wk, wk, p.ldk, p.ko, 1);
    put(scene_tensor(s, size_k(&p)), p.rows, wk, wk, p.ldk, p.ko, 1);
}

/* Without a mask the numbers are such that nobody could read them unnoticed. */
static inline void put_first(tensor *t, const struct abi_attn *p, sight sees) {
    for (uint32_t r = 0; r < p->rows && sees != OPEN; r++) wholes(t)[r] = first_seen(sees, r, r % p->T);
}

static inline scene make_attn(shape z) {
    scene s = scene_new(OP_ATTN);
    struct abi_attn p = s.call.p.attn = attn_layout(z);
    put_qkv(&s);
    put_first(scene_tensor(&s, p.rows), &p, z.sees);
    scene_tensor(&s, size_o(&p));
    scene_tensor(&s, size_stat(&p));
    return s;
}

static inline void copy(tensor *to, const tensor *from) {
    memcpy(to->bits, from->bits, (from->len + 2 * FRAME) * sizeof *to->bits);
}
static inline void copy_outcome(tensor *to, const outcome *from) {
    memcpy(to->bits, from->bits, (to->len + 2 * FRAME) * sizeof *to->bits);
}

/* Delta, dq or dkv of random dO, with O, lse and delta as the reference has them. */
static inline scene make_grad(ops_id op, shape z) {
    scene forward = make_attn(z), middle = scene_new(OP_ATTN_DELTA), s = scene_new(op);
    struct abi_attn p = middle.call.p.attn = s.call.p.attn = forward.call.p.attn;
    outcome o[OPS_MAX_TENSORS], d[OPS_MAX_TENSORS];
    scene_run(scene_ref, &forward, o);
    copy_outcome(scene_tensor(&middle, size_o(&p)), &o[4]);
    put(scene_tensor(&middle, size_o(&p)), p.rows, p.heads * p.hd, p.heads * p.hd, p.ldo, p.oo, 1);
    scene_tensor(&middle, size_stat(&p));
    if (op == OP_ATTN_DELTA) {
        s = middle;
    } else {
        copy_outcome(&middle.t[2], &o[5]);
        scene_run(scene_ref, &middle, d);
        for (int k = 0; k < 3; k++) copy(scene_tensor(&s, forward.t[k].len), &forward.t[k]);
        copy(scene_tensor(&s, size_o(&p)), &middle.t[1]);
        copy_outcome(scene_tensor(&s, size_stat(&p)), &d[2]);
        copy(scene_tensor(&s, p.rows), &forward.t[3]);
        uint32_t wk = p.kv_heads * p.hd;
        for (int k = 0; k < (op == OP_ATTN_DQ ? 1 : 2); k++) {
            tensor *t = scene_tensor(&s, op == OP_ATTN_DQ ? size_q(&p) : size_k(&p));
            if (op == OP_ATTN_DKV && p.acc) put(t, p.rows, wk, wk, p.ldk, p.ko, 1);
        }
        outcome_done(d);
        scene_done(&middle);
    }
    outcome_done(o);
    scene_done(&forward);
    return s;
}

static inline scene make(ops_id op, shape z) {
    return op == OP_ATTN ? make_attn(z) : make_grad(op, z);
}

static inline bool sees_two(shape z) {
    for (uint32_t r = 0; r < z.B * z.T; r++)
        if (first_seen(z.sees, r, r % z.T) < r % z.T) return true;
    return false;
}

static inline bool check_shape_as(ops_id op, shape z, bool stored) {
    char what[160];
    snprintf(what, sizeof what,
             "B %u T %u heads %u/%u of %u, layout %u, sees %d, cap %g, map %u from %u, acc %u", z.B, z.T,
             z.heads, z.kv_heads, z.hd, z.i, z.sees, z.cap, z.map, z.h0, z.acc);
    scene s = make(op, z);
    /* a lone key's weight is 1 whatever the query: its gradient is the difference of two equal numbers */
    double first = (op == OP_ATTN_DQ || op == OP_ATTN_DKV) && !z.acc && !sees_two(z) ? INFINITY : 1e-10;
    bool ok = stored ? scene_check_stored(&s, what, (double[]){first, 1e-10})
                     : scene_check(&s, what, (double[]){first, 1e-10});
    scene_done(&s);
    return ok;
}
static inline bool check_shape(ops_id op, shape z) {
    return check_shape_as(op, z, false);
}

/* Rows of a result that two runs must share: row r of `a` is row r + shift of `b`. */
static inline bool same_rows(const outcome *a, const outcome *b, uint32_t rows, uint32_t shift, uint32_t ld,
                             uint32_t o, uint32_t cols) {
    for (uint32_t r = 0; r < rows; r++)
        if (!same_bits(a->bits + FRAME + (size_t)r * ld + o, b->bits + FRAME + (size_t)(r + shift) * ld + o,
                       cols))
            return false;
    return true;
}

#endif
