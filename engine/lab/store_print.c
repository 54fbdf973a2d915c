#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/lab/store_db.h"

// ---- finding what a person named

colm_status store_unknown(store *s, const char *which, colm_err *err) {
    static const char sql[] = "SELECT name FROM experiment UNION SELECT e.name || '/' || r.arm "
                              "FROM run r JOIN experiment e ON e.id = r.experiment ORDER BY 1";
    sqlite3_stmt *st = NULL;
    char near[256] = "";
    bool row = true;
    colm_status c = db_open(s, &st, err, sql, "");
    while (!c && !(c = db_row(s, st, &row, err)) && row) {
        const char *pair[2] = {db_text(st, 0), near};
        const char *best = err_nearest(which, pair, near[0] ? 2 : 1);
        if (best == pair[0]) snprintf(near, sizeof near, "%s", best);
    }
    sqlite3_finalize(st);
    if (c) return c;
    return err_set(err, COLM_E_INPUT, "no run or experiment \"%s\" in %s%s%s: `colm runs` lists them", which,
                   s->path, near[0] ? "; did you mean " : "", near);
}

static colm_status find_id(store *s, const char *sql, const char *which, store_id *ret, colm_err *err) {
    sqlite3_stmt *st = NULL;
    bool row = false;
    colm_status c = db_open(s, &st, err, sql, "t", which);
    if (!c) c = db_row(s, st, &row, err);
    if (!c) *ret = row ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    return c;
}

colm_status store_experiment_find(store *s, const char *name, store_id *ret, colm_err *err) {
    return find_id(
        s,
        "SELECT id FROM experiment e WHERE name = ? ORDER BY EXISTS (SELECT 1 FROM run WHERE experiment = "
        "e.id) DESC, used DESC, id DESC LIMIT 1",
        name, ret, err);
}

colm_status store_run_find(store *s, const char *which, store_id *ret, colm_err *err) {
    static const char by_name[] =
        "SELECT r.id FROM run r JOIN experiment e ON e.id = r.experiment "
        "WHERE e.name || '/' || r.arm = ?1 OR e.name || '/' || r.arm || '/' || r.seed = ?1 "
        "ORDER BY e.used DESC, r.started DESC, r.id DESC LIMIT 1";
    store_id id = 0;
    bool number = *which && !which[strspn(which, "0123456789")];
    colm_status c =
        find_id(s, number ? "SELECT id FROM run WHERE id = CAST(? AS INTEGER)" : by_name, which, &id, err);
    if (c) return c;
    if (!id && number) {
        return err_set(err, COLM_E_INPUT, "no run %s in %s: `colm runs` lists them", which, s->path);
    }
    if (!id) return store_unknown(s, which, err);
    *ret = id;
    return COLM_OK;
}

// ---- values of a statement as cells

static bool is_null(sqlite3_stmt *st, int c) {
    return sqlite3_column_type(st, c) == SQLITE_NULL;
}
static const char *text_or_null(sqlite3_stmt *st, int c) {
    return (const char *)sqlite3_column_text(st, c);
}
static double real_or_nan(sqlite3_stmt *st, int c) {
    return is_null(st, c) ? NAN : sqlite3_column_double(st, c);
}

static void cell_count(print *p, sqlite3_stmt *st, int c) {
    char buf[PRINT_SHORT];
    double v = real_or_nan(st, c);
    if (sqlite3_column_type(st, c) == SQLITE_INTEGER) {
        print_int_shown(p, sqlite3_column_int64(st, c), print_count(v, buf));
    } else {
        print_real_shown(p, v, print_count(v, buf));
    }
}
static void cell_time(print *p, sqlite3_stmt *st, int c) {
    char buf[PRINT_SHORT];
    double v = real_or_nan(st, c);
    print_real_shown(p, v, print_time(v, buf));
}
static void cell_seconds(print *p, sqlite3_stmt *st, int c) {
    char buf[PRINT_SHORT];
    double v = real_or_nan(st, c);
    print_real_shown(p, v, print_fixed(v, 1, buf));
}
static void cell_raw(print *p, sqlite3_stmt *st, int c) {
    print_raw(p, text_or_null(st, c));
}
static void cell_bool(print *p, sqlite3_stmt *st, int c) {
    print_bool(p, sqlite3_column_int(st, c) != 0);
}

