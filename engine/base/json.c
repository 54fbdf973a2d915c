#include "engine/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json_scan.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

#define FILE_MAX ((size_t)1 << 30)

struct json_asked {
    const char *key;
    json_asked *next;
};

struct json_doc {
    char *name, *text;
    json_node *nodes;
    uint32_t n;
    uint32_t *kids;   // children of every container, in the order of the text
    uint32_t *sorted; // the same ranges; those of objects sorted by key
    cJSON *tree;
    arena asked;
};

static json_node *node_of(json_value v) {
    return v.doc ? &v.doc->nodes[v.node] : NULL;
}
static const char *key_of(const json_doc *d, uint32_t node) {
    return d->nodes[node].item->string;
}

// The scanner's nodes and cJSON's items come in the same order.
static uint32_t link_items(json_doc *d, uint32_t node, const cJSON *item) {
    d->nodes[node++].item = item;
    for (const cJSON *c = item->child; c; c = c->next) node = link_items(d, node, c);
    return node;
}

static colm_status build_tree(json_doc *d, size_t n, colm_err *err) {
    // cJSON sees 0 in place of every number: it would round them, cut long ones, and ask the locale.
    char *copy = mem_alloc(n + 1, 1);
    if (!copy) return err_nomem(err, n + 1, d->name);
    memcpy(copy, d->text, n);
    for (uint32_t i = 0; i < d->n; i++) {
        const json_node *p = &d->nodes[i];
        if (p->kind != JSON_NUMBER) continue;
        memset(copy + p->at, ' ', p->len);
        copy[p->at] = '0';
    }
    d->tree = cJSON_ParseWithLength(copy, n + 1);
    free(copy);
    if (!d->tree) return err_nomem(err, n, d->name);
    link_items(d, 0, d->tree);
    return COLM_OK;
}

static colm_status build_kids(json_doc *d, colm_err *err) {
    d->kids = mem_alloc(d->n, sizeof *d->kids);
    d->sorted = mem_alloc(d->n, sizeof *d->sorted);
    if (!d->kids || !d->sorted) return err_nomem(err, d->n * sizeof *d->kids, d->name);
    uint32_t next = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        d->nodes[i].first = next;
        next += d->nodes[i].count;
        d->nodes[i].count = 0; // counted again below, as places are taken
    }
    for (uint32_t i = 1; i < d->n; i++) {
        json_node *parent = &d->nodes[d->nodes[i].parent];
        d->kids[parent->first + parent->count++] = i;
    }
    return COLM_OK;
}

typedef struct {
    const char *key;
    uint32_t node;
} member;

static int by_key(const void *a, const void *b) {
    const member *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->node > y->node) - (x->node < y->node);
}

static colm_status sort_keys(json_doc *d, colm_err *err) {
    member *members = mem_alloc(d->n, sizeof *members);
    colm_status s = COLM_OK;
    if (!members) return err_nomem(err, d->n * sizeof *members, d->name);
    for (uint32_t i = 0; i < d->n && !s; i++) {
        const json_node *p = &d->nodes[i];
        if (p->kind != JSON_OBJECT) continue;
        for (uint32_t k = 0; k < p->count; k++) {
            uint32_t kid = d->kids[p->first + k];
            members[k] = (member){key_of(d, kid), kid};
        }
        qsort(members, p->count, sizeof *members, by_key);
        for (uint32_t k = 0; k < p->count && !s; k++) {
            d->sorted[p->first + k] = members[k].node;
            if (k == 0 || strcmp(members[k].key, members[k - 1].key) != 0) continue;
            s = json_fail((json_value){d, members[k].node}, err, "duplicate key, first given on line %u",
                          d->nodes[members[k - 1].node].line);
        }
    }
    free(members);
    return s;
}

colm_status json_open_text(const char *name, const char *text, size_t n, json_doc **ret, colm_err *err) {
    colm_status s;
    json_doc *d = mem_alloc(1, sizeof *d);
    if (!d) return err_nomem(err, sizeof *d, name);
    s = json_scan(name, text, n, &d->nodes, &d->n, err);
    if (s) goto out;
    d->name = mem_alloc(strlen(name) + 1, 1);
    d->text = mem_alloc(n + 1, 1);
    if (!d->name || !d->text) {
        s = err_nomem(err, n, name);
        goto out;
    }
    memcpy(d->name, name, strlen(name));
    memcpy(d->text, text, n);
    s = build_tree(d, n, err);
    if (!s) s = build_kids(d, err);
    if (!s) s = sort_keys(d, err);
out:
    if (s) {
        json_close(&d);
    } else {
        *ret = d;
    }
    return s;
}

