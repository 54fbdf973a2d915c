/* Data types, shapes and the comparison used everywhere. */
#ifndef COLM_TENSOR_TENSOR_H
#define COLM_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define TENSOR_MAX_DIMS 4

typedef enum {
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_U8,
    TENSOR_I32,
    TENSOR_U32,
    TENSOR_I64
} tensor_dtype;

size_t tensor_dtype_size(tensor_dtype t);
const char *tensor_dtype_name(tensor_dtype t); /* safetensors names: "F32", "BF16", ... */
/* The type of that name; false when there is none. */
bool tensor_dtype_find(const char *name, tensor_dtype *ret);

typedef struct {
    uint32_t n; /* number of dimensions, 0 for a scalar */
    uint64_t dim[TENSOR_MAX_DIMS];
} tensor_shape;
/* Product of the dimensions, 1 for a scalar; SIZE_MAX when that of the dimensions other than 0 overflows. */
size_t tensor_elems(const tensor_shape *s);

/* Normalised mean square error sum (a-b)^2 / sum a^2 of b against the reference a. 0 when both are all zero;
 * infinity when only the reference is; NaN when either holds one. Check as !(nmse <= limit). */
double tensor_nmse(const double *a, const float *b, size_t n);
double tensor_nmse_f64(const double *a, const double *b, size_t n);

#endif
