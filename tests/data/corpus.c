#include "engine/data/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/rng.h"
#include "tests/data/scratch.h"
#include "tests/test.h"

// What a test needs at hand: a folder, a tokenizer, what was logged.
typedef struct {
    scratch dir;
    tokenizer *tok;
    char log[4096];
    log_sink sink;
    colm_err err;
} bench;

static void remember(void *user, log_level level, const char *text) {
    bench *b = user;
    size_t n = strlen(b->log);
    snprintf(b->log + n, sizeof b->log - n, "%d %s\n", (int)level, text);
}

static bool bench_open(bench *b) {
    *b = (bench){.dir = scratch_open()};
    b->sink = (log_sink){remember, b};
    return CHECK(b->dir.path[0]) && CHECK_OK(tokenizer_open("bytes", &b->tok, &b->err), b->err);
}

static void bench_close(bench *b) {
    tokenizer_close(&b->tok);
    scratch_close(&b->dir);
}

// n paragraphs that begin with "@", of up to `most` bytes of any kind but '@', in one file.
static const char *put_paragraphs(bench *b, const char *name, size_t n, uint64_t seed, size_t most) {
    rng_stream r = rng_open(seed, "paragraphs");
    uint64_t draw = 0;
    char *text = mem_alloc(n * (most + 1), 1);
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = rng_below(&r, draw++, most);
        text[len++] = '@';
        for (size_t k = 0; k < bytes; k++) {
            char c = (char)rng_below(&r, draw++, 256);
            text[len++] = c == '@' ? '\0' : c;
        }
    }
    const char *path = scratch_put(&b->dir, name, text, len);
    free(text);
    return path;
}

