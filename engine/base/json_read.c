// Typed reads over the table of json.c: they see a value through json_kind_of and json_source alone.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/json_scan.h"
#include "engine/base/str.h"

// How a value is called in an error.
static const char *describe(json_value v, char *buf, size_t n) {
    size_t len = 0, shown = 0;
    const char *text = json_source(v, &len);
    json_kind kind = json_kind_of(v);
    if (kind == JSON_ARRAY) return "an array";
    if (kind == JSON_OBJECT) return "an object";
    while (shown < len && shown < 40) shown += str_utf8(text + shown, len - shown);
    snprintf(buf, n, "%.*s%s", (int)shown, text, shown < len ? "..." : "");
    return buf;
}

// "5 is not EXPECTED", with advice on quotes, the most frequent mistake.
static colm_status mismatch(json_value v, const char *expected, colm_err *err) {
    char shown[64];
    size_t n = 0;
    const char *text = json_source(v, &n), *found = describe(v, shown, sizeof shown);
    json_kind kind = json_kind_of(v);
    if (kind == JSON_ABSENT) return err_set(err, COLM_E_INPUT, "a value is missing, expected %s", expected);
    bool quoted = kind == JSON_STRING && (json_is_number(text + 1, n - 2) || strcmp(shown, "\"true\"") == 0 ||
                                          strcmp(shown, "\"false\"") == 0);
    if (quoted)
        return json_fail(v, err, "%s is a string; write it without quotes (expected %s)", found, expected);
    return json_fail(v, err, "%s is not %s", found, expected);
}

colm_status json_read_object(json_value v, colm_err *err) {
    return json_kind_of(v) == JSON_OBJECT ? COLM_OK : mismatch(v, "an object", err);
}

colm_status json_read_array(json_value v, size_t min, size_t max, colm_err *err) {
    size_t n = json_count(v);
    if (json_kind_of(v) != JSON_ARRAY) return mismatch(v, "an array", err);
    if (n >= min && n <= max) return COLM_OK;
    const char *items = n == 1 ? "item" : "items";
    if (min == max) return json_fail(v, err, "has %zu %s, expected %zu", n, items, min);
    if (max == SIZE_MAX) return json_fail(v, err, "has %zu %s, expected at least %zu", n, items, min);
    return json_fail(v, err, "has %zu %s, expected %zu to %zu", n, items, min, max);
}

colm_status json_read_string(json_value v, const char **ret, colm_err *err) {
    json_kind kind = json_kind_of(v);
    bool bare = kind == JSON_NUMBER || kind == JSON_BOOL;
    if (kind != JSON_STRING) return mismatch(v, bare ? "a string; write it in quotes" : "a string", err);
    *ret = json_string(v);
    return COLM_OK;
}

colm_status json_read_bool(json_value v, bool *ret, colm_err *err) {
    size_t n = 0;
    const char *text = json_source(v, &n);
    if (json_kind_of(v) != JSON_BOOL) return mismatch(v, "true or false", err);
    *ret = text[0] == 't';
    return COLM_OK;
}

// False when the text holds anything but digits, or does not fit.
static bool whole_number(const char *text, size_t n, uint64_t *ret) {
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        unsigned digit = (unsigned)(text[i] - '0');
        if (v > (UINT64_MAX - digit) / 10) return false;
        v = 10 * v + digit;
    }
    *ret = v;
    return n > 0;
}

colm_status json_read_u64(json_value v, uint64_t min, uint64_t max, uint64_t *ret, colm_err *err) {
    size_t n = 0;
    uint64_t value = 0;
    const char *text = json_source(v, &n);
    bool number = json_kind_of(v) == JSON_NUMBER;
    if (number && whole_number(text, n, &value) && value >= min && value <= max) {
        *ret = value;
        return COLM_OK;
    }
    char range[96] = "", expected[160];
    if (max < UINT64_MAX) {
        snprintf(range, sizeof range, " from %llu to %llu", (unsigned long long)min, (unsigned long long)max);
    } else if (min > 0) {
        snprintf(range, sizeof range, " of at least %llu", (unsigned long long)min);
    }
    bool fraction = number && strcspn(text, ".eE") < n;
    snprintf(expected, sizeof expected, "a whole number%s%s", range,
             fraction ? " written with digits alone" : "");
    return mismatch(v, expected, err);
}

