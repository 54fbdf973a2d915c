/* The ceiling of arithmetic: every invocation keeps CHAINS vec4s in registers and applies x = x a + b to them, DEEP
 * times a turn: 2 * 4 * CHAINS * DEEP operations. Nothing is loaded, and one vec4 stored so that the work counts. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(peak)
OUT4(0, Y)

#define CHAINS 3u /* hides the latency, and a CPU has registers for them */
#define DEEP 16u

void main() {
    vec4 x[CHAINS];
    uint at = GROUP_FOLDED * WIDTH + ME;
    vec4 a = vec4(p.a), b = vec4(p.b);
    [[unroll]] for (uint c = 0u; c < CHAINS; c++) x[c] = vec4(float(at + c));
    for (uint t = 0u; t < p.turns; t++)
        [[unroll]] for (uint k = 0u; k < DEEP; k++)
            [[unroll]] for (uint c = 0u; c < CHAINS; c++) x[c] = fma(x[c], a, b);
    vec4 sum = vec4(0);
    [[unroll]] for (uint c = 0u; c < CHAINS; c++) sum += x[c];
    STORE4(Y, at, sum);
}
