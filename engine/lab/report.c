/* The public calls that only read: devices, experiment files, results. */
#include <stdlib.h>
#include <string.h>

#include "engine/lab/print.h"
#include "engine/lab/spec.h"
#include "engine/lab/store.h"
#include "engine/ops/ops.h"
#include "engine/lab/version.h"

void colm_text_free(char **text) {
    if (!text) return;
    free(*text);
    *text = NULL;
}

const char *colm_version(void) {
    return COLM_RELEASE "+" COLM_COMMIT;
}

const char *colm_status_text(colm_status s) {
    static const char *const text[] = {
        "ok",        "input error",  "usage error",  "read or write error", "out of memory",
        "no device", "device error", "check failed", "interrupted",         "internal error"};
    return (size_t)s < sizeof text / sizeof *text ? text[s] : "unknown status";
}

/* The format enums are one list seen from two sides. */
_Static_assert((int)COLM_TABLE == (int)STORE_TABLE && (int)COLM_JSON == (int)STORE_JSON &&
                   (int)COLM_CSV == (int)STORE_CSV,
               "formats");

static colm_status hand_over(colm_status st, str *out, char **ret, colm_err *err) {
    if (!st && out->failed) st = err_nomem(err, out->len, "output");
    if (!st && !out->text) str_add(out, "");
    if (!st)
        *ret = out->text;
    else
        str_done(out);
    return st;
}

static colm_status open_db(const char *db, store **ret, colm_err *err) {
    if (!db) db = getenv("COLM_DB");
    return store_open(db && *db ? db : "results/colm.db", false, ret, err);
}

colm_status colm_runs(const char *db, colm_format f, char **ret_text, colm_err *err) {
    store *s = NULL;
    str out = {0};
    colm_status st = open_db(db, &s, err);
    if (!st) st = store_print_runs(s, (store_format)f, &out, err);
    store_close(&s);
    return hand_over(st, &out, ret_text, err);
}

colm_status colm_show(const char *db, const char *run, colm_format f, char **ret_text, colm_err *err) {
    store *s = NULL;
    str out = {0};
    colm_status st = open_db(db, &s, err);
    if (!st) st = store_print_run(s, run, (store_format)f, &out, err);
    store_close(&s);
    return hand_over(st, &out, ret_text, err);
}

colm_status colm_compare(const char *db, const char *const *which, size_t n, colm_format f, char **ret_text,
                         colm_err *err) {
    store *s = NULL;
    str out = {0};
    colm_status st = open_db(db, &s, err);
    if (!st) st = store_print_compare(s, which, n, (store_format)f, &out, err);
    store_close(&s);
    return hand_over(st, &out, ret_text, err);
}

colm_status colm_query(const char *db, const char *sql, colm_format f, char **ret_text, colm_err *err) {
    store *s = NULL;
    str out = {0};
    colm_status st = open_db(db, &s, err);
    if (!st) st = store_print_query(s, sql, (store_format)f, &out, err);
    store_close(&s);
    return hand_over(st, &out, ret_text, err);
}
