/* Digests: XXH3 with 128 bits (xxHash), written as 32 lower-case hex digits. They find accidents, not
 * attackers. */
#ifndef COLM_BASE_HASH_H
#define COLM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define HASH_TEXT 33 /* 32 digits and NUL */

typedef struct hash_state hash_state;
hash_state *hash_open(void); /* NULL on lack of memory */
void hash_add(hash_state *h, const void *bytes, size_t n);
void hash_add_text(hash_state *h, const char *text);  /* with its NUL, so that "ab","c" differs from "a","bc" */
void hash_close(hash_state **h, char ret[HASH_TEXT]); /* ret may be NULL */

void hash_bytes(const void *bytes, size_t n, char ret[HASH_TEXT]);
COLM_MUST_USE colm_status hash_file(const char *path, char ret[HASH_TEXT], colm_err *err);
uint64_t hash_u64(const void *bytes, size_t n); /* XXH3 64 bits: table keys, stream names */

#endif
