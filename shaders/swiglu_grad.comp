/* Gradient of z = a sigma(a) b, in place of a and b: da = dz b sigma(a) (1 + a (1 - sigma(a))), db = dz a sigma(a), with
 * 1 - sigma(a) = sigma(-a). dz lies as a does. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
#include "swiglu.glsl"
PUSH(ew)
IO4(0, A)
IO4(1, B)
IN4(2, dZ)

void main() {
    uint r = GROUP_FOLDED;
    if (r >= p.rows) return;
    uint a0 = (r * p.lda + p.ao) / 4u;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) {
        vec4 a = LOAD4(A, a0 + c), b = LOAD4(B, a0 + c), dz = LOAD4(dZ, a0 + c);
        vec4 s = logistic(a);
        STORE4(A, a0 + c, dz * b * s * (1.0 + a * logistic(-a)));
        STORE4(B, a0 + c, dz * a * s);
    }
}
