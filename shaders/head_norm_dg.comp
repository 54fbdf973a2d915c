/* Gain gradient of the norm of heads: dg_d += sum over heads, then rows, of dy_d x_d s. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "head_norm.glsl"
PUSH(head_norm)
READS(0, X)
IN(1, float, stat)
READS(2, dY)
OUT(3, VALUE, dgain)

uint head = 0u;
vec2 of_row(uint r) { return vec2(stat[HEAD_STAT(r, head)], 0); }
VALUE of_column(uint r, uint at, vec2 row) { return AT(dY, HEAD_Y(r, head) + at) * AT(X, HEAD_X(r, head) + at) * row.x; }
#if !TEXELS
#define TERM VALUE
#endif
#include "columns.glsl"

void main() {
    PUSH_ONCE(head_norm)
    uint d = COLUMN;
    bool mine = d < p.hd / UNIT;
    VALUE sum = VALUE(0);
    for (head = 0u; head < p.heads; head++) columns_add(sum, p.rows, mine ? d : 0u);
    sum = columns_join(sum);
    if (mine && STRIP == 0u) dgain[d] += sum;
}
