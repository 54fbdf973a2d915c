/* Gradient of z = act(a) b, in place of a and b: da = dz b act'(a), db = dz act(a). Where the call says PLAIN there is no
 * b, and da = dz act'(a). dz lies as a does. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
#include "swiglu.glsl"
PUSH(ew)
IO4(0, A)
#if !PLAIN
IO4(1, B)
#endif
IN4(2, dZ)

void main() {
    PUSH_ONCE(ew)
    uint r = ROW;
    if (r >= p.rows) return;
    uint a0 = (r * p.lda + p.ao) / 4u;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) {
        vec4 a = LOAD4(A, a0 + c), dz = LOAD4(dZ, a0 + c);
#if PLAIN
        STORE4(A, a0 + c, dz * act_slope(a));
#else
        vec4 b = LOAD4(B, a0 + c);
        STORE4(A, a0 + c, dz * b * act_slope(a));
        STORE4(B, a0 + c, dz * act(a));
#endif
    }
}
