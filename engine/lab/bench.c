/* `colm bench`: ceilings of a device, whole training steps of fixed configurations, and where their time goes.
 */
#include <math.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/lab/print.h"
#include "engine/lab/report.h"
#include "engine/train/bench.h"

#define MOST_CASES 16

/* One call of colm_bench. */
typedef struct {
    const bench_case *c[MOST_CASES];
    bench_result r[MOST_CASES];
    size_t n;
    bench_params params;
    ops_ceiling ceiling;
    double opened; /* seconds that opening the device took: part of every case's start */
} bench;

static void fixed(print *p, double v, double per, int digits) {
    char a[PRINT_SHORT];
    print_real_shown(p, v, print_fixed(v / per, digits, a));
}
/* Missing where nothing was measured to divide. */
static double ratio(double a, double b) {
    return a > 0 && b > 0 ? a / b : (double)NAN;
}

static double calls_seconds(const bench_result *r) {
    double sum = 0;
    for (size_t k = 0; k < r->profile.n; k++) sum += r->profile.cost[k].seconds;
    return sum;
}

static colm_status print_cases(const bench *b, store_format f, str *out, colm_err *err) {
    static const print_column columns[] = {{"case", NULL},
                                           {"what", NULL},
                                           {"tokens_per_s", "tokens/s"},
                                           {"median_s", "step ms\nmedian"},
                                           {"best_s", "\nbest"},
                                           {"gflop", "GFLOP\na step"},
                                           {"gflop_per_s", "GFLOP/s"},
                                           {"gb_per_s", "GB/s"},
                                           {"share", "share of\nceilings"},
                                           {"memory_bytes", "device\nbytes"},
                                           {"ready_s", "s to the\n1st step"},
                                           {"first_step_s", "1st\nstep s"},
                                           {"steps", NULL},
                                           {"tokens", ""},
                                           {"step_s", ""}};
    char a[PRINT_SHORT];
    print *p = NULL;
    colm_status st = print_open(f, columns, sizeof columns / sizeof *columns, out, &p, err);
    for (size_t i = 0; i < b->n && !st; i++) {
        const bench_result *r = &b->r[i];
        const double tokens = (double)r->tokens;
        str all = {0};
        for (size_t k = 0; k < r->steps; k++) {
            str_add(&all, k ? "," : "[");
            str_add_double(&all, r->time[k]);
        }
        str_add(&all, "]");
        print_text(p, b->c[i]->name);
        print_text(p, b->c[i]->about);
        fixed(p, tokens / r->median, 1, 0);
        fixed(p, r->median, 1e-3, 1);
        fixed(p, r->best, 1e-3, 1);
        fixed(p, r->flops / 1e9, 1, 1);
        fixed(p, r->flops / 1e9 / r->median, 1, 1);
        fixed(p, r->bytes / 1e9 / r->median, 1, 1);
        fixed(p, ratio(r->ideal, r->median), 1, 3);
        print_int_shown(p, (int64_t)r->memory, print_count((double)r->memory, a));
        fixed(p, b->opened + r->ready, 1, 2);
        fixed(p, r->first, 1, 2);
        print_int(p, (int64_t)r->steps);
        print_int(p, (int64_t)r->tokens);
        print_raw(p, all.text);
        str_done(&all);
    }
    colm_status end = print_close(&p, st ? NULL : err);
    return st ? st : end;
}

/* Of one case: a row for each operation, or each operation and shape; within a step, also what no call accounts
 * for, so that the shares add up. All per step. */
static void add_operations(print *p, const bench_case *c, const bench_result *r, bench_look look) {
    const graph_profile *g = &r->profile;
    const double steps = g->steps ? (double)g->steps : 1, calls = calls_seconds(r);
    const double whole = look == BENCH_INSIDE ? g->step_seconds : calls;
    for (size_t k = 0; k < g->n; k++) {
        const graph_cost *o = &g->cost[k];
        print_text(p, c->name);
        print_text(p, o->op);
        print_text(p, *o->shape ? o->shape : NULL);
        print_int(p, (int64_t)((double)o->calls / steps));
        fixed(p, o->seconds / steps, 1e-3, 2);
        fixed(p, o->seconds / (double)o->calls, 1e-3, 3);
        fixed(p, ratio(o->seconds, whole), 1, 3);
        fixed(p, o->seconds > 0 ? o->flops / 1e9 / o->seconds : (double)NAN, 1, 1);
        fixed(p, o->seconds > 0 ? o->bytes / 1e9 / o->seconds : (double)NAN, 1, 1);
        fixed(p, ratio(o->ideal, o->seconds), 1, 3);
    }
    if (look != BENCH_INSIDE) return;
    print_text(p, c->name);
    print_text(p, "(unaccounted)");
    print_null(p);
    print_null(p);
    fixed(p, (whole - calls) / steps, 1e-3, 2);
    print_null(p);
    fixed(p, (whole - calls) / whole, 1, 3);
    for (int i = 0; i < 3; i++) print_null(p);
}

