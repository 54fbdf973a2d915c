/* The runner: every arm for every seed, from the last finished stage in the database on. */
#include "engine/lab/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/lab/report.h"
#include "engine/train/loop.h"

static void say(const runner *r, colm_event e, const char *fmt, va_list ap) {
    char text[1024];
    if (!r->params->event) return;
    vsnprintf(text, sizeof text, fmt, ap);
    e.text = text;
    r->params->event(r->params->user, &e);
}

void runner_event(const runner *r, colm_event_kind kind, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(r, (colm_event){.kind = kind}, fmt, ap);
    va_end(ap);
}

void runner_progress(const runner *r, uint64_t done, uint64_t total, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(r, (colm_event){.kind = COLM_EVENT_PROGRESS, .done = done, .total = total}, fmt, ap);
    va_end(ap);
}

bool runner_stop(const runner *r) {
    return r->params->stop && r->params->stop(r->params->user);
}

static void log_event(void *user, log_level level, const char *text) {
    if (level >= LOG_INFO)
        runner_event(user, level == LOG_WARN ? COLM_EVENT_WARNING : COLM_EVENT_LINE, "%s", text);
}

colm_status runner_path(const runner *r, const char *file, char ret[RUNNER_PATH], colm_err *err) {
    if (snprintf(ret, RUNNER_PATH, "%s/%s", r->files, file) < RUNNER_PATH) return COLM_OK;
    return err_set(err, COLM_E_INPUT, "%s/%s: the path is too long, at most %d bytes fit", r->files, file,
                   RUNNER_PATH - 1);
}

colm_status runner_corpus(runner *r, uint32_t data, const corpus **ret, colm_err *err) {
    corpus_params p = r->spec->data[data].corpus;
    if (!r->corpus[data]) {
        char cache[RUNNER_PATH];
        colm_status st = runner_path(r, "corpora", cache, err);
        p.cache_dir = cache;
        if (!st) st = corpus_open(&p, r->tok, &r->log, &r->corpus[data], err);
        if (st) return st;
    }
    *ret = r->corpus[data];
    return COLM_OK;
}

colm_status runner_task(runner *r, uint32_t task, const eval_task **ret, colm_err *err) {
    const spec_task *t = &r->spec->task[task];
    if (!r->task[task]) {
        eval_task_params p = t->task;
        colm_status st = t->data >= 0 ? runner_corpus(r, (uint32_t)t->data, &p.corpus, err) : COLM_OK;
        if (!st) st = eval_task_open(&p, r->tok, &r->task[task], err);
        if (st) return st;
    }
    *ret = r->task[task];
    return COLM_OK;
}

static colm_status open_machine(runner *r, colm_err *err) {
    if (r->machine) return COLM_OK;
    const colm_device_params *d = &r->params->device;
    ops_open_params p = {d->device,       d->kernels, d->validate,        d->sync,
                         d->submit_flops, &r->log,    .unsafe = d->unsafe};
    return ops_open(&p, &r->machine, err);
}

/* Where an arm's model starts: at another arm's end, or at random parameters named by configuration, tokenizer
 * and seed. */
static colm_status arm_start(runner *r, const spec_arm *arm, arm_state *at, colm_err *err) {
    if (arm->from >= 0) {
        *at = r->arm[arm->from];
        at->ready = false;
        at->run = 0;
        return COLM_OK;
    }
    str config = {0};
    hash_state *h = hash_open();
    *at = (arm_state){0};
    model_config_json(&arm->start, &config);
    colm_status st = !h || config.failed ? err_nomem(err, 1024, "digest") : COLM_OK;
    if (!st) {
        hash_add_text(h, "colm start 1");
        hash_add_text(h, config.text);
        hash_add_text(h, tokenizer_digest(r->tok));
        hash_add(h, &r->seed, sizeof r->seed);
    }
    if (h) hash_close(&h, at->digest);
    str_done(&config);
    return st;
}

