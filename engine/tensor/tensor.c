#include "engine/tensor/tensor.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [TENSOR_F32] = {"F32", 4},   [TENSOR_F64] = {"F64", 8}, [TENSOR_F16] = {"F16", 2},
    [TENSOR_BF16] = {"BF16", 2}, [TENSOR_U8] = {"U8", 1},   [TENSOR_I32] = {"I32", 4},
    [TENSOR_U32] = {"U32", 4},   [TENSOR_I64] = {"I64", 8},
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

size_t tensor_dtype_size(tensor_dtype t) {
    return (size_t)t < DTYPES ? dtypes[t].size : 0;
}
const char *tensor_dtype_name(tensor_dtype t) {
    return (size_t)t < DTYPES ? dtypes[t].name : "?";
}

bool tensor_dtype_find(const char *name, tensor_dtype *ret) {
    for (size_t i = 0; i < DTYPES; i++) {
        if (strcmp(name, dtypes[i].name) != 0) continue;
        *ret = (tensor_dtype)i;
        return true;
    }
    return false;
}

size_t tensor_elems(const tensor_shape *s) {
    size_t product = 1;
    bool empty = false;
    if (s->n > TENSOR_MAX_DIMS) return SIZE_MAX;
    for (uint32_t i = 0; i < s->n; i++) {
        empty |= s->dim[i] == 0;
        if (s->dim[i] && product > SIZE_MAX / s->dim[i]) return SIZE_MAX;
        if (s->dim[i]) product *= (size_t)s->dim[i];
    }
    return empty ? 0 : product;
}

// Both sums are taken in units of the largest value m, so that the squares of tiny or huge ones neither vanish
// nor overflow: NMSE = sum ((a-b)/m)^2 / sum (a/m)^2.
typedef struct {
    double most; // NaN once any value was one
} range;
typedef struct {
    double error, reference;
} sums;

static void range_add(range *r, double a, double b) {
    double most = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    if (isnan(a) || isnan(b) || isnan(r->most)) {
        r->most = NAN;
    } else if (most > r->most) {
        r->most = most;
    }
}

static void sums_add(sums *s, double a, double b, double most) {
    double error = (a - b) / most, reference = a / most;
    s->error += error * error;
    s->reference += reference * reference;
}

static double ratio(const sums *s) {
    if (s->error == 0 && s->reference == 0) return 0;
    return s->error / s->reference;
}

double tensor_nmse(const double *a, const float *b, size_t n) {
    range r = {0};
    sums s = {0};
    for (size_t i = 0; i < n; i++) range_add(&r, a[i], (double)b[i]);
    if (r.most == 0) return 0;
    for (size_t i = 0; i < n; i++) sums_add(&s, a[i], (double)b[i], r.most);
    return ratio(&s);
}

double tensor_nmse_f64(const double *a, const double *b, size_t n) {
    range r = {0};
    sums s = {0};
    for (size_t i = 0; i < n; i++) range_add(&r, a[i], b[i]);
    if (r.most == 0) return 0;
    for (size_t i = 0; i < n; i++) sums_add(&s, a[i], b[i], r.most);
    return ratio(&s);
}