// A listing is a statement and what to make of each of its columns.
typedef struct {
    print_column column;
    void (*cell)(print *p, sqlite3_stmt *st, int c);
} listing_column;
typedef struct {
    const char *sql; // one value, the run's id, when `of_run`
    bool of_run;
    listing_column column[24];
    size_t n;
} listing;

static colm_status print_listing(store *s, const listing *l, store_id run, store_format f, str *out,
                                 size_t *ret_rows, colm_err *err) {
    print_column column[24];
    print *p = NULL;
    sqlite3_stmt *st = NULL;
    bool row = true;
    for (size_t i = 0; i < l->n; i++) column[i] = l->column[i].column;
    colm_status c = db_open(s, &st, err, l->sql, l->of_run ? "i" : "", run);
    if (!c) c = print_open(f, column, l->n, out, &p, err);
    while (!c && !(c = db_row(s, st, &row, err)) && row) {
        for (size_t i = 0; i < l->n; i++) l->column[i].cell(p, st, (int)i);
    }
    if (!c && ret_rows) *ret_rows = print_rows(p);
    colm_status closed = print_close(&p, c ? NULL : err);
    sqlite3_finalize(st);
    return c ? c : closed;
}

// ---- the list of runs

static const listing runs_listing = {
    "SELECT r.id, e.name, r.arm, r.seed, r.status,"
    " (SELECT chains FROM stage g WHERE g.run = r.id ORDER BY place DESC LIMIT 1),"
    " (SELECT chains || CASE r.precision WHEN 'f32' THEN '' ELSE ' ' || r.precision END FROM stage g"
    "  WHERE g.run = r.id ORDER BY place DESC LIMIT 1),"
    " (SELECT count(*) FROM stage g WHERE g.run = r.id AND g.status = 'finished'),"
    " (SELECT kind FROM stage g WHERE g.run = r.id AND g.status <> 'finished' ORDER BY place LIMIT 1),"
    " r.started, (SELECT sum(seconds) FROM stage g WHERE g.run = r.id), r.parent, r.device, r.version,"
    " substr(r.reason, 1, 50), r.reason, r.ended, r.precision"
    " FROM run r JOIN experiment e ON e.id = r.experiment ORDER BY r.id",
    false,
    {
        {{"id", NULL}, db_print},
        {{"experiment", NULL}, db_print},
        {{"arm", NULL}, db_print},
        {{"seed", NULL}, db_print},
        {{"status", NULL}, db_print},
        {{"chains", ""}, db_print},
        {{NULL, "chains"}, db_print},
        {{"stages_finished", "stages\ndone"}, db_print},
        {{"stage_unfinished", "stage\nnot done"}, db_print},
        {{"started", NULL}, cell_time},
        {{"seconds", NULL}, cell_seconds},
        {{"parent", ""}, db_print},
        {{"device", ""}, db_print},
        {{"version", ""}, db_print},
        {{NULL, "reason"}, db_print},
        {{"reason", ""}, db_print},
        {{"ended", ""}, db_print},
        {{"precision", ""}, db_print},
    },
    18,
};

colm_status store_print_runs(store *s, store_format f, str *out, colm_err *err) {
    size_t rows = 0, before = out->len;
    colm_status c = print_listing(s, &runs_listing, 0, f, out, &rows, err);
    if (!c && !rows && f == STORE_TABLE) {
        out->len = before;
        str_addf(out, "no runs in %s yet: `colm run EXPERIMENT.json` makes some\n", s->path);
    }
    if (!c) str_add(out, f == STORE_JSON ? "\n" : "");
    return c;
}

// ---- one run

