/* Verdicts of selftests as files of two lines: a mark with the class and the kernels' digest, then what failed.
 * And tunings: a mark with a digest of the rest, then lines that engine/ops understands. */
#include "engine/gpu/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/gpu/inside.h"

static const char mark[] = "colm selftest 1 ";
enum { LIMIT = 1 << 16, TUNING_LIMIT = 1 << 24 };

/* Named after what a verdict holds for; NULL where there is no cache, or no memory. */
static char *file_of(const gpu_device *d, const char *what, const char *kernels) {
    char digest[HASH_TEXT], name[HASH_TEXT + 16];
    hash_state *h = d->cache_dir ? hash_open() : NULL;
    if (!h) return NULL;
    hash_add_text(h, d->found.info.uuid);
    hash_add_text(h, d->found.info.name);
    hash_add_text(h, d->found.info.driver);
    hash_add_text(h, kernels);
    hash_close(&h, digest);
    snprintf(name, sizeof name, "%s-%s", what, digest);
    return gpu_path(d->cache_dir, name);
}

void gpu_verdict_keep(const gpu_device *d, const char *kernels, const char *failed) {
    char *path = file_of(d, "selftest", kernels), digest[HASH_TEXT];
    str text = {0};
    colm_err why;
    gpu_kernels_digest(d, digest);
    str_addf(&text, "%s%s %s\n%s\n", mark, kernels, digest, failed ? failed : "");
    if (path && !text.failed && file_write(path, text.text, text.len, &why))
        log_line(&d->watch.log, LOG_WARN, "the selftest's verdict is not kept: %s", why.text);
    str_done(&text);
    free(path);
}

bool gpu_verdict_failed(const gpu_device *d, const char *kernels, char *ret, size_t n) {
    char *path = file_of(d, "selftest", kernels), *text = NULL;
    size_t len = 0;
    colm_err why;
    bool failed = false;
    if (path && file_exists(path) && !file_read(path, LIMIT, &text, &len, &why) &&
        strncmp(text, mark, sizeof mark - 1) == 0) {
        const char *what = strchr(text, '\n');
        failed = what && what[1] != '\n' && what[1];
        if (failed) snprintf(ret, n, "%.*s", (int)strcspn(what + 1, "\n"), what + 1);
    }
    free(text);
    free(path);
    return failed;
}

static const char tuning_mark[] = "colm tuning 1 ";

void gpu_tuning_keep(const gpu_device *d, const char *kernels, const char *lines) {
    char *path = file_of(d, "tuning", kernels), digest[HASH_TEXT];
    str text = {0};
    colm_err why;
    hash_bytes(lines, strlen(lines), digest);
    str_addf(&text, "%s%s\n%s", tuning_mark, digest, lines);
    if (path && !text.failed && file_write(path, text.text, text.len, &why))
        log_line(&d->watch.log, LOG_WARN, "the tuning is not kept: %s", why.text);
    str_done(&text);
    free(path);
}

char *gpu_tuning_load(const gpu_device *d, const char *kernels) {
    char *path = file_of(d, "tuning", kernels), *text = NULL, digest[HASH_TEXT];
    size_t n = 0;
    colm_err why;
    if (path && file_exists(path) && !file_read(path, TUNING_LIMIT, &text, &n, &why)) {
        const size_t mark_n = sizeof tuning_mark - 1, head = mark_n + HASH_TEXT;
        bool good = n >= head && strlen(text) == n && text[head - 1] == '\n';
        if (good) hash_bytes(text + head, n - head, digest);
        good = good && strncmp(text, tuning_mark, mark_n) == 0 &&
               strncmp(text + mark_n, digest, HASH_TEXT - 1) == 0;
        if (good) {
            memmove(text, text + head, n - head + 1);
        } else {
            log_line(&d->watch.log, LOG_WARN, "%s is damaged and not heeded: tune again", path);
            free(text);
            text = NULL;
        }
    }
    free(path);
    return text;
}
