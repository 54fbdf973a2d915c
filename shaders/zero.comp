/* X[0 .. n-1] = 0. PER vec4s an invocation. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(zero)
OUT4(0, X)

#define PER 16u

void main() {
    PUSH_ONCE(zero)
    uint first = GROUP_FOLDED * (WIDTH * PER) + ME;
    for (uint k = 0u; k < PER; k++) {
        uint i = first + k * WIDTH;
        if (i < p.n / 4u) {
            STORE4(X, i, vec4(0));
        } else if (i < (p.n + 3u) / 4u) {
            STORE4_PART(X, i, vec4(0), p.n % 4u)
        }
    }
}
