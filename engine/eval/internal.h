/* Inside of a task: what builders (choice, cloze, bits) put in and what a run takes out. Seen by this room and
 * its tests only. */
#ifndef COLM_EVAL_INTERNAL_H
#define COLM_EVAL_INTERNAL_H

#include "engine/base/hash.h"
#include "engine/base/str.h"
#include "engine/eval/task.h"

typedef struct {
    const char *bytes; /* not NUL-terminated */
    size_t n;
} span;

size_t text_trailing_space(span t); /* bytes of white space (of Unicode) at the end */
size_t text_chars(span t);          /* Unicode code points; a byte that is no UTF-8 counts as one */

/* One choice or document: tokens token .. token+n_context+n_cont-1 of the task's pool. */
typedef struct {
    size_t token;
    uint32_t n_context, n_cont;
    double chars, bytes; /* of the bare choice; of the document */
} task_request;
typedef struct {
    size_t request; /* first of n_choices */
    uint32_t n_choices, gold;
} task_item;

struct eval_task {
    char *name;
    eval_kind kind;
    char digest[HASH_TEXT];
    token_list tokens;
    task_request *request;
    task_item *item;
    size_t n_requests, cap_requests, n_items, cap_items, backoffs;
};

typedef struct {
    eval_task *task;
    const tokenizer *tok;
    hash_state *hash;
    str joined; /* context and continuation as one text */
} task_builder;

/* Begins an item; its n_choices requests follow. */
COLM_MUST_USE colm_status task_add_item(task_builder *b, uint32_t n_choices, uint32_t gold, colm_err *err);
/* continuation follows context in the text; `bare` is what acc_norm divides by. */
COLM_MUST_USE colm_status task_add_choice(task_builder *b, span context, span continuation, span bare,
                                          colm_err *err);
COLM_MUST_USE colm_status task_add_document(task_builder *b, span document, colm_err *err);

COLM_MUST_USE colm_status choice_build(const eval_task_params *p, task_builder *b, colm_err *err);
COLM_MUST_USE colm_status cloze_build(const eval_task_params *p, task_builder *b, colm_err *err);
COLM_MUST_USE colm_status bits_build(const eval_task_params *p, task_builder *b, colm_err *err);

/* eval_task_run with `chunk` requests a call. */
COLM_MUST_USE colm_status task_run(const eval_task *t, const eval_model *m, size_t chunk,
                                   bool (*tick)(void *user, size_t done, size_t total), void *user,
                                   eval_outcome **ret, colm_err *err);

#endif
