/* Y = X, in the storage of Y. PER vec4s an invocation. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(cast)
IN4(0, X)
OUT4(1, Y)

#define PER 16u

void main() {
    PUSH_ONCE(cast)
    uint first = GROUP_FOLDED * (WIDTH * PER) + ME;
    for (uint k = 0u; k < PER; k++) {
        uint i = first + k * WIDTH;
        if (i < p.n / 4u) {
            STORE4(Y, i, LOAD4(X, i));
        } else if (i < (p.n + 3u) / 4u) {
            vec4 x = LOAD4(X, i);
            STORE4_PART(Y, i, x, p.n % 4u)
        }
    }
}
