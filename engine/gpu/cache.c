/* Compiled SPIR-V on disk: a file per key, checked before use. Nothing that happens here can fail a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/gpu/inside.h"

/* A file is a mark of 16 bytes, a digest of key and words in 32 hex digits, then the words as the machine keeps
 * them. */
static const char mark[] = "colm SPIR-V 1  \n";
enum { MARK = sizeof mark - 1, DIGEST = HASH_TEXT - 1, HEAD = MARK + DIGEST, LIMIT = 64 << 20 };

static char *file_of(const gpu_device *d, const char key[HASH_TEXT]) {
    char name[HASH_TEXT + 4];
    snprintf(name, sizeof name, "%s.spv", key);
    return gpu_path(d->cache_dir, name);
}

static bool digest_of(const char key[HASH_TEXT], const void *words, size_t bytes, char ret[HASH_TEXT]) {
    hash_state *h = hash_open();
    if (!h) return false;
    hash_add_text(h, key);
    hash_add(h, words, bytes);
    hash_close(&h, ret);
    return true;
}

bool gpu_cache_load(gpu_device *d, const char key[HASH_TEXT], uint32_t **ret_words, size_t *ret_n) {
    char *path = file_of(d, key), *bytes = NULL, digest[HASH_TEXT];
    uint32_t *words = NULL;
    size_t n = 0;
    colm_err why;
    bool ok = false;
    if (!path || !file_exists(path)) goto out;
    if (file_read(path, LIMIT, &bytes, &n, &why)) {
        log_line(&d->watch.log, LOG_DEBUG, "shader cache: %s", why.text);
        goto out;
    }
    if (n <= HEAD || (n - HEAD) % 4 || memcmp(bytes, mark, MARK) ||
        !digest_of(key, bytes + HEAD, n - HEAD, digest) || memcmp(bytes + MARK, digest, DIGEST)) {
        log_line(&d->watch.log, LOG_DEBUG, "shader cache: %s is damaged and is made again", path);
        goto out;
    }
    words = mem_alloc(n - HEAD, 1);
    if (!words) goto out;
    memcpy(words, bytes + HEAD, n - HEAD);
    *ret_words = words;
    *ret_n = (n - HEAD) / 4;
    ok = true;
out:
    free(bytes);
    free(path);
    return ok;
}

void gpu_cache_store(gpu_device *d, const char key[HASH_TEXT], const uint32_t *words, size_t n) {
    char *path = file_of(d, key), *bytes = mem_alloc(HEAD + n * 4, 1), digest[HASH_TEXT];
    colm_err why;
    if (path && bytes && digest_of(key, words, n * 4, digest)) {
        memcpy(bytes, mark, MARK);
        memcpy(bytes + MARK, digest, DIGEST);
        memcpy(bytes + HEAD, words, n * 4);
        if (file_write(path, bytes, HEAD + n * 4, &why))
            log_line(&d->watch.log, LOG_DEBUG, "shader cache: %s", why.text);
    }
    free(bytes);
    free(path);
}
