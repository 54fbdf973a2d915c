/* Experiment files: what a good one becomes, and what a wrong one is told. */
#include "engine/lab/spec.h"

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "tests/test.h"

static const char *root = ".";
static colm_err err;

/* A small file that every wrong one below differs from in one place. */
static const char good[] = //
    "{\n"
    "  \"colm\": 1, \"name\": \"small\", \"seeds\": [1, 9223372036854775807],\n"
    "  \"data\": {\n"
    "    \"bible\": {\"text\": [\"data/bible\"], \"heldout\": 0.1},\n"
    "    \"perl\": {\"text\": \"data/perl\", \"split_on\": \"^=head1\", \"max_bytes\": 5000, \"seed\": 3}\n"
    "  },\n"
    "  \"model\": {\"layers\": 4, \"width\": 64, \"ffn\": 176, \"chains\": [4], \"kv_heads\": 2, \"context\": "
    "128},\n"
    "  \"train\": {\"batch\": 8, \"lr\": 2e-3},\n"
    "  \"tasks\": {\n"
    "    \"cloze\": {\"cloze\": \"bible\"},\n"
    "    \"bpb\": {\"bits_per_byte\": \"perl\", \"max_bytes\": 20000},\n"
    "    \"quiz\": {\"choice\": \"quiz.jsonl\"}\n"
    "  },\n"
    "  \"arms\": {\n"
    "    \"expand\": {\"from\": \"base\", \"stages\": [\n"
    "      {\"grow\": {\"add\": [2]}},\n"
    "      {\"train\": {\"on\": {\"perl\": 3, \"bible\": 1}, \"tokens\": 6000, \"context\": 64}},\n"
    "      {\"train\": {\"on\": [\"bible\", \"perl\"], \"tokens\": 10, \"freeze\": 0}},\n"
    "      {\"eval\": {\"tasks\": [\"bpb\"]}}\n"
    "    ]},\n"
    "    \"base\": {\"stages\": [{\"train\": {\"on\": \"bible\", \"tokens\": 5000}}, {\"eval\": {}}]},\n"
    "    \"late\": {\"from\": \"expand\", \"stages\": [{\"train\": {\"on\": \"bible\", \"tokens\": 1}}]},\n"
    "    \"scratch\": {\"model\": {\"chains\": [4, 2], \"width\": 96, \"ffn\": 264, \"kv_heads\": 3}, "
    "\"stages\": [{\"eval\": {}}]}\n"
    "  }\n"
    "}\n";

/* The file with its first `from` replaced; free it. */
static char *edit(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    if (!at || !out) {
        CHECK(!"the text to replace is there");
        printf("#   %s\n", from);
        if (out) strcpy(out, text);
        return out;
    }
    sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}
static spec *read(const char *text) {
    spec *s = NULL;
    CHECK_OK(spec_parse("dir/small.json", text, strlen(text), &s, &err), err);
    return s;
}
static spec *read_edited(const char *from, const char *to) {
    char *text = edit(good, from, to);
    spec *s = read(text);
    free(text);
    return s;
}
static const spec_arm *arm(const spec *s, const char *name) {
    int i = s ? spec_arm_index(s, name) : -1;
    return CHECK(i >= 0) ? &s->arm[i] : NULL;
}

/* ---- what a good file becomes */

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
        "{\"kind\":\"train\",\"model\":{\"chains\":[{\"ffn\":176,\"heads\":4,\"kv_heads\":2,\"width\":64}],"
        "\"context\":128,\"head_dim\":16,\"layers\":4,\"norm_eps\":1e-05,\"rope_theta\":10000,\"vocab\":257},"
        "\"on\":[{\"data\":{\"heldout\":0.1,\"max_bytes\":0,\"seed\":0,\"split_on\":null,\"text\":[\"data/"
        "bible\"]},\"weight\":1}],\"tokenizer\":\"bytes\",\"train\":{\"batch\":8,\"beta1\":0.9,\"beta2\":0.95,"
        "\"clip\":1,\"context\":128,\"decay\":0.1,\"eps\":1e-08,\"freeze\":0,\"log_every\":10,\"lr\":0.002,"
        "\"min_lr\":0.1,\"tokens\":5000,\"warmup\":20}}");
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
    spec *a = read(good), *b = read_edited("\"small\"", "\"other\""),
         *c = read_edited(" \"small\"", "\n\"small\"");
    if (a && b && c) CHECK(strcmp(a->digest, b->digest) != 0 && strcmp(a->digest, c->digest) == 0);
    spec_free(&a);
    spec_free(&b);
    spec_free(&c);
}

