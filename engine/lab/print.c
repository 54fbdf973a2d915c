#include "engine/lab/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/json.h"
#include "engine/base/mem.h"

typedef struct {
    const char *text;
    bool right; // a number
} cell;

struct print {
    store_format format;
    const print_column *column;
    size_t n_columns, at, rows;
    str *out;
    cell *cell; // tables: [rows][n_columns]
    size_t n_cells, cap_cells;
    arena texts;
    bool failed, any_in_row;
};

static bool in_data(const print_column *c) {
    return c->key != NULL;
}
static bool in_table(const print_column *c) {
    return !c->title || c->title[0];
}
static const char *title_of(const print_column *c) {
    return c->title ? c->title : c->key;
}

static void csv_field(str *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        str_add(out, text);
        return;
    }
    str_add(out, "\"");
    for (; *text; text++) {
        if (*text == '"') str_add(out, "\"");
        str_addn(out, text, 1);
    }
    str_add(out, "\"");
}

colm_status print_open(store_format f, const print_column *column, size_t n, str *out, print **ret,
                       colm_err *err) {
    print *p = mem_alloc(1, sizeof *p);
    if (!p) return err_nomem(err, sizeof *p, "a table");
    *p = (print){.format = f, .column = column, .n_columns = n, .out = out};
    if (f == STORE_JSON) str_add(out, "[");
    for (size_t i = 0, written = 0; f == STORE_CSV && i < n; i++) {
        if (!in_data(&column[i])) continue;
        if (written++) str_add(out, ",");
        csv_field(out, column[i].key);
    }
    if (f == STORE_CSV) str_add(out, "\r\n");
    *ret = p;
    return COLM_OK;
}

// The text of the next cell of a table.
static void table_cell(print *p, const char *text, bool right) {
    if (p->n_cells == p->cap_cells) {
        size_t cap = p->cap_cells ? 2 * p->cap_cells : 64;
        cell *more = mem_grow(p->cell, cap, sizeof *more);
        if (!more) {
            p->failed = true;
            return;
        }
        p->cell = more;
        p->cap_cells = cap;
    }
    char *copy = arena_strdup(&p->texts, text);
    if (!copy) {
        p->failed = true;
        return;
    }
    // One line a row: what would break it becomes a space.
    for (char *c = copy; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    }
    p->cell[p->n_cells++] = (cell){copy, right};
}

// What stands before the next cell's value in JSON and CSV; false when the column is not for programs.
static bool data_cell(print *p) {
    const print_column *c = &p->column[p->at];
    if (p->format == STORE_TABLE || !in_data(c)) return false;
    if (p->format == STORE_JSON) {
        if (!p->any_in_row) str_add(p->out, p->rows ? ",\n{" : "\n{");
        if (p->any_in_row) str_add(p->out, ",");
        str_add_json(p->out, c->key);
        str_add(p->out, ":");
    } else if (p->any_in_row) {
        str_add(p->out, ",");
    }
    p->any_in_row = true;
    return true;
}

static void next_cell(print *p) {
    if (++p->at < p->n_columns) return;
    if (p->format != STORE_TABLE) str_add(p->out, p->format == STORE_JSON ? "}" : "\r\n");
    p->at = 0;
    p->any_in_row = false;
    p->rows++;
}

// A value that is `plain` in JSON and CSV and `shown` in tables.
static void number_cell(print *p, const char *plain, const char *shown) {
    if (data_cell(p)) str_add(p->out, plain);
    if (p->format == STORE_TABLE) table_cell(p, shown, true);
    next_cell(p);
}

void print_null(print *p) {
    number_cell(p, p->format == STORE_JSON ? "null" : "", "-");
}

void print_text(print *p, const char *text) {
    if (!text) {
        print_null(p);
        return;
    }
    if (data_cell(p)) (p->format == STORE_JSON ? str_add_json : csv_field)(p->out, text);
    if (p->format == STORE_TABLE) table_cell(p, text, false);
    next_cell(p);
}

void print_bool(print *p, bool v) {
    const char *word = v ? "true" : "false", *digit = v ? "1" : "0";
    number_cell(p, p->format == STORE_JSON ? word : digit, v ? "yes" : "no");
}

