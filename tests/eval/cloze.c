#include "engine/eval/cloze.h"
#include "tests/eval/fake.h"

// ---- sentences

typedef struct {
    const char *doc;
    const char *want; // sentences joined by '|', '/' where a run ends between them
} row;
static const row rows[] = {
    {"The first sentence is here. The second one follows it!  And is this the third?\nYes, this is a fourth "
     "one.",
     "The first sentence is here.|The second one follows it!|And is this the third?|Yes, this is a fourth "
     "one."},
    {"He said \"let us go to the sea.\" (She was not there at all.) \xE2\x80\x9CWhy should she be?\xE2\x80\x9D "
     "Nobody could tell him why.",
     "He said \"let us go to the sea.\"|(She was not there at all.)|\xE2\x80\x9CWhy should she "
     "be?\xE2\x80\x9D|Nobody could tell him why."},
    {"Lines are\n  joined by\tsingle spaces. A blank line ends one\n \t\nThis is a new paragraph",
     "Lines are joined by single spaces.|A blank line ends one|This is a new paragraph"},
    {"Mr. Smith and Mrs. J. Brown met at noon. \"Who is it?\" asked the old man. It was nobody...? Nobody ever "
     "came to them.",
     "Mr. Smith and Mrs. J. Brown met at noon.|\"Who is it?\" asked the old man./Nobody ever "
     "came to them."},
    {"This one is long enough. Too short. This one is long enough again.",
     "This one is long enough./This one is long enough again."},
    {"Version 1.25 costs 3.50 per unit.* * * * * * * * * * * * * * * *",
     "Version 1.25 costs 3.50 per unit.* * * * * * * * * * * * * * * *"},
    {"* * * * * * * * * * * * * * * *\n\n1234567890 1234567890 1234567890.", ""},
    {"", ""},
    {"\n\n\n . . . ! ? \n\n", ""},
};

static void sentences_of_documents(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        colm_err err;
        sentences s = {0};
        str got = {0};
        str_add(&got, "");
        if (CHECK_OK(sentences_add(&s, (span){rows[i].doc, strlen(rows[i].doc)}, 5, &err), err)) {
            for (size_t k = 0; k < s.n; k++) {
                CHECK(s.at[k].doc == 5);
                if (k) str_add(&got, s.at[k].run == s.at[k - 1].run ? "|" : "/");
                str_addn(&got, s.bytes.text + s.at[k].begin, s.at[k].n);
            }
            CHECK_STR(got.text, rows[i].want);
        }
        str_done(&got);
        sentences_done(&s);
    }
}

// Lengths are characters, 20 and 200 included; a document's end ends a run.
static void limits_of_sentences(void) {
    colm_err err;
    sentences s = {0};
    char doc[512];
    const size_t chars[] = {19, 20, 200, 201};
    for (size_t i = 0; i < 4; i++) {
        size_t n = 0;
        for (size_t k = 0; k < chars[i]; k++) n += (size_t)sprintf(doc + n, "\xC3\xA9");
        CHECK_OK(sentences_add(&s, (span){doc, n}, i, &err), err);
        CHECK(s.n == (i == 0 ? 0 : i == 3 ? 2 : i));
    }
    CHECK(s.n == 2 && s.at[0].n == 40 && s.at[1].n == 400 && s.at[0].run != s.at[1].run);
    sentences_done(&s);
}

// ---- items

// Documents of numbered sentences: "Sentence 00012 of document 003 stands here."
static void write_documents(str *out, int docs, int each) {
    for (int d = 0; d < docs; d++) {
        str_add(out, "@");
        for (int i = 0; i < each; i++) str_addf(out, "Sentence %05d of document %03d stands here. ", i, d);
    }
}

typedef struct {
    scratch dir;
    tokenizer *tok;
    corpus *corpus;
    colm_err err;
} bench;

