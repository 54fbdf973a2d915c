// safetensors_open on damaged files: never a crash, and what it takes covers its data once and reads back after
// a rewrite.
#include "engine/tensor/safetensors.h"

#include "engine/base/log.h"
#include "tests/base/folder.h"
#include "tests/fuzz/mutate.h"
#include "tests/test.h"

#define CASES 6000
#define SECONDS 5

static const char *const seeds[] = {
    "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[16,24]}}  ",
    "{\"x\":{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]},\"y\":{\"dtype\":\"I64\",\"shape\":[0],"
    "\"data_offsets\":[24,24]}}",
    "{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},\"t\":{\"dtype\":\"F16\",\"shape\":[2,2,2],"
    "\"data_offsets\":[8,24]}}",
};
static const char *const parts[] = {"0",          "1",
                                    "2",          "18446744073709551615",
                                    "4294967296", "\"F32\"",
                                    "\"U8\"",     "[]",
                                    "[0,0]",      "{}",
                                    ",\"c\":{}",  "\"dtype\":\"U8\"",
                                    "-",          "\"__metadata__\":{},",
                                    "\xFF",       "[0,8]",
                                    "[8,24]"};

// Reads every byte of every tensor; counts what contradicts the promises of the header file.
static size_t contradictions(const safetensors *s, const char *data, size_t data_n) {
    size_t bad = 0, covered = 0;
    for (size_t i = 0; i < safetensors_count(s); i++) {
        const safetensors_entry *e = safetensors_at(s, i);
        bad += e->bytes != tensor_elems(&e->shape) * tensor_dtype_size(e->dtype);
        bad += covered + e->bytes > data_n || memcmp(e->data, data + covered, e->bytes) != 0;
        bad += safetensors_find(s, e->name) != e;
        covered += e->bytes;
    }
    return bad + (covered != data_n);
}

static bool survives_rewriting(const safetensors *s) {
    safetensors_decl decl[64];
    safetensors_writer *w = NULL;
    safetensors *again = NULL;
    colm_err err = {0};
    size_t n = safetensors_count(s);
    bool same = n <= 64;
    for (size_t i = 0; i < n && same; i++) {
        const safetensors_entry *e = safetensors_at(s, i);
        decl[i] = (safetensors_decl){e->name, e->dtype, e->shape};
    }
    const char *path = folder_at("rewritten");
    same = same && safetensors_writer_open(path, decl, n, NULL, 0, &w, &err) == COLM_OK;
    for (size_t i = 0; i < n && same; i++) {
        same = safetensors_writer_data(w, safetensors_at(s, i)->data, safetensors_at(s, i)->bytes, &err) ==
               COLM_OK;
    }
    same = same && safetensors_writer_commit(&w, &err) == COLM_OK &&
           safetensors_open(path, &again, &err) == COLM_OK;
    same = same && safetensors_count(again) == n;
    for (size_t i = 0; i < n && same; i++) {
        const safetensors_entry *a = safetensors_at(s, i), *b = safetensors_at(again, i);
        same = strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && memcmp(a->data, b->data, a->bytes) == 0;
    }
    if (!same) printf("# %s\n", err.text);
    safetensors_writer_abandon(&w);
    safetensors_close(&again);
    return same;
}

static void damaged_files(void) {
    double start = clock_seconds();
    size_t taken = 0, refused = 0, rewritten = 0, i = 0;
    char bytes[4096];
    for (; i < CASES && clock_seconds() - start < SECONDS; i++) {
        dice d = {rng_open(i, "fuzz-safetensors"), 0};
        const char *seed = seeds[dice_below(&d, sizeof seeds / sizeof *seeds)];
        size_t n = strlen(seed), data_n = 24;
        memcpy(bytes + 8, seed, n);
        if (dice_below(&d, 8)) n = mutate(&d, bytes + 8, n, 2048, parts, sizeof parts / sizeof *parts);
        for (size_t k = 0; k < 8; k++) bytes[k] = (char)((uint64_t)n >> 8 * k & 0xFF);
        for (size_t k = 0; k < data_n; k++) bytes[8 + n + k] = (char)(100 + k);
        size_t total = 8 + n + data_n;
        if (dice_below(&d, 8) == 0) bytes[dice_below(&d, 8)] = (char)dice_below(&d, 256);
        if (dice_below(&d, 16) == 0) total = dice_below(&d, total + 1);
        uint64_t header_n = 0;
        for (int k = 8; k--;) header_n = header_n << 8 | (unsigned char)bytes[k];
        safetensors *s = NULL;
        colm_err err = {0};
        colm_status st = safetensors_open(folder_put("case", bytes, total), &s, &err);
        bool good = st == COLM_E_INPUT && !s && strncmp(err.text, folder_path, strlen(folder_path)) == 0;
        if (st == COLM_OK) good = contradictions(s, bytes + 8 + header_n, total - 8 - (size_t)header_n) == 0;
        // Rewriting syncs to the disk: a few will do.
        if (st == COLM_OK && good && taken % 20 == 0 && rewritten < 8) {
            good = survives_rewriting(s);
            rewritten++;
        }
        if (!good && !CHECK(!"consistent")) printf("# case %zu: status %d %s\n", i, (int)st, err.text);
        *(st ? &refused : &taken) += 1;
        safetensors_close(&s);
    }
    printf("# %zu cases: %zu taken, %zu refused, %zu rewritten\n", i, taken, refused, rewritten);
    CHECK(i > 100 && taken > i / 50 && refused > i / 4 && rewritten > 0);
}

int main(void) {
    folder_make();
    TEST(damaged_files);
    folder_remove();
    return test_end();
}
