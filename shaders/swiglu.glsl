/* The logistic function without overflow anywhere: exp of a negative number only, and 0 where it no longer counts. */
vec4 logistic(vec4 a) {
    vec4 e = mix(vec4(0), exp(-abs(a)), lessThan(abs(a), vec4(80)));
    return mix(e, vec4(1), greaterThanEqual(a, vec4(0))) / (1.0 + e);
}
