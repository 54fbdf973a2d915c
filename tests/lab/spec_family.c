/* Experiment files: families of models, ties, CoLM-Air, growth and losses; what contradicts itself is refused.
 */
#include "engine/base/mem.h"
#include "tests/lab/spec_text.h"

#define MODEL "\"context\": 128}" /* the end of the file's model */
#define TRAIN "\"lr\": 2e-3"      /* in the defaults of train stages */
#define PAIR "\"freeze\": 0"      /* of a train stage over both chains of arm "expand" */
#define FULL "\"width\": 64, \"ffn\": 176, \"chains\": [4], \"kv_heads\": 2"
#define ADD "{\"add\": [2]}"

/* ---- families */

static void every_member_of_a_family_is_read(void) {
    spec *s = read_edited(
        MODEL,
        "\"context\": 128, \"norm\": \"rms_plus_one\", \"activation\": \"geglu\", \"rope_scaling\": "
        "\"llama3\", "
        "\"rope_factor\": 8, \"rope_low\": 1, \"rope_high\": 4, \"rope_original\": 64, \"bias_qkv\": true, "
        "\"bias_o\": true, \"bias_ffn\": true, \"qk_norm\": true, \"post_norms\": true, \"attn_softcap\": 50, "
        "\"logit_softcap\": 30, \"window\": 32, \"window_every\": 2, \"head\": \"separate\"}");
    const spec_arm *a = arm(s, "base");
    if (!a) return;
    const model_family want = {.norm = NORM_RMS_PLUS_ONE,
                               .ffn = FFN_GEGLU,
                               .rope_scaling = ROPE_LLAMA3,
                               .head = HEAD_SEPARATE,
                               .bias_qkv = true,
                               .bias_o = true,
                               .bias_ffn = true,
                               .qk_norm = true,
                               .post_norms = true,
                               .rope_factor = 8,
                               .rope_low = 1,
                               .rope_high = 4,
                               .rope_original = 64,
                               .attn_softcap = 50,
                               .logit_softcap = 30,
                               .window = 32,
                               .window_every = 2};
    CHECK(model_family_equal(&a->start.family, &want));
    CHECK(a->start.chain[0].ffn == 176);
    CHECK_HAS(a->stage[0].canonical, "\"activation\":\"geglu\"");
    CHECK_HAS(a->stage[0].canonical, "\"window_every\":2");
    spec_free(&s);
    // A file that says nothing is the plain family.
    s = read(good);
    a = arm(s, "base");
    if (a) CHECK(model_family_equal(&a->start.family, &(model_family){0}));
    spec_free(&s);
}

static void an_arm_overrides_members_of_the_family(void) {
    char *text = edit(good, MODEL, "\"context\": 128, \"norm\": \"layer\", \"window\": 9, \"bias_o\": true}");
    char *more = edit(text, "\"kv_heads\": 3}", "\"kv_heads\": 3, \"norm\": \"rms\", \"window\": 0}");
    spec *s = read(more);
    const spec_arm *base = arm(s, "base"), *scratch = arm(s, "scratch");
    if (base && scratch) {
        CHECK(base->start.family.norm == NORM_LAYER && base->start.family.window == 9);
        CHECK(scratch->start.family.norm == NORM_RMS && scratch->start.family.window == 0);
        CHECK(base->start.family.bias_o && scratch->start.family.bias_o);
    }
    spec_free(&s);
    free(more);
    free(text);
}

