/* Files: whole reads, memory maps, and writes that are either all there or not there. */
#ifndef COLM_BASE_FILE_H
#define COLM_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

/* Whole file plus a terminating NUL; free() it. Refuses files over `limit` bytes (0: no limit). */
COLM_MUST_USE colm_status file_read(const char *path, size_t limit, char **ret_bytes, size_t *ret_n,
                                    colm_err *err);

typedef struct {
    const uint8_t *bytes; /* NULL for an empty file */
    size_t n;
} file_map;
COLM_MUST_USE colm_status file_map_open(const char *path, file_map *ret, colm_err *err);
void file_map_close(file_map *m); /* sets it to zero */

/* Atomic write: a temporary file beside `path`, then fsync, rename, fsync of the folder. A crash leaves the old
 * file or the new one. Order: file_out_open, file_out_write..., then file_out_commit, or file_out_abandon (also
 * after failure; accepts NULL and committed). */
typedef struct file_out file_out;
COLM_MUST_USE colm_status file_out_open(const char *path, file_out **ret, colm_err *err);
COLM_MUST_USE colm_status file_out_write(file_out *f, const void *bytes, size_t n, colm_err *err);
COLM_MUST_USE colm_status file_out_commit(file_out **f, colm_err *err);
void file_out_abandon(file_out **f);
/* open + write + commit. */
COLM_MUST_USE colm_status file_write(const char *path, const void *bytes, size_t n, colm_err *err);

/* mkdir -p. */
COLM_MUST_USE colm_status file_make_dirs(const char *path, colm_err *err);
bool file_exists(const char *path);
/* Expands files, folders (all regular files below, recursively) and glob patterns, relative to `base_dir`
 * unless absolute; sorted by path bytes, without duplicates. *ret_paths is one block of n pointers followed by
 * their texts: free(*ret_paths). A pattern that names nothing is COLM_E_INPUT. */
COLM_MUST_USE colm_status file_expand(const char *base_dir, const char *pattern, char ***ret_paths,
                                      size_t *ret_n, colm_err *err);

#endif
