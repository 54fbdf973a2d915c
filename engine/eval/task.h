/* Zero-shot tasks by the rules of lm-evaluation-harness: requests, scores, metrics. Knows no model: whoever can
 * score token sequences at one or several scales is an eval_model.
 *
 * Order: eval_task_open (reads or builds all items), eval_task_run with any number of models, eval_task_close.
 * Corpus and tokenizer may be closed after eval_task_open.
 *
 * Requests: the context's trailing white space moves to the continuation; both are tokenized as one text and
 * cut after as many tokens as the context alone has (one less where nothing would be left: counted as a
 * back-off). An empty context is the tokenizer's eos. What is longer than max_length + 1 loses its beginning
 * (n_truncated); an item with a continuation longer than max_length is not scored (n_skipped).
 *
 * cloze: sentences of 20 to 200 characters end at . ! ? or a blank line; an item is `sentences` of them that
 * follow each other in one document, the next one, and distractors from elsewhere in the held-out text. No
 * sentence is in two items, but for distractors.
 *
 * bits_per_byte: every token of a document is scored once, the end of the document is not; the first window
 * begins with eos, later ones with what stands before (as many tokens as the model can read); documents are
 * never joined. The standard error treats documents as the sample and is that of a ratio (delta method). */
#ifndef COLM_EVAL_TASK_H
#define COLM_EVAL_TASK_H

#include "engine/data/corpus.h"

/* Scores of n requests. A request is n_context + n_cont tokens, not longer than max_length + 1 in all; the
 * score is the sum of log-probabilities (float32 log-softmax, summed in double) of the last n_cont tokens given
 * what stands before each. There is always at least one token before the first scored one. */
typedef struct {
    const uint32_t *token;
    uint32_t n_context, n_cont;
} eval_request;
typedef struct {
    double logprob;
    bool greedy; /* every scored token was the first maximum */
} eval_result;
typedef struct {
    uint32_t n_scales;   /* 1 .. n: results for scale s of request r stand at ret[r*n_scales + s] */
    uint32_t max_length; /* tokens the model can read */
    void *user;
    colm_status (*score)(void *user, const eval_request *req, size_t n, eval_result *ret, colm_err *err);
} eval_model;

typedef enum { EVAL_CLOZE, EVAL_CHOICE, EVAL_BITS_PER_BYTE } eval_kind;
typedef struct {
    const char *name; /* "bible_cloze" */
    eval_kind kind;
    const corpus *corpus; /* cloze, bits_per_byte: its held-out documents */
    const char *file;     /* choice: JSONL lines {"query", "choices", "gold"}, or {"contexts", "continuation",
                             "gold"} where the contexts differ and not the choices (other keys ignored) */
    uint32_t items;       /* most items (cloze: drawn by seed; choice: the first; 0: all, cloze 200) */
    uint32_t sentences;   /* cloze: context sentences; 0: 3 */
    uint32_t choices;     /* cloze: 2..16; 0: 4 */
    uint64_t max_bytes; /* bits_per_byte: most held-out bytes, whole documents until reached then cut; 0: all */
    uint64_t seed;
} eval_task_params;

typedef struct eval_task eval_task;
COLM_MUST_USE colm_status eval_task_open(const eval_task_params *p, const tokenizer *t, eval_task **ret,
                                         colm_err *err);
void eval_task_close(eval_task **t);
const char *eval_task_name(const eval_task *t);
const char *eval_task_digest(const eval_task *t); /* of prompts, choices, golds: 32 hex digits */
int eval_task_version(const eval_task *t);        /* of the rules that make the prompts */
size_t eval_task_items(const eval_task *t);
size_t eval_task_requests(const eval_task *t); /* choices of all items; bits_per_byte: documents */
size_t eval_task_backoffs(const eval_task *t); /* requests whose join was moved back by a token */

typedef struct {
    const char *metric; /* static text: "acc", "acc_norm", "acc_bytes", "bits_per_byte", ... */
    bool higher_better;
    double value;
    double stderr_;                     /* NAN: none (n == 1) */
    uint32_t n, n_truncated, n_skipped; /* items */
} eval_score;
/* One item at one scale; skipped items have none. For bits_per_byte an item is a document: sum[0] its
 * log-probability, choice = gold = 0, right false. */
typedef struct {
    uint32_t item, n_choices, choice, choice_norm, gold;
    bool right, right_norm; /* acc, acc_norm */
    const double *sum;      /* n_choices log-probabilities */
    uint64_t bytes;         /* bits_per_byte: scored bytes of the document; else 0 */
} eval_answer;
typedef struct {
    uint32_t n_scales, n_scores, n_answers;
    eval_score *score;   /* [n_scales][n_scores] */
    eval_answer *answer; /* [n_scales][n_answers] */
} eval_outcome;
/* Scores do not depend on the order of requests or on how many are asked for at once (256 here). All items
 * skipped is COLM_E_INPUT. A NaN or infinite log-probability is COLM_E_CHECK naming task, item and scale.
 * `tick` (may be NULL) reports requests done; returning true stops with COLM_E_INTERRUPTED. */
COLM_MUST_USE colm_status eval_task_run(const eval_task *t, const eval_model *m,
                                        bool (*tick)(void *user, size_t done, size_t total), void *user,
                                        eval_outcome **ret, colm_err *err);
void eval_outcome_free(eval_outcome **o);

#endif