colm_status json_open_file(const char *path, json_doc **ret, colm_err *err) {
    char *text = NULL;
    size_t n = 0;
    colm_status s = file_read(path, FILE_MAX, &text, &n, err);
    if (!s) s = json_open_text(path, text, n, ret, err);
    free(text);
    return s;
}

void json_close(json_doc **doc) {
    json_doc *d = *doc;
    if (!d) return;
    cJSON_Delete(d->tree);
    arena_done(&d->asked);
    free(d->sorted);
    free(d->kids);
    free(d->nodes);
    free(d->text);
    free(d->name);
    free(d);
    *doc = NULL;
}

json_value json_root(json_doc *doc) {
    return (json_value){doc, 0};
}

json_kind json_kind_of(json_value v) {
    return v.doc ? (json_kind)node_of(v)->kind : JSON_ABSENT;
}
size_t json_count(json_value v) {
    return v.doc ? node_of(v)->count : 0;
}
int json_line(json_value v) {
    return v.doc ? (int)node_of(v)->line : 0;
}

const char *json_source(json_value v, size_t *ret_n) {
    *ret_n = v.doc ? node_of(v)->len : 0;
    return v.doc ? v.doc->text + node_of(v)->at : "";
}
const char *json_string(json_value v) {
    return node_of(v)->item->valuestring;
}

static json_value kid_at(json_value v, json_kind kind, size_t i) {
    if (json_kind_of(v) != kind || i >= json_count(v)) return (json_value){0};
    return (json_value){v.doc, v.doc->kids[node_of(v)->first + i]};
}

json_value json_item(json_value array, size_t i) {
    return kid_at(array, JSON_ARRAY, i);
}
json_value json_value_at(json_value object, size_t i) {
    return kid_at(object, JSON_OBJECT, i);
}
const char *json_key_at(json_value object, size_t i) {
    json_value v = kid_at(object, JSON_OBJECT, i);
    return v.doc ? key_of(v.doc, v.node) : NULL;
}

static json_value find(json_value object, const char *key) {
    if (json_kind_of(object) != JSON_OBJECT) return (json_value){0};
    json_doc *d = object.doc;
    const json_node *p = node_of(object);
    uint32_t low = p->first, high = p->first + p->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = strcmp(key, key_of(d, d->sorted[mid]));
        if (order == 0) return (json_value){d, d->sorted[mid]};
        if (order < 0) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return (json_value){0};
}

bool json_has(json_value object, const char *key) {
    return find(object, key).doc != NULL;
}

// Remembers that a key is a known one. Lack of memory only costs a suggestion.
static void remember(json_value object, const char *key) {
    json_node *p = node_of(object);
    json_asked *last = p->asked;
    for (json_asked *a = last; a;) {
        if (strcmp(a->key, key) == 0) return;
        a = a->next == last ? NULL : a->next;
    }
    json_asked *fresh = arena_alloc(&object.doc->asked, 1, sizeof *fresh);
    char *copy = fresh ? arena_strdup(&object.doc->asked, key) : NULL;
    if (!copy) return;
    *fresh = (json_asked){copy, last ? last->next : fresh};
    if (last) last->next = fresh;
    p->asked = fresh;
}

json_value json_get(json_value object, const char *key) {
    json_value v = find(object, key);
    json_node *p = node_of(v);
    if (json_kind_of(object) == JSON_OBJECT && !(p && p->known)) remember(object, key);
    if (p) p->known = true;
    return v;
}

// Text cut to a buffer: what does not fit is dropped.
typedef struct {
    char *text;
    size_t n, cap;
} cut;
COLM_PRINTF(2, 3) static void cut_addf(cut *c, const char *fmt, ...) {
    if (c->n + 1 >= c->cap) return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(c->text + c->n, c->cap - c->n, fmt, ap);
    va_end(ap);
    if (n > 0) c->n += (size_t)n < c->cap - c->n ? (size_t)n : c->cap - c->n - 1;
}

static bool plain_key(const char *key) {
    return *key && key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] == 0;
}