static colm_status print_operations(const bench *b, store_format f, str *out, colm_err *err) {
    static const print_column columns[] = {{"case", NULL},
                                           {"op", NULL},
                                           {"shape", NULL},
                                           {"calls", "calls\na step"},
                                           {"seconds", "ms\na step"},
                                           {"call_s", "ms\na call"},
                                           {"of_step", "share\nof it"},
                                           {"gflop_per_s", "GFLOP/s"},
                                           {"gb_per_s", "GB/s"},
                                           {"share", "share of\nceilings"}};
    print *p = NULL;
    colm_status st = print_open(f, columns, sizeof columns / sizeof *columns, out, &p, err);
    for (size_t i = 0; i < b->n && !st; i++) add_operations(p, b->c[i], &b->r[i], b->params.look);
    colm_status end = print_close(&p, st ? NULL : err);
    return st ? st : end;
}

static void say_ceilings(const bench *b, str *out) {
    const ops_ceiling *c = &b->ceiling;
    char a[3][PRINT_SHORT];
    if (c->flops > 0)
        str_addf(out,
                 "ceilings: %s GFLOP/s multiplying and adding; copies %s GB/s from memory, %s GB/s in cache\n",
                 print_fixed(c->flops / 1e9, 1, a[0]), print_fixed(c->memory / 1e9, 1, a[1]),
                 print_fixed(c->cache / 1e9, 1, a[2]));
}

/* How the operations below were timed, and what is left of a step beside them. */
static void say_profiles(const bench *b, str *out) {
    for (size_t i = 0; i < b->n; i++) {
        const graph_profile *g = &b->r[i].profile;
        const double steps = g->steps ? (double)g->steps : 1, calls = calls_seconds(&b->r[i]) / steps;
        char a[4][PRINT_SHORT];
        str_addf(out, "%s: step %s ms; ", b->c[i]->name, print_fixed(1e3 * b->r[i].median, 1, a[0]));
        if (b->params.look == BENCH_INSIDE)
            str_addf(out, "of a profiled one's %s ms, calls %s ms, unaccounted %s ms",
                     print_fixed(1e3 * g->step_seconds / steps, 1, a[1]), print_fixed(1e3 * calls, 1, a[2]),
                     print_fixed(1e3 * (g->step_seconds / steps - calls), 1, a[3]));
        else
            str_addf(out, "all its calls, each alone, %s ms", print_fixed(1e3 * calls, 1, a[1]));
        str_addf(out, " (%s)\n", ops_timing_text(g->timing));
    }
    str_add(out, "\n");
}

static void add_timing(const bench *b, str *out) {
    str s = {0};
    str_add(&s, "[");
    for (size_t i = 0; i < b->n; i++) {
        const graph_profile *g = &b->r[i].profile;
        const double steps = g->steps ? (double)g->steps : 1, calls = calls_seconds(&b->r[i]) / steps;
        str_add(&s, i ? ",{" : "{");
        print_key_text(&s, "case", b->c[i]->name);
        print_key_text(&s, "method", ops_timing_text(g->timing));
        print_key_real(&s, "calls_s", calls);
        print_key_real(&s, "step_s", g->steps ? g->step_seconds / steps : (double)NAN);
        print_key_real(&s, "unaccounted_s", g->steps ? g->step_seconds / steps - calls : (double)NAN);
        str_add(&s, "}");
    }
    str_add(&s, "]");
    print_key_raw(out, "timing", s.text);
    str_done(&s);
}

