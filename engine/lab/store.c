#include "engine/lab/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/lab/schema.h"
#include "engine/lab/store_db.h"

#define WAIT_MS 30000 /* for another process's lock */

static colm_status make_folder(const char *path, colm_err *err) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return COLM_OK;
    str folder = {0};
    str_addn(&folder, path, (size_t)(slash - path));
    colm_status st = folder.failed ? err_nomem(err, strlen(path), "a path") : file_make_dirs(folder.text, err);
    str_done(&folder);
    return st;
}

static colm_status read_int(store *s, const char *sql, int64_t *ret, colm_err *err) {
    sqlite3_stmt *st = NULL;
    bool row = false;
    colm_status c = db_open(s, &st, err, sql, "");
    if (!c) c = db_row(s, st, &row, err);
    if (!c) *ret = row ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    return c;
}

// colm_lives(host, boot, pid, start, seen)
static void sql_lives(sqlite3_context *context, int n, sqlite3_value **v) {
    (void)n;
    const store *s = sqlite3_user_data(context);
    owner o = {.pid = sqlite3_value_int64(v[2]), .start = sqlite3_value_int64(v[3])};
    const char *host = (const char *)sqlite3_value_text(v[0]), *boot = (const char *)sqlite3_value_text(v[1]);
    snprintf(o.host, sizeof o.host, "%s", host ? host : "");
    snprintf(o.boot, sizeof o.boot, "%s", boot ? boot : "");
    sqlite3_result_int(context, owner_lives(&o, &s->self, clock_unix() - sqlite3_value_double(v[4])));
}

// Write-ahead logging lets readers and one writer work side by side. It needs shared memory, which network file
// systems lack: then the rollback journal serves, and the notice says so. Changing the mode does not wait for
// locks by itself, so two first users are made to take turns here.
static colm_status choose_journal(store *s, colm_err *err) {
    const struct timespec nap = {.tv_nsec = 20000000L};
    int rc = SQLITE_OK;
    for (int waited = 0; waited < WAIT_MS; waited += 20) {
        sqlite3_stmt *st = NULL;
        char mode[32] = "";
        rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode = WAL", -1, &st, NULL);
        if (!rc) {
            if (sqlite3_step(st) == SQLITE_ROW) snprintf(mode, sizeof mode, "%s", db_text(st, 0));
            rc = sqlite3_finalize(st);
        }
        if ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED) {
            nanosleep(&nap, NULL);
            continue;
        }
        if (!rc && !strcmp(mode, "wal")) return COLM_OK;
        break;
    }
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PROTOCOL:
        snprintf(s->notice, sizeof s->notice,
                 "write-ahead logging is not possible in this folder (a network file system?): readers wait "
                 "while results are written");
        return db_script(s, "PRAGMA journal_mode = DELETE", err);
    default:
        return db_fail(s, err, "cannot open");
    }
}

static colm_status check_version(const store *s, int64_t application, int64_t version, int64_t tables,
                                 colm_err *err) {
    if (application != SCHEMA_APPLICATION && (application || version || tables)) {
        return err_set(
            err, COLM_E_INPUT,
            "%s: a SQLite database, but not one of colm's (application_id %lld): choose another file "
            "with --db",
            s->path, (long long)application);
    }
    if (version > SCHEMA_VERSION) {
        return err_set(
            err, COLM_E_INPUT,
            "%s: written by a newer colm (user_version %lld, this one knows up to %d): use that one, "
            "or another file with --db",
            s->path, (long long)version, SCHEMA_VERSION);
    }
    if (!s->write && version < SCHEMA_VERSION) {
        return err_set(err, COLM_E_INPUT,
                       version ? "%s: written by an older colm (user_version %lld, this one reads %d): `colm "
                                 "run` brings it up to date"
                               : "%s: holds no results yet (user_version %lld, expected %d): `colm run "
                                 "EXPERIMENT.json` fills it",
                       s->path, (long long)version, SCHEMA_VERSION);
    }
    return COLM_OK;
}

static colm_status check_schema(store *s, int64_t *ret_version, colm_err *err) {
    int64_t application = 0, tables = 0;
    colm_status st = read_int(s, "PRAGMA application_id", &application, err);
    if (!st) st = read_int(s, "PRAGMA user_version", ret_version, err);
    if (!st) st = read_int(s, "SELECT count(*) FROM sqlite_schema", &tables, err);
    return st ? st : check_version(s, application, *ret_version, tables, err);
}

/* The same of one moment: read one by one, the marks of a database that another is just creating would
 * contradict each other. */
static colm_status check_snapshot(store *s, int64_t *ret_version, colm_err *err) {
    colm_status st = db_script(s, "BEGIN", err);
    if (st) return st;
    st = check_schema(s, ret_version, err);
    colm_status end = db_script(s, "COMMIT", st ? NULL : err);
    return st ? st : end;
}

