/* What the store's own files share: the connection, and statements in one line. Nobody else includes this. */
#ifndef COLM_LAB_STORE_DB_H
#define COLM_LAB_STORE_DB_H

#include <sqlite3.h>

#include "engine/lab/owner.h"
#include "engine/lab/print.h"
#include "engine/lab/store.h"

struct store {
    sqlite3 *db;
    char *path;
    bool write;
    owner self;
    char notice[256];
};

/* The last error of the connection as a status with the path: what could not be done, why, and what to do. */
colm_status db_fail(store *s, colm_err *err, const char *what);

/* One value a letter: i int64_t, u uint64_t (over 2^63-1 is COLM_E_INPUT), z int64_t with 0 as NULL, b bool as
 * int, t text or NULL, d double (not finite: NULL). Text must live until the statement is stepped. */
COLM_MUST_USE colm_status db_bind(store *s, sqlite3_stmt *st, colm_err *err, const char *types, ...);
/* Prepares one statement and binds its values. Finalize it with sqlite3_finalize. */
COLM_MUST_USE colm_status db_open(store *s, sqlite3_stmt **ret, colm_err *err, const char *sql,
                                  const char *types, ...);
/* *ret tells whether there is a row. */
COLM_MUST_USE colm_status db_row(store *s, sqlite3_stmt *st, bool *ret, colm_err *err);
/* Prepares, binds, runs to the end. */
COLM_MUST_USE colm_status db_run(store *s, colm_err *err, const char *sql, const char *types, ...);
/* For statements run many times: binds, runs to the end, resets. */
COLM_MUST_USE colm_status db_again(store *s, sqlite3_stmt *st, colm_err *err, const char *types, ...);
/* Several statements without values: schema and pragmas. */
COLM_MUST_USE colm_status db_script(store *s, const char *sql, colm_err *err);

/* A transaction that may write: colm_status st = db_begin(...); if (!st) st = ...; return db_end(s, st, err);
 * db_end commits when st is COLM_OK, else rolls back and returns st. */
COLM_MUST_USE colm_status db_begin(store *s, colm_err *err);
COLM_MUST_USE colm_status db_end(store *s, colm_status st, colm_err *err);

/* Column as text that is never NULL ("" for NULL); valid until the next step. */
const char *db_text(sqlite3_stmt *st, int column);
owner db_owner(sqlite3_stmt *st, int first); /* columns host, boot, pid, process_start */

/* A column's value as the next cell: blobs as hex digits, six digits of a real number in tables. */
void db_print(print *p, sqlite3_stmt *st, int column);

/* The run named by id, "experiment/arm" or "experiment/arm/seed" (newest); COLM_E_INPUT when there is none. */
COLM_MUST_USE colm_status store_run_find(store *s, const char *which, store_id *ret, colm_err *err);
/* The newest experiment of a name, 0 when there is none. */
COLM_MUST_USE colm_status store_experiment_find(store *s, const char *name, store_id *ret, colm_err *err);
/* COLM_E_INPUT "no run or experiment ... in PATH" with the nearest name. */
colm_status store_unknown(store *s, const char *which, colm_err *err);

#endif