/* A stage that the database knows to be finished. */
typedef struct {
    store_id id; /* 0: there is none */
    bool foreign;
    char file[RUNNER_PATH], checkpoint[HASH_TEXT]; /* "" where it makes no checkpoint */
} finished_stage;

/* A finished stage counts while its checkpoint, if it made one, is there with the bytes it had. */
static colm_status find_finished(const runner *r, const char *digest, store_id run, bool tell,
                                 finished_stage *ret, colm_err *err) {
    char path[RUNNER_PATH], now[HASH_TEXT];
    colm_status st =
        run ? store_stage_find(r->db, run, digest, &ret->id, ret->file, ret->checkpoint, err) : COLM_OK;
    if (!st && !ret->id) {
        ret->foreign = true;
        st = store_stage_source(r->db, digest, &ret->id, ret->file, ret->checkpoint, err);
    }
    if (st || !ret->id || !*ret->file) return st;
    if ((st = runner_path(r, ret->file, path, err))) return st;
    const char *trouble = !file_exists(path)             ? "is gone"
                          : hash_file(path, now, NULL)   ? "cannot be read"
                          : strcmp(now, ret->checkpoint) ? "is damaged"
                                                         : NULL;
    if (!trouble) return COLM_OK;
    if (tell)
        runner_event(r, COLM_EVENT_WARNING, "%s: the checkpoint %s %s: the stage that made it is run again",
                     r->label, path, trouble);
    ret->id = 0;
    return COLM_OK;
}

/* What was passed over at an arm's beginning. */
typedef struct {
    uint32_t n, foreign; /* stages; those of them that are another run's */
    char device[256];    /* that they were made on; "" when unknown */
} passed;

static colm_status pass_device(const runner *r, store_id stage, passed *io, colm_err *err) {
    char device[sizeof io->device];
    colm_status st = store_stage_device(r->db, stage, device, sizeof device, err);
    if (st || !*device || !strcmp(device, io->device)) return st;
    snprintf(io->device, sizeof io->device, "%s", *io->device ? "several devices" : device);
    return COLM_OK;
}

/* Passes over the finished stages at an arm's beginning, its own or another run's of the same digest. *at
 * stands before the first that must run. With `take` the run gets copies of what is another's; without, nothing
 * changes and trouble is told. */
static colm_status pass_finished(runner *r, const spec_arm *arm, bool take, arm_state *at, passed *ret,
                                 colm_err *err) {
    *ret = (passed){0};
    for (uint32_t i = 0; i < arm->n_stages && !r->params->fresh; i++) {
        char digest[HASH_TEXT];
        finished_stage f = {0};
        store_stage_row to = {.run = at->run, .index = i};
        colm_status st = stage_digest(r, &arm->stage[i], at, digest, err);
        if (!st) st = find_finished(r, digest, at->run, !take, &f, err);
        if (!st && f.id && f.foreign && take) st = store_stage_copy(r->db, &to, f.id, err);
        if (!st && f.id) st = pass_device(r, f.id, ret, err);
        if (st) return st;
        if (!f.id) break;
        stage_advance(&arm->stage[i], digest, at);
        if (*f.file) {
            memcpy(at->file, f.file, sizeof f.file);
            memcpy(at->checkpoint, f.checkpoint, sizeof f.checkpoint);
        }
        ret->n = i + 1;
        ret->foreign += f.foreign;
    }
    return COLM_OK;
}

static colm_status load_weights(const runner *r, const spec_arm *arm, const arm_state *at, model_weights **ret,
                                colm_err *err) {
    char path[RUNNER_PATH];
    if (!*at->file) return model_weights_init(&arm->start, r->seed, ret, err);
    colm_status st = runner_path(r, at->file, path, err);
    return st ? st : model_weights_load(path, ret, err);
}

