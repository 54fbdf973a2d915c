/* Push constants of every operation, read by C (engine/ops) and GLSL alike.
 *
 * Units: all offsets, strides and counts are in elements, never bytes, however they are stored. A matrix is
 * (buffer view, ld, o): its element (r, c) lies at r*ld + o + c of the view. Strides ld and column offsets o
 * are multiples of 8, so four neighbours always form an aligned vec4. Columns beyond a chain's true width, up
 * to the next multiple of 8, hold zero in every matrix and weight and are included in the counts below unless
 * said otherwise. */
#ifndef COLM_ABI_H
#define COLM_ABI_H

#ifdef GL_core_profile
#define abi_uint uint
#define abi_float float
#else
#include <stdint.h>
typedef uint32_t abi_uint;
typedef float abi_float;
#endif

#define ABI_NO_TARGET 0xFFFFFFFFu /* a row that has no next token: no loss, no gradient */
#define ABI_SUMSQ_CHUNK 8192u     /* elements per partial sum of squares */

/* X[r, xo+c] (acc 1: +)= scale E[token[r] - first, c]. The view of E may be a window of a larger table: rows
 * whose token is not in first .. first+count-1 are left as they are; count 0: every token has its row. */
struct abi_embed {
    abi_uint rows, cols, lde, ldx, xo;
    abi_float scale; /* 1 for a plain copy */
    abi_uint acc, first, count;
};

/* E[list[u] - first, c] (acc 1: +)= scale times the sum over j in start[u] .. start[u+1]-1, in this order, of
 * X[order[j], xo+c]. Windows as above: entries of the list outside are passed over. */
struct abi_embed_grad {
    abi_uint unique, cols, lde, ldx, xo, acc;
    abi_float scale;
    abi_uint first, count;
};

#define ABI_NORM_RMS 0u
#define ABI_NORM_RMS_PLUS 1u /* the gain is 1 + g */
#define ABI_NORM_LAYER 2u

/* Norm of one chain. RMS: s[so+r] = 1/sqrt(mean_{c<width} X^2 + eps); Y = X s g. Layer norm: also the mean of
 * the row at mo+r; s = 1/sqrt(mean (X - mean)^2 + eps); Y = (X - mean) s g. `width` is the true width; the
 * padding of Y becomes 0. */
struct abi_norm {
    abi_uint rows, width, cols, ldx, xo, ldy, yo, so;
    abi_float eps;
    abi_uint kind, mo;
};

/* RMS norm of every head of hd columns, at xo + h*hd and yo + h*hd: Y = X s g with one gain of hd numbers for
 * all heads; s at so + h*rows + r. Kinds as above, without layer norm. Columns beyond the heads are not
 * touched. */
struct abi_head_norm {
    abi_uint rows, heads, hd, ldx, xo, ldy, yo, so, kind;
    abi_float eps;
};

/* Y[r, o+c] += b[c] */
struct abi_bias {
    abi_uint rows, cols, ld, o;
};

/* One chain's linear, its input gradient or its weight gradient: rows M, outputs N, inputs K (padded counts).
 * Y (M x N at ldy, yo), X (M x K at ldx, xo), W (N x K at ldw, wo). init 0: start from zero, 1: from the tensor
 * R, which has the layout of the result and may be the result itself. */
struct abi_linear {
    abi_uint M, N, K, ldx, xo, ldw, wo, ldy, yo, init;
};

/* Several linears of one kind and M rows in one call, block by block. The plan is a table of vec4s of whole
 * numbers: of every tile (first block, number of blocks, row, column), then of every block three, (N, K, ldx,
 * xo), (ldw, wo, ldy, yo) and (init, 0, 0, 0), as in abi_linear. A tile makes ABI_LINEARS_TILE columns of the
 * result of its first block from `column` on: of all M rows, or of the weight gradient as many rows from `row`
 * on. Its further blocks have the same result and go on from the sum: the block-triangular input gradient. init
 * 1: every first block starts from R, whatever it says. `work`: sum of N K / 64 over the blocks, for
 * estimates. */
