/* Y[r, c] += b[c]: one row of Y a workgroup. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(bias)
IO4(0, Y)
IN4(1, b)

void main() {
    PUSH_ONCE(bias)
    uint r = ROW, y0 = (r * p.ld + p.o) / 4u;
    if (r >= p.rows) return;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) STORE4(Y, y0 + c, LOAD4(Y, y0 + c) + LOAD4(b, c));
}
