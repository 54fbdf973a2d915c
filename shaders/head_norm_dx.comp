/* Input gradient of the norm of heads: dx_d = s (g'_d dy_d - x_d s^2 / hd sum_k g'_k dy_k x_k). */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
#include "head_norm.glsl"
PUSH(head_norm)
READS(0, X)
READS(1, gain)
IN(2, float, stat)
READS(3, dY)
OUT(4, VALUE, dX)

void main() {
    PUSH_ONCE(head_norm)
    uint r = ROW;
    if (r >= p.rows) return; /* all of the workgroup or none */
    EACH_HEAD(h) {
        uint x0 = HEAD_X(r, h), y0 = HEAD_Y(r, h);
        float sum = 0.0, s = stat[HEAD_STAT(r, h)];
        for (uint d = ME; d < p.hd / UNIT; d += WIDTH)
            sum += dot(GAIN(AT(gain, d)) * AT(dY, y0 + d), AT(X, x0 + d));
        float a = s * s * row_sum(sum) / float(p.hd);
        for (uint d = ME; d < p.hd / UNIT; d += WIDTH)
            PUT(dX, x0 + d, s * (GAIN(AT(gain, d)) * AT(dY, y0 + d) - a * AT(X, x0 + d)));
    }
}
