#include "engine/tensor/half.h"

#include <string.h>

#define INF 0x7f800000u /* of float, without sign */

static uint32_t bits_of(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static float float_of(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* u >> s, to nearest, ties to even; 1 <= s <= 25. */
static uint32_t shift_even(uint32_t u, uint32_t s) {
    return (u + (1u << (s - 1)) - 1 + (u >> s & 1)) >> s;
}

uint16_t tensor_to_bf16(float v) {
    const uint32_t u = bits_of(v);
    if ((u & 0x7fffffffu) > INF) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)shift_even(u, 16);
}

float tensor_from_bf16(uint16_t bits) {
    return float_of((uint32_t)bits << 16);
}

/* A float's exponent of 112, its 2^-15, is the largest that becomes subnormal: then the mantissa counts 2^-24s.
 */
uint16_t tensor_to_f16(float v) {
    const uint32_t u = bits_of(v), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu, e = a >> 23;
    uint32_t h;
    if (a > INF)
        h = 0x7e00u | (a >> 13 & 0x3ff);
    else if (a >= 0x477ff000u) /* 65520, halfway beyond the largest */
        h = 0x7c00u;
    else if (e > 112)
        h = shift_even(a - (112u << 23), 13);
    else
        h = shift_even((a & 0x7fffffu) | 0x800000u, e > 101 ? 126 - e : 25);
    return (uint16_t)(sign | h);
}

float tensor_from_f16(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, h = bits & 0x7fffu;
    if (h >= 0x7c00u) return float_of(sign | INF | (h & 0x3ff) << 13);
    if (h < 0x400) return float_of(sign | bits_of((float)h * 0x1p-24f));
    return float_of(sign | ((h << 13) + (112u << 23)));
}
