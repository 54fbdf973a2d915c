/* Tensors stored in 16 bits, for kernels of which at least one tensor is: the macros of common.glsl and row.glsl once more,
 * by the storage of each tensor. Macros of the call: T<k> 1, bfloat16, or 2, float16, of tensor k; those that are
 * not there are float32. Every tensor gets functions load_<name> and store_<name>, which widen and round.
 *
 * In memory four such numbers are a uvec2, the first in the low half of its x; through texels that is an RG32UI texel. No
 * 16-bit type, no extension: widening and rounding are done in integers (engine/tensor/half.c), as what the language
 * has for it may round or flush as it likes. */
#ifndef COLM_NARROW_GLSL
#define COLM_NARROW_GLSL

#ifndef T0
#define T0 0
#endif
#ifndef T1
#define T1 0
#endif
#ifndef T2
#define T2 0
#endif
#ifndef T3
#define T3 0
#endif
#ifndef T4
#define T4 0
#endif
#ifndef T5
#define T5 0
#endif
#ifndef T6
#define T6 0
#endif
#ifndef T7
#define T7 0
#endif

uvec4 halves(uvec2 h) { return uvec4(h.x & 0xffffu, h.x >> 16, h.y & 0xffffu, h.y >> 16); }
uvec2 pairs(uvec4 h) { return uvec2(h.x | h.y << 16, h.z | h.w << 16); }
/* u >> s, to nearest, ties to even; s > 0. */
uvec4 shift_even(uvec4 u, uvec4 s) { return (u + (uvec4(1u) << (s - 1u)) - 1u + (u >> s & 1u)) >> s; }

vec4 widen_1(uvec4 h) { return uintBitsToFloat(h << 16); }
uvec4 round_1(vec4 v) {
    uvec4 u = floatBitsToUint(v);
    return mix(shift_even(u, uvec4(16)), u >> 16 | 0x40u, greaterThan(u & 0x7fffffffu, uvec4(0x7f800000u)));
}

/* Exponents move by 112; subnormals count 2^-24s. */
vec4 widen_2(uvec4 h) {
    uvec4 a = h & 0x7fffu, u = (a << 13) + (112u << 23);
    u = mix(u, u + (112u << 23), greaterThanEqual(a, uvec4(0x7c00u)));
    u = mix(u, floatBitsToUint(vec4(a) * 5.9604644775390625e-8), lessThan(a, uvec4(0x400u)));
    return uintBitsToFloat(u | (h & 0x8000u) << 16);
}
uvec4 round_2(vec4 v) {
    uvec4 u = floatBitsToUint(v), a = u & 0x7fffffffu, e = a >> 23;
    bvec4 tiny = lessThanEqual(e, uvec4(112u));
    uvec4 h = shift_even(mix(a - (112u << 23), (a & 0x7fffffu) | 0x800000u, tiny),
                         mix(uvec4(13u), min(126u - e, 25u), tiny));
    h = mix(h, uvec4(0x7c00u), greaterThanEqual(a, uvec4(0x477ff000u))); /* 65520, halfway beyond the largest */
    h = mix(h, 0x7e00u | (a >> 13 & 0x3ffu), greaterThan(a, uvec4(0x7f800000u)));
    return h | (u >> 16 & 0x8000u);
}

/* Element i of X's words: four at a time, or one. Two invocations may own the halves of a word, so each changes its own. */
#define WORDS_vec4 uvec2
#define WORDS_float uint
#define READ_vec4(w, i, WIDEN) WIDEN(halves(w[i]))
#define READ_float(w, i, WIDEN) WIDEN(uvec4(w[(i) / 2u] >> (i) % 2u * 16u & 0xffffu)).x
#define WRITE_vec4(w, i, v, ROUND) w[i] = pairs(ROUND(v));
#define WRITE_float(w, i, v, ROUND)                                                                                    \
    uint s = (i) % 2u * 16u;                                                                                           \
    atomicAnd(w[(i) / 2u], ~(0xffffu << s));                                                                           \
    atomicOr(w[(i) / 2u], ROUND(vec4(v)).x << s);

