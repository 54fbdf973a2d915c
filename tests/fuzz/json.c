// json_open_text on damaged texts: never a crash, and what it takes is the same when read again from its own
// canonical text.
#include "engine/base/json.h"

#include "engine/base/log.h"
#include "tests/fuzz/mutate.h"
#include "tests/test.h"

#define CASES 200000
#define SECONDS 5

static const char *const seeds[] = {
    "{\"seed\":9007199254740993,\"a\":{\"stages\":[{\"grow\":{\"add\":[64,128]},\"lr\":1e-3},{}]}}",
    "[null,true,false,-0.5e+10,\"\\u00e9\\ud83d\\ude00\\n\",[[[]]],{\"\":{}},0]",
    "{\n  \"a\" : [ 1 , 2 ],\n  \"\xC3\xA9\" : \"\xF0\x9F\x98\x80\"\r\n}\n",
};
static const char *const parts[] = {"{",       "}",        "[",       "]",    ",",     ":",       "\"",
                                    "\\",      "\\u0000",  "\\ud800", "null", "1e308", "\"a\":1", "\"\":2",
                                    "1e-9999", "99999999", "\xEF",    "\xFF", "//",    "\n"};

// Every read of every value: wrong ones must fail with a text that names the place.
static size_t read_all(json_value v) {
    colm_err err = {0};
    uint64_t u;
    double d;
    bool b;
    const char *s;
    size_t word, bad = 0;
    json_kind kind = json_kind_of(v);
    bad += (json_read_double(v, -INFINITY, INFINITY, &d, &err) == COLM_OK) != (kind == JSON_NUMBER);
    bad += (json_read_bool(v, &b, &err) == COLM_OK) != (kind == JSON_BOOL);
    bad += (json_read_string(v, &s, &err) == COLM_OK) != (kind == JSON_STRING);
    bad += (json_read_object(v, &err) == COLM_OK) != (kind == JSON_OBJECT);
    bad += (json_read_array(v, 0, SIZE_MAX, &err) == COLM_OK) != (kind == JSON_ARRAY);
    bad += json_read_u64(v, 0, UINT64_MAX, &u, &err) == COLM_OK && kind != JSON_NUMBER;
    bad += json_read_word(v, parts, 4, &word, &err) == COLM_OK && kind != JSON_STRING;
    bad += kind != JSON_NUMBER && strncmp(err.text, "fuzz.json:", 10) != 0;
    if (kind == JSON_OBJECT && json_count(v)) bad += json_finish(v, &err) != COLM_E_INPUT;
    for (size_t i = 0; i < json_count(v); i++) {
        json_value child = kind == JSON_ARRAY ? json_item(v, i) : json_value_at(v, i);
        if (kind == JSON_OBJECT) bad += json_get(v, json_key_at(v, i)).node != child.node;
        bad += read_all(child);
    }
    if (kind == JSON_OBJECT) bad += json_finish(v, &err) != COLM_OK;
    return bad;
}

static bool consistent(json_doc *doc) {
    colm_err err = {0};
    json_doc *again = NULL;
    char *first = NULL, *second = NULL;
    bool same = json_canonical(json_root(doc), &first, &err) == COLM_OK &&
                json_open_text("again", first, strlen(first), &again, &err) == COLM_OK &&
                json_canonical(json_root(again), &second, &err) == COLM_OK && strcmp(first, second) == 0;
    if (!same) printf("# %s against %s: %s\n", first ? first : "-", second ? second : "-", err.text);
    free(first);
    free(second);
    json_close(&again);
    return same && read_all(json_root(doc)) == 0;
}

static void damaged_texts(void) {
    double start = clock_seconds();
    size_t taken = 0, refused = 0, i = 0;
    char text[4096];
    for (; i < CASES && clock_seconds() - start < SECONDS; i++) {
        dice d = {rng_open(i, "fuzz-json"), 0};
        const char *seed = seeds[dice_below(&d, sizeof seeds / sizeof *seeds)];
        memcpy(text, seed, strlen(seed));
        size_t n = mutate(&d, text, strlen(seed), sizeof text, parts, sizeof parts / sizeof *parts);
        // A block of just its size, so that a read past the end shows under a sanitizer.
        char *exact = malloc(n ? n : 1);
        memcpy(exact, text, n);
        json_doc *doc = NULL;
        colm_err err = {0};
        colm_status s = json_open_text("fuzz.json", exact, n, &doc, &err);
        bool good = s == COLM_OK ? consistent(doc)
                                 : s == COLM_E_INPUT && !doc && strncmp(err.text, "fuzz.json:", 10) == 0;
        if (!good && !CHECK(!"consistent")) printf("# case %zu: %.*s\n", i, (int)n, text);
        *(s ? &refused : &taken) += 1;
        json_close(&doc);
        free(exact);
    }
    printf("# %zu cases: %zu taken, %zu refused\n", i, taken, refused);
    CHECK(i > 1000 && taken > i / 50 && refused > i / 4);
}

// What comes from nowhere: bytes without a plan.
static void random_bytes(void) {
    size_t bad = 0;
    for (size_t i = 0; i < 5000; i++) {
        dice d = {rng_open(i, "fuzz-bytes"), 0};
        size_t n = dice_below(&d, 40);
        char *exact = malloc(n ? n : 1);
        static const char alphabet[] = "{}[],:\"\\0123456789.eE+-truefalsn u\n\xC3\xA9";
        for (size_t k = 0; k < n; k++) exact[k] = alphabet[dice_below(&d, sizeof alphabet)];
        json_doc *doc = NULL;
        colm_err err = {0};
        if (json_open_text("fuzz.json", exact, n, &doc, &err) == COLM_OK) bad += !consistent(doc);
        json_close(&doc);
        free(exact);
    }
    CHECK(bad == 0);
}

int main(void) {
    TEST(damaged_texts);
    TEST(random_bytes);
    return test_end();
}
