/* The results database: the only SQL in colm. SQLite in WAL mode, STRICT tables, foreign keys on, schema
 * version in PRAGMA user_version. Missing values are NULL, never 0; NaN and infinity become NULL with a flag in
 * the row.
 *
 * Tables: experiment (a file's text and digest), run (experiment, arm, seed; parent run; status, owner, device,
 * code version), stage (kind, digest, status, tokens, FLOPs, seconds, parameters total and trained,
 * checkpoint), metric (stage, step, name, value), score (stage, task, version, digests, scale, metric, value,
 * stderr, counts), answer (score's items), artifact (path, digest, bytes, kind, stage). Names of columns are
 * documented in results/README.md.
 *
 * Status: a run or stage is "running" while its owner (host, boot id, pid, start time of the process) lives.
 * Readers see a running row whose owner is gone as "interrupted"; store_open for writing marks such rows so. An
 * owner on another host cannot be asked: it counts as living while it has written within OWNER_SILENCE seconds.
 *
 * A store belongs to one process and thread: open it after fork, not before. Numbers over 2^63-1 are refused
 * with COLM_E_INPUT. Disk full, locks held for 30 s and the like are COLM_E_IO with the path. */
#ifndef COLM_LAB_STORE_H
#define COLM_LAB_STORE_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/eval/task.h"

typedef struct store store;
/* write: creates folder, file and schema as needed (two first users at once are fine), waits up to 30 s on
 * locks. Read-only: a missing file is COLM_E_INPUT. A newer user_version than this program knows is refused
 * with both numbers. */
COLM_MUST_USE colm_status store_open(const char *path, bool write, store **ret, colm_err *err);
void store_close(store **s);
const char *store_path(const store *s);
/* A line worth showing to the person (no write-ahead logging on this file system), "" for none. */
const char *store_notice(const store *s);

typedef int64_t store_id; /* 0: none (NULL) */

COLM_MUST_USE colm_status store_experiment(store *s, const char *name, const char *path, const char *digest,
                                           const char *text, store_id *ret,
                                           colm_err *err); /* same name and digest: the same row */

typedef struct {
    store_id experiment;
    const char *arm;
    uint64_t seed;
    store_id parent; /* run whose checkpoint this one starts from, 0 for none */
    /* NULL where the run computes nothing: what it has stays, or comes from the stages that it copies. */
    const char *version;   /* of colm */
    const char *device;    /* name, driver */
    const char *numerics;  /* of ops_identity, what all runs on a device share */
    const char *config;    /* JSON of the model at the start */
    const char *precision; /* "f32", "bf16", "f16"; NULL: "f32" */
} store_run_row;
/* The run of (experiment, arm, seed): a finished or interrupted one is taken up again (its row reused, status
 * running, owner us); one that is running under a living owner is COLM_E_INPUT naming host and pid. */
COLM_MUST_USE colm_status store_run_begin(store *s, const store_run_row *row, store_id *ret, colm_err *err);
/* Work that writes nothing for minutes says so now and then. Every other write under a run does it too. */
COLM_MUST_USE colm_status store_run_alive(store *s, store_id run, colm_err *err);
/* Ends the run and, unless "finished", its running stage. status: "finished", "failed", "interrupted"; reason
 * may be NULL. */
COLM_MUST_USE colm_status store_run_end(store *s, store_id run, const char *status, const char *reason,
                                        colm_err *err);

typedef struct {
    store_id run;
    uint32_t index;     /* place in the arm, from 0 */
    const char *kind;   /* "train", "grow", "eval" */
    const char *digest; /* of everything that decides the result, the parent stage's digest included */
    const char *spec;   /* canonical JSON */
    const char *chains; /* "<4,2>" after the stage */
    uint64_t params_total, params_trained;
    const char *device; /* that it runs on, NULL: unknown */
} store_stage_row;
typedef struct {
    uint64_t tokens; /* of training, or of evaluation (kept apart by kind) */
    double flops;    /* likewise; a day of a large GPU passes 2^63, so not an integer (exact up to 2^53) */
    double seconds;
    uint64_t memory;        /* device bytes at the peak, 0: unknown */
    const char *checkpoint; /* path of the file after the stage, NULL when it makes none */
    const char *checkpoint_digest;
    const char *certificate; /* JSON of the retention certificate, NULL for none */
} store_stage_result;
/* A finished stage of this run with this digest, if any: its id, and checkpoint path and digest copied into the
 * caller's buffers ("" for none). *ret 0 when there is none. */
