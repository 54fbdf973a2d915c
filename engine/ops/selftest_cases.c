/* The cases of the selftest: shapes that hurt, in layouts that change from case to case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/ops/selftest_scene.h"

/* NMSE: what one rounding does 1e-13; exp, log, rsqrt and short sums 1e-11; products and attention 1e-10. */
static const double limits[OP_COUNT] = {
    [OP_EMBED] = 1e-13,      [OP_EMBED_GRAD] = 1e-12,   [OP_NORM] = 1e-11,
    [OP_NORM_DX] = 1e-11,    [OP_NORM_DG] = 1e-11,      [OP_LINEAR] = 1e-10,
    [OP_LINEAR_DX] = 1e-10,  [OP_LINEAR_DW] = 1e-10,    [OP_LINEARS] = 1e-10,
    [OP_LINEARS_DX] = 1e-10, [OP_LINEARS_DW] = 1e-10,   [OP_ROPE] = 1e-13,
    [OP_ATTN] = 1e-10,       [OP_ATTN_DELTA] = 1e-10,   [OP_ATTN_DQ] = 1e-10,
    [OP_ATTN_DKV] = 1e-10,   [OP_SWIGLU] = 1e-11,       [OP_SWIGLU_GRAD] = 1e-11,
    [OP_XENT] = 1e-11,       [OP_XENT_GRAD] = 1e-11,    [OP_SUMSQ] = 1e-12,
    [OP_CLIP] = 1e-12,       [OP_ADAMW] = 1e-13,        [OP_ZERO] = 0,
    [OP_HEAD_NORM] = 1e-11,  [OP_HEAD_NORM_DX] = 1e-11, [OP_HEAD_NORM_DG] = 1e-11,
    [OP_BIAS] = 1e-13,       [OP_BIAS_GRAD] = 1e-11,    [OP_ADD] = 1e-13,
    [OP_CAST] = 0,
};

/* The reference rounds to 16 bits as a device does. What is left is the number that float32's error takes to
 * the other side of a middle: one step of 2^-8 or 2^-11 of itself. */
double scene_limit(ops_id op, ops_dtype t) {
    static const double stored[] = {[OPS_BF16] = 1e-4, [OPS_F16] = 1e-5};
    return ops_dtype_size(t) == 2 && limits[op] > 0 ? stored[t] : limits[op];
}

/* Tensors. All return their place in the scene. */

static uint32_t new_tensor(scene *s, ops_dtype dtype, size_t len) {
    scene_tensor *t = &s->t[s->n_tensors];
    *t = (scene_tensor){.dtype = dtype, .len = len, .tail = len, .ld = 1, .large = SCENE_LARGE};
    t->bits = mem_alloc(len + 2 * SCENE_FRAME, sizeof *t->bits);
    for (size_t i = 0; t->bits && i < len + 2 * SCENE_FRAME; i++) t->bits[i] = SCENE_NAN;
    s->failed |= !t->bits;
    return s->n_tensors++;
}

/* What a call is to write. */
static uint32_t result(scene *s, size_t len) {
    return new_tensor(s, OPS_F32, len);
}

/* rows x width normal numbers of deviation `scale` at stride ld from column o, zeros up to the padded width. */
static uint32_t matrix(scene *s, uint32_t rows, uint32_t width, uint32_t ld, uint32_t o, double scale) {
    uint32_t k = result(s, (size_t)rows * ld);
    rng_stream r = rng_open(s->number * SCENE_TENSORS + k, "selftest");
    for (uint32_t i = 0; s->t[k].bits && i < rows; i++)
        for (uint32_t c = 0; c < ops_pad(width) && o + c < ld; c++) {
            float v = c < width ? (float)(scale * rng_normal(&r, (uint64_t)i * width + c)) : 0.0f;
            memcpy(&s->t[k].bits[SCENE_FRAME + (size_t)i * ld + o + c], &v, sizeof v);
        }
    return k;
}
static uint32_t vector(scene *s, uint32_t n, double scale) {
    return matrix(s, 1, n, ops_pad(n), 0, scale);
}