// ": arms.expand.stages[1]", or nothing for the root.
static void add_path(json_value v, cut *c) {
    const json_doc *d = v.doc;
    uint32_t way[JSON_DEPTH_MAX + 1], steps = 0;
    for (uint32_t i = v.node; i; i = d->nodes[i].parent) way[steps++] = i;
    const char *before_index = ": ", *before_key = ": ";
    while (steps--) {
        uint32_t node = way[steps];
        const json_node *parent = &d->nodes[d->nodes[node].parent];
        if (parent->kind == JSON_ARRAY) {
            uint32_t i = 0;
            while (d->kids[parent->first + i] != node) i++;
            cut_addf(c, "%s[%u]", before_index, i);
        } else if (plain_key(key_of(d, node))) {
            cut_addf(c, "%s%.80s", before_key, key_of(d, node));
        } else {
            cut_addf(c, "%s[\"%.80s\"]", before_index, key_of(d, node));
        }
        before_index = "";
        before_key = ".";
    }
}

const char *json_where(json_value v, char *buf, size_t n) {
    if (n == 0) return buf;
    buf[0] = 0;
    cut c = {buf, 0, n};
    if (!v.doc) return buf;
    cut_addf(&c, "%s:%u", v.doc->name, node_of(v)->line);
    add_path(v, &c);
    return buf;
}

colm_status json_fail(json_value v, colm_err *err, const char *fmt, ...) {
    char where[512], text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_where(v, where, sizeof where);
    return err_set(err, COLM_E_INPUT, "%s%s%s", where, where[0] ? ": " : "", text);
}

colm_status json_finish(json_value obj, colm_err *err) {
    const char *known[256], *missing[256]; // more keys than any object of ours has
    size_t n_known = 0, n_missing = 0;
    colm_status s = json_read_object(obj, err);
    if (s) return s;
    const json_node *p = node_of(obj);
    size_t i = 0;
    while (i < p->count && node_of(json_value_at(obj, i))->known) i++;
    if (i == p->count) return COLM_OK;
    if (p->asked) {
        const json_asked *a = p->asked;
        do {
            a = a->next;
            if (n_known < 256) known[n_known++] = a->key;
            if (n_missing < 256 && !json_has(obj, a->key)) missing[n_missing++] = a->key;
        } while (a != p->asked);
    }
    // A key that is already there is an unlikely meaning of the unknown one.
    const char *key = json_key_at(obj, i), *near = err_nearest(key, missing, n_missing);
    if (!near) near = err_nearest(key, known, n_known);
    char path[400] = "", advice[400] = "";
    cut c = {path, 0, sizeof path};
    add_path(obj, &c);
    c = (cut){advice, 0, sizeof advice};
    for (size_t k = 0; k < n_known && !near; k++) cut_addf(&c, "%s%s", k ? ", " : "; known keys: ", known[k]);
    if (near) cut_addf(&c, "; did you mean \"%s\"?", near);
    return err_set(err, COLM_E_INPUT, "%s:%d%s: unknown key \"%.100s\"%s", obj.doc->name,
                   json_line(json_value_at(obj, i)), path, key, advice);
}

static void add_canonical(const json_doc *d, uint32_t node, str *out) {
    const json_node *p = &d->nodes[node];
    bool object = p->kind == JSON_OBJECT;
    if (p->kind == JSON_STRING) {
        str_add_json(out, p->item->valuestring);
    } else if (!object && p->kind != JSON_ARRAY) {
        str_addn(out, d->text + p->at, p->len);
    } else {
        str_add(out, object ? "{" : "[");
        for (uint32_t i = 0; i < p->count; i++) {
            uint32_t kid = (object ? d->sorted : d->kids)[p->first + i];
            if (i) str_add(out, ",");
            if (object) str_add_json(out, key_of(d, kid));
            if (object) str_add(out, ":");
            add_canonical(d, kid, out);
        }
        str_add(out, object ? "}" : "]");
    }
}

colm_status json_canonical(json_value v, char **ret, colm_err *err) {
    str out = {0};
    if (!v.doc) return err_set(err, COLM_E_INPUT, "a value is missing");
    add_canonical(v.doc, v.node, &out);
    if (out.failed) {
        str_done(&out);
        return err_nomem(err, node_of(v)->len, v.doc->name);
    }
    *ret = out.text;
    return COLM_OK;
}
