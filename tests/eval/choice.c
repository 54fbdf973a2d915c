// Files of items with choices: reading, scoring, metrics.
#include "tests/eval/fake.h"

typedef struct {
    scratch dir;
    tokenizer *tok;
    colm_err err;
} bench;

static bool bench_open(bench *b) {
    *b = (bench){.dir = scratch_open()};
    return CHECK_OK(tokenizer_open("bytes", &b->tok, &b->err), b->err);
}
static void bench_close(bench *b) {
    tokenizer_close(&b->tok);
    scratch_close(&b->dir);
}

static colm_status open_text(bench *b, const char *lines, uint32_t items, eval_task **ret) {
    const eval_task_params p = {.name = "exam",
                                .kind = EVAL_CHOICE,
                                .items = items,
                                .file = scratch_put(&b->dir, "exam.jsonl", lines, strlen(lines))};
    return eval_task_open(&p, b->tok, ret, &b->err);
}

static const char three[] =
    "{\"query\": \"Q: one?\", \"choices\": [\"yes\", \"no\"], \"gold\": 1, \"id\": 7}\r\n"
    "\n"
    "{\"gold\": 0, \"choices\": [\"a\", \"\\u00e9\\u00e9\", \"ccc\"], \"query\": \"\"}\n"
    "{\"contexts\": [\"he\", \"she\"], \"continuation\": \"ran.\", \"gold\": 1}";

static bool tokens_are(const eval_task *t, size_t request, const char *context, const char *continuation) {
    const task_request *r = &t->request[request];
    if (r->n_context != (context[0] ? strlen(context) : 1) || r->n_cont != strlen(continuation)) return false;
    const uint32_t *id = t->tokens.id + r->token;
    for (size_t i = 0; i < r->n_context; i++)
        if (id[i] != (context[0] ? (unsigned char)context[i] : 256)) return false;
    for (size_t i = 0; i < r->n_cont; i++)
        if (id[r->n_context + i] != (unsigned char)continuation[i]) return false;
    return true;
}

static void reads(void) {
    bench b;
    eval_task *t = NULL;
    if (bench_open(&b) && CHECK_OK(open_text(&b, three, 0, &t), b.err)) {
        CHECK(eval_task_items(t) == 3 && eval_task_requests(t) == 7 && eval_task_backoffs(t) == 0);
        CHECK_STR(eval_task_name(t), "exam");
        CHECK(eval_task_version(t) == 1);
        CHECK(tokens_are(t, 0, "Q: one?", " yes") && tokens_are(t, 1, "Q: one?", " no"));
        CHECK(tokens_are(t, 2, "", " a") && tokens_are(t, 3, "", " \xC3\xA9\xC3\xA9"));
        CHECK(tokens_are(t, 5, "he", " ran.") && tokens_are(t, 6, "she", " ran."));
        CHECK(t->request[3].chars == 2 && t->request[3].bytes == 4 && t->request[6].chars == 4);
        CHECK(t->item[0].gold == 1 && t->item[1].gold == 0 && t->item[2].gold == 1);
        char all[HASH_TEXT];
        strcpy(all, eval_task_digest(t));
        eval_task_close(&t);
        CHECK(t == NULL);
        CHECK_OK(open_text(&b, three, 2, &t), b.err);
        CHECK(eval_task_items(t) == 2 && strcmp(all, eval_task_digest(t)) != 0);
        eval_task_close(&t);
        CHECK_OK(open_text(&b, three, 9, &t), b.err);
        CHECK_STR(eval_task_digest(t), all);
        eval_task_close(&t);
    }
    bench_close(&b);
}

