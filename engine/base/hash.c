#include "engine/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/mem.h"

struct hash_state {
    XXH3_state_t *xxh; // 64-byte aligned, hence its own block
};

static void write_hex(XXH128_hash_t h, char ret[HASH_TEXT]) {
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, h);
    for (size_t i = 0; i < sizeof c.digest; i++) {
        ret[2 * i] = "0123456789abcdef"[c.digest[i] >> 4];
        ret[2 * i + 1] = "0123456789abcdef"[c.digest[i] & 15];
    }
    ret[HASH_TEXT - 1] = 0;
}

hash_state *hash_open(void) {
    hash_state *h = mem_alloc(1, sizeof *h);
    if (!h) return NULL;
    h->xxh = XXH3_createState();
    if (!h->xxh) {
        free(h);
        return NULL;
    }
    XXH3_128bits_reset(h->xxh);
    return h;
}

void hash_add(hash_state *h, const void *bytes, size_t n) {
    if (n) XXH3_128bits_update(h->xxh, bytes, n);
}

void hash_add_text(hash_state *h, const char *text) {
    hash_add(h, text, strlen(text) + 1);
}

void hash_close(hash_state **h, char ret[HASH_TEXT]) {
    if (!*h) return;
    if (ret) write_hex(XXH3_128bits_digest((*h)->xxh), ret);
    XXH3_freeState((*h)->xxh);
    free(*h);
    *h = NULL;
}

void hash_bytes(const void *bytes, size_t n, char ret[HASH_TEXT]) {
    write_hex(XXH3_128bits(n ? bytes : "", n), ret);
}

colm_status hash_file(const char *path, char ret[HASH_TEXT], colm_err *err) {
    colm_status s = COLM_OK;
    char buf[1 << 16];
    ssize_t got;
    hash_state *h = hash_open();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        s = err_errno(err, path, "cannot open");
        goto out;
    }
    if (!h) {
        s = err_set(err, COLM_E_MEMORY, "%s: out of memory for its digest", path);
        goto out;
    }
    while ((got = read(fd, buf, sizeof buf)) != 0) {
        if (got > 0) {
            hash_add(h, buf, (size_t)got);
        } else if (errno != EINTR) {
            s = err_errno(err, path, "cannot read");
            goto out;
        }
    }
out:
    hash_close(&h, s ? NULL : ret);
    if (fd >= 0) close(fd);
    return s;
}

uint64_t hash_u64(const void *bytes, size_t n) {
    return XXH3_64bits(n ? bytes : "", n);
}
