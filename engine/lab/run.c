/* The runner: every arm for every seed, from the database's last finished stage on. */
#include "engine/lab/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"

void runner_event(const runner *r, colm_event_kind kind, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    if (!r->params->event) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    colm_event e = {.kind = kind, .text = text};
    r->params->event(r->params->user, &e);
}

bool runner_stop(const runner *r) {
    return r->params->stop && r->params->stop(r->params->user);
}

static void log_event(void *user, log_level level, const char *text) {
    if (level >= LOG_INFO)
        runner_event(user, level == LOG_WARN ? COLM_EVENT_WARNING : COLM_EVENT_LINE, "%s", text);
}

colm_status runner_corpus(runner *r, uint32_t data, const corpus **ret, colm_err *err) {
    if (!r->corpus[data]) {
        char cache[4096 + 16];
        corpus_params p = r->spec->data[data].corpus;
        snprintf(cache, sizeof cache, "%s/corpora", r->files);
        p.cache_dir = cache;
        colm_status st = corpus_open(&p, r->tok, &r->log, &r->corpus[data], err);
        if (st) return err_at(err, "data %s", p.name);
        corpus_stats s = corpus_get_stats(r->corpus[data]);
        runner_event(r, COLM_EVENT_LINE,
                     "data %s: %llu documents, %llu tokens to train on, %llu documents (%llu bytes) held out",
                     p.name, (unsigned long long)s.docs, (unsigned long long)s.train_tokens,
                     (unsigned long long)s.heldout_docs, (unsigned long long)s.heldout_bytes);
    }
    *ret = r->corpus[data];
    return COLM_OK;
}

colm_status runner_task(runner *r, uint32_t task, const eval_task **ret, colm_err *err) {
    const spec_task *t = &r->spec->task[task];
    if (!r->task[task]) {
        eval_task_params p = t->task;
        colm_status st = t->data >= 0 ? runner_corpus(r, (uint32_t)t->data, &p.corpus, err) : COLM_OK;
        if (!st && (st = eval_task_open(&p, r->tok, &r->task[task], err))) err_at(err, "task %s", p.name);
        if (st) return st;
    }
    *ret = r->task[task];
    return COLM_OK;
}

