/* delta_i = do_i.o_i of every head, the term that all gradients of a query's scores subtract (its row of P dP). An
 * invocation makes one number: rows along x (folded), heads on y. Heads of whole vec4s may be read through texels. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn.glsl"
#if TEXELS
layout(local_size_x = 8) in;
IN4(0, O)
IN4(1, dO)
#else
layout(local_size_x = 64) in;
IN(0, float, O)
IN(1, float, dO)
#endif
OUT(2, float, stat)

void main() {
    uint row = GROUP_FOLDED * gl_WorkGroupSize.x + gl_LocalInvocationID.x, h = gl_WorkGroupID.y;
    if (row >= p.rows) return;
    float s = 0.0;
    uint at = o_at(row, h);
#if TEXELS
    for (uint d = 0u; d < HD; d += 4u) s += dot(LOAD4(O, (at + d) / 4u), LOAD4(dO, (at + d) / 4u));
#else
    for (uint d = 0u; d < HD; d++) s = fma(GET(O, at + d), GET(dO, at + d), s);
#endif
    stat[delta_at(row, h)] = s;
}