/* A matrix of the linear products: rows up to a multiple of 16 in memory, zero here; results may fill them. */
static uint32_t tiled(scene *s, uint32_t rows, uint32_t cols, uint32_t ld, uint32_t o, double scale) {
    uint32_t k = matrix(s, ops_rows(rows), cols, ld, o, scale);
    scene_tensor *t = &s->t[k];
    t->tail = (size_t)rows * ld, t->ld = ld, t->first = o, t->cols = cols;
    for (uint32_t i = rows; t->bits && i < ops_rows(rows); i++)
        memset(&t->bits[SCENE_FRAME + (size_t)i * ld + o], 0, cols * sizeof *t->bits);
    return k;
}

/* n integers, and where to put them. */
static uint32_t wholes(scene *s, uint32_t n) {
    return new_tensor(s, OPS_U32, n);
}
static void put(scene *s, uint32_t k, uint32_t i, uint32_t v) {
    if (s->t[k].bits) s->t[k].bits[SCENE_FRAME + i] = v;
}

static void make_positive(scene *s, uint32_t k) {
    for (size_t i = 0; s->t[k].bits && i < s->t[k].len; i++)
        if (s->t[k].bits[SCENE_FRAME + i] != SCENE_NAN) s->t[k].bits[SCENE_FRAME + i] &= 0x7FFFFFFFu;
}

#define CALL(s, id, member, push, ...) \
    call(s, id, &(ops_push){.member = push}, (const uint32_t[OPS_MAX_TENSORS]){__VA_ARGS__})
static void call(scene *s, ops_id op, const ops_push *p, const uint32_t t[OPS_MAX_TENSORS]) {
    s->call[s->n_calls].op = op;
    s->call[s->n_calls].p = *p;
    memcpy(s->call[s->n_calls++].t, t, OPS_MAX_TENSORS * sizeof *t);
}

static uint32_t offset(const scene *s, uint32_t k) {
    static const uint32_t o[] = {0, 8, 40, 16};
    return o[(s->number + k) % 4];
}
static uint32_t stride(const scene *s, uint32_t k, uint32_t cols) {
    static const uint32_t more[] = {0, 24, 8};
    return ops_stride(offset(s, k) + ops_pad(cols) + more[(s->number + k) % 3]);
}

/* Scenes, each from its numbers n. */

static void norm(scene *s, const uint32_t *n) {
    uint32_t rows = n[0], width = n[1], kind = n[2], ldx = stride(s, 0, width), ldy = stride(s, 1, width);
    uint32_t xo = offset(s, 0), yo = offset(s, 1);
    struct abi_norm p = {rows, width, ops_pad(width), ldx, xo, ldy, yo, 3, 1e-5f, kind, 5 + rows};
    snprintf(s->shape, sizeof s->shape, "%u rows of %u, kind %u", rows, width, kind);
    uint32_t X = matrix(s, rows, width, ldx, xo, 3), g = vector(s, width, 1);
    uint32_t Y = result(s, (size_t)rows * ldy), stat = result(s, p.mo + rows);
    uint32_t dY = matrix(s, rows, width, ldy, yo, 1), dX = matrix(s, rows, width, ldx, xo, 1);
    uint32_t dg = vector(s, width, 1);
    CALL(s, OP_NORM, norm, p, X, g, Y, stat);
    CALL(s, OP_NORM_DX, norm, p, X, g, stat, dY, dX);
    CALL(s, OP_NORM_DG, norm, p, X, stat, dY, dg);
}

static void head_norm(scene *s, const uint32_t *n) {
    uint32_t rows = n[0], heads = n[1], hd = n[2], width = heads * hd;
    uint32_t ldx = stride(s, 0, width), ldy = stride(s, 1, width), xo = offset(s, 0), yo = offset(s, 1);
    struct abi_head_norm p = {rows, heads, hd, ldx, xo, ldy, yo, 2, n[3], 1e-6f};
    snprintf(s->shape, sizeof s->shape, "%u rows, %u heads of %u, kind %u", rows, heads, hd, n[3]);
    uint32_t X = matrix(s, rows, width, ldx, xo, 3), g = vector(s, hd, 1);
    uint32_t Y = result(s, (size_t)rows * ldy), stat = result(s, p.so + heads * rows);
    uint32_t dY = matrix(s, rows, width, ldy, yo, 1), dX = result(s, (size_t)rows * ldx);
    uint32_t dg = vector(s, hd, 1);
    CALL(s, OP_HEAD_NORM, head_norm, p, X, g, Y, stat);
    CALL(s, OP_HEAD_NORM_DX, head_norm, p, X, g, stat, dY, dX);
    CALL(s, OP_HEAD_NORM_DG, head_norm, p, X, stat, dY, dg);
}

