/* The ceiling of loads and stores: Y = X, each workgroup its own run of n vec4s, `turns` times over. BATCH loads are
 * under way at once; n is a multiple of BATCH * WIDTH. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(peak)
IN4(0, X)
OUT4(1, Y)

void main() {
    uint first = GROUP_FOLDED * p.n + ME;
    for (uint t = 0u; t < p.turns; t++)
        for (uint c = first; c < first + p.n; c += BATCH * WIDTH) {
            vec4 v[BATCH];
            [[unroll]] for (uint k = 0u; k < BATCH; k++) v[k] = LOAD4(X, c + k * WIDTH);
            [[unroll]] for (uint k = 0u; k < BATCH; k++) STORE4(Y, c + k * WIDTH, v[k]);
        }
}
