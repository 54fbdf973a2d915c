/* From the database to the comparison's structs. */
#include <math.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/lab/compare.h"

static colm_status nomem(colm_err *err) {
    return err_nomem(err, 4096, "a comparison");
}

static const char *keep(comparison *c, sqlite3_stmt *st, int column) {
    return arena_strdup(&c->memory, db_text(st, column));
}

static double real_or_nan(sqlite3_stmt *st, int column) {
    return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN : sqlite3_column_double(st, column);
}

// A longer copy of an array; the old one stays in the arena until the end.
static void *longer(arena *a, const void *old, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return (void *)(uintptr_t)old;
    *cap = *cap ? 2 * *cap : 16;
    void *more = arena_alloc(a, *cap, size);
    if (more && n) memcpy(more, old, n * size);
    return more;
}

// What the certificates of a run's stages say together.
static colm_status read_certificate(compare_run *r, const char *text, colm_err *err) {
    json_doc *doc = NULL;
    json_value list, item;
    uint64_t frozen = 0, scale = 0, tensors = 0;
    bool tensors_equal = false, equal = false;
    uint32_t good = 0;
    colm_status st = json_open_text("certificate", text, strlen(text), &doc, err);
    if (st) return err_at(err, "run %lld", (long long)r->id);
    json_value root = json_root(doc);
    st = json_read_object(root, err);
    if (!st) st = json_opt_u64(root, "frozen", 0, UINT32_MAX, &frozen, err);
    if (!st) st = json_opt_u64(root, "tensors", 0, INT64_MAX, &tensors, err);
    if (!st) st = json_opt_bool(root, "tensors_equal", &tensors_equal, err);
    if (!st) st = json_need(root, "scales", &list, err);
    // Scale k is certified when it and all below it are.
    for (size_t i = 0; !st && tensors_equal && i < json_count(list); i++) {
        item = json_item(list, i);
        st = json_opt_u64(item, "scale", 1, UINT32_MAX, &scale, err);
        if (!st) st = json_opt_bool(item, "equal", &equal, err);
        if (st || scale != good + 1 || scale > frozen || !equal) break;
        good++;
    }
    if (!st) {
        r->certified = r->certified_stages == 0 || good < r->certified ? good : r->certified;
        r->tensors = (int64_t)tensors;
        r->certified_stages++;
    }
    json_close(&doc);
    return st ? err_at(err, "run %lld", (long long)r->id) : COLM_OK;
}

static colm_status load_stages(comparison *c, compare_run *r, colm_err *err) {
    static const char sql[] = "SELECT id, kind, status, chains, params_total, params_trained, tokens, flops, "
                              "seconds, certificate, device FROM stage WHERE run = ? ORDER BY place";
    sqlite3_stmt *st = NULL;
    bool row = true;
    colm_status s = db_open(c->store, &st, err, sql, "i", r->id);
    while (!s && !(s = db_row(c->store, st, &row, err)) && row) {
        const char *kind = db_text(st, 1);
        if (strcmp(db_text(st, 2), "finished")) continue;
        r->chains = keep(c, st, 3);
        r->params_total = real_or_nan(st, 4);
        if (!r->chains) s = nomem(err);
        r->elsewhere |= sqlite3_column_type(st, 10) != SQLITE_NULL && strcmp(db_text(st, 10), r->device);
        r->changed_since = r->stage && strcmp(kind, "eval");
        if (!strcmp(kind, "eval")) {
            r->stage = sqlite3_column_int64(st, 0);
            r->eval_seconds += sqlite3_column_double(st, 8);
            continue;
        }
        r->changing++;
        if (!s && sqlite3_column_type(st, 9) != SQLITE_NULL) s = read_certificate(r, db_text(st, 9), err);
        if (strcmp(kind, "train")) continue;
        r->params_trained = real_or_nan(st, 5);
        r->own.tokens += sqlite3_column_double(st, 6);
        r->own.flops += sqlite3_column_double(st, 7);
        r->own.seconds += sqlite3_column_double(st, 8);
    }
    sqlite3_finalize(st);
    if (r->certified_stages < r->changing) r->certified = 0;
    return s;
}