/* ---- what a wrong file is told */

static const struct {
    const char *from, *to, *says;
} wrong[] = {
    /* the file itself */
    {"\"colm\": 1, ", "", "dir/small.json:1: key \"colm\" is missing"},
    {"\"colm\": 1", "\"colm\": 2",
     ":2: colm: the file is written for version 2 of experiment files, this program reads 1"},
    {"\"colm\": 1", "\"colm\": \"1\"", ":2: colm: \"1\" is a string; write it without quotes"},
    {"\"arms\": {", "\"arm\": {", ":14: unknown key \"arm\"; did you mean \"arms\"?"},
    {"\"tasks\": {", "\"name\": {", ":9: name: duplicate key, first given on line 2"},
    {"  }\n}\n", "  },\n}\n", "dir/small.json:2"},
    {"\"small\"", "\"../up\"", ":2: name: \"../up\" cannot be the name of the experiment: expected 1 to 64 of"},
    {"\"small\"", "\"\"", ":2: name: \"\" cannot be the name"},
    {"\"small\"", "7", ":2: name: 7 is not a string; write it in quotes"},
    {"[1, 9223372036854775807]", "[1, 9223372036854775808]",
     ":2: seeds[1]: 9223372036854775808 is not a whole number from 0 to 9223372036854775807"},
    {"[1, 9223372036854775807]", "[]", ":2: seeds: has 0 items"},
    {"[1, 9223372036854775807]", "[1, 2, 1]", ":2: seeds[2]: seed 1 is given twice"},
    {"[1, 9223372036854775807]", "[1e3]", ":2: seeds[0]: 1e3 is not a whole number"},
    {"\"seeds\"", "\"seed\": 4, \"seeds\"", ":2: seed: \"seed\" and \"seeds\" are both given: keep one"},
    {"\"small\"", "\"small\", \"tokenizer\": \"byte\"", ":2: tokenizer: "},
    /* data */
    {"\"text\": [\"data/bible\"], ", "", ":4: data.bible: key \"text\" is missing"},
    {"\"text\": [", "\"texts\": [", ":4: data.bible: unknown key \"texts\"; did you mean \"text\"?"},
    {"[\"data/bible\"]", "[]", ":4: data.bible.text: has 0 items"},
    {"[\"data/bible\"]", "[\"\"]", ":4: data.bible.text[0]: \"\" names no file"},
    {"\"heldout\": 0.1", "\"heldout\": 0",
     ":4: data.bible.heldout: 0 holds out nothing: expected a fraction between 0 and 1"},
    {"\"heldout\": 0.1", "\"heldout\": 1", ":4: data.bible.heldout: 1 holds out everything"},
    {"\"heldout\": 0.1", "\"heldout\": 10", ":4: data.bible.heldout: 10 is not a number from 0 to 1"},
    {"\"^=head1\"", "\"\"", ":5: data.perl.split_on: an empty pattern"},
    {"\"max_bytes\": 5000", "\"max_bytes\": -1", ":5: data.perl.max_bytes: -1 is not a whole number from 0"},
    {"\"perl\": {", "\"pe rl\": {", ":5: data[\"pe rl\"]: \"pe rl\" cannot be the name of a data set"},
    {"\"perl\": {", "\"-p\": {", ":5: data.-p: \"-p\" cannot be the name"},
    /* model */
    {"\"layers\": 4, ", "", ":7: model: key \"layers\" is missing"},
    {"\"layers\"", "\"layer\"", ":7: model: unknown key \"layer\"; did you mean \"layers\"?"},
    {"\"layers\": 4", "\"layers\": 513", ":7: model.layers: 513 is not a whole number from 1 to 512"},
    {"\"width\": 64, ", "", ":7: model: key \"width\" is missing: chains of head counts need it"},
    {"\"chains\": [4], ", "", ":7: model: key \"chains\" is missing"},
    {"\"chains\": [4]", "\"chains\": [3, 2]",
     ":7: model.chains: chain 1: 3 of 5 heads make 38.4 of width 64, expected a whole number: choose a "
     "multiple of 5"},
    {"\"chains\": [4]", "\"chains\": [4, 0]", ":7: model.chains[1]: 0 is not a whole number from 1"},
    {"\"chains\": [4]", "\"chains\": [4, {}]", ":7: model.chains[1]: an object is not a whole number"},
    {"\"chains\": [4]", "\"chains\": 4", ":7: model.chains: 4 is not an array"},
    {"\"chains\": [4]", "\"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8}]",
     ":7: model.width: explicit chains carry their own width: remove it here"},
    {"\"width\": 64, \"ffn\": 176, \"chains\": [4], \"kv_heads\": 2",
     "\"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8}, {\"width\": 64, \"heads\": 3, \"kv_heads\": 2, "
     "\"ffn\": 8}]",
     ":7: model.chains[1]: 3 heads are not divisible by 2 kv heads"},
    {"\"width\": 64, \"ffn\": 176, \"chains\": [4], \"kv_heads\": 2",
     "\"chains\": [{\"width\": 64, \"head\": 4, \"ffn\": 8}]",
     ":7: model.chains[0]: unknown key \"head\"; did you mean \"heads\"?"},
    {"\"width\": 64, \"ffn\": 176, \"chains\": [4], \"kv_heads\": 2",
     "\"chains\": [{\"width\": 64, \"heads\": 4}]", ":7: model.chains[0]: key \"ffn\" is missing"},
    {"\"width\": 64", "\"width\": 60",
     ":7: model: width 60 over 4 heads is 15, not an even head size: change one, or give head_dim"},
    {"\"kv_heads\": 2", "\"kv_heads\": 3",
     ":7: model.chains: chain 1: 4 heads are not divisible by 3 kv heads"},
    {"\"context\": 128", "\"context\": 128, \"head_dim\": 15",
     ":7: model: head_dim is 15, expected an even number"},
    {"\"context\": 128", "\"context\": 128, \"norm_eps\": \"1e-5\"",
     ":7: model.norm_eps: \"1e-5\" is a string; write it without quotes"},
    {"\"context\": 128", "\"context\": 128, \"rope_theta\": 1e400",
     "dir/small.json:7:111: 1e400 is outside the range of a double"},
    {", \"kv_heads\": 3}", "}", ":23: arms.scratch.model"},
    /* train defaults */
    {"\"lr\": 2e-3", "\"lr\": 0", ":8: train.lr: 0 is not a number from 1e-12 to 10"},
    {"\"lr\": 2e-3", "\"lr\": \"2e-3\"", ":8: train.lr: \"2e-3\" is a string; write it without quotes"},
    {"\"lr\": 2e-3", "\"learning_rate\": 2e-3", ":8: train: unknown key \"learning_rate\""},
    {"\"lr\": 2e-3", "\"lr\": 2e-3, \"beta2\": 1", ":8: train.beta2: 1 is not a number from 0 to 0.999999"},
    {"\"batch\": 8", "\"batch\": 8, \"tokens\": 5", ":8: train: unknown key \"tokens\""},
    {"\"batch\": 8", "\"batch\": 8.0",
     ":8: train.batch: 8.0 is not a whole number from 1 to 65536 written with digits alone"},
    {"\"batch\": 8", "\"batch\": 8, \"context\": 129",
     ":8: train.context: context 129 is longer than the model's 128"},
    /* tasks */
    {"{\"cloze\": \"bible\"}", "{\"cloze\": \"bibel\"}",
     ":10: tasks.cloze.cloze: there is no data set \"bibel\"; did you mean \"bible\"?"},
    {"{\"cloze\": \"bible\"}", "{\"cloze\": \"quixote\"}",
     "there is no data set \"quixote\"; there are: bible, perl"},
    {"{\"cloze\": \"bible\"}", "{\"cloze\": \"bible\", \"choices\": 1}",
     ":10: tasks.cloze.choices: 1 is not a whole number from 2 to 16"},
    {"{\"cloze\": \"bible\"}", "{\"cloze\": \"bible\", \"items\": 0}",
     ":10: tasks.cloze.items: 0 is not a whole number from 1"},
    {"{\"cloze\": \"bible\"}", "{\"cloze\": \"bible\", \"choice\": \"x\"}",
     ":10: tasks.cloze: is both \"cloze\" and \"choice\": a task is one of them"},
    {"{\"cloze\": \"bible\"}", "{\"clozes\": \"bible\"}",
     ":10: tasks.cloze: unknown key \"clozes\"; did you mean \"cloze\"?"},
    {"{\"cloze\": \"bible\"}", "{}",
     ":10: tasks.cloze: expected one of \"cloze\", \"choice\", \"bits_per_byte\""},
    {"{\"bits_per_byte\": \"perl\",", "{\"bits_per_byte\": \"perl\", \"items\": 3,",
     ":11: tasks.bpb: unknown key \"items\""},
    /* arms */
    {"\"from\": \"base\"", "\"from\": \"bass\"",
     ":15: arms.expand.from: there is no arm \"bass\"; did you mean \"base\"?"},
    {"\"from\": \"base\"", "\"from\": \"late\"", "arms start from each other, so none can begin: "},
    {"\"from\": \"base\"", "\"from\": \"expand\"",
     ":15: arms.expand.from: arms start from each other, so none can begin: expand -> expand"},
    {"\"from\": \"base\"", "\"from\": \"base\", \"model\": {}",
     ":15: arms.expand.model: an arm that starts from another has its model"},
    {"\"base\": {\"stages\"", "\"base\": {\"stage\"",
     ":21: arms.base: unknown key \"stage\"; did you mean \"stages\"?"},
    {"{\"from\": \"expand\", \"stages\": [{\"train\": {\"on\": \"bible\", \"tokens\": 1}}]}",
     "{\"from\": \"expand\"}", ":22: arms.late: key \"stages\" is missing"},
    {"\"stages\": [{\"train\": {\"on\": \"bible\", \"tokens\": 1}}]", "\"stages\": []",
     ":22: arms.late.stages: has 0 items"},
    /* stages */
    {"{\"grow\": {\"add\": [2]}}", "{\"gorw\": {\"add\": [2]}}",
     ":16: arms.expand.stages[0]: unknown key \"gorw\"; did you mean \"grow\"?"},
    {"{\"grow\": {\"add\": [2]}}", "{\"grow\": {\"add\": [2]}, \"eval\": {}}",
     ":16: arms.expand.stages[0]: a stage is one of"},
    {"{\"grow\": {\"add\": [2]}}", "{}", ":16: arms.expand.stages[0]: a stage is one of"},
    {"\"add\": [2]", "\"add\": [1]",
     ":16: arms.expand.stages[0].grow.add[0]: 1 heads at the proportions of the model before (kv_heads 2 for 4 "
     "heads) would have kv_heads 0.5, expected a whole number: add a multiple of 2 heads"},
    {"\"add\": [2]", "\"add\": []", ":16: arms.expand.stages[0].grow.add: has 0 items"},
    {"\"add\": [2]", "\"add\": [2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]",
     ":16: arms.expand.stages[0].grow.add: 1 chains and 32 more are too many: at most 32"},
    {"\"add\": [2]", "\"add\": [{\"width\": 65536, \"heads\": 2, \"ffn\": 1}]",
     ".grow.add: width of all chains together is 65600"},
    {"\"add\": [2]", "\"add\": [2], \"freeze\": 2",
     ":16: arms.expand.stages[0].grow.freeze: freezing all 2 chains leaves nothing to train: freeze at most 1"},
    {"\"add\": [2]", "\"add\": [2], \"freeze\": 3",
     ":16: arms.expand.stages[0].grow.freeze: 3 chains cannot be frozen: the model has 2"},
    {"\"freeze\": 0", "\"freeze\": 2",
     ":18: arms.expand.stages[2].train.freeze: freezing all 2 chains leaves nothing to train"},
    {"\"tokens\": 6000", "\"tokens\": 0",
     ":17: arms.expand.stages[1].train.tokens: 0 is not a whole number from 1 to 1125899906842624"},
    {"\"tokens\": 6000", "\"tokens\": 6e3",
     ":17: arms.expand.stages[1].train.tokens: 6e3 is not a whole number"},
    {", \"tokens\": 6000", "", ":17: arms.expand.stages[1].train: key \"tokens\" is missing"},
    {"\"tokens\": 6000", "\"tokens\": 6000, \"token\": 1",
     ":17: arms.expand.stages[1].train: unknown key \"token\""},
    {"\"perl\": 3", "\"perl\": 0",
     ":17: arms.expand.stages[1].train.on.perl: a weight of 0 takes nothing: leave the data set out"},
    {"\"perl\": 3", "\"prel\": 3",
     ":17: arms.expand.stages[1].train.on.prel: there is no data set \"prel\"; did you mean \"perl\"?"},
    {"{\"perl\": 3, \"bible\": 1}", "{}",
     ":17: arms.expand.stages[1].train.on: names 0 data sets, expected 1 to 16"},
    {"{\"perl\": 3, \"bible\": 1}", "null",
     ":17: arms.expand.stages[1].train.on: expected the name of a data set"},
    {"[\"bible\", \"perl\"]", "[\"bible\", \"bible\"]",
     ":18: arms.expand.stages[2].train.on[1]: data set \"bible\" is named twice"},
    {"\"context\": 64", "\"context\": 256",
     ":17: arms.expand.stages[1].train.context: context 256 is longer than the model's 128"},
    {"\"context\": 64", "\"batch\": 65536, \"context\": 128, \"clip\": -1",
     ":17: arms.expand.stages[1].train.clip: -1 is not a number"},
    {"{\"tasks\": [\"bpb\"]}", "{\"tasks\": [\"bbp\"]}",
     ":19: arms.expand.stages[3].eval.tasks[0]: there is no task \"bbp\"; did you mean \"bpb\"?"},
    {"{\"tasks\": [\"bpb\"]}", "{\"tasks\": [\"bpb\", \"bpb\"]}",
     ":19: arms.expand.stages[3].eval.tasks[1]: task \"bpb\" is named twice"},
    {"{\"tasks\": [\"bpb\"]}", "{\"task\": [\"bpb\"]}",
     ":19: arms.expand.stages[3].eval: unknown key \"task\"; did you mean \"tasks\"?"},
    {"{\"tasks\": [\"bpb\"]}", "{\"tasks\": []}", ":19: arms.expand.stages[3].eval.tasks: has 0 items"},
};

