/* Shader variants of the linear products. All tile the result: columns on x, rows on y, those beyond 65535 on
 * z. A tile changes no bit of a result (shaders/linear.glsl), so which one is a question of speed alone. */
#include "engine/ops/groups.h"
#include "engine/ops/internal.h"

static void tiles(uint32_t rows, uint32_t cols, const uint32_t tile[2], uint32_t groups[3]) {
    uint32_t n = (uint32_t)groups_ceil(rows, tile[0]);
    groups[0] = (uint32_t)groups_ceil(cols, tile[1]);
    groups[1] = n < 65535 ? n : 65535;
    groups[2] = (uint32_t)groups_ceil(n, 65535);
}
static void tiles_linear(const ops_push *p, const uint32_t tile[2], uint32_t groups[3]) {
    tiles(p->linear.M, p->linear.N, tile, groups);
}
static void tiles_linear_dx(const ops_push *p, const uint32_t tile[2], uint32_t groups[3]) {
    tiles(p->linear.M, p->linear.K, tile, groups);
}
static void tiles_linear_dw(const ops_push *p, const uint32_t tile[2], uint32_t groups[3]) {
    tiles(p->linear.N, p->linear.K, tile, groups);
}

/* Class "gpu": the tile is chosen by the shape of a weight alone, for rows must not tell. Wide tiles load less
 * for each product, small ones leave more workgroups to spread: a forward or input gradient has tiles of all
 * rows, a weight gradient those of the weight only. */
static bool suits_128x128(const ops_push *p) {
    return p->linear.N >= 1024 && p->linear.K >= 1024;
}
static bool suits_linear_128x64(const ops_push *p) {
    return p->linear.N >= 512;
}
static bool suits_linear_64x64(const ops_push *p) {
    return p->linear.N > 32;
}
static bool suits_linear_dx_128x64(const ops_push *p) {
    return p->linear.K >= 512;
}
static bool suits_linear_dx_64x64(const ops_push *p) {
    return p->linear.K > 32;
}
/* Enough workgroups to keep a GPU busy. */
static bool many(const ops_push *p, uint32_t rows, uint32_t cols) {
    return groups_ceil(p->linear.N, rows) * groups_ceil(p->linear.K, cols) >= 128;
}
static bool suits_dw_128x128(const ops_push *p) {
    return many(p, 128, 128);
}
static bool suits_dw_128x64(const ops_push *p) {
    return many(p, 128, 64);
}
static bool suits_dw_64x64(const ops_push *p) {
    return many(p, 64, 64);
}
static bool suits_dw_64x32(const ops_push *p) {
    return many(p, 64, 32);
}
static bool suits_none(const ops_push *p) {
    (void)p;
    return false;
}

/* Shared memory: 16 steps of both strips, each 4 floats longer than the tile (shaders/linear_gpu.comp). */
#define GPU(mode, rows, cols, rm, rn, suit, count)                                                           \
    {                                                                                                        \
        "gpu", #rows "x" #cols, "linear_gpu.comp",                                                           \
            "MODE=" mode " TILE_M=" #rows " TILE_N=" #cols " RM=" #rm " RN=" #rn,                            \
            .optimize = true, .shared = 64 * ((rows) + (cols) + 8), .suits = suit, .tile = {(rows), (cols)}, \
            .tiles = count                                                                                   \
    }
#define GPU_TILES(mode, count, suit_a, suit_b, suit_c, suit_d, suit_e)                  \
    GPU(mode, 128, 128, 8, 8, suit_a, count), GPU(mode, 128, 64, 8, 4, suit_b, count),  \
        GPU(mode, 64, 64, 4, 4, suit_c, count), GPU(mode, 64, 32, 4, 4, suit_d, count), \
        GPU(mode, 32, 32, 4, 4, suit_e, count)
/* Of 16-bit tensors, four subgroups a workgroup: of 128 lanes they would be more than 256 invocations. */
#define MATRICES_BY(lanes, mode, count)                                                               \
    {                                                                                                 \
        "gpu", "coopmat", "linear_matrix.comp", "MODE=" mode,                                         \
            .optimize = true, .subgroup = (lanes), .whole = true, .matrices = true, .tile = {64, 64}, \
            .tiles = count                                                                            \
    }
#define MATRICES(mode, count)                                                                \
    MATRICES_BY(8, mode, count), MATRICES_BY(16, mode, count), MATRICES_BY(32, mode, count), \
        MATRICES_BY(64, mode, count)
#define GPU_linear \
    GPU_TILES("0", tiles_linear, suits_128x128, suits_linear_128x64, suits_linear_64x64, NULL, suits_none)
#define GPU_linear_dx                                                                                   \
    GPU_TILES("1", tiles_linear_dx, suits_128x128, suits_linear_dx_128x64, suits_linear_dx_64x64, NULL, \
              suits_none)
#define GPU_linear_dw \
    GPU_TILES("2", tiles_linear_dw, suits_dw_128x128, suits_dw_128x64, suits_dw_64x64, suits_dw_64x32, NULL)

/* Of joined linears: tiles of columns on x, of rows on y; of weight gradients every tile stands in the table.
 */
static void tiles_linears(const ops_push *p, const uint32_t tile[2], uint32_t groups[3]) {
    tiles(p->linears.M, p->linears.tiles * ABI_LINEARS_TILE, tile, groups);
}
static void tiles_linears_dw(const ops_push *p, const uint32_t tile[2], uint32_t groups[3]) {
    (void)tile;
    groups_fold(p->linears.tiles, 1, groups);
}

/* Without the optimiser, which reorders the unrolled body and slows CPU devices down. */
#define LINEAR_VARIANTS(id, mode)                                                                       \
    const ops_variant variants_##id[] = {                                                               \
        {"cpu", NULL, "linear_cpu.comp", "MODE=" mode, .subgroup = 8, .texels = true, .tile = {32, 32}, \
         .tiles = tiles_##id},                                                                          \
        MATRICES(mode, tiles_##id),                                                                     \
        GPU_##id,                                                                                       \
        {"portable", NULL, "linear.comp", "MODE=" mode, .optimize = true, .tile = {32, 32},             \
         .tiles = tiles_##id},                                                                          \
    };                                                                                                  \
    const size_t n_variants_##id = sizeof variants_##id / sizeof *variants_##id

LINEAR_VARIANTS(linear, "0");
LINEAR_VARIANTS(linear_dx, "1");
LINEAR_VARIANTS(linear_dw, "2");

#define JOINED_VARIANTS(id, mode, count)                                                                 \
    const ops_variant variants_##id[] = {{"cpu", NULL, "linear_cpu.comp", "JOINED=1 MODE=" mode,         \
                                          .subgroup = 8, .texels = true, .tile = {32, ABI_LINEARS_TILE}, \
                                          .tiles = count}};                                              \
    const size_t n_variants_##id = sizeof variants_##id / sizeof *variants_##id

JOINED_VARIANTS(linears, "0", tiles_linears);
JOINED_VARIANTS(linears_dx, "1", tiles_linears);
JOINED_VARIANTS(linears_dw, "2", tiles_linears_dw);
