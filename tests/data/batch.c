#include "engine/data/corpus.h"
#include "tests/data/scratch.h"
#include "tests/test.h"

// Corpora of known tokens: corpus k trains on one document of n bytes, byte i being (k*100 + i % 100).
typedef struct {
    scratch dir;
    tokenizer *tok;
    corpus *c[2];
    size_t n[2];
    colm_err err;
} bench;

static bool bench_open(bench *b, size_t n0, size_t n1) {
    *b = (bench){.dir = scratch_open(), .n = {n0, n1}};
    if (!CHECK_OK(tokenizer_open("bytes", &b->tok, &b->err), b->err)) return false;
    for (size_t k = 0; k < 2; k++) {
        char *bytes = mem_alloc(b->n[k] + 1, 1);
        for (size_t i = 0; i < b->n[k]; i++) bytes[i] = (char)(k * 100 + i % 100);
        const char *name = arena_printf(&b->dir.names, "%zu.txt", k);
        const char *text[] = {name, "held.txt"};
        scratch_put(&b->dir, name, bytes, b->n[k]);
        scratch_put(&b->dir, "held.txt", "\xff", 1);
        free(bytes);
        corpus_params p = {.name = k ? "one" : "zero",
                           .base_dir = b->dir.path,
                           .text = text,
                           .n_text = 2,
                           .heldout = 1e-6,
                           .cache_dir = b->dir.path};
        size_t got = 0;
        // The seed that holds out the small document.
        for (; got != b->n[k] + 1 && p.seed < 64; p.seed++) {
            corpus_close(&b->c[k]);
            if (!CHECK_OK(corpus_open(&p, b->tok, NULL, &b->c[k], &b->err), b->err)) return false;
            corpus_train(b->c[k], &got);
        }
        if (!CHECK(got == b->n[k] + 1)) return false;
    }
    return true;
}

static void bench_close(bench *b) {
    corpus_close(&b->c[0]);
    corpus_close(&b->c[1]);
    tokenizer_close(&b->tok);
    scratch_close(&b->dir);
}

enum { B = 4, T = 8 };

static void windows_are_shifted_by_one(void) {
    bench b;
    uint32_t x[B * T], y[B * T];
    if (bench_open(&b, 500, 300)) {
        batch_part part = {b.c[0], 1};
        for (uint64_t step = 0; step < 50; step++) {
            CHECK_OK(batch_fill(&part, 1, 3, step, B, T, x, y, &b.err), b.err);
            for (size_t i = 0; i < B * T; i++) {
                if (i % T) CHECK(x[i] == y[i - 1]);
                CHECK(y[i] == (x[i] + 1) % 100 || y[i] == 256);
            }
        }
    }
    bench_close(&b);
}

// A row depends on seed, step and its number only: not on B, earlier calls or the order of calls.
static void pure(void) {
    bench b;
    uint32_t x[B * T], y[B * T], x1[B * T], y1[B * T];
    if (bench_open(&b, 500, 300)) {
        batch_part part[] = {{b.c[0], 1}, {b.c[1], 1}};
        unsigned long long before = mem_count();
        CHECK_OK(batch_fill(part, 2, 3, 17, B, T, x, y, &b.err), b.err);
        CHECK_OK(batch_fill(part, 2, 3, 16, B, T, x1, y1, &b.err), b.err);
        CHECK(memcmp(x, x1, sizeof x) != 0);
        CHECK_OK(batch_fill(part, 2, 4, 17, B, T, x1, y1, &b.err), b.err);
        CHECK(memcmp(x, x1, sizeof x) != 0);
        CHECK_OK(batch_fill(part, 2, 3, 17, B, T, x1, y1, &b.err), b.err);
        CHECK(memcmp(x, x1, sizeof x) == 0 && memcmp(y, y1, sizeof y) == 0);
        CHECK(mem_count() == before);
        CHECK_OK(batch_fill(part, 2, 3, 17, 2, T, x1, y1, &b.err), b.err);
        CHECK(memcmp(x, x1, 2 * T * sizeof *x) == 0);
        CHECK(memcmp(x, x + T, T * sizeof *x) != 0);
    }
    bench_close(&b);
}

