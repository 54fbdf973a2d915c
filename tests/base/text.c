// Errors, texts, memory, digests and the log.
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <pthread.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/base/str.h"
#include "tests/base/folder.h"
#include "tests/test.h"

static void error_gains_context_on_the_way_up(void) {
    colm_err e = {0};
    CHECK(err_set(&e, COLM_E_INPUT, "%d is not a multiple of %d", 100, 64) == COLM_E_INPUT);
    CHECK_STR(e.text, "100 is not a multiple of 64");
    CHECK(err_at(&e, "stages[%d]", 1) == COLM_E_INPUT);
    CHECK(err_at(&e, "%s", "grow.json") == COLM_E_INPUT);
    CHECK_STR(e.text, "grow.json: stages[1]: 100 is not a multiple of 64");
    CHECK(err_set(&e, COLM_E_CHECK, "again: %s", e.text) == COLM_E_CHECK); // its own text as an argument
    CHECK_STR(e.text, "again: grow.json: stages[1]: 100 is not a multiple of 64");
    CHECK(e.code == COLM_E_CHECK);
}

static void error_may_be_unwanted(void) {
    CHECK(err_set(NULL, COLM_E_DEVICE, "x") == COLM_E_DEVICE);
    CHECK(err_at(NULL, "x") == COLM_E_BUG);
    CHECK(err_nomem(NULL, 5, "x") == COLM_E_MEMORY);
}

static void error_is_one_line_that_fits(void) {
    colm_err e;
    char text[3000];
    err_set(&e, COLM_E_INPUT, "a\nb\tc\x7f");
    CHECK_STR(e.text, "a b c ");
    for (size_t shift = 0; shift < 3; shift++) { // the cut falls into a character at two of three places
        memset(text, 'x', shift);
        for (size_t i = 0; i < 600; i++) memcpy(text + shift + 3 * i, "\xE2\x82\xAC", 3);
        text[shift + 1800] = 0;
        err_set(&e, COLM_E_INPUT, "%s", text);
        size_t n = strlen(e.text);
        CHECK(n < sizeof e.text && n > sizeof e.text - 8);
        CHECK(strcmp(e.text + n - 3, "...") == 0);
        for (size_t i = 0, step; i < n; i += step) {
            step = str_utf8(e.text + i, n - i);
            if (!CHECK(step > 0)) break;
        }
    }
    err_set(&e, COLM_E_INPUT, "end");
    for (int i = 0; i < 2000; i++) err_at(&e, "level %d", i);
    CHECK(strlen(e.text) < sizeof e.text);
}

static void error_of_the_system_names_path_and_reason(void) {
    colm_err e;
    errno = ENOENT;
    CHECK(err_errno(&e, "a/b", "cannot open") == COLM_E_IO);
    CHECK_HAS(e.text, "a/b: cannot open: ");
    CHECK_HAS(e.text, strerror(ENOENT));
    CHECK(err_nomem(&e, 123, "logits") == COLM_E_MEMORY);
    CHECK_HAS(e.text, "123");
    CHECK_HAS(e.text, "logits");
}

static void nearest_name(void) {
    static const char *const names[] = {"chains", "learning_rate", "steps", "seed", "lr"};
    CHECK_STR(err_nearest("chain", names, 5), "chains");
    CHECK_STR(err_nearest("Learning-Rate", names, 5), "learning_rate");
    CHECK_STR(err_nearest("setps", names, 5), "steps");
    CHECK_STR(err_nearest("sede", names, 5), "seed");
    CHECK_STR(err_nearest("rl", names, 5), "lr");
    CHECK(err_nearest("batch", names, 5) == NULL);
    CHECK(err_nearest("x", names, 5) == NULL);
    CHECK(err_nearest("", names, 5) == NULL);
    CHECK(err_nearest("chains", names, 0) == NULL);
    char longest[300];
    memset(longest, 'c', sizeof longest);
    longest[299] = 0;
    CHECK(err_nearest(longest, names, 5) == NULL);
}

