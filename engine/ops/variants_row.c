/* Shader variants of what works row by row or element by element. One source serves both classes: a row is
 * shared by a subgroup of 8 that reads texels, or by a workgroup (shaders/row.glsl). */
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
    { "cpu", file, defines, .subgroup = LANES_CPU, .texels = true, .groups = count }
#define PORTABLE(file, defines, count) \
    { "portable", file, defines, .optimize = true, .groups = count }
#define BOTH(id, file, defines, count) VARIANTS(id, CPU(file, defines, count), PORTABLE(file, defines, count))
/* Both, with macros that the call decides. */
#define BOTH_OF(id, file, macros, count)                                                                  \
    VARIANTS(id, {"cpu", file, .subgroup = LANES_CPU, .texels = true, .define = macros, .groups = count}, \
             {"portable", file, .optimize = true, .define = macros, .groups = count})

BOTH(embed, "embed.comp", NULL, groups_embed);
BOTH_OF(norm, "norm.comp", define_norm, groups_norm);
BOTH_OF(norm_dx, "norm_dx.comp", define_norm, groups_norm);
BOTH_OF(norm_dg, "norm_dg.comp", define_norm, groups_norm_dg);
BOTH(bias, "bias.comp", NULL, groups_bias);
BOTH(bias_grad, "bias_grad.comp", NULL, groups_bias_grad);
BOTH(add, "add.comp", NULL, groups_ew);
BOTH_OF(swiglu, "swiglu.comp", define_swiglu, groups_ew);
BOTH_OF(swiglu_grad, "swiglu_grad.comp", define_swiglu, groups_ew);
BOTH_OF(xent, "xent.comp", define_xent, groups_xent);
BOTH_OF(xent_grad, "xent.comp", define_xent_grad, groups_xent_grad);
BOTH(sumsq, "sumsq.comp", NULL, groups_sumsq);
BOTH(clip, "clip.comp", NULL, groups_clip);
VARIANTS(embed_grad, CPU("embed_grad.comp", NULL, groups_embed_grad_cpu),
         PORTABLE("embed_grad.comp", NULL, groups_embed_grad));
VARIANTS(adamw, CPU("adamw.comp", NULL, groups_adamw_cpu), PORTABLE("adamw.comp", NULL, groups_adamw));
VARIANTS(zero, CPU("zero.comp", NULL, groups_zero_cpu), PORTABLE("zero.comp", NULL, groups_zero));
VARIANTS(cast, CPU("cast.comp", NULL, groups_cast_cpu), PORTABLE("cast.comp", NULL, groups_cast));
VARIANTS(rope,
         {"cpu", "rope.comp", .subgroup = LANES_CPU, .texels = true, .fits = fits_rope_cpu,
          .define = define_rope, .groups = groups_rope},
         {"portable", "rope.comp", .optimize = true, .define = define_rope, .groups = groups_rope});
#define HEAD_NORM(id, file, fit_cpu, fit, count_cpu, count)                                                    \
    VARIANTS(id,                                                                                               \
             {"cpu", file, .subgroup = LANES_CPU, .texels = true, .fits = fit_cpu, .define = define_head_norm, \
              .groups = count_cpu},                                                                            \
             {"portable", file, .optimize = true, .fits = fit, .define = define_head_norm, .groups = count})
HEAD_NORM(head_norm, "head_norm.comp", fits_head_norm_cpu, NULL, groups_head_norm_cpu, groups_head_norm);
HEAD_NORM(head_norm_dx, "head_norm_dx.comp", fits_head_norm_cpu, NULL, groups_head_norm_cpu, groups_head_norm);
HEAD_NORM(head_norm_dg, "head_norm_dg.comp", fits_head_norm_dg_cpu, fits_head_norm_dg, groups_head_norm_dg,
          groups_head_norm_dg);
