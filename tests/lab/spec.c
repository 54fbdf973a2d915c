/* Experiment files: what a good one becomes. */
#include "tests/lab/spec_text.h"

static void titles_and_seeds(void) {
    spec *s = read(good);
    if (!s) return;
    CHECK_STR(s->name, "small");
    CHECK_STR(s->about, "");
    CHECK_STR(s->path, "dir/small.json");
    CHECK_STR(s->text, good);
    CHECK_STR(s->tokenizer, "bytes");
    CHECK(strlen(s->digest) == 32);
    CHECK(s->n_seeds == 2 && s->seed[0] == 1 && s->seed[1] == INT64_MAX);
    spec_free(&s);
    CHECK(!s);
    spec_free(&s);
    s = read_edited("\"seeds\": [1, 9223372036854775807],", "\"seed\": 77,");
    CHECK(s && s->n_seeds == 1 && s->seed[0] == 77);
    spec_free(&s);
    s = read_edited("\"seeds\": [1, 9223372036854775807],", "\"about\": \"why\",");
    CHECK(s && s->n_seeds == 1 && s->seed[0] == 1);
    if (s) CHECK_STR(s->about, "why");
    spec_free(&s);
}

static void data_sets(void) {
    spec *s = read(good);
    if (!s || !CHECK(s->n_data == 2)) return;
    const corpus_params *a = &s->data[0].corpus, *b = &s->data[1].corpus;
    CHECK_STR(a->name, "bible");
    CHECK_STR(a->base_dir, "dir");
    CHECK(a->n_text == 1 && !a->split_on && a->heldout == 0.1 && a->seed == 0 && a->max_bytes == 0);
    CHECK_STR(a->text[0], "data/bible");
    CHECK_STR(b->name, "perl");
    CHECK_STR(b->text[0], "data/perl");
    CHECK_STR(b->split_on, "^=head1");
    CHECK(b->n_text == 1 && b->heldout == 0.1 && b->seed == 3 && b->max_bytes == 5000);
    spec_free(&s);
}

static void the_folder_of_the_file(void) {
    static const char *const row[][3] = {{"a/b/c.json", "a/b", "a/b/quiz.jsonl"},
                                         {"c.json", ".", "./quiz.jsonl"},
                                         {"/c.json", "/", "//quiz.jsonl"}};
    spec *s = NULL;
    for (size_t i = 0; i < 3; i++) {
        if (!CHECK_OK(spec_parse(row[i][0], good, strlen(good), &s, &err), err)) return;
        CHECK_STR(s->data[0].corpus.base_dir, row[i][1]);
        CHECK_STR(s->task[2].task.file, row[i][2]);
        spec_free(&s);
    }
    s = read_edited("\"quiz.jsonl\"", "\"/tmp/quiz.jsonl\"");
    if (s) CHECK_STR(s->task[2].task.file, "/tmp/quiz.jsonl");
    spec_free(&s);
}

static void tasks(void) {
    spec *s = read(good);
    if (!s || !CHECK(s->n_tasks == 3)) return;
    const eval_task_params *t = &s->task[0].task;
    CHECK_STR(t->name, "cloze");
    CHECK(t->kind == EVAL_CLOZE && s->task[0].data == 0 && !t->file && !t->corpus);
    CHECK(t->items == 200 && t->sentences == 3 && t->choices == 4 && t->seed == 0);
    t = &s->task[1].task;
    CHECK(t->kind == EVAL_BITS_PER_BYTE && s->task[1].data == 1 && t->max_bytes == 20000);
    t = &s->task[2].task;
    CHECK(t->kind == EVAL_CHOICE && s->task[2].data == -1 && t->items == 0);
    spec_free(&s);
}

static void arms_come_after_their_parents(void) {
    spec *s = read(good);
    if (!s || !CHECK(s->n_arms == 4)) return;
    const char *const order[] = {"base", "expand", "late", "scratch"};
    for (int i = 0; i < 4; i++) CHECK_STR(s->arm[i].name, order[i]);
    CHECK(s->arm[0].from == -1 && s->arm[1].from == 0 && s->arm[2].from == 1 && s->arm[3].from == -1);
    CHECK(s->arm[0].line == 21 && s->arm[1].line == 15);
    CHECK(spec_arm_index(s, "late") == 2 && spec_arm_index(s, "nobody") == -1);
    spec_free(&s);
}