static colm_status migrate(store *s, int64_t version, colm_err *err) {
    char sql[128];
    colm_status st = COLM_OK;
    if (version == SCHEMA_VERSION) return COLM_OK;
    for (int64_t v = version; v < SCHEMA_VERSION && !st; v++) st = db_script(s, schema_step[v], err);
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", SCHEMA_APPLICATION,
             SCHEMA_VERSION);
    return st ? st : db_script(s, sql, err);
}

// Rows that say "running" of processes that are gone.
static colm_status mark_interrupted(store *s, colm_err *err) {
    static const char runs[] =
        "UPDATE run SET status = 'interrupted', reason = 'its process ended without a word', ended = seen "
        "WHERE status = 'running' AND NOT colm_lives(host, boot, pid, process_start, seen)";
    static const char stages[] =
        "UPDATE stage SET status = 'interrupted', reason = 'its process ended without a word' "
        "WHERE status = 'running' AND run IN (SELECT id FROM run WHERE status <> 'running')";
    colm_status st = db_run(s, err, runs, "");
    return st ? st : db_run(s, err, stages, "");
}

static colm_status prepare_writing(store *s, colm_err *err) {
    int64_t version = 0;
    // Refused before anything is changed; and looked at again under the lock, since another may just be
    // creating.
    colm_status st = check_snapshot(s, &version, err);
    if (!st) st = choose_journal(s, err);
    if (!st) st = db_script(s, "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL", err);
    if (!st) st = db_begin(s, err);
    if (st) return st;
    st = check_schema(s, &version, err);
    if (!st) st = migrate(s, version, err);
    if (!st) st = mark_interrupted(s, err);
    return db_end(s, st, err);
}

static colm_status prepare_reading(store *s, colm_err *err) {
    int64_t version = 0;
    colm_status st = check_snapshot(s, &version, err);
    return st ? st : db_script(s, schema_honest, err);
}

colm_status store_open(const char *path, bool write, store **ret, colm_err *err) {
    colm_status st = COLM_OK;
    store *s = mem_alloc(1, sizeof *s);
    if (!s || !(s->path = mem_alloc(strlen(path) + 1, 1))) {
        st = err_nomem(err, sizeof *s + strlen(path), "the results database");
        goto out;
    }
    memcpy(s->path, path, strlen(path));
    s->write = write;
    s->self = owner_self();
    if (!*path) {
        st = err_set(err, COLM_E_INPUT, "the path of the results database is empty");
        goto out;
    }
    if (!write && !file_exists(path)) {
        st = err_set(err, COLM_E_INPUT,
                     "%s: there is no such results database: `colm run EXPERIMENT.json` makes one, --db names "
                     "another",
                     path);
        goto out;
    }
    if (write && (st = make_folder(path, err))) goto out;
    int flags = write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (sqlite3_open_v2(path, &s->db, flags, NULL)) {
        st = db_fail(s, err, "cannot open");
        goto out;
    }
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, WAIT_MS);
    if (sqlite3_create_function(s->db, "colm_lives", 5, SQLITE_UTF8, s, sql_lives, NULL, NULL)) {
        st = db_fail(s, err, "cannot open");
        goto out;
    }
    st = db_script(s, "PRAGMA temp_store = MEMORY", err);
    if (!st) st = write ? prepare_writing(s, err) : prepare_reading(s, err);
    if (st) goto out;
    *ret = s;
    s = NULL;
out:
    store_close(&s);
    return st;
}

void store_close(store **s) {
    if (!*s) return;
    sqlite3_close((*s)->db);
    free((*s)->path);
    free(*s);
    *s = NULL;
}

const char *store_path(const store *s) {
    return s->path;
}
const char *store_notice(const store *s) {
    return s->notice;
}

static colm_status read_id(store *s, sqlite3_stmt *st, store_id *ret, colm_err *err) {
    bool row = false;
    colm_status c = db_row(s, st, &row, err);
    if (!c) *ret = row ? sqlite3_column_int64(st, 0) : 0;
    return c;
}

colm_status store_experiment(store *s, const char *name, const char *path, const char *digest, const char *text,
                             store_id *ret, colm_err *err) {
    static const char sql[] = "INSERT INTO experiment (name, path, digest, text, created, used) "
                              "VALUES (?1, ?2, ?3, ?4, ?5, ?5) "
                              "ON CONFLICT (name, digest) DO UPDATE SET path = ?2, text = ?4, used = ?5 "
                              "RETURNING id";
    sqlite3_stmt *st = NULL;
    store_id id = 0;
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = db_open(s, &st, err, sql, "ttttd", name, path, digest, text, clock_unix());
    if (!c) c = read_id(s, st, &id, err);
    sqlite3_finalize(st);
    c = db_end(s, c, err);
    if (!c) *ret = id;
    return c;
}