/* A stage from its row in the database to its result there. */
static colm_status run_stage(stage_work *w, uint32_t index, colm_err *err) {
    runner *r = w->r;
    const spec_stage *s = w->stage;
    char chains[128];
    str certificate = {0};
    store_stage_result result;
    model_config_name(&s->model, chains, sizeof chains);
    store_stage_row row = {.run = w->run,
                           .index = index,
                           .kind = stage_kind(s->kind),
                           .digest = w->digest,
                           .spec = s->canonical,
                           .chains = chains,
                           .params_total = model_params(&s->model, 0, s->model.n_chains),
                           .device = ops_machine_name(r->machine)};
    if (s->kind == SPEC_TRAIN) row.params_trained = train_trained(&s->model, &s->train);
    colm_status st = store_stage_begin(r->db, &row, &w->id, err);
    if (!st) st = stage_run(w, &result, &certificate, err);
    unsigned objections = ops_validation_messages(r->machine) - r->objections;
    r->objections += objections;
    if (!st && objections)
        st = err_set(err, COLM_E_CHECK, "the Vulkan validation layer objected %u times", objections);
    if (!st) st = store_stage_end(r->db, w->id, &result, err);
    str_done(&certificate);
    return st;
}

static colm_status run_stages(runner *r, const spec_arm *arm, uint32_t next, arm_state *at, colm_err *err) {
    char digest[HASH_TEXT];
    stage_work w = {.r = r, .arm = arm, .digest = digest, .run = at->run, .at = at, .seen = clock_seconds()};
    colm_status st = next < arm->n_stages ? load_weights(r, arm, at, &w.weights, err) : COLM_OK;
    for (uint32_t i = next; i < arm->n_stages && !st; i++) {
        w.stage = &arm->stage[i];
        st = runner_stop(r) ? err_set(err, COLM_E_INTERRUPTED, "stopped") : COLM_OK;
        if (!st) st = stage_digest(r, w.stage, at, digest, err);
        if (!st) st = run_stage(&w, i, err);
        if (st)
            err_at(err, "stages[%u] %s", i, stage_kind(w.stage->kind));
        else
            stage_advance(w.stage, digest, at);
    }
    model_weights_free(&w.weights);
    return st;
}

/* The run's row, ours from here on. Without a machine nothing is computed: the run keeps the device it had, or
 * gets that of the stages it copies. */
static colm_status begin_run(runner *r, const spec_arm *arm, store_id *ret, colm_err *err) {
    char numerics[512] = "";
    str config = {0};
    if (r->machine) ops_identity(r->machine, numerics, sizeof numerics);
    /* Kernels are made when they are needed: their digest says how far this process got, not what device this
     * is. Certificates keep it. */
    char *kernels = strstr(numerics, "; kernels ");
    if (kernels) *kernels = 0;
    model_config_json(&arm->start, &config);
    store_run_row row = {.experiment = r->experiment,
                         .arm = arm->name,
                         .seed = r->seed,
                         .parent = arm->from >= 0 ? r->arm[arm->from].run : 0,
                         .version = r->machine ? colm_version() : NULL,
                         .device = r->machine ? ops_machine_name(r->machine) : NULL,
                         .numerics = r->machine ? numerics : NULL,
                         .config = config.text,
                         .precision = model_precision_name[arm->precision]};
    colm_status st = config.failed ? err_nomem(err, 1024, "run") : store_run_begin(r->db, &row, ret, err);
    str_done(&config);
    return st;
}

/* " on DEVICE" after what was done before, so that nobody takes it for the work of the device asked for. */
static const char *made_on(const passed *p, char buf[sizeof p->device + 4]) {
    snprintf(buf, sizeof p->device + 4, "%s%s", *p->device ? " on " : "", p->device);
    return buf;
}

