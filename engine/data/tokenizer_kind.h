/* Inside of tokenizers: what a new kind must bring. Seen by this room and its tests only. */
#ifndef COLM_DATA_TOKENIZER_KIND_H
#define COLM_DATA_TOKENIZER_KIND_H

#include "engine/base/hash.h"
#include "engine/data/tokenizer.h"

typedef struct {
    const char *name;
    const char *rules; /* the mapping in words with a version: its hash is the digest */
    uint32_t vocab, eos;
    bool adds_bos;
    colm_status (*encode)(const tokenizer *t, const char *text, size_t n, token_list *io, colm_err *err);
    /* Bytes of one valid id: *ret_n of them at *ret. Pointers live as long as the tokenizer. */
    void (*piece)(const tokenizer *t, uint32_t id, const char **ret, size_t *ret_n);
} tokenizer_kind;

struct tokenizer {
    const tokenizer_kind *kind;
    char digest[HASH_TEXT];
};

/* Room for `more` ids behind io->n. */
COLM_MUST_USE colm_status token_list_reserve(token_list *io, size_t more, colm_err *err);

#endif