static void ties_and_scales(void) {
    static const struct {
        const char *tie;
        bool first, second;
    } row[] = {{"none", false, false}, {"all", true, true}, {"first", true, false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char to[200];
        snprintf(to, sizeof to,
                 "\"context\": 128, \"tie\": \"%s\", \"embed_scale\": 8.5, \"attn_scale\": 0.25}", row[i].tie);
        spec *s = read_edited(MODEL, to);
        const spec_arm *a = arm(s, "scratch");
        if (a) {
            const model_chain *c = a->start.chain;
            CHECK(c[0].tied == row[i].first && c[1].tied == row[i].second && c[1].heads == 2);
            CHECK(c[0].embed_scale == 8.5 && c[1].embed_scale == 8.5 && c[1].attn_scale == 0.25);
        }
        a = arm(s, "expand"); // grown: the scales of chain 1, untied
        if (a) {
            const model_chain *c = a->stage[0].model.chain;
            CHECK(c[0].tied == row[i].first && !c[1].tied);
            CHECK(c[1].embed_scale == 8.5 && c[1].attn_scale == 0.25);
        }
        spec_free(&s);
    }
    spec *s =
        read_edited(FULL, "\"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8, \"tied\": true, "
                          "\"embed_scale\": 2}, {\"width\": 32, \"heads\": 2, \"ffn\": 4, \"attn_scale\": 3}]");
    const spec_arm *a = arm(s, "base");
    if (a) {
        const model_chain *c = a->start.chain;
        CHECK(c[0].tied && !c[1].tied && c[0].embed_scale == 2 && c[1].embed_scale == 0 &&
              c[1].attn_scale == 3);
        CHECK_HAS(a->stage[0].canonical, "\"embed_scale\":2");
    }
    spec_free(&s);
}

/* ---- CoLM-Air */

static void in_air_chain_1_owns_keys_and_values(void) {
    static const char *const kv[] = {"grouped", "tiled"};
    for (size_t i = 0; i < 2; i++) {
        char to[100];
        snprintf(to, sizeof to, "\"context\": 128, \"kv\": \"%s\"}", kv[i]);
        char *text = edit(good, MODEL, to);
        char *more = edit(text, ", \"kv_heads\": 3}", ", \"kv_heads\": 4}");
        spec *s = read(more);
        const spec_arm *a = arm(s, "scratch"), *grown = arm(s, "expand");
        if (a && grown) {
            CHECK(a->start.family.kv == (i ? KV_TILED : KV_GROUPED));
            CHECK(a->start.chain[0].kv_heads == 4 && a->start.chain[1].kv_heads == 0);
            CHECK(grown->stage[0].model.chain[0].kv_heads == 2 && grown->stage[0].model.chain[1].kv_heads == 0);
            CHECK(grown->stage[0].model.chain[1].width == 32);
        }
        spec_free(&s);
        free(more);
        free(text);
    }
    // As many as chain 1's heads when nothing is said.
    char *text = edit(good, "\"kv_heads\": 2, \"context\": 128}", "\"context\": 128, \"kv\": \"grouped\"}");
    char *more = edit(text, ", \"kv_heads\": 3}", "}");
    spec *s = read(more);
    const spec_arm *a = arm(s, "scratch");
    if (a) CHECK(a->start.chain[0].kv_heads == 4 && a->start.chain[1].kv_heads == 0);
    spec_free(&s);
    free(more);
    free(text);
    text = edit(good, FULL,
                "\"kv\": \"tiled\", \"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8, \"kv_heads\": 2}, "
                "{\"width\": 32, \"heads\": 2, \"ffn\": 4}, {\"width\": 16, \"heads\": 1, \"ffn\": 2, "
                "\"kv_heads\": 0}]");
    more = edit(text, ", \"kv_heads\": 3}", "}");
    s = read(more);
    a = arm(s, "base");
    if (a) {
        const model_chain *c = a->start.chain;
        CHECK(c[0].kv_heads == 2 && c[1].kv_heads == 0 && c[2].kv_heads == 0 && a->start.n_chains == 3);
    }
    a = arm(s, "expand");
    if (a) CHECK(a->stage[0].model.chain[3].width == 32 && a->stage[0].model.chain[3].kv_heads == 0);
    spec_free(&s);
    free(more);
    free(text);
}

static void one_chain_grows_as_either(void) {
    spec *s =
        read_edited(ADD, "{\"add\": [2, {\"width\": 8, \"heads\": 3, \"ffn\": 5, \"attn_scale\": 2}], \"kv\": "
                         "\"grouped\", \"tie\": true}");
    const spec_arm *a = arm(s, "expand");
    if (a) {
        const model_config *m = &a->stage[0].model;
        CHECK(a->start.family.kv == KV_OWN && m->family.kv == KV_GROUPED);
        CHECK(m->n_chains == 3 && m->chain[0].kv_heads == 2 && !m->chain[0].tied);
        CHECK(m->chain[1].kv_heads == 0 && m->chain[1].tied && m->chain[1].ffn == 88);
        CHECK(m->chain[2].kv_heads == 0 && m->chain[2].tied && m->chain[2].heads == 3);
        CHECK(m->chain[2].attn_scale == 2 && m->chain[1].attn_scale == 0);
        CHECK(model_config_extends(m, &a->start));
        CHECK_HAS(a->stage[0].canonical, "\"kv\":\"grouped\"");
    }
    spec_free(&s);
    // Odd head counts grow too: there are no key-value heads to divide.
    s = read_edited(ADD, "{\"add\": [1], \"kv\": \"grouped\"}");
    a = arm(s, "expand");
    if (a) CHECK(a->stage[0].model.chain[1].heads == 1 && a->stage[0].model.family.kv == KV_GROUPED);
    spec_free(&s);
    s = read_edited(ADD,
                    "{\"add\": [{\"width\": 8, \"heads\": 3, \"ffn\": 5, \"tied\": false}, 2], \"tie\": true}");
    a = arm(s, "expand");
    if (a) CHECK(!a->stage[0].model.chain[1].tied && a->stage[0].model.chain[2].tied);
    spec_free(&s);
}

/* ---- losses and what trains */

static train_params trained(const char *from, const char *to) {
    spec *s = read_edited(from, to);
    const spec_arm *a = arm(s, "expand");
    train_params p = {0};
    if (a) p = a->stage[2].train;
    spec_free(&s);
    return p;
}

static void losses(void) {
    train_params p = trained(PAIR, PAIR);
    CHECK(p.scale == 0 && p.lambda[0] == 0 && p.lambda[1] == 0);
    p = trained(PAIR, PAIR ", \"loss\": \"full\"");
    CHECK(p.scale == 0 && p.lambda[0] == 0 && p.lambda[1] == 0);
    p = trained(PAIR, PAIR ", \"loss\": \"multi\"");
    CHECK(p.scale == 0 && p.lambda[0] == 0.5 && p.lambda[1] == 0.5 && p.lambda[2] == 0);
    p = trained(PAIR, PAIR ", \"loss\": [0.25, 2]");
    CHECK(p.scale == 0 && p.lambda[0] == 0.25 && p.lambda[1] == 2);
    p = trained(PAIR, PAIR ", \"loss\": {\"scale\": 1}");
    CHECK(p.scale == 1 && p.lambda[0] == 0);
    p = trained(PAIR, PAIR ", \"loss\": {\"scale\": 1, \"weights\": [3]}");
    CHECK(p.scale == 1 && p.lambda[0] == 3 && p.lambda[1] == 0);
    p = trained(PAIR, PAIR ", \"loss\": {\"scale\": 2, \"weights\": [1, 1]}");
    CHECK(p.scale == 0 && p.lambda[0] == 1 && p.lambda[1] == 1);
    // A default is for models of any number of chains; a stage's own comes first.
    p = trained(TRAIN, TRAIN ", \"loss\": \"multi\"");
    CHECK(p.lambda[0] == 0.5 && p.lambda[1] == 0.5);
    char *text = edit(good, TRAIN, TRAIN ", \"loss\": \"multi\""),
         *own = edit(text, PAIR, PAIR ", \"loss\": \"full\"");
    spec *s = read(own);
    const spec_arm *a = arm(s, "expand"), *base = arm(s, "base");
    if (a && base) {
        CHECK(a->stage[1].train.lambda[1] == 0.5 && a->stage[2].train.lambda[1] == 0);
        CHECK(base->stage[0].train.lambda[0] == 0); // one scale: the full one
    }
    spec_free(&s);
    free(own);
    free(text);
}

/* The same loss said in two ways has one canonical form; another has another. */
static void a_loss_has_one_canonical_form(void) {
    static const char *const said[][2] = {
        {PAIR, PAIR ", \"loss\": \"full\""},
        {PAIR, PAIR ", \"loss\": [0, 1]"},
        {PAIR, PAIR ", \"loss\": {\"scale\": 2}"},
        {PAIR ", \"loss\": \"multi\"", PAIR ", \"loss\": [0.5, 0.5]"},
        {PAIR ", \"loss\": {\"scale\": 1}", PAIR ", \"loss\": {\"scale\": 1, \"weights\": [1]}"},
        {PAIR, PAIR ", \"accumulate\": 1, \"only\": \"all\", \"documents\": \"packed\", \"recompute\": true"}};
    static const char *const other[] = {", \"loss\": \"multi\"", ", \"loss\": {\"scale\": 1}",
                                        ", \"loss\": [0, 2]",    ", \"only\": \"head\"",
                                        ", \"accumulate\": 2",   ", \"documents\": \"masked\""};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        spec *a = read_edited(PAIR, said[i][0]), *b = read_edited(PAIR, said[i][1]);
        const spec_arm *x = arm(a, "expand"), *y = arm(b, "expand");
        if (x && y) CHECK_STR(x->stage[2].canonical, y->stage[2].canonical);
        spec_free(&a);
        spec_free(&b);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char to[200];
        snprintf(to, sizeof to, "%s%s", PAIR, other[i]);
        spec *a = read(good), *b = read_edited(PAIR, to);
        const spec_arm *x = arm(a, "expand"), *y = arm(b, "expand");
        if (x && y) CHECK(strcmp(x->stage[2].canonical, y->stage[2].canonical) != 0);
        spec_free(&a);
        spec_free(&b);
    }
}