static void text_grows(void) {
    str s = {0};
    str_add(&s, "");
    CHECK_STR(s.text, "");
    for (int i = 0; i < 1000; i++) str_addf(&s, "%d,", i % 10);
    str_addn(&s, "xyz", 2);
    CHECK(s.len == 2002 && strlen(s.text) == 2002 && !s.failed);
    CHECK_STR(s.text + 1998, "9,xy");
    str_done(&s);
    CHECK(s.text == NULL && s.len == 0);
    mem_fail_after(0);
    str_add(&s, "lost");
    mem_fail_after(-1);
    str_add(&s, "lost as well");
    CHECK(s.failed && s.len == 0);
    str_done(&s);
    CHECK(!s.failed);
}

static void json_text(const char *in, const char *out) {
    str s = {0};
    str_add_json(&s, in);
    CHECK_STR(s.text, out);
    str_done(&s);
}
static void text_as_json(void) {
    json_text("plain \xC3\xA9 \xF0\x9F\x98\x80 \x7f", "\"plain \xC3\xA9 \xF0\x9F\x98\x80 \x7f\"");
    json_text("\"\\/\b\f\n\r\t\x01\x1f", "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\"");
    json_text("a\xFF\xC3", "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    json_text("\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                                   // overlong
    json_text("\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");                   // surrogate
    json_text("\xF4\x90\x80\x80!", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD!\""); // past U+10FFFF
}

// Every code point, encoded by the rule, is accepted; surrogates are not, and neither is any shorter or longer
// claim.
static void utf8_all_code_points(void) {
    size_t bad = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char b[4];
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        if (n == 1) b[0] = (char)c;
        for (size_t i = n - 1, rest = c; n > 1; i--, rest >>= 6) {
            b[i] = (char)(i ? 0x80 | (rest & 0x3F) : (0xF00 >> n & 0xFF) | rest);
            if (i == 0) break;
        }
        bool surrogate = c >= 0xD800 && c < 0xE000;
        bad += str_utf8(b, n) != (surrogate ? 0 : n);
        bad += n > 1 && str_utf8(b, n - 1) != 0;
    }
    CHECK(bad == 0);
    // All pairs of bytes: a two-byte character is C2..DF 80..BF and nothing else.
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            char pair[2] = {(char)a, (char)b};
            size_t want = a < 0x80 ? 1 : a >= 0xC2 && a < 0xE0 && b >= 0x80 && b < 0xC0 ? 2 : 0;
            bad += str_utf8(pair, 2) != want;
        }
    }
    CHECK(bad == 0);
    CHECK(str_utf8("\xE0\x9F\x80", 3) == 0 && str_utf8("\xF0\x8F\x80\x80", 4) == 0 &&
          str_utf8("\xF5\x80\x80\x80", 4) == 0);
}

static const char *double_text(double v) {
    static char text[64];
    str s = {0};
    str_add_double(&s, v);
    snprintf(text, sizeof text, "%s", s.text);
    str_done(&s);
    return text;
}
static void doubles_are_shortest(void) {
    CHECK_STR(double_text(0.1), "0.1");
    CHECK_STR(double_text(1), "1");
    CHECK_STR(double_text(-0.0), "-0");
    CHECK_STR(double_text(0.1 + 0.2), "0.30000000000000004");
    CHECK_STR(double_text(1e300), "1e+300");
    CHECK_STR(double_text(5e-324), "5e-324");
    CHECK_STR(double_text(123456789012345678.0), "1.2345678901234568e+17");
    CHECK_STR(double_text((double)0.1f), "0.10000000149011612");
    CHECK_STR(double_text(NAN), "null");
    CHECK_STR(double_text(INFINITY), "null");
    CHECK_STR(double_text(-INFINITY), "null");
}
static void doubles_read_back(void) {
    rng_stream r = rng_open(1, "doubles");
    size_t bad = 0, long_texts = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = rng_u64(&r, i);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v)) continue;
        double back = strtod(double_text(v), NULL);
        bad += memcmp(&back, &v, sizeof v) != 0;
    }
    // Every float32 reads back from its text as a double, and rounds to itself.
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)rng_u64(&r, 1000000 + i);
        float f;
        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f)) continue;
        float back = (float)strtod(double_text((double)f), NULL);
        bad += memcmp(&back, &f, sizeof f) != 0;
    }
    // Six digits stay six digits.
    for (uint64_t i = 0; i < 5000; i++)
        long_texts += strlen(double_text((double)(rng_u64(&r, i) % 1000000) / 1000)) > 7;
    CHECK(bad == 0);
    CHECK(long_texts == 0);
}
static void doubles_ignore_the_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *got = NULL;
    for (size_t i = 0; i < 4 && !got; i++) got = setlocale(LC_NUMERIC, names[i]);
    if (!got) {
        test_skip("no locale with a decimal comma is installed");
        return;
    }
    CHECK_STR(double_text(1.5), "1.5");
    CHECK_STR(double_text(0.1 + 0.2), "0.30000000000000004");
    setlocale(LC_NUMERIC, "C");
}