static corpus_params params(bench *b, const char *const *text, size_t n) {
    return (corpus_params){.name = "test",
                           .base_dir = b->dir.path,
                           .text = text,
                           .n_text = n,
                           .heldout = 0.1,
                           .seed = 7,
                           .cache_dir = scratch_path(&b->dir, "cache/deep")};
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The documents of a side as sorted digests.
typedef struct {
    char **digest;
    size_t n;
    arena mem;
} side;
static void side_add(side *s, const char *bytes, size_t n) {
    char d[HASH_TEXT];
    hash_bytes(bytes, n, d);
    s->digest[s->n++] = arena_strdup(&s->mem, d);
}
static side side_train(const corpus *c) {
    side s = {0};
    size_t n, len = 0;
    const uint16_t *t = corpus_train(c, &n);
    char *doc = mem_alloc(n, 1);
    s.digest = mem_alloc(n, sizeof *s.digest);
    for (size_t i = 0; i < n; i++) {
        if (t[i] == 256) {
            side_add(&s, doc, len);
            len = 0;
        } else {
            doc[len++] = (char)t[i];
        }
    }
    CHECK(len == 0); // the last one is closed by eos, too
    free(doc);
    qsort(s.digest, s.n, sizeof *s.digest, by_bytes);
    return s;
}
static side side_heldout(const corpus *c) {
    side s = {0};
    s.digest = mem_alloc(corpus_heldout_docs(c), sizeof *s.digest);
    for (size_t i = 0; i < corpus_heldout_docs(c); i++) {
        size_t n;
        const char *doc = corpus_heldout_doc(c, i, &n);
        side_add(&s, doc, n);
    }
    qsort(s.digest, s.n, sizeof *s.digest, by_bytes);
    return s;
}
static void side_close(side *s) {
    free(s->digest);
    arena_done(&s->mem);
}
static bool disjoint(const side *a, const side *b) {
    for (size_t i = 0; i < a->n; i++)
        if (bsearch(&a->digest[i], b->digest, b->n, sizeof *b->digest, by_bytes)) return false;
    return true;
}

static void splits_documents(void) {
    bench b;
    corpus *c = NULL;
    if (!bench_open(&b)) return;
    put_paragraphs(&b, "a.txt", 200, 1, 300);
    const char *text[] = {"a.txt"};
    corpus_params p = params(&b, text, 1);
    p.split_on = "@";
    if (CHECK_OK(corpus_open(&p, b.tok, &b.sink, &c, &b.err), b.err)) {
        corpus_stats q = corpus_get_stats(c);
        side train = side_train(c), held = side_heldout(c);
        CHECK(q.docs == 200 && q.files == 1);
        CHECK(train.n == q.train_docs && held.n == q.heldout_docs && train.n + held.n == 200);
        // Lone "@" documents are equal, so one side has them all.
        CHECK(disjoint(&train, &held));
        CHECK(q.train_tokens == q.bytes - q.heldout_bytes + q.train_docs);
        CHECK((double)q.heldout_bytes >= 0.1 * (double)q.bytes &&
              (double)q.heldout_bytes < 0.13 * (double)q.bytes);
        CHECK_HAS(b.log, "200 documents of 1 files");
        side_close(&train);
        side_close(&held);
    }
    corpus_close(&c);
    CHECK(c == NULL);
    corpus_close(&c);
    bench_close(&b);
}

// The same texts in other files, another order and under other names give the same corpus, byte for byte.
static void names_do_not_matter(void) {
    bench b;
    corpus *c[2] = {0};
    if (!bench_open(&b)) return;
    put_paragraphs(&b, "a.txt", 30, 1, 100);
    put_paragraphs(&b, "b.txt", 30, 2, 100);
    put_paragraphs(&b, "z.txt", 30, 1, 100);
    put_paragraphs(&b, "y.txt", 30, 2, 100);
    const char *first[] = {"a.txt", "b.txt"}, *second[] = {"z.txt", "y.txt", "?.txt"};
    corpus_params p = params(&b, first, 2);
    p.split_on = "@";
    corpus_params other = params(&b, second, 2);
    other.split_on = "@";
    other.name = "other";
    if (CHECK_OK(corpus_open(&p, b.tok, NULL, &c[0], &b.err), b.err) &&
        CHECK_OK(corpus_open(&other, b.tok, &b.sink, &c[1], &b.err), b.err)) {
        CHECK_STR(corpus_digest(c[0]), corpus_digest(c[1]));
        CHECK_HAS(b.log, "(cached)");
        CHECK_STR(corpus_name(c[1]), "other");
        corpus_close(&c[1]);
        // Every file named twice, by name and by pattern, is one file; its copy is a duplicate on the same
        // side.
        other.n_text = 3;
        b.log[0] = 0;
        CHECK_OK(corpus_open(&other, b.tok, &b.sink, &c[1], &b.err), b.err);
        corpus_stats q = corpus_get_stats(c[1]);
        side train = side_train(c[1]), held = side_heldout(c[1]);
        CHECK(q.files == 4 && q.docs == 120 && q.duplicates >= 60);
        CHECK(disjoint(&train, &held));
        CHECK_HAS(b.log, "equal an earlier one");
        side_close(&train);
        side_close(&held);
    }
    corpus_close(&c[0]);
    corpus_close(&c[1]);
    bench_close(&b);
}

static void parameters_change_the_digest(void) {
    bench b;
    enum { N = 7 };
    char digest[N][HASH_TEXT];
    if (!bench_open(&b)) return;
    put_paragraphs(&b, "a.txt", 50, 1, 100);
    put_paragraphs(&b, "b.txt", 50, 2, 100);
    const char *text[] = {"a.txt", "b.txt"};
    corpus_params p[N];
    for (size_t i = 0; i < N; i++) {
        p[i] = params(&b, text, 1);
        p[i].split_on = "@";
    }
    p[1].n_text = 2;
    p[2].heldout = 0.2;
    p[3].seed = 8;
    p[4].split_on = "[@]";
    p[5].max_bytes = 1000;
    p[6].cache_dir = scratch_path(&b.dir, "elsewhere"); // the only one that must not matter
    for (size_t i = 0; i < N; i++) {
        corpus *c = NULL;
        if (CHECK_OK(corpus_open(&p[i], b.tok, NULL, &c, &b.err), b.err)) strcpy(digest[i], corpus_digest(c));
        if (i == 5) {
            corpus_stats q = corpus_get_stats(c);
            CHECK(q.bytes >= 1000 && q.bytes < 1100 && q.docs < 50);
        }
        corpus_close(&c);
        for (size_t k = 0; k < i; k++) CHECK((strcmp(digest[i], digest[k]) == 0) == (i == 6 && k == 0));
    }
    bench_close(&b);
}

static void split_patterns(void) {
    static const struct {
        const char *text, *pattern;
        size_t docs;
    } cases[] = {
        {"Chapter 1\nx\nChapter 2\ny\n", "^Chapter", 2},
        {"Chapter 1\nx\nChapter 2\ny\n", "^(?=Chapter)", 2},    // empty matches
        {"preface\nChapter 1\nChapter 2\n", "^Chapter \\d", 3}, // what stands before the first match
        {"a\r\n\r\nb\r\n\r\nc", "^$", 3},                       // CRLF: at the empty lines
        {"a\n\n\nb", "(?<=\\n\\n)(?=.)", 2},
        {"xaxbx", "x|$", 3}, // a match at the end starts nothing
        {"\xc3\xa9t\xc3\xa9", "\xc3\xa9", 2},
        {"ab", "", 0}, // refused
        {"ab", "(", 0},
        {"ab", "(*UTF)b", 0},
    };
    bench b;
    if (!bench_open(&b)) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        corpus *c = NULL;
        scratch_put(&b.dir, "t.txt", cases[i].text, strlen(cases[i].text));
        const char *text[] = {"t.txt"};
        corpus_params p = params(&b, text, 1);
        p.split_on = cases[i].pattern;
        if (cases[i].docs) {
            if (CHECK_OK(corpus_open(&p, b.tok, NULL, &c, &b.err), b.err) &&
                !CHECK(corpus_get_stats(c).docs == cases[i].docs))
                printf("# case %zu: %llu documents\n", i, (unsigned long long)corpus_get_stats(c).docs);
        } else {
            CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
            CHECK_HAS(b.err.text, "split_on");
        }
        corpus_close(&c);
    }
    bench_close(&b);
}

