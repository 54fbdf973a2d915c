/* Wrong experiment files: every error in one line, with its place, what it found and what to do. */
#include "engine/base/mem.h"
#include "tests/lab/spec_text.h"

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
    {"\"small\"", "\"small\", \"precision\": \"fp16\"",
     ":2: precision: \"fp16\" is not one of \"f32\", \"bf16\", \"f16\""},
    {"\"small\"", "\"small\", \"precision\": 16", ":2: precision: 16 is not one of"},
    {"\"small\"", "\"small\", \"precison\": \"f16\"",
     ":2: unknown key \"precison\"; did you mean \"precision\"?"},
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
     ":7: model.head_dim: head_dim is 15, expected an even number"},
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
    {"\"from\": \"base\"", "\"from\": \"base\", \"precision\": \"bf\"",
     ":15: arms.expand.precision: \"bf\" is not one of"},
    {"\"batch\": 8", "\"batch\": 8, \"precision\": \"f16\"", ":8: train: unknown key \"precision\""},
    {"\"layers\": 4", "\"layers\": 4, \"precision\": \"f16\"", ":7: model: unknown key \"precision\""},
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
              "f:8: train.batch: batch 257 x context 65536 is 16842752 tokens at a time, at most 16777216");
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
    fails_at_every_allocation(good);
}

int main(void) {
    TEST(a_wrong_file_is_told_where_what_and_what_else);
    TEST(a_step_too_large_is_refused);
    TEST(a_file_without_tasks_has_nothing_to_eval);
    TEST(a_missing_file_is_an_error);
    TEST(lack_of_memory_is_an_error_at_any_point);
    return test_end();
}
