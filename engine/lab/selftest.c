/* The public selftest: its rows as a table. */
#include "engine/ops/selftest.h"

#include <math.h>
#include <stdio.h>

#include "engine/lab/print.h"
#include "engine/lab/report.h"

static const print_column columns[] = {{"op", NULL},    {"variant", NULL}, {"dtype", NULL}, {"shape", NULL},
                                       {"error", NULL}, {"limit", NULL},   {"pass", NULL},  {"note", NULL}};

static void on_row(void *user, const ops_selftest_row *r) {
    print *p = user;
    char shown[PRINT_SHORT];
    print_text(p, r->op);
    print_text(p, r->variant);
    print_text(p, r->dtype);
    print_text(p, r->shape);
    print_real_shown(p, r->error, print_short(r->error, 2, shown));
    print_real_shown(p, r->limit, print_short(r->limit, 2, shown));
    print_bool(p, r->pass);
    print_text(p, r->note ? r->note : isfinite(r->error) ? NULL : "not a finite number");
}

colm_status colm_selftest(const colm_device_params *device, colm_format f, char **ret_text, colm_err *err) {
    str out = {0};
    print *p = NULL;
    size_t failed = 0, n = 0;
    colm_err unseen;
    if (!err) err = &unseen; /* err_at needs one to know the status */
    colm_status st = print_open((store_format)f, columns, sizeof columns / sizeof *columns, &out, &p, err);
    if (!st) {
        ops_selftest_params sp = {.device = device->device,
                                  .kernels = device->kernels,
                                  .validate = device->validate,
                                  .sync = device->sync,
                                  .row = on_row,
                                  .user = p};
        st = ops_selftest(&sp, &failed, &n, err);
    }
    colm_status closed = print_close(&p, st ? NULL : err);
    if (!st) st = closed;
    if (!st && !failed && f == COLM_TABLE) str_addf(&out, "0 of %zu failed\n", n);
    st = report_hand_over(st, &out, ret_text, err);
    return st || !failed ? st : err_set(err, COLM_E_CHECK, "%zu of %zu failed", failed, n);
}