// A pattern that backtracks without end is stopped.
static void runaway_pattern(void) {
    bench b;
    corpus *c = NULL;
    if (!bench_open(&b)) return;
    char text[400];
    memset(text, 'a', sizeof text);
    scratch_put(&b.dir, "t.txt", text, sizeof text);
    const char *names[] = {"t.txt"};
    corpus_params p = params(&b, names, 1);
    p.split_on = "(a+)+$b|(a*)*c";
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
    CHECK_HAS(b.err.text, "t.txt: split_on gives up at byte 0");
    bench_close(&b);
}

static void refuses(void) {
    bench b;
    corpus *c = NULL;
    if (!bench_open(&b)) return;
    scratch_put(&b.dir, "one.txt", "one", 3);
    scratch_put(&b.dir, "same.txt", "one", 3);
    scratch_put(&b.dir, "empty.txt", "", 0);
    const char *one[] = {"one.txt", "empty.txt"}, *same[] = {"one.txt", "same.txt"},
               *none[] = {"one.txt", "no*.txt"};
    corpus_params p = params(&b, one, 2);
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
    CHECK_HAS(b.err.text, "corpus \"test\": 1 document of 3 bytes cannot be divided");
    p = params(&b, same, 2);
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
    CHECK_HAS(b.err.text, "2 documents of 6 bytes, all equal");
    p = params(&b, none, 2);
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
    CHECK_HAS(b.err.text, "text[1]");
    p = params(&b, &one[1], 1);
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
    p = params(&b, one, 0);
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
    const double bad[] = {0, 1, -1, 2, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p = params(&b, same, 2);
        p.heldout = bad[i];
        CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
        CHECK_HAS(b.err.text, "heldout");
    }
    p = params(&b, same, 2);
    p.cache_dir = NULL;
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_INPUT);
    CHECK(c == NULL);
    bench_close(&b);
}

