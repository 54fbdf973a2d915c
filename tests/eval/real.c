// Public zero-shot sets, where they are at hand: COLM_TEST_DATA, or shared/data beside the sources.
#include "tests/eval/fake.h"

static const struct {
    const char *file;
    size_t items, requests;
} sets[] = {
    {"hellaswag_val", 10042, 40168}, {"piqa_val", 1838, 3676},           {"arc_easy_test", 2376, 9504},
    {"copa_val", 100, 200},          {"winogrande_val", 1267, 2534},     {"wsc273", 273, 546},
    {"boolq_val", 3270, 6540},       {"commonsense_qa_val", 1221, 6105},
};

static void public_sets(void) {
    const char *given = getenv("COLM_TEST_DATA"), *root = given ? given : SOURCE_ROOT "/../shared/data";
    arena names = {0};
    tokenizer *tok = NULL;
    colm_err err;
    size_t found = 0;
    if (!CHECK_OK(tokenizer_open("bytes", &tok, &err), err)) return;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        eval_task *t = NULL;
        eval_outcome *o = NULL;
        fake f;
        const char *path = arena_printf(&names, "%s/zeroshot/%s.jsonl", root, sets[i].file);
        if (!file_exists(path)) continue;
        found++;
        const eval_task_params p = {.name = sets[i].file, .kind = EVAL_CHOICE, .file = path};
        fake_init(&f, 1, 128);
        f.uniform = true;
        if (!CHECK_OK(eval_task_open(&p, tok, &t, &err), err)) continue;
        CHECK(eval_task_items(t) == sets[i].items);
        if (!CHECK(eval_task_requests(t) == sets[i].requests))
            printf("# %s: %zu\n", path, eval_task_requests(t));
        CHECK_OK(eval_task_run(t, &f.model, NULL, NULL, &o, &err), err);
        CHECK(!f.malformed && f.longest <= 128);
        if (o) {
            CHECK(o->score[0].n + o->score[0].n_skipped == sets[i].items);
            CHECK(o->score[0].value > 0.1 && o->score[0].value < 0.7);
        }
        eval_outcome_free(&o);
        eval_task_close(&t);
    }
    tokenizer_close(&tok);
    arena_done(&names);
    if (!found) test_skip("no public sets: set COLM_TEST_DATA to a folder that holds zeroshot/*.jsonl");
}

int main(void) {
    TEST(public_sets);
    return test_end();
}
