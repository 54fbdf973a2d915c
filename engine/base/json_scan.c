#include "engine/base/json_scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"

typedef struct {
    const char *name, *text;
    size_t n, at;
    size_t line_at; // where the line begins
    uint32_t line;
    json_node *nodes;
    uint32_t count, cap;
    colm_err *err;
} scan;

// "name:line:column: message", columns counted in characters. Tokens never span lines, so the line is the
// current one.
COLM_PRINTF(3, 4) static colm_status fail(const scan *s, size_t at, const char *fmt, ...) {
    char text[256];
    size_t column = 1;
    for (size_t i = s->line_at; i < at && i < s->n; i++) column += ((unsigned char)s->text[i] & 0xC0) != 0x80;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(s->err, COLM_E_INPUT, "%s:%u:%zu: %s", s->name, s->line, column, text);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("+-._", c));
}
// The character at the position, NUL past the end. A NUL in the text begins no token, so the two need no
// telling apart.
static char peek(const scan *s) {
    return s->at < s->n ? s->text[s->at] : 0;
}
static size_t word_len(const scan *s) {
    size_t n = 0;
    while (s->at + n < s->n && is_word(s->text[s->at + n])) n++;
    return n;
}

// "expected X, found Y", with advice where the mistake is a known one.
static colm_status unexpected(const scan *s, const char *expected) {
    static const char *const advice[][2] = {
        {"True", "write true"},
        {"False", "write false"},
        {"None", "write null"},
        {"NaN", "JSON has no NaN"},
        {"Infinity", "JSON has no infinity"},
        {"-Infinity", "JSON has no infinity"},
        {"/", "JSON has no comments"},
        {"#", "JSON has no comments"},
        {"'", "texts and keys take double quotes"},
        {",", "there is one comma too many"},
    };
    if (s->at == s->n) return fail(s, s->at, "expected %s, found the end of the text", expected);
    unsigned char c = (unsigned char)s->text[s->at];
    size_t n = word_len(s), shown = n ? n : c < 0x80 ? 1 : str_utf8(s->text + s->at, s->n - s->at);
    const char *found = s->text + s->at, *hint = NULL;
    if (shown == 0 || c < 0x20 || c == 0x7f)
        return fail(s, s->at, "expected %s, found byte 0x%02x", expected, c);
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) {
        if (strlen(advice[i][0]) == shown && memcmp(advice[i][0], found, shown) == 0) hint = advice[i][1];
    }
    return fail(s, s->at, "expected %s, found %.*s%s%s%s", expected, shown > 40 ? 40 : (int)shown, found,
                hint ? " (" : "", hint ? hint : "", hint ? ")" : "");
}

