/* The scanner under json.h: checks the text and lists its values. Used by json.c and json_read.c alone. */
#ifndef COLM_BASE_JSON_SCAN_H
#define COLM_BASE_JSON_SCAN_H

#include <cjson/cJSON.h>

#include "engine/base/json.h"

#define JSON_DEPTH_MAX 64
#define JSON_NUMBER_MAX 1000 /* characters of a number */

typedef struct json_asked json_asked;
typedef struct {
    uint8_t kind; /* json_kind */
    bool known;   /* a member that was asked for */
    uint32_t line;
    uint32_t at, len; /* source text; quotes and brackets included */
    uint32_t parent;
    uint32_t count, first; /* children: how many, and where they begin in the document's table of them */
    const cJSON *item;     /* decoded strings and keys */
    json_asked *asked;     /* keys that an object was asked for: the last one of a ring */
} json_node;

/* Lists all values in the order of the text, the root first; a parent comes before its children. `item`,
 * `first` and `asked` stay empty. On failure *ret_nodes is untouched; free(*ret_nodes). */
COLM_MUST_USE colm_status json_scan(const char *name, const char *text, size_t n, json_node **ret_nodes,
                                    uint32_t *ret_n, colm_err *err);

/* True when all n characters are one JSON number. */
bool json_is_number(const char *text, size_t n);
/* The double nearest to a JSON number of at most JSON_NUMBER_MAX characters, whatever the locale; false when it
 * is too large, or too small but not 0. */
bool json_number(const char *text, size_t n, double *ret);

/* For json_read.c. Source text of a value, not terminated; "" with *ret_n = 0 when absent. */
const char *json_source(json_value v, size_t *ret_n);
/* Decoded text of a string value. */
const char *json_string(json_value v);

#endif
