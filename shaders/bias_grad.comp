/* Gradient of the bias: db[c] += sum_r dY[r, c]. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
PUSH(bias)
IN4(0, dY)
OUT(1, vec4, db)

vec2 of_row(uint r) { return vec2(0); }
vec4 of_column(uint r, uint at, vec2 row) { return LOAD4(dY, (r * p.ld + p.o) / 4u + at); }
#include "columns.glsl"

void main() {
    PUSH_ONCE(bias)
    uint c = COLUMN;
    bool mine = c < p.cols / 4u;
    vec4 sum = vec4(0);
    columns_add(sum, p.rows, mine ? c : 0u);
    sum = columns_join(sum);
    if (mine && STRIP == 0u) db[c] += sum;
}
