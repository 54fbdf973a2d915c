/* The results database: status that does not lie, re-use, refusal, two first users, and what is written. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "tests/test.h"

#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/lab/owner.h"
#include "engine/lab/schema.h"
#include "engine/lab/store.h"

static char folder[] = "store-test-XXXXXX";
static char path[256];
static colm_err err;

// A new path in the test's folder.
static const char *fresh(void) {
    static int n;
    snprintf(path, sizeof path, "%s/deep/%d.db", folder, n++);
    return path;
}

// The database seen by SQLite alone, without colm's views.
static char *raw(const char *sql) {
    static char text[512];
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    snprintf(text, sizeof text, "(no row)");
    if (sqlite3_open(path, &db) || sqlite3_prepare_v2(db, sql, -1, &st, NULL)) {
        snprintf(text, sizeof text, "%s", sqlite3_errmsg(db));
    } else if (sqlite3_step(st) == SQLITE_ROW) {
        const char *value = (const char *)sqlite3_column_text(st, 0);
        snprintf(text, sizeof text, "%s", value ? value : "NULL");
    }
    sqlite3_finalize(st);
    sqlite3_close(db);
    return text;
}

static bool execute(const char *sql) {
    sqlite3 *db = NULL;
    bool ok = sqlite3_open(path, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
    if (!ok) printf("# %s\n", sqlite3_errmsg(db));
    sqlite3_close(db);
    return ok;
}

static store *open_new(void) {
    store *s = NULL;
    CHECK_OK(store_open(fresh(), true, &s, &err), err);
    return s;
}

static store_id add_run(store *s, const char *arm, uint64_t seed, store_id parent) {
    store_id e = 0, r = 0;
    CHECK_OK(store_experiment(s, "quick", "quick.json", "d1", "{}", &e, &err), err);
    store_run_row row = {e, arm, seed, parent, "0.1.0", "llvmpipe", "n1", "{}"};
    CHECK_OK(store_run_begin(s, &row, &r, &err), err);
    return r;
}

static store_id add_stage(store *s, store_id run, uint32_t place, const char *kind, const char *digest) {
    store_id g = 0;
    store_stage_row row = {run, place, kind, digest, "{}", "<4,2>", 1000, 400};
    CHECK_OK(store_stage_begin(s, &row, &g, &err), err);
    return g;
}

static const char *query(store *s, const char *sql) {
    static str out;
    str_done(&out);
    CHECK_OK(store_print_query(s, sql, STORE_CSV, &out, &err), err);
    return out.text ? out.text : "";
}

static void same_experiment_same_row(void) {
    store *s = open_new();
    store_id a = 0, b = 0, c = 0;
    CHECK_OK(store_experiment(s, "x", "p", "d1", "text", &a, &err), err);
    CHECK_OK(store_experiment(s, "x", "p", "d2", "text", &b, &err), err);
    CHECK_OK(store_experiment(s, "x", "elsewhere", "d1", "text", &c, &err), err);
    CHECK(a > 0 && a == c && a != b);
    CHECK_STR(raw("SELECT count(*) FROM experiment"), "2");
    CHECK_STR(raw("PRAGMA journal_mode"), "wal");
    CHECK_STR(store_notice(s), "");
    store_close(&s);
    CHECK(!s);
}

static void run_is_taken_up_again(void) {
    store *s = open_new();
    store_id a = add_run(s, "base", 7, 0);
    CHECK_OK(store_run_end(s, a, "failed", "no memory", &err), err);
    CHECK_STR(raw("SELECT status || ':' || reason FROM run"), "failed:no memory");
    CHECK(add_run(s, "base", 7, 0) == a);
    CHECK_STR(raw("SELECT status || ':' || ifnull(reason, '-') || ':' || ifnull(ended, '-') FROM run"),
              "running:-:-");
    store_id b = add_run(s, "base", 8, 0), c = add_run(s, "expand", 7, a);
    CHECK(b != a && c != b && c != a);
    CHECK_STR(raw("SELECT parent FROM run WHERE arm = 'expand'"), "1");
    CHECK_OK(store_run_end(s, a, "finished", NULL, &err), err);
    CHECK_STR(raw("SELECT status FROM run WHERE id = 1"), "finished");
    CHECK(store_run_end(s, 99, "finished", NULL, &err) == COLM_E_BUG);
    store_close(&s);
}

static void large_seeds(void) {
    store *s = open_new();
    store_id e = 0, r = 0;
    CHECK_OK(store_experiment(s, "x", "p", "d", "t", &e, &err), err);
    store_run_row row = {.experiment = e, .arm = "a", .seed = INT64_MAX};
    CHECK_OK(store_run_begin(s, &row, &r, &err), err);
    CHECK_STR(raw("SELECT seed FROM run"), "9223372036854775807");
    row.seed = (uint64_t)INT64_MAX + 1;
    CHECK(store_run_begin(s, &row, &r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "9223372036854775808");
    // The refusal has left no lock and no row behind.
    CHECK_STR(raw("SELECT count(*) FROM run"), "1");
    row.seed = 3, row.experiment = 77; // a foreign key that leads nowhere
    CHECK(store_run_begin(s, &row, &r, &err) == COLM_E_BUG);
    row.experiment = e;
    CHECK_OK(store_run_begin(s, &row, &r, &err), err);
    store_close(&s);
}

static void stages_are_found_and_replaced(void) {
    char file[4096] = "?", sum[33] = "?";
    store *s = open_new();
    store_id run = add_run(s, "base", 1, 0), found = -1;
    store_id g = add_stage(s, run, 0, "train", "s0");
    CHECK_OK(store_stage_find(s, run, "s0", &found, file, sum, &err), err);
    CHECK(found == 0 && !file[0] && !sum[0]); // not finished yet
    CHECK(store_run_end(s, run, "finished", NULL, &err) == COLM_E_BUG);
    store_metric_row m[] = {{1, "loss", 2.5}, {2, "loss", NAN}, {2, "loss", INFINITY}, {1, "lr", 0.001}};
    CHECK_OK(store_metrics(s, g, m, 4, &err), err);
    CHECK_STR(raw("SELECT group_concat(name || step || ifnull(value, '-') || finite) FROM metric"),
              "loss12.51,loss2-0,lr10.0011");
    store_stage_result r = {100, 1e20, 1.5, 0, "runs/a.safetensors", "abc", NULL};
    CHECK_OK(store_stage_end(s, g, &r, &err), err);
    CHECK(store_stage_end(s, g, &r, &err) == COLM_E_BUG); // it has ended
    CHECK_OK(store_stage_find(s, run, "s0", &found, file, sum, &err), err);
    CHECK(found == g);
    CHECK_STR(file, "runs/a.safetensors");
    CHECK_STR(sum, "abc");
    CHECK_STR(raw("SELECT tokens || ' ' || (flops = 1e20) || ' ' || ifnull(memory, '-') FROM stage"),
              "100 1 -");

    store_id e1 = add_stage(s, run, 1, "eval", "s1");
    CHECK_OK(store_artifact(s, e1, "report", "a.txt", "d", 5, &err), err);
    CHECK_OK(store_artifact(s, e1, "report", "a.txt", "d2", 6, &err), err);
    CHECK_STR(raw("SELECT count(*) || digest || bytes FROM artifact"), "1d26");
    CHECK_OK(store_stage_fail(s, e1, "failed", "NaN", &err), err);
    CHECK_OK(store_stage_find(s, run, "s1", &found, file, sum, &err), err);
    CHECK(found == 0);
    add_stage(s, run, 1, "eval", "s1");
    CHECK_STR(raw("SELECT count(*) || (SELECT count(*) FROM artifact) FROM stage"), "20");
    // Begun anew, the first stage takes all that followed with it.
    add_stage(s, run, 0, "train", "s0b");
    CHECK_STR(raw("SELECT group_concat(digest) || (SELECT count(*) FROM metric) FROM stage"), "s0b0");
    CHECK_OK(store_run_end(s, run, "interrupted", "asked to stop", &err), err);
    CHECK_STR(raw("SELECT status || reason FROM stage"), "interruptedasked to stop");
    store_close(&s);
}

static void scores_and_answers(void) {
    store *s = open_new();
    store_id run = add_run(s, "base", 1, 0), g = add_stage(s, run, 0, "eval", "s0");
    double sum[4][2] = {{-1.5, -0.1}, {-3, -2.25}, {-1, -2}, {-0.5, -4}};
    eval_score score[4] = {{"acc", true, 0.5, 0.5, 2, 1, 0},
                           {"acc_norm", true, 1, NAN, 2, 1, 0},
                           {"acc", true, NAN, 0.1, 2, 1, 0},
                           {"acc_norm", true, 0, 0, 2, 1, 0}};
    eval_answer answer[4] = {{0, 2, 1, 1, 1, true, true, sum[0]},
                             {1, 2, 1, 0, 0, false, true, sum[1]},
                             {0, 2, 0, 0, 1, false, false, sum[2]},
                             {1, 2, 0, 0, 0, true, true, sum[3]}};
    eval_outcome o = {2, 2, 2, score, answer};
    store_task_row t = {"cloze_a", "cloze", "td", "dd", "kd", "cd", 1};
    for (int i = 0; i < 2; i++)
        CHECK_OK(store_scores(s, g, &t, &o, &err), err); // the second replaces the first
    CHECK_STR(raw("SELECT group_concat(scale || metric || ifnull(value, '-') || finite || ifnull(stderr, '-')) "
                  "FROM score"),
              "1acc0.510.5,1acc_norm1.01-,2acc-00.1,2acc_norm0.010.0");
    CHECK_STR(
        raw("SELECT group_concat(scale || '/' || item || sums || choice || gold || right || right_norm, ' ') "
            "FROM answer"),
        "1/0[-1.5,-0.1]1111 1/1[-3,-2.25]1001 2/0[-1,-2]0100 2/1[-0.5,-4]0011");
    eval_score bits = {"bits_per_byte", false, 2, 0.1, 2, 0, 0};
    eval_answer doc[2] = {{0, 1, 0, 0, 0, false, false, sum[0], 10}, {1, 1, 0, 0, 0, false, false, sum[1], 20}};
    eval_outcome ob = {1, 1, 2, &bits, doc};
    store_task_row tb = {"bits_a", "bits_per_byte", "td", "dd", "kd", "cd", 1};
    CHECK_OK(store_scores(s, g, &tb, &ob, &err), err);
    CHECK_STR(raw("SELECT group_concat(sums || bytes || ifnull(choice, '-') || ifnull(right, '-')) FROM answer "
                  "WHERE task = 'bits_a'"),
              "[-1.5]10--,[-3]20--");
    store_close(&s);
}

static void finished_stages_serve_other_runs(void) {
    char file[4096], sum[33];
    store *s = open_new();
    store_id base = add_run(s, "base", 1, 0), other = add_run(s, "other", 1, 0), found = 0;
    store_id g = add_stage(s, base, 0, "train", "s0");
    store_metric_row m = {1, "loss", 2.5};
    CHECK_OK(store_metrics(s, g, &m, 1, &err), err);
    CHECK_OK(store_stage_source(s, "s0", &found, file, sum, &err), err);
    CHECK(found == 0); // still running
    store_stage_result r = {100, 1e20, 1.5, 0, "runs/a.safetensors", "abc", NULL};
    CHECK_OK(store_stage_end(s, g, &r, &err), err);
    CHECK_OK(store_stage_source(s, "s0", &found, file, sum, &err), err);
    CHECK(found == g);
    add_stage(s, other, 0, "train", "old");
    add_stage(s, other, 1, "eval", "older");
    store_stage_row row = {.run = other, .index = 0};
    CHECK_OK(store_stage_copy(s, &row, found, &err), err);
    CHECK_OK(store_stage_find(s, other, "s0", &found, file, sum, &err), err);
    CHECK(found > g);
    CHECK_STR(file, "runs/a.safetensors");
    CHECK_STR(raw("SELECT group_concat(run || digest || tokens || ifnull(copied_from, '-')) FROM stage"),
              "1s0100-,2s01001");
    CHECK_STR(raw("SELECT group_concat(stage || name || value) FROM metric"), "1loss2.5,4loss2.5");
    CHECK(store_stage_copy(s, &row, 99, &err) == COLM_E_BUG);
    CHECK_STR(raw("SELECT count(*) FROM stage"), "2");
    store_close(&s);
}

static void two_first_users(void) {
    fresh();
    pid_t child[4];
    for (int i = 0; i < 4; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            store *s = NULL;
            store_id e = 0, r = 0;
            char arm[2] = {(char)('a' + i), 0};
            colm_status c = store_open(path, true, &s, &err);
            if (!c) c = store_experiment(s, "x", "p", "d", "t", &e, &err);
            store_run_row row = {.experiment = e, .arm = arm, .seed = 1};
            if (!c) c = store_run_begin(s, &row, &r, &err);
            if (!c) c = store_run_end(s, r, "finished", NULL, &err);
            if (c) printf("# child: %s\n", err.text);
            fflush(stdout);
            store_close(&s);
            _exit((int)c);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status = -1;
        CHECK(waitpid(child[i], &status, 0) == child[i] && status == 0);
    }
    CHECK_STR(raw("SELECT group_concat(arm) FROM (SELECT arm FROM run ORDER BY arm)"), "a,b,c,d");
    CHECK_STR(raw("SELECT count(*) FROM experiment"), "1");
}

// A child that begins run (base, 1) with a stage, tells so by a byte, and waits to be killed.
static pid_t start_owner(void) {
    int pipe_fd[2];
    char byte = 0;
    if (pipe(pipe_fd)) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        store *s = open_new();
        store_id run = add_run(s, "base", 1, 0);
        add_stage(s, run, 0, "train", "s0");
        if (write(pipe_fd[1], "x", 1) == 1) pause();
        _exit(1);
    }
    close(pipe_fd[1]);
    CHECK(read(pipe_fd[0], &byte, 1) == 1);
    close(pipe_fd[0]);
    fresh(); // the child's counter went on alone
    return pid;
}

static void living_and_dead_owners(void) {
    pid_t pid = start_owner();
    store *reader = NULL, *writer = NULL;
    char number[32];
    store_id run = 0;
    snprintf(number, sizeof number, "process %d", (int)pid);
    CHECK_OK(store_open(path, true, &writer, &err), err);
    CHECK_STR(raw("SELECT status FROM run"), "running");
    store_run_row row = {.experiment = 1, .arm = "base", .seed = 1};
    CHECK(store_run_begin(writer, &row, &run, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, number);
    store_close(&writer);
    CHECK_OK(store_open(path, false, &reader, &err), err);
    CHECK_STR(query(reader, "SELECT r.status, s.status FROM run r JOIN stage s ON s.run = r.id"),
              "status,status_2\r\nrunning,running\r\n");

    kill(pid, SIGKILL);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0); // a zombie is gone, too
    CHECK_STR(raw("SELECT status FROM run"), "running");
    CHECK_STR(query(reader, "SELECT r.status, s.status FROM run r JOIN stage s ON s.run = r.id"),
              "status,status_2\r\ninterrupted,interrupted\r\n");
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK_STR(query(reader, "SELECT status FROM stage"), "status\r\ninterrupted\r\n");
    store_close(&reader);
    CHECK_OK(store_open(path, true, &writer, &err), err);
    CHECK_STR(raw("SELECT r.status || s.status FROM run r JOIN stage s ON s.run = r.id"),
              "interruptedinterrupted");
    CHECK_OK(store_run_begin(writer, &row, &run, &err), err);
    CHECK(run == 1);
    store_close(&writer);
}

static void owners(void) {
    owner self = owner_self(), o = self;
    CHECK(self.pid == getpid());
    CHECK(owner_same(&self, &o) && owner_lives(&o, &self, 1e9));
    o.start++; // the same number, given to a later process
    CHECK(!owner_same(&self, &o));
    if (self.start) CHECK(!owner_lives(&o, &self, 0));
    o = self;
    snprintf(o.boot, sizeof o.boot, "another boot");
    CHECK(!owner_lives(&o, &self, 0));
    snprintf(o.host, sizeof o.host, "another host");
    CHECK(owner_lives(&o, &self, OWNER_SILENCE - 1) && !owner_lives(&o, &self, OWNER_SILENCE + 1));
    o = self;
    o.start = 0; // a system without /proc
    CHECK(owner_lives(&o, &self, 0));
}

static void far_owner_is_waited_for(void) {
    store *s = open_new();
    store_id run = add_run(s, "base", 1, 0);
    store_close(&s);
    CHECK(execute("UPDATE run SET host = 'faraway', seen = seen - 60"));
    CHECK_OK(store_open(path, true, &s, &err), err);
    store_run_row row = {.experiment = 1, .arm = "base", .seed = 1};
    CHECK(store_run_begin(s, &row, &run, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "faraway");
    CHECK_HAS(err.text, "more seconds");
    store_close(&s);
    CHECK(execute("UPDATE run SET seen = seen - 86400"));
    CHECK_OK(store_open(path, true, &s, &err), err);
    CHECK_STR(raw("SELECT status FROM run"), "interrupted");
    store_close(&s);
}

static void brings_an_older_file_up_to_date(void) {
    char mark[80];
    store *s = NULL;
    fresh();
    snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = 1", SCHEMA_APPLICATION);
    CHECK(execute(schema_step[0]) && execute(mark));
    CHECK(execute(
        "INSERT INTO experiment VALUES (1, 'e', 'p', 'd', 't', 1, 1);"
        "INSERT INTO run (id, experiment, arm, seed, status, host, boot, pid, process_start, seen, started) "
        "VALUES (1, 1, 'base', 1, 'finished', 'h', 'b', 1, 1, 1, 1);"
        "INSERT INTO stage (id, run, place, kind, digest, status, started) "
        "VALUES (1, 1, 0, 'train', 'd', 'finished', 1)"));
    CHECK(store_open(path, false, &s, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "older colm");
    CHECK_OK(store_open(path, true, &s, &err), err);
    CHECK_STR(raw("PRAGMA user_version"), "3");
    CHECK_STR(raw("SELECT precision FROM run"), "f32");
    CHECK_STR(raw("SELECT kind || ifnull(device, ' unknown') FROM stage"), "train unknown");
    store_close(&s);
}

static void refuses_what_it_does_not_know(void) {
    store *s = open_new();
    store_close(&s);
    CHECK(execute("PRAGMA user_version = 999"));
    for (int write = 0; write < 2; write++) {
        CHECK(store_open(path, write, &s, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, "999");
        CHECK_HAS(err.text, "up to 3");
    }
    CHECK_STR(raw("PRAGMA user_version"), "999");
    fresh();
    CHECK(store_open(path, false, &s, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, path);
    CHECK(!file_exists(path));
    CHECK(execute("CREATE TABLE bookmarks (x)")); // somebody else's
    for (int write = 0; write < 2; write++) {
        CHECK(store_open(path, write, &s, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, "not one of colm's");
    }
    CHECK_STR(raw("PRAGMA journal_mode"), "delete");
    CHECK_OK(file_write(fresh(), "this is no database, only some text that is long enough to be seen as such",
                        75, &err),
             err);
    CHECK(store_open(path, true, &s, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, path);
    CHECK(store_open("", true, &s, &err) == COLM_E_INPUT);
    CHECK(store_open(folder, true, &s, &err) == COLM_E_IO);
    CHECK(!s);
}

static void full_disk_is_an_error(void) {
    store *s = open_new();
    store_id run = add_run(s, "base", 1, 0);
    store_close(&s);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGXFSZ, SIG_IGN);
        int good = 1;
        store_id g = 0;
        char *big = calloc(1, 1 << 20);
        memset(big, 'x', (1 << 20) - 1);
        if (store_open(path, true, &s, &err)) _exit(2);
        store_stage_row row = {run, 0, "train", "d", big, "<4>", 1, 1};
        struct rlimit limit = {200 * 1024, 200 * 1024};
        setrlimit(RLIMIT_FSIZE, &limit);
        if (store_stage_begin(s, &row, &g, &err) == COLM_E_IO && strstr(err.text, path)) good = 0;
        printf("# %s\n", err.text);
        row.spec = "{}"; // small enough: the store is still usable
        if (!good && store_stage_begin(s, &row, &g, &err)) good = 3;
        fflush(stdout);
        _exit(good);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK_STR(raw("SELECT group_concat(length(spec)) FROM stage"), "2");
    CHECK_STR(raw("PRAGMA integrity_check"), "ok");
}

static colm_status ask(store *s, const char *sql, store_format f, str *out) {
    str_done(out);
    return store_print_query(s, sql, f, out, &err);
}

static void queries_only_read(void) {
    store *w = open_new(), *s = NULL;
    add_run(w, "base", 1, 0);
    CHECK_OK(store_open(path, false, &s, &err), err);
    str out = {0};
    static const char *const bad[] = {
        "DELETE FROM run",
        "DELETE FROM main.run",
        "UPDATE run SET status = 'finished'",
        "UPDATE main.score SET value = 1",
        "INSERT INTO experiment (name) VALUES ('x')",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "DROP VIEW result",
        "ATTACH 'other.db' AS o",
        "PRAGMA user_version = 7",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint",
        "PRAGMA writable_schema = 1",
        "BEGIN IMMEDIATE",
        "VACUUM INTO 'copy.db'",
        "WITH x AS (SELECT 1) DELETE FROM metric",
    };
    for (int i = 0; i < 2; i++) { // a store opened for writing is as careful
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
            if (!CHECK(ask(i ? w : s, bad[j], STORE_TABLE, &out) == COLM_E_INPUT)) printf("# %s\n", bad[j]);
            CHECK_HAS(err.text, "only reading is allowed");
            CHECK(out.len == 0);
        }
    }
    CHECK(!file_exists("other.db") && !file_exists("copy.db"));
    CHECK_STR(raw("SELECT status FROM run"), "running");
    CHECK(ask(s, "SELECT 1; DELETE FROM run", STORE_TABLE, &out) == COLM_E_INPUT);
    CHECK_HAS(err.text, "one statement at a time");
    CHECK_HAS(err.text, "DELETE FROM run");
    CHECK(ask(s, "SELECT nonsense FROM run", STORE_TABLE, &out) == COLM_E_INPUT);
    CHECK_HAS(err.text, "no such column: nonsense");
    CHECK(ask(s, " -- only a remark", STORE_TABLE, &out) == COLM_E_INPUT);
    CHECK(ask(s, "SELECT ?", STORE_TABLE, &out) == COLM_E_INPUT);
    CHECK(ask(s, "SELECT abs(-9223372036854775808)", STORE_TABLE, &out) == COLM_E_INPUT);
    CHECK_HAS(err.text, "integer overflow");
    CHECK_OK(ask(s, "SELECT 1 AS a ; -- said /* all */\n/* ; */ ;", STORE_CSV, &out), err);
    CHECK_STR(out.text, "a\r\n1\r\n");
    CHECK_OK(ask(s, "PRAGMA main.table_info(metric)", STORE_CSV, &out), err);
    CHECK_HAS(out.text, "0,stage,INTEGER,1,,1\r\n");
    str_done(&out);
    store_close(&s);
    store_close(&w);
}

