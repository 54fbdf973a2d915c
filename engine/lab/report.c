/* The public calls that read results, and the words of every status. */
#include "engine/lab/report.h"

#include <stdlib.h>

#include "engine/lab/store.h"
#include "version.h"

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

const char *report_db(const char *db) {
    if (!db) db = getenv("COLM_DB");
    return db && *db ? db : "results/colm.db";
}

colm_status report_hand_over(colm_status st, str *out, char **ret, colm_err *err) {
    if (!st) str_add(out, ""); /* no text is an empty one */
    if (!st && out->failed) st = err_nomem(err, out->len, "output");
    if (st)
        str_done(out);
    else
        *ret = out->text;
    return st;
}

/* The format enums are one list seen from two sides. */
_Static_assert((int)COLM_TABLE == (int)STORE_TABLE && (int)COLM_JSON == (int)STORE_JSON &&
                   (int)COLM_CSV == (int)STORE_CSV,
               "formats");

/* One question to the database: what is asked for is in n words. */
typedef colm_status question(store *s, const char *const *word, size_t n, store_format f, str *out,
                             colm_err *err);

static colm_status ask(const char *db, question *of, const char *const *word, size_t n, colm_format f,
                       char **ret_text, colm_err *err) {
    store *s = NULL;
    str out = {0};
    colm_err unseen;
    if (!err) err = &unseen; /* err_at needs one to know the status */
    colm_status st = store_open(report_db(db), false, &s, err);
    if (!st) st = of(s, word, n, (store_format)f, &out, err);
    store_close(&s);
    return report_hand_over(st, &out, ret_text, err);
}

static colm_status runs(store *s, const char *const *word, size_t n, store_format f, str *out, colm_err *err) {
    (void)word, (void)n;
    return store_print_runs(s, f, out, err);
}
static colm_status run(store *s, const char *const *word, size_t n, store_format f, str *out, colm_err *err) {
    (void)n;
    return store_print_run(s, *word, f, out, err);
}
static colm_status query(store *s, const char *const *word, size_t n, store_format f, str *out, colm_err *err) {
    (void)n;
    return store_print_query(s, *word, f, out, err);
}

colm_status colm_runs(const char *db, colm_format f, char **ret_text, colm_err *err) {
    return ask(db, runs, NULL, 0, f, ret_text, err);
}
colm_status colm_show(const char *db, const char *which, colm_format f, char **ret_text, colm_err *err) {
    return ask(db, run, &which, 1, f, ret_text, err);
}
colm_status colm_compare(const char *db, const char *const *which, size_t n, colm_format f, char **ret_text,
                         colm_err *err) {
    return ask(db, store_print_compare, which, n, f, ret_text, err);
}
colm_status colm_query(const char *db, const char *sql, colm_format f, char **ret_text, colm_err *err) {
    return ask(db, query, &sql, 1, f, ret_text, err);
}
