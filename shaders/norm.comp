/* RMS norm of one chain (Zhang & Sennrich 2019): s = 1/sqrt(mean_{c < width} x_c^2 + eps), y_c = x_c s g_c. The padding
 * holds zeros, so sums run over all columns. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(norm)
IN4(0, X)
IN4(1, gain)
OUT4(2, Y)
OUT(3, float, stat)

void main() {
    uint r = GROUP_FOLDED, cols = p.cols / 4u;
    if (r >= p.rows) return; /* all of the workgroup or none */
    uint x0 = (r * p.ldx + p.xo) / 4u, y0 = (r * p.ldy + p.yo) / 4u;
    float sum = 0.0;
    for (uint c = ME; c < cols; c += WIDTH) {
        vec4 x = LOAD4(X, x0 + c);
        sum += dot(x, x);
    }
    float s = 1.0 / sqrt(row_sum(sum) / float(p.width) + p.eps);
    for (uint c = ME; c < cols; c += WIDTH) STORE4(Y, y0 + c, LOAD4(X, x0 + c) * s * LOAD4(gain, c));
    if (ME == 0u) stat[p.so + r] = s;
}
