/* Gain gradient of the norm: dg_c += sum_r dy_rc x_rc s_r, for layer norm with x_rc - mean_r. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
PUSH(norm)
IN4(0, X)
IN(1, float, stat)
IN4(2, dY)
OUT(3, vec4, dgain)
#include "norm.glsl"

vec2 of_row(uint r) {
#if KIND == 2
    return vec2(stat[p.so + r], stat[p.mo + r]);
#else
    return vec2(stat[p.so + r], 0);
#endif
}
vec4 of_column(uint r, uint at, vec2 row) {
    return LOAD4(dY, (r * p.ldy + p.yo) / 4u + at) * CENTRED(LOAD4(X, (r * p.ldx + p.xo) / 4u + at), row.y, at) * row.x;
}
#include "columns.glsl"

void main() {
    PUSH_ONCE(norm)
    uint c = COLUMN;
    bool mine = c < p.cols / 4u;
    vec4 sum = vec4(0);
    columns_add(sum, p.rows, mine ? c : 0u);
    sum = columns_join(sum);
    if (mine && STRIP == 0u) dgain[c] += sum;
}
