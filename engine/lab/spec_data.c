/* "data" and "tasks": corpora and what is measured on them. */
#include <string.h>

#include "engine/lab/spec_read.h"

#define BYTES_MOST ((uint64_t)1 << 40)
#define ITEMS_MOST 1000000u
#define TEXTS_MOST 1024

static const char *const data_keys[] = {"text", "split_on", "heldout", "max_bytes", "seed", NULL};

/* Folder of the experiment file: where relative paths start. */
static const char *folder_of(spec_reader *r, colm_err *err) {
    const char *path = r->out->path, *slash = strrchr(path, '/');
    if (!slash) return spec_copy(r, ".", err);
    size_t n = slash == path ? 1 : (size_t)(slash - path);
    char *folder = spec_alloc(r, n + 1, 1, err);
    if (folder) memcpy(folder, path, n);
    return folder;
}

static colm_status read_path(spec_reader *r, json_value v, const char **ret, colm_err *err) {
    const char *text = NULL;
    colm_status s = json_read_string(v, &text, err);
    if (s) return s;
    if (!*text) return json_fail(v, err, "\"\" names no file");
    *ret = spec_copy(r, text, err);
    return *ret ? COLM_OK : COLM_E_MEMORY;
}

static colm_status read_text(spec_reader *r, json_value v, corpus_params *p, colm_err *err) {
    bool list = json_kind_of(v) != JSON_STRING;
    colm_status s = list ? json_read_array(v, 1, TEXTS_MOST, err) : COLM_OK;
    if (s) return s;
    p->n_text = list ? json_count(v) : 1;
    const char **text = spec_alloc(r, p->n_text, sizeof *text, err);
    if (!text) return COLM_E_MEMORY;
    for (size_t i = 0; i < p->n_text && !s; i++) s = read_path(r, list ? json_item(v, i) : v, &text[i], err);
    p->text = text;
    return s;
}

static colm_status read_heldout(json_value obj, double *io, colm_err *err) {
    json_value v = json_get(obj, "heldout");
    colm_status s = json_opt_double(obj, "heldout", 0, 1, io, err);
    if (s || (*io > 0 && *io < 1)) return s;
    return json_fail(v, err, "%g holds out %s: expected a fraction between 0 and 1, such as 0.1", *io,
                     *io > 0 ? "everything" : "nothing");
}

static colm_status data_json(spec_reader *r, const corpus_params *p, const char **ret, colm_err *err) {
    str out = {0};
    str_add(&out, "{\"text\":[");
    for (size_t i = 0; i < p->n_text; i++) {
        if (i) str_add(&out, ",");
        str_add_json(&out, p->text[i]);
    }
    str_add(&out, "],\"split_on\":");
    if (p->split_on) {
        str_add_json(&out, p->split_on);
    } else {
        str_add(&out, "null");
    }
    str_add(&out, ",\"heldout\":");
    str_add_double(&out, p->heldout);
    str_addf(&out, ",\"max_bytes\":%llu,\"seed\":%llu}", (unsigned long long)p->max_bytes,
             (unsigned long long)p->seed);
    return spec_keep(r, &out, false, ret, err);
}

static colm_status read_data(spec_reader *r, json_value v, const char *name, const char *base_dir,
                             corpus_params *ret, const char **ret_json, colm_err *err) {
    corpus_params p = {.base_dir = base_dir, .heldout = 0.1};
    const char *split_on = NULL;
    json_value text = {0}, split = {0};
    colm_err inner;
    colm_status s = spec_name(v, "a data set", name, err);
    if (!s) s = spec_keys(v, data_keys, NULL, 0, err);
    if (!s) s = json_need(v, "text", &text, err);
    if (!s) s = read_text(r, text, &p, err);
    if (s) return s;
    split = json_get(v, "split_on");
    if (split.doc && json_kind_of(split) != JSON_NULL) s = json_read_string(split, &split_on, err);
    if (!s && split_on && !*split_on)
        s = json_fail(split, err, "an empty pattern matches everywhere: write null for one document a file");
    if (!s && split_on && corpus_check_pattern(split_on, &inner)) s = spec_relay(split, &inner, err);
    if (!s) s = read_heldout(v, &p.heldout, err);
    if (!s) s = json_opt_u64(v, "max_bytes", 0, BYTES_MOST, &p.max_bytes, err);
    if (!s) s = json_opt_u64(v, "seed", 0, SPEC_MAX_SEED, &p.seed, err);
    if (s) return s;
    p.name = spec_copy(r, name, err);
    if (split_on) p.split_on = spec_copy(r, split_on, err);
    if (!p.name || (split_on && !p.split_on)) return COLM_E_MEMORY;
    *ret = p;
    return data_json(r, &p, ret_json, err);
}