/* Under the run's row, which says in the end what became of it. */
static colm_status run_begun(runner *r, const spec_arm *arm, arm_state *at, colm_err *err) {
    passed done;
    char on[sizeof done.device + 4];
    colm_err second;
    colm_status st = pass_finished(r, arm, true, at, &done, err);
    if (!st && done.foreign)
        runner_event(r, COLM_EVENT_LINE, "%s: %u of %u stages taken from earlier runs that were the same%s",
                     r->label, done.foreign, arm->n_stages, made_on(&done, on));
    if (!st && done.n > done.foreign)
        runner_event(r, COLM_EVENT_LINE, "%s: %u of %u stages finished before%s, skipped", r->label,
                     done.n - done.foreign, arm->n_stages, made_on(&done, on));
    if (!st && done.n < arm->n_stages) st = open_machine(r, err);
    if (!st) st = run_stages(r, arm, done.n, at, err);
    const char *status = !st ? "finished" : st == COLM_E_INTERRUPTED ? "interrupted" : "failed";
    colm_status end = store_run_end(r->db, at->run, status, st ? err->text : NULL, st ? &second : err);
    return st ? err_at(err, "%s", r->label) : end;
}

static colm_status run_arm(runner *r, uint32_t index, colm_err *err) {
    const spec_arm *arm = &r->spec->arm[index];
    arm_state start, at;
    passed done;
    char on[sizeof done.device + 4];
    bool finished = false;
    snprintf(r->label, sizeof r->label, "%s/%llu", arm->name, (unsigned long long)r->seed);
    if (arm->from >= 0 && !r->arm[arm->from].ready)
        return err_set(err, COLM_E_CHECK, "%s: not run: arm %s, from which it starts, did not finish", r->label,
                       r->spec->arm[arm->from].name);
    colm_status st = arm_start(r, arm, &start, err);
    if (!st) st = store_run_lookup(r->db, r->experiment, arm->name, r->seed, &start.run, &finished, err);
    at = start;
    if (!st) st = pass_finished(r, arm, false, &at, &done, err);
    if (st) return st;
    if (done.n == arm->n_stages && finished && !done.foreign) {
        runner_event(r, COLM_EVENT_LINE, "%s: finished before%s, skipped", r->label, made_on(&done, on));
    } else {
        /* A device that is not there, or a run that another process has, is no fault of this arm. */
        r->hopeless = true;
        if (done.n < arm->n_stages) st = open_machine(r, err);
        if (!st) st = begin_run(r, arm, &start.run, err);
        if (st) return st;
        r->hopeless = false;
        at = start;
        st = run_begun(r, arm, &at, err);
    }
    at.ready = !st;
    r->arm[index] = at;
    return st;
}

static colm_status open_part(runner *r, const spec_stage *s, uint32_t part, colm_err *err) {
    const corpus *c;
    colm_status st = runner_corpus(r, s->part[part].data, &c, err);
    if (st) return st;
    unsigned long long tokens = corpus_get_stats(c).train_tokens;
    if (tokens > s->train.context) return COLM_OK;
    return err_set(err, COLM_E_INPUT,
                   "%s:%d: corpus \"%s\" has %llu training tokens, expected at least %u for a context of %u",
                   r->spec->path, s->line, corpus_name(c), tokens, s->train.context + 1, s->train.context);
}

/* Every text and task that a stage asks for is opened before the first run begins: what is misspelled or
 * missing is known at once. */
static colm_status open_data(runner *r, colm_err *err) {
    colm_status st = COLM_OK;
    const eval_task *t;
    for (const spec_arm *a = r->spec->arm; a < r->spec->arm + r->spec->n_arms; a++) {
        for (const spec_stage *s = a->stage; s < a->stage + a->n_stages; s++) {
            for (uint32_t i = 0; s->kind == SPEC_TRAIN && i < s->n_parts && !st; i++)
                st = open_part(r, s, i, err);
            for (uint32_t i = 0; s->kind == SPEC_EVAL && i < s->n_tasks && !st; i++)
                st = runner_task(r, s->task[i], &t, err);
        }
    }
    return st;
}

