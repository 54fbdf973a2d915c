#include "engine/data/corpus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/data/documents.h"

/* The token file: head, training tokens (uint16), zeros up to a multiple of 8, ends of the held-out documents
 * (uint64 from the first one's beginning), their bytes, tail. The tail comes last so that one pass writes it.
 */
typedef struct {
    char magic[8];
    uint32_t version, order; // of the bytes of a number
} head;
typedef struct {
    char digest[32]; // corpus_digest
    corpus_stats stats;
    char sum[32]; // digest of all that stands before it
} tail;
static const head this_head = {{'c', 'o', 'l', 'm', 't', 'o', 'k', '\n'}, 1, 0x01020304};

struct corpus {
    char *name;
    char digest[HASH_TEXT];
    corpus_stats stats;
    file_map map;
    const uint16_t *train;
    const uint64_t *end;
    const char *heldout;
};

static colm_status check_params(const corpus_params *p, const tokenizer *t, colm_err *err) {
    if (p->n_text == 0)
        return err_set(err, COLM_E_INPUT, "text: names no file; list files, folders or patterns");
    if (!(p->heldout > 0 && p->heldout < 1))
        return err_set(err, COLM_E_INPUT, "heldout: %g is not a fraction between 0 and 1; 0.1 is usual",
                       p->heldout);
    if (p->split_on && !p->split_on[0])
        return err_set(err, COLM_E_INPUT,
                       "split_on: an empty pattern would make each byte a document; leave it out");
    if (!p->cache_dir || !p->cache_dir[0]) return err_set(err, COLM_E_INPUT, "cache_dir: is missing");
    if (tokenizer_vocab(t) > UINT16_MAX + 1u)
        return err_set(err, COLM_E_INPUT, "tokenizer \"%s\" has %u ids; token files hold at most %u",
                       tokenizer_name(t), tokenizer_vocab(t), UINT16_MAX + 1u);
    return COLM_OK;
}

static colm_status find_digest(const corpus_params *p, const tokenizer *t, const sources *src,
                               char ret[HASH_TEXT], colm_err *err) {
    char texts[HASH_TEXT];
    colm_status s = sources_digest(src, texts, err);
    if (s) return s;
    hash_state *h = hash_open();
    if (!h) return err_nomem(err, 0, "a digest");
    hash_add(h, &this_head, sizeof this_head);
    hash_add_text(h, texts);
    hash_add_text(h, tokenizer_digest(t));
    hash_add_text(h, p->split_on ? p->split_on : "");
    hash_add(h, &p->heldout, sizeof p->heldout);
    hash_add(h, &p->seed, sizeof p->seed);
    hash_add(h, &p->max_bytes, sizeof p->max_bytes);
    hash_close(&h, ret);
    return COLM_OK;
}

// ---- writing

typedef struct {
    file_out *file;
    hash_state *hash;
    uint64_t n;
} sink;

static colm_status put(sink *k, const void *bytes, size_t n, colm_err *err) {
    hash_add(k->hash, bytes, n);
    k->n += n;
    return file_out_write(k->file, bytes, n, err);
}

static colm_status put_tokens(sink *k, const token_list *l, colm_err *err) {
    uint16_t chunk[4096];
    size_t n = sizeof chunk / sizeof *chunk;
    for (size_t i = 0; i < l->n; i += n) {
        if (n > l->n - i) n = l->n - i;
        for (size_t j = 0; j < n; j++) chunk[j] = (uint16_t)l->id[i + j];
        colm_status s = put(k, chunk, n * sizeof *chunk, err);
        if (s) return s;
    }
    return COLM_OK;
}

static colm_status put_train(sink *k, const documents *d, const tokenizer *t, uint64_t *ret_n, colm_err *err) {
    colm_status s = COLM_OK;
    uint64_t n = 0;
    token_list l = {0};
    for (size_t i = d->n_heldout; i < d->n && !s; i++) {
        l.n = 0;
        s = tokenizer_encode(t, d->doc[i].bytes, d->doc[i].n, &l, err);
        if (!s) s = token_list_add(&l, tokenizer_eos(t), err);
        if (!s) s = put_tokens(k, &l, err);
        n += l.n;
    }
    token_list_done(&l);
    if (!s) *ret_n = n;
    return s;
}

