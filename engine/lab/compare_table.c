/* The comparison for people: scores, costs, and what was kept of the parent. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/compare.h"

#define WIDTH \
    110 /* characters that a terminal may be assumed to have; more tasks go into a table of their own */

typedef char cell_text[96];

// Digits after the point that give a task's smallest error two significant ones.
static int decimals_of(const comparison *c, size_t task) {
    double least = INFINITY;
    for (const compare_arm *a = c->arm; a < c->arm + c->n_arms; a++) {
        for (uint32_t s = 1; s <= a->scales; s++) {
            double e = compare_cell_at(c, a, s, task)->stderr_;
            if (e > 0 && e < least) least = e;
        }
    }
    if (!isfinite(least)) return 4;
    int digits = 1 - (int)floor(log10(least));
    return digits < 2 ? 2 : digits > 6 ? 6 : digits;
}

// "0.412 +- 0.031"
static void put_value(char *text, size_t n, double value, double error, int digits, bool sign) {
    char v[PRINT_SHORT], e[PRINT_SHORT];
    bool known = isfinite(error);
    snprintf(text, n, "%s%s%s%s", sign && value > 0 ? "+" : "", print_fixed(value, digits, v),
             known ? " +- " : "", known ? print_fixed(error, digits, e) : "");
}

static void put_cell(cell_text text, const compare_cell *x, int digits) {
    char spread[PRINT_SHORT];
    put_value(text, sizeof(cell_text), x->value, x->stderr_, digits, false);
    size_t n = strlen(text);
    if (x->seeds > 1)
        n += (size_t)snprintf(text + n, sizeof(cell_text) - n, " (%s)", print_fixed(x->spread, digits, spread));
    const char *mark = x->best ? " *" : x->tied ? " =" : x->to_best.within_noise ? " ~" : "";
    snprintf(text + n, sizeof(cell_text) - n, "%s", mark);
}

static void add_head(const comparison *c, str *out) {
    const compare_arm *a = c->arm;
    str_addf(out, "%s%s%zu arm%s, ", c->title ? c->title : "", c->title ? ": " : "", c->n_arms,
             c->n_arms == 1 ? "" : "s");
    size_t most = 0;
    for (size_t i = 0; i < c->n_arms; i++) {
        if (c->arm[i].n_runs > most) most = c->arm[i].n_runs, a = &c->arm[i];
    }
    str_addf(out, "seed%s", most == 1 ? "" : "s");
    for (size_t i = 0; i < most; i++) str_addf(out, "%s %lld", i ? "," : "", (long long)a->run[i]->seed);
    str_add(out, "\n");
    for (size_t i = 0; i < c->n_notices; i++) str_addf(out, "note: %s\n", c->notice[i]);
}

// ---- scores

static colm_status add_score_block(const comparison *c, const char *const *title, cell_text *text, size_t from,
                                   size_t to, str *out, colm_err *err) {
    print_column column[2 + 64] = {{"arm", NULL}, {"scale", NULL}};
    print *p = NULL;
    for (size_t t = from; t < to; t++) column[2 + t - from] = (print_column){c->task[t].task, title[t]};
    colm_status s = print_open(STORE_TABLE, column, 2 + to - from, out, &p, err);
    if (s) return s;
    for (size_t i = 0, row = 0; i < c->n_arms; i++) {
        const compare_arm *a = &c->arm[i];
        for (uint32_t scale = 1; scale <= a->scales; scale++, row++) {
            char of[64];
            snprintf(of, sizeof of, "%u of %u", scale, a->scales);
            print_text(p, scale == 1 ? a->label : "");
            print_text(p, of);
            for (size_t t = from; t < to; t++) print_text(p, text[row * c->n_tasks + t]);
        }
    }
    return print_close(&p, err);
}

static size_t longest_line(const char *text) {
    size_t most = 0;
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (n > most) most = n;
        text += n + (text[n] == '\n');
    }
    return most;
}

