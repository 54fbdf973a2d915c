#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/lab/store_db.h"

// Called by SQLite for everything that a statement would do: lets reading pass and nothing else. ATTACH and
// many pragmas count as read-only for sqlite3_stmt_readonly, so that alone is not enough.
static int only_reading(void *user, int action, const char *a, const char *b, const char *db,
                        const char *trigger) {
    static const struct {
        const char *name;
        bool argument; // names a table; without: would set something
    } pragma[] = {{"table_info", true},   {"table_xinfo", true},      {"table_list", true},
                  {"index_list", true},   {"foreign_key_list", true}, {"user_version", false},
                  {"journal_mode", false}};
    (void)db;
    (void)trigger;
    if (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION ||
        action == SQLITE_RECURSIVE) {
        return SQLITE_OK;
    }
    for (size_t i = 0; action == SQLITE_PRAGMA && i < sizeof pragma / sizeof *pragma; i++) {
        if (!strcmp(a, pragma[i].name) && (pragma[i].argument || !b)) return SQLITE_OK;
    }
    *(bool *)user = true;
    return SQLITE_DENY;
}

// Only white space, comments and semicolons.
static bool says_nothing(const char *sql) {
    for (;;) {
        sql += strspn(sql, " \t\r\n\f;");
        if (!strncmp(sql, "--", 2)) {
            sql += strcspn(sql, "\n");
        } else if (!strncmp(sql, "/*", 2)) {
            const char *end = strstr(sql + 2, "*/");
            sql = end ? end + 2 : sql + strlen(sql);
        } else {
            return !*sql;
        }
    }
}

static colm_status prepare_query(store *s, const char *sql, sqlite3_stmt **ret, colm_err *err) {
    sqlite3_stmt *st = NULL;
    const char *rest = NULL;
    bool denied = false;
    sqlite3_set_authorizer(s->db, only_reading, &denied);
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, &rest);
    sqlite3_set_authorizer(s->db, NULL, NULL);
    // A write to one of the readers' views fails before anybody is asked.
    const char *text = rc ? sqlite3_errmsg(s->db) : "";
    bool wrote = denied || strstr(text, "cannot modify") || (st && !sqlite3_stmt_readonly(st));
    colm_status c = COLM_OK;
    if (wrote) {
        c = err_set(err, COLM_E_INPUT, "query: only reading is allowed (SELECT ...), nothing was changed in %s",
                    s->path);
    } else if ((rc & 0xff) == SQLITE_ERROR) {
        c = err_set(err, COLM_E_INPUT, "query: %s (results/README.md lists tables and columns)", text);
    } else if (rc) {
        c = db_fail(s, err, "cannot prepare the query");
    } else if (!st) {
        c = err_set(err, COLM_E_INPUT, "query: there is no statement in it, expected SELECT ...");
    } else if (!says_nothing(rest)) {
        c = err_set(err, COLM_E_INPUT, "query: one statement at a time, found more after the first: %.40s",
                    rest + strspn(rest, " \t\r\n;"));
    } else if (sqlite3_bind_parameter_count(st)) {
        c = err_set(err, COLM_E_INPUT, "query: has %d parameters (?), expected values in the text",
                    sqlite3_bind_parameter_count(st));
    }
    if (c) {
        sqlite3_finalize(st);
    } else {
        *ret = st;
    }
    return c;
}

// Names of the columns; the second of the same name becomes name_2, so that JSON objects keep them all.
static print_column *name_columns(arena *a, sqlite3_stmt *st, size_t n) {
    print_column *column = arena_alloc(a, n ? n : 1, sizeof *column);
    for (size_t i = 0; column && i < n; i++) {
        const char *plain = sqlite3_column_name(st, (int)i);
        char *name = plain ? arena_strdup(a, plain) : NULL;
        for (size_t j = 0, count = 1; name && j < i; j++) {
            if (strcmp(column[j].key, name)) continue;
            name = arena_printf(a, "%s_%zu", plain, ++count);
            j = (size_t)-1;
        }
        if (!name) return NULL;
        // A title with a line break would be two lines; a nameless column still has a key.
        column[i] = (print_column){name, name[0] ? NULL : " "};
    }
    return column;
}

colm_status store_print_query(store *s, const char *sql, store_format f, str *out, colm_err *err) {
    sqlite3_stmt *st = NULL;
    print *p = NULL;
    arena names = {0};
    bool row = true;
    colm_status c = prepare_query(s, sql, &st, err);
    if (c) return c;
    size_t n = (size_t)sqlite3_column_count(st);
    print_column *column = name_columns(&names, st, n);
    c = column ? print_open(f, column, n, out, &p, err)
               : err_nomem(err, n * sizeof *column, "the query's columns");
    while (!c && row) {
        int rc = sqlite3_step(st);
        row = rc == SQLITE_ROW;
        if ((rc & 0xff) == SQLITE_ERROR) { // "integer overflow", "malformed JSON"
            c = err_set(err, COLM_E_INPUT, "query: %s", sqlite3_errmsg(s->db));
        } else if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
            c = db_fail(s, err, "cannot read");
        }
        for (size_t i = 0; row && !c && i < n; i++) db_print(p, st, (int)i);
    }
    colm_status closed = print_close(&p, c ? NULL : err);
    if (!c) c = closed;
    if (!c && f == STORE_JSON) str_add(out, "\n");
    sqlite3_finalize(st);
    arena_done(&names);
    return c;
}
