/* z = silu(a) b with silu(a) = a sigma(a) (Shazeer 2020). */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
#include "swiglu.glsl"
PUSH(ew)
IN4(0, A)
IN4(1, B)
OUT4(2, Z)

void main() {
    uint r = GROUP_FOLDED;
    if (r >= p.rows) return;
    uint a0 = (r * p.lda + p.ao) / 4u, z0 = (r * p.ldz + p.zo) / 4u;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) {
        vec4 a = LOAD4(A, a0 + c);
        STORE4(Z, z0 + c, a * logistic(a) * LOAD4(B, a0 + c));
    }
}
