#include "engine/eval/task.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eval/internal.h"

typedef struct {
    const char *name;
    int version; // of the rules that make the prompts
    colm_status (*build)(const eval_task_params *p, task_builder *b, colm_err *err);
} kind_row;
static const kind_row kinds[] = {
    [EVAL_CLOZE] = {"cloze", 1, cloze_build},
    [EVAL_CHOICE] = {"choice", 1, choice_build},
    [EVAL_BITS_PER_BYTE] = {"bits_per_byte", 1, bits_build},
};

static void hash_piece(hash_state *h, span t) {
    uint64_t n = t.n;
    hash_add(h, &n, sizeof n);
    hash_add(h, t.bytes, t.n);
}

colm_status task_add_item(task_builder *b, uint32_t n_choices, uint32_t gold, colm_err *err) {
    eval_task *t = b->task;
    if (t->n_items == t->cap_items) {
        size_t cap = t->cap_items ? 2 * t->cap_items : 256;
        task_item *more = mem_grow(t->item, cap, sizeof *more);
        if (!more) return err_nomem(err, cap * sizeof *more, "items");
        t->item = more;
        t->cap_items = cap;
    }
    t->item[t->n_items++] = (task_item){t->n_requests, n_choices, gold};
    hash_add(b->hash, (uint32_t[]){n_choices, gold}, 2 * sizeof(uint32_t));
    return COLM_OK;
}

static colm_status add_request(eval_task *t, task_request r, colm_err *err) {
    if (t->n_requests == t->cap_requests) {
        size_t cap = t->cap_requests ? 2 * t->cap_requests : 256;
        task_request *more = mem_grow(t->request, cap, sizeof *more);
        if (!more) return err_nomem(err, cap * sizeof *more, "requests");
        t->request = more;
        t->cap_requests = cap;
    }
    t->request[t->n_requests++] = r;
    return COLM_OK;
}

static colm_status check_length(size_t tokens, colm_err *err) {
    if (tokens < UINT32_MAX) return COLM_OK;
    return err_set(err, COLM_E_INPUT, "a text of %zu tokens is too long to be scored", tokens);
}

// Number of tokens of a text alone; the pool stays as it was.
static colm_status count_tokens(task_builder *b, span t, size_t *ret, colm_err *err) {
    token_list *pool = &b->task->tokens;
    const size_t before = pool->n;
    colm_status s = tokenizer_encode(b->tok, t.bytes, t.n, pool, err);
    if (!s) *ret = pool->n - before;
    pool->n = before;
    return s;
}

colm_status task_add_choice(task_builder *b, span context, span continuation, span bare, colm_err *err) {
    token_list *pool = &b->task->tokens;
    const uint32_t prefix = tokenizer_eos(b->tok);
    const span head = {context.bytes, context.n - text_trailing_space(context)};
    size_t n_head = 0;
    hash_piece(b->hash, context);
    hash_piece(b->hash, continuation);
    b->joined.len = 0;
    str_addn(&b->joined, context.bytes, context.n);
    str_addn(&b->joined, continuation.bytes, continuation.n);
    if (b->joined.failed) return err_nomem(err, context.n + continuation.n, "a request");
    // The prefix token goes in front in any case; `begin` says whether the request starts with it.
    colm_status s = token_list_add(pool, prefix, err);
    size_t begin = pool->n;
    if (!s) s = tokenizer_encode(b->tok, b->joined.text, b->joined.len, pool, err);
    if (!s) s = count_tokens(b, head, &n_head, err);
    if (!s) s = check_length(pool->n - begin, err);
    if (s) return s;
    if (pool->n == begin) return err_set(err, COLM_E_INPUT, "a choice without a token");
    const bool has_prefix = pool->id[begin] == prefix;
    const bool add_prefix = !has_prefix && (head.n == 0 || tokenizer_adds_bos(b->tok));
    begin -= add_prefix;
    n_head = head.n ? n_head + add_prefix : 1;
    if (n_head >= pool->n - begin) {
        n_head = pool->n - begin - 1;
        b->task->backoffs++;
    }
    if (n_head == 0) { // something must stand before the first scored token
        begin--;
        n_head = 1;
    }
    return add_request(b->task,
                       (task_request){begin, (uint32_t)n_head, (uint32_t)(pool->n - begin - n_head),
                                      (double)text_chars(bare), (double)bare.n},
                       err);
}

colm_status task_add_document(task_builder *b, span document, colm_err *err) {
    token_list *pool = &b->task->tokens;
    hash_piece(b->hash, document);
    colm_status s = token_list_add(pool, tokenizer_eos(b->tok), err);
    const size_t begin = pool->n;
    if (!s) s = tokenizer_encode(b->tok, document.bytes, document.n, pool, err);
    if (!s) s = check_length(pool->n - begin, err);
    if (!s) s = task_add_item(b, 1, 0, err);
    if (s) return s;
    return add_request(b->task,
                       (task_request){begin - 1, 1, (uint32_t)(pool->n - begin), (double)text_chars(document),
                                      (double)document.n},
                       err);
}

colm_status eval_task_open(const eval_task_params *p, const tokenizer *tok, eval_task **ret, colm_err *err) {
    colm_status s;
    const char *name = p->name ? p->name : "";
    eval_task *t = mem_alloc(1, sizeof *t);
    task_builder b = {.task = t, .tok = tok, .hash = hash_open()};
    if (t) t->name = mem_alloc(strlen(name) + 1, 1);
    if (!t || !t->name || !b.hash) {
        s = err_nomem(err, sizeof *t, "a task");
        goto out;
    }
    if ((size_t)p->kind >= sizeof kinds / sizeof *kinds) {
        s = err_set(err, COLM_E_BUG, "task \"%s\": kind %d is unknown", name, (int)p->kind);
        goto out;
    }
    memcpy(t->name, name, strlen(name) + 1);
    t->kind = p->kind;
    hash_add_text(b.hash, kinds[t->kind].name);
    hash_add(b.hash, &kinds[t->kind].version, sizeof kinds[t->kind].version);
    s = kinds[t->kind].build(p, &b, err);
    if (s) {
        err_at(err, "task \"%s\"", name);
        goto out;
    }
    hash_close(&b.hash, t->digest);
    *ret = t;
    t = NULL;
out:
    hash_close(&b.hash, NULL);
    str_done(&b.joined);
    eval_task_close(&t);
    return s;
}

void eval_task_close(eval_task **task) {
    eval_task *t = *task;
    if (!t) return;
    token_list_done(&t->tokens);
    free(t->request);
    free(t->item);
    free(t->name);
    free(t);
    *task = NULL;
}

const char *eval_task_name(const eval_task *t) {
    return t->name;
}
const char *eval_task_digest(const eval_task *t) {
    return t->digest;
}
int eval_task_version(const eval_task *t) {
    return kinds[t->kind].version;
}
size_t eval_task_items(const eval_task *t) {
    return t->n_items;
}
size_t eval_task_requests(const eval_task *t) {
    return t->n_requests;
}
size_t eval_task_backoffs(const eval_task *t) {
    return t->backoffs;
}
