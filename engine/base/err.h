/* Errors: a status to branch on and one line for the person.
 *
 * Every fallible function returns a colm_status (must use) and takes a caller-owned colm_err * as its last
 * argument, which is filled only on failure and may be NULL. On the way up callers prepend where they were:
 *
 *     colm_status s = spec_stage(json, &stage, err);
 *     if (s) return err_at(err, "stages[%zu]", i);
 *
 * gives "stages[1]: add[0]: 100 is not a multiple of head size 64". `ret_` parameters are written on success
 * only. */
#ifndef COLM_BASE_ERR_H
#define COLM_BASE_ERR_H

#include <stdarg.h>

#include "engine/colm.h"

#define COLM_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define COLM_MUST_USE __attribute__((warn_unused_result))

/* Fills *err (if not NULL) with the code and the formatted text, and returns the code. */
COLM_PRINTF(3, 4) colm_status err_set(colm_err *err, colm_status code, const char *fmt, ...);

/* Prepends "context: " to the text of *err and returns its code (COLM_E_BUG when err is NULL). */
COLM_PRINTF(2, 3) colm_status err_at(colm_err *err, const char *fmt, ...);

/* COLM_E_IO with "path: what: strerror(errno)". Call it right after the failing call. */
colm_status err_errno(colm_err *err, const char *path, const char *what);

/* COLM_E_MEMORY with the number of bytes that could not be had and what they were for. */
colm_status err_nomem(colm_err *err, size_t bytes, const char *what);

/* Nearest of n names to `word` by edit distance, or NULL when none is near; for "did you mean". */
const char *err_nearest(const char *word, const char *const *names, size_t n);

#endif