static void a_wrong_file_is_told_where_what_and_what_else(void) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *text = edit(good, wrong[i].from, wrong[i].to);
        spec *s = (spec *)&err; // untouched on failure
        err.text[0] = 0;
        colm_status status = spec_parse("dir/small.json", text, strlen(text), &s, &err);
        CHECK(status == COLM_E_INPUT && err.code == COLM_E_INPUT);
        CHECK(s == (spec *)&err);
        CHECK_HAS(err.text, wrong[i].says);
        CHECK_HAS(err.text, "dir/small.json:");
        if (status) CHECK(spec_parse("dir/small.json", text, strlen(text), &s, NULL) == status);
        if (!status) spec_free(&s);
        free(text);
    }
}

static void a_step_too_large_is_refused(void) {
    char *wide = edit(good, "\"context\": 128}", "\"context\": 65536}");
    char *text = edit(wide, "\"batch\": 8", "\"batch\": 257");
    spec *s = NULL;
    CHECK(spec_parse("f", text, strlen(text), &s, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text,
              "f:8: train.batch: a step of batch 257 x context 65536 has 16842752 tokens, at most 16777216");
    free(text);
    text = edit(wide, "\"batch\": 8", "\"batch\": 256");
    s = read(text);
    spec_free(&s);
    free(text);
    free(wide);
}

static void a_file_without_tasks_has_nothing_to_eval(void) {
    const char *text =
        "{\"colm\": 1, \"name\": \"n\", \"data\": {\"d\": {\"text\": \"t\"}}, \"model\": {\"layers\": 1, "
        "\"width\": 8, \"ffn\": 8, \"chains\": [1], \"context\": 4},\n\"arms\": {\"a\": {\"stages\": "
        "[{\"eval\": {}}]}}}";
    spec *s = NULL;
    CHECK(spec_parse("f", text, strlen(text), &s, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "f:2: arms.a.stages[0].eval: the file has no \"tasks\" to evaluate");
}

static void a_missing_file_is_an_error(void) {
    spec *s = NULL;
    CHECK(spec_load("no/such/file.json", &s, &err) != COLM_OK);
    CHECK_HAS(err.text, "no/such/file.json");
}

static void lack_of_memory_is_an_error_at_any_point(void) {
    spec *s = NULL;
    long n = 0;
    for (; n < 20000; n++) {
        mem_fail_after(n);
        colm_status status = spec_parse("f", good, strlen(good), &s, &err);
        mem_fail_after(-1);
        if (!status) break;
        if (!CHECK(status == COLM_E_MEMORY && err.code == status))
            printf("#   %ld: %d %s\n", n, status, err.text);
    }
    CHECK(n > 20 && n < 20000);
    spec_free(&s);
}

/* ---- the files beside the code: examples, schema, README */

static char *slurp(const char *name) {
    char path[4096], *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/experiments/%s", root, name);
    CHECK_OK(file_read(path, 0, &text, &n, &err), err);
    return text;
}

static void experiments_of_this_tree_are_sound(void) {
    char **paths = NULL, folder[4096];
    size_t n = 0, read_ = 0;
    snprintf(folder, sizeof folder, "%s/experiments", root);
    if (!CHECK_OK(file_expand(folder, "*.json", &paths, &n, &err), err)) return;
    for (size_t i = 0; i < n; i++) {
        spec *s = NULL;
        if (strstr(paths[i], "/schema.json")) continue;
        CHECK_OK(spec_load(paths[i], &s, &err), err);
        spec_free(&s);
        read_++;
    }
    CHECK(read_ >= 1);
    free(paths);
}

/* Places of `good` where an unknown key makes the reader list the ones it knows, and the schema's object for
 * each. */
static const struct {
    const char *from, *to, *schema;
} places[] = {
    {"\"colm\": 1", "\"@\": 0, \"colm\": 1", ""},
    {"\"heldout\": 0.1", "\"@\": 0, \"heldout\": 0.1", "data"},
    {"\"layers\": 4", "\"@\": 0, \"layers\": 4", "model"},
    {"\"width\": 64, \"ffn\": 176, \"chains\": [4], \"kv_heads\": 2", "\"chains\": [{\"@\": 4}]", "chain"},
    {"\"batch\": 8", "\"@\": 0, \"batch\": 8", "train_defaults"},
    {"{\"cloze\": \"bible\"}", "{\"cloze\": \"bible\", \"@\": 0}", "cloze"},
    {"\"quiz.jsonl\"", "\"quiz.jsonl\", \"@\": 0", "choice"},
    {"{\"bits_per_byte\": \"perl\"", "{\"bits_per_byte\": \"perl\", \"@\": 0", "bits_per_byte"},
    {"\"from\": \"base\"", "\"@\": 0, \"from\": \"base\"", "arm"},
    {"{\"grow\": {\"add\": [2]}}", "{\"@\": 0}", "stage"},
    {"\"tokens\": 6000", "\"@\": 0, \"tokens\": 6000", "train"},
    {"\"add\": [2]", "\"@\": 0, \"add\": [2]", "grow"},
    {"{\"tasks\": [\"bpb\"]}", "{\"@\": 0}", "eval"},
};

static bool word_in(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == 0)) return true;
    return false;
}

