/* Z = A + B. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(ew)
IN4(0, A)
IN4(1, B)
OUT4(2, Z)

void main() {
    PUSH_ONCE(ew)
    uint r = ROW, a0 = (r * p.lda + p.ao) / 4u, z0 = (r * p.ldz + p.zo) / 4u;
    if (r >= p.rows) return;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) STORE4(Z, z0 + c, LOAD4(A, a0 + c) + LOAD4(B, a0 + c));
}
