/* Input gradient of the norm. With g' = g, or 1 + g for kind 1, and u = x, or x - mean for layer norm, y = u s g' and
 * ds/dx_c = -s^3 u_c / width:
 *     dx_c += s g'_c dy_c - u_c s^3 / width sum_k g'_k dy_k u_k
 * and of layer norm's true columns, whose mean each x_c moves, also -s / width sum_k g_k dy_k (the u sum to 0). */
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
#include "norm.glsl"

#if KIND == 2
#define LESS_MEAN(v, c) true_columns((v) - share, c)
#else
#define LESS_MEAN(v, c) (v)
#endif

void main() {
    PUSH_ONCE(norm)
    uint r = ROW, cols = p.cols / 4u;
    if (r >= p.rows) return; /* all of the workgroup or none */
    uint x0 = (r * p.ldx + p.xo) / 4u, y0 = (r * p.ldy + p.yo) / 4u;
    float sum = 0.0, s = stat[p.so + r];
#if KIND == 2
    float mean = stat[p.mo + r];
    for (uint c = ME; c < cols; c += WIDTH) sum += dot(LOAD4(gain, c), LOAD4(dY, y0 + c));
    float share = row_sum(sum) / float(p.width);
    sum = 0.0;
#endif
    for (uint c = ME; c < cols; c += WIDTH)
        sum += dot(GAIN(LOAD4(gain, c)) * LOAD4(dY, y0 + c), CENTRED(LOAD4(X, x0 + c), mean, c));
    float a = s * s * row_sum(sum) / float(p.width);
    for (uint c = ME; c < cols; c += WIDTH) {
        vec4 g = LESS_MEAN(GAIN(LOAD4(gain, c)) * LOAD4(dY, y0 + c), c);
        STORE4(dX, x0 + c, LOAD4(dX, x0 + c) + s * (g - a * CENTRED(LOAD4(X, x0 + c), mean, c)));
    }
}