// Every start is drawn, the first and the last one too, about equally often.
static void every_window(void) {
    bench b;
    uint32_t x[B * T], y[B * T];
    enum { N = 20, STARTS = N + 1 - T, STEPS = 4000 };
    size_t seen[STARTS] = {0};
    if (bench_open(&b, N, N)) {
        batch_part part = {b.c[0], 0.25};
        for (uint64_t step = 0; step < STEPS; step++) {
            if (!CHECK_OK(batch_fill(&part, 1, 1, step, B, T, x, y, &b.err), b.err)) break;
            for (size_t r = 0; r < B; r++)
                if (CHECK(x[r * T] < STARTS)) seen[x[r * T]]++;
        }
        for (size_t i = 0; i < STARTS; i++) CHECK_NEAR((double)seen[i] / (STEPS * B), 1.0 / STARTS, 0.01);
    }
    bench_close(&b);
}

static void weights(void) {
    bench b;
    uint32_t x[B * T], y[B * T];
    enum { STEPS = 4000 };
    if (bench_open(&b, 500, 20)) {
        const batch_part part[] = {{b.c[0], 3}, {b.c[1], 1}}, one_sided[] = {{b.c[0], 1e-30}, {b.c[1], 1}};
        size_t first = 0, rare = 0;
        for (uint64_t step = 0; step < STEPS; step++) {
            CHECK_OK(batch_fill(part, 2, 1, step, B, T, x, y, &b.err), b.err);
            for (size_t r = 0; r < B; r++) first += x[r * T] < 100;
            CHECK_OK(batch_fill(one_sided, 2, 1, step, B, T, x, y, &b.err), b.err);
            for (size_t r = 0; r < B; r++) rare += x[r * T] < 100;
        }
        CHECK_NEAR((double)first / (STEPS * B), 0.75, 0.02);
        CHECK(rare == 0);
    }
    bench_close(&b);
}

static void refuses(void) {
    bench b;
    uint32_t x[64], y[64];
    if (bench_open(&b, 19, 40)) {
        batch_part part[] = {{b.c[1], 1}, {b.c[0], 1}};
        CHECK_OK(batch_fill(part, 2, 1, 0, 1, 19, x, y, &b.err),
                 b.err); // 19 bytes and eos: one window of 19 + 1
        CHECK(y[18] == 256 || x[0] >= 100);
        CHECK(batch_fill(part, 2, 1, 0, 1, 20, x, y, &b.err) == COLM_E_INPUT);
        CHECK_HAS(b.err.text, "\"zero\" has 20 training tokens, too few for a window of 20 + 1");
        CHECK(batch_fill(part, 0, 1, 0, 1, 8, x, y, &b.err) == COLM_E_INPUT);
        CHECK(batch_fill(part, 2, 1, 0, 0, 8, x, y, &b.err) == COLM_E_INPUT);
        CHECK(batch_fill(part, 2, 1, 0, 1, 0, x, y, &b.err) == COLM_E_INPUT);
        CHECK(batch_fill(part, 2, 1, UINT64_C(1) << 32, 1, 8, x, y, &b.err) == COLM_E_INPUT);
        CHECK_OK(batch_fill(part, 2, 1, UINT32_MAX, 1, 8, x, y, &b.err), b.err);
        const double bad[] = {0, -1, NAN, INFINITY};
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            part[1].weight = bad[i];
            CHECK(batch_fill(part, 2, 1, 0, 1, 8, x, y, &b.err) == COLM_E_INPUT);
            CHECK_HAS(b.err.text, "weight");
        }
    }
    bench_close(&b);
}

int main(void) {
    TEST(windows_are_shifted_by_one);
    TEST(pure);
    TEST(every_window);
    TEST(weights);
    TEST(refuses);
    return test_end();
}
