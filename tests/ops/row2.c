/* What model families need beyond the first one, row by row: windows and sums of embeddings, kinds of norm,
 * norms of heads, biases, activations, capped logits. Every kernel class against the reference in double. */
#include "tests/ops/sweep.h"

/* Embedding: a window of the table, scaled, added to what is there. */

static scene make_embed_window(uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t cols = ops_pad(width), vocab = 11 + i, o = offset(i), ld = stride(o, width, i + 1);
    uint32_t acc = i % 2, first = i % 3 * 2, count = i % 5 ? vocab - first - i % 4 : 0;
    scene s = scene_new(OP_EMBED);
    s.call.p.embed = (struct abi_embed){rows, cols, cols, ld, o, 1.7f, acc, count ? first : 0, count};
    tensor *token = scene_tensor(&s, rows), *E = scene_tensor(&s, (size_t)(count ? count : vocab) * cols);
    tensor *X = scene_tensor(&s, (size_t)rows * ld);
    for (uint32_t r = 0; r < rows; r++) wholes(token)[r] = r * 7 % vocab;
    put(E, count ? count : vocab, cols, width, cols, 0, 1);
    if (acc) put(X, rows, cols, width, ld, o, 1);
    return s;
}
static void embed_window(void) {
    sweep(make_embed_window, (double[]){1e-13});
}

/* Of the tokens 1, 3, 5, ... those of the window have a row. */
static scene make_embed_grad_window(uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t cols = ops_pad(width), o = offset(i), ldx = stride(o, width, i), runs = 1 + rows / 3, acc = i % 2;
    uint32_t first = rows == 1 ? i % 2 : i % 3 * 2, count = rows == 1 ? 1 : runs;
    scene s = scene_new(OP_EMBED_GRAD);
    s.call.p.embed_grad = (struct abi_embed_grad){runs, cols, cols, ldx, o, acc, 1.7f, first, count};
    tensor *list = scene_tensor(&s, runs), *start = scene_tensor(&s, runs + 1), *order = scene_tensor(&s, rows);
    tensor *X = scene_tensor(&s, (size_t)rows * ldx), *E = scene_tensor(&s, (size_t)count * cols);
    for (uint32_t u = 0; u <= runs; u++) wholes(start)[u] = u ? rows - (runs - u) * (rows / (2 * runs)) : 0;
    for (uint32_t u = 0; u < runs; u++) wholes(list)[u] = 2 * u + 1;
    for (uint32_t r = 0; r < rows; r++) wholes(order)[r] = rows - 1 - r;
    put(X, rows, cols, width, ldx, o, 1);
    if (acc) put(E, count, cols, width, cols, 0, 1);
    return s;
}
static void embed_grad_window(void) {
    sweep(make_embed_grad_window, (double[]){1e-12});
}

int main(void) {
    TEST(embed_window);
    TEST(embed_grad_window);
    machines_done();
    return end_with_device();
}
