// bits_per_byte: rolling windows over documents.
#include "engine/eval/metrics.h"
#include "tests/eval/fake.h"

typedef struct {
    scratch dir;
    tokenizer *tok;
    corpus *corpus;
    colm_err err;
} bench;

// Documents of any bytes, of 1 to 60 of them.
static bool bench_open(bench *b, int docs) {
    const rng_stream r = rng_open(9, "documents");
    uint64_t draw = 0;
    str s = {0};
    *b = (bench){.dir = scratch_open()};
    for (int d = 0; d < docs; d++) {
        str_add(&s, "@");
        for (uint64_t n = rng_below(&r, draw++, 60); n; n--) {
            char c = (char)rng_below(&r, draw++, 256);
            str_addn(&s, c == '@' ? "\0" : &c, 1);
        }
    }
    if (CHECK_OK(tokenizer_open("bytes", &b->tok, &b->err), b->err))
        b->corpus = fake_corpus(&b->dir, b->tok, s.text, s.len, 0.4);
    str_done(&s);
    return b->corpus != NULL;
}
static void bench_close(bench *b) {
    corpus_close(&b->corpus);
    tokenizer_close(&b->tok);
    scratch_close(&b->dir);
}
static eval_task_params bits(const bench *b) {
    return (eval_task_params){.name = "fake_bits", .kind = EVAL_BITS_PER_BYTE, .corpus = b->corpus};
}

// A model that knows nothing pays log2(257) bits a byte: each byte is scored once, the end of a document is
// not.
static void uniform(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *o = NULL;
    if (bench_open(&b, 40)) {
        const eval_task_params p = bits(&b);
        CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err);
        for (uint32_t length = 1; length <= 64; length *= 2) {
            fake_init(&f, 1, length);
            f.uniform = true;
            if (!CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err), b.err)) break;
            CHECK(o->n_scores == 1 && !o->score->higher_better && o->score->n_truncated == 0 &&
                  o->score->n_skipped == 0);
            CHECK_STR(o->score->metric, "bits_per_byte");
            CHECK_NEAR(o->score->value, log2(257), 1e-12);
            CHECK_NEAR(o->score->stderr_, 0, 1e-12);
            CHECK(o->score->n == corpus_heldout_docs(b.corpus) && !f.malformed);
            eval_outcome_free(&o);
        }
    }
    eval_task_close(&t);
    bench_close(&b);
}

// A model that sees one token back does not mind windows: every token once, after the one that precedes it.
static void every_token_once(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *o = NULL;
    if (bench_open(&b, 40)) {
        const eval_task_params p = bits(&b);
        const size_t n = corpus_heldout_docs(b.corpus);
        CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err);
        CHECK(eval_task_items(t) == n && eval_task_requests(t) == n);
        for (uint32_t length = 1; length <= 70; length++) {
            double x[64], y[64];
            fake_init(&f, 2, length);
            if (!CHECK_OK(task_run(t, &f.model, 1 + length % 9, NULL, NULL, &o, &b.err), b.err)) break;
            for (uint32_t scale = 1; scale <= 2; scale++) {
                for (size_t i = 0; i < n; i++) {
                    size_t bytes;
                    double sum = 0;
                    const char *doc = corpus_heldout_doc(b.corpus, i, &bytes);
                    for (size_t k = 0; k < bytes; k++)
                        sum += fake_logprob(k ? (unsigned char)doc[k - 1] : 256, (unsigned char)doc[k], scale);
                    const eval_answer *a = &o->answer[(scale - 1) * n + i];
                    CHECK_NEAR(a->sum[0], sum, 1e-12 * fabs(sum));
                    CHECK(a->bytes == bytes && a->n_choices == 1 && a->choice == 0 && a->gold == 0 &&
                          !a->right);
                    x[i] = -sum / log(2);
                    y[i] = (double)bytes;
                }
                const metric want = metric_ratio(x, y, n);
                CHECK_NEAR(o->score[scale - 1].value, want.value, 1e-12);
                CHECK_NEAR(o->score[scale - 1].stderr_, want.stderr_, 1e-12);
                CHECK(want.stderr_ > 0);
            }
            CHECK(!f.malformed);
            eval_outcome_free(&o);
        }
    }
    eval_task_close(&t);
    bench_close(&b);
}

// The windows themselves, for a document of 10 bytes read 4 at a time.
static colm_status see(void *user, const eval_request *req, size_t n, eval_result *ret, colm_err *err) {
    (void)err;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < req[i].n_context + req[i].n_cont; k++)
            str_addf(user, "%s%c", k == req[i].n_context ? "|" : "",
                     req[i].token[k] == 256 ? '^' : (char)req[i].token[k]);
        str_add(user, " ");
        ret[i] = (eval_result){-1, false};
    }
    return COLM_OK;
}

static void windows(void) {
    static const struct {
        uint32_t length;
        const char *want;
    } cases[] = {
        {4, "^|0123 3|4567 567|89 "}, // the last window reads as much as fits
        {5, "^|01234 4|56789 "},
        {9, "^|012345678 012345678|9 "},
        {10, "^|0123456789 "},
        {99, "^|0123456789 "},
        {1, "^|0 0|1 1|2 2|3 3|4 4|5 5|6 6|7 7|8 8|9 "},
    };
    colm_err err;
    tokenizer *tok = NULL;
    if (!CHECK_OK(tokenizer_open("bytes", &tok, &err), err)) return;
    eval_task task = {.name = (char[]){"t"}, .kind = EVAL_BITS_PER_BYTE};
    task_builder b = {.task = &task, .tok = tok, .hash = hash_open()};
    CHECK_OK(task_add_document(&b, (span){"0123456789", 10}, &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str seen = {0};
        eval_outcome *o = NULL;
        const eval_model m = {1, cases[i].length, &seen, see};
        CHECK_OK(eval_task_run(&task, &m, NULL, NULL, &o, &err), err);
        CHECK_STR(seen.text, cases[i].want);
        eval_outcome_free(&o);
        str_done(&seen);
    }
    hash_close(&b.hash, NULL);
    token_list_done(&task.tokens);
    free(task.request);
    free(task.item);
    tokenizer_close(&tok);
}

static void limits(void) {
    bench b;
    eval_task *t = NULL;
    if (bench_open(&b, 40)) {
        eval_task_params p = bits(&b);
        size_t first, second;
        corpus_heldout_doc(b.corpus, 0, &first);
        corpus_heldout_doc(b.corpus, 1, &second);
        p.max_bytes = first;
        CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err);
        CHECK(eval_task_items(t) == 1 && t->request[0].bytes == (double)first);
        eval_task_close(&t);
        if (CHECK(second > 4)) {
            p.max_bytes = first + second - 1; // the second one is cut, perhaps a character earlier
            CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err);
            CHECK(eval_task_items(t) == 2 && t->request[1].bytes < (double)second);
            CHECK(t->request[1].bytes >= (double)second - 4 &&
                  t->request[1].n_cont == (uint32_t)t->request[1].bytes);
            eval_task_close(&t);
        }
        p.max_bytes = 0;
        p.items = 3;
        CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err);
        CHECK(eval_task_items(t) == 3);
        eval_task_close(&t);
        p.corpus = NULL;
        CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
    }
    bench_close(&b);
}

int main(void) {
    TEST(uniform);
    TEST(every_token_once);
    TEST(windows);
    TEST(limits);
    return test_end();
}
