/* Kernels that go row by row: the invocations that share a row, and matrices that are both read and written.
 *
 * A row is shared by WIDTH invocations, which take its vec4s in turn: the lanes of a subgroup where the variant names its
 * size (LANES), else a workgroup (of 64, or the WIDTH of the variant) that meets in shared memory. ME is an invocation's place in the row.
 * ROW is the row, with ROWS above 1 one of so many that a workgroup's subgroups make. Every invocation that shares a row
 * walks it alike, so barriers are met by all; sums and maxima have a fixed order and reach all. */
#ifndef COLM_ROW_GLSL
#define COLM_ROW_GLSL

#if LANES > 1
#define WIDTH LANES
#define ME LANE
#define row_sum lanes_sum
#define row_max lanes_max
#else
#ifndef WIDTH
#define WIDTH 64
#endif
#define ME gl_LocalInvocationID.x
shared float row_part[WIDTH];
float row_add(float a, float b) { return a + b; }
#define ROW_TREE(name, OP)                                                                                             \
    float name(float v) {                                                                                              \
        row_part[ME] = v;                                                                                              \
        barrier();                                                                                                     \
        [[unroll]] for (uint n = WIDTH / 2u; n > 0u; n /= 2u) {                                                        \
            if (ME < n) row_part[ME] = OP(row_part[ME], row_part[ME + n]);                                             \
            barrier();                                                                                                 \
        }                                                                                                              \
        v = row_part[0];                                                                                               \
        barrier();                                                                                                     \
        return v;                                                                                                      \
    }
ROW_TREE(row_sum, row_add)
ROW_TREE(row_max, max)
#endif

#ifdef ROWS
layout(local_size_x = WIDTH * ROWS) in;
#define ROW (GROUP_FOLDED * ROWS + gl_SubgroupID)
#else
layout(local_size_x = WIDTH) in;
#define ROW GROUP_FOLDED
#endif

/* Tensor t, read by LOAD4 and written by STORE4: one name for the storage buffer, so that no two alias. */
#if !NARROW
#if TEXELS
#define IO4(t, name)                                                                                                   \
    layout(binding = 8 + t) uniform samplerBuffer name##_tex;                                                          \
    OUT4(t, name)
#else
#define IO4(t, name) OUT4(t, name)
#endif
#endif

/* Some drivers' log is good to 1e-6 only, their exp to the last bits: one Newton step on exp(y) = x, for x >= 1. */
float log_fine(float x) {
    float y = log(x);
    return y + (x * exp(-y) - 1.0);
}
float sum4(vec4 v) { return (v.x + v.y) + (v.z + v.w); }
float max4(vec4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }

#endif
