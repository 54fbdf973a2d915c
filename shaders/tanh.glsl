/* tanh to 1.5e-7 of itself everywhere (some drivers' own errs by 1e-3 near 0), without overflow: below 1/2 a polynomial
 * in x^2 (least squares at Chebyshev points of its interval, good to 4e-10), beyond it exp of a negative number only. */
#ifndef COLM_TANH_GLSL
#define COLM_TANH_GLSL

/* tanh_slope: 1 - tanh(x)^2 = 4 e / (1 + e)^2 with e = exp(-2|x|), which keeps its digits where tanh is near 1. */
#define TANH_FINE(T)                                                                                                   \
    T tanh_fine(T x) {                                                                                                 \
        T a = abs(x), z = a * a, e = mix(T(0), exp(-2.0 * a), lessThan_##T(a, 40.0));                                  \
        T q = (((-0.00663950565 * z + 0.0212929409) * z - 0.0538980732) * z + 0.133329543) * z - 0.333333266;          \
        return mix(x + x * z * q, sign(x) * (1.0 - e) / (1.0 + e), atLeast_##T(a, 0.5)); /* NaN stays NaN */           \
    }                                                                                                                  \
    T tanh_slope(T x) {                                                                                                \
        T a = abs(x), e = mix(T(0), exp(-2.0 * a), lessThan_##T(a, 40.0));                                             \
        return 4.0 * e / ((1.0 + e) * (1.0 + e));                                                                      \
    }
bool lessThan_float(float a, float b) { return a < b; }
bvec4 lessThan_vec4(vec4 a, float b) { return lessThan(a, vec4(b)); }
bool atLeast_float(float a, float b) { return a >= b; }
bvec4 atLeast_vec4(vec4 a, float b) { return greaterThanEqual(a, vec4(b)); }
TANH_FINE(float)
TANH_FINE(vec4)

#endif