static colm_status to_json(const bench *b, const ops_machine *m, str *out, colm_err *err) {
    str cases = {0}, operations = {0};
    colm_status st = print_cases(b, STORE_JSON, &cases, err);
    if (!st && b->params.look) st = print_operations(b, STORE_JSON, &operations, err);
    if (!st) {
        const ops_ceiling *c = &b->ceiling;
        const bool has = c->flops > 0;
        str_add(out, "{");
        print_key_text(out, "device", ops_machine_name(m));
        print_key_text(out, "version", colm_version());
        print_key_text(out, "precision", model_precision_name[b->params.precision]);
        str_add(out, ",\"ceilings\":{");
        print_key_real(out, "gflop_per_s", has ? c->flops / 1e9 : (double)NAN);
        print_key_real(out, "memory_gb_per_s", has ? c->memory / 1e9 : (double)NAN);
        print_key_real(out, "cache_gb_per_s", has ? c->cache / 1e9 : (double)NAN);
        print_key_int(out, "cache_bytes", (int64_t)c->cache_bytes);
        str_add(out, "}");
        print_key_raw(out, "cases", cases.text);
        print_key_raw(out, "operations", operations.text);
        if (b->params.look) add_timing(b, out);
        str_add(out, "}\n");
    }
    str_done(&cases);
    str_done(&operations);
    return st;
}

static colm_status print_all(const bench *b, const ops_machine *m, colm_format f, str *out, colm_err *err) {
    if (f == COLM_JSON) return to_json(b, m, out, err);
    if (f == COLM_TABLE) {
        str_addf(out, "device: %s\n", ops_machine_name(m));
        if (b->params.precision) str_addf(out, "precision: %s\n", model_precision_name[b->params.precision]);
        say_ceilings(b, out);
        str_add(out, "\n");
        if (b->params.look) say_profiles(b, out);
    }
    return b->params.look ? print_operations(b, (store_format)f, out, err)
                          : print_cases(b, (store_format)f, out, err);
}

/* The cases that letters name, each once, in their order. */
static colm_status choose(const char *letters, bench *b, colm_err *err) {
    char all[MOST_CASES + 1] = "";
    for (size_t i = 0; bench_case_at(i) && i < MOST_CASES; i++) all[i] = *bench_case_at(i)->name;
    if (!letters) letters = all;
    for (const char *l = letters; *l; l++) {
        const char *at = strchr(all, *l);
        if (!at) return err_set(err, COLM_E_INPUT, "no case \"%c\" in \"%s\"; there are %s", *l, letters, all);
        const bench_case *c = bench_case_at((size_t)(at - all));
        bool again = false;
        for (size_t i = 0; i < b->n; i++) again |= b->c[i] == c;
        if (!again) b->c[b->n++] = c;
    }
    return b->n ? COLM_OK : err_set(err, COLM_E_INPUT, "no case is named; there are %s", all);
}

static colm_status read_precision(const char *name, model_precision *ret, colm_err *err) {
    for (model_precision p = 0; p < PRECISIONS; p++)
        if (!name || strcmp(name, model_precision_name[p]) == 0) return *ret = p, COLM_OK;
    return err_set(err, COLM_E_INPUT, "no precision \"%s\"; there are f32, bf16 and f16", name);
}

colm_status colm_bench(const colm_bench_params *q, colm_format f, char **ret_text, colm_err *err) {
    const colm_device_params *d = &q->device;
    const ops_open_params p = {.device = d->device,
                               .kernels = d->kernels,
                               .validate = d->validate,
                               .sync = d->sync,
                               .tune = q->tune,
                               .submit_flops = d->submit_flops};
    bench b = {.params = {.batch = q->batch,
                          .context = q->context,
                          .seconds = q->seconds,
                          .interleave = q->interleave,
                          .by_shape = q->shapes}};
    ops_machine *m = NULL;
    str out = {0};
    b.params.look = q->alone ? BENCH_ALONE : q->profile || q->shapes ? BENCH_INSIDE : BENCH_STEPS;
    b.params.ceiling = &b.ceiling;
    colm_status st = choose(q->cases, &b, err);
    if (!st) st = read_precision(q->precision, &b.params.precision, err);
    if (!st && q->alone && (q->profile || q->shapes))
        st = err_set(err, COLM_E_USAGE,
                     "operations alone, or a profile of steps: ask for one of them at a time");
    const double before = clock_seconds();
    if (!st) st = ops_open(&p, &m, err);
    b.opened = clock_seconds() - before;
    if (!st) st = ops_ceiling_measure(m, &b.ceiling, err);
    if (!st) st = bench_cases(m, b.c, b.n, &b.params, b.r, err);
    if (!st) st = print_all(&b, m, f, &out, err);
    for (size_t i = 0; i < b.n; i++) bench_result_done(&b.r[i]);
    ops_close(&m);
    return report_hand_over(st, &out, ret_text, err);
}
