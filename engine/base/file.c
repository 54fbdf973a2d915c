#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"

static colm_status open_to_read(const char *path, int *ret_fd, struct stat *ret_st, colm_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_errno(err, path, "cannot open");
    if (fstat(fd, ret_st)) {
        err_errno(err, path, "cannot look at");
        close(fd);
        return COLM_E_IO;
    }
    if (S_ISDIR(ret_st->st_mode)) {
        close(fd);
        return err_set(err, COLM_E_INPUT, "%s: is a folder, expected a file", path);
    }
    *ret_fd = fd;
    return COLM_OK;
}

colm_status file_read(const char *path, size_t limit, char **ret_bytes, size_t *ret_n, colm_err *err) {
    struct stat st;
    int fd = -1;
    char *bytes = NULL;
    colm_status s = open_to_read(path, &fd, &st, err);
    if (s) return s;
    // The size is a hint only: pipes and /proc say 0, and files grow.
    size_t n = 0,
           cap = st.st_size > 0 && (uint64_t)st.st_size < PTRDIFF_MAX - 2 ? (size_t)st.st_size + 2 : 4096;
    if (limit && cap > limit + 2) cap = limit + 2;
    for (;;) {
        if (!bytes || n + 1 == cap) {
            if (bytes) cap *= 2;
            char *more = mem_grow(bytes, cap, 1);
            if (!more) {
                s = err_nomem(err, cap, path);
                goto out;
            }
            bytes = more;
        }
        ssize_t got = read(fd, bytes + n, cap - 1 - n);
        if (got == 0) break;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            s = err_errno(err, path, "cannot read");
            goto out;
        }
        n += (size_t)got;
        if (limit && n > limit) {
            s = err_set(err, COLM_E_INPUT, "%s: larger than the limit of %zu bytes", path, limit);
            goto out;
        }
    }
    bytes[n] = 0;
    *ret_bytes = bytes;
    *ret_n = n;
    bytes = NULL;
out:
    free(bytes);
    close(fd);
    return s;
}

colm_status file_map_open(const char *path, file_map *ret, colm_err *err) {
    struct stat st;
    int fd = -1;
    colm_status s = open_to_read(path, &fd, &st, err);
    if (s) return s;
    file_map m = {0};
    if (!S_ISREG(st.st_mode)) {
        s = err_set(err, COLM_E_INPUT, "%s: not a regular file", path);
    } else if ((uint64_t)st.st_size > PTRDIFF_MAX) {
        s = err_set(err, COLM_E_INPUT, "%s: too large for this machine's addresses", path);
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            s = err_errno(err, path, "cannot map");
        } else {
            m = (file_map){p, (size_t)st.st_size};
        }
    }
    close(fd);
    if (!s) *ret = m;
    return s;
}

void file_map_close(file_map *m) {
    if (m->bytes) munmap((void *)(uintptr_t)m->bytes, m->n);
    *m = (file_map){0};
}

struct file_out {
    int fd;
    bool failed;
    char *path, *temp, *folder; // in `names`
    arena names;
    size_t n;
    char buf[1 << 16];
};

static colm_status write_all(file_out *f, const char *bytes, size_t n, colm_err *err) {
    while (n) {
        ssize_t put = write(f->fd, bytes, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            if (put == 0) errno = ENOSPC; // POSIX leaves this case without a reason
            f->failed = true;
            return err_errno(err, f->path, "cannot write");
        }
        bytes += put;
        n -= (size_t)put;
    }
    return COLM_OK;
}

// Opens a name beside f->path that nobody has: an abandoned one of a dead process does not stand in the way.
static colm_status open_temp(file_out *f, colm_err *err) {
    const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
    f->folder = slash == f->path ? arena_strdup(&f->names, "/")
                : slash          ? arena_printf(&f->names, "%.*s", (int)(slash - f->path), f->path)
                                 : arena_strdup(&f->names, ".");
    if (!f->folder) return err_nomem(err, strlen(f->path), f->path);
    for (int k = 0; k < 1000; k++) {
        f->temp = arena_printf(&f->names, "%s/.%s.%ld-%d.tmp", f->folder, name, (long)getpid(), k);
        if (!f->temp) return err_nomem(err, strlen(f->path), f->path);
        f->fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd >= 0) return COLM_OK;
        if (errno != EEXIST) break;
    }
    f->temp = NULL;
    return err_errno(err, f->path, "cannot create a temporary file beside it");
}

