#include "engine/data/documents.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/rng.h"

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

colm_status sources_open(const corpus_params *p, sources *ret, colm_err *err) {
    colm_status s = COLM_OK;
    sources src = {0};
    size_t n = 0;
    char **all = NULL, ***list = mem_alloc(p->n_text, sizeof *list);
    size_t *count = mem_alloc(p->n_text, sizeof *count);
    if (!list || !count) {
        s = err_nomem(err, p->n_text * sizeof *list, "paths");
        goto out;
    }
    for (size_t i = 0; i < p->n_text; i++) {
        s = file_expand(p->base_dir, p->text[i], &list[i], &count[i], err);
        if (s) {
            err_at(err, "text[%zu]", i);
            goto out;
        }
        n += count[i];
    }
    all = mem_alloc(n, sizeof *all);
    src.map = mem_alloc(n, sizeof *src.map);
    src.path = mem_alloc(n, sizeof *src.path);
    if (!all || !src.map || !src.path) {
        s = err_nomem(err, n * sizeof *src.map, "files");
        goto out;
    }
    char **to = all;
    for (size_t i = 0; i < p->n_text; i++)
        for (size_t k = 0; k < count[i]; k++) *to++ = list[i][k];
    qsort(all, n, sizeof *all, by_path);
    for (size_t i = 0; i < n; i++) {
        if (i && strcmp(all[i], all[i - 1]) == 0) continue; // named by two patterns
        s = file_map_open(all[i], &src.map[src.n], err);
        if (s) goto out;
        const char *path = src.path[src.n++] = arena_strdup(&src.names, all[i]);
        if (!path) {
            s = err_nomem(err, strlen(all[i]), "paths");
            goto out;
        }
    }
    *ret = src;
out:
    for (size_t i = 0; list && i < p->n_text; i++) free(list[i]);
    free(list);
    free(count);
    free(all);
    if (s) sources_close(&src);
    return s;
}

void sources_close(sources *s) {
    for (size_t i = 0; i < s->n; i++) file_map_close(&s->map[i]);
    free(s->map);
    free(s->path);
    arena_done(&s->names);
    *s = (sources){0};
}

static int by_digest(const void *a, const void *b) {
    return memcmp(a, b, HASH_TEXT);
}

colm_status sources_digest(const sources *s, char ret[HASH_TEXT], colm_err *err) {
    char(*digest)[HASH_TEXT] = mem_alloc(s->n, sizeof *digest);
    if (!digest) return err_nomem(err, s->n * sizeof *digest, "digests of files");
    for (size_t i = 0; i < s->n; i++) hash_bytes(s->map[i].bytes, s->map[i].n, digest[i]);
    qsort(digest, s->n, sizeof *digest, by_digest);
    hash_bytes(digest, s->n * sizeof *digest, ret);
    free(digest);
    return COLM_OK;
}

static colm_status add(documents *d, const char *bytes, size_t n, const rng_stream *order, colm_err *err) {
    if (n == 0) return COLM_OK;
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 256;
        document *more = mem_grow(d->doc, cap, sizeof *more);
        if (!more) return err_nomem(err, cap * sizeof *more, "documents");
        d->doc = more;
        d->cap = cap;
    }
    d->doc[d->n++] = (document){bytes, n, rng_u64(order, hash_u64(bytes, n))};
    return COLM_OK;
}

// The text of a PCRE2 error, which its own function writes.
static const char *pcre_text(int code, char *buf, size_t n) {
    pcre2_get_error_message(code, (PCRE2_UCHAR *)buf, n);
    return buf;
}

// A compiled split_on with what a match needs.
typedef struct {
    pcre2_code *code;
    pcre2_match_data *match;
} splitter;

static colm_status splitter_open(const char *pattern, splitter *ret, colm_err *err) {
    char why[128];
    int code;
    PCRE2_SIZE at;
    colm_status s = COLM_OK;
    splitter x = {0};
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return err_nomem(err, sizeof context, "split_on");
    // Texts are bytes of any kind, so no UTF mode (which would check the whole text at every match).
    pcre2_set_newline(context, PCRE2_NEWLINE_ANYCRLF);
    x.code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_MULTILINE | PCRE2_NEVER_UTF, &code,
                           &at, context);
    if (!x.code) {
        s = err_set(err, COLM_E_INPUT, "split_on \"%.200s\": %s at character %zu", pattern,
                    pcre_text(code, why, sizeof why), at + 1);
        goto out;
    }
    x.match = pcre2_match_data_create_from_pattern(x.code, NULL);
    if (!x.match) {
        s = err_nomem(err, 0, "split_on");
        goto out;
    }
    *ret = x;
