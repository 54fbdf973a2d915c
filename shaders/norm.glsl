/* What the norm and its gradients share. KIND comes from the call (abi_norm): 0 root mean square, 1 with 1 + g for the
 * gain, 2 layer norm. */
#ifndef COLM_NORM_GLSL
#define COLM_NORM_GLSL

#if KIND == 1
#define GAIN(g) (1.0 + (g))
#else
#define GAIN(g) (g)
#endif

/* v in the true columns of vec4 c, 0 in the padding. */
vec4 true_columns(vec4 v, uint c) {
    return mix(vec4(0), v, lessThan(4u * c + uvec4(0, 1, 2, 3), uvec4(p.width)));
}

/* What the gain multiplies, before s: x, or its distance from the mean. */
#if KIND == 2
#define CENTRED(x, mean, c) true_columns((x) - (mean), c)
#else
#define CENTRED(x, mean, c) (x)
#endif

#endif
