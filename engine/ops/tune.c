/* The table of tuned choices and its text. */
#include "engine/ops/tune.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

void tune_done(tune_table *t) {
    free(t->choice);
    *t = (tune_table){0};
}

static bool same_key(const tune_choice *x, const tune_choice *y) {
    return x->op == y->op && x->a == y->a && x->b == y->b && x->N == y->N && x->K == y->K;
}

const tune_choice *tune_find(const tune_table *t, const tune_choice *k) {
    for (size_t i = 0; i < t->n; i++)
        if (same_key(&t->choice[i], k)) return &t->choice[i];
    return NULL;
}

colm_status tune_set(tune_table *t, const tune_choice *c, colm_err *err) {
    tune_choice *at = (tune_choice *)(uintptr_t)tune_find(t, c);
    if (!at && t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 64;
        tune_choice *grown = mem_grow(t->choice, cap, sizeof *grown);
        if (!grown) return err_nomem(err, cap * sizeof *grown, "tuned choices");
        t->choice = grown;
        t->cap = cap;
    }
    if (!at) at = &t->choice[t->n++];
    *at = *c;
    t->changed = true;
    return COLM_OK;
}

static bool read_dtype(const char *text, ops_dtype *ret) {
    static const ops_dtype all[] = {OPS_F32, OPS_BF16, OPS_F16};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(text, ops_dtype_name(all[i])) == 0) return *ret = all[i], true;
    return false;
}

static bool read_op(const char *text, ops_id *ret) {
    for (ops_id op = OP_LINEAR; op <= OP_LINEAR_DW; op++)
        if (strcmp(text, ops_get(op)->name) == 0) return *ret = op, true;
    return false;
}

/* Digits alone, at most 9. */
static bool read_number(const char *text, uint32_t *ret) {
    const size_t n = strspn(text, "0123456789");
    if (!n || n > 9 || text[n]) return false;
    *ret = (uint32_t)strtoul(text, NULL, 10);
    return true;
}

/* One line of n bytes: six words, a space between. */
static bool read_line(const char *line, size_t n, tune_choice *ret) {
    enum { WORDS = 6, LETTERS = sizeof ret->kind };
    char word[WORDS][LETTERS] = {{0}};
    size_t at = 0;
    for (size_t w = 0; w < WORDS; w++) {
        const size_t len = at < n ? strcspn(line + at, " \n") : 0;
        if (!len || len >= LETTERS || (at + len == n) != (w + 1 == WORDS)) return false;
        memcpy(word[w], line + at, len);
        word[w][len] = 0;
        at += len + 1;
    }
    *ret = (tune_choice){0};
    memcpy(ret->kind, word[5], LETTERS);
    return read_op(word[0], &ret->op) && read_dtype(word[1], &ret->a) && read_dtype(word[2], &ret->b) &&
           read_number(word[3], &ret->N) && read_number(word[4], &ret->K);
}

colm_status tune_parse(const char *text, tune_table *t, colm_err *err) {
    *t = (tune_table){0};
    for (size_t line = 1; *text; line++) {
        const size_t n = strcspn(text, "\n");
        tune_choice c;
        colm_status st = read_line(text, n, &c)
                             ? tune_set(t, &c, err)
                             : err_set(err, COLM_E_INPUT, "line %zu is no tuned choice: \"%.*s\"", line,
                                       (int)(n < 60 ? n : 60), text);
        if (st) {
            tune_done(t);
            return st;
        }
        text += n + (text[n] == '\n');
    }
    t->changed = false;
    return COLM_OK;
}

void tune_format(const tune_table *t, str *out) {
    for (size_t i = 0; i < t->n; i++) {
        const tune_choice *c = &t->choice[i];
        str_addf(out, "%s %s %s %u %u %s\n", ops_get(c->op)->name, ops_dtype_name(c->a), ops_dtype_name(c->b),
                 c->N, c->K, c->kind);
    }
}
