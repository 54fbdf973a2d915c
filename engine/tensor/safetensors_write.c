#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/tensor/safetensors.h"
#include "engine/tensor/safetensors_format.h"

typedef struct {
    const char *name;
    uint64_t end; // in the data
} part;

struct safetensors_writer {
    file_out *out;
    arena texts;
    char *path;
    part *parts;
    size_t n;
    uint64_t written, total;
};

static bool valid_text(const char *text) {
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        n = str_utf8(text, left);
        if (n == 0) return false;
    }
    return true;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Names must be valid UTF-8 and differ; `stride` steps over the table they lie in.
static colm_status check_names(const char *path, const char *what, const void *first, size_t stride, size_t n,
                               colm_err *err) {
    colm_status s = COLM_OK;
    const char **names = mem_alloc(n, sizeof *names);
    if (!names) return err_nomem(err, n * sizeof *names, path);
    for (size_t i = 0; i < n; i++) {
        memcpy(&names[i], (const char *)first + i * stride, sizeof *names);
        if (valid_text(names[i]) && strcmp(names[i], META_KEY) != 0) continue;
        s = err_set(err, COLM_E_INPUT, "%s: \"%.200s\" cannot be %s", path, names[i], what);
        goto out;
    }
    if (n) qsort(names, n, sizeof *names, by_text);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(names[i], names[i - 1]) != 0) continue;
        s = err_set(err, COLM_E_INPUT, "%s: \"%.200s\" is given twice as %s", path, names[i], what);
        goto out;
    }
out:
    free(names);
    return s;
}

// Takes over names and sizes; appends the tensor to the header.
static colm_status add_tensor(safetensors_writer *w, const safetensors_decl *d, str *header, colm_err *err) {
    size_t elems = tensor_elems(&d->shape), size = tensor_dtype_size(d->dtype);
    if (size == 0 || elems == SIZE_MAX || elems > SIZE_MAX / size || elems * size > SIZE_MAX - w->total) {
        return err_set(err, COLM_E_INPUT, "%s: tensor \"%.200s\": no such dtype, or too large a shape", w->path,
                       d->name);
    }
    char *name = arena_strdup(&w->texts, d->name);
    if (!name) return err_nomem(err, strlen(d->name) + 1, w->path);
    str_add_json(header, name);
    str_addf(header, ":{\"dtype\":\"%s\",\"shape\":[", tensor_dtype_name(d->dtype));
    for (uint32_t i = 0; i < d->shape.n; i++) {
        str_addf(header, "%s%llu", i ? "," : "", (unsigned long long)d->shape.dim[i]);
    }
    uint64_t begin = w->total;
    w->total += elems * size;
    str_addf(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
             (unsigned long long)w->total);
    w->parts[w->n++] = (part){name, w->total};
    return COLM_OK;
}

static colm_status write_header(safetensors_writer *w, str *header, colm_err *err) {
    uint8_t length[LENGTH_BYTES];
    while (header->len % 8 && !header->failed) str_add(header, " ");
    if (header->failed) return err_nomem(err, header->len, w->path);
    if (header->len > HEADER_MAX) {
        return err_set(err, COLM_E_INPUT, "%s: a header of %zu bytes, the limit is %zu", w->path, header->len,
                       HEADER_MAX);
    }
    for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (uint8_t)((uint64_t)header->len >> (8 * i));
    colm_status s = file_out_open(w->path, &w->out, err);
    if (!s) s = file_out_write(w->out, length, sizeof length, err);
    if (!s) s = file_out_write(w->out, header->text, header->len, err);
    return s;
}

colm_status safetensors_writer_open(const char *path, const safetensors_decl *decl, size_t n,
                                    const safetensors_pair *meta, size_t n_meta, safetensors_writer **ret,
                                    colm_err *err) {
    colm_status s;
    str header = {0};
    safetensors_writer *w = mem_alloc(1, sizeof *w);
    if (!w) return err_nomem(err, sizeof *w, path);
    w->path = arena_strdup(&w->texts, path);
    w->parts = mem_alloc(n, sizeof *w->parts);
    if (!w->path || !w->parts) {
        s = err_nomem(err, n * sizeof *w->parts, path);
        goto out;
    }
    s = check_names(path, "the name of a tensor", n ? &decl->name : NULL, sizeof *decl, n, err);
    if (!s) s = check_names(path, "a key of " META_KEY, n_meta ? &meta->key : NULL, sizeof *meta, n_meta, err);
    if (s) goto out;
    str_add(&header, "{");
    if (n_meta) str_add(&header, "\"" META_KEY "\":{");
    for (size_t i = 0; i < n_meta; i++) {
        if (!valid_text(meta[i].value)) {
            s = err_set(err, COLM_E_INPUT, "%s: the value of \"%.200s\" is not UTF-8", path, meta[i].key);
            goto out;
        }
        if (i) str_add(&header, ",");
        str_add_json(&header, meta[i].key);
        str_add(&header, ":");
        str_add_json(&header, meta[i].value);
    }
    if (n_meta) str_add(&header, "}");
    for (size_t i = 0; i < n; i++) {
        if (i || n_meta) str_add(&header, ",");
        s = add_tensor(w, &decl[i], &header, err);
        if (s) goto out;
    }
    str_add(&header, "}");
    s = write_header(w, &header, err);
out:
    str_done(&header);
    if (s) {
        safetensors_writer_abandon(&w);
    } else {
        *ret = w;
    }
    return s;
}

colm_status safetensors_writer_data(safetensors_writer *w, const void *bytes, size_t n, colm_err *err) {
    if (n > w->total - w->written) {
        return err_set(err, COLM_E_BUG, "%s: %zu bytes given, but only %llu are left of those declared",
                       w->path, n, (unsigned long long)(w->total - w->written));
    }
    w->written += n;
    return file_out_write(w->out, bytes, n, err);
}

colm_status safetensors_writer_commit(safetensors_writer **writer, colm_err *err) {
    safetensors_writer *w = *writer;
    colm_status s;
    if (!w) return err_set(err, COLM_E_BUG, "safetensors_writer_commit: nothing is open");
    if (w->written == w->total) {
        s = file_out_commit(&w->out, err);
    } else {
        size_t i = 0;
        while (w->parts[i].end <= w->written) i++;
        s = err_set(err, COLM_E_BUG,
                    "%s: not saved, the data of tensor \"%.200s\" is missing or cut (%llu of %llu bytes)",
                    w->path, w->parts[i].name, (unsigned long long)w->written, (unsigned long long)w->total);
    }
    safetensors_writer_abandon(writer);
    return s;
}

void safetensors_writer_abandon(safetensors_writer **writer) {
    safetensors_writer *w = *writer;
    if (!w) return;
    file_out_abandon(&w->out);
    free(w->parts);
    arena_done(&w->texts);
    free(w);
    *writer = NULL;
}
