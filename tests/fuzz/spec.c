// spec_parse on damaged experiment files: never a crash; what is refused is told with a place; what is taken
// keeps the promises of spec.h.
#include "engine/lab/spec.h"

#include "engine/base/log.h"
#include "tests/fuzz/mutate.h"
#include "tests/test.h"

#define CASES 60000
#define SECONDS 3
#define ROOM 4096

static const char good[] =
    "{\"colm\":1,\"name\":\"n\",\"seeds\":[1,2],\n"
    "\"data\":{\"a\":{\"text\":[\"x\",\"y\"],\"heldout\":0.1},\"b\":{\"text\":\"z\",\"split_on\":\"^=\","
    "\"seed\":3}},\n"
    "\"model\":{\"layers\":4,\"width\":64,\"ffn\":176,\"chains\":[4],\"kv_heads\":2,\"context\":128,\n"
    "\"norm\":\"rms\",\"activation\":\"geglu\",\"tie\":\"none\",\"window\":8,\"window_every\":2,\"head\":"
    "\"nested\","
    "\"rope_scaling\":\"linear\",\"rope_factor\":2,\"embed_scale\":8},\n"
    "\"train\":{\"batch\":8,\"lr\":2e-3,\"warmup\":4,\"accumulate\":2,\"only\":\"all\",\"loss\":\"multi\"},\n"
    "\"tasks\":{\"c\":{\"cloze\":\"a\",\"items\":7},\"p\":{\"bits_per_byte\":\"b\"},\"q\":{\"choice\":\"q\"}},"
    "\n"
    "\"arms\":{\"g\":{\"from\":\"o\",\"stages\":[{\"grow\":{\"add\":[2],\"freeze\":1,"
    "\"kv\":\"grouped\",\"tie\":false}},\n"
    "{\"train\":{\"on\":{\"a\":1,\"b\":2},\"tokens\":600,\"context\":64,\"loss\":{\"scale\":2,"
    "\"weights\":[0,2]},\"documents\":\"masked\",\"recompute\":true}},{\"eval\":{\"tasks\":[\"p\"]}}]},\n"
    "\"o\":{\"stages\":[{\"train\":{\"on\":[\"a\"],\"tokens\":50}},{\"eval\":{}}]},\n"
    "\"s\":{\"model\":{\"chains\":[{\"width\":8,\"heads\":2,\"ffn\":9,\"tied\":true}],\"head_dim\":4},\n"
    "\"stages\":[{\"grow\":{\"add\":[{\"width\":4,\"heads\":1,\"ffn\":3}]}}]}}}";
static const char *const parts[] = {"0",
                                    "1",
                                    "2",
                                    "4",
                                    "3.5",
                                    "-1",
                                    "1e300",
                                    "65536",
                                    "4294967295",
                                    "4294967296",
                                    "null",
                                    "{}",
                                    "[]",
                                    "true",
                                    "\"a\"",
                                    "\"g\"",
                                    "\"s\"",
                                    "\"\"",
                                    "[2,2]",
                                    "{\"a\":1}",
                                    "\"tiled\"",
                                    "\"own\"",
                                    "\"separate\"",
                                    "\"learned\"",
                                    "\"layer\"",
                                    "\"llama3\"",
                                    "\"head\"",
                                    "\"full\"",
                                    "{\"scale\":1}",
                                    "\"all\"",
                                    "\"first\"",
                                    "\"freeze\"",
                                    "\"grow\"",
                                    "\"from\"",
                                    "\"stages\"",
                                    "\"chains\"",
                                    "18446744073709551615",
                                    "9223372036854775807",
                                    "[\"a\",\"b\"]"};

// Length of the string, number or word that begins at text[0..n), 0 for punctuation.
static size_t token_at(const char *text, size_t n) {
    size_t len = 0;
    if (n && *text == '"') {
        const char *end = memchr(text + 1, '"', n - 1);
        return end ? (size_t)(end - text) + 1 : n;
    }
    while (len < n && !strchr("{}[]:,\" \n", text[len])) len++;
    return len;
}

// Puts another value, of the file's own or a part, in the place of one: most results are still JSON.
static size_t replace(dice *d, char *text, size_t n, size_t cap) {
    for (size_t times = 1 + dice_below(d, 3); times; times--) {
        size_t at[512], count = 0;
        for (size_t i = 0; i < n && count < 512;) {
            size_t len = token_at(text + i, n - i);
            if (len) at[count++] = i;
            i += len ? len : 1;
        }
        if (!count) return n;
        size_t to = at[dice_below(d, count)], from = at[dice_below(d, count)];
        size_t old = token_at(text + to, n - to), len = token_at(text + from, n - from);
        char copy[ROOM];
        if (dice_below(d, 2)) {
            const char *part = parts[dice_below(d, sizeof parts / sizeof *parts)];
            len = strlen(part);
            memcpy(copy, part, len);
        } else {
            memcpy(copy, text + from, len);
        }
        if (n - old + len > cap) continue;
        memmove(text + to + len, text + to + old, n - to - old);
        memcpy(text + to, copy, len);
        n = n - old + len;
    }
    return n;
}

