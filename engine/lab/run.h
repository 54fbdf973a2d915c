/* Private to the runner: what run.c (arms, seeds, the database) and stage.c (one stage) share. */
#ifndef COLM_LAB_RUN_H
#define COLM_LAB_RUN_H

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/lab/spec.h"
#include "engine/lab/store.h"
#include "engine/model/weights.h"
#include "engine/ops/ops.h"

#define RUNNER_PATH 4096

/* Where a run's model stands: what made it, and its last checkpoint. */
typedef struct {
    bool ready; /* the arm finished (in this process or an earlier one) */
    store_id run;
    char digest[HASH_TEXT];     /* of everything that decides the model */
    char file[RUNNER_PATH];     /* checkpoint, below the folder of files; "" before the first */
    char checkpoint[HASH_TEXT]; /* its digest */
    uint32_t train_stages;      /* trained so far along the lineage: names the batches' random stream */
} arm_state;

typedef struct {
    const colm_run_params *params;
    const spec *spec;
    store *db;
    store_id experiment;
    char files[RUNNER_PATH]; /* folder beside the database; what it says of files is relative to it */
    tokenizer *tok;
    corpus **corpus;      /* per data set, opened when the first stage needs it */
    eval_task **task;     /* per task, likewise */
    ops_machine *machine; /* opened when the first stage really runs */
    unsigned objections;  /* of the validation layer so far */
    log_sink log;
    arm_state *arm; /* per arm, for the seed in work */
    uint64_t seed;
    char label[96]; /* "expand/1": arm and seed */
    bool hopeless;  /* what went wrong will go wrong in every other run too */
} runner;

/* One stage with what it starts from. */
typedef struct {
    runner *r;
    const spec_arm *arm;
    const spec_stage *stage;
    const char *digest; /* stage_digest */
    store_id run, id;
    model_weights *weights; /* in and out */
    arm_state *at;          /* in: before the stage; its checkpoint is updated */
    double seen;            /* when the run last gave a sign of life, by clock_seconds */
} stage_work;

COLM_PRINTF(3, 4) void runner_event(const runner *r, colm_event_kind kind, const char *fmt, ...);
/* The state of the stage in work: `done` of `total`. */
COLM_PRINTF(4, 5)
void runner_progress(const runner *r, uint64_t done, uint64_t total, const char *fmt, ...);
bool runner_stop(const runner *r);
COLM_MUST_USE colm_status runner_corpus(runner *r, uint32_t data, const corpus **ret, colm_err *err);
COLM_MUST_USE colm_status runner_task(runner *r, uint32_t task, const eval_task **ret, colm_err *err);
/* Where a file lies that the database names. */
COLM_MUST_USE colm_status runner_path(const runner *r, const char *file, char ret[RUNNER_PATH], colm_err *err);

const char *stage_kind(spec_kind k); /* "train", "grow", "eval" */
/* "bible+perldoc" of a training, "bible_bits, perl_bits" of an evaluation, "" of growing; cut to n bytes. */
void stage_what(const spec *s, const spec_stage *g, char *buf, size_t n);
/* Digest of a stage that starts from `at`: training and growing follow the model's digest on, evaluation hangs
 * off it. */
COLM_MUST_USE colm_status stage_digest(runner *r, const spec_stage *s, const arm_state *at, char ret[HASH_TEXT],
                                       colm_err *err);
/* What a finished (or skipped) stage leaves behind for the next. */
void stage_advance(const spec_stage *s, const char *digest, arm_state *at);
/* Runs it and fills what the database keeps; its texts live as long as w->at and *certificate. */
COLM_MUST_USE colm_status stage_run(stage_work *w, store_stage_result *ret, str *certificate, colm_err *err);

#endif
