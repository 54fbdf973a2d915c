/* A growing text. `str s = {0};`, append, read s.text (never NULL after the first append), str_done(&s).
 * A failed allocation sets s.failed and makes later appends do nothing: check once at the end. */
#ifndef COLM_BASE_STR_H
#define COLM_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

typedef struct {
    char *text; /* NUL-terminated */
    size_t len, cap;
    bool failed;
} str;

void str_add(str *s, const char *text);
void str_addn(str *s, const char *bytes, size_t n);
COLM_PRINTF(2, 3) void str_addf(str *s, const char *fmt, ...);
/* Appends text as a JSON string with quotes; invalid UTF-8 bytes become U+FFFD. */
void str_add_json(str *s, const char *text);
/* Appends a double as strict JSON, shortest text that reads back the same, '.' whatever the locale; NaN and
 * infinity become null. */
void str_add_double(str *s, double v);
void str_done(str *s);

/* Length in bytes (1 to 4) of the well-formed UTF-8 character that begins n bytes, 0 when there is none. */
size_t str_utf8(const char *bytes, size_t n);

#endif
