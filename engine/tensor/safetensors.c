#include "engine/tensor/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/tensor/safetensors_format.h"

typedef struct {
    const char *name;
    size_t entry;
} named;

struct safetensors {
    file_map map;
    arena texts;
    safetensors_entry *entries;
    size_t n;
    named *by_name;
    safetensors_pair *meta;
    size_t n_meta;
};

// Where a tensor's bytes lie, in the order of the header.
typedef struct {
    safetensors_entry entry;
    uint64_t begin, end;
    size_t order;
} span;

static colm_status read_meta(safetensors *s, json_value object, colm_err *err) {
    colm_status st = json_read_object(object, err);
    if (st) return st;
    s->meta = mem_alloc(json_count(object), sizeof *s->meta);
    if (!s->meta) return err_nomem(err, json_count(object) * sizeof *s->meta, META_KEY);
    for (size_t i = 0; i < json_count(object); i++) {
        const char *value = NULL;
        st = json_read_string(json_value_at(object, i), &value, err);
        if (st) return st;
        safetensors_pair *p = &s->meta[s->n_meta];
        *p =
            (safetensors_pair){arena_strdup(&s->texts, json_key_at(object, i)), arena_strdup(&s->texts, value)};
        if (!p->key || !p->value) return err_nomem(err, strlen(value) + 1, META_KEY);
        s->n_meta++;
    }
    return COLM_OK;
}

static colm_status read_dtype(json_value v, tensor_dtype *ret, colm_err *err) {
    const char *name = NULL;
    colm_status st = json_read_string(v, &name, err);
    if (st) return st;
    if (tensor_dtype_find(name, ret)) return COLM_OK;
    return json_fail(v, err, "dtype \"%.20s\" is not supported (F64, F32, F16, BF16, I64, I32, U32, U8 are)",
                     name);
}

static colm_status read_shape(json_value v, tensor_shape *ret, colm_err *err) {
    colm_status st = json_read_array(v, 0, TENSOR_MAX_DIMS, err);
    if (st) return st;
    ret->n = (uint32_t)json_count(v);
    for (uint32_t i = 0; i < ret->n; i++) {
        st = json_read_u64(json_item(v, i), 0, UINT64_MAX, &ret->dim[i], err);
        if (st) return st;
    }
    return COLM_OK;
}

static colm_status read_span(json_value v, size_t data_n, span *ret, colm_err *err) {
    json_value dtype = {0}, shape = {0}, offsets = {0};
    safetensors_entry *e = &ret->entry;
    colm_status st = json_need(v, "dtype", &dtype, err);
    if (!st) st = json_need(v, "shape", &shape, err);
    if (!st) st = json_need(v, "data_offsets", &offsets, err);
    if (!st) st = json_finish(v, err);
    if (!st) st = read_dtype(dtype, &e->dtype, err);
    if (!st) st = read_shape(shape, &e->shape, err);
    if (!st) st = json_read_array(offsets, 2, 2, err);
    if (!st) st = json_read_u64(json_item(offsets, 0), 0, data_n, &ret->begin, err);
    if (!st) st = json_read_u64(json_item(offsets, 1), ret->begin, data_n, &ret->end, err);
    if (st) return st;
    size_t elems = tensor_elems(&e->shape), size = tensor_dtype_size(e->dtype);
    if (elems > SIZE_MAX / size || elems == SIZE_MAX) {
        return json_fail(shape, err, "more elements than this machine can address");
    }
    e->bytes = elems * size;
    if (ret->end - ret->begin == e->bytes) return COLM_OK;
    return json_fail(offsets, err, "hold %llu bytes, but its shape and dtype %s make %zu",
                     (unsigned long long)(ret->end - ret->begin), tensor_dtype_name(e->dtype), e->bytes);
}

