/* Input gradient of the RMS norm, y = x s g with ds/dx_c = -s^3 x_c / width:
 *     dx_c += s g_c dy_c - x_c s^3 / width sum_k g_k dy_k x_k */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(norm)
IN4(0, X)
IN4(1, gain)
IN(2, float, stat)
IN4(3, dY)
IO4(4, dX)

void main() {
    uint r = GROUP_FOLDED, cols = p.cols / 4u;
    if (r >= p.rows) return; /* all of the workgroup or none */
    uint x0 = (r * p.ldx + p.xo) / 4u, y0 = (r * p.ldy + p.yo) / 4u;
    float sum = 0.0, s = stat[p.so + r];
    for (uint c = ME; c < cols; c += WIDTH) sum += dot(LOAD4(gain, c) * LOAD4(dY, y0 + c), LOAD4(X, x0 + c));
    float a = s * s * row_sum(sum) / float(p.width);
    for (uint c = ME; c < cols; c += WIDTH)
        STORE4(dX, x0 + c,
               LOAD4(dX, x0 + c) + s * (LOAD4(gain, c) * LOAD4(dY, y0 + c) - a * LOAD4(X, x0 + c)));
}
