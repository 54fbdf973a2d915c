/* The comparison against numbers worked out by hand. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "tests/test.h"

#include <ftw.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/lab/store.h"

static char folder[] = "compare-test-XXXXXX";
static char path[256];
static const char *root = ".";
static colm_err err;

enum { ITEMS = 4, DOCS = 3 };
static const uint64_t bytes[DOCS] = {10, 20, 30};

// What one scale of a model answers: items right (as digits), and log-probabilities of the documents.
typedef struct {
    const char *right;
    double doc[DOCS];
} answers;

static store *open_new(void) {
    static int n;
    store *s = NULL;
    snprintf(path, sizeof path, "%s/%d.db", folder, n++);
    CHECK_OK(store_open(path, true, &s, &err), err);
    return s;
}

static store_id begin_in(store *s, const char *experiment, const char *arm, uint64_t seed, store_id parent,
                         const char *precision) {
    store_id e = 0, r = 0;
    CHECK_OK(store_experiment(s, experiment, "quick.json", "d", "{}", &e, &err), err);
    store_run_row row = {e, arm, seed, parent, "0.1.0", "device 1", "n1", "{}", precision};
    CHECK_OK(store_run_begin(s, &row, &r, &err), err);
    return r;
}

static store_id begin(store *s, const char *experiment, const char *arm, uint64_t seed, store_id parent) {
    return begin_in(s, experiment, arm, seed, parent, NULL);
}

static void stage(store *s, store_id run, uint32_t place, const char *kind, uint64_t trained, uint64_t tokens,
                  const char *certificate) {
    store_id g = 0;
    char digest[16];
    snprintf(digest, sizeof digest, "s%u", place);
    store_stage_row row = {run, place, kind, digest, "{}", "<4,2>", 1500000, trained};
    CHECK_OK(store_stage_begin(s, &row, &g, &err), err);
    store_stage_result r = {tokens, 1e6 * (double)tokens, (double)tokens / 100, 0, "x", "c", certificate};
    CHECK_OK(store_stage_end(s, g, &r, &err), err);
}

static void score_cloze(store *s, store_id g, const answers *a, uint32_t n_scales, const char *digest) {
    eval_score score[2];
    eval_answer answer[2 * ITEMS];
    double sum[2 * ITEMS][2];
    for (uint32_t k = 0; k < n_scales; k++) {
        double n = 0;
        for (uint32_t i = 0; i < ITEMS; i++) {
            bool right = a[k].right[i] == '1';
            double *x = sum[k * ITEMS + i];
            n += right;
            x[0] = -1 - i - a[k].doc[0] / 7;
            x[1] = right ? x[0] - 1 : x[0] + 1;
            answer[k * ITEMS + i] = (eval_answer){i, 2, !right, !right, 0, right, right, x, 0};
        }
        double p = n / ITEMS;
        score[k] = (eval_score){"acc", true, p, sqrt(p * (1 - p) / (ITEMS - 1)), ITEMS, 0, 0};
    }
    eval_outcome o = {n_scales, 1, ITEMS, score, answer};
    store_task_row t = {"cloze_a", "cloze", digest, "dd", "kd", "cd", 1};
    CHECK_OK(store_scores(s, g, &t, &o, &err), err);
}

static void score_bits(store *s, store_id g, const answers *a, uint32_t n_scales) {
    eval_score score[2];
    eval_answer answer[2 * DOCS];
    for (uint32_t k = 0; k < n_scales; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < DOCS; i++) {
            sum += a[k].doc[i];
            answer[k * DOCS + i] = (eval_answer){i, 1, 0, 0, 0, false, false, &a[k].doc[i], bytes[i]};
        }
        score[k] = (eval_score){"bits_per_byte", false, -sum / 60 / log(2), 0.1, DOCS, 0, 0};
    }
    eval_outcome o = {n_scales, 1, DOCS, score, answer};
    store_task_row t = {"bits_a", "bits_per_byte", "td2", "dd", "kd", "cd", 1};
    CHECK_OK(store_scores(s, g, &t, &o, &err), err);
}

static void evaluate(store *s, store_id run, uint32_t place, const answers *a, uint32_t n_scales,
                     const char *digest) {
    store_id g = 0;
    store_stage_row row = {run, place, "eval", "e", "{}", n_scales == 2 ? "<4,2>" : "<4>", 1500000, 0};
    CHECK_OK(store_stage_begin(s, &row, &g, &err), err);
    score_cloze(s, g, a, n_scales, digest);
    score_bits(s, g, a, n_scales);
    store_stage_result r = {77, 1e3, 2.5, 0, NULL, NULL, NULL};
    CHECK_OK(store_stage_end(s, g, &r, &err), err);
}

#define CERTIFICATE(equal)                                                                                   \
    "{\"frozen\":1,\"tensors\":13,\"tensors_equal\":true,\"scales\":[{\"scale\":1,\"logits_before\":\"aa\"," \
    "\"logits_after\":\"aa\",\"equal\":" equal "}],\"numerics\":\"n1\"}"

static const answers of_base = {"1110", {-10, -20, -36}}, of_fine = {"0100", {-14, -28, -42}},
                     of_grown = {"1111", {-9, -22, -33}};

// The quickstart in small: base, expand with a frozen chain, finetune, scratch.
static store *quick(const char *second_certificate) {
    store *s = open_new();
    const answers expand[2] = {of_base, of_grown},
                  scratch[2] = {{"1000", {-30, -30, -30}}, {"1110", {-9, -20, -33}}};
    const answers before = {"0000", {-90, -90, -90}}; // an earlier evaluation, not the last one
    store_id base = begin(s, "quick", "base", 1, 0);
    evaluate(s, base, 0, &before, 1, "td");
    stage(s, base, 1, "train", 1000000, 50000, NULL);
    evaluate(s, base, 2, &of_base, 1, "td");
    CHECK_OK(store_run_end(s, base, "finished", NULL, &err), err);
    store_id run = begin(s, "quick", "expand", 1, base);
    stage(s, run, 0, "grow", 0, 0, CERTIFICATE("true"));
    stage(s, run, 1, "train", 500000, 40000, second_certificate);
    evaluate(s, run, 2, expand, 2, "td");
    CHECK_OK(store_run_end(s, run, "finished", NULL, &err), err);
    run = begin(s, "quick", "finetune", 1, base);
    stage(s, run, 0, "train", 1000000, 40000, NULL);
    evaluate(s, run, 1, &of_fine, 1, "td");
    CHECK_OK(store_run_end(s, run, "finished", NULL, &err), err);
    run = begin(s, "quick", "scratch", 1, 0);
    stage(s, run, 0, "train", 1500000, 90000, NULL);
    evaluate(s, run, 1, scratch, 2, "td");
    CHECK_OK(store_run_end(s, run, "finished", NULL, &err), err);
    return s;
}

static json_doc *compare(store *s, const char *const *which, size_t n) {
    str out = {0};
    json_doc *doc = NULL;
    CHECK_OK(store_print_compare(s, which, n, STORE_JSON, &out, &err), err);
    CHECK_OK(json_open_text("compare", out.text ? out.text : "", out.len, &doc, &err), err);
    str_done(&out);
    return doc;
}

static json_value arm_of(json_doc *doc, const char *name) {
    json_value arms = json_get(json_root(doc), "arms");
    for (size_t i = 0; i < json_count(arms); i++) {
        const char *text = "";
        if (!json_read_string(json_get(json_item(arms, i), "arm"), &text, NULL) && !strcmp(text, name)) {
            return json_item(arms, i);
        }
    }
    printf("# no arm %s\n", name);
    return (json_value){0};
}

static double number(json_value v) {
    double x = NAN;
    if (json_read_double(v, -HUGE_VAL, HUGE_VAL, &x, NULL)) return NAN;
    return x;
}
static double member(json_value v, const char *key) {
    return number(json_get(v, key));
}
static bool truth(json_value v, const char *key) {
    bool b = false;
    CHECK_OK(json_read_bool(json_get(v, key), &b, &err), err);
    return b;
}

// The element of a list with this task and scale.
static json_value entry(json_value list, const char *task, double scale) {
    for (size_t i = 0; i < json_count(list); i++) {
        const char *text = "";
        json_value v = json_item(list, i);
        if (!json_read_string(json_get(v, "task"), &text, NULL) && !strcmp(text, task) &&
            member(v, "scale") == scale) {
            return v;
        }
    }
    printf("# no %s at scale %g\n", task, scale);
    return (json_value){0};
}

static void forgetting_by_hand(void) {
    store *s = quick(CERTIFICATE("true"));
    const char *which[] = {"quick"};
    json_doc *doc = compare(s, which, 1);

    // finetune: acc .75 -> .25; differences 1 0 1 0: deviation sqrt(1/3), over sqrt(4).
    json_value list = json_get(arm_of(doc, "finetune"), "forgetting"), x = entry(list, "cloze_a", 1);
    json_value d = json_get(x, "first_minus_last");
    CHECK(json_count(list) == 2);
    CHECK_NEAR(member(x, "before"), 0.75, 0);
    CHECK_NEAR(member(x, "after"), 0.25, 0);
    CHECK_NEAR(member(d, "value"), 0.5, 1e-15);
    CHECK_NEAR(member(d, "stderr"), sqrt(1. / 3) / 2, 1e-15);
    CHECK(truth(d, "paired") && truth(d, "within_noise"));
    // bits: worse by 18 nats on 60 bytes; 4 8 6 against .3 a byte leaves 1 2 -3.
    d = json_get(entry(list, "bits_a", 1), "first_minus_last");
    CHECK_NEAR(member(d, "value"), 0.3 / log(2), 1e-14);
    CHECK_NEAR(member(d, "stderr"), sqrt(1.5 * 14) / 60 / log(2), 1e-14);
    CHECK(truth(d, "paired") && !truth(d, "within_noise"));

    // expand: scale 1 is kept, scale 2 against the parent's full scale.
    list = json_get(arm_of(doc, "expand"), "forgetting");
    CHECK(json_count(list) == 4);
    d = json_get(entry(list, "cloze_a", 1), "first_minus_last");
    CHECK(member(d, "value") == 0 && member(d, "stderr") == 0 && !truth(d, "within_noise"));
    x = entry(list, "cloze_a", 2);
    d = json_get(x, "first_minus_last");
    CHECK(member(x, "parent_scale") == 1);
    CHECK_NEAR(member(d, "value"), -0.25, 1e-15);
    CHECK_NEAR(member(d, "stderr"), 0.25, 1e-15);
    d = json_get(entry(list, "bits_a", 2), "first_minus_last");
    CHECK_NEAR(member(d, "value"), -2. / 60 / log(2), 1e-14);
    CHECK_NEAR(member(d, "stderr"), sqrt(1.5 * 104 / 9) / 60 / log(2), 1e-14);
    CHECK(json_count(json_get(arm_of(doc, "scratch"), "forgetting")) == 0);
    json_close(&doc);
    store_close(&s);
}

static void retention(void) {
    store *s = quick(CERTIFICATE("true"));
    const char *which[] = {"quick"};
    json_doc *doc = compare(s, which, 1);
    json_value x = json_item(json_get(arm_of(doc, "expand"), "retention"), 0);
    CHECK(truth(x, "bit_identical") && truth(x, "certified"));
    CHECK(member(x, "scale") == 1 && member(x, "answers") == ITEMS + DOCS &&
          member(x, "equal") == ITEMS + DOCS);
    x = json_item(json_get(arm_of(doc, "finetune"), "retention"), 0);
    CHECK(!truth(x, "bit_identical") && !truth(x, "certified"));
    CHECK(member(x, "answers") == ITEMS + DOCS && member(x, "equal") == 0);
    CHECK(json_count(json_get(arm_of(doc, "base"), "retention")) == 0);
    json_close(&doc);
    store_close(&s);
    // One stage without a certificate, or with one that failed, and nothing is certified.
    for (int i = 0; i < 2; i++) {
        s = quick(i ? NULL : CERTIFICATE("false"));
        doc = compare(s, which, 1);
        x = json_item(json_get(arm_of(doc, "expand"), "retention"), 0);
        CHECK(truth(x, "bit_identical") && !truth(x, "certified"));
        json_close(&doc);
        store_close(&s);
    }
}

static void costs_and_marks(void) {
    store *s = quick(CERTIFICATE("true"));
    const char *which[] = {"quick"};
    json_doc *doc = compare(s, which, 1);
    json_value run = json_item(json_get(arm_of(doc, "expand"), "runs"), 0);
    json_value own = json_get(run, "training"), whole = json_get(run, "training_with_ancestors");
    CHECK(member(own, "tokens") == 40000 && member(whole, "tokens") == 90000);
    CHECK(member(own, "flops") == 4e10 && member(whole, "flops") == 9e10);
    CHECK(member(own, "seconds") == 400 && member(whole, "seconds") == 900);
    CHECK(member(run, "params_trained") == 500000 && member(run, "params_total") == 1500000);
    CHECK(member(run, "eval_seconds") == 2.5);
    run = json_item(json_get(arm_of(doc, "scratch"), "runs"), 0);
    CHECK(member(json_get(run, "training_with_ancestors"), "tokens") == 90000);

    json_value x = entry(json_get(arm_of(doc, "expand"), "main"), "cloze_a", 2);
    CHECK(truth(x, "best") && member(x, "value") == 1 && member(x, "seeds") == 1);
    x = entry(json_get(arm_of(doc, "base"), "main"), "cloze_a", 1);
    json_value d = json_get(x, "best_minus_this");
    CHECK(!truth(x, "best") && truth(d, "within_noise") && truth(d, "paired"));
    CHECK_NEAR(member(d, "value"), 0.25, 0);
    CHECK_NEAR(member(x, "stderr"), 0.25, 1e-15); // of .75 over 4
    d = json_get(entry(json_get(arm_of(doc, "finetune"), "main"), "cloze_a", 1), "best_minus_this");
    CHECK_NEAR(member(d, "value"), 0.75, 1e-15); // 1 0 1 1: deviation .5, over 2
    CHECK_NEAR(member(d, "stderr"), 0.25, 1e-15);
    CHECK(!truth(d, "within_noise"));
    // Lower is better: scratch's 62 nats beat expand's 64.
    x = entry(json_get(arm_of(doc, "scratch"), "main"), "bits_a", 2);
    CHECK(truth(x, "best"));
    CHECK_NEAR(member(x, "value"), 62. / 60 / log(2), 1e-15);
    json_close(&doc);
    store_close(&s);
}

static void over_seeds(void) {
    store *s = open_new();
    const answers a[2] = {{"1110", {-1, -1, -1}}, {"1000", {-1, -1, -1}}},
                  b[2] = {{"0100", {-2, -2, -2}}, {"0000", {-2, -2, -2}}};
    for (uint64_t seed = 0; seed < 2; seed++) {
        store_id run = begin(s, "seeds", "a", seed, 0);
        evaluate(s, run, 0, &a[seed], 1, "td");
        CHECK_OK(store_run_end(s, run, "finished", NULL, &err), err);
        run = begin(s, "seeds", "b", seed, 0);
        evaluate(s, run, 0, &b[seed], 1, "td");
        CHECK_OK(store_run_end(s, run, seed ? "failed" : "finished", seed ? "too hot" : NULL, &err), err);
    }
    const char *which[] = {"seeds"};
    json_doc *doc = compare(s, which, 1);
    json_value x = entry(json_get(arm_of(doc, "a"), "main"), "cloze_a", 1);
    CHECK(truth(x, "best") && member(x, "seeds") == 2);
    CHECK_NEAR(member(x, "value"), 0.5, 0);
    CHECK_NEAR(member(x, "stderr"), 0.25, 1e-15);
    CHECK_NEAR(member(x, "spread"), sqrt(0.125), 1e-15);
    // Items 1 0 .5 0 over the seeds' means: variance .6875/3, over 4; seeds .5 .25: variance .03125, over 2.
    json_value d = json_get(entry(json_get(arm_of(doc, "b"), "main"), "cloze_a", 1), "best_minus_this");
    CHECK_NEAR(member(d, "value"), 0.375, 1e-15);
    CHECK_NEAR(member(d, "stderr"), sqrt(0.6875 / 12 + 0.015625), 1e-15);
    CHECK(truth(d, "within_noise"));
    const char *notice = "";
    CHECK_OK(json_read_string(json_item(json_get(json_root(doc), "notices"), 0), &notice, &err), err);
    CHECK_HAS(notice, "b, seed 1 is failed: too hot");
    json_close(&doc);
    store_close(&s);
}

static void other_items_are_not_compared(void) {
    store *s = open_new();
    store_id base = begin(s, "x", "base", 1, 0);
    evaluate(s, base, 0, &of_base, 1, "td");
    store_id run = begin(s, "x", "fine", 1, base);
    evaluate(s, run, 0, &of_fine, 1, "other");
    const char *which[] = {"x"};
    json_doc *doc = compare(s, which, 1);
    json_value x = entry(json_get(arm_of(doc, "base"), "main"), "cloze_a", 1);
    CHECK(!truth(x, "best"));
    CHECK(json_kind_of(json_get(json_get(x, "best_minus_this"), "value")) == JSON_NULL);
    CHECK(json_count(json_get(arm_of(doc, "fine"), "forgetting")) == 1); // bits_a alone
    CHECK(member(json_item(json_get(arm_of(doc, "fine"), "retention"), 0), "answers") == DOCS);
    json_close(&doc);
    store_close(&s);
}

/* Arms in other precisions say so, and one that differs from its parent is pointed out. */
static void precisions_are_told(void) {
    store *s = open_new();
    str out = {0};
    store_id base = begin_in(s, "x", "base", 1, 0, "bf16");
    evaluate(s, base, 0, &of_base, 1, "td");
    evaluate(s, begin_in(s, "x", "same", 1, base, "bf16"), 0, &of_fine, 1, "td");
    evaluate(s, begin_in(s, "x", "fine", 1, base, NULL), 0, &of_fine, 1, "td");
    const char *which[] = {"x"};
    CHECK_OK(store_print_compare(s, which, 1, STORE_TABLE, &out, &err), err);
    CHECK_HAS(out.text, "note: fine, seed 1 was made in f32, its parent in bf16: ");
    CHECK(!strstr(out.text, "same, seed 1 was made in"));
    CHECK_HAS(out.text, "base  <4> bf16  ");
    CHECK_HAS(out.text, "fine  <4>       ");
    str_done(&out);
    CHECK_OK(store_print_compare(s, which, 1, STORE_JSON, &out, &err), err);
    CHECK_HAS(out.text, "\"precision\":\"bf16\"");
    CHECK_HAS(out.text, "\"precision\":\"f32\"");
    str_done(&out);
    store_close(&s);
}

