/* What every kernel shares: how tensors are reached and how the lanes of a row work together.
 *
 * A shader begins with
 *     #version 450
 *     #extension GL_GOOGLE_include_directive : require
 *     #include "common.glsl"
 *
 * Two macros come from the variant that asks for the kernel (subgroup and texels of ops_variant), so that one source serves both
 * kernel classes wherever the maths is the same:
 *     TEXELS  1: float tensors are read through texel buffers (samplerBuffer, RGBA32F), on CPU devices many times faster
 *     LANES   invocations that share one row: the subgroup size a variant is written for, or 1
 *     WIDE    1: with TEXELS, vec4s are stored as two integers of 64 bits: CPU devices store lane by lane and number by
 *             number, so that halves the work
 * and T<k> where tensor k is stored in 16 bits (narrow.glsl).
 * Tensor t of a call is storage buffer binding t and, read through texels, binding 8 + t. Indices of *4 are in vec4s
 * (element / 4), others in elements. */
#ifndef COLM_COMMON_GLSL
#define COLM_COMMON_GLSL

#ifndef TEXELS
#define TEXELS 0
#endif
#ifndef LANES
#define LANES 1
#endif
#ifndef WIDE
#define WIDE 0
#endif
#extension GL_EXT_control_flow_attributes : require
#if LANES > 1
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "abi.h"

/* PUSH(linear): the call's push constants as p.M, p.N, ... */
#define PUSH(op) layout(push_constant) uniform push_block { abi_##op p; };
/* First thing in main(): a copy, so that they are read once. CPU devices gather them lane by lane, at every mention. */
#define PUSH_ONCE(op) abi_##op p = p;

#if defined T0 || defined T1 || defined T2 || defined T3 || defined T4 || defined T5 || defined T6 || defined T7
#define NARROW 1 /* some tensor is stored in 16 bits */
#include "narrow.glsl"
#else
#define NARROW 0
/* IN4(0, X): tensor 0 read as LOAD4(X, i). */
#if TEXELS
#define IN4(t, name) layout(binding = 8 + t) uniform samplerBuffer name##_tex;
#define LOAD4(name, i) texelFetch(name##_tex, int(i))
#else
#define IN4(t, name) layout(std430, binding = t) readonly buffer name##_in4 { vec4 name##_v4[]; };
#define LOAD4(name, i) name##_v4[i]
#endif
/* Storage buffers under their own name: TYPE is vec4, float or uint. OUT is written (or both), IN only read. Elements by
 * GET and PUT; of tensors that are float32 or uint32 whatever the call (engine/ops/ops.h) as name[i], too. */
#define IN(t, TYPE, name) layout(std430, binding = t) readonly buffer name##_in { TYPE name[]; };
#define OUT(t, TYPE, name) layout(std430, binding = t) buffer name##_out { TYPE name[]; };
#define GET(name, i) name[i]
#define PUT(name, i, v) name[i] = (v)
/* Tensor t written by STORE4, and by STORE4_PART in its first k < 4 elements only: what lies beyond belongs to others. */
#if WIDE
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
u64vec2 wide(vec4 v) { return u64vec2(pack64(floatBitsToUint(v.xy)), pack64(floatBitsToUint(v.zw))); }
vec4 narrowed(u64vec2 w) { return uintBitsToFloat(uvec4(unpack32(w.x), unpack32(w.y))); }
#define OUT4(t, name) layout(std430, binding = t) buffer name##_io { u64vec2 name##_w[]; };
#define STORE4(name, i, v) name##_w[i] = wide(v)
#define STORE4_PART(name, i, v, k)                                                                                     \
    name##_w[i] = wide(mix(narrowed(name##_w[i]), v, lessThan(uvec4(0, 1, 2, 3), uvec4(k))));
#else
#define OUT4(t, name) layout(std430, binding = t) buffer name##_io { vec4 name##_v4[]; };
#define STORE4(name, i, v) name##_v4[i] = (v)
#define STORE4_PART(name, i, v, k)                                                                                     \
    [[unroll]] for (uint e_ = 0u; e_ < 3u; e_++)                                                                       \
        if (e_ < (k)) name##_v4[i][e_] = (v)[e_];
#endif
#endif

/* More groups than an axis may have (65535) continue on the z axis, GROUP_FOLDED counts on: x = min(n, 65535), y = 1,
 * z = ceil(n / 65535). The last z may reach beyond n, so a kernel checks its number. */
#define GROUP_FOLDED (gl_WorkGroupID.z * 65535u + gl_WorkGroupID.x)

/* Sums and maxima over the lanes of a row in a fixed order; every lane gets the result. With one lane they are the value
 * itself. Shuffles only: broadcasts of floats have aborted drivers' compilers. */
#if LANES == 1
#define LANE 0u
float lanes_sum(float v) { return v; }
float lanes_max(float v) { return v; }
uint lanes_min(uint v) { return v; }
#else
#define LANE gl_SubgroupInvocationID
float lanes_sum(float v) {
    [[unroll]] for (uint step = 1u; step < LANES; step *= 2u) v += subgroupShuffle(v, LANE ^ step);
    return v;
}
float lanes_max(float v) {
    [[unroll]] for (uint step = 1u; step < LANES; step *= 2u) v = max(v, subgroupShuffle(v, LANE ^ step));
    return v;
}
uint lanes_min(uint v) {
    [[unroll]] for (uint step = 1u; step < LANES; step *= 2u) v = min(v, subgroupShuffle(v, LANE ^ step));
    return v;
}
#endif

#endif