out:
    if (s) pcre2_code_free(x.code);
    pcre2_compile_context_free(context);
    return s;
}

static void splitter_close(splitter *x) {
    pcre2_match_data_free(x->match);
    pcre2_code_free(x->code);
}

colm_status corpus_check_pattern(const char *split_on, colm_err *err) {
    splitter x = {0};
    colm_status s = splitter_open(split_on, &x, err);
    splitter_close(&x);
    return s;
}

// Each match starts a document; what stands before the first one is a document too.
static colm_status split(documents *d, const file_map *m, const char *path, const splitter *x,
                         const rng_stream *order, colm_err *err) {
    const char *bytes = (const char *)m->bytes;
    size_t begin = 0, at = 0;
    colm_status s = COLM_OK;
    while (at < m->n) {
        int rc = pcre2_match(x->code, (PCRE2_SPTR)bytes, m->n, at, 0, x->match, NULL);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) {
            char why[128];
            return err_set(err, COLM_E_INPUT, "%s: split_on gives up at byte %zu: %s; use a simpler pattern",
                           path, at, pcre_text(rc, why, sizeof why));
        }
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(x->match);
        if (range[0] > begin && range[0] < m->n) {
            s = add(d, bytes + begin, range[0] - begin, order, err);
            if (s) return s;
            begin = range[0];
        }
        // An empty match must not be found again, nor one inside a CRLF.
        bool crlf = at + 1 < m->n && bytes[at] == '\r' && bytes[at + 1] == '\n';
        at = range[1] > at ? range[1] : at + 1 + crlf;
    }
    return add(d, bytes + begin, m->n - begin, order, err);
}

static int by_key(const void *a, const void *b) {
    const document *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return memcmp(x->bytes, y->bytes, x->n);
}

static bool equal(const document *a, const document *b) {
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

// Chooses among the ordered documents: the first ones until max_bytes are taken, of those the first ones until
// the held-out part is full. Equal documents stay together, or held-out text would be trained on.
static colm_status choose(const corpus_params *p, documents *d, colm_err *err) {
    size_t taken = 0;
    while (taken < d->n && (p->max_bytes == 0 || d->bytes < p->max_bytes)) d->bytes += d->doc[taken++].n;
    d->n = taken;
    for (size_t i = 1; i < d->n; i++) d->duplicates += equal(&d->doc[i], &d->doc[i - 1]);
    double want = p->heldout * (double)d->bytes;
    while ((double)d->heldout_bytes < want) {
        size_t end = d->n_heldout;
        uint64_t bytes = 0;
        do bytes += d->doc[end++].n;
        while (end < d->n && equal(&d->doc[end], &d->doc[end - 1]));
        if (end == d->n) break; // the last one is for training
        d->n_heldout = end;
        d->heldout_bytes += bytes;
    }
    if (d->n_heldout) return COLM_OK;
    return err_set(
        err, COLM_E_INPUT,
        "%zu document%s of %llu bytes%s cannot be divided into a training and a held-out part: give more "
        "texts, or set split_on to a pattern that starts a document%s",
        d->n, d->n == 1 ? "" : "s", (unsigned long long)d->bytes, d->n > 1 ? ", all equal," : "",
        p->max_bytes ? ", or raise max_bytes" : "");
}

colm_status documents_open(const corpus_params *p, const sources *s, documents *ret, colm_err *err) {
    documents d = {0};
    splitter x = {0};
    rng_stream order = rng_open(p->seed, "corpus order");
    colm_status st = p->split_on ? splitter_open(p->split_on, &x, err) : COLM_OK;
    for (size_t i = 0; i < s->n && !st; i++)
        st = x.code ? split(&d, &s->map[i], s->path[i], &x, &order, err)
                    : add(&d, (const char *)s->map[i].bytes, s->map[i].n, &order, err);
    if (!st && d.n) qsort(d.doc, d.n, sizeof *d.doc, by_key);
    if (!st) st = choose(p, &d, err);
    splitter_close(&x);
    if (st) {
        documents_close(&d);
    } else {
        *ret = d;
    }
    return st;
}

void documents_close(documents *d) {
    free(d->doc);
    *d = (documents){0};
}