static void refuses(void) {
    static const struct {
        const char *lines, *says;
    } cases[] = {
        {"", "holds no item"},
        {"\n \n", "holds no item"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"]}", "exam.jsonl:1"},
        {"\n{\"query\": \"q\", \"choices\": [\"a\", \"b\"]}", "gold"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}", "gold"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": -1}", "gold"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": \"0\"}", "gold"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 0.5}", "gold"},
        {"{\"query\": \"q\", \"choices\": [\"a\"], \"gold\": 0}", "choices"},
        {"{\"query\": \"q\", \"choices\": [], \"gold\": 0}", "choices"},
        {"{\"query\": \"q\", \"choices\": \"ab\", \"gold\": 0}", "choices"},
        {"{\"query\": \"q\", \"choices\": [\"a\", 2], \"gold\": 0}", "choices[1]"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"\"], \"gold\": 0}", "choices[1]"},
        {"{\"query\": 1, \"choices\": [\"a\", \"b\"], \"gold\": 0}", "query"},
        {"{\"choices\": [\"a\", \"b\"], \"gold\": 0}", "query"},
        {"{\"contexts\": [\"a\", \"b\"], \"gold\": 0}", "continuation"},
        {"{\"contexts\": [\"a\", \"b\"], \"continuation\": \"\", \"gold\": 0}", "continuation"},
        {"[1]", "exam.jsonl:1"},
        {"{\"query\": \"q\",", "exam.jsonl:1"},
    };
    bench b;
    eval_task *t = NULL;
    if (bench_open(&b)) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (!CHECK(open_text(&b, cases[i].lines, 0, &t) == COLM_E_INPUT)) printf("# case %zu\n", i);
            CHECK_HAS(b.err.text, cases[i].says);
            CHECK_HAS(b.err.text, "task \"exam\"");
            eval_task_close(&t);
        }
        str later = {0};
        str_addf(&later, "%s\n{\"query\": 3}\n", three);
        CHECK(open_text(&b, later.text, 0, &t) == COLM_E_INPUT);
        CHECK_HAS(b.err.text, "exam.jsonl:5");
        str_done(&later);
        const eval_task_params none = {.name = "x", .kind = EVAL_CHOICE},
                               gone = {.name = "x", .kind = EVAL_CHOICE, .file = scratch_path(&b.dir, "gone")};
        CHECK(eval_task_open(&none, b.tok, &t, &b.err) == COLM_E_INPUT);
        CHECK(eval_task_open(&gone, b.tok, &t, &b.err) == COLM_E_IO);
        CHECK_HAS(b.err.text, "gone");
    }
    CHECK(t == NULL);
    bench_close(&b);
}

// Sums as the fake model must have given them, from the tokens.
static double expected_sum(const eval_task *t, size_t request, uint32_t scale) {
    const task_request *r = &t->request[request];
    const uint32_t *id = t->tokens.id + r->token;
    double sum = 0;
    for (uint32_t k = r->n_context; k < r->n_context + r->n_cont; k++)
        sum += fake_logprob(id[k - 1], id[k], scale);
    return sum;
}

static void scores_every_scale(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *o = NULL;
    fake_init(&f, 2, 64);
    if (bench_open(&b) && CHECK_OK(open_text(&b, three, 0, &t), b.err) &&
        CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err), b.err)) {
        CHECK(o->n_scales == 2 && o->n_scores == 3 && o->n_answers == 3 && !f.malformed);
        for (uint32_t s = 0; s < 2; s++) {
            size_t right[3] = {0}, request = 0;
            for (uint32_t i = 0; i < 3; i++) {
                const eval_answer *a = &o->answer[s * 3 + i];
                uint32_t best[3] = {0};
                CHECK(a->item == i && a->n_choices == t->item[i].n_choices && a->gold == t->item[i].gold);
                for (uint32_t c = 0; c < a->n_choices; c++) {
                    CHECK(a->sum[c] == expected_sum(t, request + c, s + 1));
                    const task_request *r = &t->request[request];
                    if (a->sum[c] > a->sum[best[0]]) best[0] = c;
                    if (a->sum[c] / r[c].chars > a->sum[best[1]] / r[best[1]].chars) best[1] = c;
                    if (a->sum[c] / r[c].bytes > a->sum[best[2]] / r[best[2]].bytes) best[2] = c;
                }
                CHECK(a->choice == best[0] && a->choice_norm == best[1]);
                CHECK(a->right == (best[0] == a->gold) && a->right_norm == (best[1] == a->gold));
                for (size_t k = 0; k < 3; k++) right[k] += best[k] == a->gold;
                request += a->n_choices;
            }
            static const char *const names[] = {"acc", "acc_norm", "acc_bytes"};
            for (size_t k = 0; k < 3; k++) {
                const eval_score *q = &o->score[s * 3 + k];
                CHECK_STR(q->metric, names[k]);
                CHECK_NEAR(q->value, (double)right[k] / 3, 1e-15);
                CHECK(q->higher_better && q->n == 3 && q->n_truncated == 0 && q->n_skipped == 0);
            }
        }
        CHECK(o->answer[0].sum[0] != o->answer[3].sum[0]); // the scales differ
    }
    eval_outcome_free(&o);
    CHECK(o == NULL);
    eval_outcome_free(&o);
    eval_task_close(&t);
    bench_close(&b);
}

