#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

#define DEPTH_MAX 64

typedef struct {
    char **paths; // texts in `texts`
    size_t n, cap, bytes;
    arena texts;
} list;

static colm_status list_add(list *l, const char *path, colm_err *err) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        char **more = mem_grow(l->paths, cap, sizeof *more);
        if (!more) return err_nomem(err, cap * sizeof *more, path);
        l->paths = more;
        l->cap = cap;
    }
    char *copy = arena_strdup(&l->texts, path);
    if (!copy) return err_nomem(err, strlen(path) + 1, path);
    l->paths[l->n++] = copy;
    l->bytes += strlen(path) + 1;
    return COLM_OK;
}

// A file, or the files below a folder. Links to folders are followed at the top only, so that no cycle can be
// entered.
static colm_status add_below(list *l, const char *path, unsigned depth, colm_err *err) {
    struct stat st;
    colm_status s = COLM_OK;
    DIR *dir = NULL;
    str child = {0};
    if ((depth ? lstat : stat)(path, &st)) return err_errno(err, path, "cannot look at");
    if (S_ISLNK(st.st_mode) && (stat(path, &st) || !S_ISREG(st.st_mode))) return COLM_OK;
    if (S_ISREG(st.st_mode)) return list_add(l, path, err);
    if (!S_ISDIR(st.st_mode)) return COLM_OK;
    if (depth > DEPTH_MAX)
        return err_set(err, COLM_E_INPUT, "%s: folders nest deeper than %d", path, DEPTH_MAX);
    dir = opendir(path);
    if (!dir) return err_errno(err, path, "cannot list");
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (!e && errno) s = err_errno(err, path, "cannot list");
        if (!e) break;
        if (e->d_name[0] == '.') continue;
        child.len = 0;
        str_addf(&child, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", e->d_name);
        s = child.failed ? err_nomem(err, strlen(path), path) : add_below(l, child.text, depth + 1, err);
        if (s) break;
    }
    str_done(&child);
    closedir(dir);
    return s;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// One block: n pointers, then their texts, sorted and each once.
static char **pack(list *l, size_t *ret_n) {
    char **block = mem_alloc(l->n * sizeof *block + l->bytes, 1);
    if (!block) return NULL;
    qsort(l->paths, l->n, sizeof *l->paths, by_bytes);
    char *text = (char *)(block + l->n);
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (i && strcmp(l->paths[i], l->paths[i - 1]) == 0) continue;
        size_t bytes = strlen(l->paths[i]) + 1;
        block[n++] = memcpy(text, l->paths[i], bytes);
        text += bytes;
    }
    *ret_n = n;
    return block;
}

colm_status file_expand(const char *base_dir, const char *pattern, char ***ret_paths, size_t *ret_n,
                        colm_err *err) {
    colm_status s = COLM_OK;
    glob_t found = {0};
    list l = {0};
    str literal = {0}, wild = {0};
    if (pattern[0] != '/' && base_dir && base_dir[0]) {
        const char *slash = base_dir[strlen(base_dir) - 1] == '/' ? "" : "/";
        str_addf(&literal, "%s%s", base_dir, slash);
        // The folder is a name, not a pattern.
        for (const char *p = literal.text; p && *p; p++) {
            if (strchr("*?[]\\", *p)) str_add(&wild, "\\");
            str_addn(&wild, p, 1);
        }
    }
    str_add(&literal, pattern);
    str_add(&wild, pattern);
    if (literal.failed || wild.failed) {
        s = err_nomem(err, strlen(pattern), pattern);
        goto out;
    }
    if (pattern[0] && file_exists(literal.text)) { // also a file that is really called "a[1].txt"
        s = add_below(&l, literal.text, 0, err);
        if (s) goto out;
    } else if (pattern[0]) {
        int rc = glob(wild.text, GLOB_ERR | GLOB_NOSORT, NULL, &found);
        if (rc == GLOB_NOSPACE) s = err_nomem(err, strlen(pattern), pattern);
        if (rc == GLOB_ABORTED) s = err_errno(err, literal.text, "cannot list");
        for (size_t i = 0; rc == 0 && !s && i < found.gl_pathc; i++)
            s = add_below(&l, found.gl_pathv[i], 0, err);
        if (s) goto out;
    }
    if (l.n == 0) {
        s = err_set(err, COLM_E_INPUT, "\"%s\": names no file (looked for %s)", pattern, literal.text);
        goto out;
    }
    size_t n;
    char **paths = pack(&l, &n);
    if (!paths) {
        s = err_nomem(err, l.bytes, pattern);
        goto out;
    }
    *ret_paths = paths;
    *ret_n = n;
out:
    globfree(&found);
    free(l.paths);
    arena_done(&l.texts);
    str_done(&literal);
    str_done(&wild);
    return s;
}
