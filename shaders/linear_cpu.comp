/* Linear layers for CPU devices with subgroups of 8 (the products: linear.glsl).
 *
 * One subgroup makes a tile of 16 rows x 32 columns of the result: a lane holds 4 neighbouring columns of each row.
 * Per step of 8 in the reduction index every lane loads its own part of B through texel fetches, which a CPU device
 * turns into plain loads; the tile of A is spread over the lanes and handed round by shuffles with constant index,
 * which become register permutes. No shared memory, no barrier. Rows of the result beyond its end are computed from
 * rows that exist in memory (ops_rows) or from the last valid ones, and never written. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "linear.glsl"

layout(local_size_x = 8) in;
PUSH(linear)
IN4(0, A)
IN4(1, B)
IN4(2, R)
OUT(3, vec4, Z)

#define ROWS 16u
#define STEP 8u

void main() {
    uint i0 = ROW_TILE * ROWS, j0 = COL_TILE * 32u + 4u * LANE;
    uint j = min(j0, OUT_COLS - 4u); /* lanes beyond the last column load what the last ones do */
    if (i0 >= OUT_ROWS) return;
    vec4 acc[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        acc[r] = p.init != 0u && i0 + r < OUT_ROWS ? LOAD4(R, OUT_AT(i0 + r, j) / 4u) : vec4(0);

    for (uint t = 0u; t < DEPTH; t += STEP) {
        /* a: 16 rows x 8 steps of A, a quarter of it in each register of the 8 lanes. */
        vec4 a[4], b[STEP];
#if MODE == LINEAR_DW
        /* A is stored transposed: 4 registers of 2 steps x 16 rows, 4 lanes a step. */
        uint ai = min(i0 + 4u * (LANE % 4u), OUT_ROWS - 4u);
        [[unroll]] for (uint q = 0u; q < 4u; q++) a[q] = LOAD4(A, A_AT(ai, t + 2u * q + LANE / 4u) / 4u);
#define A_TILE(r, s) subgroupShuffle(a[(s) / 2u][(r) % 4u], (s) % 2u * 4u + (r) / 4u)
#else
        /* Register q: rows 8 (q / 2) + lane, steps 4 (q % 2) ... */
        [[unroll]] for (uint q = 0u; q < 4u; q++)
            a[q] = LOAD4(A, A_AT(i0 + 8u * (q / 2u) + LANE, t + 4u * (q % 2u)) / 4u);
#define A_TILE(r, s) subgroupShuffle(a[(r) / 8u * 2u + (s) / 4u][(s) % 4u], (r) % 8u)
#endif
#if MODE == LINEAR
        /* B is stored transposed: the lane's 4 columns are 4 rows of W, 8 steps of each. */
        [[unroll]] for (uint h = 0u; h < 2u; h++) {
            vec4 c[4];
            [[unroll]] for (uint v = 0u; v < 4u; v++) c[v] = LOAD4(B, B_AT(t + 4u * h, j + v) / 4u);
            [[unroll]] for (uint s = 0u; s < 4u; s++) b[4u * h + s] = vec4(c[0][s], c[1][s], c[2][s], c[3][s]);
        }
#else
        [[unroll]] for (uint s = 0u; s < STEP; s++) b[s] = LOAD4(B, B_AT(t + s, j) / 4u);
#endif
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            [[unroll]] for (uint s = 0u; s < STEP; s++) acc[r] = fma(vec4(A_TILE(r, s)), b[s], acc[r]);
    }

    if (j0 < OUT_COLS)
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            if (i0 + r < OUT_ROWS) Z[OUT_AT(i0 + r, j) / 4u] = acc[r];
}