static void switches_of_a_train_stage(void) {
    train_params p = trained(PAIR, PAIR);
    CHECK(p.accumulate == 1 && !p.head_only && !p.documents && !p.recompute);
    p = trained(TRAIN, TRAIN
                ", \"accumulate\": 4, \"only\": \"head\", \"documents\": \"masked\", \"recompute\": true");
    CHECK(p.accumulate == 4 && p.head_only && p.documents && p.recompute);
    p = trained(PAIR, PAIR ", \"accumulate\": 4096, \"only\": \"head\"");
    CHECK(p.accumulate == 4096 && p.head_only && !p.documents);
    // Tied chains that are frozen, or beyond the loss, do not matter to heads alone.
    char *tied = edit(good, ADD, "{\"add\": [2], \"tie\": true}");
    char *text = edit(tied, PAIR, PAIR ", \"only\": \"head\", \"loss\": {\"scale\": 1}");
    spec *s = read(text);
    CHECK(s != NULL);
    spec_free(&s);
    free(text);
    free(tied);
    tied = edit(good, MODEL, "\"context\": 128, \"tie\": \"all\"}");
    text = edit(tied, "\"tokens\": 6000", "\"tokens\": 6000, \"only\": \"head\"");
    s = read(text);
    CHECK(s != NULL);
    spec_free(&s);
    free(text);
    free(tied);
}

