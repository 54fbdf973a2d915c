/* Where causal attention finds its tensors, which keys a query sees, and what becomes of a score. Rows are those of the
 * whole matrix, row0 the sequence's first row.
 *
 * Macros of the call: HD, the head size; FIRST 1, where row r sees no key before position first[r]; CAP 1, where scores
 * are capped. Without them a kernel does nothing of either. */
#ifndef FIRST
#define FIRST 0
#endif
#ifndef CAP
#define CAP 0
#endif
PUSH(attn)
#define LOG2E 1.4426950408889634
#define LN2 0.6931471805599453
#define MASKED (-1e30) /* below every score, and far from overflow when one is taken from another */

uint q_at(uint row, uint h) { return row * p.ldq + p.qo + h * HD; }
uint o_at(uint row, uint h) { return row * p.ldo + p.oo + h * HD; }
uint k_at(uint row, uint kv) { return row * p.ldk + p.ko + kv * HD; }
uint lse_at(uint row, uint h) { return p.so + h * p.rows + row; }
uint delta_at(uint row, uint h) { return p.dlo + h * p.rows + row; }

/* The key-value head of query head h, and the query heads of key-value head kv: from head_from in steps of head_step to
 * before head_end; there may be none. */
uint kv_of(uint h) { return p.map == 0u ? h * p.kv_heads / p.heads : (p.h0 + h) % p.kv_heads; }
uint group_start(uint kv) { return (kv * p.heads + p.kv_heads - 1u) / p.kv_heads; }
uint head_from(uint kv) { return p.map == 0u ? group_start(kv) : (kv + p.kv_heads - p.h0 % p.kv_heads) % p.kv_heads; }
uint head_end(uint kv) { return p.map == 0u ? group_start(kv + 1u) : p.heads; }
uint head_step() { return p.map == 0u ? 1u : p.kv_heads; }
#define EACH_HEAD_OF(kv) for (uint h = head_from(kv), h_end = head_end(kv), h_step = head_step(); h < h_end; h += h_step)

/* A score s = scale q.k is kept in powers of 2, capped as cap tanh(s/cap). GAIN is what q.k is multiplied by first; then
 * `capped` makes the score of it and leaves in `slope` what the cap lets through of a gradient. */
#if CAP
#include "tanh.glsl"
#define GAIN (p.scale / p.cap)
float capped(float s, out float slope) {
    float t = isnan(s) ? s : tanh_fine(s);
    slope = fma(-t, t, 1.0);
    return t * (p.cap * LOG2E);
}
#else
#define GAIN (p.scale * LOG2E)
float capped(float s, out float slope) {
    slope = 1.0;
    return s;
}
#endif
float capped(float s) {
    float slope;
    return capped(s, slope);
}

/* Whether position i sees position j; `start` is its first. */
#if FIRST
#define SEES(i, start, j) ((j) <= (i) && (j) >= (start))
#else
#define SEES(i, start, j) ((j) <= (i))
#endif

/* A sum that came to -0 and one that then gained another +0 are made the same, so that zeros may be left out. */
float plus_zero(float x) { return x == 0.0 ? 0.0 : x; }
vec4 plus_zero(vec4 x) { return mix(x, vec4(0), equal(x, vec4(0))); }

/* Natural logarithm of l 2^m, l >= 1. Some drivers' log2 is good to 1e-6 only, their exp2 to the last bits: one Newton
 * step on 2^y = l. */
float log_sum(float m, float l) {
    float y = log2(l);
    return (m + y) * LN2 + (l * exp2(-y) - 1.0);
}

/* Tiles of a sequence. */
uint tile_count(uint rows) { return (p.T + rows - 1u) / rows; }
