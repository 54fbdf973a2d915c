/* Put before each source by the analysers (tests/lint/tools.sh), who see one file at a time: what the functions
 * of err.h return is never COLM_OK. Without this every `return err_set(...)` looks like a success to the
 * caller. */
#ifndef COLM_TESTS_LINT_ANALYSIS_H
#define COLM_TESTS_LINT_ANALYSIS_H

#include "engine/base/err.h"

#define err_set(err, code, ...) ((void)err_set(err, code, __VA_ARGS__), (code))
#define err_at(err, ...) ((void)err_at(err, __VA_ARGS__), COLM_E_BUG)
#define err_errno(err, path, what) ((void)err_errno(err, path, what), COLM_E_IO)
#define err_nomem(err, bytes, what) ((void)err_nomem(err, bytes, what), COLM_E_MEMORY)

#endif