static const listing stages_listing = {
    "SELECT place, kind, status, chains, params_total, params_trained, tokens, flops, seconds, memory, id, "
    "digest,"
    " checkpoint, checkpoint_digest, certificate, spec, started, ended, copied_from, device, reason"
    " FROM stage WHERE run = ? ORDER BY place",
    true,
    {
        {{"place", "#"}, db_print},
        {{"kind", NULL}, db_print},
        {{"status", NULL}, db_print},
        {{"chains", NULL}, db_print},
        {{"params_total", "params"}, cell_count},
        {{"params_trained", "trained"}, cell_count},
        {{"tokens", NULL}, cell_count},
        {{"flops", "FLOPs"}, cell_count},
        {{"seconds", NULL}, cell_seconds},
        {{"memory", "bytes"}, cell_count},
        {{"stage", ""}, db_print},
        {{"digest", ""}, db_print},
        {{"checkpoint", ""}, db_print},
        {{"checkpoint_digest", ""}, db_print},
        {{"certificate", ""}, cell_raw},
        {{"spec", ""}, cell_raw},
        {{"started", ""}, db_print},
        {{"ended", ""}, db_print},
        {{"copied_from", ""}, db_print},
        {{"device", ""}, db_print},
        {{"reason", NULL}, db_print},
    },
    21,
};
static const listing metrics_listing = {
    "SELECT g.place, m.name, max(m.step), m.value, m.finite FROM metric m JOIN stage g ON g.id = m.stage"
    " WHERE g.run = ? GROUP BY g.place, m.name ORDER BY g.place, m.name",
    true,
    {
        {{"place", "#"}, db_print},
        {{"name", "metric"}, db_print},
        {{"step", "last step"}, db_print},
        {{"value", NULL}, db_print},
        {{"finite", NULL}, cell_bool},
    },
    5,
};
static const listing scores_listing = {
    "SELECT g.place, c.task, c.scale, c.metric, c.value, c.stderr,"
    " CASE c.higher_better WHEN 1 THEN 'higher' ELSE 'lower' END, c.n, c.n_truncated, c.n_skipped, "
    "c.higher_better,"
    " c.finite, c.kind, c.task_version, c.task_digest, c.data_digest, c.tokenizer_digest, c.checkpoint_digest"
    " FROM score c JOIN stage g ON g.id = c.stage WHERE g.run = ? ORDER BY g.place, c.task, c.scale, c.id",
    true,
    {
        {{"place", "#"}, db_print},
        {{"task", NULL}, db_print},
        {{"scale", NULL}, db_print},
        {{"metric", NULL}, db_print},
        {{"value", NULL}, db_print},
        {{"stderr", NULL}, db_print},
        {{NULL, "better"}, db_print},
        {{"n", "items"}, db_print},
        {{"n_truncated", "truncated"}, db_print},
        {{"n_skipped", "skipped"}, db_print},
        {{"higher_better", ""}, cell_bool},
        {{"finite", ""}, cell_bool},
        {{"kind", ""}, db_print},
        {{"task_version", ""}, db_print},
        {{"task_digest", ""}, db_print},
        {{"data_digest", ""}, db_print},
        {{"tokenizer_digest", ""}, db_print},
        {{"checkpoint_digest", ""}, db_print},
    },
    18,
};
static const listing artifacts_listing = {
    "SELECT g.place, a.kind, a.path, a.bytes, a.digest FROM artifact a JOIN stage g ON g.id = a.stage"
    " WHERE g.run = ? ORDER BY g.place, a.kind, a.path",
    true,
    {
        {{"place", "#"}, db_print},
        {{"kind", "file"}, db_print},
        {{"path", NULL}, db_print},
        {{"bytes", NULL}, cell_count},
        {{"digest", NULL}, db_print},
    },
    5,
};
// CSV has one table: every stage with its scores, a line for each, or one line of a stage without any.
static const listing flat_listing = {
    "SELECT g.place, g.kind, g.status, g.chains, g.params_total, g.params_trained, g.tokens, g.flops, "
    "g.seconds,"
    " c.task, c.scale, c.metric, c.higher_better, c.value, c.stderr, c.n, c.n_truncated, c.n_skipped"
    " FROM stage g LEFT JOIN score c ON c.stage = g.id WHERE g.run = ? ORDER BY g.place, c.task, c.scale, c.id",
    true,
    {
        {{"place", NULL}, db_print},
        {{"kind", NULL}, db_print},
        {{"status", NULL}, db_print},
        {{"chains", NULL}, db_print},
        {{"params_total", NULL}, db_print},
        {{"params_trained", NULL}, db_print},
        {{"tokens", NULL}, db_print},
        {{"flops", NULL}, db_print},
        {{"seconds", NULL}, db_print},
        {{"task", NULL}, db_print},
        {{"scale", NULL}, db_print},
        {{"metric", NULL}, db_print},
        {{"higher_better", NULL}, db_print},
        {{"value", NULL}, db_print},
        {{"stderr", NULL}, db_print},
        {{"n", NULL}, db_print},
        {{"n_truncated", NULL}, db_print},
        {{"n_skipped", NULL}, db_print},
    },
    18,
};

