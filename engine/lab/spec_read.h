/* What the readers of an experiment file's parts share. Used by spec*.c alone.
 *
 * Order: spec_data_read, spec_tasks_read, spec_train_read, then spec_arms_read, which asks spec_model_read and
 * spec_stage_read. All memory is the spec's arena; every error is COLM_E_INPUT at a position of the file, or
 * COLM_E_MEMORY. */
#ifndef COLM_LAB_SPEC_READ_H
#define COLM_LAB_SPEC_READ_H

#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/lab/spec.h"

#define SPEC_MAX_SEED ((uint64_t)INT64_MAX) /* SQLite's integers end there */
#define SPEC_MAX_SEEDS 64
#define SPEC_MAX_DATA 64
#define SPEC_MAX_TASKS 64 /* as many as a stage holds */
#define SPEC_MAX_PARTS 16 /* likewise */
#define SPEC_MAX_ARMS 64
#define SPEC_MAX_STAGES 64
#define SPEC_MAX_BATCH (1u << 24) /* tokens of one step */

typedef struct {
    spec *out;
    arena *mem;
    json_value root;
    uint32_t vocab;
    model_precision precision; /* of arms that say nothing else */
    train_params train;        /* defaults of all train stages; context 0: the model's */
    const char **data_json;    /* definitions of the data sets and tasks, defaults filled: JSON for canonical */
    const char **task_json;
} spec_reader;

/* A number or a switch that an object of the file gives to a struct here. */
typedef struct {
    const char *key;
    enum { SPEC_U32, SPEC_DOUBLE, SPEC_FLAG } type;
    size_t at; /* in the struct */
    double least, most, preset;
    const char *const *word; /* of a flag: what stands for false and for true; NULL: these themselves */
} spec_field;
#define SPEC_COUNT(table) (sizeof(table) / sizeof *(table))
void spec_field_preset(const spec_field *f, void *to);
COLM_MUST_USE colm_status spec_field_read(const spec_field *f, json_value v, void *to, colm_err *err);
void spec_field_add(const spec_field *f, const void *from, str *out); /* "key":value */

/* That v is an object of these keys (a list ended by NULL) and fields only. It comes first, so that a
 * misspelled key is reported by its own name and not as the lack of another. */
COLM_MUST_USE colm_status spec_keys(json_value v, const char *const *keys, const spec_field *f, size_t n_fields,
                                    colm_err *err);
/* That a name given by the file can be one: it appears in paths, tables and commands. */
COLM_MUST_USE colm_status spec_name(json_value at, const char *what, const char *name, colm_err *err);
/* Index of a name, or an error that lists the known ones and names the nearest. get(list, i) is the i-th. */
typedef const char *spec_get(const void *list, size_t i);
COLM_MUST_USE colm_status spec_find(json_value at, const char *what, const char *name, spec_get *get,
                                    const void *list, size_t n, uint32_t *ret, colm_err *err);
/* An error of a lower room, told at the position that caused it. */
colm_status spec_relay(json_value at, const colm_err *inner, colm_err *err);
/* Arena memory, or NULL after filling err. */
void *spec_alloc(spec_reader *r, size_t n, size_t size, colm_err *err);
char *spec_copy(spec_reader *r, const char *text, colm_err *err);
/* Takes the text out of *s, which is then done; canonical: sorted and without spaces. */
COLM_MUST_USE colm_status spec_keep(spec_reader *r, str *s, bool canonical, const char **ret, colm_err *err);

COLM_MUST_USE colm_status spec_data_read(spec_reader *r, colm_err *err);
COLM_MUST_USE colm_status spec_tasks_read(spec_reader *r, colm_err *err);
COLM_MUST_USE colm_status spec_train_read(spec_reader *r, colm_err *err);
COLM_MUST_USE colm_status spec_arms_read(spec_reader *r, colm_err *err);

/* The file's model with the members of `over` (may be absent) in place of its own. */
COLM_MUST_USE colm_status spec_model_read(const spec_reader *r, json_value over, model_config *ret,
                                          colm_err *err);
/* A chain in full; what it leaves open is as in `preset`, its key-value heads are as many as heads, or none
 * when it borrows those of chain 1 (CoLM-Air). */
COLM_MUST_USE colm_status spec_chain_read(json_value v, const model_chain *preset, bool borrows,
                                          model_chain *ret, colm_err *err);
void spec_model_add(const model_config *c, str *out);
/* "precision" of the file or of an arm; *io stays where there is none. */
COLM_MUST_USE colm_status spec_precision_read(json_value obj, model_precision *io, colm_err *err);
/* What a stage of an arm starts from. */
typedef struct {
    model_config model;
    uint32_t frozen;
    model_precision precision;
} spec_before;
COLM_MUST_USE colm_status spec_stage_read(spec_reader *r, json_value v, const spec_before *before,
                                          spec_stage *ret, colm_err *err);
/* A data set by the name v holds; or by `name` with v as the position. */
COLM_MUST_USE colm_status spec_data_named(const spec_reader *r, json_value v, const char *name, uint32_t *ret,
                                          colm_err *err);

#endif
