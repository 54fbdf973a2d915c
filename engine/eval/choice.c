#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/eval/internal.h"

enum { CHOICES_MAX = 1024 };

static span text_of(const char *s) {
    return (span){s, strlen(s)};
}

// A text that must hold something.
static colm_status read_text(json_value v, span *ret, colm_err *err) {
    const char *s = NULL;
    colm_status st = json_read_string(v, &s, err);
    if (!st && !s[0]) st = json_fail(v, err, "is empty");
    if (!st) *ret = text_of(s);
    return st;
}

// {"query", "choices"}, or {"contexts", "continuation"}: one of the two texts is a list, the other one is
// shared.
static colm_status add_line(json_value line, task_builder *b, str *continuation, colm_err *err) {
    json_value list, shared, gold_at;
    uint64_t gold = 0;
    const char *s = NULL;
    span common = {0};
    colm_status st = json_read_object(line, err);
    if (st) return st;
    const bool contexts = json_has(line, "contexts");
    st = json_need(line, contexts ? "contexts" : "choices", &list, err);
    if (!st) st = json_need(line, contexts ? "continuation" : "query", &shared, err);
    if (!st) st = json_need(line, "gold", &gold_at, err);
    if (!st) st = json_read_array(list, 2, CHOICES_MAX, err);
    if (!st) st = json_read_u64(gold_at, 0, json_count(list) - 1, &gold, err);
    if (!st) st = contexts ? read_text(shared, &common, err) : json_read_string(shared, &s, err);
    if (st) return st;
    if (!contexts) common = text_of(s); // a query may be empty
    st = task_add_item(b, (uint32_t)json_count(list), (uint32_t)gold, err);
    for (size_t i = 0; i < json_count(list) && !st; i++) {
        span own;
        st = read_text(json_item(list, i), &own, err);
        if (st) return st;
        const span context = contexts ? own : common, bare = contexts ? common : own;
        continuation->len = 0;
        str_add(continuation, " ");
        str_addn(continuation, bare.bytes, bare.n);
        if (continuation->failed) return err_nomem(err, bare.n, "a choice");
        st = task_add_choice(b, context, (span){continuation->text, continuation->len}, bare, err);
    }
    return st;
}

colm_status choice_build(const eval_task_params *p, task_builder *b, colm_err *err) {
    char *bytes = NULL;
    size_t n, line = 0;
    str name = {0}, continuation = {0};
    if (!p->file) return err_set(err, COLM_E_INPUT, "a choice task needs a file");
    colm_status s = file_read(p->file, 0, &bytes, &n, err);
    for (size_t at = 0, len; !s && at < n; at += len + 1) {
        const char *end = memchr(bytes + at, '\n', n - at);
        len = end ? (size_t)(end - bytes) - at : n - at;
        line++;
        if (text_trailing_space((span){bytes + at, len}) == len) continue;
        if (p->items && b->task->n_items == p->items) break;
        json_doc *doc = NULL;
        name.len = 0;
        str_addf(&name, "%s:%zu", p->file, line);
        s = name.failed ? err_nomem(err, strlen(p->file), "a name")
                        : json_open_text(name.text, bytes + at, len, &doc, err);
        if (!s) s = add_line(json_root(doc), b, &continuation, err);
        json_close(&doc);
    }
    if (!s && b->task->n_items == 0)
        s = err_set(err, COLM_E_INPUT,
                    "%s: holds no item; expected lines {\"query\": ..., \"choices\": [...], \"gold\": 0}",
                    p->file);
    free(bytes);
    str_done(&name);
    str_done(&continuation);
    return s;
}
