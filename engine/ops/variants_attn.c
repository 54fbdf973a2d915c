/* Shader variants of attention. Tiles of queries (or keys) of all sequences lie on x, folded onto z; heads on
 * y. */
#include <stdio.h>

#include "engine/ops/groups.h"
#include "engine/ops/internal.h"

/* Rows of a tile: VECS subgroups of 8 lanes in the cpu class (attn_cpu.glsl), 16 in the portable one. */
static uint32_t vecs(uint32_t hd) {
    return hd <= 32 ? 2 : 1;
}

static void tiles(const struct abi_attn *a, uint32_t tile, uint32_t heads, uint32_t groups[3]) {
    groups_fold(a->rows / a->T * groups_ceil(a->T, tile), heads, groups);
}
static void groups_attn_cpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 8 * vecs(p->attn.hd), p->attn.heads, groups);
}
static void groups_attn_dq_cpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 8, p->attn.heads, groups);
}
static void groups_attn_dkv_cpu(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 8, p->attn.kv_heads, groups);
}
static void groups_attn(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 16, p->attn.heads, groups);
}
static void groups_attn_dkv(const ops_push *p, uint32_t groups[3]) {
    tiles(&p->attn, 16, p->attn.kv_heads, groups);
}
static void groups_delta_cpu(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->attn.rows, 8), p->attn.heads, groups);
}
static void groups_delta(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->attn.rows, 64), p->attn.heads, groups);
}

static void define_hd(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "HD=%u", p->attn.hd);
}
static void define_attn_cpu(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "HD=%u VECS=%u", p->attn.hd, vecs(p->attn.hd));
}

/* Whole vec4s; above 64 in pairs (blocks of 4); above 128 the unrolled code takes seconds to compile. */
static bool fits_cpu(const ops_push *p) {
    uint32_t hd = p->attn.hd;
    return hd % 4 == 0 && (hd <= 64 || (hd % 8 == 0 && hd <= 128));
}
static bool fits_delta_cpu(const ops_push *p) {
    return p->attn.hd % 4 == 0;
}
/* Some drivers end an invocation's loops, unseen, after 65535 turns in all: better refused than wrong. */
static bool few_turns(const struct abi_attn *a, uint64_t dots, uint64_t heads) {
    return heads * groups_ceil(a->T, 8) * (1 + dots * groups_ceil(a->hd, 16)) < 65000;
}
static bool fits_attn(const ops_push *p) {
    return p->attn.hd <= 256 && few_turns(&p->attn, 1, 1);
}
static bool fits_attn_dq(const ops_push *p) {
    return p->attn.hd <= 256 && few_turns(&p->attn, 2, 1);
}
static bool fits_attn_dkv(const ops_push *p) {
    return p->attn.hd <= 256 && few_turns(&p->attn, 2, p->attn.heads / p->attn.kv_heads);
}

#define CPU(file, fit, macros, count) \
    { "cpu", file, .subgroup = 8, .texels = true, .fits = fit, .define = macros, .groups = count }
#define PORTABLE(file, fit, count) \
    { "portable", file, .optimize = true, .fits = fit, .define = define_hd, .groups = count }
#define VARIANTS(id, ...)                              \
    const ops_variant variants_##id[] = {__VA_ARGS__}; \
    const size_t n_variants_##id = sizeof variants_##id / sizeof *variants_##id

VARIANTS(attn, CPU("attn_cpu.comp", fits_cpu, define_attn_cpu, groups_attn_cpu),
         PORTABLE("attn.comp", fits_attn, groups_attn));
VARIANTS(attn_delta, CPU("attn_delta.comp", fits_delta_cpu, define_hd, groups_delta_cpu),
         PORTABLE("attn_delta.comp", NULL, groups_delta));
VARIANTS(attn_dq, CPU("attn_dq_cpu.comp", fits_cpu, define_hd, groups_attn_dq_cpu),
         PORTABLE("attn_dq.comp", fits_attn_dq, groups_attn));
VARIANTS(attn_dkv, CPU("attn_dkv_cpu.comp", fits_cpu, define_hd, groups_attn_dkv_cpu),
         PORTABLE("attn_dkv.comp", fits_attn_dkv, groups_attn_dkv));
