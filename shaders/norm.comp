/* Norm of one chain over its true width; g' is g, or 1 + g for kind 1:
 *     RMS norm (Zhang & Sennrich 2019)    s = 1/sqrt(mean x_c^2 + eps),        y_c = x_c s g'_c
 *     layer norm (Ba et al. 2016)         s = 1/sqrt(mean (x_c - m)^2 + eps),  y_c = (x_c - m) s g_c,  m = mean x_c
 * The padding holds zeros, so sums over X run over all columns; distances from the mean are masked. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(norm)
IN4(0, X)
IN4(1, gain)
OUT4(2, Y)
OUT(3, float, stat)
#include "norm.glsl"

void main() {
    PUSH_ONCE(norm)
    uint r = ROW, cols = p.cols / 4u;
    if (r >= p.rows) return; /* all of the workgroup or none */
    uint x0 = (r * p.ldx + p.xo) / 4u, y0 = (r * p.ldy + p.yo) / 4u;
    float sum = 0.0;
#if KIND == 2
    for (uint c = ME; c < cols; c += WIDTH) sum += sum4(LOAD4(X, x0 + c));
    float mean = row_sum(sum) / float(p.width);
    if (ME == 0u) stat[p.mo + r] = mean;
    sum = 0.0;
#endif
    for (uint c = ME; c < cols; c += WIDTH) {
        vec4 x = CENTRED(LOAD4(X, x0 + c), mean, c);
        sum += dot(x, x);
    }
    float s = 1.0 / sqrt(row_sum(sum) / float(p.width) + p.eps);
    for (uint c = ME; c < cols; c += WIDTH)
        STORE4(Y, y0 + c, CENTRED(LOAD4(X, x0 + c), mean, c) * s * GAIN(LOAD4(gain, c)));
    if (ME == 0u) stat[p.so + r] = s;
}
