#include "engine/model/family.h"

#include <stddef.h>
#include <string.h>

typedef enum { WORD, FLAG, REAL, COUNT } field_type;
typedef struct {
    const char *key;
    field_type type;
    size_t at;
    const char *word[5]; /* ended by NULL */
    double least, most;  /* of a number; 0 is always allowed */
} field;

#define AT(member) offsetof(model_family, member)
static const field fields[] = {
    {"norm", WORD, AT(norm), {"rms", "rms_plus_one", "layer"}, 0, 0},
    {"activation", WORD, AT(ffn), {"swiglu", "geglu", "gelu", "gelu_erf"}, 0, 0},
    {"position", WORD, AT(position), {"rope", "learned"}, 0, 0},
    {"rope_scaling", WORD, AT(rope_scaling), {"plain", "linear", "llama3"}, 0, 0},
    {"kv", WORD, AT(kv), {"own", "grouped", "tiled"}, 0, 0},
    {"head", WORD, AT(head), {"nested", "separate"}, 0, 0},
    {"bias_qkv", FLAG, AT(bias_qkv), {0}, 0, 0},
    {"bias_o", FLAG, AT(bias_o), {0}, 0, 0},
    {"bias_ffn", FLAG, AT(bias_ffn), {0}, 0, 0},
    {"qk_norm", FLAG, AT(qk_norm), {0}, 0, 0},
    {"post_norms", FLAG, AT(post_norms), {0}, 0, 0},
    {"rope_factor", REAL, AT(rope_factor), {0}, 1e-3, 1e6},
    {"rope_low", REAL, AT(rope_low), {0}, 1e-3, 1e6},
    {"rope_high", REAL, AT(rope_high), {0}, 1e-3, 1e6},
    {"rope_original", COUNT, AT(rope_original), {0}, 1, 1 << 24},
    {"attn_softcap", REAL, AT(attn_softcap), {0}, 1e-3, 1e6},
    {"logit_softcap", REAL, AT(logit_softcap), {0}, 1e-3, 1e6},
    {"window", COUNT, AT(window), {0}, 1, 1 << 24},
    {"window_every", COUNT, AT(window_every), {0}, 1, 512},
};
#define N_FIELDS (sizeof fields / sizeof *fields)

static size_t count_words(const field *f) {
    size_t n = 0;
    while (f->word[n]) n++;
    return n;
}

static colm_status read_one(const field *f, json_value v, model_family *io, colm_err *err) {
    char *to = (char *)io + f->at;
    colm_status st = COLM_OK;
    size_t word;
    uint64_t count;
    double real;
    switch (f->type) {
    case WORD:
        st = json_read_word(v, f->word, count_words(f), &word, err);
        if (!st) *(uint32_t *)to = (uint32_t)word;
        break;
    case FLAG:
        st = json_read_bool(v, (bool *)to, err);
        break;
    case COUNT:
        st = json_read_u64(v, 0, (uint64_t)f->most, &count, err);
        if (!st) *(uint32_t *)to = (uint32_t)count;
        break;
    case REAL:
        st = json_read_double(v, 0, f->most, &real, err);
        if (!st && real != 0 && real < f->least)
            st = json_fail(v, err, "%g is neither 0 nor at least %g", real, f->least);
        if (!st) *(double *)to = real;
        break;
    }
    return st;
}

colm_status model_family_read_member(size_t i, json_value v, model_family *io, colm_err *err) {
    return read_one(&fields[i], v, io, err);
}

colm_status model_family_read(json_value object, model_family *io, colm_err *err) {
    for (size_t i = 0; i < N_FIELDS; i++) {
        json_value v = json_get(object, fields[i].key);
        colm_status st = v.doc ? read_one(&fields[i], v, io, err) : COLM_OK;
        if (st) return st;
    }
    return COLM_OK;
}

void model_family_add(const model_family *f, str *out) {
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *from = (const char *)f + fields[i].at;
        str_addf(out, ",\"%s\":", fields[i].key);
        switch (fields[i].type) {
        case WORD:
            str_addf(out, "\"%s\"", fields[i].word[*(const uint32_t *)from]);
            break;
        case FLAG:
            str_add(out, *(const bool *)from ? "true" : "false");
            break;
        case COUNT:
            str_addf(out, "%u", *(const uint32_t *)from);
            break;
        case REAL:
            str_add_double(out, *(const double *)from);
            break;
        }
    }
}

const char *model_family_key(size_t i) {
    return i < N_FIELDS ? fields[i].key : NULL;
}

bool model_family_equal(const model_family *a, const model_family *b) {
    for (size_t i = 0; i < N_FIELDS; i++) {
        static const size_t size[] = {[WORD] = sizeof(uint32_t),
                                      [FLAG] = sizeof(bool),
                                      [REAL] = sizeof(double),
                                      [COUNT] = sizeof(uint32_t)};
        if (memcmp((const char *)a + fields[i].at, (const char *)b + fields[i].at, size[fields[i].type]))
            return false;
    }
    return true;
}
