#include "engine/lab/spec.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/lab/spec_read.h"

#define VERSION 1
#define FILE_MOST ((size_t)16 << 20)

/* What spec_free frees; the public part comes first. */
typedef struct {
    spec out;
    arena mem;
} box;

static const char *const top_keys[] = {"colm",  "name",  "about", "seeds", "seed",      "tokenizer", "data",
                                       "model", "train", "tasks", "arms",  "precision", NULL};

static colm_status read_version(spec_reader *r, colm_err *err) {
    json_value v = {0};
    uint64_t version = 0;
    colm_status s = json_need(r->root, "colm", &v, err);
    if (!s) s = json_read_u64(v, 1, UINT32_MAX, &version, err);
    if (s || version == VERSION) return s;
    return json_fail(v, err, "the file is written for version %llu of experiment files, this program reads %d",
                     (unsigned long long)version, VERSION);
}

static colm_status read_titles(spec_reader *r, colm_err *err) {
    json_value v = {0};
    const char *name = NULL, *about = "";
    colm_status s = json_need(r->root, "name", &v, err);
    if (!s) s = json_read_string(v, &name, err);
    if (!s) s = spec_name(v, "the experiment", name, err);
    if (!s) s = json_opt_string(r->root, "about", &about, err);
    if (s) return s;
    r->out->name = spec_copy(r, name, err);
    r->out->about = spec_copy(r, about, err);
    return r->out->name && r->out->about ? COLM_OK : COLM_E_MEMORY;
}

static colm_status read_seeds(spec_reader *r, colm_err *err) {
    json_value one = json_get(r->root, "seed"), all = json_get(r->root, "seeds");
    spec *o = r->out;
    colm_status s = COLM_OK;
    if (one.doc && all.doc) return json_fail(one, err, "\"seed\" and \"seeds\" are both given: keep one");
    if (all.doc) s = json_read_array(all, 1, SPEC_MAX_SEEDS, err);
    if (s) return s;
    o->n_seeds = all.doc ? (uint32_t)json_count(all) : 1;
    o->seed = spec_alloc(r, o->n_seeds, sizeof *o->seed, err);
    if (!o->seed) return COLM_E_MEMORY;
    o->seed[0] = 1;
    for (uint32_t i = 0; i < o->n_seeds && !s; i++) {
        json_value v = all.doc ? json_item(all, i) : one;
        if (v.doc) s = json_read_u64(v, 0, SPEC_MAX_SEED, &o->seed[i], err);
        for (uint32_t k = 0; k < i && !s; k++)
            if (o->seed[k] == o->seed[i])
                s = json_fail(v, err, "seed %llu is given twice", (unsigned long long)o->seed[i]);
    }
    return s;
}

static colm_status read_tokenizer(spec_reader *r, colm_err *err) {
    const char *name = "bytes";
    tokenizer *t = NULL;
    colm_err inner;
    colm_status s = json_opt_string(r->root, "tokenizer", &name, err);
    if (s) return s;
    s = tokenizer_open(name, &t, &inner);
    if (s) return spec_relay(json_get(r->root, "tokenizer"), &inner, err);
    r->vocab = tokenizer_vocab(t);
    tokenizer_close(&t);
    r->out->tokenizer = spec_copy(r, name, err);
    return r->out->tokenizer ? COLM_OK : COLM_E_MEMORY;
}

colm_status spec_precision_read(json_value obj, model_precision *io, colm_err *err) {
    json_value v = json_get(obj, "precision");
    size_t word = *io;
    colm_status s = v.doc ? json_read_word(v, model_precision_name, PRECISIONS, &word, err) : COLM_OK;
    if (!s) *io = (model_precision)word;
    return s;
}

static colm_status read_digest(spec_reader *r, colm_err *err) {
    char *text = NULL;
    colm_status s = json_canonical(r->root, &text, err);
    if (!s) hash_bytes(text, strlen(text), r->out->digest);
    free(text);
    return s;
}

static colm_status read_file(spec_reader *r, colm_err *err) {
    colm_status s = spec_keys(r->root, top_keys, NULL, 0, err);
    if (!s) s = read_version(r, err);
    if (!s) s = read_titles(r, err);
    if (!s) s = read_seeds(r, err);
    if (!s) s = read_tokenizer(r, err);
    if (!s) s = spec_precision_read(r->root, &r->precision, err);
    if (!s) s = spec_data_read(r, err);
    if (!s) s = spec_tasks_read(r, err);
    if (!s) s = spec_train_read(r, err);
    if (!s) s = spec_arms_read(r, err);
    if (!s) s = read_digest(r, err);
    return s;
}

colm_status spec_parse(const char *path, const char *text, size_t n, spec **ret, colm_err *err) {
    json_doc *doc = NULL;
    spec *out = NULL;
    spec_reader r = {0};
    char *copy = NULL;
    colm_status s = json_open_text(path, text, n, &doc, err);
    if (s) return s;
    box *b = mem_alloc(1, sizeof *b);
    if (!b) {
        s = err_nomem(err, sizeof *b, path);
        goto out;
    }
    out = &b->out;
    r = (spec_reader){.out = out, .mem = &b->mem, .root = json_root(doc)};
    out->path = spec_copy(&r, path, err);
    out->text = copy = spec_alloc(&r, n + 1, 1, err);
    if (!out->path || !copy) {
        s = COLM_E_MEMORY;
        goto out;
    }
    memcpy(copy, text, n);
    s = read_file(&r, err);
out:
    json_close(&doc);
    if (s) {
        spec_free(&out);
    } else {
        *ret = out;
    }
    return s;
}

colm_status spec_load(const char *path, spec **ret, colm_err *err) {
    char *text = NULL;
    size_t n = 0;
    colm_status s = file_read(path, FILE_MOST, &text, &n, err);
    if (!s) s = spec_parse(path, text, n, ret, err);
    free(text);
    return s;
}

void spec_free(spec **s) {
    if (!*s) return;
    box *b = (box *)*s;
    arena_done(&b->mem);
    free(b);
    *s = NULL;
}

int spec_arm_index(const spec *s, const char *name) {
    for (uint32_t i = 0; i < s->n_arms; i++)
        if (strcmp(s->arm[i].name, name) == 0) return (int)i;
    return -1;
}