static void table_and_csv(void) {
    store *s = quick(CERTIFICATE("true"));
    const char *which[] = {"quick"}, *two[] = {"quick/expand", "2"}, *gone[] = {"qiuck"};
    str out = {0};
    CHECK_OK(store_print_compare(s, which, 1, STORE_TABLE, &out, &err), err);
    for (char *p = out.text, *end; p && (end = strchr(p, '\n')); p = end + 1) {
        printf("# %.*s\n", (int)(end - p), p);
        CHECK(end - p <= 110);
    }
    CHECK_HAS(out.text, "quick: 4 arms, seed 1\n");
    CHECK_HAS(out.text, "higher is better");
    CHECK_HAS(out.text, "expand    1 of 2  0.75 +- 0.25 ~");
    CHECK_HAS(out.text, "2 of 2  1.00 +- 0.00 *");
    CHECK_HAS(out.text,
              "expand    base        1  7 of 7   bit for bit; certified: logits and 13 frozen tensors\n");
    CHECK_HAS(out.text, "finetune  base        1  0 of 7   no\n");
    CHECK_HAS(out.text, "+0.50 +- 0.29 ~\n");
    str_done(&out);
    CHECK_OK(store_print_compare(s, which, 1, STORE_CSV, &out, &err), err);
    size_t lines = 0;
    for (const char *p = out.text; (p = strchr(p, '\n')); p++) lines++;
    CHECK(lines == 1 + 2 * (1 + 2 + 1 + 2));
    CHECK_HAS(
        out.text,
        "\r\nquick,expand,base,1,2,finished,\"<4,2>\",2,cloze_a,acc,1,1,0,4,0,0,1500000,500000,40000,90000,"
        "40000000000,90000000000,400,900,f32\r\n");
    str_done(&out);
    CHECK_OK(store_print_compare(s, two, 2, STORE_CSV, &out, &err), err); // one run, named twice
    lines = 0;
    for (const char *p = out.text; (p = strchr(p, '\n')); p++) lines++;
    CHECK(lines == 5);
    CHECK(store_print_compare(s, gone, 1, STORE_CSV, &out, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "did you mean quick");
    str_done(&out);
    store_close(&s);
}

static void many_tasks_stay_narrow(void) {
    store *s = open_new();
    store_id run = begin(s, "wide", "an_arm_with_a_name", 1, 0), g = 0;
    store_stage_row row = {run, 0, "eval", "e", "{}", "<4>", 10, 0};
    CHECK_OK(store_stage_begin(s, &row, &g, &err), err);
    for (int i = 0; i < 20; i++) {
        char name[64];
        snprintf(name, sizeof name, "a_task_of_some_length_%d", i);
        eval_score score = {"acc", true, 0.5, 0.01, 1000, 0, 0};
        eval_outcome o = {1, 1, 0, &score, NULL};
        store_task_row t = {name, "choice", "td", NULL, "kd", "cd", 1};
        CHECK_OK(store_scores(s, g, &t, &o, &err), err);
    }
    store_stage_result r = {0};
    CHECK_OK(store_stage_end(s, g, &r, &err), err);
    const char *which[] = {"wide"};
    str out = {0};
    CHECK_OK(store_print_compare(s, which, 1, STORE_TABLE, &out, &err), err);
    for (char *p = out.text, *end; p && (end = strchr(p, '\n')); p = end + 1) {
        if (!CHECK(end - p <= 110)) printf("# %.*s\n", (int)(end - p), p);
    }
    CHECK_HAS(out.text, "a_task_of_some_length_19");
    CHECK_HAS(out.text, "note: an_arm_with_a_name, seed 1 is running");
    str_done(&out);
    store_close(&s);
}

// Whatever allocation fails: an error, no crash, and never a shorter answer.
static void lack_of_memory(void) {
    store *s = quick(CERTIFICATE("true"));
    const char *which[] = {"quick"};
    str out = {0};
    for (store_format f = STORE_TABLE; f <= STORE_CSV; f++) {
        size_t full = 0;
        CHECK_OK(store_print_compare(s, which, 1, f, &out, &err), err);
        full = out.len;
        str_done(&out);
        for (long left = 0, failures = 0;; left += 1 + left / 16, failures++) {
            mem_fail_after(left);
            colm_status c = store_print_compare(s, which, 1, f, &out, &err);
            mem_fail_after(-1);
            if (c == COLM_OK) {
                CHECK(out.len == full && failures > 20);
                str_done(&out);
                break;
            }
            if (!CHECK(c == COLM_E_MEMORY)) printf("# after %ld: %s\n", left, err.text);
            str_done(&out);
        }
    }
    store_close(&s);
}

// The examples of results/README.md run, and give rows.
static void documented_queries(void) {
    char *text = NULL;
    size_t n, count = 0;
    char file[4096];
    str out = {0};
    snprintf(file, sizeof file, "%s/results/README.md", root);
    if (!CHECK_OK(file_read(file, 0, &text, &n, &err), err)) return;
    store *s = quick(NULL);
    for (char *p = text; (p = strstr(p, "```sql\n")); count++) {
        char *end = strstr(p += 7, "```");
        if (!CHECK(end != NULL)) break;
        *end = 0;
        str_done(&out);
        CHECK_OK(store_print_query(s, p, STORE_CSV, &out, &err), err);
        if (count == 0) {
            CHECK_HAS(out.text, "finetune,cloze_a,1,0.75,0.25,0.5\r\n");
            CHECK_HAS(out.text, "finetune,bits_a,1,1.58");
        }
        if (count == 1) CHECK_HAS(out.text, "quick,expand,1,90000,90000000000,900\r\n");
        p = end + 1;
    }
    CHECK(count == 5);
    free(text);
    str_done(&out);
    store_close(&s);
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(name);
}

static void says_what_its_scores_are_of(void) {
    store *s = open_new();
    store_id run = begin(s, "late", "a", 1, 0), g = 0;
    evaluate(s, run, 0, &of_base, 1, "td");
    store_stage_row row = {.run = run, .index = 1, .kind = "train", .digest = "t", .device = "device 2"};
    CHECK_OK(store_stage_begin(s, &row, &g, &err), err);
    store_stage_result r = {100, 1e6, 1, 0, NULL, NULL, NULL};
    CHECK_OK(store_stage_end(s, g, &r, &err), err);
    CHECK_OK(store_run_end(s, run, "finished", NULL, &err), err);
    const char *which[] = {"late"};
    str out = {0};
    CHECK_OK(store_print_compare(s, which, 1, STORE_TABLE, &out, &err), err);
    CHECK_HAS(out.text, "different devices");
    CHECK_HAS(out.text, "a, seed 1 was changed after its last evaluation");
    str_done(&out);
    run = begin(s, "late", "a", 1, 0);
    evaluate(s, run, 2, &of_base, 1, "td");
    CHECK_OK(store_run_end(s, run, "finished", NULL, &err), err);
    // An edited file that has no run yet hides nothing.
    store_id e = 0;
    CHECK_OK(store_experiment(s, "late", "quick.json", "edited", "{}", &e, &err), err);
    CHECK_OK(store_print_compare(s, which, 1, STORE_TABLE, &out, &err), err);
    CHECK(!strstr(out.text, "after its last evaluation"));
    str_done(&out);
    store_close(&s);
}

int main(int argc, char **argv) {
    if (argc > 1) root = argv[1];
    if (!mkdtemp(folder)) return 1;
    TEST(says_what_its_scores_are_of);
    TEST(forgetting_by_hand);
    TEST(retention);
    TEST(costs_and_marks);
    TEST(over_seeds);
    TEST(other_items_are_not_compared);
    TEST(precisions_are_told);
    TEST(table_and_csv);
    TEST(many_tasks_stay_narrow);
    TEST(lack_of_memory);
    TEST(documented_queries);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return test_end();
}
