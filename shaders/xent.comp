/* Cross-entropy of one row of logits over its first `vocab` columns: nll = log sum_c exp(l_c) - l_target.
 * Without GRAD also top: 1 where the target is the first maximum. With GRAD the logits become their gradient,
 *     dl_c = weight (exp(l_c) / sum_k exp(l_k) - [c = target]),
 * and 0 in the padding, in rows without a target and in the rows up to the next 16.
 * Where the call says CAPPED each l above is l' = cap tanh(l / cap), and the gradient is times 1 - (l'/cap)^2.
 *
 * The maximum is taken first, so exp sees no positive number. Columns beyond the vocabulary count as LOWEST: no maximum,
 * no term of the sum. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
#include "tanh.glsl"
PUSH(xent)
#if GRAD
IO4(0, L)
#else
IN4(0, L)
OUT(3, uint, top)
#endif
IN(1, uint, target)
OUT(2, float, nll)

#define LOWEST (-3.4e38)

vec4 logits(uint row, uint c) {
    return mix(vec4(LOWEST), LOAD4(L, row + c), lessThan(4u * c + uvec4(0, 1, 2, 3), uvec4(p.vocab)));
}

/* The logit that counts. Order is kept, so that maxima are looked for before. */
#if CAPPED
vec4 capped(vec4 l) { return p.cap * tanh_fine(l / p.cap); }
vec4 slope(vec4 l) { return tanh_slope(l / p.cap); }
#else
#define capped(l) (l)
#define slope(l) 1.0
#endif

void main() {
    PUSH_ONCE(xent)
    uint r = ROW, row = r * (p.ld / 4u), whole = p.vocab / 4u, part = whole + uint(p.vocab % 4u > 0u);
    uint goal = r < p.rows ? target[r] : ABI_NO_TARGET;
    bool has = goal != ABI_NO_TARGET;
#if !GRAD
    if (r >= p.rows) return; /* all of the workgroup or none, here and below */
#endif
    if (!has) {
        if (ME == 0u && r < p.rows) {
            nll[r] = 0.0;
#if !GRAD
            top[r] = 0u;
#endif
        }
#if GRAD
        for (uint c = ME; c < (p.vocab + 7u) / 8u * 2u; c += WIDTH) STORE4(L, row + c, vec4(0));
#endif
        return;
    }
    /* The last, partial vec4 is looked at on its own, so that the loops need not mask. */
    bool last = part > whole && ME == whole % WIDTH;
    vec4 tail = last ? logits(row, whole) : vec4(LOWEST);

    vec4 m4 = tail;
    for (uint c = ME; c < whole; c += WIDTH) m4 = max(m4, LOAD4(L, row + c));
    float highest = row_max(max4(m4)), m = capped(vec4(highest)).x;

    vec4 s4 = last ? mix(exp(capped(tail) - m), vec4(0), equal(tail, vec4(LOWEST))) : vec4(0);
    for (uint c = ME; c < whole; c += WIDTH) s4 += exp(capped(LOAD4(L, row + c)) - m);
    float at = LOAD4(L, row + goal / 4u)[goal % 4u], s = row_sum(sum4(s4));
    if (ME == 0u) nll[r] = log_fine(s) + (m - capped(vec4(at)).x);

#if GRAD
    float scale = p.weight / s;
    for (uint c = ME; c < (p.vocab + 7u) / 8u * 2u; c += WIDTH) {
        vec4 l = c < whole ? LOAD4(L, row + c) : c == whole ? tail : vec4(LOWEST);
        vec4 hit = mix(vec4(0), vec4(p.weight), equal(4u * c + uvec4(0, 1, 2, 3), uvec4(goal)));
        vec4 d = (exp(capped(l) - m) * scale - hit) * slope(l);
        STORE4(L, row + c, mix(d, vec4(0), equal(l, vec4(LOWEST))));
    }
#else
    /* An earlier maximum is looked for only where the target is one. */
    float earlier = 0.0;
    if (at == highest)
        for (uint c = ME; c <= goal / 4u; c += WIDTH) {
            bvec4 same = equal(LOAD4(L, row + c), vec4(highest)), before = lessThan(4u * c + uvec4(0, 1, 2, 3), uvec4(goal));
            if (any(bvec4(uvec4(same) * uvec4(before)))) earlier = 1.0;
        }
    earlier = row_max(earlier);
    if (ME == 0u) top[r] = uint(at == highest && earlier == 0.0);
#endif
}
