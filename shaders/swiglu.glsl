/* The activation of a gated or plain two-layer block and its slope. ACT comes from the call (abi_ew):
 *     0  silu(a) = a sigma(a)                                          (Elfwing et al. 2018)
 *     1  gelu, tanh form: a/2 (1 + tanh(u)) = a sigma(2u), u = sqrt(2/pi) (a + 0.044715 a^3)  (Hendrycks & Gimpel 2016)
 *     2  gelu: a Phi(a), Phi the normal distribution: a/2 (1 + erf(a/sqrt(2)))
 * None gives a NaN for any number, however large. */
#ifndef COLM_SWIGLU_GLSL
#define COLM_SWIGLU_GLSL

/* The logistic function without overflow anywhere: exp of a negative number only, and 0 where it no longer counts. */
vec4 logistic(vec4 a) {
    vec4 e = mix(vec4(0), exp(-abs(a)), lessThan(abs(a), vec4(80)));
    return mix(e, vec4(1), greaterThanEqual(a, vec4(0))) / (1.0 + e);
}

#if ACT == 0
vec4 act(vec4 a) { return a * logistic(a); }
vec4 act_slope(vec4 a) { return logistic(a) * (1.0 + a * logistic(-a)); }

#elif ACT == 1
/* 2u; beyond 64 sigma has long been 0 or 1, and the cube must not overflow. */
vec4 gelu_2u(vec4 a) { return 1.5957691216 * a * (1.0 + 0.044715 * a * a); }
vec4 gelu_clamped(vec4 a) { return clamp(a, vec4(-64), vec4(64)); }
vec4 act(vec4 a) { return a * logistic(gelu_2u(gelu_clamped(a))); }
/* sigma + a sigma (1 - sigma) d(2u)/da */
vec4 act_slope(vec4 a) {
    vec4 c = gelu_clamped(a), u = gelu_2u(c), s = logistic(u);
    return s + c * s * logistic(-u) * 1.5957691216 * (1.0 + 0.134145 * c * c);
}

#else
/* exp(-a^2/2), 0 where it is below the smallest float. */
vec4 bell(vec4 a) { return mix(vec4(0), exp(-0.5 * a * a), lessThan(abs(a), vec4(13))); }

/* Phi. Its tail is Phi(-x) = exp(-x^2/2) P(t), t = 1/(1 + 0.3 x), x >= 0: P has least squares at Chebyshev points, their
 * weights moved until the relative error was level (Lawson), at 6e-8. Measured in floats: off by at most 1.8e-7, so erf by
 * 3.6e-7, most of it rounding; within three deviations by at most 6e-7 of the tail. */
vec4 normal(vec4 a) {
    vec4 x = abs(a), t = 1.0 / (1.0 + 0.3 * x);
    vec4 q = 0.0383784734 * t - 0.169166958;
    q = (q * t + 0.228661722) * t - 0.0765082215;
    q = (q * t + 0.142536631) * t + 0.0946830955;
    q = ((q * t + 0.12192044) * t + 0.119487677) * t + 7.16948692e-06;
    q *= bell(x);
    return mix(q, 1.0 - q, greaterThan(a, vec4(0)));
}
vec4 act(vec4 a) { return a * normal(a); }
/* Phi + a Phi' */
vec4 act_slope(vec4 a) { return normal(a) + a * bell(a) * 0.3989422804; }
#endif

#endif