static void skip_space(scan *s) {
    for (; s->at < s->n; s->at++) {
        char c = s->text[s->at];
        if (c == '\n') {
            s->line++;
            s->line_at = s->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

bool json_is_number(const char *text, size_t n) {
    size_t i = 0, from;
    i += i < n && text[i] == '-';
    from = i;
    while (i < n && is_digit(text[i])) i++;
    if (i == from || (text[from] == '0' && i > from + 1)) return false;
    if (i < n && text[i] == '.') {
        from = ++i;
        while (i < n && is_digit(text[i])) i++;
        if (i == from) return false;
    }
    if (i < n && (text[i] == 'e' || text[i] == 'E')) {
        i++;
        i += i < n && (text[i] == '+' || text[i] == '-');
        from = i;
        while (i < n && is_digit(text[i])) i++;
        if (i == from) return false;
    }
    return i == n;
}

bool json_number(const char *text, size_t n, double *ret) {
    // strtod knows the locale's decimal point only, so the point goes into the exponent: 12.5e3 is read as
    // 125e2.
    char plain[JSON_NUMBER_MAX + 32];
    size_t used = 0, i = 0;
    long exponent = 0, sign = 1, written = 0;
    bool after_point = false, zero = true;
    if (n > JSON_NUMBER_MAX) return false;
    for (; i < n && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            after_point = true;
        } else {
            zero = zero && !(text[i] >= '1' && text[i] <= '9');
            plain[used++] = text[i];
            exponent -= after_point;
        }
    }
    if (i < n) i++;
    if (i < n && (text[i] == '+' || text[i] == '-')) sign = text[i++] == '-' ? -1 : 1;
    for (; i < n; i++) {
        if (written < 100000) written = 10 * written + (text[i] - '0');
    }
    snprintf(plain + used, sizeof plain - used, "e%ld", exponent + sign * written);
    double v = strtod(plain, NULL);
    if (!isfinite(v) || (v == 0 && !zero)) return false;
    *ret = v;
    return true;
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The number after "\u" at the position, or -1.
static long hex4(const scan *s, size_t at) {
    long v = 0;
    if (s->n - at < 4) return -1;
    for (size_t i = 0; i < 4; i++) {
        int d = hex_digit(s->text[at + i]);
        if (d < 0) return -1;
        v = 16 * v + d;
    }
    return v;
}

// An escape at the position; moves behind it.
static colm_status scan_escape(scan *s) {
    char c = s->at + 1 < s->n ? s->text[s->at + 1] : 0;
    if (c && strchr("\"\\/bfnrt", c)) {
        s->at += 2;
        return COLM_OK;
    }
    if (c != 'u') return fail(s, s->at, "unknown escape in a text; a backslash itself is written \\\\");
    long unit = hex4(s, s->at + 2);
    if (unit < 0) return fail(s, s->at, "\\u needs four hex digits");
    if (unit == 0) return fail(s, s->at, "\\u0000 is not allowed in a text");
    bool high = unit >= 0xD800 && unit < 0xDC00, low = unit >= 0xDC00 && unit < 0xE000;
    if (high && s->n - s->at >= 12 && s->text[s->at + 6] == '\\' && s->text[s->at + 7] == 'u') {
        long second = hex4(s, s->at + 8);
        if (second >= 0xDC00 && second < 0xE000) {
            s->at += 12;
            return COLM_OK;
        }
    }
    if (high || low) return fail(s, s->at, "\\u%04lx is half of a surrogate pair", (unsigned long)unit);
    s->at += 6;
    return COLM_OK;
}

static colm_status scan_string(scan *s) {
    size_t open = s->at++;
    while (s->at < s->n) {
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"') {
            s->at++;
            return COLM_OK;
        }
        if (c == '\n' || c == '\r') break;
        if (c < 0x20) return fail(s, s->at, "control byte 0x%02x in a text; write it as \\u%04x", c, c);
        if (c == '\\') {
            colm_status st = scan_escape(s);
            if (st) return st;
            continue;
        }
        size_t n = c < 0x80 ? 1 : str_utf8(s->text + s->at, s->n - s->at);
        if (n == 0) return fail(s, s->at, "invalid UTF-8 byte 0x%02x in a text", c);
        s->at += n;
    }
    return fail(s, open, "the text that begins here is not closed on its line");
}

static colm_status scan_number(scan *s) {
    size_t n = word_len(s);
    const char *text = s->text + s->at;
    int shown = n > 40 ? 40 : (int)n;
    double v;
    if (!json_is_number(text, n)) {
        return fail(s, s->at,
                    "%.*s is not a JSON number (no leading zeros, no '+', digits on both sides of a point)",
                    shown, text);
    }
    if (n > JSON_NUMBER_MAX)
        return fail(s, s->at, "a number of %zu characters; %d is the most", n, JSON_NUMBER_MAX);
    if (!json_number(text, n, &v)) return fail(s, s->at, "%.*s is outside the range of a double", shown, text);
    s->at += n;
    return COLM_OK;
}

static colm_status scan_value(scan *s, uint32_t parent, uint32_t line, unsigned depth);

// An array or object at the position; `node` is its own.
static colm_status scan_children(scan *s, uint32_t node, unsigned depth) {
    bool object = s->text[s->at] == '{';
    char close = object ? '}' : ']';
    colm_status st;
    if (depth == JSON_DEPTH_MAX) return fail(s, s->at, "nested deeper than %d", JSON_DEPTH_MAX);
    s->at++;
    skip_space(s);
    if (peek(s) == close) {
        s->at++;
        return COLM_OK;
    }
    for (;;) {
        uint32_t line = s->line;
        if (object) {
            if (peek(s) != '"') return unexpected(s, "a key in double quotes");
            if ((st = scan_string(s))) return st;
            skip_space(s);
            if (peek(s) != ':') return unexpected(s, "':' after the key");
            s->at++;
            skip_space(s);
        }
        if ((st = scan_value(s, node, line, depth + 1))) return st;
        s->nodes[node].count++;
        skip_space(s);
        if (peek(s) == close) {
            s->at++;
            return COLM_OK;
        }
        if (peek(s) != ',')
            return unexpected(s, object ? "',' or '}' after a value" : "',' or ']' after a value");
        size_t comma = s->at++;
        uint32_t comma_line = s->line;
        skip_space(s);
        if (peek(s) == close) {
            return s->line == comma_line ? fail(s, comma, "trailing comma before %c", close)
                                         : fail(s, s->at, "trailing comma on the line before %c", close);
        }
    }
}

static colm_status add_node(scan *s, json_kind kind, uint32_t parent, uint32_t line, uint32_t *ret) {
    if (s->count == s->cap) {
        size_t cap = s->cap ? 2 * (size_t)s->cap : 64;
        json_node *more = cap > UINT32_MAX ? NULL : mem_grow(s->nodes, cap, sizeof *more);
        if (!more) return err_nomem(s->err, cap * sizeof *more, s->name);
        s->nodes = more;
        s->cap = (uint32_t)cap;
    }
    *ret = s->count++;
    s->nodes[*ret] = (json_node){.kind = (uint8_t)kind, .line = line, .at = (uint32_t)s->at, .parent = parent};
    return COLM_OK;
}

static json_kind kind_at(const scan *s) {
    static const struct {
        const char *word;
        json_kind kind;
    } words[] = {{"true", JSON_BOOL}, {"false", JSON_BOOL}, {"null", JSON_NULL}};
    char c = peek(s);
    size_t n = word_len(s);
    if (c == '{') return JSON_OBJECT;
    if (c == '[') return JSON_ARRAY;
    if (c == '"') return JSON_STRING;
    if (is_digit(c)) return JSON_NUMBER;
    if (c && strchr("+-.", c) && n > 1 && (is_digit(s->text[s->at + 1]) || s->text[s->at + 1] == '.'))
        return JSON_NUMBER;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (n == strlen(words[i].word) && memcmp(s->text + s->at, words[i].word, n) == 0) return words[i].kind;
    }
    return JSON_ABSENT;
}

static colm_status scan_value(scan *s, uint32_t parent, uint32_t line, unsigned depth) {
    uint32_t node = 0;
    json_kind kind = kind_at(s);
    if (kind == JSON_ABSENT) return unexpected(s, "a value");
    colm_status st = add_node(s, kind, parent, line, &node);
    if (st) return st;
    if (kind == JSON_STRING) {
        st = scan_string(s);
    } else if (kind == JSON_NUMBER) {
        st = scan_number(s);
    } else if (kind == JSON_ARRAY || kind == JSON_OBJECT) {
        st = scan_children(s, node, depth);
    } else {
        s->at += word_len(s);
    }
    s->nodes[node].len = (uint32_t)s->at - s->nodes[node].at;
    return st;
}

colm_status json_scan(const char *name, const char *text, size_t n, json_node **ret_nodes, uint32_t *ret_n,
                      colm_err *err) {
    scan s = {.name = name, .text = text, .n = n, .line = 1, .err = err};
    colm_status st;
    if (n >= UINT32_MAX) {
        st = err_set(err, COLM_E_INPUT, "%s: %zu bytes are too long for one JSON text", name, n);
        goto out;
    }
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        st = fail(&s, 0, "begins with a byte order mark; save it as UTF-8 without one");
        goto out;
    }
    if (n >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0)) {
        st = fail(&s, 0, "is UTF-16; save it as UTF-8");
        goto out;
    }
    skip_space(&s);
    st = scan_value(&s, 0, s.line, 0);
    if (st) goto out;
    skip_space(&s);
    if (s.at < n) {
        st = unexpected(&s, "nothing after the value");
        goto out;
    }
    *ret_nodes = s.nodes;
    *ret_n = s.count;
    s.nodes = NULL;
out:
    free(s.nodes);
    return st;
}
