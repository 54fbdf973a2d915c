/* out[0] = norm = unscale sqrt(sum of the partials), out[1] = unscale clip / norm where the norm is larger, else unscale,
 * out[2] = 0; but where the norm is infinite or no number out[1] = 0 and out[2] = 1. One workgroup. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(clip)
IN4(0, partial)
OUT(1, float, result)

void main() {
    PUSH_ONCE(clip)
    vec4 sum = vec4(0);
    for (uint i = ME; i < (p.n + 3u) / 4u; i += WIDTH)
        sum += mix(vec4(0), LOAD4(partial, i), lessThan(4u * i + uvec4(0, 1, 2, 3), uvec4(p.n)));
    float norm = p.unscale * sqrt(row_sum(sum4(sum)));
    if (ME == 0u) {
        bool bad = (floatBitsToUint(norm) & 0x7f800000u) == 0x7f800000u;
        result[0] = norm;
        result[1] = bad ? 0.0 : p.unscale * (p.clip > 0.0 && norm > p.clip ? p.clip / norm : 1.0);
        result[2] = float(bad);
    }
}
