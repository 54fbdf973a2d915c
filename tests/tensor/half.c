/* 16-bit floats, bit by bit: what each of the 65,536 stands for, and where between two neighbours a float is
 * rounded up. */
#include "engine/tensor/half.h"

#include "tests/test.h"

typedef struct {
    int exponent, mantissa; /* bits */
    uint16_t (*to)(float v);
    float (*from)(uint16_t bits);
} format;
static const format formats[] = {{8, 7, tensor_to_bf16, tensor_from_bf16},
                                 {5, 10, tensor_to_f16, tensor_from_f16}};
#define EACH(f) for (const format *f = formats; f < formats + 2; f++)

static float make(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}
static uint32_t bits(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static uint16_t infinity(const format *f) {
    return (uint16_t)(0x8000u - (1u << f->mantissa));
}

/* By the definition: (1 + m/2^M) 2^(e - bias), or m/2^M 2^(1 - bias) for e = 0. The next above the largest
 * number, where infinity is, is what it would be with one exponent more. */
static double value(const format *f, uint32_t h) {
    const uint32_t e = h >> f->mantissa, m = h & ((1u << f->mantissa) - 1),
                   bias = (1u << (f->exponent - 1)) - 1;
    const double part = ldexp(m, -f->mantissa);
    return ldexp(e ? 1 + part : part, (int)(e ? e : 1) - (int)bias);
}

static void each_is_what_it_stands_for(void) {
    EACH(f) {
        size_t wrong = 0;
        for (uint32_t h = 0; h < infinity(f); h++) {
            wrong += (double)f->from((uint16_t)h) != value(f, h);
            wrong += (double)f->from((uint16_t)(h | 0x8000)) != -value(f, h);
        }
        CHECK(!wrong);
        CHECK(bits(f->from(0x8000)) == 0x80000000u);
        CHECK(f->from(infinity(f)) == INFINITY && f->from(infinity(f) | 0x8000) == -INFINITY);
    }
}

/* There and back is the same; a NaN is made quiet. */
static void there_and_back(void) {
    EACH(f) {
        size_t wrong = 0;
        for (uint32_t h = 0; h < 65536; h++) {
            const bool is_nan = (h & 0x7fff) > infinity(f);
            wrong += f->to(f->from((uint16_t)h)) != (is_nan ? h | 1u << (f->mantissa - 1) : h);
            wrong += is_nan != !!isnan(f->from((uint16_t)h));
        }
        CHECK(!wrong);
    }
}

/* Between neighbours: the middle goes to the even one, a float below or above it to the nearer. As rounding
 * never decreases, that settles all floats. */
static void the_nearest_and_of_two_the_even(void) {
    EACH(f) {
        size_t wrong = 0;
        for (uint32_t h = 0; h < infinity(f); h++) {
            const float middle = (float)((value(f, h) + value(f, h + 1)) / 2);
            const uint32_t u = bits(middle);
            wrong += f->to(middle) != h + (h & 1) || f->to(-middle) != (0x8000 | (h + (h & 1)));
            wrong += f->to(make(u - 1)) != h || f->to(make(u + 1)) != h + 1;
        }
        CHECK(!wrong);
    }
}

static void what_is_no_number_stays_so(void) {
    EACH(f) {
        CHECK(f->to(INFINITY) == infinity(f) && f->to(-INFINITY) == (infinity(f) | 0x8000));
        CHECK(f->to(3.4028235e38f) == infinity(f));
        for (uint32_t u = 0x7f800001u; u < 0x80000000u; u += 4093) {
            const uint16_t h = f->to(make(u)), quiet = (uint16_t)(1u << (f->mantissa - 1));
            if (!CHECK(h > infinity(f) && h < 0x8000 && (h & quiet))) return;
            if (!CHECK(f->to(make(u | 0x80000000u)) == (h | 0x8000))) return;
        }
    }
    CHECK(tensor_to_f16(65504) == 0x7bff && tensor_to_f16(65519.996f) == 0x7bff &&
          tensor_to_f16(65520) == 0x7c00);
    CHECK(tensor_to_f16(0x1p-24f) == 1 && tensor_to_f16(0x1p-25f) == 0 && tensor_to_f16(0x1.000002p-25f) == 1);
    CHECK(tensor_to_f16(0x1p-149f) == 0 && tensor_to_f16(-0x1p-149f) == 0x8000);
    CHECK(tensor_to_bf16(0x1p-149f) == 0 && tensor_to_bf16(-0x1p-126f) == 0x8080);
}

int main(void) {
    TEST(each_is_what_it_stands_for);
    TEST(there_and_back);
    TEST(the_nearest_and_of_two_the_even);
    TEST(what_is_no_number_stays_so);
    return test_end();
}
