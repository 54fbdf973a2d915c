/* The comparison for programs: JSON with everything, CSV with one row a score. */
#include <math.h>
#include <string.h>

#include "engine/lab/compare.h"

static void add_cost(str *out, const char *key, const compare_cost *x) {
    print_key(out, key);
    str_add(out, "{");
    print_key_real(out, "tokens", x->tokens);
    print_key_real(out, "flops", x->flops);
    print_key_real(out, "seconds", x->seconds);
    str_add(out, "}");
}

static void add_difference(str *out, const char *key, const compare_difference *d) {
    print_key(out, key);
    str_add(out, "{");
    print_key_real(out, "value", d->value);
    print_key_real(out, "stderr", d->stderr_);
    print_key_bool(out, "paired", d->paired);
    print_key_bool(out, "within_noise", d->within_noise);
    str_add(out, "}");
}

// Opens the next element of an array.
static void next(str *out) {
    str_add(out, out->len && out->text[out->len - 1] == '[' ? "{" : ",\n{");
}

static void add_run(str *out, const compare_run *r) {
    next(out);
    print_key_int(out, "run", r->id);
    print_key_int(out, "seed", r->seed);
    print_key_text(out, "status", r->status);
    print_key_text(out, "reason", r->reason[0] ? r->reason : NULL);
    print_key(out, "parent");
    str_addf(out, r->parent_id ? "%lld" : "null", (long long)r->parent_id);
    print_key(out, "eval_stage");
    str_addf(out, r->stage ? "%lld" : "null", (long long)r->stage);
    print_key_text(out, "device", r->device);
    print_key_text(out, "numerics", r->numerics);
    print_key_text(out, "version", r->version);
    print_key_text(out, "precision", r->precision);
    print_key_text(out, "chains", r->chains);
    print_key_real(out, "params_total", r->params_total);
    print_key_real(out, "params_trained", r->params_trained);
    add_cost(out, "training", &r->own);
    add_cost(out, "training_with_ancestors", &r->whole);
    print_key_real(out, "eval_seconds", r->eval_seconds);
    print_key(out, "scores");
    str_add(out, "[");
    for (size_t i = 0; i < r->n_scores; i++) {
        const compare_score *x = &r->score[i];
        next(out);
        print_key_text(out, "task", x->task);
        print_key_text(out, "task_digest", x->digest);
        print_key_int(out, "scale", x->scale);
        print_key_text(out, "metric", x->metric);
        print_key_bool(out, "higher_better", x->higher_better);
        print_key_real(out, "value", x->value);
        print_key_real(out, "stderr", x->stderr_);
        print_key_int(out, "n", x->n);
        print_key_int(out, "n_truncated", x->n_truncated);
        print_key_int(out, "n_skipped", x->n_skipped);
        str_add(out, "}");
    }
    str_add(out, "]}");
}

static void add_main(str *out, const comparison *c, const compare_arm *a) {
    print_key(out, "main");
    str_add(out, "[");
    for (size_t t = 0; t < c->n_tasks; t++) {
        for (uint32_t s = 1; s <= a->scales; s++) {
            const compare_cell *x = compare_cell_at(c, a, s, t);
            if (!x->seeds) continue;
            next(out);
            print_key_text(out, "task", c->task[t].task);
            print_key_text(out, "metric", c->task[t].metric);
            print_key_bool(out, "higher_better", c->task[t].higher_better);
            print_key_int(out, "scale", s);
            print_key_int(out, "seeds", x->seeds);
            print_key_real(out, "value", x->value);
            print_key_real(out, "stderr", x->stderr_);
            print_key_real(out, "spread", x->spread);
            print_key_bool(out, "best", x->best);
            print_key_bool(out, "tied", x->tied);
            add_difference(out, "best_minus_this", &x->to_best);
            str_add(out, "}");
        }
    }
    str_add(out, "]");
}

