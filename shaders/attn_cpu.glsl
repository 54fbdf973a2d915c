/* Attention for CPU devices with subgroups of 8: one subgroup a workgroup, no shared memory, no barrier.
 *
 * Every lane owns VECS rows (queries, or keys in attn_dkv) in registers. The rows it meets come in blocks of BLOCK, aligned
 * to the sequence's start: the lanes load one block together through texel fetches, plain loads on such a device, and hand
 * its numbers round by shuffles with constant index, which become register permutes. Register r of a block holds its
 * vec4s PACK r .. PACK r + PACK-1 of all BLOCK rows, so smaller blocks mean less code.
 * Rows beyond a sequence's end are read as its last row and masked: nothing of another sequence is touched.
 * VECS and BLOCK come from the call, too. */
#include "attn.glsl"
layout(local_size_x = 8) in;

#define TILE (8 * VECS) /* rows of a workgroup, VECS a lane */
#define EACH_VEC [[unroll]] for (uint v = 0u; v < VECS; v++)
#define D4 (HD / 4)
#define PACK (8 / BLOCK)
#define REGS (D4 / PACK)
#define BLOCK_ROW(first) (row0 + min((first) + LANE % BLOCK, p.T - 1u))
#define LOAD_BLOCK(a, X, at)                                                                                           \
    [[unroll]] for (uint d = 0u; d < REGS; d++) a[d] = LOAD4(X, (at) / 4u + d * PACK + LANE / BLOCK);
/* vec4 d of row j of a block. */
#define PICK(a, j, d) subgroupShuffle(a[(d) / PACK], (j) + BLOCK * ((d) % PACK))
/* Where the keys of a tile's queries begin: at the block that holds the smallest `start`, each query's first. What lies
 * before a query's own first leaves its sums at zero. */
#if FIRST
#define KEYS_FROM(start, name)                                                                                         \
    uint name = p.T;                                                                                                   \
    EACH_VEC name = min(name, start[v]);                                                                               \
    name = lanes_min(name) / BLOCK * BLOCK;
#else
#define KEYS_FROM(start, name) uint name = 0u;
#endif
#define EACH_DIM [[unroll]] for (uint d = 0u; d < D4; d++)
#define EACH_ROW [[unroll]] for (uint j = 0u; j < BLOCK; j++)

/* s + a.b as a chain of four. */
float chain(vec4 a, vec4 b, float s) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, s)))); }