colm_status spec_data_read(spec_reader *r, colm_err *err) {
    json_value all = {0};
    spec *o = r->out;
    colm_status s = json_need(r->root, "data", &all, err);
    if (!s) s = json_read_object(all, err);
    if (s) return s;
    size_t n = json_count(all);
    if (n < 1 || n > SPEC_MAX_DATA)
        return json_fail(all, err, "has %zu data sets, expected 1 to %d", n, SPEC_MAX_DATA);
    const char *folder = folder_of(r, err);
    o->data = spec_alloc(r, n, sizeof *o->data, err);
    r->data_json = spec_alloc(r, n, sizeof *r->data_json, err);
    if (!folder || !o->data || !r->data_json) return COLM_E_MEMORY;
    for (size_t i = 0; i < n && !s; i++)
        s = read_data(r, json_value_at(all, i), json_key_at(all, i), folder, &o->data[i].corpus,
                      &r->data_json[i], err);
    o->n_data = (uint32_t)n;
    return s;
}

static const char *data_name(const void *list, size_t i) {
    return ((const spec_data *)list)[i].corpus.name;
}

colm_status spec_data_named(const spec_reader *r, json_value v, const char *name, uint32_t *ret,
                            colm_err *err) {
    colm_status s = name ? COLM_OK : json_read_string(v, &name, err);
    if (!s) s = spec_find(v, "data set", name, data_name, r->out->data, r->out->n_data, ret, err);
    return s;
}

/* ---- tasks */

/* The numbers that tasks take; each kind takes some of them. */
static const spec_field task_field[] = {
    {"items", SPEC_U32, offsetof(eval_task_params, items), 0, ITEMS_MOST, 0},
    {"sentences", SPEC_U32, offsetof(eval_task_params, sentences), 1, 64, 3},
    {"choices", SPEC_U32, offsetof(eval_task_params, choices), 2, 16, 4},
};
/* What a kind of task reads, by the key that names it. */
static const struct {
    const char *key;
    eval_kind kind;
    bool of_data;            /* reads a data set; else a file */
    const char *const *keys; /* its own key and others that no table of fields has */
    size_t n_fields;         /* of task_field, from the first */
    uint32_t items;          /* default */
} kinds[] = {
    {"cloze", EVAL_CLOZE, true, (const char *const[]){"cloze", "seed", NULL}, 3, 200},
    {"choice", EVAL_CHOICE, false, (const char *const[]){"choice", NULL}, 1, 0},
    {"bits_per_byte", EVAL_BITS_PER_BYTE, true, (const char *const[]){"bits_per_byte", "max_bytes", NULL}, 0,
     0},
};

static colm_status find_kind(json_value v, size_t *ret, colm_err *err) {
    size_t found = 0, other = 0, n = 0;
    colm_status s = json_read_object(v, err);
    if (s) return s;
    for (size_t i = 0; i < SPEC_COUNT(kinds); i++) {
        if (!json_has(v, kinds[i].key)) continue;
        other = n++ ? found : other;
        found = i;
    }
    if (n > 1)
        return json_fail(v, err, "is both \"%s\" and \"%s\": a task is one of them", kinds[other].key,
                         kinds[found].key);
    if (n == 0) {
        // A misspelled kind is reported as such.
        for (size_t i = 0; i < SPEC_COUNT(kinds); i++)
            for (const char *const *k = kinds[i].keys; *k; k++) json_get(v, *k);
        for (size_t i = 0; i < SPEC_COUNT(task_field); i++) json_get(v, task_field[i].key);
        s = json_finish(v, err);
        return s ? s : json_fail(v, err, "expected one of \"cloze\", \"choice\", \"bits_per_byte\"");
    }
    *ret = found;
    return COLM_OK;
}

