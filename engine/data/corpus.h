/* Corpora: text files to documents, to a train and a held-out part, to memory-mapped token files.
 *
 * A document is a file, or a piece of one where `split_on` (a PCRE2 pattern in multi-line mode) matches: each
 * match starts a new document; empty ones are dropped. Documents are ordered by a hash of (seed, their bytes);
 * the first of them, until `heldout` of all bytes is reached, are held out (at least one document on each side,
 * else COLM_E_INPUT). So the split depends on content, not on names or order, never cuts a document, and equal
 * documents fall on one side. (Near-duplicates are not looked for.) The token file in cache_dir is named by a
 * digest of texts, tokenizer and parameters, written atomically, checked when opened and rebuilt when damaged.
 *
 * The pattern sees bytes: `.` is one byte, literal UTF-8 matches as written, ^ and $ know CR, LF and CRLF. A
 * match may be empty, as in ^(?=Chapter). */
#ifndef COLM_DATA_CORPUS_H
#define COLM_DATA_CORPUS_H

#include "engine/base/log.h"
#include "engine/data/tokenizer.h"

typedef struct {
    const char *name;        /* for messages */
    const char *base_dir;    /* relative paths start here */
    const char *const *text; /* n_text files, folders or glob patterns */
    size_t n_text;
    const char *split_on; /* NULL: one document a file */
    double heldout;       /* fraction of bytes, in (0, 1); 0.1 is usual */
    uint64_t seed;
    uint64_t max_bytes;    /* 0: all; else whole documents in hash order until this many bytes are taken */
    const char *cache_dir; /* made when missing */
} corpus_params;

typedef struct corpus corpus;
COLM_MUST_USE colm_status corpus_open(const corpus_params *p, const tokenizer *t, const log_sink *log,
                                      corpus **ret, colm_err *err);
void corpus_close(corpus **c);
/* Whether a split_on can be compiled: COLM_E_INPUT with the pattern, what is wrong with it, and at which
 * character. */
COLM_MUST_USE colm_status corpus_check_pattern(const char *split_on, colm_err *err);

const char *corpus_digest(const corpus *c); /* of texts, tokenizer and split: 32 hex digits */
const char *corpus_name(const corpus *c);   /* as in the parameters */
/* Training tokens: documents in hash order, each followed by eos. Mapped; valid until corpus_close. */
const uint16_t *corpus_train(const corpus *c, size_t *ret_n);
/* Held-out documents as original bytes (not NUL-terminated). */
size_t corpus_heldout_docs(const corpus *c);
const char *corpus_heldout_doc(const corpus *c, size_t i, size_t *ret_n);
/* Totals of what was taken, for plans and records. duplicates: documents equal to an earlier one. */
typedef struct {
    uint64_t files, docs, bytes, train_docs, train_tokens, heldout_docs, heldout_bytes, duplicates;
} corpus_stats;
corpus_stats corpus_get_stats(const corpus *c);

/* Batches as a pure function of (seed, step): row b of step s is a window of T+1 training tokens from part
 * choose(b, s) (by weight), at a start drawn uniformly from all possible ones (the last window included). A row
 * depends on neither B nor the other rows. Windows run across documents, which eos separates. */
typedef struct {
    const corpus *corpus;
    double weight; /* > 0; relative */
} batch_part;
/* Fills tokens and targets, each B*T row-major. COLM_E_INPUT when a part has fewer than T+1 tokens, a
 * weight is not positive or step >= 2^32. Allocates nothing. */
COLM_MUST_USE colm_status batch_fill(const batch_part *part, size_t n_parts, uint64_t seed, uint64_t step,
                                     uint32_t B, uint32_t T, uint32_t *ret_tokens, uint32_t *ret_targets,
                                     colm_err *err);

/* Rows row0 .. row0+B-1 of a step: micro-batches of one. */
COLM_MUST_USE colm_status batch_fill_rows(const batch_part *part, size_t n_parts, uint64_t seed, uint64_t step,
                                          uint32_t row0, uint32_t B, uint32_t T, uint32_t *ret_tokens,
                                          uint32_t *ret_targets, colm_err *err);

#endif