// Two documents suffice, whichever sizes they have; a part far from what was asked is said.
static void two_documents(void) {
    bench b;
    corpus *c = NULL;
    if (!bench_open(&b)) return;
    scratch_put(&b.dir, "a.txt", "a", 1);
    scratch_put(&b.dir, "b.txt", "bbbbbbbbb", 9);
    const char *text[] = {"a.txt", "b.txt"};
    for (uint64_t seed = 0; seed < 8; seed++) {
        corpus_params p = params(&b, text, 2);
        p.seed = seed;
        p.heldout = 0.3;
        b.log[0] = 0;
        if (CHECK_OK(corpus_open(&p, b.tok, &b.sink, &c, &b.err), b.err)) {
            corpus_stats q = corpus_get_stats(c);
            CHECK(q.train_docs == 1 && q.heldout_docs == 1);
            CHECK((q.heldout_bytes == 9) == (strstr(b.log, "90.0 % held out where 30.0 %") != NULL));
        }
        corpus_close(&c);
    }
    bench_close(&b);
}

static const char *token_file(bench *b, const corpus *c) {
    return arena_printf(&b->dir.names, "%s/cache/deep/%s.tokens", b->dir.path, corpus_digest(c));
}

static void damaged_cache_is_rebuilt(void) {
    bench b;
    corpus *c = NULL;
    char *good = NULL, *now = NULL;
    size_t n, now_n;
    if (!bench_open(&b)) return;
    put_paragraphs(&b, "a.txt", 20, 3, 100);
    const char *text[] = {"a.txt"};
    corpus_params p = params(&b, text, 1);
    p.split_on = "@";
    if (!CHECK_OK(corpus_open(&p, b.tok, &b.sink, &c, &b.err), b.err)) return;
    CHECK(!strstr(b.log, "(cached)"));
    const char *path = token_file(&b, c);
    corpus_close(&c);
    if (!CHECK_OK(file_read(path, 0, &good, &n, &b.err), b.err)) return;
    // No change, each byte class flipped, cut to several lengths, longer, empty.
    const size_t flip[] = {0, 9, 16, 17, n / 2, n - 140, n - 33, n - 1}, cut[] = {0, 1, 16, 150, n - 1};
    const size_t n_flip = sizeof flip / sizeof *flip, n_cut = sizeof cut / sizeof *cut;
    for (size_t i = 0; i < 1 + n_flip + n_cut + 1; i++) {
        char *bad = mem_alloc(n + 1, 1);
        size_t bad_n = n;
        memcpy(bad, good, n);
        if (i >= 1 && i <= n_flip) bad[flip[i - 1]] ^= 0x10;
        if (i > n_flip && i <= n_flip + n_cut) bad_n = cut[i - n_flip - 1];
        if (i == n_flip + n_cut + 1) bad_n = n + 1;
        CHECK_OK(file_write(path, bad, bad_n, &b.err), b.err);
        free(bad);
        b.log[0] = 0;
        if (!CHECK_OK(corpus_open(&p, b.tok, &b.sink, &c, &b.err), b.err)) break;
        CHECK((i == 0) == (strstr(b.log, "(cached)") != NULL));
        CHECK((i == 0) == (strstr(b.log, "again") == NULL));
        corpus_close(&c);
        CHECK_OK(file_read(path, 0, &now, &now_n, &b.err), b.err);
        CHECK(now_n == n && memcmp(now, good, n) == 0);
        free(now);
    }
    free(good);
    bench_close(&b);
}