// acc_norm divides by characters, acc_bytes by bytes, acc by nothing. Uniform scores are -(1 + tokens) *
// log(257).
static void norms_differ(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *o = NULL;
    fake_init(&f, 1, 64);
    f.uniform = true;
    // By sums the first wins. Per character: 2/1, 5/2 (é is two bytes), 7/6. Per byte: 2/1, 5/4, 7/6.
    const char *lines =
        "{\"query\": \"q\", \"choices\": [\"a\", \"\\u00e9\\u00e9\", \"cccccc\"], \"gold\": 0}\n"
        "{\"query\": \"q\", \"choices\": [\"a\", \"\\u00e9\\u00e9\\u00e9\"], \"gold\": 1}\n";
    if (bench_open(&b) && CHECK_OK(open_text(&b, lines, 0, &t), b.err) &&
        CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err), b.err)) {
        CHECK(o->answer[0].choice == 0 && o->answer[0].choice_norm == 2);
        // Per character 2/1 against 7/3, per byte 2/1 against 7/6.
        CHECK(o->answer[1].choice == 0 && o->answer[1].choice_norm == 0);
        CHECK_NEAR(o->score[0].value, 0.5, 0);
        CHECK_NEAR(o->score[1].value, 0, 0);
        CHECK_NEAR(o->score[2].value, 0.5, 0);
    }
    eval_outcome_free(&o);
    eval_task_close(&t);
    bench_close(&b);
}

// Equal scores are won by the first choice: a constant model gets what its luck with golds gives, not 1.
static void ties(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *o = NULL;
    fake_init(&f, 1, 64);
    f.uniform = true;
    const char *lines = "{\"query\": \"q\", \"choices\": [\"aa\", \"bb\", \"cc\"], \"gold\": 2}\n"
                        "{\"query\": \"q\", \"choices\": [\"aa\", \"bb\", \"cc\"], \"gold\": 0}\n"
                        "{\"query\": \"q\", \"choices\": [\"aa\", \"bb\", \"cc\"], \"gold\": 2}\n";
    if (bench_open(&b) && CHECK_OK(open_text(&b, lines, 0, &t), b.err) &&
        CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err), b.err)) {
        for (size_t k = 0; k < 3; k++) {
            CHECK_NEAR(o->score[k].value, 1.0 / 3, 1e-15);
            CHECK_NEAR(o->score[k].stderr_, 1.0 / 3, 1e-15);
        }
        CHECK(o->answer[0].choice == 0 && !o->answer[0].right && o->answer[1].right);
        eval_outcome_free(&o);
        eval_task_close(&t);
        CHECK_OK(open_text(&b, lines, 1, &t), b.err);
        CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err), b.err);
        CHECK(o->score[0].n == 1 && isnan(o->score[0].stderr_));
    }
    eval_outcome_free(&o);
    eval_task_close(&t);
    bench_close(&b);
}

static colm_status writes_nothing(void *user, const eval_request *req, size_t n, eval_result *ret,
                                  colm_err *err) {
    (void)user, (void)req, (void)n, (void)ret, (void)err;
    return COLM_OK;
}

static void not_a_number(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *o = NULL;
    fake_init(&f, 2, 64);
    if (bench_open(&b) && CHECK_OK(open_text(&b, three, 0, &t), b.err)) {
        const double bad[] = {NAN, INFINITY, -INFINITY};
        for (size_t i = 0; i < 3; i++) {
            f.seen = 0;
            f.poison = bad[i];
            f.poison_at = 4; // third choice of item 1
            CHECK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err) == COLM_E_CHECK);
            CHECK_HAS(b.err.text, "task \"exam\": item 1, scale 1");
        }
        f.poison = 0;
        f.fail = COLM_E_DEVICE;
        CHECK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err) == COLM_E_DEVICE);
        CHECK_HAS(b.err.text, "the fake model fails");
        f.model.score = writes_nothing;
        CHECK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err) == COLM_E_CHECK);
        f.model.n_scales = 0;
        CHECK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err) == COLM_E_INPUT);
        f.model.n_scales = 1, f.model.max_length = 0;
        CHECK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err) == COLM_E_INPUT);
    }
    CHECK(o == NULL);
    eval_task_close(&t);
    bench_close(&b);
}