static colm_status open_machine(runner *r, colm_err *err) {
    if (r->machine) return COLM_OK;
    const colm_device_params *d = &r->params->device;
    ops_open_params p = {d->device, d->kernels, d->validate, d->sync, d->submit_flops, &r->log};
    colm_status st = ops_open(&p, &r->machine, err);
    if (!st) runner_event(r, COLM_EVENT_LINE, "device: %s", ops_machine_name(r->machine));
    return st;
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

/* Whether a finished stage is still good: its checkpoint, if it made one, must be there with the digest it had.
 */
static bool stage_usable(const char *path, const char *digest) {
    char now[HASH_TEXT];
    colm_err ignored;
    return !*path ||
           (file_exists(path) && hash_file(path, now, &ignored) == COLM_OK && strcmp(now, digest) == 0);
}

/* Skips the finished stages at the arm's beginning, its own or those of another run with the same digest, which
 * are copied once this run has a row. *ret_next is the first that must run, and *at stands before it. */
static colm_status find_next(runner *r, const spec_arm *arm, store_id run, arm_state *at, uint32_t *ret_next,
                             colm_err *err) {
    uint32_t i = 0;
    for (; i < arm->n_stages && !r->params->fresh; i++) {
        char digest[HASH_TEXT], path[4096], checkpoint[33];
        store_id found = 0;
        colm_status st = stage_digest(r, &arm->stage[i], at, digest, err);
        if (!st && run) st = store_stage_find(r->db, run, digest, &found, path, checkpoint, err);
        if (!st && run && !found) {
            store_stage_row to = {.run = run, .index = i};
            st = store_stage_source(r->db, digest, &found, path, checkpoint, err);
            if (!st && found && stage_usable(path, checkpoint)) st = store_stage_copy(r->db, &to, found, err);
        }
        if (st) return st;
        if (!found || !stage_usable(path, checkpoint)) break;
        stage_advance(&arm->stage[i], digest, at);
        if (*path) {
            memcpy(at->path, path, sizeof path);
            memcpy(at->checkpoint, checkpoint, sizeof checkpoint);
        }
    }
    *ret_next = i;
    return COLM_OK;
}

static colm_status load_weights(runner *r, const spec_arm *arm, const arm_state *at, model_weights **ret,
                                colm_err *err) {
    if (!*at->path) return model_weights_init(&arm->start, r->seed, ret, err);
    return model_weights_load(at->path, ret, err);
}

static colm_status run_stages(runner *r, const spec_arm *arm, store_id run, uint32_t next, arm_state *at,
                              colm_err *err) {
    static const char *const kinds[] = {"train", "grow", "eval"};
    model_weights *w = NULL;
    colm_status st = load_weights(r, arm, at, &w, err);
    for (uint32_t i = next; i < arm->n_stages && !st; i++) {
        const spec_stage *s = &arm->stage[i];
        char digest[HASH_TEXT], chains[128];
        str certificate = {0};
        store_stage_result result;
        model_config_name(&s->model, chains, sizeof chains);
        uint32_t trains_from = s->kind == SPEC_TRAIN ? s->train.frozen : s->frozen;
        store_stage_row row = {.run = run,
                               .index = i,
                               .kind = kinds[s->kind],
                               .digest = digest,
                               .spec = s->canonical,
                               .chains = chains,
                               .params_total = model_params(&s->model, 0, s->model.n_chains),
                               .params_trained = s->kind == SPEC_TRAIN
                                                     ? model_params(&s->model, trains_from, s->model.n_chains)
                                                     : 0};
        stage_work work = {.r = r, .arm = arm, .stage = s, .index = i, .run = run, .weights = w, .at = at};
        st = stage_digest(r, s, at, digest, err);
        if (!st) st = store_stage_begin(r->db, &row, &work.id, err);
        if (!st) {
            st = stage_run(&work, digest, &result, &certificate, err);
            w = work.weights;
            if (!st && ops_validation_messages(r->machine))
                st = err_set(err, COLM_E_CHECK, "the Vulkan validation layer objected %u times",
                             ops_validation_messages(r->machine));
            if (!st) st = store_stage_end(r->db, work.id, &result, err);
        }
        str_done(&certificate);
        if (st)
            err_at(err, "stages[%u] %s", i, kinds[s->kind]);
        else
            stage_advance(s, digest, at);
    }
    model_weights_free(&w);
    return st;
}

static colm_status begin_run(runner *r, const spec_arm *arm, store_id *ret, colm_err *err) {
    char numerics[512];
    str config = {0};
    ops_identity(r->machine, numerics, sizeof numerics);
    model_config_json(&arm->start, &config);
    store_run_row row = {.experiment = r->experiment,
                         .arm = arm->name,
                         .seed = r->seed,
                         .parent = arm->from >= 0 ? r->arm[arm->from].run : 0,
                         .version = colm_version(),
                         .device = ops_machine_name(r->machine),
                         .numerics = numerics,
                         .config = config.text};
    colm_status st = config.failed ? err_nomem(err, 1024, "run") : store_run_begin(r->db, &row, ret, err);
    str_done(&config);
    return st;
}

static colm_status run_arm(runner *r, uint32_t index, colm_err *err) {
    const spec_arm *arm = &r->spec->arm[index];
    arm_state at;
    uint32_t next = 0;
    bool finished = false;
    snprintf(r->label, sizeof r->label, "%s/%llu", arm->name, (unsigned long long)r->seed);
    if (arm->from >= 0 && !r->arm[arm->from].ready)
        return err_set(err, COLM_E_CHECK, "not run: arm %s, from which it starts, did not finish",
                       r->spec->arm[arm->from].name);
    colm_status st = arm_start(r, arm, &at, err);
    if (!st) st = store_run_lookup(r->db, r->experiment, arm->name, r->seed, &at.run, &finished, err);
    if (!st) st = find_next(r, arm, at.run, &at, &next, err);
    if (st) return st;
    if (next == arm->n_stages && finished) {
        runner_event(r, COLM_EVENT_LINE, "%s: finished before, skipped", r->label);
        at.ready = true;
        r->arm[index] = at;
        return COLM_OK;
    }
    if ((st = open_machine(r, err)) || (st = begin_run(r, arm, &at.run, err))) return st;
    if (next)
        runner_event(r, COLM_EVENT_LINE, "%s: %u of %u stages finished before, skipped", r->label, next,
                     arm->n_stages);
    if (!st) st = run_stages(r, arm, at.run, next, &at, err);
    const char *status = !st ? "finished" : st == COLM_E_INTERRUPTED ? "interrupted" : "failed";
    colm_err second = {0};
    colm_status end = store_run_end(r->db, at.run, status, st ? err->text : NULL, &second);
    if (!st && end) {
        *err = second;
        st = end;
    }
    at.ready = !st;
    r->arm[index] = at;
    return st;
}

static colm_status open_all(runner *r, const colm_run_params *p, spec **spec_out, colm_err *err) {
    const char *db = p->db ? p->db : getenv("COLM_DB");
    if (!db || !*db) db = "results/colm.db";
    colm_status st = spec_load(p->path, spec_out, err);
    if (st) return st;
    r->spec = *spec_out;
    if (snprintf(r->files, sizeof r->files, "%s.files", db) >= (int)sizeof r->files)
        return err_set(err, COLM_E_INPUT, "%s: the path is too long", db);
    char folder[sizeof r->files + 16];
    snprintf(folder, sizeof folder, "%s/checkpoints", r->files);
    if ((st = store_open(db, true, &r->db, err))) return st;
    if ((st = file_make_dirs(folder, err))) return st;
    if (*store_notice(r->db)) runner_event(r, COLM_EVENT_WARNING, "%s", store_notice(r->db));
    if ((st = tokenizer_open(r->spec->tokenizer, &r->tok, err))) return st;
    r->corpus = mem_alloc(r->spec->n_data, sizeof *r->corpus);
    r->task = mem_alloc(r->spec->n_tasks, sizeof *r->task);
    r->arm = mem_alloc(r->spec->n_arms, sizeof *r->arm);
    if (!r->corpus || !r->task || !r->arm) return err_nomem(err, 1024, "runner");
    return store_experiment(r->db, r->spec->name, p->path, r->spec->digest, r->spec->text, &r->experiment, err);
}

colm_status colm_run(const colm_run_params *p, colm_err *err) {
    runner r = {.params = p};
    spec *s = NULL;
    unsigned failed = 0, total = 0;
    colm_err first = {0};
    colm_err local;
    if (!err) err = &local;
    r.log = (log_sink){log_event, &r};
    colm_status st = open_all(&r, p, &s, err);
    if (st) goto out;
    for (uint32_t k = 0; k < s->n_seeds && st != COLM_E_INTERRUPTED; k++) {
        r.seed = s->seed[k];
        memset(r.arm, 0, s->n_arms * sizeof *r.arm);
        for (uint32_t i = 0; i < s->n_arms && st != COLM_E_INTERRUPTED; i++) {
            total++;
            if (!(st = run_arm(&r, i, err))) continue;
            err_at(err, "%s", r.label);
            runner_event(&r, COLM_EVENT_WARNING, "%s", err->text);
            if (!failed++) first = *err;
        }
    }
    if (failed) {
        *err = first;
        st = first.code;
        if (failed > 1) err_at(err, "%u of %u runs failed, the first", failed, total);
    }
out:
    for (uint32_t i = 0; s && r.task && i < s->n_tasks; i++) eval_task_close(&r.task[i]);
    for (uint32_t i = 0; s && r.corpus && i < s->n_data; i++) corpus_close(&r.corpus[i]);
    free(r.corpus);
    free(r.task);
    free(r.arm);
    tokenizer_close(&r.tok);
    ops_close(&r.machine);
    store_close(&r.db);
    spec_free(&s);
    return st;
}
