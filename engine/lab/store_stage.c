#include <math.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/lab/store_db.h"

colm_status store_stage_find(store *s, store_id run, const char *digest, store_id *ret, char path[4096],
                             char checkpoint_digest[33], colm_err *err) {
    static const char sql[] =
        "SELECT id, checkpoint, checkpoint_digest FROM stage "
        "WHERE run = ? AND digest = ? AND status = 'finished' ORDER BY place DESC LIMIT 1";
    sqlite3_stmt *st = NULL;
    bool row = false;
    colm_status c = db_open(s, &st, err, sql, "it", run, digest);
    if (!c) c = db_row(s, st, &row, err);
    if (!c && !row) {
        *ret = 0;
        path[0] = checkpoint_digest[0] = 0;
    } else if (!c) {
        const char *file = db_text(st, 1), *sum = db_text(st, 2);
        if (strlen(file) >= 4096 || strlen(sum) >= 33) {
            c = err_set(err, COLM_E_CHECK, "%s: stage %lld: checkpoint path or digest is too long", s->path,
                        (long long)sqlite3_column_int64(st, 0));
        } else {
            *ret = sqlite3_column_int64(st, 0);
            memcpy(path, file, strlen(file) + 1);
            memcpy(checkpoint_digest, sum, strlen(sum) + 1);
        }
    }
    sqlite3_finalize(st);
    return c;
}

// Any write under a stage is a sign of life of its run.
static colm_status touch(store *s, store_id stage, colm_err *err) {
    return db_run(s, err, "UPDATE run SET seen = ? WHERE id = (SELECT run FROM stage WHERE id = ?)", "di",
                  clock_unix(), stage);
}

colm_status store_stage_begin(store *s, const store_stage_row *r, store_id *ret, colm_err *err) {
    static const char sql[] =
        "INSERT INTO stage (run, place, kind, digest, spec, chains, params_total, "
        "params_trained, status, started, device) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?)";
    store_id id = 0;
    colm_status c = db_begin(s, err);
    if (c) return c;
    // This stage's earlier try with all that it measured, and whatever was built on it.
    c = db_run(s, err, "DELETE FROM stage WHERE run = ? AND place >= ?", "ii", r->run, (int64_t)r->index);
    if (!c) {
        c = db_run(s, err, sql, "iittttuudt", r->run, (int64_t)r->index, r->kind, r->digest, r->spec, r->chains,
                   r->params_total, r->params_trained, clock_unix(), r->device);
        id = sqlite3_last_insert_rowid(s->db);
    }
    if (!c) c = touch(s, id, err);
    c = db_end(s, c, err);
    if (!c) *ret = id;
    return c;
}

// A change of a running stage's row; anything else is a mistake of the caller.
static colm_status change_running(store *s, store_id stage, colm_status c, colm_err *err) {
    if (!c && sqlite3_changes(s->db) != 1) {
        c = err_set(err, COLM_E_BUG, "%s: stage %lld is not running", s->path, (long long)stage);
    }
    if (!c) c = touch(s, stage, err);
    return db_end(s, c, err);
}

colm_status store_stage_end(store *s, store_id stage, const store_stage_result *r, colm_err *err) {
    static const char sql[] =
        "UPDATE stage SET status = 'finished', reason = NULL, ended = ?, tokens = ?, flops = ?, seconds = ?, "
        "memory = ?, checkpoint = ?, checkpoint_digest = ?, certificate = ? WHERE id = ? AND status = "
        "'running'";
    if (r->checkpoint && strlen(r->checkpoint) >= 4096) {
        return err_set(err, COLM_E_INPUT, "%s: the checkpoint's path has %zu bytes, at most 4095 fit", s->path,
                       strlen(r->checkpoint));
    }
    if (r->memory > INT64_MAX)
        return err_set(err, COLM_E_BUG, "stage %lld: memory out of range", (long long)stage);
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = db_run(s, err, sql, "duddzttti", clock_unix(), r->tokens, r->flops, r->seconds, (int64_t)r->memory,
               r->checkpoint, r->checkpoint_digest, r->certificate, stage);
    return change_running(s, stage, c, err);
}

colm_status store_stage_fail(store *s, store_id stage, const char *status, const char *reason, colm_err *err) {
    static const char sql[] =
        "UPDATE stage SET status = ?, reason = ?, ended = ? WHERE id = ? AND status = 'running'";
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = db_run(s, err, sql, "ttdi", status, reason, clock_unix(), stage);
    return change_running(s, stage, c, err);
}