/* ---- what is refused */

static const struct {
    const char *from, *to, *says;
} wrong[] = {
    {MODEL, "\"context\": 128,\n \"norm\": \"lyer\"}",
     ":8: model.norm: \"lyer\" is not one of \"rms\", \"rms_plus_one\", \"layer\"; did you mean \"layer\"?"},
    {MODEL, "\"context\": 128,\n \"activation\": \"geglo\"}", ":8: model.activation: \"geglo\""},
    {MODEL, "\"context\": 128, \"activation\": 4}", "model.activation: 4 is not"},
    {MODEL, "\"context\": 128, \"actvation\": \"geglu\"}",
     "model: unknown key \"actvation\"; did you mean \"activation\"?"},
    {MODEL, "\"context\": 128, \"kv\": \"groupd\"}", "did you mean \"grouped\"?"},
    {MODEL, "\"context\": 128, \"qk_norm\": \"true\"}", "model.qk_norm: \"true\" is a string"},
    {MODEL, "\"context\": 128, \"attn_softcap\": -1}", "model.attn_softcap: -1 is not a number from 0"},
    {MODEL, "\"context\": 128, \"attn_softcap\": 1e-9}",
     "model.attn_softcap: 1e-09 is neither 0 nor at least 0.001"},
    {MODEL, "\"context\": 128, \"qk_norm\": true,\n \"norm\": \"layer\"}",
     ":7: model.qk_norm: qk_norm is an RMS norm of heads, but the model's norm is layer"},
    {MODEL, "\"context\": 128, \"rope_scaling\": \"linear\"}",
     "model.rope_scaling: rope_scaling linear needs a rope_factor above 0, it is 0"},
    {MODEL,
     "\"context\": 128, \"rope_scaling\": \"llama3\", \"rope_factor\": 8, \"rope_low\": 4, \"rope_high\": 4}",
     "rope_scaling llama3 needs 0 < rope_low < rope_high and rope_original of at least 1; they are 4, 4 and 0"},
    {MODEL, "\"context\": 128, \"rope_factor\": 8}", "rope_factor is 8, but rope_scaling is plain"},
    {MODEL, "\"context\": 128, \"rope_scaling\": \"linear\", \"rope_factor\": 8, \"rope_low\": 1}",
     "model.rope_low: rope_low, rope_high and rope_original are 1, 0 and 0, but only llama3 scaling uses them"},
    {MODEL, "\"context\": 128, \"rope_scaling\": \"linear\", \"rope_factor\": 8, \"position\": \"learned\"}",
     "model.rope_scaling: rope_scaling has no meaning with learned positions"},
    {MODEL, "\"context\": 128,\n \"window_every\": 2}",
     ":8: model.window_every: window_every is 2, but there is no window (it is 0)"},
    {MODEL, "\"context\": 128, \"window\": 64, \"window_every\": 1}",
     "window_every is 1: every layer would see all, and the window of 64 would not be used"},
    {MODEL, "\"context\": 128, \"window\": -1}", "model.window: -1 is not a whole number from 0"},
    {MODEL, "\"context\": 128, \"head\": \"separate\", \"tie\": \"first\"}",
     "chain 1 is tied, but separate heads are matrices of their own"},
    {MODEL, "\"context\": 128, \"tie\": \"frist\"}", "model.tie: \"frist\" is not one of"},
    {MODEL, "\"context\": 128, \"embed_scale\": -1}",
     "model.embed_scale: -1 is not a number from 0 to 1000000"},
    {FULL, "\"tie\": \"all\", \"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8}]",
     "model.tie: explicit chains carry their own tied: remove it here"},
    {FULL, "\"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8, \"kv_heads\": 0}]",
     "model.chains[0].kv_heads: is 0, but this chain owns keys and values: expected a divisor of its 4 heads"},
    {FULL, "\"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8, \"tied\": 1}]",
     "model.chains[0].tied: 1 is not"},
    {FULL,
     "\"kv\": \"grouped\", \"chains\": [{\"width\": 64, \"heads\": 4, \"ffn\": 8}, {\"width\": 64, \"heads\": "
     "4, "
     "\"ffn\": 8, \"kv_heads\": 2}]",
     "model.chains[1].kv_heads: is 2, expected 0: by \"kv\", chain 1 owns all keys and values"},
    {FULL ", " MODEL,
     "\"width\": 96, \"ffn\": 264, \"chains\": [4, 2], \"kv_heads\": 3, \"kv\": \"tiled\", " MODEL,
     "model.kv_heads: 4 heads of chain 1 are not divisible by 3 kv heads"},
    {"\"^=head1\"", "\"^=(head1\"",
     ":5: data.perl.split_on: split_on \"^=(head1\": missing closing parenthesis at character"},
    /* grow */
    {"{\"train\": {\"on\": [\"bible\", \"perl\"], \"tokens\": 10, \"freeze\": 0}}",
     "{\"grow\": {\"add\": [2], \"kv\": \"own\"}}",
     ":18: arms.expand.stages[2].grow.kv: the model has 2 chains already: only one of a single chain can "
     "choose"},
    {ADD, "{\"add\": [2], \"kv\": \"tield\"}", "stages[0].grow.kv: \"tield\" is not one of"},
    {ADD, "{\"add\": [2], \"tie\": \"all\"}", "stages[0].grow.tie: \"all\" is not true or false"},
    {ADD, "{\"add\": [1], \"kv\": \"tiled\"}",
     ":16: arms.expand.stages[0].grow.kv: the tiled map would give the 4 heads of chain 1 other key-value "
     "heads (of 2)"},
    {ADD, "{\"add\": [{\"width\": 8, \"heads\": 2, \"ffn\": 8, \"kv_heads\": 2}], \"kv\": \"grouped\"}",
     "stages[0].grow.add[0].kv_heads: is 2, expected 0"},
    /* train */
    {PAIR, PAIR ", \"accumulate\": 0", "stages[2].train.accumulate: 0 is not a whole number from 1 to 4096"},
    {PAIR, PAIR ", \"accumulate\": 4097", "4097 is not a whole number from 1 to 4096"},
    {PAIR, PAIR ", \"only\": \"heads\"", "did you mean \"head\"?"},
    {PAIR, PAIR ", \"documents\": true", "stages[2].train.documents: true is not"},
    {PAIR, PAIR ", \"recompute\": 1", "stages[2].train.recompute: 1 is not"},
    {PAIR, PAIR ", \"loss\": \"mutli\"", "stages[2].train.loss: \"mutli\" is not one of"},
    {PAIR, PAIR ", \"loss\": 1", "stages[2].train.loss: expected \"full\", \"multi\", a list of weights"},
    {PAIR, PAIR ", \"loss\": [1]", "stages[2].train.loss: has 1 weights for a loss over 2 scales"},
    {PAIR, PAIR ", \"loss\": [1, 0]", "stages[2].train.loss[1]: the last weight is 0"},
    {PAIR, PAIR ", \"loss\": [-1, 1]", "stages[2].train.loss[0]: -1 is not a number from 0"},
    {PAIR, PAIR ", \"loss\": {\"scale\": 3}",
     "stages[2].train.loss.scale: there is no scale 3: the model has 2"},
    {PAIR, PAIR ", \"loss\": {}", "stages[2].train.loss: key \"scale\" is missing"},
    {PAIR, PAIR ", \"loss\": {\"scale\": 1, \"weight\": [1]}", "loss: unknown key \"weight\"; did you mean"},
    {PAIR, PAIR ", \"loss\": {\"scale\": 1, \"weights\": [1, 1]}",
     "loss.weights: has 2 weights for a loss over 1 scales"},
    {"\"tokens\": 6000", "\"tokens\": 6000, \"loss\": {\"scale\": 1}",
     ":17: arms.expand.stages[1].train.loss: a loss at scale 1 trains nothing while chains 1..1 are frozen"},
    {TRAIN, TRAIN ", \"loss\": [1, 1]", ":8: train.loss: has 2 weights for a loss over 1 scales"},
    {TRAIN, TRAIN ", \"loss\": [1, 0]", ":8: train.loss[1]: the last weight is 0"},
    {TRAIN, TRAIN ", \"loss\": \"mult\"", ":8: train.loss: \"mult\" is not one of"},
};

