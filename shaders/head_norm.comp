/* RMS norm of every head on its own (Henry et al. 2020): s = 1/sqrt(mean_{d < hd} x_d^2 + eps), y_d = x_d s g'_d, where
 * g' is g, or 1 + g for kind 1, the same for all heads. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
#include "head_norm.glsl"
PUSH(head_norm)
READS(0, X)
READS(1, gain)
OUT(2, VALUE, Y)
OUT(3, float, stat)

void main() {
    PUSH_ONCE(head_norm)
    uint r = ROW;
    if (r >= p.rows) return; /* all of the workgroup or none */
    EACH_HEAD(h) {
        uint x0 = HEAD_X(r, h), y0 = HEAD_Y(r, h);
        float sum = 0.0;
        for (uint d = ME; d < p.hd / UNIT; d += WIDTH) sum += dot(AT(X, x0 + d), AT(X, x0 + d));
        float s = 1.0 / sqrt(row_sum(sum) / float(p.hd) + p.eps);
        for (uint d = ME; d < p.hd / UNIT; d += WIDTH) PUT(Y, y0 + d, AT(X, x0 + d) * s * GAIN(AT(gain, d)));
        if (ME == 0u) stat[HEAD_STAT(r, h)] = s;
    }
}
