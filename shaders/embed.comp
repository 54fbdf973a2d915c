/* X[r, c] = E[token[r], c]: one row of X a workgroup. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(embed)
IN(0, uint, token)
IN4(1, E)
OUT4(2, X)

void main() {
    uint r = GROUP_FOLDED;
    if (r >= p.rows) return;
    uint from = token[r] * (p.lde / 4u), to = (r * p.ldx + p.xo) / 4u;
    for (uint c = ME; c < p.cols / 4u; c += WIDTH) STORE4(X, to + c, LOAD4(E, from + c));
}
