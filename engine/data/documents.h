/* Texts to documents, in the order and with the split that corpus.h promises. Inside of the room. */
#ifndef COLM_DATA_DOCUMENTS_H
#define COLM_DATA_DOCUMENTS_H

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/data/corpus.h"

typedef struct {
    file_map *map;     /* one a file, in path order */
    const char **path; /* texts in `names` */
    arena names;
    size_t n;
} sources;
/* Maps every file that p->text names, each path once. */
COLM_MUST_USE colm_status sources_open(const corpus_params *p, sources *ret, colm_err *err);
void sources_close(sources *s);
/* Of the contents, whatever the files are called. */
COLM_MUST_USE colm_status sources_digest(const sources *s, char ret[HASH_TEXT], colm_err *err);

typedef struct {
    const char *bytes; /* in the sources; never empty */
    size_t n;
    uint64_t key; /* a random function of (seed, bytes): the order */
} document;
typedef struct {
    document *doc; /* in order; the first n_heldout are held out */
    size_t n, cap;
    size_t n_heldout;
    size_t duplicates; /* documents equal to the one before them: always on its side */
    uint64_t bytes, heldout_bytes;
} documents;
COLM_MUST_USE colm_status documents_open(const corpus_params *p, const sources *s, documents *ret,
                                         colm_err *err);
void documents_close(documents *d);

#endif