static void a_train_stage_is_filled(void) {
    spec *s = read(good);
    const spec_arm *a = arm(s, "base");
    if (!a || !CHECK(a->n_stages == 2)) return;
    const spec_stage *st = &a->stage[0];
    const train_params *p = &st->train;
    CHECK(st->kind == SPEC_TRAIN && st->line == 21 && st->n_parts == 1 && st->part[0].data == 0);
    CHECK(st->part[0].weight == 1);
    CHECK(p->batch == 8 && p->context == 128 && p->tokens == 5000 && p->lr == 2e-3 && p->min_lr == 0.1);
    CHECK(p->warmup == 20 && p->beta1 == 0.9 && p->beta2 == 0.95 && p->eps == 1e-8 && p->decay == 0.1);
    CHECK(p->clip == 1 && p->log_every == 10 && p->frozen == 0);
    CHECK(a->stage[1].kind == SPEC_EVAL && a->stage[1].n_tasks == 3 && a->stage[1].task[2] == 2);
    spec_free(&s);
}

static void growth_and_freezing_carry_on(void) {
    spec *s = read(good);
    const spec_arm *a = arm(s, "expand"), *late = arm(s, "late");
    if (!a || !late || !CHECK(a->n_stages == 4)) return;
    const spec_stage *g = &a->stage[0];
    CHECK(a->start.n_chains == 1 && a->start.chain[0].width == 64 && a->start.head_dim == 16);
    CHECK(a->start.vocab == 257 && a->start.chain[0].kv_heads == 2);
    CHECK(g->kind == SPEC_GROW && g->line == 16 && g->frozen == 1 && g->model.n_chains == 2);
    CHECK(g->model.chain[1].width == 32 && g->model.chain[1].heads == 2 && g->model.chain[1].kv_heads == 1);
    CHECK(g->model.chain[1].ffn == 88);
    const spec_stage *t = &a->stage[1];
    CHECK(t->train.frozen == 1 && t->train.context == 64 && t->n_parts == 2);
    CHECK(t->part[0].data == 1 && t->part[0].weight == 3 && t->part[1].data == 0 && t->part[1].weight == 1);
    // "freeze" of a train stage is for itself alone.
    CHECK(a->stage[2].train.frozen == 0 && a->stage[2].frozen == 1 && a->stage[2].n_parts == 2);
    CHECK(a->stage[3].n_tasks == 1 && a->stage[3].task[0] == 1);
    CHECK(late->start.n_chains == 2 && late->stage[0].train.frozen == 1);
    spec_free(&s);
    s = read_edited("{\"add\": [2]}",
                    "{\"add\": [2, {\"width\": 8, \"heads\": 3, \"ffn\": 5}, 4], \"freeze\": 2}");
    a = arm(s, "expand");
    if (!a) return;
    g = &a->stage[0];
    CHECK(g->model.n_chains == 4 && g->frozen == 2);
    CHECK(g->model.chain[2].width == 8 && g->model.chain[2].kv_heads == 3);
    CHECK(g->model.chain[3].width == 64 && g->model.chain[3].kv_heads == 2); // by the model before
    spec_free(&s);
}

static void an_arm_overrides_the_model(void) {
    spec *s = read(good);
    const spec_arm *a = arm(s, "scratch"), *grown = arm(s, "expand");
    if (!a || !grown) return;
    CHECK(model_config_extends(&a->start, &grown->stage[0].model));
    CHECK(model_config_extends(&grown->stage[0].model, &a->start));
    spec_free(&s);
    s = read_edited(
        "\"chains\": [4, 2], \"width\": 96, \"ffn\": 264, \"kv_heads\": 3",
        "\"chains\": [{\"width\": 60, \"heads\": 4, \"ffn\": 7}], \"head_dim\": 6, \"context\": 200");
    a = arm(s, "scratch");
    if (a) {
        CHECK(a->start.n_chains == 1 && a->start.chain[0].width == 60 && a->start.chain[0].kv_heads == 4);
        CHECK(a->start.head_dim == 6 && a->start.context == 200 && a->start.layers == 4);
    }
    spec_free(&s);
    // kv_heads: as many as heads.
    s = read_edited("\"kv_heads\": 2,", "");
    a = arm(s, "base");
    if (a) CHECK(a->start.chain[0].kv_heads == 4);
    spec_free(&s);
}

