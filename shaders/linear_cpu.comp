/* Linear layers for CPU devices with subgroups of 8 (the products: linear.glsl).
 *
 * One subgroup makes a tile of 32 rows x 32 columns of the result: a lane holds 4 neighbouring columns of each row.
 * Per step of 4 in the reduction index every lane loads its own part of B through texel fetches, which a CPU device
 * turns into plain loads; the tile of A is spread over the lanes and handed round by shuffles with constant index,
 * which become register permutes. No shared memory, no barrier. The size is measured: a fetch costs as much as ten
 * multiply-adds, so tiles are large, and a step's B must fit the registers. Rows of the result beyond its end are
 * computed from rows that exist in memory (ops_rows) or from the last valid ones, and never written.
 *
 * JOINED 1: several products in one call (abi_linears); the loop over a tile's blocks goes on with the sum. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "linear.glsl"

layout(local_size_x = 8) in;
#ifndef JOINED
#define JOINED 0
#endif
#if JOINED
PUSH(linears)
IN4(4, plan)
#else
PUSH(linear)
#endif
IN4(0, A)
IN4(1, B)
IN4(2, R)
OUT4(3, Z)

#define ROWS 32u
#define STEP 4u

#if JOINED
abi_linear block_at(uint b) {
    uvec4 v = uvec4(LOAD4(plan, p.tiles + 3u * b)), w = uvec4(LOAD4(plan, p.tiles + 3u * b + 1u));
    return abi_linear(p.M, v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w, p.init | uint(LOAD4(plan, p.tiles + 3u * b + 2u).x));
}
#endif

void main() {
#if JOINED
#if MODE == LINEAR_DW
    uint number = GROUP_FOLDED;
    if (number >= p.tiles) return;
    vec4 tile = LOAD4(plan, number);
    uint i0 = uint(tile.z);
#else
    vec4 tile = LOAD4(plan, COL_TILE);
    uint i0 = ROW_TILE * ROWS;
#endif
    uint j0 = uint(tile.w) + 4u * LANE, block = uint(tile.x), end = block + uint(tile.y);
    abi_linear p = block_at(block);
#else
    uint i0 = ROW_TILE * ROWS, j0 = COL_TILE * 32u + 4u * LANE;
    PUSH_ONCE(linear)
#endif
    uint j = min(j0, OUT_COLS - 4u); /* lanes beyond the last column load what the last ones do */
    uint z_at = OUT_AT(i0, j) / 4u, z_row = (OUT_AT(1u, 0u) - OUT_AT(0u, 0u)) / 4u, z_rows = OUT_ROWS;
    bool mine = j0 < OUT_COLS;
    vec4 acc[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) acc[r] = vec4(0);
    if (p.init != 0u)
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            if (i0 + r < z_rows) acc[r] = LOAD4(R, z_at + r * z_row);

#if JOINED
    for (; block < end; block++) {
        p = block_at(block);
#endif
    /* Register q of A for the steps t ... t+3. Stored as it is used: rows 8 q + lane, the 4 steps; stored transposed: step
     * q, rows 4 lane ... 4 lane + 3. */
    uint a_at[4], a_step = (A_AT(0u, STEP) - A_AT(0u, 0u)) / 4u;
#if MODE == LINEAR_DW
    [[unroll]] for (uint q = 0u; q < 4u; q++) a_at[q] = A_AT(min(i0 + 4u * LANE, OUT_ROWS - 4u), q) / 4u;
#define A_TILE(r, s) subgroupShuffle(a[s][(r) % 4u], (r) / 4u)
#else
    uint last = (OUT_ROWS + 15u) / 16u * 16u - 1u;
    [[unroll]] for (uint q = 0u; q < 4u; q++) a_at[q] = A_AT(min(i0 + 8u * q + LANE, last), 0u) / 4u;
#define A_TILE(r, s) subgroupShuffle(a[(r) / 8u][s], (r) % 8u)
#endif
    /* Register s of B: step s, the lane's 4 columns; stored transposed: column s, the 4 steps. */
#if MODE == LINEAR
    uint b_at = B_AT(0u, j) / 4u, b_next = (B_AT(0u, 1u) - B_AT(0u, 0u)) / 4u, b_step = STEP / 4u;
#define B_TILE(s) vec4(b[0][s], b[1][s], b[2][s], b[3][s])
#else
    uint b_at = B_AT(0u, j) / 4u, b_next = (B_AT(1u, 0u) - B_AT(0u, 0u)) / 4u, b_step = STEP * b_next;
#define B_TILE(s) b[s]
#endif
    for (uint t = 0u; t < DEPTH; t += STEP) {
        vec4 a[4], b[4];
        [[unroll]] for (uint q = 0u; q < 4u; q++) {
            a[q] = LOAD4(A, a_at[q]);
            a_at[q] += a_step;
        }
        [[unroll]] for (uint s = 0u; s < 4u; s++) b[s] = LOAD4(B, b_at + s * b_next);
        b_at += b_step;
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            [[unroll]] for (uint s = 0u; s < STEP; s++) acc[r] = fma(vec4(A_TILE(r, s)), B_TILE(s), acc[r]);
    }

#if JOINED
    }
#endif

    if (mine)
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            if (i0 + r < z_rows) STORE4(Z, z_at + r * z_row, acc[r]);
}