static void three_shapes(void) {
    store *s = open_new();
    str out = {0};
    static const char sql[] =
        "SELECT 9007199254740993 AS i, 0.1 AS x, NULL AS gone, 'a \"b\", c' || char(10) AS t, "
        "x'00ff' AS blob, 1e999 AS t UNION ALL SELECT 1, 1e300, 2, 'e', x'', -0.5";
    CHECK_OK(ask(s, sql, STORE_JSON, &out), err);
    CHECK_STR(
        out.text,
        "[\n{\"i\":9007199254740993,\"x\":0.1,\"gone\":null,\"t\":\"a \\\"b\\\", c\\n\",\"blob\":"
        "\"00ff\",\"t_2\":null},\n{\"i\":1,\"x\":1e+300,\"gone\":2,\"t\":\"e\",\"blob\":\"\",\"t_2\":-0.5}"
        "\n]\n");
    CHECK_OK(ask(s, sql, STORE_CSV, &out), err);
    CHECK_STR(out.text, "i,x,gone,t,blob,t_2\r\n9007199254740993,0.1,,\"a \"\"b\"\", c\n\",00ff,\r\n"
                        "1,1e+300,2,e,,-0.5\r\n");
    CHECK_OK(ask(s, sql, STORE_TABLE, &out), err);
    CHECK_STR(out.text, "               i       x  gone  t          blob   t_2\n"
                        "9007199254740993     0.1     -  a \"b\", c   00ff     -\n"
                        "               1  1e+300     2  e                -0.5\n");
    CHECK_OK(ask(s, "SELECT 1 WHERE 0", STORE_JSON, &out), err);
    CHECK_STR(out.text, "[]\n");
    CHECK_OK(ask(s, "SELECT 1 AS a, 2 AS a, 3 AS a_2", STORE_CSV, &out), err);
    CHECK_STR(out.text, "a,a_2,a_2_2\r\n1,2,3\r\n");
    str_done(&out);
    store_close(&s);
}