/* Something trains, and what trains alone is not tied. */
static bool loss_sound(const model_config *c, const train_params *p) {
    uint32_t scale = p->scale ? p->scale : c->n_chains;
    double sum = 0;
    bool ok = p->accumulate >= 1 && p->accumulate <= 4096 && p->scale < c->n_chains && p->frozen < scale;
    for (uint32_t i = 0; i < MODEL_MAX_CHAINS; i++) {
        ok = ok && p->lambda[i] >= 0 && p->lambda[i] <= 1e6 && (i < scale || p->lambda[i] == 0);
        ok = ok && !(p->head_only && i >= p->frozen && i < scale && c->chain[i].tied);
        sum += p->lambda[i];
    }
    return ok && (sum == 0 || p->lambda[scale - 1] > 0);
}

static bool stage_sound(const spec *s, const spec_stage *st) {
    colm_err err = {0};
    json_doc *doc = NULL;
    bool ok = model_config_check(&st->model, &err) == COLM_OK && st->canonical && st->line > 0 &&
              st->frozen < st->model.n_chains;
    ok = ok && json_open_text("c", st->canonical, strlen(st->canonical), &doc, &err) == COLM_OK;
    json_close(&doc);
    if (st->kind == SPEC_TRAIN) {
        const train_params *p = &st->train;
        ok = ok && p->batch && p->context && p->context <= st->model.context && p->tokens && p->lr > 0 &&
             p->log_every && p->frozen < st->model.n_chains && st->n_parts >= 1 && st->n_parts <= 16;
        ok = ok && loss_sound(&st->model, p);
        for (uint32_t i = 0; ok && i < st->n_parts; i++)
            ok = st->part[i].data < s->n_data && st->part[i].weight > 0;
    }
    if (st->kind == SPEC_EVAL) {
        ok = ok && st->n_tasks >= 1 && st->n_tasks <= s->n_tasks;
        for (uint32_t i = 0; ok && i < st->n_tasks; i++) ok = st->task[i] < s->n_tasks;
    }
    return ok;
}

static bool sound(const spec *s) {
    bool ok = s->n_seeds >= 1 && s->n_data >= 1 && s->n_arms >= 1;
    for (uint32_t i = 0; ok && i < s->n_tasks; i++)
        ok = s->task[i].data < (int)s->n_data && (s->task[i].data >= 0) != (s->task[i].task.file != NULL);
    for (uint32_t i = 0; ok && i < s->n_arms; i++) {
        const spec_arm *a = &s->arm[i];
        ok = a->from < (int)i && a->n_stages >= 1 && spec_arm_index(s, a->name) == (int)i;
        for (uint32_t k = 0; ok && k < a->n_stages; k++) ok = stage_sound(s, &a->stage[k]);
    }
    return ok;
}

static void damaged_files(void) {
    double start = clock_seconds();
    size_t taken = 0, refused = 0, i = 0;
    char text[ROOM];
    for (; i < CASES && clock_seconds() - start < SECONDS; i++) {
        dice d = {rng_open(i, "fuzz-spec"), 0};
        size_t n = strlen(good);
        memcpy(text, good, n);
        if (i) n = replace(&d, text, n, sizeof text);
        if (i % 4 == 3) n = mutate(&d, text, n, sizeof text, parts, sizeof parts / sizeof *parts);
        // A block of just its size, so that a read past the end shows under a sanitizer.
        char *exact = malloc(n ? n : 1);
        memcpy(exact, text, n);
        spec *s = NULL;
        colm_err err = {0};
        colm_status status = spec_parse("fuzz.json", exact, n, &s, &err);
        bool ok = status ? status == COLM_E_INPUT && !s && strncmp(err.text, "fuzz.json:", 10) == 0 : sound(s);
        if (!ok && !CHECK(!"sound")) printf("# case %zu: %d %s\n# %.*s\n", i, status, err.text, (int)n, text);
        *(status ? &refused : &taken) += 1;
        spec_free(&s);
        free(exact);
    }
    printf("# %zu cases: %zu taken, %zu refused\n", i, taken, refused);
    CHECK(i > 100 && taken > i / 100 && refused > i / 4);
}

int main(void) {
    TEST(damaged_files);
    return test_end();
}
