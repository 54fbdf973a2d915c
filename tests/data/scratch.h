/* A folder of its own for a test, and texts in it. */
#ifndef COLM_TESTS_DATA_SCRATCH_H
#define COLM_TESTS_DATA_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"

typedef struct {
    char path[256];
    arena names;
} scratch;

static inline scratch scratch_open(void) {
    scratch s = {0};
    const char *base = getenv("TMPDIR");
    snprintf(s.path, sizeof s.path, "%s/colm-test-XXXXXX", base && base[0] ? base : "/tmp");
    if (!mkdtemp(s.path)) s.path[0] = 0;
    return s;
}

/* "folder/name"; lives until scratch_close. */
static inline const char *scratch_path(scratch *s, const char *name) {
    return arena_printf(&s->names, "%s/%s", s->path, name);
}

/* Writes a file; gives its path, or NULL. */
static inline const char *scratch_put(scratch *s, const char *name, const void *bytes, size_t n) {
    const char *path = scratch_path(s, name);
    return file_write(path, bytes, n, NULL) ? NULL : path;
}

static inline void scratch_close(scratch *s) {
    if (s->path[0]) {
        const char *command = arena_printf(&s->names, "rm -rf '%s'", s->path);
        if (system(command)) printf("# could not remove %s\n", s->path);
    }
    arena_done(&s->names);
}

#endif
