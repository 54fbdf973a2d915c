/* Attention for GPUs: blocks of rows in shared memory, no subgroup operations.
 *
 * A workgroup of 64 makes a tile of 32 rows (queries, or keys in attn_dkv), which meets blocks of 32 other rows, aligned
 * to the sequence's start. Of the 32 x 32 numbers of the pairs an invocation makes 4 x 4: rows Y + 8 r, columns X + 8 c.
 * They go round in shared memory, and it adds what the block contributes to its own numbers: of the same rows, vec4 X of
 * every slice. A slice is 32 dimensions of both sides, so that the head size does not change the memory taken. Rows of
 * shared memory are one vec4 longer than they need be, so that neighbours meet different banks.
 * Rows beyond a sequence's end are read as its last row and masked; dimensions beyond the head's are zeros. */
#include "attn.glsl"
layout(local_size_x = 64) in;

#define TILE 32u
#define BLOCK 32u
#define X (gl_LocalInvocationIndex % 8u)
#define Y (gl_LocalInvocationIndex / 8u)
#define SLICES ((HD + 31) / 32)
#define EACH_SLICE for (uint n = 0u; n < SLICES; n++)
#define EACH4(r) [[unroll]] for (uint r = 0u; r < 4u; r++)
#define OWN_ROW(r) (Y + 8u * r)
#define PAIR(c) (X + 8u * c)
/* Loops that would fill a kernel with code, and some drivers' compilers with work, are kept loops by hand. */
#define EACH_PAIR(j)                                                                                                   \
    [[dont_unroll]] for (uint j0 = 0u; j0 < BLOCK; j0 += 2u)                                                           \
        [[unroll]] for (uint j = j0; j < j0 + 2u; j++)
/* Whether vec4 X of slice n holds dimensions. */
#define IS_DIM (HD % 32 == 0 || 8u * n + X < HD / 4u)

shared vec4 side_a[TILE][9], side_b[BLOCK][9];

/* at[r]: where own row r of the tensor begins. */
#define LOAD_SLICE(side, name, at) EACH4(r) side[OWN_ROW(r)][X] = IS_DIM ? LOAD4(name, at[r] / 4u + 8u * n + X) : vec4(0);

/* s[r][c] += a.b over a slice, in fours. */
void add_dots(inout float s[4][4]) {
    [[dont_unroll]] for (uint d = 0u; d < 8u; d++) {
        vec4 a[4], b[4];
        EACH4(r) a[r] = side_a[OWN_ROW(r)][d];
        EACH4(c) b[c] = side_b[PAIR(c)][d];
        EACH4(r) EACH4(c) [[unroll]] for (uint e = 0u; e < 4u; e++) s[r][c] = fma(a[r][e], b[c][e], s[r][c]);
    }
}

/* Where the keys of a tile's queries begin: at the block of the smallest first; and whether query i sees any key of the
 * block at k0. */
#if FIRST
#define KEYS_FROM(name)                                                                                                \
    uint name = p.T;                                                                                                   \
    for (uint r = 0u; live && r < TILE; r++) name = min(name, first[row0 + min(q0 + r, p.T - 1u)]);                    \
    name = name / BLOCK * BLOCK;
#define MEETS(i, start, k0) ((k0) <= (i) && (start) < (k0) + BLOCK)
#else
#define KEYS_FROM(name) uint name = 0u;
#define MEETS(i, start, k0) true
#endif
