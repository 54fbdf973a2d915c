/* Shader variants of attention. Tiles of queries (or keys) of all sequences lie on x, folded onto z; heads on
 * y. */
#include <stdio.h>
#include <string.h>

#include "engine/ops/groups.h"
#include "engine/ops/internal.h"

/* Shape of the cpu class's work (attn_cpu.glsl): rows a lane owns, and rows of a block. Measured: more rows a
 * lane spread the cost of a shuffle, smaller blocks need fewer registers; both bounded by the time that
 * unrolled code takes to compile (under half a second). A function of the head size alone, as blocks order the
 * softmax's sums. */
typedef struct {
    uint32_t vecs, block;
} tuning;

static tuning tuned(uint32_t hd) {
    return (tuning){hd <= 64 ? 2 : 1, hd % 8 ? 8 : 4};
}
static tuning tuned_grad(uint32_t hd) {
    return (tuning){hd <= 32 ? 4 : hd <= 64 ? 2 : 1, hd % 8 ? 8 : hd % 16 ? 4 : 2};
}

static void tiles(const struct abi_attn *a, uint32_t tile, uint32_t heads, uint32_t groups[3]) {
    groups_fold(a->rows / a->T * groups_ceil(a->T, tile), heads, groups);
}
static void groups_attn_cpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 8 * tuned(p->attn.hd).vecs, p->attn.heads, groups);
}
static void groups_attn_dq_cpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 8 * tuned_grad(p->attn.hd).vecs, p->attn.heads, groups);
}
static void groups_attn_dkv_cpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 8 * tuned_grad(p->attn.hd).vecs, p->attn.kv_heads, groups);
}
static void groups_attn(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 16, p->attn.heads, groups);
}
static void groups_attn_dkv(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 16, p->attn.kv_heads, groups);
}
static void groups_attn_gpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 32, p->attn.heads, groups);
}
static void groups_attn_dkv_gpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 32, p->attn.kv_heads, groups);
}
static void groups_delta_cpu(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->attn.rows, 8), p->attn.heads, groups);
}
static void groups_delta(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->attn.rows, 64), p->attn.heads, groups);
}

/* Masks, caps and sums that go on have kernels of their own (attn.glsl): who asks for none pays for none. */
static void define_hd(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "HD=%u", p->attn.hd);
}
static void define_portable(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "HD=%u FIRST=%d CAP=%d", p->attn.hd, p->attn.masked != 0, p->attn.cap > 0);
}
static void define_tuning(const ops_push *p, tuning t, char *buf, size_t n) {
    snprintf(buf, n, "HD=%u FIRST=%d CAP=%d VECS=%u BLOCK=%u", p->attn.hd, p->attn.masked != 0, p->attn.cap > 0,
             t.vecs, t.block);
}
static void define_acc(const ops_push *p, char *buf, size_t n) {
    size_t at = strlen(buf);
    snprintf(buf + at, n - at, " ACC=%d", p->attn.acc != 0);
}
static void define_cpu(const ops_push *p, char *buf, size_t n) {
    define_tuning(p, tuned(p->attn.hd), buf, n);
}
static void define_dq_cpu(const ops_push *p, char *buf, size_t n) {
    define_tuning(p, tuned_grad(p->attn.hd), buf, n);
}
static void define_dkv_cpu(const ops_push *p, char *buf, size_t n) {
    define_tuning(p, tuned_grad(p->attn.hd), buf, n);
    define_acc(p, buf, n);
}
static void define_dkv(const ops_push *p, char *buf, size_t n) {
    define_portable(p, buf, n);
    define_acc(p, buf, n);
}

/* Some drivers end an invocation's loops, unseen, after 65535 turns in all: better refused than wrong. */
static bool few_turns(const struct abi_attn *a, uint32_t block, uint64_t turns_per_block) {
    return groups_ceil(a->T, block) * turns_per_block < 65000;
}
/* Most query heads of a key-value head, whatever the map. */
static uint64_t share(const struct abi_attn *a) {
    return groups_ceil(a->heads, a->kv_heads);
}

