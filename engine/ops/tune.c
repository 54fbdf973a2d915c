/* The table of tuned choices and its text. */
#include "engine/ops/tune.h"

#include <stdio.h>
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

colm_status tune_parse(const char *text, tune_table *t, colm_err *err) {
    *t = (tune_table){0};
    for (size_t line = 1; *text; line++) {
        char op[16], a[8], b[8];
        tune_choice c = {0};
        const size_t n = strcspn(text, "\n");
        int used = 0;
        const bool read =
            sscanf(text, "%15s %7s %7s %9u %9u %15s%n", op, a, b, &c.N, &c.K, c.kind, &used) == 6 &&
            (size_t)used == n && read_op(op, &c.op) && read_dtype(a, &c.a) && read_dtype(b, &c.b);
        colm_status st = read ? tune_set(t, &c, err)
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
