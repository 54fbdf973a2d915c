/* Small deterministic damage to a text: the same seed makes the same case, so a failure can be repeated. */
#ifndef COLM_TESTS_FUZZ_MUTATE_H
#define COLM_TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/rng.h"

typedef struct {
    rng_stream stream;
    uint64_t drawn;
} dice;

static inline size_t dice_below(dice *d, size_t n) {
    return n ? (size_t)rng_below(&d->stream, d->drawn++, n) : 0;
}

/* Changes text[0..n) in place, one to four times; returns its new length, at most cap. `parts` are texts that
 * mean something to the reader: they get pasted in. */
static inline size_t mutate(dice *d, char *text, size_t n, size_t cap, const char *const *parts,
                            size_t n_parts) {
    for (size_t times = 1 + dice_below(d, 4); times; times--) {
        size_t at = dice_below(d, n + 1), len = dice_below(d, 12), kind = dice_below(d, 6);
        if (kind == 0 && at < n) text[at] = (char)dice_below(d, 256);
        if (kind == 1 && at < n) text[at] = (char)(text[at] ^ 1 << dice_below(d, 8));
        if (kind == 2) { // cut out
            len = len < n - at ? len : n - at;
            memmove(text + at, text + at + len, n - at - len);
            n -= len;
        }
        if (kind == 3) { // say twice
            len = len < n - at ? len : n - at;
            if (n + len > cap) continue;
            memmove(text + at + len, text + at, n - at);
            n += len;
        }
        if (kind == 4) { // paste
            const char *part = parts[dice_below(d, n_parts)];
            len = strlen(part);
            if (n + len > cap) continue;
            memmove(text + at + len, text + at, n - at);
            memcpy(text + at, part, len);
            n += len;
        }
        if (kind == 5 && dice_below(d, 8) == 0) n = at; // cut off
    }
    return n;
}

#endif
