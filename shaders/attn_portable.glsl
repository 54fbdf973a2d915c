/* Attention on any device: plain buffers, any head size, 16 x 8 invocations a workgroup.
 *
 * A tile of 16 rows (y; queries, or keys in attn_dkv) meets blocks of 8 other rows (x), aligned to the sequence's start.
 * First every invocation works out the numbers of one pair and shares them; then it owns row y's dimensions x, x + 8, ..
 * and adds what the block contributes. Rows beyond a sequence's end are read as its last row and masked. Sums take 16
 * steps a turn: some drivers end loops after 65535 turns. */
#include "attn.glsl"
layout(local_size_x = 8, local_size_y = 16) in;

#define TILE 16u
#define BLOCK 8u
#define X gl_LocalInvocationID.x
#define Y gl_LocalInvocationID.y
#define OWN ((HD + 7) / 8)
#define EACH_OWN [[unroll]] for (uint n = 0u; n < OWN; n++)
#define EACH_ROW [[unroll]] for (uint j = 0u; j < BLOCK; j++)
#define IS_DIM(d) (HD % 8 == 0 || (d) < HD)
/* Dimension of the n-th own number; 0 stands for one there is not. */
#define DIM(n) (IS_DIM(X + 8u * n) ? X + 8u * n : 0u)

/* A query's first key and where its tile begins to look: at the block of the tile's smallest first. MEETS: whether query i
 * sees any key of the block at k0. */
#if FIRST
#define QUERY_START(start, name)                                                                                       \
    uint start = live ? first[row] : 0u, name = start;                                                                 \
    for (uint r = 0u; live && r < TILE; r++) name = min(name, first[row0 + min(q0 + r, p.T - 1u)]);                    \
    name = name / BLOCK * BLOCK;
#define MEETS(i, start, k0) ((k0) <= (i) && (start) < (k0) + BLOCK)
#else
#define QUERY_START(start, name) uint name = 0u;
#define MEETS(i, start, k0) ((k0) <= (i))
#endif

#define DOT(name, A, B)                                                                                                \
    float name(uint a, uint b) {                                                                                       \
        float s = 0.0;                                                                                                 \
        for (uint d0 = 0u; d0 < HD; d0 += 16u)                                                                         \
            [[unroll]] for (uint d = d0; d < d0 + 16u; d++)                                                            \
                if (HD % 16 == 0 || d < HD) s = fma(GET(A, a + d), GET(B, b + d), s);                                            \
        return s;                                                                                                      \
    }
