/* z = act(a) b (Shazeer 2020), or where the call says PLAIN act(a). */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
#include "swiglu.glsl"
PUSH(ew)
IN4(0, A)
#if PLAIN
#define GATE(c) vec4(1)
#else
IN4(1, B)
#define GATE(c) LOAD4(B, c)
#endif
OUT4(2, Z)

void main() {
    PUSH_ONCE(ew)
    uint r = ROW;
    if (r >= p.rows) return;
    uint a0 = (r * p.lda + p.ao) / 4u, z0 = (r * p.ldz + p.zo) / 4u;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) STORE4(Z, z0 + c, act(LOAD4(A, a0 + c)) * GATE(a0 + c));
}