static void memory_is_checked_and_cleared(void) {
    unsigned char *p = mem_alloc(100, 3);
    size_t set = 0;
    for (size_t i = 0; p && i < 300; i++) set += p[i] != 0;
    CHECK(p && set == 0);
    free(p);
    CHECK(mem_alloc(SIZE_MAX / 2, 3) == NULL);
    CHECK(mem_alloc(SIZE_MAX, SIZE_MAX) == NULL);
    CHECK(mem_grow(NULL, SIZE_MAX / 4, 8) == NULL);
    void *none = mem_alloc(0, 8), *also = mem_alloc(8, 0);
    CHECK(none && also);
    free(none);
    free(also);
    char *block = mem_grow(NULL, 4, 1);
    if (CHECK(block != NULL)) memcpy(block, "abc", 4);
    char *more = mem_grow(block, 4000, 1);
    CHECK_STR(more, "abc");
    CHECK(mem_grow(more, SIZE_MAX / 2, 4) == NULL);
    CHECK_STR(more, "abc"); // still there
    free(more);
}

static void memory_fails_on_demand(void) {
    unsigned long long before = mem_count();
    mem_fail_after(2);
    void *a = mem_alloc(1, 1), *b = mem_alloc(1, 1), *c = mem_alloc(1, 1), *d = mem_alloc(1, 1);
    arena r = {0};
    CHECK(arena_alloc(&r, 1, 1) == NULL);
    mem_fail_after(-1);
    CHECK(a && b && !c && !d);
    CHECK(mem_count() == before + 2);
    CHECK(arena_alloc(&r, 1, 1) != NULL);
    CHECK(mem_count() == before + 3);
    arena_done(&r);
    free(a);
    free(b);
}

static void *allocate_often(void *unused) {
    for (int i = 0; i < 10000; i++) free(mem_alloc(1, 1));
    return unused;
}
static void memory_counts_across_threads(void) {
    pthread_t t[4];
    unsigned long long before = mem_count();
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, allocate_often, NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    CHECK(mem_count() == before + 40000);
    before = mem_count();
    mem_fail_after(15000); // of 40000: exactly so many pass
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, allocate_often, NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    mem_fail_after(-1);
    CHECK(mem_count() == before + 15000);
}

static void arena_blocks(void) {
    arena a = {0};
    size_t bad = 0;
    unsigned char *kept[500];
    for (size_t i = 0; i < 500; i++) {
        size_t n = i % 50 == 0 ? 100000 : i;
        kept[i] = arena_alloc(&a, n, 1);
        bad += !kept[i] || (uintptr_t)kept[i] % 16;
        for (size_t k = 0; k < n; k++) bad += kept[i][k] != 0;
        memset(kept[i], (int)(i & 0xFF), n); // a neighbour written over shows below
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t k = 0, n = i % 50 == 0 ? 100000 : i; k < n; k++) bad += kept[i][k] != (i & 0xFF);
    }
    CHECK(bad == 0);
    CHECK_STR(arena_strdup(&a, "copy"), "copy");
    CHECK_STR(arena_printf(&a, "%s-%d", "x", 7), "x-7");
    CHECK(arena_alloc(&a, SIZE_MAX / 2, 4) == NULL);
    CHECK(arena_alloc(&a, PTRDIFF_MAX, 1) == NULL);
    arena_done(&a);
    CHECK(a.head == NULL);
    arena_done(&a);
}