// The row of (experiment, arm, seed), 0 when there is none; COLM_E_INPUT when a living process runs it.
static colm_status find_free_run(store *s, const store_run_row *r, store_id *ret, colm_err *err) {
    static const char sql[] = "SELECT id, status, seen, host, boot, pid, process_start FROM run "
                              "WHERE experiment = ? AND arm = ? AND seed = ?";
    sqlite3_stmt *st = NULL;
    store_id id = 0;
    colm_status c = db_open(s, &st, err, sql, "itu", r->experiment, r->arm, r->seed);
    if (!c) c = read_id(s, st, &id, err);
    if (!c && id && !strcmp(db_text(st, 1), "running")) {
        owner o = db_owner(st, 3);
        double silent = clock_unix() - sqlite3_column_double(st, 2);
        if (!owner_same(&o, &s->self) && owner_lives(&o, &s->self, silent)) {
            bool here = !strcmp(o.host, s->self.host);
            char free_in[64] = "";
            if (!here) {
                snprintf(free_in, sizeof free_in, " (or until it has been silent for %.0f more seconds)",
                         OWNER_SILENCE - silent);
            }
            c = err_set(err, COLM_E_INPUT,
                        "%s: arm %s, seed %llu is being run already (run %lld) by process %lld on %s: wait for "
                        "it%s, or end it",
                        s->path, r->arm, (unsigned long long)r->seed, (long long)id, (long long)o.pid,
                        o.host[0] ? o.host : "this machine", free_in);
        }
    }
    sqlite3_finalize(st);
    if (!c) *ret = id;
    return c;
}

colm_status store_run_begin(store *s, const store_run_row *r, store_id *ret, colm_err *err) {
    static const char insert[] =
        "INSERT INTO run (parent, host, boot, pid, process_start, seen, started, version, device, numerics, "
        "config, precision, status, experiment, arm, seed) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, 'running', ?12, ?13, ?14)";
    static const char update[] =
        "UPDATE run SET parent = ?1, host = ?2, boot = ?3, pid = ?4, process_start = ?5, seen = ?6, "
        "started = ?6, version = coalesce(?7, version), device = coalesce(?8, device), "
        "numerics = coalesce(?9, numerics), config = ?10, precision = ?11, status = 'running', reason = NULL, "
        "ended = NULL WHERE id = ?12";
    const owner *o = &s->self;
    const char *precision = r->precision ? r->precision : "f32";
    double now = clock_unix();
    store_id id = 0;
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = find_free_run(s, r, &id, err);
    if (!c && id) {
        c = db_run(s, err, update, "zttiidttttti", r->parent, o->host, o->boot, o->pid, o->start, now,
                   r->version, r->device, r->numerics, r->config, precision, id);
        // What a dead owner left half done is not running any more.
        if (!c) {
            c = db_run(s, err,
                       "UPDATE stage SET status = 'interrupted', reason = 'its process ended without a word' "
                       "WHERE run = ? AND status = 'running'",
                       "i", id);
        }
    } else if (!c) {
        c = db_run(s, err, insert, "zttiidtttttitu", r->parent, o->host, o->boot, o->pid, o->start, now,
                   r->version, r->device, r->numerics, r->config, precision, r->experiment, r->arm, r->seed);
        id = sqlite3_last_insert_rowid(s->db);
    }
    c = db_end(s, c, err);
    if (!c) *ret = id;
    return c;
}

colm_status store_run_alive(store *s, store_id run, colm_err *err) {
    return db_run(s, err, "UPDATE run SET seen = ? WHERE id = ?", "di", clock_unix(), run);
}

colm_status store_run_end(store *s, store_id run, const char *status, const char *reason, colm_err *err) {
    double now = clock_unix();
    int64_t open = 0;
    sqlite3_stmt *st = NULL;
    colm_status c = db_begin(s, err);
    if (c) return c;
    c = db_open(s, &st, err, "SELECT count(*) FROM stage WHERE run = ? AND status = 'running'", "i", run);
    if (!c) c = read_id(s, st, &open, err);
    sqlite3_finalize(st);
    if (!c && open && !strcmp(status, "finished")) {
        c = err_set(err, COLM_E_BUG, "%s: run %lld cannot be finished: a stage of it is still running", s->path,
                    (long long)run);
    }
    if (!c) {
        c = db_run(s, err,
                   "UPDATE stage SET status = ?, reason = ?, ended = ? WHERE run = ? AND status = 'running'",
                   "ttdi", status, reason, now, run);
    }
    if (!c) {
        c = db_run(s, err, "UPDATE run SET status = ?, reason = ?, seen = ?4, ended = ?4 WHERE id = ?3", "ttid",
                   status, reason, run, now);
    }
    if (!c && sqlite3_changes(s->db) != 1) {
        c = err_set(err, COLM_E_BUG, "%s: there is no run %lld to end", s->path, (long long)run);
    }
    return db_end(s, c, err);
}