COLM_MUST_USE colm_status store_stage_find(store *s, store_id run, const char *digest, store_id *ret,
                                           char path[4096], char checkpoint_digest[33], colm_err *err);
/* Name of the device that a stage was made on, cut to n bytes; "" when unknown. */
COLM_MUST_USE colm_status store_stage_device(store *s, store_id stage, char *ret, size_t n, colm_err *err);
/* The row of (experiment, arm, seed) without taking it up: *ret 0 when there is none. */
COLM_MUST_USE colm_status store_run_lookup(store *s, store_id experiment, const char *arm, uint64_t seed,
                                           store_id *ret, bool *ret_finished, colm_err *err);
/* A finished stage of any run with this digest: as store_stage_find. A file that was edited keeps what did not
 * change. */
COLM_MUST_USE colm_status store_stage_source(store *s, const char *digest, store_id *ret, char path[4096],
                                             char checkpoint_digest[33], colm_err *err);
/* Gives run to->run a copy of a finished stage with all that it measured, at place to->index; later stages of
 * the run are removed. The copy names its origin in copied_from. */
COLM_MUST_USE colm_status store_stage_copy(store *s, const store_stage_row *to, store_id from, colm_err *err);
/* Begins (or begins again: an unfinished one's metrics, scores and answers are removed first). Later stages of
 * the run with other digests are removed: they described another experiment. */
COLM_MUST_USE colm_status store_stage_begin(store *s, const store_stage_row *row, store_id *ret, colm_err *err);
COLM_MUST_USE colm_status store_stage_end(store *s, store_id stage, const store_stage_result *r, colm_err *err);
COLM_MUST_USE colm_status store_stage_fail(store *s, store_id stage, const char *status, const char *reason,
                                           colm_err *err);

typedef struct {
    uint64_t step;
    const char *name; /* "loss", "grad_norm", "lr", "tokens_per_s" */
    double value;
} store_metric_row;
COLM_MUST_USE colm_status store_metrics(store *s, store_id stage, const store_metric_row *row, size_t n,
                                        colm_err *err);

typedef struct {
    const char *task, *kind, *task_digest, *data_digest, *tokenizer_digest, *checkpoint_digest;
    int task_version;
} store_task_row;
/* All scores and answers of one task in one transaction. Scales are numbered from 1. */
COLM_MUST_USE colm_status store_scores(store *s, store_id stage, const store_task_row *task,
                                       const eval_outcome *o, colm_err *err);
COLM_MUST_USE colm_status store_artifact(store *s, store_id stage, const char *kind, const char *path,
                                         const char *digest, uint64_t bytes, colm_err *err);

/* Reading. Output is appended to *out in one of three shapes; tables are for people (aligned, times in local
 * time, numbers with sensible digits), JSON and CSV for programs (every digit, null). */
typedef enum { STORE_TABLE, STORE_JSON, STORE_CSV } store_format;
COLM_MUST_USE colm_status store_print_runs(store *s, store_format f, str *out, colm_err *err);
/* One run by id, or by "experiment/arm" or "experiment/arm/seed" (newest): its stages, last metrics, scores. */
COLM_MUST_USE colm_status store_print_run(store *s, const char *which, store_format f, str *out, colm_err *err);
/* The arms of an experiment (one name), or the named runs: see results/README.md for the table's meaning. */
COLM_MUST_USE colm_status store_print_compare(store *s, const char *const *which, size_t n, store_format f,
                                              str *out, colm_err *err);
/* A read-only statement; anything that would write is refused. */
COLM_MUST_USE colm_status store_print_query(store *s, const char *sql, store_format f, str *out, colm_err *err);

#endif
