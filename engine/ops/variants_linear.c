/* Shader variants of the linear products. Both classes tile the result in 32 x 32: columns on x, rows on y,
 * beyond 65535 on z. */
#include "engine/ops/groups.h"
#include "engine/ops/internal.h"

static void tiles(uint32_t rows, uint32_t cols, uint32_t groups[3]) {
    uint32_t n = (uint32_t)groups_ceil(rows, 32);
    groups[0] = (uint32_t)groups_ceil(cols, 32);
    groups[1] = n < 65535 ? n : 65535;
    groups[2] = (uint32_t)groups_ceil(n, 65535);
}

static void groups_linear(const ops_push *p, uint32_t groups[3]) {
    tiles(p->linear.M, p->linear.N, groups);
}
static void groups_linear_dx(const ops_push *p, uint32_t groups[3]) {
    tiles(p->linear.M, p->linear.K, groups);
}
static void groups_linear_dw(const ops_push *p, uint32_t groups[3]) {
    tiles(p->linear.N, p->linear.K, groups);
}

/* Without the optimiser, which reorders the unrolled body and slows CPU devices down. */
#define LINEAR_VARIANTS(id, mode)                                                                       \
    const ops_variant variants_##id[] = {                                                               \
        {"cpu", "linear_cpu.comp", "MODE=" mode, .subgroup = 8, .texels = true, .groups = groups_##id}, \
        {"portable", "linear.comp", "MODE=" mode, .optimize = true, .groups = groups_##id},             \
    };                                                                                                  \
    const size_t n_variants_##id = sizeof variants_##id / sizeof *variants_##id

LINEAR_VARIANTS(linear, "0");
LINEAR_VARIANTS(linear_dx, "1");
LINEAR_VARIANTS(linear_dw, "2");