static colm_status open_all(runner *r, const char *db, colm_err *err) {
    char folder[RUNNER_PATH];
    colm_status st = COLM_OK;
    if (snprintf(r->files, sizeof r->files, "%s.files", db) >= (int)sizeof r->files)
        st = err_set(err, COLM_E_INPUT, "%.100s...: the path is too long", db);
    if (!st) st = store_open(db, true, &r->db, err);
    if (!st && *store_notice(r->db)) runner_event(r, COLM_EVENT_WARNING, "%s", store_notice(r->db));
    if (!st) st = runner_path(r, "checkpoints", folder, err);
    if (!st) st = file_make_dirs(folder, err);
    if (!st) st = tokenizer_open(r->spec->tokenizer, &r->tok, err);
    if (st) return st;
    r->corpus = mem_alloc(r->spec->n_data, sizeof *r->corpus);
    r->task = mem_alloc(r->spec->n_tasks, sizeof *r->task);
    r->arm = mem_alloc(r->spec->n_arms, sizeof *r->arm);
    if (!r->corpus || !r->task || !r->arm) return err_nomem(err, 1024, "runner");
    if ((st = open_data(r, err))) return st;
    return store_experiment(r->db, r->spec->name, r->params->path, r->spec->digest, r->spec->text,
                            &r->experiment, err);
}

/* All runs. What fails one is told and the others go on; *err is in the end what the caller must know. */
static colm_status run_all(runner *r, colm_err *err) {
    const spec *s = r->spec;
    uint32_t failed = 0, total = s->n_seeds * s->n_arms;
    colm_err first = {0};
    for (uint32_t k = 0; k < s->n_seeds; k++) {
        r->seed = s->seed[k];
        memset(r->arm, 0, s->n_arms * sizeof *r->arm);
        for (uint32_t i = 0; i < s->n_arms; i++) {
            colm_status st = run_arm(r, i, err);
            if (!st) continue;
            if (r->hopeless || st == COLM_E_IO || st == COLM_E_DEVICE || st == COLM_E_NO_DEVICE) return st;
            if (st == COLM_E_INTERRUPTED)
                return err_set(err, st, "%s; `colm run %s` goes on from the last finished stage", err->text,
                               r->params->path);
            if (total > 1) runner_event(r, COLM_EVENT_WARNING, "%s", err->text);
            if (!failed++) first = *err;
        }
    }
    if (!failed) return COLM_OK;
    *err = first;
    return total > 1 ? err_at(err, "%u of %u runs did not finish, the first", failed, total) : first.code;
}

colm_status colm_run(const colm_run_params *p, colm_err *err) {
    runner r = {.params = p};
    spec *s = NULL;
    colm_err local;
    if (!err) err = &local;
    r.log = (log_sink){log_event, &r};
    colm_status st = spec_load(p->path, &s, err);
    r.spec = s;
    if (!st) st = open_all(&r, report_db(p->db), err);
    if (!st) st = run_all(&r, err);
    if (!st) {
        uint32_t total = s->n_seeds * s->n_arms;
        runner_event(&r, COLM_EVENT_LINE, "%s: %s%u run%s finished; to compare them: colm compare %s%s%s",
                     s->name, total > 1 ? "all " : "", total, total > 1 ? "s" : "", s->name,
                     p->db ? " --db " : "", p->db ? p->db : "");
    }
    for (uint32_t i = 0; r.task && i < s->n_tasks; i++) eval_task_close(&r.task[i]);
    for (uint32_t i = 0; r.corpus && i < s->n_data; i++) corpus_close(&r.corpus[i]);
    free(r.corpus);
    free(r.task);
    free(r.arm);
    tokenizer_close(&r.tok);
    ops_close(&r.machine);
    store_close(&r.db);
    spec_free(&s);
    return st;
}