colm_status json_read_double(json_value v, double min, double max, double *ret, colm_err *err) {
    size_t n = 0;
    double value = NAN;
    const char *text = json_source(v, &n);
    if (json_kind_of(v) == JSON_NUMBER && json_number(text, n, &value) && value >= min && value <= max) {
        *ret = value;
        return COLM_OK;
    }
    str expected = {0};
    str_add(&expected, "a number");
    if (isfinite(min)) str_add(&expected, isfinite(max) ? " from " : " of at least ");
    if (isfinite(min)) str_add_double(&expected, min);
    if (isfinite(max)) str_add(&expected, isfinite(min) ? " to " : " of at most ");
    if (isfinite(max)) str_add_double(&expected, max);
    colm_status s = mismatch(v, expected.failed ? "a number in range" : expected.text, err);
    str_done(&expected);
    return s;
}

colm_status json_read_word(json_value v, const char *const *words, size_t n, size_t *ret, colm_err *err) {
    const char *found = NULL;
    if (json_kind_of(v) == JSON_STRING) found = json_string(v);
    for (size_t i = 0; found && i < n; i++) {
        if (strcmp(found, words[i]) != 0) continue;
        *ret = i;
        return COLM_OK;
    }
    const char *near = found ? err_nearest(found, words, n) : NULL;
    str expected = {0};
    str_add(&expected, "one of ");
    for (size_t i = 0; i < n; i++) str_addf(&expected, "%s\"%s\"", i ? ", " : "", words[i]);
    if (near) str_addf(&expected, "; did you mean \"%s\"?", near);
    colm_status s = mismatch(v, expected.failed ? "one of the known words" : expected.text, err);
    str_done(&expected);
    return s;
}

// The member, or absent; fails when there is no object to look into.
static colm_status member_of(json_value obj, const char *key, json_value *ret, colm_err *err) {
    colm_status s = json_read_object(obj, err);
    if (!s) *ret = json_get(obj, key);
    return s;
}

colm_status json_opt_u64(json_value obj, const char *key, uint64_t min, uint64_t max, uint64_t *io,
                         colm_err *err) {
    json_value v = {0};
    colm_status s = member_of(obj, key, &v, err);
    return s || !v.doc ? s : json_read_u64(v, min, max, io, err);
}

colm_status json_opt_u32(json_value obj, const char *key, uint32_t min, uint32_t max, uint32_t *io,
                         colm_err *err) {
    uint64_t value = *io;
    colm_status s = json_opt_u64(obj, key, min, max, &value, err);
    if (!s) *io = (uint32_t)value;
    return s;
}

colm_status json_opt_double(json_value obj, const char *key, double min, double max, double *io,
                            colm_err *err) {
    json_value v = {0};
    colm_status s = member_of(obj, key, &v, err);
    return s || !v.doc ? s : json_read_double(v, min, max, io, err);
}

colm_status json_opt_bool(json_value obj, const char *key, bool *io, colm_err *err) {
    json_value v = {0};
    colm_status s = member_of(obj, key, &v, err);
    return s || !v.doc ? s : json_read_bool(v, io, err);
}

colm_status json_opt_string(json_value obj, const char *key, const char **io, colm_err *err) {
    json_value v = {0};
    colm_status s = member_of(obj, key, &v, err);
    return s || !v.doc ? s : json_read_string(v, io, err);
}

colm_status json_need(json_value obj, const char *key, json_value *ret, colm_err *err) {
    json_value v = {0};
    colm_status s = member_of(obj, key, &v, err);
    if (s) return s;
    if (!v.doc) return json_fail(obj, err, "key \"%s\" is missing", key);
    *ret = v;
    return COLM_OK;
}
