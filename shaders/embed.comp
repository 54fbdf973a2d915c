/* X[r, c] (+)= scale E[token[r] - first, c]: one row of X a workgroup. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(embed)
IN(0, uint, token)
IN4(1, E)
IO4(2, X)

void main() {
    PUSH_ONCE(embed)
    uint r = ROW;
    if (r >= p.rows) return;
    uint row = token[r] - p.first; /* far beyond any count for a token below the window */
    if (p.count != 0u && row >= p.count) return;
    uint from = row * (p.lde / 4u), to = (r * p.ldx + p.xo) / 4u;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) {
        vec4 e = p.scale * LOAD4(E, from + c);
        STORE4(X, to + c, p.acc != 0u ? LOAD4(X, to + c) + e : e);
    }
}