static void system_refuses(void) {
    bench b;
    corpus *c = NULL;
    if (!bench_open(&b)) return;
    put_paragraphs(&b, "a.txt", 20, 3, 100);
    const char *text[] = {"a.txt"};
    corpus_params p = params(&b, text, 1);
    p.split_on = "@";
    p.cache_dir = scratch_path(&b.dir, "a.txt/cache"); // a file in the way
    CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_IO);
    CHECK_HAS(b.err.text, "a.txt");
    // The rights of a user: root may do all.
    uid_t me = geteuid();
    if (me == 0 && (chmod(b.dir.path, 0777) || seteuid(65534))) {
        test_skip("cannot become an ordinary user");
    } else {
        p.cache_dir = scratch_path(&b.dir, "locked");
        CHECK_OK(file_make_dirs(p.cache_dir, &b.err), b.err);
        CHECK(chmod(p.cache_dir, 0500) == 0);
        CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_IO);
        CHECK_HAS(b.err.text, p.cache_dir);
        CHECK(chmod(p.cache_dir, 0700) == 0);
        CHECK_OK(corpus_open(&p, b.tok, NULL, &c, &b.err), b.err);
        const char *path = arena_printf(&b.dir.names, "%s/%s.tokens", p.cache_dir, corpus_digest(c));
        corpus_close(&c);
        CHECK(chmod(path, 0) == 0);
        CHECK(corpus_open(&p, b.tok, NULL, &c, &b.err) == COLM_E_IO);
        CHECK_HAS(b.err.text, path);
    }
    if (me == 0) CHECK(seteuid(me) == 0);
    CHECK(c == NULL);
    bench_close(&b);
}

// Every allocation fails once: an error each time, nothing left behind (the sanitizer looks), then success.
static void no_memory(void) {
    bench b;
    corpus *c = NULL;
    if (!bench_open(&b)) return;
    put_paragraphs(&b, "a.txt", 20, 3, 100);
    const char *text[] = {"a.txt"};
    long n = 0;
    for (; n < 1000; n++) {
        corpus_params p = params(&b, text, 1);
        p.split_on = "@";
        p.cache_dir = arena_printf(&b.dir.names, "%s/cache%ld", b.dir.path, n);
        mem_fail_after(n);
        colm_status s = corpus_open(&p, b.tok, NULL, &c, &b.err);
        mem_fail_after(-1);
        if (s == COLM_OK) break;
        if (!CHECK(s == COLM_E_MEMORY && c == NULL)) break;
    }
    CHECK(n > 10 && c);
    corpus_close(&c);
    bench_close(&b);
}

// What the numbers were when this was written: they pin the order, the split and the file format.
static void golden(void) {
    bench b;
    corpus *c = NULL;
    if (!bench_open(&b)) return;
    put_paragraphs(&b, "a.txt", 100, 5, 200);
    const char *text[] = {"a.txt"};
    corpus_params p = params(&b, text, 1);
    p.split_on = "@";
    if (CHECK_OK(corpus_open(&p, b.tok, NULL, &c, &b.err), b.err)) {
        char sum[HASH_TEXT];
        CHECK_OK(hash_file(token_file(&b, c), sum, &b.err), b.err);
        CHECK_STR(corpus_digest(c), "ef9ffe99a0ce52f5712e8a4e9472b135");
        CHECK_STR(sum, "03c857306b18f3996a2e227f6058206f");
    }
    corpus_close(&c);
    bench_close(&b);
}

int main(void) {
    TEST(splits_documents);
    TEST(names_do_not_matter);
    TEST(parameters_change_the_digest);
    TEST(split_patterns);
    TEST(runaway_pattern);
    TEST(refuses);
    TEST(two_documents);
    TEST(damaged_cache_is_rebuilt);
    TEST(system_refuses);
    TEST(no_memory);
    TEST(golden);
    return test_end();
}
