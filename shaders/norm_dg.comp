/* Gain gradient of the RMS norm: dg_c += sum_r dy_rc x_rc s_r.
 *
 * A workgroup makes 8 vec4s of dg. Strip k of STRIPS sums rows 8k .. 8k+7, then the next 8 STRIPS further on; the strips'
 * sums are added in order. Steps of 8 rows keep long batches below the 65535 turns after which some drivers end a loop. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define STEP 8u
#if LANES == 8
#define STRIPS 1
#define COLUMN LANE
#define STRIP 0u
#else
#define STRIPS 16
#define COLUMN gl_LocalInvocationID.x
#define STRIP gl_LocalInvocationID.y
#endif
layout(local_size_x = 8, local_size_y = STRIPS) in;
PUSH(norm)
IN4(0, X)
IN(1, float, stat)
IN4(2, dY)
OUT(3, vec4, dgain)
#if STRIPS > 1
shared vec4 part[STRIPS][8];
#endif

void main() {
    uint c = gl_WorkGroupID.x * 8u + COLUMN;
    bool mine = c < p.cols / 4u;
    uint at = mine ? c : 0u;
    vec4 sum = vec4(0);
    for (uint r = STEP * STRIP; r < p.rows; r += STEP * STRIPS) {
        uint last = p.rows - 1u;
#if LANES == 8
        float stats = stat[p.so + min(r + LANE, last)];
#define STAT(k) subgroupShuffle(stats, k)
#else
#define STAT(k) stat[p.so + min(r + k, last)]
#endif
        [[unroll]] for (uint k = 0u; k < STEP; k++) {
            uint row = min(r + k, last);
            vec4 t = LOAD4(dY, (row * p.ldy + p.yo) / 4u + at) * LOAD4(X, (row * p.ldx + p.xo) / 4u + at) * STAT(k);
            sum += r + k < p.rows ? t : vec4(0);
        }
    }
#if STRIPS > 1
    part[STRIP][COLUMN] = sum;
    barrier();
    sum = part[0][COLUMN];
    [[unroll]] for (uint k = 1u; k < uint(STRIPS); k++) sum += part[k][COLUMN];
#endif
    if (mine && STRIP == 0u) dgain[c] += sum;
}
