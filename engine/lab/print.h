/* Rows of results in three shapes: an aligned table for people, JSON and CSV for programs.
 *
 * Order: print_open, then for every row one cell a column, left to right, then print_close. JSON is an array of
 * objects with the columns' keys, every digit of every number, null for what is missing; CSV is RFC 4180 with a
 * line of keys, empty for what is missing. In tables a missing value is "-", numbers stand to the right, and
 * *_shown cells may show another text than the number itself. A failed allocation is remembered; print_close
 * reports it. */
#ifndef COLM_LAB_PRINT_H
#define COLM_LAB_PRINT_H

#include "engine/base/str.h"
#include "engine/lab/store.h"

typedef struct {
    const char *key;   /* in JSON and CSV; NULL: the column is for people only */
    const char *title; /* in tables, lines parted by '\n'; NULL: the key. "": the column is for programs only */
} print_column;

typedef struct print print;
/* Columns must live until print_close. */
COLM_MUST_USE colm_status print_open(store_format f, const print_column *column, size_t n, str *out,
                                     print **ret, colm_err *err);
void print_null(print *p);
void print_text(print *p, const char *text); /* NULL: missing */
void print_bool(print *p, bool v);
void print_int(print *p, int64_t v);
void print_real(print *p, double v); /* not finite: missing */
/* A number of which tables show `shown` instead. */
void print_int_shown(print *p, int64_t v, const char *shown);
void print_real_shown(print *p, double v, const char *shown);
/* JSON text as it is; text that is no JSON is missing. For programs: tables show nothing of it. */
void print_raw(print *p, const char *json);
/* Writes what is left (the whole table) and frees; accepts NULL. */
colm_status print_close(print **p, colm_err *err);
size_t print_rows(const print *p); /* finished ones */

/* Members of a JSON object by hand: adds "key": with a comma before it unless it follows '{'; then a value.
 * Text NULL, raw NULL or no JSON, and numbers that are not finite become null. */
void print_key(str *out, const char *key);
void print_key_text(str *out, const char *key, const char *text);
void print_key_raw(str *out, const char *key, const char *json);
void print_key_bool(str *out, const char *key, bool v);
void print_key_int(str *out, const char *key, int64_t v);
void print_key_real(str *out, const char *key, double v);

#define PRINT_SHORT 32
/* Three or four digits and a unit prefix: 950, 1.23k, 12.3M, 4.56G, 7.89T, 1.2e+21; "-" when not finite. */
const char *print_count(double v, char buf[PRINT_SHORT]);
/* `digits` significant digits whatever the locale; "-" when not finite. */
const char *print_short(double v, int digits, char buf[PRINT_SHORT]);
/* `digits` after the point whatever the locale; "-" when not finite. */
const char *print_fixed(double v, int digits, char buf[PRINT_SHORT]);
/* Local time "2025-11-30 22:38" of seconds since 1970; "-" when not finite. */
const char *print_time(double unix_seconds, char buf[PRINT_SHORT]);

#endif
