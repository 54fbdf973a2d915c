/* Shader variants of what works row by row or element by element. One source serves all classes
 * (shaders/row.glsl): a row is shared by a subgroup of 8 that reads texels ("cpu"), by one of a few subgroups
 * of a workgroup, whatever their size ("gpu"), or by a workgroup ("portable"). Of class "gpu" only what depends
 * on that has variants: sums of chunks and columns, and what goes through whole arenas, are spread over GPUs by
 * the portable kernels as well. */
#include <stdio.h>

#include "engine/ops/groups.h"
#include "engine/ops/internal.h"

#define LANES_CPU 8u       /* WIDTH of shaders/row.glsl for the cpu class */
#define LANES_PORTABLE 64u /* and for the portable one */
#define PER 16u            /* vec4s per invocation of adamw, zero and cast */

/* One workgroup per row. */
static void groups_embed(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->embed.rows, 1, groups);
}
static void groups_norm(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->norm.rows, 1, groups);
}
static void groups_rope(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->rope.rows, 1, groups);
}
static void groups_ew(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->ew.rows, 1, groups);
}
static void groups_xent(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->xent.rows, 1, groups);
}
static void groups_xent_grad(const ops_push *p, uint32_t groups[3]) {
    groups_fold(ops_rows(p->xent.rows), 1, groups); /* the rows of the last tile become zero */
}

/* So many rows a workgroup. */
#define BY_ROWS(id, count, each)                                                           \
    static void rows_##id(const ops_push *p, const uint32_t tile[2], uint32_t groups[3]) { \
        groups_fold(groups_ceil(count, tile[0]), each, groups);                            \
    }
BY_ROWS(embed, p->embed.rows, 1)
BY_ROWS(norm, p->norm.rows, 1)
BY_ROWS(rope, p->rope.rows, 1)
BY_ROWS(ew, p->ew.rows, 1)
BY_ROWS(bias, p->bias.rows, 1)
BY_ROWS(head_norm, p->head_norm.rows, p->head_norm.heads)

/* Rows of the table on x, columns on y. */
static void groups_embed_grad_cpu(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->embed_grad.unique, (uint32_t)groups_ceil(p->embed_grad.cols, 4 * LANES_CPU), groups);
}
static void groups_embed_grad(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->embed_grad.unique, (uint32_t)groups_ceil(p->embed_grad.cols, 4 * LANES_PORTABLE), groups);
}

static void groups_bias(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->bias.rows, 1, groups);
}
/* A row's heads in turn, or each its own workgroup. */
static void groups_head_norm_cpu(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->head_norm.rows, 1, groups);
}
static void groups_head_norm(const ops_push *p, uint32_t groups[3]) {
    groups_fold(p->head_norm.rows, p->head_norm.heads, groups);
}

/* 32 columns each (shaders/columns.glsl). */
static void groups_norm_dg(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->norm.cols, 32), 1, groups);
}
static void groups_bias_grad(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->bias.cols, 32), 1, groups);
}
static void groups_head_norm_dg(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->head_norm.hd, 32), 1, groups);
}

static void groups_sumsq(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->sumsq.n, ABI_SUMSQ_CHUNK), 1, groups);
}
static void groups_clip(const ops_push *p, uint32_t groups[3]) {
    (void)p;
    groups_fold(1, 1, groups);
}
static void groups_adamw_cpu(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->adamw.n, 4 * PER * LANES_CPU), 1, groups);
}
static void groups_adamw(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->adamw.n, 4 * PER * LANES_PORTABLE), 1, groups);
}
static void groups_zero_cpu(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->zero.n, 4 * PER * LANES_CPU), 1, groups);
}
static void groups_zero(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->zero.n, 4 * PER * LANES_PORTABLE), 1, groups);
}

static void groups_cast_cpu(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->cast.n, 4 * PER * LANES_CPU), 1, groups);
}
static void groups_cast(const ops_push *p, uint32_t groups[3]) {
    groups_fold(groups_ceil(p->cast.n, 4 * PER * LANES_PORTABLE), 1, groups);
}

static bool fits_rope_cpu(const ops_push *p) {
    return p->rope.hd % 8 == 0;
}
static void define_rope(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "HD=%u", p->rope.hd);
}

static void define_norm(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "KIND=%u", p->norm.kind);
}
static void define_swiglu(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "ACT=%u PLAIN=%u", p->ew.act, p->ew.plain);
}
static void define_xent(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "GRAD=0 CAPPED=%d", p->xent.cap > 0);
}
static void define_xent_grad(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "GRAD=1 CAPPED=%d", p->xent.cap > 0);
}
static void define_head_norm(const ops_push *p, char *buf, size_t n) {
    snprintf(buf, n, "KIND=%u", p->head_norm.kind);
}
static bool fits_head_norm_cpu(const ops_push *p) {
    return p->head_norm.hd % 4 == 0;
}
/* Some drivers end an invocation's loops, unseen, after 65535 turns in all: better refused than wrong. A turn
 * adds 8 rows of one head, `strips` of them at once. */
static bool few_turns(const struct abi_head_norm *a, uint32_t strips) {
    return (1 + groups_ceil(a->rows, 8 * strips)) * a->heads < 65000;
}
static bool fits_head_norm_dg_cpu(const ops_push *p) {
    return fits_head_norm_cpu(p) && few_turns(&p->head_norm, 1);
}
static bool fits_head_norm_dg(const ops_push *p) {
    return few_turns(&p->head_norm, 8);
}

#define VARIANTS(id, ...)                              \
    const ops_variant variants_##id[] = {__VA_ARGS__}; \
    const size_t n_variants_##id = sizeof variants_##id / sizeof *variants_##id