static const char run_sql[] =
    "SELECT r.id, e.name, r.arm, r.seed, r.status, r.reason, r.parent,"
    " (SELECT pe.name || '/' || p.arm FROM run p JOIN experiment pe ON pe.id = p.experiment WHERE p.id = "
    "r.parent),"
    " r.version, r.device, r.numerics, r.config, r.host, r.pid, r.started, r.ended, e.path, e.digest, "
    "r.precision"
    " FROM run r JOIN experiment e ON e.id = r.experiment WHERE r.id = ?";

static void run_head(sqlite3_stmt *st, str *out) {
    char buf[PRINT_SHORT], end[PRINT_SHORT];
    str_addf(out, "run %lld: %s/%s, seed %lld: %s%s%s\n", (long long)sqlite3_column_int64(st, 0),
             db_text(st, 1), db_text(st, 2), (long long)sqlite3_column_int64(st, 3), db_text(st, 4),
             is_null(st, 5) ? "" : ": ", db_text(st, 5));
    if (!is_null(st, 6)) {
        str_addf(out, "parent:  run %lld, %s\n", (long long)sqlite3_column_int64(st, 6), db_text(st, 7));
    }
    str_addf(out, "times:   started %s, ended %s\n", print_time(real_or_nan(st, 14), buf),
             print_time(real_or_nan(st, 15), end));
    str_addf(out, "where:   %s, host %s, process %lld, colm %s\n", db_text(st, 9), db_text(st, 12),
             (long long)sqlite3_column_int64(st, 13), db_text(st, 8));
    if (strcmp(db_text(st, 18), "f32")) str_addf(out, "stores:  %s\n", db_text(st, 18));
    str_addf(out, "from:    %s (%s)\n", db_text(st, 16), db_text(st, 17));
}

static void run_object(sqlite3_stmt *st, str *out) {
    static const char *const key[] = {"id",       "experiment", "arm",        "seed",     "status",
                                      "reason",   "parent",     "parent_arm", "version",  "device",
                                      "numerics", "config",     "host",       "pid",      "started",
                                      "ended",    "path",       "digest",     "precision"};
    str_add(out, "{");
    for (int i = 0; i < (int)(sizeof key / sizeof *key); i++) {
        switch (sqlite3_column_type(st, i)) {
        case SQLITE_INTEGER:
            print_key_int(out, key[i], sqlite3_column_int64(st, i));
            break;
        case SQLITE_FLOAT:
            print_key_real(out, key[i], sqlite3_column_double(st, i));
            break;
        default:
            if (!strcmp(key[i], "config")) {
                print_key_raw(out, key[i], text_or_null(st, i));
            } else {
                print_key_text(out, key[i], text_or_null(st, i));
            }
        }
    }
    str_add(out, "}");
}

static colm_status run_parts(store *s, store_id run, store_format f, str *out, colm_err *err) {
    static const struct {
        const char *key;
        const listing *list;
    } part[] = {{"stages", &stages_listing},
                {"metrics", &metrics_listing},
                {"scores", &scores_listing},
                {"artifacts", &artifacts_listing}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        size_t rows = 0, before = out->len;
        if (f == STORE_JSON) print_key(out, part[i].key);
        if (f == STORE_TABLE) str_add(out, "\n");
        colm_status c = print_listing(s, part[i].list, run, f, out, &rows, err);
        if (c) return c;
        if (f == STORE_TABLE && !rows) { // no empty tables
            out->len = before;
            out->text[before] = 0;
        }
    }
    return COLM_OK;
}

colm_status store_print_run(store *s, const char *which, store_format f, str *out, colm_err *err) {
    sqlite3_stmt *st = NULL;
    store_id run = 0;
    bool row = false;
    colm_status c = store_run_find(s, which, &run, err);
    if (!c && f == STORE_CSV) return print_listing(s, &flat_listing, run, f, out, NULL, err);
    if (!c) c = db_open(s, &st, err, run_sql, "i", run);
    if (!c) c = db_row(s, st, &row, err);
    if (!c && !row) c = store_unknown(s, which, err);
    if (c) goto out;
    if (f == STORE_TABLE) {
        run_head(st, out);
    } else {
        str_add(out, "{");
        print_key(out, "run");
        run_object(st, out);
    }
    c = run_parts(s, run, f, out, err);
    if (!c && f == STORE_JSON) str_add(out, "}\n");
    if (!c && out->failed) c = err_nomem(err, out->cap, "the description of a run");
out:
    sqlite3_finalize(st);
    return c;
}
