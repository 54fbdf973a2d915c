#include "engine/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/str.h"

// One line of text that fits: control bytes become spaces, and a cut text ends in "..." without half a
// character.
static void make_line(char *text, size_t cap, size_t wanted) {
    for (char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = ' ';
    }
    if (wanted < cap) return;
    size_t end = cap - 4;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) end--;
    memcpy(text + end, "...", 4);
}

colm_status err_set(colm_err *err, colm_status code, const char *fmt, ...) {
    if (!err) return code;
    char text[sizeof err->text]; // the arguments may point into err->text
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        text[0] = 0;
        n = 0;
    }
    make_line(text, sizeof text, (size_t)n);
    err->code = code;
    memcpy(err->text, text, sizeof text);
    return code;
}

colm_status err_at(colm_err *err, const char *fmt, ...) {
    if (!err) return COLM_E_BUG;
    char where[sizeof err->text], text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(where, sizeof where, fmt, ap);
    va_end(ap);
    if (n < 0) where[0] = 0;
    n = snprintf(text, sizeof text, "%s: %s", where, err->text);
    make_line(text, sizeof text, n < 0 ? 0 : (size_t)n);
    memcpy(err->text, text, sizeof text);
    return err->code;
}

colm_status err_errno(colm_err *err, const char *path, const char *what) {
    int code = errno;
    return err_set(err, COLM_E_IO, "%s: %s: %s", path, what, strerror(code));
}

colm_status err_nomem(colm_err *err, size_t bytes, const char *what) {
    return err_set(err, COLM_E_MEMORY, "out of memory: %zu bytes for %s", bytes, what);
}

#define WORD_MAX 64

// Lower case, and '-' as '_': differences that do not count.
static int fold(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A' + 'a';
    return c == '-' ? '_' : c;
}

// Edit distance with insertion, deletion, substitution and the swap of neighbours, each at cost 1.
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb) {
    size_t rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    memset(rows, 0, sizeof rows);
    for (size_t j = 0; j <= nb; j++) last[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = last[j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
            if (last[j] + 1 < best) best = last[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped =
                i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]);
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *free_row = before;
        before = last, last = row, row = free_row;
    }
    return last[nb];
}

const char *err_nearest(const char *word, const char *const *names, size_t n) {
    size_t len = strlen(word), best_distance = 0;
    const char *best = NULL;
    if (len == 0 || len > WORD_MAX) return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(names[i]), longer = len > other ? len : other;
        if (other > WORD_MAX) continue;
        size_t distance = edit_distance(word, len, names[i], other);
        // A third of the letters may differ, but never all of them.
        if (distance > (longer + 2) / 3 || distance >= longer) continue;
        if (!best || distance < best_distance) best = names[i], best_distance = distance;
    }
    return best;
}