#define CPU(file, defines, count) \
    { "cpu", NULL, file, defines, .subgroup = LANES_CPU, .texels = true, .groups = count }
/* A subgroup a row, 16 rows a workgroup: to start one costs a CPU device as much as a narrow row. */
#define CPU_ROWS "ROWS=16", .subgroup = LANES_CPU, .texels = true, .tile = {16, 0}
#define PORTABLE(file, defines, count) \
    { "portable", NULL, file, defines, .optimize = true, .groups = count }
/* A subgroup a row, four rows a workgroup, or two where that would be more than 256 invocations. */
#define LANES(lanes, rows, file, macros, count)                                                 \
    {                                                                                           \
        "gpu", NULL, file, "ROWS=" #rows, .optimize = true, .subgroup = (lanes), .whole = true, \
                                          .define = macros, .tile = {rows, 0}, .tiles = count   \
    }
#define GPU(file, macros, count)                                                                           \
    LANES(4, 4, file, macros, count), LANES(8, 4, file, macros, count), LANES(16, 4, file, macros, count), \
        LANES(32, 4, file, macros, count), LANES(64, 4, file, macros, count),                              \
        LANES(128, 2, file, macros, count)
#define BOTH(id, file, defines, count) VARIANTS(id, CPU(file, defines, count), PORTABLE(file, defines, count))
/* All, with macros that the call decides. */
#define ALL_OF(id, file, macros, count, count_rows)                                    \
    VARIANTS(id, {"cpu", NULL, file, CPU_ROWS, .define = macros, .tiles = count_rows}, \
             GPU(file, macros, count_rows),                                            \
             {"portable", NULL, file, .optimize = true, .define = macros, .groups = count})
/* Rows as wide as a vocabulary have a workgroup each in every class. */
#define XENT(id, macros, count)                                                                               \
    VARIANTS(                                                                                                 \
        id,                                                                                                   \
        {"cpu", NULL, "xent.comp", .subgroup = LANES_CPU, .texels = true, .define = macros, .groups = count}, \
        {"gpu", NULL, "xent.comp", "WIDTH=256", .optimize = true, .define = macros, .groups = count},         \
        {"portable", NULL, "xent.comp", .optimize = true, .define = macros, .groups = count})

ALL_OF(embed, "embed.comp", NULL, groups_embed, rows_embed);
ALL_OF(norm, "norm.comp", define_norm, groups_norm, rows_norm);
ALL_OF(norm_dx, "norm_dx.comp", define_norm, groups_norm, rows_norm);
VARIANTS(norm_dg,
         {"cpu", NULL, "norm_dg.comp", .subgroup = LANES_CPU, .texels = true, .define = define_norm,
          .groups = groups_norm_dg},
         {"portable", NULL, "norm_dg.comp", .optimize = true, .define = define_norm, .groups = groups_norm_dg});
ALL_OF(bias, "bias.comp", NULL, groups_bias, rows_bias);
BOTH(bias_grad, "bias_grad.comp", NULL, groups_bias_grad);
ALL_OF(add, "add.comp", NULL, groups_ew, rows_ew);
ALL_OF(swiglu, "swiglu.comp", define_swiglu, groups_ew, rows_ew);
ALL_OF(swiglu_grad, "swiglu_grad.comp", define_swiglu, groups_ew, rows_ew);
XENT(xent, define_xent, groups_xent);
XENT(xent_grad, define_xent_grad, groups_xent_grad);
BOTH(sumsq, "sumsq.comp", NULL, groups_sumsq);
BOTH(clip, "clip.comp", NULL, groups_clip);
VARIANTS(embed_grad, CPU("embed_grad.comp", NULL, groups_embed_grad_cpu),
         PORTABLE("embed_grad.comp", NULL, groups_embed_grad));
VARIANTS(adamw, CPU("adamw.comp", NULL, groups_adamw_cpu), PORTABLE("adamw.comp", NULL, groups_adamw));
VARIANTS(zero, CPU("zero.comp", NULL, groups_zero_cpu), PORTABLE("zero.comp", NULL, groups_zero));
VARIANTS(cast, CPU("cast.comp", NULL, groups_cast_cpu), PORTABLE("cast.comp", NULL, groups_cast));
VARIANTS(rope,
         {"cpu", NULL, "rope.comp", CPU_ROWS, .fits = fits_rope_cpu, .define = define_rope, .tiles = rows_rope},
         GPU("rope.comp", define_rope, rows_rope),
         {"portable", NULL, "rope.comp", .optimize = true, .define = define_rope, .groups = groups_rope});
#define HEAD_NORM_CPU(file, fit, count)                                                                    \
    {                                                                                                      \
        "cpu", NULL, file, .subgroup = LANES_CPU, .texels = true, .fits = fit, .define = define_head_norm, \
                           .groups = count                                                                 \
    }
#define HEAD_NORM(id, file)                                                \
    VARIANTS(                                                              \
        id, HEAD_NORM_CPU(file, fits_head_norm_cpu, groups_head_norm_cpu), \
        GPU(file, define_head_norm, rows_head_norm),                       \
        {"portable", NULL, file, .optimize = true, .define = define_head_norm, .groups = groups_head_norm})
HEAD_NORM(head_norm, "head_norm.comp");
HEAD_NORM(head_norm_dx, "head_norm_dx.comp");
VARIANTS(head_norm_dg, HEAD_NORM_CPU("head_norm_dg.comp", fits_head_norm_dg_cpu, groups_head_norm_dg),
         {"portable", NULL, "head_norm_dg.comp", .optimize = true, .fits = fits_head_norm_dg,
          .define = define_head_norm, .groups = groups_head_norm_dg});