static colm_status put_heldout(sink *k, const documents *d, colm_err *err) {
    static const char zeros[8];
    colm_status s = put(k, zeros, (size_t)(-k->n & 7), err);
    uint64_t end = 0;
    for (size_t i = 0; i < d->n_heldout && !s; i++) {
        end += d->doc[i].n;
        s = put(k, &end, sizeof end, err);
    }
    for (size_t i = 0; i < d->n_heldout && !s; i++) s = put(k, d->doc[i].bytes, d->doc[i].n, err);
    return s;
}

static colm_status build(const char *path, const corpus_params *p, const tokenizer *t, const sources *src,
                         const char *digest, colm_err *err) {
    documents d = {0};
    sink k = {0};
    tail end = {0};
    char sum[HASH_TEXT];
    colm_status s = documents_open(p, src, &d, err);
    if (!s) s = file_make_dirs(p->cache_dir, err);
    if (!s) s = file_out_open(path, &k.file, err);
    if (s) goto out;
    k.hash = hash_open();
    if (!k.hash) {
        s = err_nomem(err, 0, "a digest");
        goto out;
    }
    end.stats = (corpus_stats){.files = src->n,
                               .docs = d.n,
                               .bytes = d.bytes,
                               .train_docs = d.n - d.n_heldout,
                               .heldout_docs = d.n_heldout,
                               .heldout_bytes = d.heldout_bytes,
                               .duplicates = d.duplicates};
    memcpy(end.digest, digest, sizeof end.digest);
    s = put(&k, &this_head, sizeof this_head, err);
    if (!s) s = put_train(&k, &d, t, &end.stats.train_tokens, err);
    if (!s) s = put_heldout(&k, &d, err);
    if (!s) s = put(&k, &end, offsetof(tail, sum), err);
    if (s) goto out;
    hash_close(&k.hash, sum);
    s = file_out_write(k.file, sum, sizeof end.sum, err);
    if (!s) s = file_out_commit(&k.file, err);
out:
    hash_close(&k.hash, NULL);
    file_out_abandon(&k.file);
    documents_close(&d);
    return s;
}

// ---- reading

// What is wrong with the token file, or NULL after filling c from it.
static const char *damage(corpus *c) {
    const uint8_t *b = c->map.bytes;
    const size_t n = c->map.n;
    char sum[HASH_TEXT];
    tail t;
    if (n < sizeof this_head + sizeof t) return "it is too short";
    if (memcmp(b, &this_head, sizeof this_head) != 0)
        return "it does not begin like a token file of this version";
    memcpy(&t, b + n - sizeof t, sizeof t);
    hash_bytes(b, n - sizeof t.sum, sum);
    if (memcmp(sum, t.sum, sizeof t.sum) != 0) return "its checksum is wrong";
    if (memcmp(t.digest, c->digest, sizeof t.digest) != 0) return "it belongs to another corpus";
    const corpus_stats *q = &t.stats;
    if (q->train_tokens > n / 2 || q->heldout_docs > n / 8 || q->heldout_bytes > n)
        return "its counts are impossible";
    size_t ends_at = (sizeof this_head + 2 * (size_t)q->train_tokens + 7) / 8 * 8;
    size_t heldout_at = ends_at + 8 * (size_t)q->heldout_docs;
    if (heldout_at + q->heldout_bytes + sizeof t != n) return "its counts do not add up";
    const uint64_t *end = (const void *)(b + ends_at);
    for (size_t i = 0; i < q->heldout_docs; i++)
        if (end[i] < (i ? end[i - 1] : 0) || end[i] > q->heldout_bytes) return "its documents overlap";
    c->stats = *q;
    c->train = (const void *)(b + sizeof this_head);
    c->end = end;
    c->heldout = (const char *)b + heldout_at;
    return NULL;
}