static bool bench_open(bench *b, int docs, int each) {
    str s = {0};
    *b = (bench){.dir = scratch_open()};
    write_documents(&s, docs, each);
    if (CHECK_OK(tokenizer_open("bytes", &b->tok, &b->err), b->err))
        b->corpus = fake_corpus(&b->dir, b->tok, s.text, s.len, 0.5);
    str_done(&s);
    return b->corpus != NULL;
}
static void bench_close(bench *b) {
    corpus_close(&b->corpus);
    tokenizer_close(&b->tok);
    scratch_close(&b->dir);
}

static eval_task_params cloze(const bench *b, uint32_t items) {
    return (eval_task_params){
        .name = "fake_cloze", .kind = EVAL_CLOZE, .corpus = b->corpus, .items = items, .seed = 3};
}

typedef struct {
    int n, doc;
} number;

// The numbers of the sentences in a request's context (from = 0) or continuation, in order.
static size_t numbers(const bench *b, const eval_task *t, size_t request, bool continuation, number *ret) {
    const task_request *r = &t->request[request];
    char *bytes = NULL;
    size_t n, found = 0;
    colm_err err;
    const uint32_t *id = t->tokens.id + r->token + (continuation ? r->n_context : 0);
    if (!CHECK_OK(tokenizer_decode(b->tok, id, continuation ? r->n_cont : r->n_context, &bytes, &n, &err), err))
        return 0;
    CHECK((bytes[0] == ' ') == continuation && bytes[n - 1] == '.');
    for (char *p = bytes; (p = strstr(p, "Sentence ")); p++)
        if (CHECK(sscanf(p, "Sentence %d of document %d", &ret[found].n, &ret[found].doc) == 2)) found++;
    free(bytes);
    return found;
}

static void items_are_true(void) {
    bench b;
    eval_task *t = NULL;
    enum { ITEMS = 50 };
    if (bench_open(&b, 20, 40)) {
        const eval_task_params p = cloze(&b, ITEMS);
        size_t golds[4] = {0};
        bool used[20][40] = {{false}};
        if (CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err)) {
            CHECK(eval_task_items(t) == ITEMS && eval_task_requests(t) == 4 * ITEMS);
            for (size_t i = 0; i < ITEMS; i++) {
                number context[4], choice[4][2];
                const size_t first = t->item[i].request;
                const uint32_t gold = t->item[i].gold;
                if (!CHECK(t->item[i].n_choices == 4 && gold < 4)) break;
                golds[gold]++;
                CHECK(numbers(&b, t, first, false, context) == 3);
                for (size_t c = 0; c < 4; c++) {
                    CHECK(numbers(&b, t, first + c, true, choice[c]) == 1);
                    for (size_t e = 0; e < c; e++)
                        CHECK(choice[e]->n != choice[c]->n || choice[e]->doc != choice[c]->doc);
                    const bool same_doc = choice[c]->doc == context[0].doc;
                    // True where gold says so; elsewhere from another document or far away.
                    if (c == gold)
                        CHECK(same_doc && choice[c]->n == context[2].n + 1);
                    else
                        CHECK(!same_doc || abs(choice[c]->n - context[1].n) > 8);
                }
                for (int k = 0; k < 3; k++)
                    CHECK(context[k].doc == context[0].doc && context[k].n == context[0].n + k);
                // No sentence is in two items.
                for (int k = 0; k < 4; k++) {
                    CHECK(!used[context[0].doc][context[0].n + k]);
                    used[context[0].doc][context[0].n + k] = true;
                }
            }
            for (size_t c = 0; c < 4; c++) CHECK(golds[c] > 3 && golds[c] < 25);
        }
    }
    eval_task_close(&t);
    bench_close(&b);
}

