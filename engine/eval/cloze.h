/* Sentences of documents. Inside of the room. */
#ifndef COLM_EVAL_CLOZE_H
#define COLM_EVAL_CLOZE_H

#include "engine/base/str.h"
#include "engine/eval/internal.h"

enum { SENTENCE_MIN = 20, SENTENCE_MAX = 200 }; /* characters */

typedef struct {
    size_t begin, n; /* bytes in `bytes` */
    uint64_t hash;
    size_t doc, run; /* those of one run followed each other in the document */
} sentence_at;
typedef struct {
    str bytes; /* white space within a sentence is one space */
    sentence_at *at;
    size_t n, cap, runs;
} sentences;

/* Appends the sentences of a document that are between SENTENCE_MIN and SENTENCE_MAX long and hold a letter;
 * one that is left out ends a run. A sentence ends at . ! ? and closing quotes before white space, unless a
 * small letter follows or the stop ends a short capitalised word (Mr. Mrs. J.); and at a blank line. */
COLM_MUST_USE colm_status sentences_add(sentences *s, span doc, size_t doc_number, colm_err *err);
void sentences_done(sentences *s);

#endif
