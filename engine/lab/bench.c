/* `colm bench`: whole training steps of fixed configurations. */
#include <string.h>

#include "engine/lab/print.h"
#include "engine/lab/report.h"
#include "engine/train/bench.h"

static colm_status print_steps(const bench_case *const *c, const bench_result *r, size_t n, store_format f,
                               str *out, colm_err *err) {
    static const print_column columns[] = {{"case", NULL},
                                           {"what", NULL},
                                           {"tokens_per_s", "tokens/s"},
                                           {"median_s", "step s\nmedian"},
                                           {"best_s", "best"},
                                           {"gflop", "GFLOP\na step"},
                                           {"gflop_per_s", "GFLOP/s"},
                                           {"memory_bytes", "device\nbytes"},
                                           {"first_step_s", "to first\nstep s"},
                                           {"steps", NULL}};
    char a[PRINT_SHORT];
    print *p = NULL;
    colm_status st = print_open(f, columns, sizeof columns / sizeof *columns, out, &p, err);
    for (size_t i = 0; i < n && !st; i++) {
        print_text(p, c[i]->name);
        print_text(p, c[i]->about);
        print_real_shown(p, (double)r[i].tokens / r[i].median,
                         print_fixed((double)r[i].tokens / r[i].median, 0, a));
        print_real_shown(p, r[i].median, print_fixed(r[i].median, 4, a));
        print_real_shown(p, r[i].best, print_fixed(r[i].best, 4, a));
        print_real_shown(p, r[i].flops / 1e9, print_fixed(r[i].flops / 1e9, 1, a));
        print_real_shown(p, r[i].flops / 1e9 / r[i].median, print_fixed(r[i].flops / 1e9 / r[i].median, 1, a));
        print_int_shown(p, (int64_t)r[i].memory, print_count((double)r[i].memory, a));
        print_real_shown(p, r[i].first, print_fixed(r[i].first, 2, a));
        print_int(p, (int64_t)r[i].steps);
    }
    colm_status end = print_close(&p, st ? NULL : err);
    return st ? st : end;
}

static colm_status print_profile(const bench_case *const *c, const bench_result *r, size_t n, store_format f,
                                 str *out, colm_err *err) {
    static const print_column columns[] = {{"case", NULL},    {"op", NULL},    {"calls", NULL},
                                           {"seconds", "ms"}, {"share", NULL}, {"gflop_per_s", "GFLOP/s"}};
    char a[PRINT_SHORT];
    print *p = NULL;
    colm_status st = print_open(f, columns, sizeof columns / sizeof *columns, out, &p, err);
    for (size_t i = 0; i < n && !st; i++) {
        double all = 0;
        for (size_t k = 0; k < r[i].n_ops; k++) all += r[i].op[k].seconds;
        for (size_t k = 0; k < r[i].n_ops; k++) {
            const graph_cost *o = &r[i].op[k];
            print_text(p, c[i]->name);
            print_text(p, o->op);
            print_int(p, (int64_t)o->calls);
            print_real_shown(p, o->seconds, print_fixed(1e3 * o->seconds, 2, a));
            print_real_shown(p, o->seconds / all, print_fixed(o->seconds / all, 3, a));
            print_real_shown(p, o->flops / 1e9 / o->seconds, print_fixed(o->flops / 1e9 / o->seconds, 1, a));
        }
    }
    colm_status end = print_close(&p, st ? NULL : err);
    return st ? st : end;
}

static bool wanted(const char *list, const char *name) {
    return !list || strstr(list, name);
}

colm_status colm_bench(const colm_bench_params *q, colm_format f, char **ret_text, colm_err *err) {
    const bench_case *c[16];
    bench_result r[16];
    size_t n = 0;
    ops_machine *m = NULL;
    str out = {0};
    const colm_device_params *d = &q->device;
    ops_open_params p = {.device = d->device,
                         .kernels = d->kernels,
                         .validate = d->validate,
                         .sync = d->sync,
                         .submit_flops = d->submit_flops};
    colm_status st = ops_open(&p, &m, err);
    for (size_t i = 0; bench_case_at(i) && !st; i++) {
        if (!wanted(q->cases, bench_case_at(i)->name)) continue;
        c[n] = bench_case_at(i);
        st = bench_step(m, c[n], q->batch ? q->batch : 8, q->context ? q->context : 256,
                        q->seconds > 0 ? q->seconds : 5, q->profile, &r[n], err);
        n++;
    }
    if (!st && !n) st = err_set(err, COLM_E_INPUT, "no case of a to f among \"%s\"", q->cases);
    if (!st && f == COLM_TABLE) str_addf(&out, "device: %s\n\n", ops_machine_name(m));
    if (!st)
        st = q->profile ? print_profile(c, r, n, (store_format)f, &out, err)
                        : print_steps(c, r, n, (store_format)f, &out, err);
    ops_close(&m);
    return report_hand_over(st, &out, ret_text, err);
}