static void contradictions_are_told_with_their_numbers(void) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *text = edit(good, wrong[i].from, wrong[i].to);
        spec *s = NULL;
        err.text[0] = 0;
        CHECK(spec_parse("f.json", text, strlen(text), &s, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, wrong[i].says);
        CHECK(strncmp(err.text, "f.json:", 7) == 0 && !strchr(err.text, '\n'));
        spec_free(&s);
        free(text);
    }
}

static void heads_alone_of_tied_chains_are_refused(void) {
    char *tied = edit(good, MODEL, "\"context\": 128, \"tie\": \"all\"}");
    char *text = edit(tied, PAIR, PAIR ", \"only\": \"head\"");
    spec *s = NULL;
    CHECK(spec_parse("f", text, strlen(text), &s, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "f:18: arms.expand.stages[2].train.only: the head of chain 1 is tied to its embedding");
    spec_free(&s);
    free(text);
    free(tied);
    tied = edit(good, ADD, "{\"add\": [2], \"tie\": true}");
    text = edit(tied, TRAIN, TRAIN ", \"only\": \"head\"");
    CHECK(spec_parse("f", text, strlen(text), &s, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "f:8: train.only: the head of chain 2 is tied to its embedding");
    spec_free(&s);
    free(text);
    free(tied);
}

static void lack_of_memory_is_told_as_such(void) {
    char *text = edit(good, MODEL, "\"context\": 128, \"norm\": \"layer\", \"window\": 8, \"tie\": \"all\"}");
    fails_at_every_allocation(text);
    free(text);
}

int main(void) {
    TEST(every_member_of_a_family_is_read);
    TEST(an_arm_overrides_members_of_the_family);
    TEST(ties_and_scales);
    TEST(in_air_chain_1_owns_keys_and_values);
    TEST(one_chain_grows_as_either);
    TEST(losses);
    TEST(a_loss_has_one_canonical_form);
    TEST(switches_of_a_train_stage);
    TEST(contradictions_are_told_with_their_numbers);
    TEST(heads_alone_of_tied_chains_are_refused);
    TEST(lack_of_memory_is_told_as_such);
    return test_end();
}
