/* Gradient of the embedding, a scatter turned into sums: dE[list[u] - first, c] (+)= scale sum_j X[order[j], c] for
 * j = start[u] .. start[u+1]-1 in this order.
 *
 * A workgroup makes WIDTH vec4s (z: fold) of one row of dE (x). Rows come in steps of 8, whose numbers the lanes of a
 * subgroup fetch together: one token may hold all rows of a batch, and some drivers end loops after 65535 turns. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(embed_grad)
IN(0, uint, list)
IN(1, uint, start)
IN(2, uint, order)
IN4(3, X)
IO4(4, E)

#define STEP 8u

void main() {
    PUSH_ONCE(embed_grad)
    uint u = GROUP_FOLDED, c = gl_WorkGroupID.y * WIDTH + ME;
    if (u >= p.unique) return;
    uint row = list[u] - p.first; /* far beyond any count for a token below the window */
    if (p.count != 0u && row >= p.count) return;
    uint end = start[u + 1u], at = row * (p.lde / 4u) + c;
    bool mine = c < p.cols / 4u;
    vec4 sum = vec4(0);
    for (uint j = start[u]; j < end; j += STEP) {
#if LANES == 8
        uint rows = order[min(j + LANE, end - 1u)];
#define OF_ROW(k) subgroupShuffle(rows, k)
#else
#define OF_ROW(k) order[min(j + k, end - 1u)]
#endif
        [[unroll]] for (uint k = 0u; k < STEP; k++) {
            vec4 x = LOAD4(X, (OF_ROW(k) * p.ldx + p.xo) / 4u + (mine ? c : 0u));
            sum += j + k < end ? x : vec4(0);
        }
    }
    if (mine) STORE4(E, at, p.acc != 0u ? LOAD4(E, at) + p.scale * sum : p.scale * sum);
}