static void report(const corpus *c, const corpus_params *p, bool built, const log_sink *log) {
    const corpus_stats *q = &c->stats;
    double got = (double)q->heldout_bytes / (double)q->bytes;
    log_line(log, LOG_INFO,
             "corpus \"%s\": %llu documents of %llu files, %llu bytes; %llu documents (%.1f %%) held out, %llu "
             "training "
             "tokens%s",
             c->name, (unsigned long long)q->docs, (unsigned long long)q->files, (unsigned long long)q->bytes,
             (unsigned long long)q->heldout_docs, 100 * got, (unsigned long long)q->train_tokens,
             built ? "" : " (cached)");
    if (q->duplicates)
        log_line(log, LOG_WARN,
                 "corpus \"%s\": %llu documents equal an earlier one; they are kept, on its side", c->name,
                 (unsigned long long)q->duplicates);
    if (got > 2 * p->heldout)
        log_line(log, LOG_WARN,
                 "corpus \"%s\": %.1f %% held out where %.1f %% was asked, as documents are not cut; a finer "
                 "split_on "
                 "would help",
                 c->name, 100 * got, 100 * p->heldout);
}

static colm_status open_cached(corpus *c, const corpus_params *p, const tokenizer *t, const sources *src,
                               const log_sink *log, colm_err *err) {
    arena names = {0};
    const char *why = NULL;
    bool built = false;
    colm_status s = COLM_OK;
    char *path = arena_printf(&names, "%s/%s.tokens", p->cache_dir, c->digest);
    if (!path) {
        s = err_nomem(err, strlen(p->cache_dir), "a path");
        goto out;
    }
    if (file_exists(path)) {
        s = file_map_open(path, &c->map, err);
        if (s) goto out;
        why = damage(c);
        if (why) log_line(log, LOG_WARN, "corpus \"%s\": building %s again: %s", c->name, path, why);
        if (why) file_map_close(&c->map);
    }
    if (!c->map.bytes) {
        s = build(path, p, t, src, c->digest, err);
        if (!s) s = file_map_open(path, &c->map, err);
        if (s) goto out;
        built = true;
        why = damage(c);
        if (why) {
            s = err_set(err, COLM_E_CHECK, "%s: just written, but %s: look after the disk", path, why);
            goto out;
        }
    }
    report(c, p, built, log);
out:
    arena_done(&names);
    return s;
}

colm_status corpus_open(const corpus_params *p, const tokenizer *t, const log_sink *log, corpus **ret,
                        colm_err *err) {
    sources src = {0};
    const char *name = p->name ? p->name : "";
    corpus *c = mem_alloc(1, sizeof *c);
    if (c) c->name = mem_alloc(strlen(name) + 1, 1);
    if (!c || !c->name) {
        free(c);
        return err_nomem(err, sizeof *c, "a corpus");
    }
    memcpy(c->name, name, strlen(name) + 1);
    colm_status s = check_params(p, t, err);
    if (!s) s = sources_open(p, &src, err);
    if (!s) s = find_digest(p, t, &src, c->digest, err);
    if (!s) s = open_cached(c, p, t, &src, log, err);
    sources_close(&src);
    if (s) {
        corpus_close(&c);
        err_at(err, "corpus \"%s\"", name);
    } else {
        *ret = c;
    }
    return s;
}

void corpus_close(corpus **c) {
    if (!*c) return;
    file_map_close(&(*c)->map);
    free((*c)->name);
    free(*c);
    *c = NULL;
}

const char *corpus_name(const corpus *c) {
    return c->name;
}
const char *corpus_digest(const corpus *c) {
    return c->digest;
}
const uint16_t *corpus_train(const corpus *c, size_t *ret_n) {
    *ret_n = (size_t)c->stats.train_tokens;
    return c->train;
}
size_t corpus_heldout_docs(const corpus *c) {
    return (size_t)c->stats.heldout_docs;
}
const char *corpus_heldout_doc(const corpus *c, size_t i, size_t *ret_n) {
    uint64_t begin = i ? c->end[i - 1] : 0;
    *ret_n = (size_t)(c->end[i] - begin);
    return c->heldout + begin;
}
corpus_stats corpus_get_stats(const corpus *c) {
    return c->stats;
}