static colm_status load_scores(comparison *c, compare_run *r, colm_err *err) {
    static const char sql[] = "SELECT task, kind, task_digest, metric, scale, higher_better, value, stderr, n, "
                              "n_truncated, n_skipped FROM score WHERE stage = ? ORDER BY id";
    sqlite3_stmt *st = NULL;
    bool row = true;
    colm_status s = db_open(c->store, &st, err, sql, "i", r->stage);
    while (!s && !(s = db_row(c->store, st, &row, err)) && row) {
        compare_score *more = longer(&c->memory, r->score, r->n_scores, &r->cap_scores, sizeof *more);
        if (!more) {
            s = nomem(err);
            break;
        }
        r->score = more;
        compare_score *x = &r->score[r->n_scores++];
        *x = (compare_score){.task = keep(c, st, 0),
                             .kind = keep(c, st, 1),
                             .digest = keep(c, st, 2),
                             .metric = keep(c, st, 3),
                             .scale = (uint32_t)sqlite3_column_int64(st, 4),
                             .higher_better = sqlite3_column_int(st, 5) != 0,
                             .value = real_or_nan(st, 6),
                             .stderr_ = real_or_nan(st, 7),
                             .n = sqlite3_column_int64(st, 8),
                             .n_truncated = sqlite3_column_int64(st, 9),
                             .n_skipped = sqlite3_column_int64(st, 10)};
        if (!x->task || !x->kind || !x->digest || !x->metric) s = nomem(err);
        if (x->scale > r->scales) r->scales = x->scale;
    }
    sqlite3_finalize(st);
    return s;
}

// Training of the run and of every run that it descends from.
static colm_status load_lineage(comparison *c, compare_run *r, colm_err *err) {
    static const char sql[] =
        "WITH RECURSIVE line(id) AS (SELECT ? UNION SELECT run.parent FROM run JOIN line ON run.id = line.id "
        "WHERE run.parent IS NOT NULL) "
        "SELECT total(tokens), total(flops), total(seconds) FROM stage "
        "WHERE run IN (SELECT id FROM line) AND kind = 'train' AND status = 'finished'";
    sqlite3_stmt *st = NULL;
    bool row = false;
    colm_status s = db_open(c->store, &st, err, sql, "i", r->id);
    if (!s) s = db_row(c->store, st, &row, err);
    if (!s && row) {
        r->whole = (compare_cost){sqlite3_column_double(st, 0), sqlite3_column_double(st, 1),
                                  sqlite3_column_double(st, 2)};
    }
    sqlite3_finalize(st);
    return s;
}

static colm_status load_run(comparison *c, store_id id, compare_run **ret, colm_err *err) {
    static const char sql[] =
        "SELECT r.id, r.experiment, e.name, r.arm, r.seed, r.status, r.reason, r.parent, r.device, r.numerics, "
        "r.version, r.precision FROM run r JOIN experiment e ON e.id = r.experiment WHERE r.id = ?";
    sqlite3_stmt *st = NULL;
    bool row = false;
    for (size_t i = 0; i < c->n_runs; i++) {
        if (c->run[i]->id != id) continue;
        *ret = c->run[i];
        return COLM_OK;
    }
    compare_run *r = arena_alloc(&c->memory, 1, sizeof *r);
    compare_run **more = longer(&c->memory, c->run, c->n_runs, &c->cap_runs, sizeof *more);
    if (!r || !more) return nomem(err);
    c->run = more;
    colm_status s = db_open(c->store, &st, err, sql, "i", id);
    if (!s) s = db_row(c->store, st, &row, err);
    if (!s && !row) s = err_set(err, COLM_E_CHECK, "%s: run %lld is gone", c->store->path, (long long)id);
    if (!s) {
        *r = (compare_run){.id = id,
                           .experiment = sqlite3_column_int64(st, 1),
                           .experiment_name = keep(c, st, 2),
                           .arm = keep(c, st, 3),
                           .seed = sqlite3_column_int64(st, 4),
                           .status = keep(c, st, 5),
                           .reason = keep(c, st, 6),
                           .parent_id = sqlite3_column_int64(st, 7),
                           .device = keep(c, st, 8),
                           .numerics = keep(c, st, 9),
                           .version = keep(c, st, 10),
                           .precision = keep(c, st, 11),
                           .chains = "",
                           .params_total = NAN,
                           .params_trained = NAN};
        if (!r->experiment_name || !r->arm || !r->status || !r->reason || !r->device || !r->numerics ||
            !r->version || !r->precision) {
            s = nomem(err);
        }
    }
    sqlite3_finalize(st);
    if (!s) s = load_stages(c, r, err);
    if (!s) s = load_scores(c, r, err);
    if (!s) s = load_lineage(c, r, err);
    if (s) return s;
    c->run[c->n_runs++] = r;
    *ret = r;
    return COLM_OK;
}

// Runs in the order in which they were begun.
static colm_status load_query(comparison *c, const char *sql, const char *text, store_id number, size_t *ret_n,
                              colm_err *err) {
    sqlite3_stmt *st = NULL;
    bool row = true;
    size_t n = 0;
    compare_run *r;
    colm_status s =
        text ? db_open(c->store, &st, err, sql, "t", text) : db_open(c->store, &st, err, sql, "i", number);
    while (!s && !(s = db_row(c->store, st, &row, err)) && row) {
        s = load_run(c, sqlite3_column_int64(st, 0), &r, err);
        n++;
    }
    sqlite3_finalize(st);
    if (!s) *ret_n = n;
    return s;
}