// An empty tensor comes before the one that begins where it lies.
static int by_place(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

// The data must be the tensors and nothing else: each begins where the one before it ended.
static colm_status place(safetensors *s, const char *path, span *spans, const uint8_t *data, size_t data_n,
                         colm_err *err) {
    uint64_t at = 0;
    if (s->n) qsort(spans, s->n, sizeof *spans, by_place);
    for (size_t i = 0; i < s->n; i++) {
        span *p = &spans[i];
        if (p->begin != at) {
            return err_set(err, COLM_E_INPUT, "%s: tensor \"%.200s\": begins at byte %llu of the data, %s",
                           path, p->entry.name, (unsigned long long)p->begin,
                           p->begin < at ? "inside the tensor before it (they overlap)"
                                         : "after a hole that no tensor fills");
        }
        p->entry.data = data + p->begin;
        s->entries[i] = p->entry;
        s->by_name[i] = (named){p->entry.name, i};
        at = p->end;
    }
    if (s->n) qsort(s->by_name, s->n, sizeof *s->by_name, by_name);
    if (at == data_n) return COLM_OK;
    return err_set(err, COLM_E_INPUT, "%s: %llu bytes of data follow the last tensor", path,
                   (unsigned long long)(data_n - at));
}

static colm_status read_header(safetensors *s, const char *path, json_value root, const uint8_t *data,
                               size_t data_n, colm_err *err) {
    span *spans = NULL;
    colm_status st = json_read_object(root, err);
    if (st) return st;
    size_t most = json_count(root);
    spans = mem_alloc(most, sizeof *spans);
    s->entries = mem_alloc(most, sizeof *s->entries);
    s->by_name = mem_alloc(most, sizeof *s->by_name);
    if (!spans || !s->entries || !s->by_name) {
        st = err_nomem(err, most * sizeof *spans, path);
        goto out;
    }
    for (size_t i = 0; i < most; i++) {
        const char *name = json_key_at(root, i);
        json_value v = json_value_at(root, i);
        if (strcmp(name, META_KEY) == 0) {
            st = read_meta(s, v, err);
        } else {
            span *p = &spans[s->n];
            p->order = s->n++;
            p->entry.name = arena_strdup(&s->texts, name);
            st = p->entry.name ? read_span(v, data_n, p, err) : err_nomem(err, strlen(name) + 1, path);
        }
        if (st) goto out;
    }
    st = place(s, path, spans, data, data_n, err);
out:
    free(spans);
    return st;
}

colm_status safetensors_open(const char *path, safetensors **ret, colm_err *err) {
    colm_status st;
    json_doc *doc = NULL;
    char *label = NULL;
    safetensors *s = mem_alloc(1, sizeof *s);
    if (!s) return err_nomem(err, sizeof *s, path);
    st = file_map_open(path, &s->map, err);
    if (st) goto out;
    const uint8_t *bytes = s->map.bytes;
    if (s->map.n < LENGTH_BYTES) {
        st = err_set(err, COLM_E_INPUT, "%s: %zu bytes are too few for a safetensors file", path, s->map.n);
        goto out;
    }
    uint64_t header_n = 0;
    for (int i = LENGTH_BYTES; i--;) header_n = header_n << 8 | bytes[i];
    if (header_n > s->map.n - LENGTH_BYTES || header_n > HEADER_MAX) {
        st = err_set(err, COLM_E_INPUT,
                     "%s: claims a header of %llu bytes, %s %zu: not a safetensors file, or cut short", path,
                     (unsigned long long)header_n, header_n > HEADER_MAX ? "the limit is" : "the file has",
                     header_n > HEADER_MAX ? HEADER_MAX : s->map.n - LENGTH_BYTES);
        goto out;
    }
    if (header_n == 0 || bytes[LENGTH_BYTES] != '{') {
        st = err_set(err, COLM_E_INPUT, "%s: its header does not begin with {: not a safetensors file", path);
        goto out;
    }
    label = arena_printf(&s->texts, "%s (header)", path);
    if (!label) {
        st = err_nomem(err, strlen(path) + 10, path);
        goto out;
    }
    st = json_open_text(label, (const char *)bytes + LENGTH_BYTES, (size_t)header_n, &doc, err);
    if (st) goto out;
    st = read_header(s, path, json_root(doc), bytes + LENGTH_BYTES + header_n,
                     s->map.n - LENGTH_BYTES - header_n, err);
out:
    json_close(&doc);
    if (st) {
        safetensors_close(&s);
    } else {
        *ret = s;
    }
    return st;
}

void safetensors_close(safetensors **safetensors_) {
    safetensors *s = *safetensors_;
    if (!s) return;
    file_map_close(&s->map);
    free(s->entries);
    free(s->by_name);
    free(s->meta);
    arena_done(&s->texts);
    free(s);
    *safetensors_ = NULL;
}

size_t safetensors_count(const safetensors *s) {
    return s->n;
}
const safetensors_entry *safetensors_at(const safetensors *s, size_t i) {
    return i < s->n ? &s->entries[i] : NULL;
}

const safetensors_entry *safetensors_find(const safetensors *s, const char *name) {
    named key = {name, 0};
    const named *found = s->n ? bsearch(&key, s->by_name, s->n, sizeof key, by_name) : NULL;
    return found ? &s->entries[found->entry] : NULL;
}

const char *safetensors_meta(const safetensors *s, const char *key) {
    for (size_t i = 0; i < s->n_meta; i++) {
        if (strcmp(s->meta[i].key, key) == 0) return s->meta[i].value;
    }
    return NULL;
}
