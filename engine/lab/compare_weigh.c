/* Means, differences and their errors. The formulas stand above the code; results/README.md has them in words.
 */
#include <math.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/lab/compare.h"

const compare_score *compare_score_of(const compare_run *r, const compare_task *t, uint32_t scale) {
    for (size_t i = 0; i < r->n_scores; i++) {
        const compare_score *x = &r->score[i];
        if (x->scale == scale && !strcmp(x->task, t->task) && !strcmp(x->metric, t->metric)) return x;
    }
    return NULL;
}

compare_cell *compare_cell_at(const comparison *c, const compare_arm *a, uint32_t scale, size_t task) {
    return &a->cell[(size_t)(scale - 1) * c->n_tasks + task];
}

double compare_mean(const compare_arm *a, double (*of)(const compare_run *r)) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < a->n_runs; i++) {
        double v = of(a->run[i]);
        if (isnan(v)) continue;
        sum += v;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

// Sample variance, n - 1 below; NAN for n < 2.
static double variance(const double *x, size_t n) {
    double mean = 0, sum = 0;
    if (n < 2) return NAN;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum / (double)(n - 1);
}

// ---- paired differences

// Two runs at two scales that are looked at side by side.
typedef struct {
    const compare_run *a, *b;
} run_pair;

// Differences a - b per item, summed over pairs of runs; for bits_per_byte per document: of log-probabilities.
typedef struct {
    double *x, *bytes;
    size_t n;
} item_list;

static colm_status first_sum(const char *sums, double *ret, colm_err *err) {
    json_doc *doc = NULL;
    colm_status s = json_open_text("answer.sums", sums, strlen(sums), &doc, err);
    if (!s) s = json_read_double(json_item(json_root(doc), 0), -HUGE_VAL, HUGE_VAL, ret, err);
    json_close(&doc);
    return s;
}

static const char pairs_from[] =
    " FROM answer a JOIN answer b ON b.stage = ?4 AND b.task = a.task AND b.scale = ?5 AND b.item = a.item "
    "WHERE a.stage = ?1 AND a.task = ?2 AND a.scale = ?3";

// Adds one pair of runs to the list. *ret_n is the number of items that both answered, 0 when they cannot be
// paired.
static colm_status add_items(comparison *c, const compare_task *t, const run_pair *p, uint32_t scale_a,
                             uint32_t scale_b, size_t most, item_list *list, size_t *ret_n, colm_err *err) {
    bool documents = !strcmp(t->metric, "bits_per_byte");
    sqlite3_stmt *st = NULL;
    bool row = true;
    size_t n = 0;
    double la = 0, lb = 0;
    const char *sql = arena_printf(
        &c->memory, "SELECT a.right, b.right, a.sums, b.sums, a.bytes%s ORDER BY a.item", pairs_from);
    if (!sql) return err_nomem(err, sizeof pairs_from, "a comparison");
    colm_status s = db_open(c->store, &st, err, sql, "itiii", p->a->stage, t->task, (int64_t)scale_a,
                            p->b->stage, (int64_t)scale_b);
    while (!s && !(s = db_row(c->store, st, &row, err)) && row) {
        int needed = documents ? 4 : 0;
        if (n == most || sqlite3_column_type(st, needed) == SQLITE_NULL) {
            n = 0; // not the answers that the scores were made of
            break;
        }
        if (documents) {
            s = first_sum(db_text(st, 2), &la, err);
            if (!s) s = first_sum(db_text(st, 3), &lb, err);
            if (s) break;
            list->x[n] += la - lb;
            list->bytes[n] += sqlite3_column_double(st, 4);
        } else {
            list->x[n] += sqlite3_column_double(st, 0) - sqlite3_column_double(st, 1);
        }
        n++;
    }
    sqlite3_finalize(st);
    *ret_n = n;
    return s;
}

// Error of a mean of paired differences over n items, k pairs of runs having been summed:
//   acc            x_i = mean over pairs of (right_a - right_b);  sqrt( var(x) / n )
//   bits_per_byte  the ratio r = sum x / sum bytes; e_i = x_i - r bytes_i (its mean is 0);
//                  sqrt( n / (n-1) sum e_i^2 ) / sum bytes / ln 2
static double items_error(const item_list *list, bool documents, size_t k) {
    double n = (double)list->n, sum = 0, bytes = 0, squares = 0;
    if (list->n < 2) return NAN;
    if (!documents) return sqrt(variance(list->x, list->n) / n) / (double)k;
    for (size_t i = 0; i < list->n; i++) sum += list->x[i], bytes += list->bytes[i];
    for (size_t i = 0; i < list->n; i++) {
        double e = list->x[i] - sum / bytes * list->bytes[i];
        squares += e * e;
    }
    return sqrt(n / (n - 1) * squares) / bytes / log(2);
}

// Mean over pairs of a's score minus b's, at scales that may differ. Pairs by item where every pair of runs has
// answered the same items; else the errors of both are added in squares. With several pairs the seeds are
// noise, too: the variance of the difference over them, divided by their number, is added.
static colm_status differ(comparison *c, const compare_task *t, const run_pair *pair, size_t k,
                          uint32_t scale_a, uint32_t scale_b, compare_difference *ret, colm_err *err) {
    bool documents = !strcmp(t->metric, "bits_per_byte"), can_pair = documents || !strcmp(t->metric, "acc");
    double *each = arena_alloc(&c->memory, k, sizeof *each), sum = 0, squares = 0;
    item_list list = {0};
    size_t most = 0;
    if (!each) return err_nomem(err, k * sizeof *each, "a comparison");
    for (size_t i = 0; i < k; i++) {
        const compare_score *a = compare_score_of(pair[i].a, t, scale_a),
                            *b = compare_score_of(pair[i].b, t, scale_b);
        each[i] = a->value - b->value;
        sum += each[i];
        squares += (a->stderr_ * a->stderr_ + b->stderr_ * b->stderr_) / (double)k;
        if (i == 0) most = (size_t)a->n;
        can_pair = can_pair && (size_t)a->n == most && (size_t)b->n == most && !strcmp(a->digest, b->digest);
    }
    if (can_pair) {
        list = (item_list){arena_alloc(&c->memory, most, sizeof(double)),
                           arena_alloc(&c->memory, most, sizeof(double)), 0};
        if (!list.x || !list.bytes) return err_nomem(err, most * sizeof(double), "a comparison");
    }
    for (size_t i = 0; i < k && can_pair; i++) {
        colm_status s = add_items(c, t, &pair[i], scale_a, scale_b, most, &list, &list.n, err);
        if (s) return s;
        can_pair = list.n == most;
    }
    double error = can_pair ? items_error(&list, documents, k) : sqrt(squares);
    if (k > 1) error = sqrt(error * error + variance(each, k) / (double)k);
    double value = sum / (double)k;
    *ret = (compare_difference){value, error, can_pair, value != 0 && !(fabs(value) >= 2 * error)};
    return COLM_OK;
}

// ---- scores of the arms

static colm_status weigh_cells(comparison *c, compare_arm *a, colm_err *err) {
    a->cell = arena_alloc(&c->memory, (size_t)a->scales * c->n_tasks, sizeof *a->cell);
    double *value = arena_alloc(&c->memory, a->n_runs, sizeof *value);
    if (!a->cell || !value) return err_nomem(err, a->n_runs, "a comparison");
    for (uint32_t scale = 1; scale <= a->scales; scale++) {
        for (size_t t = 0; t < c->n_tasks; t++) {
            compare_cell *x = compare_cell_at(c, a, scale, t);
            double sum = 0, squares = 0;
            *x = (compare_cell){
                .value = NAN, .stderr_ = NAN, .spread = NAN, .to_best = {NAN, NAN, false, false}};
            for (size_t i = 0; i < a->n_runs; i++) {
                const compare_score *score = compare_score_of(a->run[i], &c->task[t], scale);
                if (!score || !isfinite(score->value)) continue;
                sum += value[x->seeds++] = score->value;
                squares += score->stderr_ * score->stderr_;
            }
            if (!x->seeds) continue;
            x->value = sum / x->seeds;
            x->stderr_ = sqrt(squares / x->seeds);
            x->spread = sqrt(variance(value, x->seeds));
        }
    }
    return COLM_OK;
}

// Runs of the same seed that both have the score.
static size_t match_seeds(const compare_task *t, const compare_arm *a, uint32_t scale_a, const compare_arm *b,
                          uint32_t scale_b, run_pair *ret) {
    size_t k = 0;
    for (size_t i = 0; i < a->n_runs; i++) {
        for (size_t j = 0; j < b->n_runs; j++) {
            const compare_score *x = compare_score_of(a->run[i], t, scale_a);
            const compare_score *y = compare_score_of(b->run[j], t, scale_b);
            if (a->run[i]->seed != b->run[j]->seed || !x || !y || !isfinite(x->value) || !isfinite(y->value))
                continue;
            ret[k++] = (run_pair){a->run[i], b->run[j]};
        }
    }
    return k;
}

static colm_status differ_arms(comparison *c, size_t task, const compare_arm *a, uint32_t scale_a,
                               const compare_arm *b, uint32_t scale_b, compare_difference *ret, colm_err *err) {
    const compare_cell *x = compare_cell_at(c, a, scale_a, task), *y = compare_cell_at(c, b, scale_b, task);
    run_pair *pair = arena_alloc(&c->memory, a->n_runs * b->n_runs, sizeof *pair);
    if (!pair) return err_nomem(err, a->n_runs * b->n_runs * sizeof *pair, "a comparison");
    size_t k = match_seeds(&c->task[task], a, scale_a, b, scale_b, pair);
    if (k) return differ(c, &c->task[task], pair, k, scale_a, scale_b, ret, err);
    // No common seed: two independent samples.
    double squares = x->stderr_ * x->stderr_ + y->stderr_ * y->stderr_;
    if (x->seeds > 1) squares += x->spread * x->spread / x->seeds;
    if (y->seeds > 1) squares += y->spread * y->spread / y->seeds;
    double value = x->value - y->value, error = sqrt(squares);
    *ret = (compare_difference){value, error, false, value != 0 && !(fabs(value) >= 2 * error)};
    return COLM_OK;
}

// Marks the best of a task and what cannot be told from it.
static colm_status mark_best(comparison *c, size_t task, colm_err *err) {
    const compare_task *t = &c->task[task];
    const compare_arm *best_arm = NULL;
    uint32_t best_scale = 0;
    double best = NAN;
    if (t->mixed) return COLM_OK;
    for (const compare_arm *a = c->arm; a < c->arm + c->n_arms; a++) {
        for (uint32_t s = 1; s <= a->scales; s++) {
            double v = compare_cell_at(c, a, s, task)->value;
            if (isnan(v) || (best_arm && !(t->higher_better ? v > best : v < best))) continue;
            best_arm = a, best_scale = s, best = v;
        }
    }
    for (const compare_arm *a = c->arm; best_arm && a < c->arm + c->n_arms; a++) {
        for (uint32_t s = 1; s <= a->scales; s++) {
            compare_cell *x = compare_cell_at(c, a, s, task);
            if (isnan(x->value)) continue;
            colm_status st = differ_arms(c, task, best_arm, best_scale, a, s, &x->to_best, err);
            if (st) return st;
            x->best = a == best_arm && s == best_scale;
            x->tied = !x->best && x->value == best;
        }
    }
    return COLM_OK;
}

// ---- what was kept of the parent

// Answers that both gave, and those with the same bits (the texts of sums read back exactly, so equal texts are
// equal numbers).
static colm_status count_equal(comparison *c, const compare_run *r, compare_retention *x, colm_err *err) {
    static const char sql[] =
        "SELECT count(*), total(a.sums = b.sums) FROM answer a JOIN answer b ON b.stage = ?4 AND b.task = "
        "a.task "
        "AND b.scale = ?3 AND b.item = a.item WHERE a.stage = ?1 AND a.task = ?2 AND a.scale = ?3";
    x->certified = x->certified && r->certified >= x->scale;
    for (size_t t = 0; t < c->n_tasks; t++) {
        const compare_score *own = compare_score_of(r, &c->task[t], x->scale);
        const compare_score *its = compare_score_of(r->parent, &c->task[t], x->scale);
        sqlite3_stmt *st = NULL;
        bool row = false;
        if (!own || !its || strcmp(own->digest, its->digest)) continue;
        colm_status s =
            db_open(c->store, &st, err, sql, "itii", r->stage, own->task, (int64_t)x->scale, r->parent->stage);
        if (!s) s = db_row(c->store, st, &row, err);
        if (!s && row) {
            x->tasks++;
            x->answers += sqlite3_column_int64(st, 0);
            x->equal += (int64_t)sqlite3_column_double(st, 1);
        }
        sqlite3_finalize(st);
        if (s) return s;
    }
    return COLM_OK;
}

static colm_status forget_one(comparison *c, compare_arm *a, uint32_t parent_scale, uint32_t scale, size_t task,
                              colm_err *err) {
    const compare_task *t = &c->task[task];
    run_pair *pair = arena_alloc(&c->memory, a->n_runs, sizeof *pair);
    compare_forgetting f = {.parent_scale = parent_scale, .scale = scale, .task = task};
    size_t k = 0;
    if (!pair) return err_nomem(err, a->n_runs * sizeof *pair, "a comparison");
    for (size_t i = 0; i < a->n_runs; i++) {
        const compare_run *r = a->run[i];
        const compare_score *x = r->parent ? compare_score_of(r->parent, t, parent_scale) : NULL;
        const compare_score *y = compare_score_of(r, t, scale);
        if (!x || !y || !isfinite(x->value) || !isfinite(y->value) || strcmp(x->digest, y->digest)) continue;
        f.before += x->value;
        f.after += y->value;
        pair[k++] = (run_pair){r->parent, r};
    }
    if (!k) return COLM_OK;
    f.before /= (double)k;
    f.after /= (double)k;
    colm_status s = differ(c, t, pair, k, parent_scale, scale, &f.forgot, err);
    if (!t->higher_better && f.forgot.value != 0) f.forgot.value = -f.forgot.value;
    a->forgetting[a->n_forgetting++] = f;
    return s;
}

static colm_status weigh_retention(comparison *c, compare_arm *a, colm_err *err) {
    uint32_t parent_scales = 0;
    for (size_t i = 0; i < a->n_runs; i++) {
        const compare_run *p = a->run[i]->parent;
        if (p && p->scales > parent_scales) parent_scales = p->scales;
    }
    uint32_t shared = parent_scales < a->scales ? parent_scales : a->scales;
    if (!shared) return COLM_OK;
    a->retention = arena_alloc(&c->memory, shared, sizeof *a->retention);
    a->forgetting = arena_alloc(&c->memory, (size_t)(shared + 1) * c->n_tasks, sizeof *a->forgetting);
    if (!a->retention || !a->forgetting) return err_nomem(err, shared, "a comparison");
    for (uint32_t scale = 1; scale <= shared; scale++) {
        compare_retention *x = &a->retention[a->n_retention++];
        *x = (compare_retention){.scale = scale, .certified = true};
        for (size_t i = 0; i < a->n_runs; i++) {
            colm_status s = a->run[i]->parent ? count_equal(c, a->run[i], x, err) : COLM_OK;
            if (s) return s;
        }
    }
    for (uint32_t scale = 1; scale <= shared + (a->scales != parent_scales); scale++) {
        bool full = scale > shared;
        for (size_t t = 0; t < c->n_tasks; t++) {
            colm_status s = forget_one(c, a, full ? parent_scales : scale, full ? a->scales : scale, t, err);
            if (s) return s;
        }
    }
    return COLM_OK;
}

// ---- what a reader must know first

static void notice(comparison *c, const char *text) {
    size_t most = sizeof c->notice / sizeof *c->notice;
    if (!text) c->lost_notice = true;
    if (!text || c->n_notices == most) return;
    bool last = c->n_notices + 1 == most;
    c->notice[c->n_notices++] = last ? "and more: `colm runs` lists the runs" : text;
}

static void take_notice(comparison *c) {
    const compare_run *first = c->run[0];
    bool devices = false, versions = false;
    for (size_t i = 0; i < c->n_asked; i++) {
        const compare_run *r = c->run[i];
        devices |= r->elsewhere || strcmp(r->device, first->device) || strcmp(r->numerics, first->numerics);
        versions |= strcmp(r->version, first->version) != 0;
    }
    if (devices) {
        notice(c, "the runs were made on different devices, drivers or kernels: do not compare their seconds");
    }
    if (versions) notice(c, "the runs were made by different versions of colm");
    for (const compare_task *t = c->task; t < c->task + c->n_tasks; t++) {
        if (!t->mixed) continue;
        notice(c, arena_printf(&c->memory,
                               "task %s had different items in different runs: its scores cannot be compared",
                               t->task));
    }
    for (size_t i = 0; i < c->n_asked; i++) {
        const compare_run *r = c->run[i];
        if (r->parent && strcmp(r->precision, r->parent->precision)) {
            notice(c, arena_printf(
                          &c->memory,
                          "%s, seed %lld was made in %s, its parent in %s: the same weights give other answers",
                          r->arm, (long long)r->seed, r->precision, r->parent->precision));
        }
        bool finished = !strcmp(r->status, "finished");
        if (finished && r->changed_since) {
            notice(c,
                   arena_printf(&c->memory,
                                "%s, seed %lld was changed after its last evaluation: its scores are those of "
                                "the model before",
                                r->arm, (long long)r->seed));
        }
        if (finished && r->stage) continue;
        notice(c, arena_printf(&c->memory, "%s, seed %lld is %s%s%s; %s", r->arm, (long long)r->seed, r->status,
                               r->reason[0] ? ": " : "", r->reason,
                               r->stage ? "its last finished evaluation is shown" : "it has no evaluation"));
    }
}

colm_status compare_weigh(comparison *c, colm_err *err) {
    colm_status s = COLM_OK;
    for (size_t i = 0; i < c->n_arms && !s; i++) s = weigh_cells(c, &c->arm[i], err);
    for (size_t t = 0; t < c->n_tasks && !s; t++) s = mark_best(c, t, err);
    for (size_t i = 0; i < c->n_arms && !s; i++) s = weigh_retention(c, &c->arm[i], err);
    if (s) return s;
    take_notice(c);
    return c->lost_notice ? err_nomem(err, sizeof *c, "a comparison") : COLM_OK;
}
