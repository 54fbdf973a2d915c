#include "engine/tensor/tensor.h"

#include <float.h>

#include "tests/test.h"

static void types_have_names_and_sizes(void) {
    static const struct {
        tensor_dtype type;
        const char *name;
        size_t size;
    } all[] = {{TENSOR_F32, "F32", 4}, {TENSOR_F64, "F64", 8}, {TENSOR_F16, "F16", 2}, {TENSOR_BF16, "BF16", 2},
               {TENSOR_U8, "U8", 1},   {TENSOR_I32, "I32", 4}, {TENSOR_U32, "U32", 4}, {TENSOR_I64, "I64", 8}};
    tensor_dtype found;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(tensor_dtype_size(all[i].type) == all[i].size);
        CHECK_STR(tensor_dtype_name(all[i].type), all[i].name);
        CHECK(tensor_dtype_find(all[i].name, &found) && found == all[i].type);
    }
    CHECK(tensor_dtype_size((tensor_dtype)99) == 0);
    CHECK_STR(tensor_dtype_name((tensor_dtype)99), "?");
    CHECK(!tensor_dtype_find("f32", &found) && !tensor_dtype_find("", &found) &&
          !tensor_dtype_find("?", &found));
}

static void elements_of_a_shape(void) {
    static const struct {
        tensor_shape shape;
        size_t elems;
    } all[] = {
        {{0, {0}}, 1},
        {{1, {5}}, 5},
        {{1, {0}}, 0},
        {{4, {2, 3, 5, 7}}, 210},
        {{3, {2, 0, 3}}, 0},
        {{2, {1ull << 32, 1ull << 31}}, (size_t)1 << 63},
        {{2, {1ull << 32, 1ull << 32}}, SIZE_MAX},
        {{3, {1ull << 32, 1ull << 32, 0}}, SIZE_MAX}, // in whatever order
        {{3, {0, 1ull << 32, 1ull << 32}}, SIZE_MAX},
        {{5, {1, 1, 1, 1}}, SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) CHECK(tensor_elems(&all[i].shape) == all[i].elems);
}

static double nmse(double a0, double a1, double b0, double b1) {
    double a[2] = {a0, a1}, b[2] = {b0, b1};
    float f[2] = {(float)b0, (float)b1};
    double wide = tensor_nmse_f64(a, b, 2), narrow = tensor_nmse(a, f, 2);
    // The two agree wherever b is a float.
    if ((double)f[0] == b0 && (double)f[1] == b1 && !isnan(wide))
        CHECK_NEAR(narrow, wide, isinf(wide) ? NAN : 1e-15 * wide);
    return wide;
}
static void nmse_by_its_formula(void) {
    CHECK_NEAR(nmse(3, 4, 3, 5), 1.0 / 25, 1e-17);
    CHECK_NEAR(nmse(1, 0, 0, 0), 1, 1e-17);
    CHECK(nmse(1, 2, 1, 2) == 0);
    CHECK(nmse(0, 0, 0, 0) == 0 && nmse(0, -0.0, -0.0, 0) == 0);
    CHECK(tensor_nmse(NULL, NULL, 0) == 0 && tensor_nmse_f64(NULL, NULL, 0) == 0);
    // Squares neither vanish nor overflow.
    CHECK_NEAR(nmse(3e-200, 4e-200, 3e-200, 5e-200), 1.0 / 25, 1e-15);
    CHECK_NEAR(nmse(3e200, 4e200, 3e200, 5e200), 1.0 / 25, 1e-15);
    CHECK_NEAR(nmse(5e-324, 0, 0, 0), 1, 1e-15);
}
static void nmse_of_a_zero_reference(void) {
    double zero[2] = {0}, b[2] = {1e-300, 0};
    float f[2] = {0, 1e-40f};
    CHECK(isinf(tensor_nmse_f64(zero, b, 2)) && tensor_nmse_f64(zero, b, 2) > 0);
    CHECK(isinf(tensor_nmse(zero, f, 2)) && tensor_nmse(zero, f, 2) > 0);
}
static void nmse_of_nan_fails_every_limit(void) {
    double good[3] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        double bad[3] = {1, 2, 3}, zero[3] = {0};
        float narrow[3] = {1, 2, 3};
        bad[i] = NAN;
        zero[i] = NAN;
        narrow[i] = NAN;
        CHECK(isnan(tensor_nmse_f64(good, bad, 3)) && isnan(tensor_nmse_f64(bad, good, 3)) &&
              isnan(tensor_nmse_f64(bad, bad, 3)));
        CHECK(isnan(tensor_nmse_f64(zero, (double[3]){0}, 3)));
        CHECK(isnan(tensor_nmse_f64((double[3]){0}, zero, 3)));
        CHECK(isnan(tensor_nmse((double[3]){0}, narrow, 3)));
        CHECK(isnan(tensor_nmse(good, narrow, 3)) && isnan(tensor_nmse(bad, (float[3]){1, 2, 3}, 3)));
        bad[i] = INFINITY;
        CHECK(!(tensor_nmse_f64(good, bad, 3) <= DBL_MAX) && !(tensor_nmse_f64(bad, good, 3) <= DBL_MAX));
        CHECK(!(tensor_nmse_f64(bad, bad, 3) <= DBL_MAX));
    }
}

int main(void) {
    TEST(types_have_names_and_sizes);
    TEST(elements_of_a_shape);
    TEST(nmse_by_its_formula);
    TEST(nmse_of_a_zero_reference);
    TEST(nmse_of_nan_fails_every_limit);
    return test_end();
}