static colm_status add_scores(const comparison *c, arena *scratch, str *out, colm_err *err) {
    size_t rows = 0, row = 0, left = strlen("scale ") + 2;
    for (size_t i = 0; i < c->n_arms; i++) {
        rows += c->arm[i].scales;
        if (strlen(c->arm[i].label) + 10 > left) left = strlen(c->arm[i].label) + 10;
    }
    cell_text *text = arena_alloc(scratch, rows * c->n_tasks, sizeof *text);
    const char **title = arena_alloc(scratch, c->n_tasks, sizeof *title);
    size_t *width = arena_alloc(scratch, c->n_tasks, sizeof *width);
    if (!text || !title || !width) return err_nomem(err, rows * c->n_tasks * sizeof *text, "a table");
    for (size_t t = 0; t < c->n_tasks; t++) {
        const compare_task *x = &c->task[t];
        title[t] = arena_printf(scratch, "%s\n%s,\n%s is better", x->task, x->metric,
                                x->higher_better ? "higher" : "lower");
        if (!title[t]) return err_nomem(err, 64, "a table");
        width[t] = longest_line(title[t]);
    }
    for (size_t i = 0; i < c->n_arms; i++) {
        for (uint32_t s = 1; s <= c->arm[i].scales; s++, row++) {
            for (size_t t = 0; t < c->n_tasks; t++) {
                char *cell = text[row * c->n_tasks + t];
                put_cell(cell, compare_cell_at(c, &c->arm[i], s, t), decimals_of(c, t));
                if (strlen(cell) > width[t]) width[t] = strlen(cell);
            }
        }
    }
    str_add(out, "\nScores: value +- standard error\n");
    for (size_t from = 0, to; from < c->n_tasks; from = to) {
        size_t used = left;
        for (to = from; to < c->n_tasks && to - from < 64; to++) {
            if (to > from && used + width[to] + 2 > WIDTH) break;
            used += width[to] + 2;
        }
        if (from) str_add(out, "\n");
        colm_status s = add_score_block(c, title, text, from, to, out, err);
        if (s) return s;
    }
    bool several = false, marks[3] = {false}, unpaired = false;
    for (size_t i = 0; i < c->n_arms; i++) {
        several |= c->arm[i].n_runs > 1;
        for (size_t k = 0; k < (size_t)c->arm[i].scales * c->n_tasks; k++) {
            const compare_cell *x = &c->arm[i].cell[k];
            marks[0] |= x->best, marks[1] |= x->tied, marks[2] |= x->to_best.within_noise;
            unpaired |= !x->best && isfinite(x->to_best.value) && !x->to_best.paired;
        }
    }
    if (marks[0]) str_add(out, "* best of its task");
    if (marks[1]) str_add(out, "; = equal to it");
    if (marks[2]) str_add(out, "; ~ within noise of it: closer than 2 standard errors of the difference");
    if (marks[0]) str_add(out, "\n");
    if (unpaired)
        str_add(out, "differences without common answers are judged by both errors, not by pairs of items\n");
    if (several) str_add(out, "(in parentheses: standard deviation over seeds; values are means over seeds)\n");
    return COLM_OK;
}

// ---- costs

static double params_total(const compare_run *r) {
    return r->params_total;
}
static double params_trained(const compare_run *r) {
    return r->params_trained;
}
static double own_tokens(const compare_run *r) {
    return r->own.tokens;
}
static double whole_tokens(const compare_run *r) {
    return r->whole.tokens;
}
static double own_flops(const compare_run *r) {
    return r->own.flops;
}
static double whole_flops(const compare_run *r) {
    return r->whole.flops;
}
static double own_seconds(const compare_run *r) {
    return r->own.seconds;
}
static double whole_seconds(const compare_run *r) {
    return r->whole.seconds;
}
static double eval_seconds(const compare_run *r) {
    return r->eval_seconds;
}

static colm_status add_costs(const comparison *c, str *out, colm_err *err) {
    static const struct {
        const char *title;
        double (*of)(const compare_run *r);
        bool seconds;
    } cost[] = {{"parameters\ntotal", params_total, false}, {"\ntrained", params_trained, false},
                {"tokens\nown", own_tokens, false},         {"with\nparents", whole_tokens, false},
                {"FLOPs\nown", own_flops, false},           {"with\nparents", whole_flops, false},
                {"seconds\nown", own_seconds, true},        {"with\nparents", whole_seconds, true},
                {"eval\nseconds", eval_seconds, true}};
    enum { N = sizeof cost / sizeof *cost };
    print_column column[2 + N] = {{"arm", NULL}, {"chains", NULL}};
    char buf[PRINT_SHORT];
    print *p = NULL;
    for (size_t i = 0; i < N; i++) column[2 + i] = (print_column){"", cost[i].title};
    str_add(out, "\nCost of training (with parents: and of all that the arm started from)\n");
    colm_status s = print_open(STORE_TABLE, column, 2 + N, out, &p, err);
    if (s) return s;
    for (const compare_arm *a = c->arm; a < c->arm + c->n_arms; a++) {
        const compare_run *r = a->run[a->n_runs - 1];
        bool f32 = strcmp(r->precision, "f32") == 0;
        char chains[160];
        snprintf(chains, sizeof chains, "%s%s%s", r->chains, f32 ? "" : " ", f32 ? "" : r->precision);
        print_text(p, a->label);
        print_text(p, chains);
        for (size_t i = 0; i < N; i++) {
            double v = compare_mean(a, cost[i].of);
            print_real_shown(p, v, cost[i].seconds ? print_fixed(v, 1, buf) : print_count(v, buf));
        }
    }
    return print_close(&p, err);
}