void print_int_shown(print *p, int64_t v, const char *shown) {
    char plain[PRINT_SHORT];
    snprintf(plain, sizeof plain, "%" PRId64, v);
    number_cell(p, plain, shown ? shown : plain);
}
void print_int(print *p, int64_t v) {
    print_int_shown(p, v, NULL);
}

void print_real_shown(print *p, double v, const char *shown) {
    if (!isfinite(v)) {
        number_cell(p, p->format == STORE_JSON ? "null" : "", shown ? shown : "-");
        return;
    }
    str plain = {0};
    str_add_double(&plain, v);
    if (plain.failed) p->failed = true;
    number_cell(p, plain.text ? plain.text : "", shown ? shown : plain.text ? plain.text : "");
    str_done(&plain);
}
void print_real(print *p, double v) {
    print_real_shown(p, v, NULL);
}

// Characters of UTF-8 text: the width of most of it.
static size_t width_of(const char *text, size_t n) {
    size_t width = 0;
    for (size_t i = 0; i < n; i++) width += ((unsigned char)text[i] & 0xC0) != 0x80;
    return width;
}

// One cell padded to its column; nothing is padded at the end of a line.
static void pad_cell(str *out, const char *text, size_t n, size_t width, bool right, bool last) {
    int room = (int)(width - width_of(text, n));
    if (right) str_addf(out, "%*s", room, "");
    str_addn(out, text, n);
    if (!right && !last) str_addf(out, "%*s", room, "");
}

// The line'th line of a title.
static const char *title_line(const char *title, size_t line, size_t *ret_n) {
    for (; line && *title; line--) {
        title += strcspn(title, "\n");
        if (*title) title++;
    }
    *ret_n = strcspn(title, "\n");
    return title;
}

static void write_table(print *p) {
    size_t n = p->n_columns, lines = 1, last = 0;
    size_t *width = mem_alloc(n, sizeof *width);
    bool *right = mem_alloc(n, sizeof *right);
    if (!width || !right) {
        p->failed = true;
        goto out;
    }
    for (size_t c = 0; c < n; c++) {
        if (!in_table(&p->column[c])) continue;
        last = c;
        right[c] = p->rows > 0;
        size_t len;
        for (size_t line = 0;; line++) {
            const char *text = title_line(title_of(&p->column[c]), line, &len);
            if (width_of(text, len) > width[c]) width[c] = width_of(text, len);
            if (line + 1 > lines) lines = line + 1;
            if (!text[len]) break;
        }
        for (size_t r = 0; r < p->rows; r++) {
            const cell *x = &p->cell[r * n + c];
            size_t w = width_of(x->text, strlen(x->text));
            if (w > width[c]) width[c] = w;
            if (!x->right) right[c] = false;
        }
    }
    for (size_t line = 0; line < lines; line++) {
        for (size_t c = 0; c <= last && n; c++) {
            if (!in_table(&p->column[c])) continue;
            size_t len;
            const char *text = title_line(title_of(&p->column[c]), line, &len);
            pad_cell(p->out, text, len, width[c], right[c], c == last);
            if (c != last) str_add(p->out, "  ");
        }
        while (p->out->len && p->out->text[p->out->len - 1] == ' ') p->out->text[--p->out->len] = 0;
        str_add(p->out, "\n");
    }
    for (size_t r = 0; r < p->rows; r++) {
        for (size_t c = 0; c <= last && n; c++) {
            if (!in_table(&p->column[c])) continue;
            const cell *x = &p->cell[r * n + c];
            pad_cell(p->out, x->text, strlen(x->text), width[c], right[c], c == last);
            if (c != last) str_add(p->out, "  ");
        }
        while (p->out->len && p->out->text[p->out->len - 1] == ' ') p->out->text[--p->out->len] = 0;
        str_add(p->out, "\n");
    }
out:
    free(width);
    free(right);
}

size_t print_rows(const print *p) {
    return p->rows;
}

