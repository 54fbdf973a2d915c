#include "engine/base/str.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

// Room for n more bytes and the NUL.
static bool reserve(str *s, size_t n) {
    if (s->failed) return false;
    if (n < s->cap - s->len) return true;
    size_t need = s->len + n + 1, cap = s->cap < SIZE_MAX / 2 ? 2 * s->cap : SIZE_MAX;
    if (cap < 64) cap = 64;
    if (cap < need) cap = need;
    char *text = need > n ? mem_grow(s->text, cap, 1) : NULL;
    if (!text) {
        s->failed = true;
        return false;
    }
    s->text = text;
    s->cap = cap;
    return true;
}

void str_addn(str *s, const char *bytes, size_t n) {
    if (!reserve(s, n)) return;
    if (n) memcpy(s->text + s->len, bytes, n);
    s->len += n;
    s->text[s->len] = 0;
}

void str_add(str *s, const char *text) {
    str_addn(s, text, strlen(text));
}

void str_addf(str *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) s->failed = true;
    if (n < 0 || !reserve(s, (size_t)n)) return;
    va_start(ap, fmt);
    vsnprintf(s->text + s->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    s->len += (size_t)n;
}

void str_add_json(str *s, const char *text) {
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    str_addn(s, "\"", 1);
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        n = str_utf8(text, left);
        const char *e = n == 1 ? strchr(escaped, *text) : NULL;
        if (n == 0) {
            str_add(s, "\xEF\xBF\xBD");
            n = 1;
        } else if (e) {
            char pair[2] = {'\\', letters[e - escaped]};
            str_addn(s, pair, 2);
        } else if ((unsigned char)*text < 0x20) {
            str_addf(s, "\\u%04x", (unsigned)*text);
        } else {
            str_addn(s, text, n);
        }
    }
    str_addn(s, "\"", 1);
}

void str_add_double(str *s, double v) {
    char text[64];
    if (!isfinite(v)) {
        str_add(s, "null");
        return;
    }
    // A decimal of up to 15 digits survives a normal double, so "%.15g" finds it; below the normal range fewer
    // do.
    int digits = fabs(v) < DBL_MIN ? 1 : 15;
    do {
        snprintf(text, sizeof text, "%.*g", digits, v);
    } while (digits++ < 17 && strtod(text, NULL) != v);
    // Whatever stands between the digits is the locale's decimal point.
    static const char plain[] = "0123456789+-e";
    size_t whole = strspn(text, plain), point = strcspn(text + whole, plain);
    str_addn(s, text, whole);
    if (point) {
        str_addn(s, ".", 1);
        str_add(s, text + whole + point);
    }
}

void str_done(str *s) {
    free(s->text);
    *s = (str){0};
}

size_t str_utf8(const char *bytes, size_t n) {
    const unsigned char *b = (const unsigned char *)bytes;
    if (n == 0) return 0;
    if (b[0] < 0x80) return 1;
    size_t len = b[0] >= 0xC2 && b[0] < 0xE0   ? 2
                 : (b[0] & 0xF0) == 0xE0       ? 3
                 : b[0] >= 0xF0 && b[0] < 0xF5 ? 4
                                               : 0;
    if (len == 0 || n < len) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((b[i] & 0xC0) != 0x80) return 0;
    }
    // Overlong forms, surrogates and what lies past U+10FFFF show in the second byte.
    if (b[0] == 0xE0 && b[1] < 0xA0) return 0;
    if (b[0] == 0xED && b[1] > 0x9F) return 0;
    if (b[0] == 0xF0 && b[1] < 0x90) return 0;
    if (b[0] == 0xF4 && b[1] > 0x8F) return 0;
    return len;
}