colm_status store_metrics(store *s, store_id stage, const store_metric_row *row, size_t n, colm_err *err) {
    // One row a step whatever happens: a step that is taken again after a restart replaces itself.
    static const char sql[] = "INSERT INTO metric (stage, step, name, value, finite) VALUES (?, ?, ?, ?, ?) "
                              "ON CONFLICT (stage, name, step) DO UPDATE SET value = excluded.value, "
                              "finite = excluded.finite";
    sqlite3_stmt *st = NULL;
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = db_open(s, &st, err, sql, "");
    for (size_t i = 0; i < n && !c; i++) {
        c = db_again(s, st, err, "iutdb", stage, row[i].step, row[i].name, row[i].value,
                     (int)(isfinite(row[i].value) != 0));
    }
    sqlite3_finalize(st);
    if (!c) c = touch(s, stage, err);
    return db_end(s, c, err);
}

static colm_status write_scores(store *s, store_id stage, const store_task_row *t, const eval_outcome *o,
                                colm_err *err) {
    static const char sql[] =
        "INSERT INTO score (stage, task, kind, task_version, task_digest, data_digest, tokenizer_digest, "
        "checkpoint_digest, scale, metric, higher_better, value, finite, stderr, n, n_truncated, n_skipped) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    sqlite3_stmt *st = NULL;
    colm_status c = db_open(s, &st, err, sql, "");
    for (size_t i = 0; i < (size_t)o->n_scales * o->n_scores && !c; i++) {
        const eval_score *e = &o->score[i];
        c = db_again(s, st, err, "ittittttitbdbdiii", stage, t->task, t->kind, (int64_t)t->task_version,
                     t->task_digest, t->data_digest, t->tokenizer_digest, t->checkpoint_digest,
                     (int64_t)(i / o->n_scores + 1), e->metric, (int)e->higher_better, e->value,
                     (int)(isfinite(e->value) != 0), e->stderr_, (int64_t)e->n, (int64_t)e->n_truncated,
                     (int64_t)e->n_skipped);
    }
    sqlite3_finalize(st);
    return c;
}

static colm_status write_answers(store *s, store_id stage, const store_task_row *t, const eval_outcome *o,
                                 colm_err *err) {
    // Documents of bits_per_byte choose nothing: their choices are NULL.
    static const char choices[] =
        "INSERT INTO answer (stage, task, scale, item, sums, choice, choice_norm, gold, "
        "right, right_norm) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    static const char documents[] =
        "INSERT INTO answer (stage, task, scale, item, sums, bytes) VALUES (?, ?, ?, ?, ?, ?)";
    bool chosen = strcmp(t->kind, "bits_per_byte") != 0;
    sqlite3_stmt *st = NULL;
    str sums = {0};
    colm_status c = db_open(s, &st, err, chosen ? choices : documents, "");
    for (size_t i = 0; i < (size_t)o->n_scales * o->n_answers && !c; i++) {
        const eval_answer *a = &o->answer[i];
        sums.len = 0;
        str_add(&sums, "[");
        for (uint32_t j = 0; j < a->n_choices; j++) {
            if (j) str_add(&sums, ",");
            str_add_double(&sums, a->sum[j]);
        }
        str_add(&sums, "]");
        if (sums.failed) {
            c = err_nomem(err, sums.cap, "an answer");
            break;
        }
        int64_t scale = (int64_t)(i / o->n_answers + 1);
        if (chosen) {
            c = db_again(s, st, err, "itiitiiibb", stage, t->task, scale, (int64_t)a->item, sums.text,
                         (int64_t)a->choice, (int64_t)a->choice_norm, (int64_t)a->gold, (int)a->right,
                         (int)a->right_norm);
        } else {
            c = db_again(s, st, err, "itiitu", stage, t->task, scale, (int64_t)a->item, sums.text, a->bytes);
        }
    }
    str_done(&sums);
    sqlite3_finalize(st);
    return c;
}

colm_status store_scores(store *s, store_id stage, const store_task_row *task, const eval_outcome *o,
                         colm_err *err) {
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = db_run(s, err, "DELETE FROM score WHERE stage = ? AND task = ?", "it", stage, task->task);
    if (!c) c = db_run(s, err, "DELETE FROM answer WHERE stage = ? AND task = ?", "it", stage, task->task);
    if (!c) c = write_scores(s, stage, task, o, err);
    if (!c) c = write_answers(s, stage, task, o, err);
    if (!c) c = touch(s, stage, err);
    return db_end(s, c, err);
}

colm_status store_artifact(store *s, store_id stage, const char *kind, const char *path, const char *digest,
                           uint64_t bytes, colm_err *err) {
    static const char sql[] = "INSERT INTO artifact (stage, kind, path, digest, bytes) VALUES (?, ?, ?, ?, ?) "
                              "ON CONFLICT (stage, kind, path) DO UPDATE SET digest = excluded.digest, "
                              "bytes = excluded.bytes";
    return db_run(s, err, sql, "itttu", stage, kind, path, digest, bytes);
}