static void schema_readme_and_example_name_the_keys_that_are_read(void) {
    char *schema = slurp("schema.json"), *readme = slurp("README.md"), *example = slurp("every-key.json");
    json_doc *doc = NULL;
    if (!schema || !readme || !example) goto out;
    if (!CHECK_OK(json_open_text("schema.json", schema, strlen(schema), &doc, &err), err)) goto out;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *text = edit(good, places[i].from, places[i].to), quoted[80];
        spec *s = NULL;
        json_value object = json_root(doc);
        if (*places[i].schema) object = json_get(json_get(object, "$defs"), places[i].schema);
        json_value keys = json_get(object, "properties");
        CHECK(spec_parse("f", text, strlen(text), &s, &err) == COLM_E_INPUT);
        const char *list = strstr(err.text, "known keys: ");
        free(text);
        if (!CHECK(list && json_count(keys) > 0)) {
            printf("#   %s: %s\n", places[i].schema, err.text);
            continue;
        }
        list += strlen("known keys: ");
        size_t listed = 1, described = json_count(keys);
        for (const char *c = list; *c; c++) listed += *c == ',';
        for (size_t k = 0; k < described; k++) {
            const char *key = json_key_at(keys, k);
            if (!CHECK(word_in(list, key))) printf("#   schema.json has \"%s\", the reader: %s\n", key, list);
            snprintf(quoted, sizeof quoted, "`%s`", key);
            if (!CHECK(strstr(readme, quoted))) printf("#   README.md lacks %s\n", quoted);
            snprintf(quoted, sizeof quoted, "\"%s\"", key);
            bool shown =
                strstr(example, quoted) || (strcmp(key, "seed") == 0 && !*places[i].schema); // seeds are
            if (!CHECK(shown)) printf("#   every-key.json lacks %s\n", quoted);
        }
        if (!CHECK(listed == described))
            printf("#   %s: %zu keys in schema.json, %zu read\n", places[i].schema, described, listed);
    }
