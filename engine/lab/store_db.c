#include "engine/lab/store_db.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// What the person can do about a primary result code of SQLite.
static const struct {
    int code;
    colm_status status;
    const char *advice;
} reasons[] = {
    {SQLITE_NOMEM, COLM_E_MEMORY, ""},
    {SQLITE_NOTADB, COLM_E_INPUT, " (choose another file with --db)"},
    {SQLITE_CORRUPT, COLM_E_IO, " (the file is damaged: restore a copy, or choose another with --db)"},
    {SQLITE_BUSY, COLM_E_IO, " (another process held it for 30 s: close that one and try again)"},
    {SQLITE_LOCKED, COLM_E_IO, " (another process held it: close that one and try again)"},
    {SQLITE_FULL, COLM_E_IO, " (free some space, or choose another disk with --db)"},
    {SQLITE_READONLY, COLM_E_IO, " (make file and folder writable, or choose another with --db)"},
    {SQLITE_CANTOPEN, COLM_E_IO, " (may the folder be read and written?)"},
    {SQLITE_PERM, COLM_E_IO, ""},
    {SQLITE_IOERR, COLM_E_IO, ""},
};

colm_status db_fail(store *s, colm_err *err, const char *what) {
    int code = sqlite3_extended_errcode(s->db) & 0xff;
    const char *text = sqlite3_errmsg(s->db);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].code == code) {
            return err_set(err, reasons[i].status, "%s: %s: %s%s", s->path, what, text, reasons[i].advice);
        }
    }
    return err_set(err, COLM_E_BUG, "%s: %s: %s (SQLite code %d)", s->path, what, text,
                   sqlite3_extended_errcode(s->db));
}

static colm_status bind_list(store *s, sqlite3_stmt *st, colm_err *err, const char *types, va_list ap) {
    int rc = SQLITE_OK;
    for (int i = 1; types[i - 1] && !rc; i++) {
        switch (types[i - 1]) {
        case 'i':
            rc = sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
            break;
        case 'b':
            rc = sqlite3_bind_int(st, i, va_arg(ap, int));
            break;
        case 't':
            rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
            break;
        case 'u': {
            uint64_t v = va_arg(ap, uint64_t);
            if (v > INT64_MAX) {
                return err_set(err, COLM_E_INPUT,
                               "%s: cannot store %" PRIu64 ", the largest integer is %" PRId64, s->path, v,
                               INT64_MAX);
            }
            rc = sqlite3_bind_int64(st, i, (int64_t)v);
            break;
        }
        case 'z': {
            int64_t v = va_arg(ap, int64_t);
            rc = v ? sqlite3_bind_int64(st, i, v) : sqlite3_bind_null(st, i);
            break;
        }
        case 'd': {
            double v = va_arg(ap, double);
            rc = isfinite(v) ? sqlite3_bind_double(st, i, v) : sqlite3_bind_null(st, i);
            break;
        }
        default:
            return err_set(err, COLM_E_BUG, "db_bind: no value of type '%c'", types[i - 1]);
        }
    }
    return rc ? db_fail(s, err, "cannot bind a value") : COLM_OK;
}

colm_status db_bind(store *s, sqlite3_stmt *st, colm_err *err, const char *types, ...) {
    va_list ap;
    va_start(ap, types);
    colm_status c = bind_list(s, st, err, types, ap);
    va_end(ap);
    return c;
}

static colm_status open_list(store *s, sqlite3_stmt **ret, colm_err *err, const char *sql, const char *types,
                             va_list ap) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL)) return db_fail(s, err, "cannot prepare a statement");
    colm_status c = bind_list(s, st, err, types, ap);
    if (c) {
        sqlite3_finalize(st);
    } else {
        *ret = st;
    }
    return c;
}

colm_status db_open(store *s, sqlite3_stmt **ret, colm_err *err, const char *sql, const char *types, ...) {
    va_list ap;
    va_start(ap, types);
    colm_status c = open_list(s, ret, err, sql, types, ap);
    va_end(ap);
    return c;
}

colm_status db_row(store *s, sqlite3_stmt *st, bool *ret, colm_err *err) {
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        return db_fail(s, err, sqlite3_stmt_readonly(st) ? "cannot read" : "cannot write");
    }
    *ret = rc == SQLITE_ROW;
    return COLM_OK;
}

colm_status db_run(store *s, colm_err *err, const char *sql, const char *types, ...) {
    sqlite3_stmt *st = NULL;
    va_list ap;
    va_start(ap, types);
    colm_status c = open_list(s, &st, err, sql, types, ap);
    va_end(ap);
    bool row = true;
    while (!c && row) c = db_row(s, st, &row, err);
    sqlite3_finalize(st);
    return c;
}

colm_status db_again(store *s, sqlite3_stmt *st, colm_err *err, const char *types, ...) {
    va_list ap;
    va_start(ap, types);
    colm_status c = bind_list(s, st, err, types, ap);
    va_end(ap);
    bool row = true;
    while (!c && row) c = db_row(s, st, &row, err);
    sqlite3_reset(st);
    return c;
}

colm_status db_script(store *s, const char *sql, colm_err *err) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) ? db_fail(s, err, "cannot set up the database") : COLM_OK;
}

colm_status db_begin(store *s, colm_err *err) {
    if (!s->write) return err_set(err, COLM_E_BUG, "%s: opened for reading, asked to write", s->path);
    // IMMEDIATE: a transaction that reads first and writes later could not wait for another writer.
    return sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) ? db_fail(s, err, "cannot begin to write")
                                                                    : COLM_OK;
}

colm_status db_end(store *s, colm_status st, colm_err *err) {
    if (!st && sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL)) st = db_fail(s, err, "cannot write");
    // Some errors have rolled back already; then there is nothing left to do here.
    if (st && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

const char *db_text(sqlite3_stmt *st, int column) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

owner db_owner(sqlite3_stmt *st, int first) {
    owner o = {.pid = sqlite3_column_int64(st, first + 2), .start = sqlite3_column_int64(st, first + 3)};
    snprintf(o.host, sizeof o.host, "%s", db_text(st, first));
    snprintf(o.boot, sizeof o.boot, "%s", db_text(st, first + 1));
    return o;
}

void db_print(print *p, sqlite3_stmt *st, int c) {
    static const char digit[] = "0123456789abcdef";
    char buf[PRINT_SHORT];
    switch (sqlite3_column_type(st, c)) {
    case SQLITE_INTEGER:
        print_int(p, sqlite3_column_int64(st, c));
        return;
    case SQLITE_FLOAT: {
        double v = sqlite3_column_double(st, c);
        print_real_shown(p, v, print_short(v, 6, buf));
        return;
    }
    case SQLITE_TEXT:
        print_text(p, (const char *)sqlite3_column_text(st, c));
        return;
    case SQLITE_BLOB: {
        const unsigned char *bytes = sqlite3_column_blob(st, c);
        str hex = {0};
        str_add(&hex, "");
        for (int i = 0; i < sqlite3_column_bytes(st, c); i++) {
            str_addn(&hex, &digit[bytes[i] >> 4], 1);
            str_addn(&hex, &digit[bytes[i] & 15], 1);
        }
        print_text(p, hex.text); // without memory: missing, and the next append to the output fails as well
        str_done(&hex);
        return;
    }
    default:
        print_null(p);
    }
}