static void linear(scene *s, const uint32_t *n) {
    uint32_t M = n[0], N = n[1], K = n[2], xo = offset(s, 0), wo = offset(s, 1), yo = offset(s, 2);
    struct abi_linear p = {M, N, K, stride(s, 0, K), xo, wo + K + n[3] * 8, wo, yo + N, yo, n[3]};
    snprintf(s->shape, sizeof s->shape, "%u rows, %u from %u%s", M, N, K, p.init ? ", added" : "");
    uint32_t X = tiled(s, M, K, p.ldx, xo, 1), W = matrix(s, N, K, p.ldw, wo, 1);
    uint32_t Y = tiled(s, M, N, p.ldy, yo, 1), dW = matrix(s, N, K, p.ldw, wo, 1);
    CALL(s, OP_LINEAR, linear, p, X, W, Y, Y);
    CALL(s, OP_LINEAR_DX, linear, p, Y, W, X, X);
    CALL(s, OP_LINEAR_DW, linear, p, Y, X, dW, dW);
}

/* Products of two weight matrices in one call. n: rows, outputs of the one and of the other, inputs, added. */
static void linears(scene *s, const uint32_t *n) {
    uint32_t M = n[0], N = n[1] + n[2], K = n[3], xo = offset(s, 0), wo = offset(s, 1), yo = offset(s, 2);
    struct abi_linear p = {M, N, K, stride(s, 0, K), xo, wo + K + n[4] * 8, wo, yo + N, yo, n[4]};
    struct abi_linears all = {.M = M, .init = n[4], .work = N * K / 64};
    snprintf(s->shape, sizeof s->shape, "%u rows, %u and %u from %u%s", M, n[1], n[2], K,
             n[4] ? ", added" : "");
    uint32_t X = tiled(s, M, K, p.ldx, xo, 1), W = matrix(s, N, K, p.ldw, wo, 1);
    uint32_t Y = tiled(s, M, N, p.ldy, yo, 1), plan[3];
    for (uint32_t mode = 0; mode < 3;
         mode++) { /* linear, input gradient: one sum of two blocks, weight gradient */
        uint32_t rows[] = {mode == 2 ? n[1] : 1, mode == 2 ? n[2] : 1},
                 cols[] = {mode ? K : n[1], mode ? K : n[2]};
        uint32_t results = mode == 1 ? 1 : 2, at = 0;
        float v[4 * (2 * 64 + 6)] = {0};
        for (uint32_t b = 0; b < results; b++)
            for (uint32_t r = 0; r < rows[b]; r += ABI_LINEARS_TILE)
                for (uint32_t c = 0; c < cols[b]; c += ABI_LINEARS_TILE, at += 4)
                    v[at] = (float)b, v[at + 1] = (float)(3 - results), v[at + 2] = (float)r,
                    v[at + 3] = (float)c;
        all.tiles = at / 4;
        for (uint32_t b = 0; b < 2; b++, at += 12) {
            uint32_t w = p.wo + b * n[1] * p.ldw, y = p.yo + b * n[1], init = mode == 1 && b;
            const uint32_t block[] = {n[1 + b], K, p.ldx, p.xo, p.ldw, w, p.ldy, y, init};
            for (uint32_t i = 0; i < 9; i++) v[at + i] = (float)block[i];
        }
        plan[mode] = result(s, at);
        if (s->t[plan[mode]].bits) memcpy(&s->t[plan[mode]].bits[SCENE_FRAME], v, at * sizeof *v);
        ops_id op = mode == 0 ? OP_LINEARS : mode == 1 ? OP_LINEARS_DX : OP_LINEARS_DW;
        if (mode == 0) CALL(s, op, linears, all, X, W, Y, Y, plan[mode]);
        if (mode == 1) CALL(s, op, linears, all, Y, W, X, X, plan[mode]);
        if (mode == 2) CALL(s, op, linears, all, Y, X, W, W, plan[mode]);
    }
}

