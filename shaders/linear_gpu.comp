/* Linear layers for GPUs (the products: linear.glsl).
 *
 * A workgroup makes TILE_M x TILE_N elements of the result, in steps of 16 in the reduction index: its invocations load
 * the two strips of a step into shared memory, reduction index first, and each multiplies its own RM x RN elements out of
 * registers. The next strips are on their way from memory meanwhile. Rows of shared memory are 4 numbers longer than they need be,
 * so that writing a transposed strip meets different banks.
 *
 * TILE_M, TILE_N, RM and RN come from the variant. Being macros, they fix the sizes of arrays and unroll the loops for
 * whatever compiler the driver has; a specialisation constant would leave that to it. None of them changes a bit: a sum
 * is the chain of linear.glsl in all, and what lies beyond the depth is left out in eights. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "linear.glsl"

#define STEP 16u
#define CHUNK 8u /* steps that are done or left out together */
#define ACROSS (TILE_N / RN)
#define THREADS (TILE_M / RM * ACROSS)
layout(local_size_x = THREADS) in;
PUSH(linear)
IN4(0, A)
IN4(1, B)
IN4(2, R)
OUT(3, vec4, Z)

shared vec4 strip_a[STEP][TILE_M / 4 + 1], strip_b[STEP][TILE_N / 4 + 1];

/* An invocation's share of a strip of EXTENT rows (or columns), EACH of its 4 EXTENT vec4s. Where the reduction index runs
 * fastest in memory, a vec4 is four steps of one row and is turned when it is put down; else four rows of one step. */
#define EACH(EXTENT) ((4u * EXTENT + THREADS - 1u) / THREADS)
#define MINE(EXTENT, n) (4u * EXTENT % THREADS == 0u || gl_LocalInvocationIndex + n * THREADS < 4u * EXTENT)
#define STEPS_AT(n) ((gl_LocalInvocationIndex + n * THREADS) % 4u * 4u)
#define ROW_AT(n) ((gl_LocalInvocationIndex + n * THREADS) / 4u)
#define STEP_AT(EXTENT, n) ((gl_LocalInvocationIndex + n * THREADS) / (EXTENT / 4u))
#define ROWS_AT(EXTENT, n) ((gl_LocalInvocationIndex + n * THREADS) % (EXTENT / 4u) * 4u)

#define PUT_TURNED(strip, n, v)                                                                                        \
    [[unroll]] for (uint e = 0u; e < 4u; e++) strip[STEPS_AT(n) + e][ROW_AT(n) / 4u][ROW_AT(n) % 4u] = (v)[e];
#define PUT_PLAIN(strip, EXTENT, n, v) strip[STEP_AT(EXTENT, n)][ROWS_AT(EXTENT, n) / 4u] = (v);

vec4 a_at(uint i, uint t) { return i < OUT_ROWS && t < DEPTH ? LOAD4(A, A_AT(i, t) / 4u) : vec4(0); }
vec4 b_at(uint t, uint j) { return j < OUT_COLS && t < DEPTH ? LOAD4(B, B_AT(t, j) / 4u) : vec4(0); }

#if MODE == LINEAR_DW
#define GET_A(n) a_at(i0 + ROWS_AT(TILE_M, n), t + STEP_AT(TILE_M, n))
#define PUT_A(n) PUT_PLAIN(strip_a, TILE_M, n, next_a[n])
#else
#define GET_A(n) a_at(i0 + ROW_AT(n), t + STEPS_AT(n))
#define PUT_A(n) PUT_TURNED(strip_a, n, next_a[n])
#endif
#if MODE == LINEAR
#define GET_B(n) b_at(t + STEPS_AT(n), j0 + ROW_AT(n))
#define PUT_B(n) PUT_TURNED(strip_b, n, next_b[n])
#else
#define GET_B(n) b_at(t + STEP_AT(TILE_N, n), j0 + ROWS_AT(TILE_N, n))
#define PUT_B(n) PUT_PLAIN(strip_b, TILE_N, n, next_b[n])
#endif

/* An invocation's rows and columns come in groups of four, the groups as far apart as there are: neighbours read
 * neighbouring vec4s. */
#define ROW4(g) (g * (TILE_M / RM) + gl_LocalInvocationIndex / ACROSS)
#define COL4(g) (g * ACROSS + gl_LocalInvocationIndex % ACROSS)
#define EACH_ROW4 [[unroll]] for (uint g = 0u; g < RM / 4u; g++)
#define EACH_COL4 [[unroll]] for (uint h = 0u; h < RN / 4u; h++)
#define EACH_ROW [[unroll]] for (uint r = 0u; r < 4u; r++)

void main() {
    uint i0 = ROW_TILE * TILE_M, j0 = COL_TILE * TILE_N;
    vec4 acc[RM][RN / 4], next_a[EACH(TILE_M)], next_b[EACH(TILE_N)];
    EACH_ROW4 EACH_ROW EACH_COL4 {
        uint i = i0 + 4u * ROW4(g) + r, j = j0 + 4u * COL4(h);
        acc[4u * g + r][h] = p.init != 0u && i < OUT_ROWS && j < OUT_COLS ? LOAD4(R, OUT_AT(i, j) / 4u) : vec4(0);
    }
    uint t = 0u;
    [[unroll]] for (uint n = 0u; n < EACH(TILE_M); n++) next_a[n] = GET_A(n);
    [[unroll]] for (uint n = 0u; n < EACH(TILE_N); n++) next_b[n] = GET_B(n);
    while (t < DEPTH) {
        uint now = t;
        [[unroll]] for (uint n = 0u; n < EACH(TILE_M); n++)
            if (MINE(TILE_M, n)) { PUT_A(n) }
        [[unroll]] for (uint n = 0u; n < EACH(TILE_N); n++)
            if (MINE(TILE_N, n)) { PUT_B(n) }
        barrier();
        t += STEP;
        [[unroll]] for (uint n = 0u; n < EACH(TILE_M); n++) next_a[n] = GET_A(n);
        [[unroll]] for (uint n = 0u; n < EACH(TILE_N); n++) next_b[n] = GET_B(n);
        [[unroll]] for (uint c = 0u; c < STEP; c += CHUNK)
            if (now + c < DEPTH)
                [[unroll]] for (uint s = 0u; s < CHUNK; s++) {
                    vec4 a[RM / 4], b[RN / 4];
                    EACH_ROW4 a[g] = strip_a[c + s][ROW4(g)];
                    EACH_COL4 b[h] = strip_b[c + s][COL4(h)];
                    EACH_ROW4 EACH_ROW EACH_COL4 acc[4u * g + r][h] = fma(vec4(a[g][r]), b[h], acc[4u * g + r][h]);
                }
        barrier();
    }
    EACH_ROW4 EACH_ROW EACH_COL4 {
        uint i = i0 + 4u * ROW4(g) + r, j = j0 + 4u * COL4(h);
        if (i < OUT_ROWS && j < OUT_COLS) PUT(Z, OUT_AT(i, j) / 4u, acc[4u * g + r][h]);
    }
}