out:
    json_close(&doc);
    free(example);
    free(readme);
    free(schema);
}

/* Defaults of the schema against those in the canonical form of a file that gives none. */
static void schema_has_the_defaults_that_are_filled(void) {
    char *schema = slurp("schema.json"), *text = edit(good, "\"batch\": 8, \"lr\": 2e-3", "");
    json_doc *doc = NULL, *stage = NULL;
    spec *s = read(text);
    free(text);
    if (!s || !schema) goto out;
    const char *canonical = s->arm[0].stage[0].canonical;
    if (!CHECK_OK(json_open_text("schema.json", schema, strlen(schema), &doc, &err), err)) goto out;
    if (!CHECK_OK(json_open_text("stage", canonical, strlen(canonical), &stage, &err), err)) goto out;
    static const char *const group[] = {"train", "model"};
    for (size_t g = 0; g < 2; g++) {
        json_value keys = json_get(json_get(json_get(json_root(doc), "$defs"), group[g]), "properties");
        size_t n = 0;
        for (size_t k = 0; k < json_count(keys); k++) {
            double want = NAN, got = NAN;
            json_value preset = json_get(json_value_at(keys, k), "default");
            if (!preset.doc) continue;
            n++;
            CHECK_OK(json_read_double(preset, -INFINITY, INFINITY, &want, &err), err);
            json_value filled = json_get(json_get(json_root(stage), group[g]), json_key_at(keys, k));
            CHECK_OK(json_read_double(filled, -INFINITY, INFINITY, &got, &err), err);
            CHECK_NEAR(got, want, 0);
        }
        CHECK(n >= 2);
    }
out:
    json_close(&stage);
    json_close(&doc);
    spec_free(&s);
    free(schema);
}

int main(int argc, char **argv) {
    if (argc > 1) root = argv[1];
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
    TEST(a_wrong_file_is_told_where_what_and_what_else);
    TEST(a_step_too_large_is_refused);
    TEST(a_file_without_tasks_has_nothing_to_eval);
    TEST(a_missing_file_is_an_error);
    TEST(lack_of_memory_is_an_error_at_any_point);
    TEST(experiments_of_this_tree_are_sound);
    TEST(schema_readme_and_example_name_the_keys_that_are_read);
    TEST(schema_has_the_defaults_that_are_filled);
    return test_end();
}