static colm_status task_json(spec_reader *r, const eval_task_params *p, const char *name, size_t kind,
                             const char *source, const char **ret, colm_err *err) {
    str out = {0};
    str_add(&out, "{\"name\":");
    str_add_json(&out, name);
    str_addf(&out, ",\"%s\":", kinds[kind].key);
    if (kinds[kind].of_data) {
        str_add(&out, source);
    } else {
        str_add_json(&out, source);
    }
    for (size_t i = 0; i < kinds[kind].n_fields; i++) {
        str_add(&out, ",");
        spec_field_add(&task_field[i], p, &out);
    }
    if (p->kind == EVAL_CLOZE) str_addf(&out, ",\"seed\":%llu", (unsigned long long)p->seed);
    if (p->kind == EVAL_BITS_PER_BYTE) str_addf(&out, ",\"max_bytes\":%llu", (unsigned long long)p->max_bytes);
    str_add(&out, "}");
    return spec_keep(r, &out, false, ret, err);
}

/* The data set, or the file, that a task reads; *ret_source is how its definition is written in canonical. */
static colm_status read_source(spec_reader *r, json_value v, bool of_data, spec_task *t,
                               const char **ret_source, colm_err *err) {
    t->data = -1;
    if (of_data) {
        uint32_t index = 0;
        colm_status s = spec_data_named(r, v, NULL, &index, err);
        if (s) return s;
        t->data = (int)index;
        *ret_source = r->data_json[index];
        return COLM_OK;
    }
    colm_status s = read_path(r, v, ret_source, err);
    if (s) return s;
    t->task.file = *ret_source;
    if (**ret_source == '/') return COLM_OK;
    t->task.file = arena_printf(r->mem, "%s/%s", r->out->data[0].corpus.base_dir, *ret_source);
    return t->task.file ? COLM_OK : err_nomem(err, strlen(*ret_source), "the experiment");
}

static colm_status read_task(spec_reader *r, json_value v, const char *name, spec_task *ret,
                             const char **ret_json, colm_err *err) {
    spec_task t = {0};
    size_t kind = 0;
    const char *source = NULL;
    colm_status s = spec_name(v, "a task", name, err);
    if (!s) s = find_kind(v, &kind, err);
    if (!s) s = spec_keys(v, kinds[kind].keys, task_field, kinds[kind].n_fields, err);
    if (!s) s = read_source(r, json_get(v, kinds[kind].key), kinds[kind].of_data, &t, &source, err);
    if (s) return s;
    t.task.kind = kinds[kind].kind;
    for (size_t i = 0; i < kinds[kind].n_fields && !s; i++) {
        json_value number = json_get(v, task_field[i].key);
        spec_field_preset(&task_field[i], &t.task);
        if (i == 0) t.task.items = kinds[kind].items;
        if (number.doc) s = spec_field_read(&task_field[i], number, &t.task, err);
    }
    if (!s && t.task.kind == EVAL_CLOZE && !t.task.items)
        s = json_fail(json_get(v, "items"), err, "0 is not a whole number from 1 to %u", ITEMS_MOST);
    if (!s) s = json_opt_u64(v, "seed", 0, SPEC_MAX_SEED, &t.task.seed, err);
    if (!s) s = json_opt_u64(v, "max_bytes", 0, BYTES_MOST, &t.task.max_bytes, err);
    if (s) return s;
    t.task.name = spec_copy(r, name, err);
    if (!t.task.name) return COLM_E_MEMORY;
    *ret = t;
    return task_json(r, &t.task, name, kind, source, ret_json, err);
}

colm_status spec_tasks_read(spec_reader *r, colm_err *err) {
    json_value all = json_get(r->root, "tasks");
    spec *o = r->out;
    if (!all.doc) return COLM_OK;
    colm_status s = json_read_object(all, err);
    if (s) return s;
    size_t n = json_count(all);
    if (n > SPEC_MAX_TASKS) return json_fail(all, err, "has %zu tasks, expected at most %d", n, SPEC_MAX_TASKS);
    o->task = spec_alloc(r, n, sizeof *o->task, err);
    r->task_json = spec_alloc(r, n, sizeof *r->task_json, err);
    if (!o->task || !r->task_json) return COLM_E_MEMORY;
    for (size_t i = 0; i < n && !s; i++)
        s = read_task(r, json_value_at(all, i), json_key_at(all, i), &o->task[i], &r->task_json[i], err);
    o->n_tasks = (uint32_t)n;
    return s;
}
