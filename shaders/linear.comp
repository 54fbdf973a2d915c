/* Linear layers on any device: plain buffers, no shared memory, no subgroup operations (the products: linear.glsl).
 *
 * An invocation makes 4 x 4 elements of the result, a group of 8 x 8 invocations 32 x 32, in steps of 4 in the reduction
 * index: 65,535 loop iterations, where some drivers stop, are reached at 262,140 only. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "linear.glsl"

layout(local_size_x = 8, local_size_y = 8) in;
PUSH(linear)
IN4(0, A)
IN4(1, B)
IN4(2, R)
OUT(3, vec4, Z)

void main() {
    uint i = (ROW_TILE * 8u + gl_LocalInvocationID.y) * 4u;
    uint j = (COL_TILE * 8u + gl_LocalInvocationID.x) * 4u;
    if (i >= OUT_ROWS || j >= OUT_COLS) return;
    vec4 acc[4];
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        acc[r] = p.init != 0u && i + r < OUT_ROWS ? LOAD4(R, OUT_AT(i + r, j) / 4u) : vec4(0);

    for (uint t = 0u; t < DEPTH; t += 4u) {
        vec4 a[4], b[4]; /* a[s][r] for a transposed A, else a[r][s]; b[s] by columns */
#if MODE == LINEAR_DW
        [[unroll]] for (uint s = 0u; s < 4u; s++) a[s] = LOAD4(A, A_AT(i, t + s) / 4u);
#define A_TILE(r, s) a[s][r]
#else
        [[unroll]] for (uint r = 0u; r < 4u; r++) a[r] = LOAD4(A, A_AT(i + r, t) / 4u);
#define A_TILE(r, s) a[r][s]
#endif
#if MODE == LINEAR
        vec4 c[4];
        [[unroll]] for (uint v = 0u; v < 4u; v++) c[v] = LOAD4(B, B_AT(t, j + v) / 4u);
        [[unroll]] for (uint s = 0u; s < 4u; s++) b[s] = vec4(c[0][s], c[1][s], c[2][s], c[3][s]);
#else
        [[unroll]] for (uint s = 0u; s < 4u; s++) b[s] = LOAD4(B, B_AT(t + s, j) / 4u);
#endif
        [[unroll]] for (uint r = 0u; r < 4u; r++)
            [[unroll]] for (uint s = 0u; s < 4u; s++) acc[r] = fma(vec4(A_TILE(r, s)), b[s], acc[r]);
    }
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        if (i + r < OUT_ROWS) PUT(Z, OUT_AT(i + r, j) / 4u, acc[r]);
}