/* ---- digests */

static void canonical_is_canonical(void) {
    spec *s = read(good);
    if (!s) return;
    for (uint32_t i = 0; i < s->n_arms; i++) {
        for (uint32_t k = 0; k < s->arm[i].n_stages; k++) {
            const char *text = s->arm[i].stage[k].canonical;
            json_doc *doc = NULL;
            char *again = NULL;
            if (!CHECK_OK(json_open_text("c", text, strlen(text), &doc, &err), err)) continue;
            CHECK_OK(json_canonical(json_root(doc), &again, &err), err);
            CHECK_STR(text, again);
            free(again);
            json_close(&doc);
        }
    }
    CHECK_STR(
        s->arm[0].stage[0].canonical,
        "{\"kind\":\"train\",\"model\":{\"activation\":\"swiglu\",\"attn_softcap\":0,\"bias_ffn\":false,\"bias_"
        "o\":false,\"bias_qkv\":"
        "false,"
        "\"chains\":[{\"attn_scale\":0,\"embed_scale\":0,\"ffn\":176,\"heads\":4,\"kv_heads\":2,\"tied\":false,"
        "\"width\":64}],\"context\":128,\"head\":\"nested\",\"head_dim\":16,\"kv\":\"own\","
        "\"layers\":4,\"logit_softcap\":0,\"norm\":\"rms\",\"norm_eps\":1e-05,\"position\":\"rope\","
        "\"post_norms\":false,\"qk_norm\":false,\"rope_factor\":0,\"rope_high\":0,\"rope_low\":0,"
        "\"rope_original\":0,\"rope_scaling\":\"plain\",\"rope_theta\":10000,\"vocab\":257,\"window\":0,"
        "\"window_every\":0},\"on\":[{\"data\":{\"heldout\":0.1,\"max_bytes\":0,\"seed\":0,\"split_on\":null,"
        "\"text\":[\"data/"
        "bible\"]},\"weight\":1}],\"tokenizer\":\"bytes\",\"train\":{\"accumulate\":1,\"batch\":8,"
        "\"beta1\":0.9,\"beta2\":0.95,\"clip\":1,\"context\":128,\"decay\":0.1,\"documents\":\"packed\","
        "\"eps\":1e-08,\"freeze\":0,\"loss\":{\"scale\":1,\"weights\":[1]},\"lr\":0.002,"
        "\"min_lr\":0.1,\"only\":\"all\",\"tokens\":5000,\"warmup\":20}}");
    spec_free(&s);
}

/* Which stages of `good` change when one place of the file does: a mask over base 0 1, expand 2 3 4 5, late 6,
 * scratch 7. */
static unsigned changed(const char *from, const char *to) {
    spec *a = read(good), *b = read_edited(from, to);
    unsigned mask = 0, bit = 1;
    const char *const order[] = {"base", "expand", "late", "scratch"};
    for (int i = 0; a && b && i < 4; i++) {
        const spec_arm *x = arm(a, order[i]), *y = arm(b, order[i]);
        for (uint32_t k = 0; x && y && k < x->n_stages; k++, bit <<= 1)
            if (strcmp(x->stage[k].canonical, y->stage[k].canonical) != 0) mask |= bit;
    }
    spec_free(&a);
    spec_free(&b);
    return mask;
}