/* Declarations by storage: float32 (and uint) under the tensor's own name, 16 bits as words. */
#define BUFFER_0(t, ACCESS, TYPE, name) layout(std430, binding = t) ACCESS buffer name##_block { TYPE name[]; };
#define BUFFER_1(t, ACCESS, TYPE, name) layout(std430, binding = t) ACCESS buffer name##_block { WORDS_##TYPE name##_w[]; };
#define BUFFER_2(t, ACCESS, TYPE, name) BUFFER_1(t, ACCESS, TYPE, name)
#define LOADER_0(TYPE, name) TYPE load_##name(uint i) { return name[i]; }
#define LOADER_1(TYPE, name) TYPE load_##name(uint i) { return READ_##TYPE(name##_w, i, widen_1); }
#define LOADER_2(TYPE, name) TYPE load_##name(uint i) { return READ_##TYPE(name##_w, i, widen_2); }
#define STORER_0(TYPE, name) void store_##name(uint i, TYPE v) { name[i] = v; }
#define STORER_1(TYPE, name) void store_##name(uint i, TYPE v) { WRITE_##TYPE(name##_w, i, v, round_1) }
#define STORER_2(TYPE, name) void store_##name(uint i, TYPE v) { WRITE_##TYPE(name##_w, i, v, round_2) }
#define TEXELS_0(t, name)                                                                                              \
    layout(binding = 8 + t) uniform samplerBuffer name##_tex;                                                          \
    vec4 load_##name(uint i) { return texelFetch(name##_tex, int(i)); }
#define TEXELS_OF(t, name, WIDEN)                                                                                      \
    layout(binding = 8 + t) uniform usamplerBuffer name##_tex;                                                         \
    vec4 load_##name(uint i) { return WIDEN(halves(texelFetch(name##_tex, int(i)).xy)); }
#define TEXELS_1(t, name) TEXELS_OF(t, name, widen_1)
#define TEXELS_2(t, name) TEXELS_OF(t, name, widen_2)
/* The first k < 4 elements of vec4 i. */
#define PARTER_0(name)                                                                                                 \
    void store_part_##name(uint i, vec4 v, uint k) {                                                                   \
        [[unroll]] for (uint e = 0u; e < 3u; e++)                                                                      \
            if (e < k) name[i][e] = v[e];                                                                              \
    }
#define PARTER_OF(name, ROUND)                                                                                         \
    void store_part_##name(uint i, vec4 v, uint k) {                                                                   \
        uvec2 h = pairs(ROUND(v));                                                                                     \
        if (k > 0u) name##_w[i].x = k > 1u ? h.x : (name##_w[i].x & 0xffff0000u) | (h.x & 0xffffu);                    \
        if (k > 2u) name##_w[i].y = (name##_w[i].y & 0xffff0000u) | (h.y & 0xffffu);                                   \
    }
#define PARTER_1(name) PARTER_OF(name, round_1)
#define PARTER_2(name) PARTER_OF(name, round_2)

/* The same by tensor number: T<t> is looked up in between. */
#define BY_2(MACRO, k) MACRO##k
#define BY_1(MACRO, k) BY_2(MACRO, k)
#define BY(MACRO, t) BY_1(MACRO, T##t)
#define READS_(t, TYPE, name) BY(BUFFER_, t)(t, readonly, TYPE, name) BY(LOADER_, t)(TYPE, name)
#define WRITES_(t, TYPE, name) BY(BUFFER_, t)(t, , TYPE, name) BY(STORER_, t)(TYPE, name)

#if TEXELS
#define IN4(t, name) BY(TEXELS_, t)(t, name)
#define IO4(t, name) OUT4(t, name) IN4(t, name)
#else
#define IN4(t, name) READS_(t, vec4, name)
#define IO4(t, name) OUT4(t, name) BY(LOADER_, t)(vec4, name)
#endif
#define OUT4(t, name) WRITES_(t, vec4, name) BY(PARTER_, t)(name)
#define IN(t, TYPE, name) READS_(t, TYPE, name)
#define OUT(t, TYPE, name) WRITES_(t, TYPE, name) BY(LOADER_, t)(TYPE, name)
#define LOAD4(name, i) load_##name(i)
#define GET(name, i) load_##name(i)
#define STORE4(name, i, v) store_##name(i, v)
#define PUT(name, i, v) store_##name(i, v)
#define STORE4_PART(name, i, v, k) store_part_##name(i, v, k);

#endif