static void seeds_and_sizes(void) {
    bench b;
    eval_task *t = NULL, *u = NULL;
    if (bench_open(&b, 20, 40)) {
        eval_task_params p = cloze(&b, 30);
        CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err);
        CHECK_OK(eval_task_open(&p, b.tok, &u, &b.err), b.err);
        CHECK_STR(eval_task_digest(t), eval_task_digest(u));
        eval_task_close(&u);
        p.seed++;
        CHECK_OK(eval_task_open(&p, b.tok, &u, &b.err), b.err);
        CHECK(strcmp(eval_task_digest(t), eval_task_digest(u)) != 0);
        eval_task_close(&u);
        p.seed--;
        // Fewer items are the first of more items.
        p.items = 10;
        CHECK_OK(eval_task_open(&p, b.tok, &u, &b.err), b.err);
        CHECK(u->tokens.n < t->tokens.n &&
              memcmp(u->tokens.id, t->tokens.id, u->tokens.n * sizeof(uint32_t)) == 0);
        eval_task_close(&u);
        p.sentences = 5, p.choices = 16;
        CHECK_OK(eval_task_open(&p, b.tok, &u, &b.err), b.err);
        number n[5];
        CHECK(eval_task_requests(u) == 160 && numbers(&b, u, 0, false, n) == 5);
    }
    eval_task_close(&t);
    eval_task_close(&u);
    bench_close(&b);
}

static void too_little(void) {
    bench b;
    eval_task *t = NULL;
    if (bench_open(&b, 10, 7)) { // 5 documents held out, one item each
        eval_task_params p = cloze(&b, 0);
        CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
        CHECK_HAS(b.err.text, "give 5 items of 3 + 1 sentences, 200 were asked");
        p.items = 5;
        CHECK_OK(eval_task_open(&p, b.tok, &t, &b.err), b.err);
        eval_task_close(&t);
        p.sentences = 7;
        CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
        CHECK_HAS(b.err.text, "give 0 items");
        p = cloze(&b, 5);
        p.choices = 1;
        CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
        p.choices = 17;
        CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
        CHECK_HAS(b.err.text, "choices: 17");
        p = cloze(&b, 5);
        p.sentences = 65;
        CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
        p = cloze(&b, 5);
        p.corpus = NULL;
        CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
    }
    CHECK(t == NULL);
    bench_close(&b);
}

// The same four sentences over and over give nothing to draw from.
static void all_alike(void) {
    bench b = {.dir = scratch_open()};
    eval_task *t = NULL;
    str s = {0};
    for (int i = 0; i < 20; i++) {
        str_addf(&s, "@ %d! ", i);
        for (int k = 0; k < 8; k++) str_addf(&s, "Here comes sentence %d once again. ", k % 4);
    }
    if (CHECK_OK(tokenizer_open("bytes", &b.tok, &b.err), b.err))
        b.corpus = fake_corpus(&b.dir, b.tok, s.text, s.len, 0.5);
    const eval_task_params p = cloze(&b, 4);
    CHECK(eval_task_open(&p, b.tok, &t, &b.err) == COLM_E_INPUT);
    CHECK_HAS(b.err.text, "too few different sentences");
    str_done(&s);
    bench_close(&b);
}

static void no_memory(void) {
    bench b;
    if (bench_open(&b, 10, 20)) {
        const eval_task_params p = cloze(&b, 5);
        colm_status s = COLM_E_MEMORY;
        long n = 0;
        for (; n < 1000 && s == COLM_E_MEMORY; n++) {
            eval_task *t = NULL;
            mem_fail_after(n);
            s = eval_task_open(&p, b.tok, &t, &b.err);
            mem_fail_after(-1);
            CHECK((s == COLM_OK) == (t != NULL));
            eval_task_close(&t);
        }
        CHECK(s == COLM_OK && n > 10);
    }
    bench_close(&b);
}

int main(void) {
    TEST(sentences_of_documents);
    TEST(limits_of_sentences);
    TEST(items_are_true);
    TEST(seeds_and_sizes);
    TEST(too_little);
    TEST(all_alike);
    TEST(no_memory);
    return test_end();
}