static void only_what_decides_a_stage_changes_its_canonical_form(void) {
    enum {
        BASE = 1,
        BASE_EVAL = 2,
        GROW = 4,
        MIX = 8,
        PAIR = 16,
        BPB = 32,
        LATE = 64,
        SCRATCH = 128,
        ALL = 255
    };
    CHECK(changed("\"small\"", "\"other\"") == 0);
    CHECK(changed("  \"colm\"", "\n\n  \"about\": \"x\", \"colm\"") == 0);
    CHECK(changed("\"seeds\": [1, ", "\"seeds\": [5, ") == 0);
    CHECK(changed("\"lr\": 2e-3", "\"lr\": 0.002") == 0);               // the same number
    CHECK(changed("\"lr\": 2e-3", "\"lr\": 2e-3, \"clip\": 1.0") == 0); // the default, said
    CHECK(changed("\"lr\": 2e-3", "\"lr\": 3e-3") == (BASE | MIX | PAIR | LATE));
    CHECK(changed("\"tokens\": 6000", "\"tokens\": 6001") == MIX);
    CHECK(changed("\"perl\": 3", "\"perl\": 2") == MIX);
    CHECK(changed("\"freeze\": 0", "\"freeze\": 1") == PAIR);
    CHECK(changed("{\"add\": [2]}", "{\"add\": [2], \"freeze\": 0}") == (GROW | MIX | LATE));
    CHECK(changed("{\"add\": [2]}", "{\"add\": [4]}") == (GROW | MIX | PAIR | BPB | LATE));
    CHECK(changed("\"layers\": 4", "\"layers\": 3") == ALL);
    CHECK(changed("\"max_bytes\": 5000", "\"max_bytes\": 5001") == (BASE_EVAL | MIX | PAIR | BPB | SCRATCH));
    CHECK(changed("\"data/bible\"", "\"data/bibel\"") == (BASE | BASE_EVAL | MIX | PAIR | LATE | SCRATCH));
    CHECK(changed("{\"cloze\": \"bible\"}", "{\"cloze\": \"bible\", \"items\": 7}") == (BASE_EVAL | SCRATCH));
    CHECK(changed("\"quiz.jsonl\"", "\"quiz2.jsonl\"") == (BASE_EVAL | SCRATCH));
    CHECK(changed("\"kv_heads\": 3", "\"kv_heads\": 6") == SCRATCH);
    CHECK(changed("\"small\"", "\"small\", \"precision\": \"f32\"") == 0); // the default, said
    CHECK(changed("\"small\"", "\"small\", \"precision\": \"bf16\"") == ALL);
    CHECK(changed("\"from\": \"base\"", "\"from\": \"base\", \"precision\": \"f16\"") ==
          (GROW | MIX | PAIR | BPB));
    spec *a = read(good), *b = read_edited("\"small\"", "\"other\""),
         *c = read_edited(" \"small\"", "\n\"small\"");
    if (a && b && c) CHECK(strcmp(a->digest, b->digest) != 0 && strcmp(a->digest, c->digest) == 0);
    spec_free(&a);
    spec_free(&b);
    spec_free(&c);
}

/* An arm's own precision is before the file's, and that of the arm it starts from is none of its business. */
static void a_precision_belongs_to_an_arm(void) {
    spec *s = read_edited("\"small\"", "\"small\", \"precision\": \"bf16\"");
    CHECK(s && arm(s, "base")->precision == PRECISION_BF16 && arm(s, "late")->precision == PRECISION_BF16);
    CHECK(s && arm(s, "base")->stage[0].train.precision == PRECISION_BF16);
    CHECK(s && arm(s, "expand")->stage[3].precision == PRECISION_BF16);
    CHECK(s && strstr(arm(s, "base")->stage[0].canonical, "\"precision\":\"bf16\""));
    spec_free(&s);
    s = read_edited("\"from\": \"base\"", "\"from\": \"base\", \"precision\": \"f16\"");
    CHECK(s && arm(s, "base")->precision == PRECISION_F32 && arm(s, "late")->precision == PRECISION_F32);
    CHECK(s && arm(s, "expand")->precision == PRECISION_F16);
    CHECK(s && arm(s, "expand")->stage[1].train.precision == PRECISION_F16);
    CHECK(s && !strstr(arm(s, "late")->stage[0].canonical, "precision"));
    spec_free(&s);
}

int main(void) {
    TEST(a_precision_belongs_to_an_arm);
    TEST(titles_and_seeds);
    TEST(data_sets);
    TEST(the_folder_of_the_file);
    TEST(tasks);
    TEST(arms_come_after_their_parents);
    TEST(a_train_stage_is_filled);
    TEST(growth_and_freezing_carry_on);
    TEST(an_arm_overrides_the_model);
    TEST(canonical_is_canonical);
    TEST(only_what_decides_a_stage_changes_its_canonical_form);
    return test_end();
}