/* n: B, T, heads, key heads, head size, window (0: no mask), cap, map. */
static void attn(scene *s, const uint32_t *n) {
    uint32_t T = n[1], rows = n[0] * T, heads = n[2], kv = n[3], hd = n[4], window = n[5];
    struct abi_attn p = {rows,
                         T,
                         heads,
                         kv,
                         hd,
                         stride(s, 0, heads * hd),
                         offset(s, 0),
                         stride(s, 1, kv * hd),
                         offset(s, 1),
                         stride(s, 2, heads * hd),
                         offset(s, 2),
                         3,
                         (float)(1 / sqrt(hd)),
                         4 + heads * rows,
                         window > 0,
                         n[7],
                         n[7] * 3,
                         window > 0,
                         (float)n[6]};
    snprintf(s->shape, sizeof s->shape, "%u x %u, %u/%u heads of %u, window %u, cap %u, map %u", n[0], T, heads,
             kv, hd, window, n[6], n[7]);
    uint32_t Q = matrix(s, rows, heads * hd, p.ldq, p.qo, 1), K = matrix(s, rows, kv * hd, p.ldk, p.ko, 1);
    uint32_t V = matrix(s, rows, kv * hd, p.ldk, p.ko, 1), first = wholes(s, rows);
    uint32_t O = result(s, (size_t)rows * p.ldo), stat = result(s, p.dlo + heads * rows);
    uint32_t dO = matrix(s, rows, heads * hd, p.ldo, p.oo, 1), dQ = result(s, (size_t)rows * p.ldq);
    uint32_t dK = matrix(s, rows, kv * hd, p.ldk, p.ko, 1), dV = matrix(s, rows, kv * hd, p.ldk, p.ko, 1);
    for (uint32_t r = 0; r < rows && window; r++) put(s, first, r, r % T < window ? 0 : r % T - window + 1);
    CALL(s, OP_ATTN, attn, p, Q, K, V, first, O, stat);
    CALL(s, OP_ATTN_DELTA, attn, p, O, dO, stat);
    if (T == 1) return; /* a lone key's weight is 1: its gradients are the rounding of two equal numbers */
    CALL(s, OP_ATTN_DQ, attn, p, Q, K, V, dO, stat, first, dQ);
    CALL(s, OP_ATTN_DKV, attn, p, Q, K, V, dO, stat, first, dK, dV);
}

static void rope(scene *s, const uint32_t *n) {
    uint32_t rows = n[0] * n[1], width = n[2] * n[3], ld = stride(s, 0, width), o = offset(s, 0);
    struct abi_rope p = {rows, n[1], n[2], n[3], ld, o, s->number % 2 ? -1.0f : 1.0f};
    snprintf(s->shape, sizeof s->shape, "%u x %u, %u heads of %u", n[0], n[1], n[2], n[3]);
    uint32_t X = matrix(s, rows, width, ld, o, 1), table = vector(s, n[1] * n[3], 1);
    CALL(s, OP_ROPE, rope, p, X, table);
}

static void elementwise(scene *s, const uint32_t *n) {
    uint32_t rows = n[0], width = n[1], cols = ops_pad(width), ao = offset(s, 0), zo = offset(s, 1);
    struct abi_ew p = {rows, cols, stride(s, 0, width), ao, stride(s, 1, width), zo, n[2], n[3]};
    struct abi_bias b = {rows, cols, p.lda, ao};
    snprintf(s->shape, sizeof s->shape, "%u rows of %u, activation %u%s", rows, width, p.act,
             p.plain ? " plain" : "");
    uint32_t A = matrix(s, rows, width, p.lda, ao, 3), B = matrix(s, rows, width, p.lda, ao, 1);
    uint32_t Z = result(s, (size_t)rows * p.ldz), dZ = matrix(s, rows, width, p.lda, ao, 1);
    uint32_t bias = vector(s, width, 1), db = vector(s, width, 1), second = p.plain ? A : B;
    CALL(s, OP_SWIGLU, ew, p, A, second, Z);
    CALL(s, OP_SWIGLU_GRAD, ew, p, A, second, dZ);
    CALL(s, OP_ADD, ew, p, A, B, Z);
    CALL(s, OP_BIAS, bias, b, A, bias);
    CALL(s, OP_BIAS_GRAD, bias, b, A, db);
}

