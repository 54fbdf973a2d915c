/* An experiment file, read and checked: every name resolved, every default filled, no device touched.
 *
 * arms form a tree by `from`: an arm without it starts from random parameters, one with it from the last
 * checkpoint of another arm (same seed). A run is (experiment, arm, seed). */
#ifndef COLM_LAB_SPEC_H
#define COLM_LAB_SPEC_H

#include "engine/base/json.h"
#include "engine/data/corpus.h"
#include "engine/eval/task.h"
#include "engine/model/config.h"
#include "engine/train/params.h"

typedef struct {
    corpus_params corpus; /* name, base_dir, text...; cache_dir is left to the runner */
} spec_data;

typedef struct {
    eval_task_params task; /* corpus is left to the runner */
    int data;              /* index of the data set, -1 for a file (path made absolute by the file's folder) */
} spec_task;

typedef enum { SPEC_TRAIN, SPEC_GROW, SPEC_EVAL } spec_kind;
typedef struct {
    spec_kind kind;
    int line;              /* in the file */
    const char *canonical; /* canonical JSON of everything that decides the stage's result, defaults filled: for
                              digests */
    model_config model;    /* after the stage */
    model_precision precision; /* of the arm; of a train stage also in `train` */
    uint32_t frozen; /* chains frozen after the stage (a grow sets it; a train may override it for itself) */
    /* train */
    train_params train;
    struct {
        uint32_t data; /* index */
        double weight;
    } part[16];
    uint32_t n_parts;
    /* eval: indices of tasks */
    uint32_t task[64];
    uint32_t n_tasks;
} spec_stage;

typedef struct {
    const char *name;
    int line;
    int from; /* index of an earlier arm, -1 for none */
    model_precision precision;
    model_config start; /* model before the first stage */
    spec_stage *stage;
    uint32_t n_stages;
} spec_arm;

typedef struct spec {
    const char *path, *name, *about; /* about may be "" */
    const char *text;                /* the whole file */
    char digest[33];                 /* of its canonical form */
    const char *tokenizer;
    uint64_t *seed;
    uint32_t n_seeds;
    spec_data *data;
    uint32_t n_data;
    spec_task *task;
    uint32_t n_tasks;
    spec_arm *arm; /* an arm stands after the one it starts from */
    uint32_t n_arms;
} spec;

/* Reads a file. Everything that can be known without opening data or devices is checked here: COLM_E_INPUT with
 * file:line: path. The result is one arena: spec_free. */
COLM_MUST_USE colm_status spec_load(const char *path, spec **ret, colm_err *err);
COLM_MUST_USE colm_status spec_parse(const char *path, const char *text, size_t n, spec **ret, colm_err *err);
void spec_free(spec **s);
int spec_arm_index(const spec *s, const char *name); /* -1 when unknown */

#endif