#define ABI_LINEARS_TILE 32u
struct abi_linears {
    abi_uint M, tiles, init, work;
};

/* Rotates heads of width hd at columns xo + h*hd in place: halves (a, b) -> (a c - b s, b c + a s), position r
 * % T; sign -1 turns back. Table: T rows of hd floats, cosines then sines. */
struct abi_rope {
    abi_uint rows, T, heads, hd, ld, xo;
    abi_float sign;
};

/* Causal attention of one chain's heads over sequences of T rows; rows = B*T. Query head h at columns qo + h*hd
 * reads a key-value head at ko + that*hd (K and V share ldk, ko): for map 0 head h*kv_heads/heads, rounded down
 * (where heads is no multiple, some are read by more), for map 1 head (h0 + h) % kv_heads, h0 the chain's first
 * head of all chains' (tiled). Statistics of head h and row r: the softmax's at so + h*rows + r, delta at dlo +
 * h*rows + r. masked 1: row r sees no position of its sequence before first[r], which is at most its own; 0:
 * first is not read. cap > 0: the score s = scale q.k becomes cap tanh(s/cap). acc 1: the key and value
 * gradients go on from what dK and dV hold (old value first, then query heads and rows ascending). masked, cap
 * > 0 and acc are settled when a call is prepared. */
struct abi_attn {
    abi_uint rows, T, heads, kv_heads, hd, ldq, qo, ldk, ko, ldo, oo, so;
    abi_float scale;
    abi_uint dlo, masked, map, h0, acc;
    abi_float cap;
};

#define ABI_ACT_SILU 0u
#define ABI_ACT_GELU_TANH 1u /* a/2 (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))) */
#define ABI_ACT_GELU 2u      /* a/2 (1 + erf(a/sqrt(2))) */

/* Elementwise over rows x cols; A and B at (lda, ao), Z at (ldz, zo). Of swiglu alone: the activation, and
 * plain 1 for Z = act(A) without B, whose view is then A's. */
struct abi_ew {
    abi_uint rows, cols, lda, ao, ldz, zo, act, plain;
};

/* Cross-entropy over the first `vocab` columns (true count) of logits with stride ld. weight: of each row that
 * has a target, in the gradient. cap above 0: of the logits cap tanh(l / cap). */
struct abi_xent {
    abi_uint rows, vocab, ld;
    abi_float weight, cap;
};

/* partial[po + g] = sum of squares of elements g*ABI_SUMSQ_CHUNK .. of the first n. */
struct abi_sumsq {
    abi_uint n, po;
};

/* out[0] = unscale sqrt(sum of the n partials), out[1] = unscale min(1, clip/out[0]) (unscale when clip is 0).
 * unscale divides out what a loss was multiplied by, 1 for nothing. out[2]: 1 where out[0] is not finite, and
 * then out[1] is 0; else 0. */
struct abi_clip {
    abi_uint n;
    abi_float clip, unscale;
};

/* Decoupled weight decay Adam (Loshchilov & Hutter 2019), g scaled by out[1] of abi_clip; c1 = 1/(1-beta1^t),
 * c2 alike. Where out[2] of abi_clip is not 0 nothing is changed. */
struct abi_adamw {
    abi_uint n;
    abi_float lr, beta1, beta2, eps, decay, c1, c2;
};

/* Of the kernels that measure a device's ceilings: turns of the loop, vec4s a workgroup copies, factors. */
struct abi_peak {
    abi_uint turns, n;
    abi_float a, b;
};

/* X[0 .. n-1] = 0 */
struct abi_zero {
    abi_uint n;
};

/* Y[i] = X[i], i < n, in the storage of Y. */
struct abi_cast {
    abi_uint n;
};

#endif
