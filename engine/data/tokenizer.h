/* Tokenizers: text to ids and back. One kind so far, "bytes": ids 0-255 are bytes, 256 separates documents. The
 * interface is a table of functions so that byte-pair encoders can join. decode(encode(x)) == x for any bytes.
 */
#ifndef COLM_DATA_TOKENIZER_H
#define COLM_DATA_TOKENIZER_H

#include <stdbool.h>

#include "engine/base/err.h"

typedef struct tokenizer tokenizer;

/* `spec` is "bytes". Unknown names are COLM_E_INPUT and list the known ones. */
COLM_MUST_USE colm_status tokenizer_open(const char *spec, tokenizer **ret, colm_err *err);
void tokenizer_close(tokenizer **t);

uint32_t tokenizer_vocab(const tokenizer *t);     /* number of ids, specials included */
const char *tokenizer_name(const tokenizer *t);   /* "bytes" */
const char *tokenizer_digest(const tokenizer *t); /* identity of the mapping, 32 hex digits */
uint32_t tokenizer_eos(const tokenizer *t);       /* ends every document; also the prefix of an empty context */
bool tokenizer_adds_bos(const tokenizer *t); /* whether requests start with tokenizer_eos/bos (bytes: no) */

/* Ids of n bytes, appended to a growing array. */
typedef struct {
    uint32_t *id; /* owned: token_list_done */
    size_t n, cap;
} token_list;
COLM_MUST_USE colm_status tokenizer_encode(const tokenizer *t, const char *text, size_t n, token_list *io,
                                           colm_err *err);
/* One id more. */
COLM_MUST_USE colm_status token_list_add(token_list *io, uint32_t id, colm_err *err);
/* Bytes of ids (specials give nothing); NUL-terminated, free() it. An id outside the vocabulary is
 * COLM_E_INPUT. */
COLM_MUST_USE colm_status tokenizer_decode(const tokenizer *t, const uint32_t *id, size_t n, char **ret,
                                           size_t *ret_n, colm_err *err);
void token_list_done(token_list *l);

#endif
