/* Linear layers of 16-bit tensors by cooperative matrices (the products: linear.glsl).
 *
 * A workgroup of four subgroups makes 64 x 64 elements of the result, a subgroup 32 x 32 of them in matrices of MM x MN,
 * in steps of 32 in the reduction index. The strips of a step go to shared memory as they lie in memory, four 16-bit numbers a uvec2,
 * and the matrices say how they lie; what is beyond the tensors is zero. Sums are float32, begin with R or 0 and go
 * through shared memory to be widened, rounded or cut off at the edges. The order in which a matrix product is summed
 * is the device's own; that of the products is ascending from 0, so both depend on the depth alone.
 *
 * From the call: T<k> (narrow.glsl), of tensors 0 and 1 the same; from the device: MM, MN, MK, and LANES. */
#version 450
#extension GL_GOOGLE_include_directive : require
#define BF16 (T0 == 1)
#include "matrix.glsl"
#include "common.glsl"
#include "linear.glsl"

#define SUBGROUPS 4u
#define TILE 64u
#define PART 32u /* of a subgroup, each way */
#define STEP 32u
#define THREADS (SUBGROUPS * LANES)
layout(local_size_x = THREADS) in;
PUSH(linear)
IN4(0, A)
IN4(1, B)
IN4(2, R)
OUT(3, vec4, Z)

/* A strip, its lines 16 bytes longer than they need be: a line is 32 steps of one row (FAST: the reduction index runs
 * fastest) or 64 rows of one step. */
#define LINE_FAST (STEP / 4u + 2u)
#define LINE_SLOW (TILE / 4u + 2u)
shared uvec2 strip_a[TILE * LINE_FAST], strip_b[TILE * LINE_FAST];
shared vec4 sums[SUBGROUPS][MM * MN / 4];

#define A_FAST (MODE != LINEAR_DW)
#define B_FAST (MODE == LINEAR)

/* Words of A and B: four numbers each. */
uvec2 a_at(uint i, uint t) { return i < OUT_ROWS && t < DEPTH ? A_w[A_AT(i, t) / 4u] : uvec2(0); }
uvec2 b_at(uint t, uint j) { return j < OUT_COLS && t < DEPTH ? B_w[B_AT(t, j) / 4u] : uvec2(0); }

#define MATRIX(T, ROWS, COLS, USE) coopmat<T, gl_ScopeSubgroup, ROWS, COLS, gl_MatrixUse##USE>
#define EACH_I for (uint i = 0u; i < PART / MM; i++)
#define EACH_J for (uint j = 0u; j < PART / MN; j++)

void main() {
    uint i0 = ROW_TILE * TILE, j0 = COL_TILE * TILE, me = gl_LocalInvocationIndex;
    uint part_i = gl_SubgroupID / 2u * PART, part_j = gl_SubgroupID % 2u * PART;
    MATRIX(float, MM, MN, Accumulator) acc[PART / MM][PART / MN];

    /* Element vec4s of matrix (i, j) by the lanes of its subgroup. */
#define EACH_VEC for (uint v = LANE; v < MM * MN / 4u; v += LANES)
#define VEC_ROW (i0 + part_i + i * MM + v / (MN / 4u))
#define VEC_COL (j0 + part_j + j * MN + v % (MN / 4u) * 4u)
    [[unroll]] EACH_I [[unroll]] EACH_J {
        acc[i][j] = MATRIX(float, MM, MN, Accumulator)(0.0);
        if (p.init != 0u) {
            EACH_VEC sums[gl_SubgroupID][v] = VEC_ROW < OUT_ROWS && VEC_COL < OUT_COLS ? LOAD4(R, OUT_AT(VEC_ROW, VEC_COL) / 4u) : vec4(0);
            barrier();
            coopMatLoad(acc[i][j], sums[gl_SubgroupID], 0, MN / 4, gl_CooperativeMatrixLayoutRowMajor);
            barrier();
        }
    }

    for (uint t = 0u; t < DEPTH; t += STEP) {
        [[unroll]] for (uint w = 0u; w < TILE * STEP / 4u; w += THREADS) {
            uint at = w + me;
#if A_FAST
            strip_a[at / (STEP / 4u) * LINE_FAST + at % (STEP / 4u)] = a_at(i0 + at / (STEP / 4u), t + at % (STEP / 4u) * 4u);
#else
            strip_a[at / (TILE / 4u) * LINE_SLOW + at % (TILE / 4u)] = a_at(i0 + at % (TILE / 4u) * 4u, t + at / (TILE / 4u));
#endif
#if B_FAST
            strip_b[at / (STEP / 4u) * LINE_FAST + at % (STEP / 4u)] = b_at(t + at % (STEP / 4u) * 4u, j0 + at / (STEP / 4u));
#else
            strip_b[at / (TILE / 4u) * LINE_SLOW + at % (TILE / 4u)] = b_at(t + at / (TILE / 4u), j0 + at % (TILE / 4u) * 4u);
#endif
        }
        barrier();
        [[unroll]] for (uint s = 0u; s < STEP; s += MK) {
            MATRIX(ELEMENT, MM, MK, A) a[PART / MM];
            MATRIX(ELEMENT, MK, MN, B) b[PART / MN];
            [[unroll]] EACH_I {
                uint row = part_i + i * MM;
#if A_FAST
                coopMatLoad(a[i], strip_a, row * LINE_FAST + s / 4u, LINE_FAST, gl_CooperativeMatrixLayoutRowMajor);
#else
                coopMatLoad(a[i], strip_a, s * LINE_SLOW + row / 4u, LINE_SLOW, gl_CooperativeMatrixLayoutColumnMajor);
#endif
            }
            [[unroll]] EACH_J {
                uint col = part_j + j * MN;
#if B_FAST
                coopMatLoad(b[j], strip_b, col * LINE_FAST + s / 4u, LINE_FAST, gl_CooperativeMatrixLayoutColumnMajor);
#else
                coopMatLoad(b[j], strip_b, s * LINE_SLOW + col / 4u, LINE_SLOW, gl_CooperativeMatrixLayoutRowMajor);
#endif
            }
            [[unroll]] EACH_I [[unroll]] EACH_J acc[i][j] = coopMatMulAdd(a[i], b[j], acc[i][j]);
        }
        barrier();
    }

    [[unroll]] EACH_I [[unroll]] EACH_J {
        coopMatStore(acc[i][j], sums[gl_SubgroupID], 0, MN / 4, gl_CooperativeMatrixLayoutRowMajor);
        barrier();
        EACH_VEC if (VEC_ROW < OUT_ROWS && VEC_COL < OUT_COLS) PUT(Z, OUT_AT(VEC_ROW, VEC_COL) / 4u, sums[gl_SubgroupID][v]);
        barrier();
    }
}