colm_status file_out_open(const char *path, file_out **ret, colm_err *err) {
    struct stat st;
    colm_status s;
    char *real = NULL;
    file_out *f = mem_alloc(1, sizeof *f);
    if (!f) return err_nomem(err, sizeof *f, path);
    f->fd = -1;
    if (*path == 0 || path[strlen(path) - 1] == '/') {
        s = err_set(err, COLM_E_INPUT, "\"%s\": names no file to write", path);
        goto out;
    }
    if (stat(path, &st) == 0) {
        if (!S_ISREG(st.st_mode)) {
            s = err_set(err, COLM_E_INPUT, "%s: %s, expected a file", path,
                        S_ISDIR(st.st_mode) ? "is a folder" : "is not a regular file");
            goto out;
        }
        real = realpath(path, NULL); // the rename must replace what a link points to, not the link
    }
    f->path = arena_strdup(&f->names, real ? real : path);
    s = f->path ? open_temp(f, err) : err_nomem(err, strlen(path), path);
out:
    free(real);
    if (s) {
        file_out_abandon(&f);
    } else {
        *ret = f;
    }
    return s;
}

colm_status file_out_write(file_out *f, const void *bytes, size_t n, colm_err *err) {
    if (f->failed) return err_set(err, COLM_E_IO, "%s: an earlier write failed", f->path);
    if (n <= sizeof f->buf - f->n) {
        if (n) memcpy(f->buf + f->n, bytes, n);
        f->n += n;
        return COLM_OK;
    }
    colm_status s = write_all(f, f->buf, f->n, err);
    f->n = 0;
    if (s) return s;
    if (n >= sizeof f->buf) return write_all(f, bytes, n, err);
    memcpy(f->buf, bytes, n);
    f->n = n;
    return COLM_OK;
}

// Makes the new name itself durable. Some file systems know no fsync of folders (EINVAL): nothing more can be
// done there.
static colm_status sync_folder(const char *folder, colm_err *err) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return err_errno(err, folder, "cannot open the folder to sync it");
    colm_status s = fsync(fd) && errno != EINVAL ? err_errno(err, folder, "cannot sync the folder") : COLM_OK;
    close(fd);
    return s;
}

colm_status file_out_commit(file_out **out, colm_err *err) {
    file_out *f = *out;
    if (!f) return err_set(err, COLM_E_BUG, "file_out_commit: nothing is open");
    colm_status s = f->failed ? err_set(err, COLM_E_IO, "%s: not saved, an earlier write failed", f->path)
                              : write_all(f, f->buf, f->n, err);
    if (s) goto out;
    if (fsync(f->fd)) {
        s = err_errno(err, f->path, "cannot sync");
        goto out;
    }
    int fd = f->fd;
    f->fd = -1;
    if (close(fd)) {
        s = err_errno(err, f->path, "cannot close");
        goto out;
    }
    if (rename(f->temp, f->path)) {
        s = err_errno(err, f->path, "cannot rename the temporary file to it");
        goto out;
    }
    f->temp = NULL;
    s = sync_folder(f->folder, err);
out:
    file_out_abandon(out);
    return s;
}

void file_out_abandon(file_out **out) {
    file_out *f = *out;
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    if (f->temp) unlink(f->temp);
    arena_done(&f->names);
    free(f);
    *out = NULL;
}

colm_status file_write(const char *path, const void *bytes, size_t n, colm_err *err) {
    file_out *f = NULL;
    colm_status s = file_out_open(path, &f, err);
    if (!s) s = file_out_write(f, bytes, n, err);
    if (!s) s = file_out_commit(&f, err);
    file_out_abandon(&f);
    return s;
}

colm_status file_make_dirs(const char *path, colm_err *err) {
    colm_status s = COLM_OK;
    struct stat st;
    str prefix = {0};
    for (const char *p = path; *p;) {
        size_t slashes = strspn(p, "/"), n = slashes + strcspn(p + slashes, "/");
        bool named = n > slashes;
        str_addn(&prefix, p, n);
        p += n;
        if (prefix.failed) {
            s = err_nomem(err, strlen(path), path);
            goto out;
        }
        if (!named || mkdir(prefix.text, 0777) == 0) continue;
        int code = errno;
        if (stat(prefix.text, &st) == 0 && S_ISDIR(st.st_mode)) continue;
        errno = code == EEXIST ? ENOTDIR : code;
        s = err_errno(err, prefix.text, "cannot make the folder");
        goto out;
    }
out:
    str_done(&prefix);
    return s;
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}
