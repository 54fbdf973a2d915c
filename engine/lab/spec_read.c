#include "engine/lab/spec_read.h"

#include <stdlib.h>
#include <string.h>

static void put(const spec_field *f, double value, void *to) {
    char *at = (char *)to + f->at;
    uint32_t whole = (uint32_t)value;
    bool on = value != 0;
    if (f->type == SPEC_U32) memcpy(at, &whole, sizeof whole);
    if (f->type == SPEC_DOUBLE) memcpy(at, &value, sizeof value);
    if (f->type == SPEC_FLAG) memcpy(at, &on, sizeof on);
}

void spec_field_preset(const spec_field *f, void *to) {
    put(f, f->preset, to);
}

colm_status spec_field_read(const spec_field *f, json_value v, void *to, colm_err *err) {
    double value = 0;
    uint64_t whole = 0;
    size_t word = 0;
    bool on = false;
    colm_status s = COLM_OK;
    if (f->type == SPEC_DOUBLE) {
        s = json_read_double(v, f->least, f->most, &value, err);
    } else if (f->type == SPEC_U32) {
        s = json_read_u64(v, (uint64_t)f->least, (uint64_t)f->most, &whole, err);
        value = (double)whole;
    } else if (f->word) {
        s = json_read_word(v, f->word, 2, &word, err);
        value = (double)word;
    } else {
        s = json_read_bool(v, &on, err);
        value = on;
    }
    if (!s) put(f, value, to);
    return s;
}

void spec_field_add(const spec_field *f, const void *from, str *out) {
    const char *at = (const char *)from + f->at;
    uint32_t whole = 0;
    double value = 0;
    bool on = false;
    str_addf(out, "\"%s\":", f->key);
    if (f->type == SPEC_U32) {
        memcpy(&whole, at, sizeof whole);
        str_addf(out, "%u", whole);
    } else if (f->type == SPEC_FLAG) {
        memcpy(&on, at, sizeof on);
        str_addf(out, f->word ? "\"%s\"" : "%s", f->word ? f->word[on] : on ? "true" : "false");
    } else {
        memcpy(&value, at, sizeof value);
        str_add_double(out, value);
    }
}

colm_status spec_keys(json_value v, const char *const *keys, const spec_field *f, size_t n_fields,
                      colm_err *err) {
    colm_status s = json_read_object(v, err);
    if (s) return s;
    for (; *keys; keys++) json_get(v, *keys);
    for (size_t i = 0; i < n_fields; i++) json_get(v, f[i].key);
    return json_finish(v, err);
}

colm_status spec_name(json_value at, const char *what, const char *name, colm_err *err) {
    size_t n = strlen(name), good = 0;
    while (good < n && name[good] > ' ' && name[good] < 127 &&
           (strchr("_.-", name[good]) || (name[good] >= '0' && name[good] <= '9') ||
            ((name[good] | 32) >= 'a' && (name[good] | 32) <= 'z')))
        good++;
    if (n >= 1 && n <= 64 && good == n && !strchr(".-", name[0])) return COLM_OK;
    return json_fail(at, err,
                     "\"%.80s\" cannot be the name of %s: expected 1 to 64 of A-Z a-z 0-9 _ . - with neither . "
                     "nor - in front",
                     name, what);
}

colm_status spec_find(json_value at, const char *what, const char *name, spec_get *get, const void *list,
                      size_t n, uint32_t *ret, colm_err *err) {
    const char *names[SPEC_MAX_ARMS + SPEC_MAX_DATA + SPEC_MAX_TASKS] = {NULL};
    if (n > SPEC_COUNT(names)) n = SPEC_COUNT(names);
    for (size_t i = 0; i < n; i++) {
        names[i] = get(list, i);
        if (strcmp(names[i], name) != 0) continue;
        *ret = (uint32_t)i;
        return COLM_OK;
    }
    str known = {0};
    const char *near = err_nearest(name, names, n);
    for (size_t i = 0; i < n && !near; i++) str_addf(&known, "%s%s", i ? ", " : "; there are: ", names[i]);
    if (near) str_addf(&known, "; did you mean \"%s\"?", near);
    if (!n) str_add(&known, "; there are none");
    colm_status s = json_fail(at, err, "there is no %s \"%.80s\"%.300s", what, name,
                              known.text && !known.failed ? known.text : "");
    str_done(&known);
    return s;
}

colm_status spec_relay(json_value at, const colm_err *inner, colm_err *err) {
    if (inner->code == COLM_E_INPUT) return json_fail(at, err, "%s", inner->text);
    return err_set(err, inner->code, "%s", inner->text);
}

void *spec_alloc(spec_reader *r, size_t n, size_t size, colm_err *err) {
    void *p = arena_alloc(r->mem, n, size);
    if (!p) err_nomem(err, n * size, "the experiment");
    return p;
}

char *spec_copy(spec_reader *r, const char *text, colm_err *err) {
    char *p = arena_strdup(r->mem, text);
    if (!p) err_nomem(err, strlen(text) + 1, "the experiment");
    return p;
}

colm_status spec_keep(spec_reader *r, str *s, bool canonical, const char **ret, colm_err *err) {
    json_doc *doc = NULL;
    char *sorted = NULL;
    colm_status status = s->failed || !s->text ? err_nomem(err, s->len, "the experiment") : COLM_OK;
    if (canonical) {
        if (!status) status = json_open_text("canonical form", s->text, s->len, &doc, err);
        if (!status) status = json_canonical(json_root(doc), &sorted, err);
    }
    const char *kept = status ? NULL : spec_copy(r, canonical ? sorted : s->text, err);
    if (!status && !kept) status = COLM_E_MEMORY;
    if (!status) *ret = kept;
    free(sorted);
    json_close(&doc);
    str_done(s);
    return status;
}