/* Whole vec4s, above 64 in pairs; above 128 the unrolled code takes seconds to compile. */
static bool fits_hd_cpu(uint32_t hd) {
    return hd % 4 == 0 && (hd <= 64 || (hd % 8 == 0 && hd <= 128));
}
static bool fits_attn_cpu(const ops_push *p) {
    return fits_hd_cpu(p->attn.hd) && few_turns(&p->attn, tuned(p->attn.hd).block, 1);
}
static bool fits_attn_dq_cpu(const ops_push *p) {
    return fits_hd_cpu(p->attn.hd) && few_turns(&p->attn, tuned_grad(p->attn.hd).block, 1);
}
static bool fits_attn_dkv_cpu(const ops_push *p) {
    return fits_hd_cpu(p->attn.hd) && few_turns(&p->attn, tuned_grad(p->attn.hd).block, 1 + share(&p->attn));
}
static bool fits_delta_cpu(const ops_push *p) {
    return p->attn.hd % 4 == 0;
}
/* Whole vec4s. A slice of 32 dimensions takes 9 turns a product and 33 to be added; up to 128 dimensions the
 * two sums of attn_dkv stay in registers. */
static bool fits_gpu(const struct abi_attn *a, uint32_t hd, uint64_t turns_per_slice, uint64_t times) {
    return a->hd % 4 == 0 && a->hd <= hd &&
           few_turns(a, 32, 8 + times * (1 + turns_per_slice * groups_ceil(a->hd, 32)) + (a->masked ? 32 : 0));
}
static bool fits_attn_gpu(const ops_push *p) {
    return fits_gpu(&p->attn, 256, 9 + 33, 1);
}
static bool fits_attn_dq_gpu(const ops_push *p) {
    return fits_gpu(&p->attn, 256, 18 + 33, 1);
}
static bool fits_attn_dkv_gpu(const ops_push *p) {
    return fits_gpu(&p->attn, 128, 18 + 33, share(&p->attn));
}
/* A dot product takes 16 dimensions a turn. */
static bool fits_attn(const ops_push *p) {
    return p->attn.hd <= 256 && few_turns(&p->attn, 8, 1 + groups_ceil(p->attn.hd, 16));
}
static bool fits_attn_dq(const ops_push *p) {
    return p->attn.hd <= 256 && few_turns(&p->attn, 8, 1 + 2 * groups_ceil(p->attn.hd, 16));
}
static bool fits_attn_dkv(const ops_push *p) {
    return p->attn.hd <= 256 &&
           few_turns(&p->attn, 8, 1 + share(&p->attn) * (1 + 2 * groups_ceil(p->attn.hd, 16)));
}

#define CPU(file, fit, macros, count) \
    { "cpu", NULL, file, .subgroup = 8, .texels = true, .fits = fit, .define = macros, .groups = count }
/* Shared memory: slices of both sides, and the numbers of the pairs twice (shaders/attn_gpu.glsl). */
#define GPU(file, fit, macros, count) \
    { "gpu", NULL, file, .optimize = true, .fits = fit, .define = macros, .groups = count }
#define GPU_TWICE(file, fit, macros, count)                                                     \
    {                                                                                           \
        "gpu", NULL, file, .optimize = true, .shared = 2 * 32 * (9 * 16 + 33 * 4), .fits = fit, \
                           .define = macros, .groups = count                                    \
    }
#define PORTABLE(file, fit, macros, count) \
    { "portable", NULL, file, .optimize = true, .fits = fit, .define = macros, .groups = count }
#define VARIANTS(id, ...)                              \
    const ops_variant variants_##id[] = {__VA_ARGS__}; \
    const size_t n_variants_##id = sizeof variants_##id / sizeof *variants_##id

VARIANTS(attn, CPU("attn_cpu.comp", fits_attn_cpu, define_cpu, groups_attn_cpu),
         GPU("attn_gpu.comp", fits_attn_gpu, define_portable, groups_attn_gpu),
         PORTABLE("attn.comp", fits_attn, define_portable, groups_attn));
VARIANTS(attn_delta, CPU("attn_delta.comp", fits_delta_cpu, define_hd, groups_delta_cpu),
         PORTABLE("attn_delta.comp", NULL, define_hd, groups_delta));
VARIANTS(attn_dq, CPU("attn_dq_cpu.comp", fits_attn_dq_cpu, define_dq_cpu, groups_attn_dq_cpu),
         GPU("attn_dq_gpu.comp", fits_attn_dq_gpu, define_portable, groups_attn_gpu),
         PORTABLE("attn_dq.comp", fits_attn_dq, define_portable, groups_attn));
VARIANTS(attn_dkv, CPU("attn_dkv_cpu.comp", fits_attn_dkv_cpu, define_dkv_cpu, groups_attn_dkv_cpu),
         GPU_TWICE("attn_dkv_gpu.comp", fits_attn_dkv_gpu, define_dkv, groups_attn_dkv_gpu),
         PORTABLE("attn_dkv.comp", fits_attn_dkv, define_dkv, groups_attn_dkv));
