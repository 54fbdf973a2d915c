/* Strict JSON with positions, over cJSON.
 *
 * cJSON builds the tree but keeps no positions, takes duplicates and rounds numbers to double. So a scanner
 * reads the text first: it refuses what RFC 8259 refuses and more (duplicate keys, trailing commas or text,
 * numbers outside double, invalid UTF-8, depth over 64) with line and column, and records the line and the
 * source text of every value. Lookups below add "file:line: path" to their errors, where path reads like
 * arms.expand.stages[1].grow.add[0].
 *
 * Every read marks its key as known; json_finish(object) then refuses the first unknown key and names the
 * nearest one. */
#ifndef COLM_BASE_JSON_H
#define COLM_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

typedef struct json_doc json_doc;
/* A value inside a document; {0} is "absent". Valid until its document is closed. */
typedef struct {
    json_doc *doc;
    uint32_t node; /* index into the document's table */
} json_value;

typedef enum { JSON_ABSENT, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

/* `name` appears in errors (the path as the user wrote it). */
COLM_MUST_USE colm_status json_open_text(const char *name, const char *text, size_t n, json_doc **ret,
                                         colm_err *err);
COLM_MUST_USE colm_status json_open_file(const char *path, json_doc **ret, colm_err *err);
void json_close(json_doc **doc);
json_value json_root(json_doc *doc);

json_kind json_kind_of(json_value v);
size_t json_count(json_value v);                  /* items of an array, keys of an object, else 0 */
json_value json_item(json_value array, size_t i); /* absent when out of range */
const char *json_key_at(json_value object, size_t i);
json_value json_value_at(json_value object, size_t i);
/* Member of an object, marked as known; absent when missing. */
json_value json_get(json_value object, const char *key);
bool json_has(json_value object, const char *key); /* does not mark */
int json_line(json_value v);
/* "file:line: path" of a value into the caller's buffer; returns buf. */
const char *json_where(json_value v, char *buf, size_t n);
/* COLM_E_INPUT "file:line: path: message". */
COLM_PRINTF(3, 4) colm_status json_fail(json_value v, colm_err *err, const char *fmt, ...);

/* Typed reads of a value: wrong type or range fails with the position, the found value and what was expected.
 */
COLM_MUST_USE colm_status json_read_object(json_value v, colm_err *err); /* only checks the type */
COLM_MUST_USE colm_status json_read_array(json_value v, size_t min, size_t max, colm_err *err);
COLM_MUST_USE colm_status json_read_string(json_value v, const char **ret, colm_err *err);
COLM_MUST_USE colm_status json_read_bool(json_value v, bool *ret, colm_err *err);
/* Exact integers from the source text (no double in between); 1.0 and 1e3 are refused as integers. */
COLM_MUST_USE colm_status json_read_u64(json_value v, uint64_t min, uint64_t max, uint64_t *ret, colm_err *err);
COLM_MUST_USE colm_status json_read_double(json_value v, double min, double max, double *ret, colm_err *err);
/* One of the n words of a list; *ret is its index. The error lists them and names the nearest. */
COLM_MUST_USE colm_status json_read_word(json_value v, const char *const *words, size_t n, size_t *ret,
                                         colm_err *err);

/* Members with a default: *io keeps its value when the key is missing; when present it is read as above. */
COLM_MUST_USE colm_status json_opt_u64(json_value obj, const char *key, uint64_t min, uint64_t max,
                                       uint64_t *io, colm_err *err);
COLM_MUST_USE colm_status json_opt_u32(json_value obj, const char *key, uint32_t min, uint32_t max,
                                       uint32_t *io, colm_err *err);
COLM_MUST_USE colm_status json_opt_double(json_value obj, const char *key, double min, double max, double *io,
                                          colm_err *err);
COLM_MUST_USE colm_status json_opt_bool(json_value obj, const char *key, bool *io, colm_err *err);
COLM_MUST_USE colm_status json_opt_string(json_value obj, const char *key, const char **io, colm_err *err);
/* Member that must be there (fails naming the object's position and the key). */
COLM_MUST_USE colm_status json_need(json_value obj, const char *key, json_value *ret, colm_err *err);

/* Fails on the first key of the object that was never asked for, with its line and the nearest known key. */
COLM_MUST_USE colm_status json_finish(json_value obj, colm_err *err);

/* Canonical text of a value (keys sorted by bytes, no spaces, numbers as in the source): for digests. free()
 * it. */
COLM_MUST_USE colm_status json_canonical(json_value v, char **ret, colm_err *err);

#endif
