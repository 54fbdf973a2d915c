#include "engine/data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/data/tokenizer_kind.h"

colm_status token_list_reserve(token_list *io, size_t more, colm_err *err) {
    if (more <= io->cap - io->n) return COLM_OK;
    size_t need = io->n + more, cap = 2 * io->cap;
    if (need < more) return err_nomem(err, SIZE_MAX, "tokens");
    if (cap < need) cap = need;
    uint32_t *id = mem_grow(io->id, cap, sizeof *id);
    if (!id) return err_nomem(err, cap * sizeof *id, "tokens");
    io->id = id;
    io->cap = cap;
    return COLM_OK;
}

colm_status token_list_add(token_list *io, uint32_t id, colm_err *err) {
    colm_status s = token_list_reserve(io, 1, err);
    if (!s) io->id[io->n++] = id;
    return s;
}

void token_list_done(token_list *l) {
    free(l->id);
    *l = (token_list){0};
}

enum { BYTES_EOS = 256 };

static colm_status bytes_encode(const tokenizer *t, const char *text, size_t n, token_list *io, colm_err *err) {
    (void)t;
    colm_status s = token_list_reserve(io, n, err);
    if (s) return s;
    for (size_t i = 0; i < n; i++) io->id[io->n++] = (unsigned char)text[i];
    return COLM_OK;
}

static void bytes_piece(const tokenizer *t, uint32_t id, const char **ret, size_t *ret_n) {
    static const unsigned char all[BYTES_EOS] = {
#define ROW(r) r, r + 1, r + 2, r + 3, r + 4, r + 5, r + 6, r + 7
#define BLOCK(b) \
    ROW(b), ROW(b + 8), ROW(b + 16), ROW(b + 24), ROW(b + 32), ROW(b + 40), ROW(b + 48), ROW(b + 56)
        BLOCK(0), BLOCK(64), BLOCK(128), BLOCK(192)
#undef BLOCK
#undef ROW
    };
    (void)t;
    *ret = id < BYTES_EOS ? (const char *)&all[id] : "";
    *ret_n = id < BYTES_EOS;
}

static const tokenizer_kind kinds[] = {
    {"bytes", "bytes 1: id = byte, 256 ends a document", BYTES_EOS + 1, BYTES_EOS, false, bytes_encode,
     bytes_piece},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static colm_status unknown_kind(const char *spec, colm_err *err) {
    const char *names[N_KINDS];
    str known = {0};
    for (size_t i = 0; i < N_KINDS; i++) {
        names[i] = kinds[i].name;
        str_addf(&known, "%s\"%s\"", i ? ", " : "", names[i]);
    }
    const char *near = err_nearest(spec, names, N_KINDS);
    colm_status s = err_set(err, COLM_E_INPUT, "tokenizer \"%.100s\": no such kind%s%s%s; known: %s", spec,
                            near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "",
                            known.text ? known.text : "");
    str_done(&known);
    return s;
}

colm_status tokenizer_open(const char *spec, tokenizer **ret, colm_err *err) {
    for (size_t i = 0; i < N_KINDS; i++) {
        if (strcmp(spec, kinds[i].name) != 0) continue;
        tokenizer *t = mem_alloc(1, sizeof *t);
        if (!t) return err_nomem(err, sizeof *t, "a tokenizer");
        t->kind = &kinds[i];
        hash_bytes(t->kind->rules, strlen(t->kind->rules), t->digest);
        *ret = t;
        return COLM_OK;
    }
    return unknown_kind(spec, err);
}

void tokenizer_close(tokenizer **t) {
    free(*t);
    *t = NULL;
}

uint32_t tokenizer_vocab(const tokenizer *t) {
    return t->kind->vocab;
}
const char *tokenizer_name(const tokenizer *t) {
    return t->kind->name;
}
const char *tokenizer_digest(const tokenizer *t) {
    return t->digest;
}
uint32_t tokenizer_eos(const tokenizer *t) {
    return t->kind->eos;
}
bool tokenizer_adds_bos(const tokenizer *t) {
    return t->kind->adds_bos;
}

colm_status tokenizer_encode(const tokenizer *t, const char *text, size_t n, token_list *io, colm_err *err) {
    return t->kind->encode(t, text, n, io, err);
}

colm_status tokenizer_decode(const tokenizer *t, const uint32_t *id, size_t n, char **ret, size_t *ret_n,
                             colm_err *err) {
    const char *piece;
    size_t bytes = 0, len;
    for (size_t i = 0; i < n; i++) {
        if (id[i] >= t->kind->vocab)
            return err_set(err, COLM_E_INPUT, "token %zu of %zu has id %u, but tokenizer \"%s\" ends at %u", i,
                           n, id[i], t->kind->name, t->kind->vocab - 1);
        t->kind->piece(t, id[i], &piece, &len);
        bytes += len;
    }
    char *text = mem_alloc(bytes + 1, 1);
    if (!text) return err_nomem(err, bytes + 1, "decoded text");
    char *to = text;
    for (size_t i = 0; i < n; i++) {
        t->kind->piece(t, id[i], &piece, &len);
        memcpy(to, piece, len);
        to += len;
    }
    *ret = text;
    *ret_n = bytes;
    return COLM_OK;
}
