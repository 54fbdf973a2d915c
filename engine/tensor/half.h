/* The two floats of 16 bits, as bits: bfloat16 (8 exponent bits, 7 of mantissa) and float16 (IEEE 754 binary16:
 * 5 and 10). Widening is exact, subnormals too. Narrowing rounds to nearest, ties to even: beyond the largest
 * number it gives infinity, a NaN stays a NaN, is made quiet and keeps its sign and the upper bits of its
 * payload. In integers alone, so no rounding mode of the processor enters; shaders/narrow.glsl does the same.
 */
#ifndef COLM_TENSOR_HALF_H
#define COLM_TENSOR_HALF_H

#include <stdint.h>

uint16_t tensor_to_bf16(float v);
float tensor_from_bf16(uint16_t bits);
uint16_t tensor_to_f16(float v);
float tensor_from_f16(uint16_t bits);

#endif
