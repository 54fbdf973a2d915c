#include "engine/lab/compare.h"

static colm_status compare_write(const comparison *c, store_format f, str *out, colm_err *err) {
    switch (f) {
    case STORE_JSON:
        return compare_json(c, out, err);
    case STORE_CSV:
        return compare_csv(c, out, err);
    default:
        return compare_table(c, out, err);
    }
}

colm_status store_print_compare(store *s, const char *const *which, size_t n, store_format f, str *out,
                                colm_err *err) {
    comparison c = {0};
    // One transaction: all numbers are of one moment, though runs go on beside us.
    if (sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL)) return db_fail(s, err, "cannot read");
    colm_status st = compare_load(s, which, n, &c, err);
    if (!st) st = compare_weigh(&c, err);
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (!st) st = compare_write(&c, f, out, err);
    if (!st && out->failed) st = err_nomem(err, out->cap, "a comparison");
    arena_done(&c.memory);
    return st;
}