static void add_kept(str *out, const comparison *c, const compare_arm *a) {
    print_key(out, "retention");
    str_add(out, "[");
    for (size_t i = 0; i < a->n_retention; i++) {
        const compare_retention *x = &a->retention[i];
        next(out);
        print_key_int(out, "scale", x->scale);
        print_key_int(out, "tasks", x->tasks);
        print_key_int(out, "answers", x->answers);
        print_key_int(out, "equal", x->equal);
        print_key_bool(out, "bit_identical", x->answers > 0 && x->equal == x->answers);
        print_key_bool(out, "certified", x->certified);
        str_add(out, "}");
    }
    str_add(out, "]");
    print_key(out, "forgetting");
    str_add(out, "[");
    for (size_t i = 0; i < a->n_forgetting; i++) {
        const compare_forgetting *f = &a->forgetting[i];
        next(out);
        print_key_text(out, "task", c->task[f->task].task);
        print_key_text(out, "metric", c->task[f->task].metric);
        print_key_int(out, "parent_scale", f->parent_scale);
        print_key_int(out, "scale", f->scale);
        print_key_real(out, "before", f->before);
        print_key_real(out, "after", f->after);
        add_difference(out, "first_minus_last", &f->forgot);
        str_add(out, "}");
    }
    str_add(out, "]");
}

colm_status compare_json(const comparison *c, str *out, colm_err *err) {
    str_add(out, "{");
    print_key_text(out, "experiment", c->title);
    print_key(out, "notices");
    str_add(out, "[");
    for (size_t i = 0; i < c->n_notices; i++) {
        if (i) str_add(out, ",");
        str_add_json(out, c->notice[i]);
    }
    str_add(out, "]");
    print_key(out, "arms");
    str_add(out, "[");
    for (const compare_arm *a = c->arm; a < c->arm + c->n_arms; a++) {
        next(out);
        print_key_text(out, "arm", a->label);
        print_key_text(out, "parent", a->parent);
        print_key_int(out, "scales", a->scales);
        add_main(out, c, a);
        add_kept(out, c, a);
        print_key(out, "runs");
        str_add(out, "[");
        for (size_t i = 0; i < a->n_runs; i++) add_run(out, a->run[i]);
        str_add(out, "]}");
    }
    str_add(out, "]}\n");
    return out->failed ? err_nomem(err, out->cap, "a comparison") : COLM_OK;
}

colm_status compare_csv(const comparison *c, str *out, colm_err *err) {
    static const print_column column[] = {{"experiment", NULL},    {"arm", NULL},
                                          {"parent", NULL},        {"seed", NULL},
                                          {"run", NULL},           {"status", NULL},
                                          {"chains", NULL},        {"scale", NULL},
                                          {"task", NULL},          {"metric", NULL},
                                          {"higher_better", NULL}, {"value", NULL},
                                          {"stderr", NULL},        {"n", NULL},
                                          {"n_truncated", NULL},   {"n_skipped", NULL},
                                          {"params_total", NULL},  {"params_trained", NULL},
                                          {"tokens", NULL},        {"tokens_with_ancestors", NULL},
                                          {"flops", NULL},         {"flops_with_ancestors", NULL},
                                          {"seconds", NULL},       {"seconds_with_ancestors", NULL},
                                          {"precision", NULL}};
    print *p = NULL;
    colm_status s = print_open(STORE_CSV, column, sizeof column / sizeof *column, out, &p, err);
    if (s) return s;
    for (const compare_arm *a = c->arm; a < c->arm + c->n_arms; a++) {
        for (size_t i = 0; i < a->n_runs; i++) {
            const compare_run *r = a->run[i];
            for (size_t k = 0; k < r->n_scores; k++) {
                const compare_score *x = &r->score[k];
                const double cost[] = {r->params_total, r->params_trained, r->own.tokens,  r->whole.tokens,
                                       r->own.flops,    r->whole.flops,    r->own.seconds, r->whole.seconds};
                print_text(p, r->experiment_name);
                print_text(p, r->arm);
                print_text(p, a->parent);
                print_int(p, r->seed);
                print_int(p, r->id);
                print_text(p, r->status);
                print_text(p, r->chains);
                print_int(p, x->scale);
                print_text(p, x->task);
                print_text(p, x->metric);
                print_bool(p, x->higher_better);
                print_real(p, x->value);
                print_real(p, x->stderr_);
                print_int(p, x->n);
                print_int(p, x->n_truncated);
                print_int(p, x->n_skipped);
                for (size_t j = 0; j < sizeof cost / sizeof *cost; j++) print_real(p, cost[j]);
                print_text(p, r->precision);
            }
        }
    }
    return print_close(&p, err);
}
