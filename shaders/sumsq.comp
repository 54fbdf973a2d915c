/* partial[g] = sum of squares of chunk g of X: one chunk of ABI_SUMSQ_CHUNK elements a workgroup. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(sumsq)
IN4(0, X)
OUT(1, float, partial)

void main() {
    PUSH_ONCE(sumsq)
    uint g = GROUP_FOLDED, chunk = ABI_SUMSQ_CHUNK / 4u;
    if (g * ABI_SUMSQ_CHUNK >= p.n) return; /* all of the workgroup or none */
    uint end = min((g + 1u) * chunk, (p.n + 3u) / 4u);
    float sum = 0.0;
    for (uint i = g * chunk + ME; i < end; i += WIDTH) {
        vec4 x = mix(vec4(0), LOAD4(X, i), lessThan(4u * i + uvec4(0, 1, 2, 3), uvec4(p.n)));
        sum += dot(x, x);
    }
    sum = row_sum(sum);
    if (ME == 0u) partial[p.po + g] = sum;
}
