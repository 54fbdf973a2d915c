/* The comparison of arms: what `colm compare` prints. results/README.md says in words how each number is made.
 *
 * Order: compare_load (runs, costs, scores), compare_weigh (means, differences, marks, retention), then one of
 * the writers. Everything lives in one arena. Private to the store. */
#ifndef COLM_LAB_COMPARE_H
#define COLM_LAB_COMPARE_H

#include "engine/base/mem.h"
#include "engine/lab/store_db.h"

/* What training cost: sums over finished train stages. */
typedef struct {
    double tokens, flops, seconds;
} compare_cost;

/* One row of table score. */
typedef struct {
    const char *task, *kind, *digest, *metric;
    uint32_t scale;
    bool higher_better;
    double value, stderr_; /* NAN: none */
    int64_t n, n_truncated, n_skipped;
} compare_score;

typedef struct compare_run {
    store_id id, experiment, stage; /* stage: the last finished evaluation, 0 for none */
    const char *experiment_name, *arm, *status, *reason, *device, *numerics, *version, *precision, *chains;
    int64_t seed;
    store_id parent_id;
    struct compare_run *parent;          /* NULL for none */
    double params_total, params_trained; /* after the last stage; of the last train stage; NAN: none */
    compare_cost own, whole;             /* whole: with all ancestors */
    double eval_seconds;
    uint32_t scales; /* largest scale with a score: the full one */
    compare_score *score;
    size_t n_scores, cap_scores;
    uint32_t changing, certified_stages; /* finished train and grow stages; those with a certificate */
    bool elsewhere;     /* some stage was made on another device than the last attempt ran on */
    bool changed_since; /* trained or grown after the last evaluation */
    uint32_t certified; /* scales 1..certified are certified by every one of those stages; 0: none */
    int64_t tensors;    /* frozen ones of the last certificate */
} compare_run;

/* A difference a - b, sign as is, with its standard error. */
typedef struct {
    double value, stderr_; /* NAN: unknown */
    bool paired;           /* by items of the same task; else both errors are added in squares */
    bool within_noise;     /* |value| < 2 stderr, and not exactly 0 */
} compare_difference;

/* The main metric of one task at one scale of one arm, over its seeds. */
typedef struct {
    uint32_t seeds; /* 0: no score */
    double value, stderr_,
        spread; /* mean; root mean square of the seeds' errors; deviation over seeds, NAN for one */
    bool best, tied;
    compare_difference to_best; /* best minus this one */
} compare_cell;

typedef struct {
    const char *task, *kind, *metric;
    bool higher_better;
    bool mixed; /* runs were asked different items under this name: never compared */
} compare_task;

/* What became of one task between the parent's scale and the arm's own. */
typedef struct {
    uint32_t parent_scale, scale;
    size_t task;
    double before, after;
    compare_difference forgot; /* first_minus_last: > 0 is worse than before, for losses as well */
} compare_forgetting;

/* Is scale k of the arm bit for bit scale k of its parent? Over all seeds. */
typedef struct {
    uint32_t scale;
    int64_t answers, equal, tasks; /* of the same items at both; equal: all sums agree in every bit */
    bool certified;
} compare_retention;

typedef struct {
    const char *label;  /* arm, or experiment/arm where there are several experiments */
    const char *parent; /* its parent's label, NULL for none */
    compare_run **run;  /* by seed */
    size_t n_runs;
    uint32_t scales;
    compare_cell *cell;           /* [scales][n_tasks] */
    compare_retention *retention; /* [n_retention]: shared scales */
    size_t n_retention;
    compare_forgetting *forgetting;
    size_t n_forgetting;
} compare_arm;

typedef struct {
    arena memory;
    store *store;
    const char *title; /* the experiment's name, NULL for several */
    compare_run **run; /* asked for, and ancestors */
    size_t n_runs, cap_runs, n_asked;
    compare_arm *arm;
    size_t n_arms;
    compare_task *task;
    size_t n_tasks;
    const char *notice[16]; /* what a reader must know before believing */
    size_t n_notices;
    bool lost_notice; /* for lack of memory */
} comparison;

COLM_MUST_USE colm_status compare_load(store *s, const char *const *which, size_t n, comparison *c,
                                       colm_err *err);
COLM_MUST_USE colm_status compare_weigh(comparison *c, colm_err *err);
COLM_MUST_USE colm_status compare_table(const comparison *c, str *out, colm_err *err);
COLM_MUST_USE colm_status compare_json(const comparison *c, str *out, colm_err *err);
COLM_MUST_USE colm_status compare_csv(const comparison *c, str *out, colm_err *err);

compare_cell *compare_cell_at(const comparison *c, const compare_arm *a, uint32_t scale, size_t task);
/* The run's score of the task's main metric at a scale, NULL for none. */
const compare_score *compare_score_of(const compare_run *r, const compare_task *t, uint32_t scale);
/* Mean of one number over an arm's runs that have it, NAN for none. */
double compare_mean(const compare_arm *a, double (*of)(const compare_run *r));

#endif