// Long contexts lose their beginning, long continuations are never cut.
static void truncates_and_skips(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *o = NULL;
    fake_init(&f, 1, 6);
    const char *lines =
        "{\"query\": \"abc\", \"choices\": [\"xyz\", \"xy\"], \"gold\": 0}\n"        // 7 = 6 + 1: fits
        "{\"query\": \"abcd\", \"choices\": [\"xyz\", \"xy\"], \"gold\": 0}\n"       // one choice cut
        "{\"query\": \"abcdefgh\", \"choices\": [\"12345\", \"xy\"], \"gold\": 0}\n" // 6: one context token
        "{\"query\": \"abc\", \"choices\": [\"x\", \"123456\"], \"gold\": 0}\n";     // 7: skipped
    if (bench_open(&b) && CHECK_OK(open_text(&b, lines, 0, &t), b.err) &&
        CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err), b.err)) {
        CHECK(!f.malformed && f.longest == 6 && f.seen == 6);
        CHECK(o->n_answers == 3 && o->score[0].n == 3 && o->score[0].n_truncated == 2 &&
              o->score[0].n_skipped == 1);
        // What precedes each scored token is the same as without the cut, so the sums are.
        for (size_t i = 0; i < 3; i++)
            for (size_t c = 0; c < 2; c++) CHECK(o->answer[i].sum[c] == expected_sum(t, 2 * i + c, 1));
        eval_outcome_free(&o);
        f.model.max_length = 1;
        CHECK(eval_task_run(t, &f.model, NULL, NULL, &o, &b.err) == COLM_E_INPUT);
        CHECK_HAS(b.err.text, "all 4 items");
    }
    eval_outcome_free(&o);
    eval_task_close(&t);
    bench_close(&b);
}

static bool count_ticks(void *user, size_t done, size_t total) {
    size_t *ticks = user;
    CHECK(done <= total && total == 700);
    return ++ticks[0] == ticks[1];
}

// 350 items: the same bits whatever the chunk; ticks between chunks can stop the run.
static void chunks_do_not_matter(void) {
    bench b;
    fake f;
    eval_task *t = NULL;
    eval_outcome *whole = NULL, *o = NULL;
    str lines = {0};
    for (int i = 0; i < 350; i++)
        str_addf(&lines, "{\"query\": \"q %d\", \"choices\": [\"a%d\", \"b%d\"], \"gold\": %d}\n", i, i * i,
                 7 * i, i % 2);
    fake_init(&f, 2, 64);
    if (bench_open(&b) && CHECK_OK(open_text(&b, lines.text, 0, &t), b.err) &&
        CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &whole, &b.err), b.err)) {
        CHECK(f.calls == 3 && f.largest == 256 && f.seen == 700);
        const size_t chunk[] = {1, 3, 16, 699, 5000};
        for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++) {
            if (!CHECK_OK(task_run(t, &f.model, chunk[i], NULL, NULL, &o, &b.err), b.err)) break;
            for (size_t k = 0; k < 700; k++) {
                CHECK(memcmp(o->answer[k].sum, whole->answer[k].sum, 2 * sizeof(double)) == 0);
                CHECK(o->answer[k].choice == whole->answer[k].choice);
            }
            CHECK(o->score[0].value == whole->score[0].value && o->score[4].value == whole->score[4].value);
            eval_outcome_free(&o);
        }
        size_t ticks[2] = {0, 99};
        CHECK_OK(eval_task_run(t, &f.model, count_ticks, ticks, &o, &b.err), b.err);
        CHECK(ticks[0] == 3);
        eval_outcome_free(&o);
        ticks[0] = 0, ticks[1] = 2;
        CHECK(eval_task_run(t, &f.model, count_ticks, ticks, &o, &b.err) == COLM_E_INTERRUPTED);
        CHECK_HAS(b.err.text, "512 of 700");
        CHECK(o == NULL);
    }
    str_done(&lines);
    eval_outcome_free(&whole);
    eval_task_close(&t);
    bench_close(&b);
}

static void no_memory(void) {
    bench b;
    fake f;
    fake_init(&f, 2, 64);
    if (bench_open(&b)) {
        const eval_task_params p = {.name = "exam",
                                    .kind = EVAL_CHOICE,
                                    .file = scratch_put(&b.dir, "exam.jsonl", three, strlen(three))};
        colm_status s = COLM_E_MEMORY;
        long n = 0;
        for (; n < 1000 && s == COLM_E_MEMORY; n++) {
            eval_task *t = NULL;
            eval_outcome *o = NULL;
            mem_fail_after(n);
            s = eval_task_open(&p, b.tok, &t, &b.err);
            if (!s) s = eval_task_run(t, &f.model, NULL, NULL, &o, &b.err);
            mem_fail_after(-1);
            CHECK((s == COLM_OK) == (o != NULL));
            eval_outcome_free(&o);
            eval_task_close(&t);
        }
        CHECK(s == COLM_OK && n > 20);
    }
    bench_close(&b);
}

int main(void) {
    TEST(reads);
    TEST(refuses);
    TEST(scores_every_scale);
    TEST(norms_differ);
    TEST(ties);
    TEST(not_a_number);
    TEST(truncates_and_skips);
    TEST(chunks_do_not_matter);
    TEST(no_memory);
    return test_end();
}