static void digests(void) {
    char a[HASH_TEXT], b[HASH_TEXT];
    hash_bytes("", 0, a);
    CHECK_STR(a, "99aa06d3014798d86001c324468d497f"); // XXH3-128 of nothing, as published
    hash_bytes(NULL, 0, b);
    CHECK_STR(a, b);
    CHECK(hash_u64("", 0) == 0x2d06800538d394c2ull); // XXH3-64 of nothing
    char text[5000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7);
    hash_bytes(text, sizeof text, a);
    hash_state *h = hash_open();
    if (!CHECK(h != NULL)) return;
    for (size_t i = 0; i < sizeof text; i += 100) hash_add(h, text + i, 100);
    hash_close(&h, b);
    CHECK(h == NULL);
    CHECK_STR(a, b);
    colm_err e;
    CHECK_OK(hash_file(folder_put("digest", text, sizeof text), b, &e), e);
    CHECK_STR(a, b);
    text[4999] ^= 1;
    hash_bytes(text, sizeof text, b);
    CHECK(strcmp(a, b) != 0);
    CHECK(hash_file(folder_at("none"), b, &e) == COLM_E_IO);
    CHECK_HAS(e.text, "none: cannot open");
    hash_close(&h, NULL);
    mem_fail_after(0);
    CHECK(hash_open() == NULL);
    CHECK(hash_file(folder_at("digest"), b, &e) == COLM_E_MEMORY);
    mem_fail_after(-1);
}
static void digest_of_texts_keeps_their_borders(void) {
    char digest[2][HASH_TEXT];
    static const char *const parts[2][2] = {{"ab", "c"}, {"a", "bc"}};
    for (int i = 0; i < 2; i++) {
        hash_state *h = hash_open();
        if (!CHECK(h != NULL)) return;
        hash_add_text(h, parts[i][0]);
        hash_add_text(h, parts[i][1]);
        hash_close(&h, digest[i]);
    }
    CHECK(strcmp(digest[0], digest[1]) != 0);
}

typedef struct {
    char last[4096];
    log_level level;
    int lines;
} heard;
static void hear(void *user, log_level level, const char *text) {
    heard *h = user;
    snprintf(h->last, sizeof h->last, "%s", text);
    h->level = level;
    h->lines++;
}
static void log_goes_to_the_sink(void) {
    heard h = {0};
    log_sink sink = {hear, &h}, silent = {0};
    log_line(&sink, LOG_WARN, "%s %d", "step", 5);
    CHECK_STR(h.last, "step 5");
    CHECK(h.level == LOG_WARN && h.lines == 1);
    log_line(&silent, LOG_INFO, "nobody");
    log_line(NULL, LOG_INFO, "nobody");
    log_line(&sink, LOG_DEBUG, "%3000d", 1);
    CHECK(h.lines == 2 && strlen(h.last) == 2047);
    CHECK_STR(h.last + 2044, "...");
    double a = clock_seconds(), b = clock_seconds();
    CHECK(b >= a && a >= 0);
    CHECK(clock_unix() > 1.6e9 && clock_unix() < 1e11);
}

int main(void) {
    folder_make();
    TEST(error_gains_context_on_the_way_up);
    TEST(error_may_be_unwanted);
    TEST(error_is_one_line_that_fits);
    TEST(error_of_the_system_names_path_and_reason);
    TEST(nearest_name);
    TEST(text_grows);
    TEST(text_as_json);
    TEST(utf8_all_code_points);
    TEST(doubles_are_shortest);
    TEST(doubles_read_back);
    TEST(doubles_ignore_the_locale);
    TEST(memory_is_checked_and_cleared);
    TEST(memory_fails_on_demand);
    TEST(memory_counts_across_threads);
    TEST(arena_blocks);
    TEST(digests);
    TEST(digest_of_texts_keeps_their_borders);
    TEST(log_goes_to_the_sink);
    folder_remove();
    return test_end();
}
