/* out[0] = norm = sqrt(sum of the partials), out[1] = clip / norm where the norm is larger, else 1. A norm that is not a
 * number makes both so: the comparison is turned round. One workgroup. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(clip)
IN4(0, partial)
OUT(1, float, result)

void main() {
    vec4 sum = vec4(0);
    for (uint i = ME; i < (p.n + 3u) / 4u; i += WIDTH)
        sum += mix(vec4(0), LOAD4(partial, i), lessThan(4u * i + uvec4(0, 1, 2, 3), uvec4(p.n)));
    float norm = sqrt(row_sum(sum4(sum)));
    if (ME == 0u) {
        result[0] = norm;
        result[1] = p.clip > 0.0 && !(norm <= p.clip) ? p.clip / norm : 1.0;
    }
}