/* n: rows, width, whether the table is a window of a larger one and results are added. */
static void embed(scene *s, const uint32_t *n) {
    uint32_t rows = n[0], width = n[1], cols = ops_pad(width), o = offset(s, 0), ld = stride(s, 0, width);
    uint32_t runs = 1 + rows / 3, vocab = 2 * runs + 5, from = n[2] ? 2 : 0, count = n[2] ? vocab - 4 : 0;
    struct abi_embed p = {rows, cols, cols + 8, ld, o, 1.7f, n[2], from, count};
    struct abi_embed_grad g = {runs, cols, cols + 8, ld, o, n[2], 1.7f, from, count};
    snprintf(s->shape, sizeof s->shape, "%u rows of %u, vocabulary %u%s", rows, width, vocab,
             n[2] ? " through a window" : "");
    uint32_t token = wholes(s, rows), list = wholes(s, runs), start = wholes(s, runs + 1),
             order = wholes(s, rows);
    uint32_t E = matrix(s, count ? count : vocab, width, p.lde, 0, 1), X = matrix(s, rows, width, ld, o, 1);
    for (uint32_t r = 0; r < rows; r++) {
        put(s, token, r, r * 7 % vocab);
        put(s, order, r, rows - 1 - r);
    }
    for (uint32_t u = 0; u < runs; u++) {
        put(s, list, u, 2 * u + 1);
        put(s, start, u, u * (rows / runs));
    }
    put(s, start, runs, rows);
    CALL(s, OP_EMBED, embed, p, token, E, X);
    CALL(s, OP_EMBED_GRAD, embed_grad, g, list, start, order, X, E);
}

static void xent(scene *s, const uint32_t *n) {
    uint32_t rows = n[0], vocab = n[1], ld = ops_stride(ops_pad(vocab));
    struct abi_xent p = {rows, vocab, ld, 1.0f / (float)rows, (float)n[2]};
    snprintf(s->shape, sizeof s->shape, "%u rows, vocabulary %u, cap %u", rows, vocab, n[2]);
    uint32_t L = result(s, (size_t)ops_rows(rows) * ld), target = wholes(s, rows), nll = result(s, rows);
    uint32_t top = wholes(s, rows);
    rng_stream r = rng_open(s->number, "logits");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t best = 0;
        double most = -INFINITY;
        for (uint32_t c = 0; c < vocab; c++) {
            float v = (float)(3 * rng_normal(&r, (uint64_t)i * vocab + c));
            if (v > most) best = c, most = v;
            if (s->t[L].bits) memcpy(&s->t[L].bits[SCENE_FRAME + (size_t)i * ld + c], &v, sizeof v);
        }
        /* first an improbable one: of a lone sure guess the loss is the rounding of two equal numbers */
        const uint32_t kinds[] = {(best + 1) % vocab, best, vocab - 1, ABI_NO_TARGET};
        put(s, target, i, kinds[i % 4]);
    }
    CALL(s, OP_XENT, xent, p, L, target, nll, top);
    CALL(s, OP_XENT_GRAD, xent, p, L, target, nll);
}

static void optimiser(scene *s, const uint32_t *n) {
    uint32_t parts = (n[0] - 1) / ABI_SUMSQ_CHUNK + 1;
    struct abi_adamw p = {n[0], 1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.9f, 3.7f};
    snprintf(s->shape, sizeof s->shape, "%u numbers", n[0]);
    uint32_t P = vector(s, n[0], 1), G = vector(s, n[0], 1), M = vector(s, n[0], 0.1), V = vector(s, n[0], 1);
    uint32_t partial = result(s, parts), out = result(s, 3), copy = vector(s, n[0], 1);
    make_positive(s, V);
    CALL(s, OP_SUMSQ, sumsq, ((struct abi_sumsq){n[0], 0}), G, partial);
    CALL(s, OP_CLIP, clip, ((struct abi_clip){parts, 0.7f, 1.0f / 64}), partial, out);
    CALL(s, OP_ADAMW, adamw, p, P, G, M, V, out);
    CALL(s, OP_CAST, cast, ((struct abi_cast){n[0]}), P, copy);
    CALL(s, OP_ZERO, zero, ((struct abi_zero){n[0]}), copy);
}