colm_status print_close(print **p, colm_err *err) {
    print *q = *p;
    if (!q) return COLM_OK;
    if (q->format == STORE_TABLE && !q->failed) write_table(q);
    if (q->format == STORE_JSON) str_add(q->out, q->rows ? "\n]" : "]");
    bool failed = q->failed || q->out->failed;
    free(q->cell);
    arena_done(&q->texts);
    free(q);
    *p = NULL;
    return failed ? err_nomem(err, 0, "a table") : COLM_OK;
}

// NULL unless the text is one JSON value.
static const char *valid_json(const char *text, bool *io_failed) {
    json_doc *doc = NULL;
    colm_status s = text ? json_open_text("", text, strlen(text), &doc, NULL) : COLM_E_INPUT;
    if (s == COLM_E_MEMORY) *io_failed = true;
    json_close(&doc);
    return s ? NULL : text;
}

void print_raw(print *p, const char *json) {
    json = valid_json(json, &p->failed);
    if (!json || p->format != STORE_JSON) {
        print_text(p, json);
        return;
    }
    number_cell(p, json, "");
}

void print_key(str *out, const char *key) {
    if (out->len && out->text[out->len - 1] != '{') str_add(out, ",");
    str_add_json(out, key);
    str_add(out, ":");
}
void print_key_text(str *out, const char *key, const char *text) {
    print_key(out, key);
    if (text) {
        str_add_json(out, text);
    } else {
        str_add(out, "null");
    }
}
void print_key_raw(str *out, const char *key, const char *json) {
    json = valid_json(json, &out->failed);
    print_key(out, key);
    str_add(out, json ? json : "null");
}
void print_key_bool(str *out, const char *key, bool v) {
    print_key(out, key);
    str_add(out, v ? "true" : "false");
}
void print_key_int(str *out, const char *key, int64_t v) {
    print_key(out, key);
    str_addf(out, "%" PRId64, v);
}
void print_key_real(str *out, const char *key, double v) {
    print_key(out, key);
    str_add_double(out, v);
}

// Digits have a point whatever the locale: nothing else in them is a comma.
static const char *with_point(char *text) {
    for (char *c = text; *c; c++) {
        if (*c == ',') *c = '.';
    }
    return text;
}

const char *print_short(double v, int digits, char buf[PRINT_SHORT]) {
    if (!isfinite(v)) return "-";
    snprintf(buf, PRINT_SHORT, "%.*g", digits, v);
    return with_point(buf);
}

const char *print_fixed(double v, int digits, char buf[PRINT_SHORT]) {
    if (!isfinite(v)) return "-";
    if (fabs(v) >= 1e15) {
        snprintf(buf, PRINT_SHORT, "%.*e", digits, v);
    } else {
        snprintf(buf, PRINT_SHORT, "%.*f", digits, v);
    }
    return with_point(buf);
}

const char *print_count(double v, char buf[PRINT_SHORT]) {
    static const char prefix[] = " kMGTPE";
    size_t i = 0;
    if (!isfinite(v)) return "-";
    // 999.5 would be shown as 1000 of the smaller unit.
    double scaled = v;
    while (fabs(scaled) >= 999.5 && prefix[i + 1]) scaled /= 1000, i++;
    if (fabs(scaled) >= 999.5) {
        snprintf(buf, PRINT_SHORT, "%.2e", v);
    } else if (i == 0 && v == floor(v)) {
        snprintf(buf, PRINT_SHORT, "%.0f", v);
    } else {
        int digits = fabs(scaled) < 9.995 ? 2 : fabs(scaled) < 99.95 ? 1 : 0;
        snprintf(buf, PRINT_SHORT, "%.*f", digits, scaled);
        if (i) snprintf(buf + strlen(buf), PRINT_SHORT - strlen(buf), "%c", prefix[i]);
    }
    return with_point(buf);
}

const char *print_time(double unix_seconds, char buf[PRINT_SHORT]) {
    struct tm tm;
    time_t t;
    if (!(fabs(unix_seconds) < 1e11)) return "-";
    t = (time_t)unix_seconds;
    if (!localtime_r(&t, &tm) || !strftime(buf, PRINT_SHORT, "%Y-%m-%d %H:%M", &tm)) return "-";
    return buf;
}
