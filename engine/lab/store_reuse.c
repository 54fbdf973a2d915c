/* Finding work that is already done: by this run, or by another run whose stage had the same digest. */
#include <stdio.h>
#include <string.h>

#include "engine/lab/store_db.h"

colm_status store_run_lookup(store *s, store_id experiment, const char *arm, uint64_t seed, store_id *ret,
                             bool *ret_finished, colm_err *err) {
    sqlite3_stmt *st = NULL;
    bool row = false;
    colm_status c =
        db_open(s, &st, err, "SELECT id, status FROM run WHERE experiment = ? AND arm = ? AND seed = ?", "itu",
                experiment, arm, seed);
    if (!c) c = db_row(s, st, &row, err);
    if (!c) {
        *ret = row ? sqlite3_column_int64(st, 0) : 0;
        *ret_finished = row && strcmp(db_text(st, 1), "finished") == 0;
    }
    sqlite3_finalize(st);
    return c;
}

colm_status store_stage_source(store *s, const char *digest, store_id *ret, char path[4096],
                               char checkpoint_digest[33], colm_err *err) {
    static const char sql[] =
        "SELECT id, run FROM stage WHERE digest = ? AND status = 'finished' ORDER BY id DESC LIMIT 1";
    sqlite3_stmt *st = NULL;
    bool row = false;
    store_id run = 0;
    colm_status c = db_open(s, &st, err, sql, "t", digest);
    if (!c) c = db_row(s, st, &row, err);
    if (!c && row) run = sqlite3_column_int64(st, 1);
    sqlite3_finalize(st);
    if (!c) c = store_stage_find(s, run, digest, ret, path, checkpoint_digest, err);
    return c;
}

colm_status store_stage_device(store *s, store_id stage, char *ret, size_t n, colm_err *err) {
    sqlite3_stmt *st = NULL;
    bool row = false;
    colm_status c = db_open(s, &st, err, "SELECT device FROM stage WHERE id = ?", "i", stage);
    if (!c) c = db_row(s, st, &row, err);
    if (!c) snprintf(ret, n, "%s", row ? db_text(st, 0) : "");
    sqlite3_finalize(st);
    return c;
}

colm_status store_stage_copy(store *s, const store_stage_row *to, store_id from, colm_err *err) {
    static const char *const sql[] = {
        "INSERT INTO stage (run, place, kind, digest, spec, chains, params_total, params_trained, status, "
        "started, ended, tokens, flops, "
        "seconds, memory, checkpoint, checkpoint_digest, certificate, device, copied_from) SELECT ?1, ?2, "
        "kind, "
        "digest, spec, chains, "
        "params_total, params_trained, status, started, ended, tokens, flops, seconds, memory, checkpoint, "
        "checkpoint_digest, "
        "certificate, device, id FROM stage WHERE id = ?3",
        "INSERT INTO metric (stage, name, step, value, finite) SELECT ?1, name, step, value, finite FROM "
        "metric WHERE stage = ?2",
        "INSERT INTO score (stage, task, kind, task_version, task_digest, data_digest, tokenizer_digest, "
        "checkpoint_digest, scale, "
        "metric, higher_better, value, finite, stderr, n, n_truncated, n_skipped) SELECT ?1, task, kind, "
        "task_version, task_digest, "
        "data_digest, tokenizer_digest, checkpoint_digest, scale, metric, higher_better, value, finite, "
        "stderr, n, n_truncated, "
        "n_skipped FROM score WHERE stage = ?2",
        "INSERT INTO answer (stage, task, scale, item, choice, choice_norm, gold, right, right_norm, bytes, "
        "sums) SELECT ?1, task, "
        "scale, item, choice, choice_norm, gold, right, right_norm, bytes, sums FROM answer WHERE stage = ?2",
        // A run that computes nothing itself was made where its stages were.
        "UPDATE run SET (version, device, numerics) = (SELECT r.version, r.device, r.numerics FROM run r JOIN "
        "stage s ON s.run = r.id WHERE s.id = ?2) WHERE id = (SELECT run FROM stage WHERE id = ?1) AND device "
        "IS "
        "NULL",
        "INSERT INTO artifact (stage, kind, path, digest, bytes) SELECT ?1, kind, path, digest, bytes FROM "
        "artifact WHERE stage = ?2",
    };
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = db_run(s, err, "DELETE FROM stage WHERE run = ? AND place >= ?", "ii", to->run, (int64_t)to->index);
    if (!c) c = db_run(s, err, sql[0], "iii", to->run, (int64_t)to->index, from);
    if (!c && sqlite3_changes(s->db) != 1) {
        c = err_set(err, COLM_E_BUG, "%s: there is no stage %lld to copy", s->path, (long long)from);
    }
    store_id id = sqlite3_last_insert_rowid(s->db);
    for (size_t i = 1; i < sizeof sql / sizeof *sql && !c; i++) c = db_run(s, err, sql[i], "ii", id, from);
    return db_end(s, c, err);
}