static const struct {
    void (*build)(scene *s, const uint32_t *n);
    uint32_t n[8];
} cases[] = {
    {embed, {1, 5}},
    {embed, {17, 33, 1}},
    {embed, {130, 24}},
    {norm, {1, 8, ABI_NORM_RMS}},
    {norm, {17, 33, ABI_NORM_RMS}},
    {norm, {7, 344, ABI_NORM_RMS_PLUS}},
    {norm, {33, 72, ABI_NORM_LAYER}},
    {norm, {16, 5, ABI_NORM_LAYER}},
    {head_norm, {1, 1, 16, ABI_NORM_RMS}},
    {head_norm, {17, 3, 6, ABI_NORM_RMS}},
    {head_norm, {33, 2, 64, ABI_NORM_RMS_PLUS}},
    {linear, {1, 8, 8, 0}},
    {linear, {33, 24, 40, 1}},
    {linear, {17, 264, 88, 0}},
    {linear, {16, 40, 24, 1}},
    {linear, {129, 72, 344, 0}},
    {linears, {1, 8, 8, 8, 0}},
    {linears, {33, 40, 24, 88, 1}},
    {linears, {130, 72, 64, 104, 0}},
    {rope, {1, 1, 1, 16}},
    {rope, {2, 17, 3, 6}},
    {rope, {1, 33, 2, 64}},
    {attn, {3, 1, 2, 1, 16}},
    {attn, {2, 17, 3, 1, 6}},
    {attn, {1, 33, 4, 2, 16}},
    {attn, {1, 65, 2, 1, 64}},
    {attn, {1, 17, 5, 3, 16, 5, 2, 1}},
    {attn, {2, 33, 2, 2, 6, 7, 30, 0}},
    {elementwise, {1, 5, ABI_ACT_SILU}},
    {elementwise, {17, 33, ABI_ACT_SILU}},
    {elementwise, {7, 344, ABI_ACT_GELU_TANH}},
    {elementwise, {33, 24, ABI_ACT_GELU, 1}},
    {xent, {1, 2}},
    {xent, {17, 257}},
    {xent, {33, 1001}},
    {xent, {7, 33, 2}},
    {optimiser, {1}},
    {optimiser, {4099}},
    {optimiser, {4100}},
    {optimiser, {30001}},
};

bool scene_stores(const scene *s, uint32_t c, ops_dtype t) {
    for (size_t k = 0; ops_get(s->call[c].op)->access[k]; k++)
        if (s->t[s->call[c].t[k]].dtype == t) return true;
    return false;
}

/* Whether all calls that work on tensor t take it in 16 bits. */
static bool may_be_stored(const scene *s, uint32_t t) {
    for (uint32_t c = 0; c < s->n_calls; c++)
        for (size_t k = 0; ops_get(s->call[c].op)->access[k]; k++)
            if (s->call[c].t[k] == t && ops_get(s->call[c].op)->dtypes[k] != 'h') return false;
    return true;
}

/* n floats as 16 bits leave them. */
static void store(ops_dtype t, uint32_t *bits, size_t n) {
    uint16_t h;
    for (size_t i = 0; i < n; i++) {
        ops_pack(t, &bits[i], &h, 1);
        ops_unpack(t, &h, &bits[i], 1);
    }
}

bool scene_make(uint32_t i, ops_dtype t, scene *ret) {
    *ret = (scene){.number = i};
    if (i >= sizeof cases / sizeof *cases) return false;
    cases[i].build(ret, cases[i].n);
    for (uint32_t c = 0; c < ret->n_calls; c++) {
        const ops_row *row = ops_get(ret->call[c].op);
        for (size_t k = 0; row->access[k]; k++) {
            scene_tensor *x = &ret->t[ret->call[c].t[k]];
            if (row->access[k] != 'm' || !x->bits) continue;
            for (size_t e = 0; e < x->len + 2 * SCENE_FRAME; e++)
                if (x->bits[e] == SCENE_NAN) x->bits[e] = SCENE_LARGE;
        }
    }
    for (uint32_t k = 0; k < ret->n_tensors && t != OPS_F32; k++) {
        scene_tensor *x = &ret->t[k];
        if (!x->bits || !may_be_stored(ret, k)) continue;
        x->dtype = t;
        store(t, x->bits, x->len + 2 * SCENE_FRAME);
        store(t, &x->large, 1);
    }
    return true;
}

void scene_done(scene *s) {
    for (uint32_t k = 0; k < s->n_tensors; k++) free(s->t[k].bits);
    s->n_tensors = 0;
}