// An experiment's name: all its runs. "experiment/arm": all seeds of the newest one. Else one run.
static colm_status load_named(comparison *c, const char *which, colm_err *err) {
    static const char of_experiment[] = "SELECT id FROM run WHERE experiment = ? ORDER BY id";
    static const char of_arm[] =
        "SELECT r.id FROM run r WHERE r.experiment || ' ' || r.arm = (SELECT e.id || ' ' || a.arm FROM run a "
        "JOIN experiment e ON e.id = a.experiment WHERE e.name || '/' || a.arm = ? "
        "ORDER BY e.used DESC, e.id DESC LIMIT 1) ORDER BY r.id";
    store_id id = 0;
    size_t n = 0;
    compare_run *r;
    colm_status s = store_experiment_find(c->store, which, &id, err);
    if (s) return s;
    if (id) {
        s = load_query(c, of_experiment, NULL, id, &n, err);
        if (!s && !n) {
            s = err_set(err, COLM_E_INPUT, "experiment %s has no runs in %s yet: `colm run` makes them", which,
                        c->store->path);
        }
        return s;
    }
    s = load_query(c, of_arm, which, 0, &n, err);
    if (s || n) return s;
    s = store_run_find(c->store, which, &id, err);
    return s ? s : load_run(c, id, &r, err);
}

static bool same_arm(const compare_run *a, const compare_run *b) {
    return a->experiment == b->experiment && !strcmp(a->arm, b->arm);
}

static colm_status group_arms(comparison *c, colm_err *err) {
    bool several = false;
    for (size_t i = 1; i < c->n_asked; i++) several |= c->run[i]->experiment != c->run[0]->experiment;
    c->arm = arena_alloc(&c->memory, c->n_asked, sizeof *c->arm);
    if (!c->arm) return nomem(err);
    for (size_t i = 0; i < c->n_asked; i++) {
        compare_run *r = c->run[i];
        compare_arm *a = c->arm;
        while (a < c->arm + c->n_arms && !same_arm(a->run[0], r)) a++;
        if (a == c->arm + c->n_arms) {
            a->run = arena_alloc(&c->memory, c->n_asked, sizeof *a->run);
            a->label = several ? arena_printf(&c->memory, "%s/%s", r->experiment_name, r->arm) : r->arm;
            if (!a->run || !a->label) return nomem(err);
            c->n_arms++;
        }
        if (r->parent && !a->parent) {
            const compare_run *p = r->parent;
            a->parent = several || p->experiment != r->experiment
                            ? arena_printf(&c->memory, "%s/%s", p->experiment_name, p->arm)
                            : p->arm;
            if (!a->parent) return nomem(err);
        }
        if (r->scales > a->scales) a->scales = r->scales;
        a->run[a->n_runs++] = r;
    }
    if (!several) c->title = c->run[0]->experiment_name;
    return COLM_OK;
}

// A task's main metric: acc, else bits_per_byte, else whatever comes first.
static int rank_of(const char *metric) {
    return !strcmp(metric, "acc") ? 2 : !strcmp(metric, "bits_per_byte") ? 1 : 0;
}

static colm_status group_tasks(comparison *c, colm_err *err) {
    size_t most = 1;
    for (size_t i = 0; i < c->n_asked; i++) most += c->run[i]->n_scores;
    c->task = arena_alloc(&c->memory, most, sizeof *c->task);
    const char **digest = arena_alloc(&c->memory, most, sizeof *digest);
    if (!c->task || !digest) return nomem(err);
    for (size_t i = 0; i < c->n_asked; i++) {
        for (size_t j = 0; j < c->run[i]->n_scores; j++) {
            const compare_score *x = &c->run[i]->score[j];
            size_t k = 0;
            while (k < c->n_tasks && strcmp(c->task[k].task, x->task)) k++;
            compare_task *t = &c->task[k];
            if (k == c->n_tasks) {
                c->n_tasks++;
                digest[k] = x->digest;
            } else if (strcmp(digest[k], x->digest)) {
                t->mixed = true;
            }
            if (t->metric && rank_of(x->metric) <= rank_of(t->metric)) continue;
            *t = (compare_task){x->task, x->kind, x->metric, x->higher_better, t->mixed};
        }
    }
    return COLM_OK;
}

colm_status compare_load(store *s, const char *const *which, size_t n, comparison *c, colm_err *err) {
    c->store = s;
    if (!n) return err_set(err, COLM_E_INPUT, "compare: expected an experiment, or runs");
    for (size_t i = 0; i < n; i++) {
        colm_status st = load_named(c, which[i], err);
        if (st) return st;
    }
    c->n_asked = c->n_runs;
    // Parents may be loaded that nobody asked for; their parents are not needed.
    for (size_t i = 0; i < c->n_asked; i++) {
        compare_run *r = c->run[i];
        colm_status st = r->parent_id ? load_run(c, r->parent_id, &r->parent, err) : COLM_OK;
        if (st) return st;
    }
    colm_status st = group_arms(c, err);
    return st ? st : group_tasks(c, err);
}
