/* The files beside the code: the reader, the examples, the schema and the README know the same keys. */
#include "engine/base/file.h"
#include "tests/lab/spec_text.h"

static const char *root = ".";

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
    {"\"tokens\": 6000", "\"tokens\": 6000, \"loss\": {\"@\": 0}", "loss"},
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
        if (strcmp(places[i].schema, "loss") == 0) object = json_item(json_get(object, "anyOf"), 2);
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

/* Defaults that the canonical form says in other words (per chain, by weights), or not at all: they decide no
 * result. */
static const char *const restated[] = {"tie", "loss", "log_every", "recompute"};

static bool is_restated(const char *key) {
    bool found = false;
    for (size_t i = 0; i < sizeof restated / sizeof *restated; i++)
        found = found || strcmp(key, restated[i]) == 0;
    return found;
}

/* Where the canonical form of a stage has a key of the schema's groups "train" and "model". */
static json_value filled(json_value stage, const char *group, const char *key) {
    json_value in = json_get(stage, group), v = json_get(in, key);
    return v.doc ? v : json_get(json_item(json_get(in, "chains"), 0), key);
}

static void same_value(json_value got, json_value want, const char *key) {
    double x = NAN, y = NAN;
    char *a = NULL, *b = NULL;
    if (json_kind_of(want) == JSON_NUMBER) { // which can be written in several ways
        CHECK_OK(json_read_double(want, -INFINITY, INFINITY, &y, &err), err);
        CHECK_OK(json_read_double(got, -INFINITY, INFINITY, &x, &err), err);
        CHECK_NEAR(x, y, 0);
        return;
    }
    if (!CHECK(got.doc)) {
        printf("#   canonical form lacks \"%s\"\n", key);
        return;
    }
    CHECK_OK(json_canonical(got, &a, &err), err);
    CHECK_OK(json_canonical(want, &b, &err), err);
    CHECK_STR(a, b);
    free(a);
    free(b);
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
    static const struct {
        const char *group;
        size_t least; // keys with a default
    } row[] = {{"train", 12}, {"model", 23}};
    for (size_t g = 0; g < 2; g++) {
        json_value keys = json_get(json_get(json_get(json_root(doc), "$defs"), row[g].group), "properties");
        size_t n = 0;
        for (size_t k = 0; k < json_count(keys); k++) {
            const char *key = json_key_at(keys, k);
            json_value preset = json_get(json_value_at(keys, k), "default");
            if (!preset.doc || is_restated(key)) continue;
            n++;
            same_value(filled(json_root(stage), row[g].group, key), preset, key);
        }
        if (!CHECK(n >= row[g].least)) printf("#   %s: %zu keys have a default\n", row[g].group, n);
    }
out:
    json_close(&stage);
    json_close(&doc);
    spec_free(&s);
    free(schema);
}

int main(int argc, char **argv) {
    if (argc > 1) root = argv[1];
    TEST(experiments_of_this_tree_are_sound);
    TEST(schema_readme_and_example_name_the_keys_that_are_read);
    TEST(schema_has_the_defaults_that_are_filled);
    return test_end();
}
