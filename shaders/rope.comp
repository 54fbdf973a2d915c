/* Rotary positions (Su et al. 2021), in place: the halves (a, b) of every head -> (a c - b s, b c + a s) with cosine and
 * sine of the row's position from a table (GLSL's own are good to 2^-11 only). A rotation: its derivative is the rotation
 * back, sign -1. HD comes from the call. Heads whose halves are whole vec4s are turned by vec4s, others by scalars. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(rope)
#if TEXELS
#define UNIT 4u
#define TYPE vec4
IO4(0, X)
IN4(1, table)
#define X_AT(i) LOAD4(X, i)
#define TABLE_AT(i) LOAD4(table, i)
#define X_PUT(i, v) STORE4(X, i, v)
#else
#define UNIT 1u
#define TYPE float
OUT(0, float, X)
IN(1, float, table)
#define X_AT(i) GET(X, i)
#define TABLE_AT(i) table[i]
#define X_PUT(i, v) PUT(X, i, v)
#endif
#define HALF (HD / 2u / UNIT)

void main() {
    PUSH_ONCE(rope)
    uint r = ROW;
    if (r >= p.rows) return;
    uint cos0 = r % p.T * (HD / UNIT), x0 = (r * p.ld + p.xo) / UNIT;
    for (uint k = ME; k < p.heads * HALF; k += WIDTH) {
        uint i = k % HALF, at = x0 + k / HALF * (HD / UNIT) + i;
        TYPE a = X_AT(at), b = X_AT(at + HALF), c = TABLE_AT(cos0 + i), s = p.sign * TABLE_AT(cos0 + HALF + i);
        X_PUT(at, a * c - b * s);
        X_PUT(at + HALF, b * c + a * s);
    }
}