static void lists_and_shows_runs(void) {
    store *s = open_new(), *reader = NULL;
    str out = {0};
    CHECK_OK(store_print_runs(s, STORE_TABLE, &out, &err), err);
    CHECK_HAS(out.text, "no runs in");
    str_done(&out);
    CHECK_OK(store_print_runs(s, STORE_JSON, &out, &err), err);
    CHECK_STR(out.text, "[]\n");
    store_id run = add_run(s, "base", 1, 0), g = add_stage(s, run, 0, "train", "s0");
    store_metric_row m = {20, "loss", 2.25};
    CHECK_OK(store_metrics(s, g, &m, 1, &err), err);
    store_stage_result r = {12345678, 3e12, 61.25, 0, "a.safetensors", "abc", "{\"frozen\":1}"};
    CHECK_OK(store_stage_end(s, g, &r, &err), err);
    g = add_stage(s, run, 1, "eval", "s1");
    double sum[] = {-1.5, -2};
    eval_score score = {"acc", true, 0.5, NAN, 1, 0, 0};
    eval_answer answer = {0, 2, 0, 0, 0, true, true, sum, 0};
    eval_outcome o = {1, 1, 1, &score, &answer};
    store_task_row t = {"cloze_a", "cloze", "td", "dd", "kd", "cd", 1};
    CHECK_OK(store_scores(s, g, &t, &o, &err), err);
    CHECK_OK(store_run_end(s, run, "failed", "device lost", &err), err);
    CHECK_OK(store_open(path, false, &reader, &err), err);
    str_done(&out);
    CHECK_OK(store_print_runs(reader, STORE_TABLE, &out, &err), err);
    CHECK_HAS(out.text, "quick       base     1  failed  <4,2>        1  eval");
    CHECK_HAS(out.text, "61.2  device lost\n");
    static const char *const names[] = {"1", "quick/base", "quick/base/1"};
    for (int i = 0; i < 3; i++) {
        str_done(&out);
        CHECK_OK(store_print_run(reader, names[i], STORE_TABLE, &out, &err), err);
        CHECK_HAS(out.text, "run 1: quick/base, seed 1: failed: device lost\n");
        CHECK_HAS(out.text, "0  train  finished  <4,2>    1.00k      400   12.3M  3.00T     61.2");
        CHECK_HAS(out.text, "0  loss           20   2.25");
        CHECK_HAS(out.text, "1  cloze_a      1  acc       0.5       -  higher      1");
    }
    str_done(&out);
    CHECK_OK(store_print_run(reader, "1", STORE_JSON, &out, &err), err);
    CHECK_HAS(out.text, "\"certificate\":{\"frozen\":1}");
    CHECK_HAS(out.text, "\"flops\":3000000000000");
    json_doc *doc = NULL;
    CHECK_OK(json_open_text("show", out.text, out.len, &doc, &err), err);
    json_close(&doc);
    str_done(&out);
    CHECK_OK(store_print_run(reader, "1", STORE_CSV, &out, &err), err);
    CHECK_HAS(out.text, "\r\n1,eval,failed,\"<4,2>\",1000,400,,,,cloze_a,1,acc,1,0.5,,1,0,0\r\n");
    CHECK(store_print_run(reader, "17", STORE_TABLE, &out, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "no run 17 in ");
    CHECK(store_print_run(reader, "quick/bsae", STORE_TABLE, &out, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "did you mean quick/base");
    str_done(&out);
    CHECK(execute("UPDATE run SET precision = 'bf16'"));
    CHECK_OK(store_print_runs(reader, STORE_TABLE, &out, &err), err);
    CHECK_HAS(out.text, "failed  <4,2> bf16       1  eval");
    str_done(&out);
    CHECK_OK(store_print_runs(reader, STORE_JSON, &out, &err), err);
    CHECK_HAS(out.text, "\"chains\":\"<4,2>\"");
    CHECK_HAS(out.text, "\"precision\":\"bf16\"");
    str_done(&out);
    CHECK_OK(store_print_run(reader, "1", STORE_TABLE, &out, &err), err);
    CHECK_HAS(out.text, "\nstores:  bf16\n");
    str_done(&out);
    store_close(&reader);
    store_close(&s);
}

static void thousands_of_runs(void) {
    store *s = open_new();
    add_run(s, "base", 0, 0);
    CHECK(execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
        "INSERT INTO run (experiment, arm, seed, status, host, boot, pid, process_start, seen, started) "
        "SELECT 1, 'base', i, 'running', host, boot, pid + 1, 1, seen, started FROM run, n"));
    CHECK(execute("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4) "
                  "INSERT INTO stage (run, place, kind, digest, status, started) "
                  "SELECT id, i, 'train', 'd', 'running', started FROM run, n"));
    store *reader = NULL;
    CHECK_OK(store_open(path, false, &reader, &err), err);
    str out = {0};
    double t = clock_seconds();
    CHECK_OK(store_print_runs(reader, STORE_CSV, &out, &err), err);
    printf("# %.3f s for 2001 runs\n", clock_seconds() - t);
    size_t lines = 0, interrupted = 0;
    for (const char *p = out.text; (p = strchr(p, '\n')); p++) lines++;
    for (const char *p = out.text; (p = strstr(p, "interrupted")); p++) interrupted++;
    CHECK(lines == 2002 && interrupted == 2000);
    str_done(&out);
    store_close(&reader);
    store_close(&s);
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(name);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    TEST(same_experiment_same_row);
    TEST(run_is_taken_up_again);
    TEST(large_seeds);
    TEST(stages_are_found_and_replaced);
    TEST(scores_and_answers);
    TEST(finished_stages_serve_other_runs);
    TEST(two_first_users);
    TEST(living_and_dead_owners);
    TEST(owners);
    TEST(far_owner_is_waited_for);
    TEST(brings_an_older_file_up_to_date);
    TEST(refuses_what_it_does_not_know);
    TEST(full_disk_is_an_error);
    TEST(queries_only_read);
    TEST(three_shapes);
    TEST(lists_and_shows_runs);
    TEST(thousands_of_runs);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return test_end();
}