// ---- retention

static bool is_kept(const compare_retention *x) {
    return x->answers > 0 && x->equal == x->answers;
}

static bool was_kept(const compare_arm *a, const compare_forgetting *f) {
    return f->scale == f->parent_scale && is_kept(&a->retention[f->scale - 1]);
}

static colm_status add_kept(const comparison *c, str *out, colm_err *err) {
    static const print_column column[] = {
        {"arm", NULL}, {"parent", NULL}, {"scale", NULL}, {"equal", "equal\nanswers"}, {"kept", NULL}};
    print *p = NULL;
    char text[160];
    str_add(out, "\nKept of the parent, same scale\n");
    colm_status s = print_open(STORE_TABLE, column, sizeof column / sizeof *column, out, &p, err);
    if (s) return s;
    for (const compare_arm *a = c->arm; a < c->arm + c->n_arms; a++) {
        for (const compare_retention *x = a->retention; x < a->retention + a->n_retention; x++) {
            print_text(p, a->label);
            print_text(p, a->parent);
            print_int(p, x->scale);
            snprintf(text, sizeof text, "%lld of %lld", (long long)x->equal, (long long)x->answers);
            print_text(p, text);
            size_t n = (size_t)snprintf(text, sizeof text, "%s",
                                        is_kept(x)   ? "bit for bit"
                                        : x->answers ? "no"
                                                     : "no answers in common");
            if (x->certified) {
                snprintf(text + n, sizeof text - n, "; certified: logits and %lld frozen tensors",
                         (long long)a->run[0]->tensors);
            }
            print_text(p, text);
        }
    }
    return print_close(&p, err);
}

static colm_status add_forgetting(const comparison *c, str *out, colm_err *err) {
    static const print_column column[] = {
        {"arm", NULL},          {"parent", NULL}, {"task", NULL},  {"metric", NULL}, {"ps", "scale of\nparent"},
        {"s", "scale of\narm"}, {"before", NULL}, {"after", NULL}, {"f", "forgot"}};
    print *p = NULL;
    char buf[PRINT_SHORT];
    cell_text text;
    size_t before = out->len;
    bool noise = false;
    str_add(
        out,
        "\nForgetting (first_minus_last: above 0 worse than the parent, below 0 better, for every metric)\n");
    colm_status s = print_open(STORE_TABLE, column, 9, out, &p, err);
    if (s) return s;
    for (const compare_arm *a = c->arm; a < c->arm + c->n_arms; a++) {
        for (const compare_forgetting *f = a->forgetting; f < a->forgetting + a->n_forgetting; f++) {
            const compare_task *t = &c->task[f->task];
            int digits = decimals_of(c, f->task);
            if (was_kept(a, f)) continue;
            print_text(p, a->label);
            print_text(p, a->parent);
            print_text(p, t->task);
            print_text(p, t->metric);
            print_int(p, f->parent_scale);
            print_int(p, f->scale);
            print_real_shown(p, f->before, print_fixed(f->before, digits, buf));
            print_real_shown(p, f->after, print_fixed(f->after, digits, buf));
            put_value(text, sizeof text - 2, f->forgot.value, f->forgot.stderr_, digits, true);
            if (f->forgot.within_noise) strcat(text, " ~");
            noise |= f->forgot.within_noise;
            print_text(p, text);
        }
    }
    bool empty = !print_rows(p);
    s = print_close(&p, err);
    if (!s && empty && !out->failed) {
        out->len = before;
        out->text[before] = 0;
    }
    if (noise) str_add(out, "~ within noise: smaller than 2 standard errors of the difference\n");
    return s;
}

colm_status compare_table(const comparison *c, str *out, colm_err *err) {
    arena scratch = {0};
    bool any = false;
    colm_status s = COLM_OK;
    add_head(c, out);
    if (c->n_tasks) s = add_scores(c, &scratch, out, err);
    if (!s) s = add_costs(c, out, err);
    for (size_t i = 0; i < c->n_arms; i++) any |= c->arm[i].n_retention > 0;
    if (!s && any) s = add_kept(c, out, err);
    if (!s && any) s = add_forgetting(c, out, err);
    arena_done(&scratch);
    return s;
}
