/* One stage of one run: train, grow or evaluate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/eval/retention.h"
#include "engine/eval/scorer.h"
#include "engine/lab/run.h"
#include "engine/train/loop.h"

colm_status stage_digest(runner *r, const spec_stage *s, const arm_state *at, char ret[HASH_TEXT],
                         colm_err *err) {
    hash_state *h = hash_open();
    colm_status st = h ? COLM_OK : err_nomem(err, 1024, "digest");
    if (st) return st;
    hash_add_text(h, "colm stage 1");
    hash_add_text(h, at->digest);
    hash_add_text(h, s->canonical);
    if (s->kind == SPEC_TRAIN) hash_add(h, &at->train_stages, sizeof at->train_stages);
    for (uint32_t i = 0; s->kind == SPEC_TRAIN && i < s->n_parts && !st; i++) {
        const corpus *c;
        if (!(st = runner_corpus(r, s->part[i].data, &c, err))) hash_add_text(h, corpus_digest(c));
    }
    for (uint32_t i = 0; s->kind == SPEC_EVAL && i < s->n_tasks && !st; i++) {
        const eval_task *t;
        if (!(st = runner_task(r, s->task[i], &t, err))) hash_add_text(h, eval_task_digest(t));
    }
    hash_close(&h, ret);
    return st;
}

void stage_advance(const spec_stage *s, const char *digest, arm_state *at) {
    if (s->kind == SPEC_EVAL) return;
    memcpy(at->digest, digest, HASH_TEXT);
    at->train_stages += s->kind == SPEC_TRAIN;
}

static colm_status checkpoint(stage_work *w, const char *digest, store_stage_result *ret, colm_err *err) {
    arm_state *at = w->at;
    if (snprintf(at->path, sizeof at->path, "%s/checkpoints/%s.safetensors", w->r->files, digest) >=
        (int)sizeof at->path)
        return err_set(err, COLM_E_INPUT, "%s: the path is too long", w->r->files);
    colm_status st = model_weights_save(w->weights, at->path, err);
    if (!st) st = hash_file(at->path, at->checkpoint, err);
    if (!st)
        st = store_artifact(w->r->db, w->id, "checkpoint", at->path, at->checkpoint,
                            w->weights->n_elems * sizeof(float), err);
    ret->checkpoint = at->path;
    ret->checkpoint_digest = at->checkpoint;
    return st;
}

/* "3m20s" or "12s" */
static const char *duration(double s, char *buf, size_t n) {
    if (s < 60)
        snprintf(buf, n, "%.0fs", s);
    else if (s < 3600)
        snprintf(buf, n, "%dm%02ds", (int)s / 60, (int)s % 60);
    else
        snprintf(buf, n, "%dh%02dm", (int)(s / 3600), (int)(s / 60) % 60);
    return buf;
}

typedef struct {
    stage_work *w;
    store_metric_row row[256];
    size_t n;
    double started, shown;
    char what[256];
    colm_status st;
    colm_err *err;
} train_watch;

static void flush(train_watch *t) {
    if (!t->st && t->n) t->st = store_metrics(t->w->r->db, t->w->id, t->row, t->n, t->err);
    t->n = 0;
}

static bool train_ticked(void *user, const train_tick *k) {
    train_watch *t = user;
    const train_params *p = &t->w->stage->train;
    double now = clock_seconds(), rate = (double)(k->step + 1) * p->batch * p->context / (now - t->started);
    bool last = k->step + 1 == k->steps;
    if (k->step % p->log_every == 0 || last) {
        const store_metric_row rows[] = {{k->step, "loss", k->loss},
                                         {k->step, "grad_norm", k->grad_norm},
                                         {k->step, "lr", k->lr},
                                         {k->step, "tokens_per_s", k->tokens_per_s}};
        memcpy(t->row + t->n, rows, sizeof rows);
        t->n += 4;
        if (last || t->n + 4 > sizeof t->row / sizeof *t->row || now - t->shown > 10) flush(t);
    }
    if (now - t->shown > 0.2 || last) {
        char left[32];
        t->shown = now;
        duration((double)(k->steps - k->step - 1) * p->batch * p->context / rate, left, sizeof left);
        runner_event(t->w->r, COLM_EVENT_PROGRESS, "%s: step %llu/%llu  loss %.4f  %.0f tokens/s  %s left",
                     t->what, (unsigned long long)k->step + 1, (unsigned long long)k->steps, k->loss, rate,
                     left);
    }
    return t->st || runner_stop(t->w->r);
}

static void train_name(const stage_work *w, char *buf, size_t n) {
    const spec_stage *s = w->stage;
    char chains[64];
    model_config_name(&s->model, chains, sizeof chains);
    size_t at = (size_t)snprintf(buf, n, "%s: train %s", w->r->label, chains);
    for (uint32_t i = 0; i < s->n_parts && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? "+" : " on ",
                               w->r->spec->data[s->part[i].data].corpus.name);
}

/* The model must pass through frozen stages unchanged: a certificate stands between two witnesses. */
static colm_status train(stage_work *w, store_stage_result *ret, str *certificate, colm_err *err) {
    const spec_stage *s = w->stage;
    uint32_t frozen = s->train.frozen;
    retention_witness before, after;
    colm_status st = COLM_OK;
    batch_part part[sizeof s->part / sizeof *s->part];
    char stream[64], took[32];
    snprintf(stream, sizeof stream, "batches of training stage %u", w->at->train_stages);
    rng_stream seeds = rng_open(w->r->seed, stream);
    train_watch watch = {.w = w, .started = clock_seconds(), .err = err};
    train_job job = {.params = s->train,
                     .part = part,
                     .n_parts = s->n_parts,
                     .seed = rng_u64(&seeds, 0),
                     .tick = train_ticked,
                     .user = &watch};
    train_result r;
    train_name(w, watch.what, sizeof watch.what);
    for (uint32_t i = 0; i < s->n_parts && !st; i++) {
        st = runner_corpus(w->r, s->part[i].data, &part[i].corpus, err);
        part[i].weight = s->part[i].weight;
    }
    if (!st && frozen) st = retention_witness_take(w->r->machine, w->weights, frozen, &before, err);
    if (!st) st = train_run(w->r->machine, w->weights, &job, &r, err);
    if (watch.st) return watch.st; /* the database's error outranks the stop it caused */
    if (!st && frozen) st = retention_witness_take(w->r->machine, w->weights, frozen, &after, err);
    if (!st && frozen) st = retention_certify(&before, &after, false, certificate, err);
    if (st) return st;
    ret->tokens = r.tokens, ret->flops = (double)r.flops, ret->seconds = r.seconds, ret->memory = r.memory;
    runner_event(w->r, COLM_EVENT_LINE, "%s: %llu tokens, loss %.4f, %s, %.0f tokens/s%s", watch.what,
                 (unsigned long long)r.tokens, r.loss, duration(r.seconds, took, sizeof took),
                 (double)r.tokens / r.seconds, frozen ? "; frozen chains certified unchanged" : "");
    return COLM_OK;
}

static colm_status grow(stage_work *w, store_stage_result *ret, str *certificate, colm_err *err) {
    retention_witness before, after;
    model_weights *bigger = NULL;
    char from[64], to[64];
    double start = clock_seconds();
    uint32_t old = w->weights->config.n_chains;
    model_config_name(&w->weights->config, from, sizeof from);
    model_config_name(&w->stage->model, to, sizeof to);
    colm_status st = retention_witness_take(w->r->machine, w->weights, old, &before, err);
    if (!st) st = model_weights_grow(w->weights, &w->stage->model, w->r->seed, &bigger, err);
    if (!st) st = retention_witness_take(w->r->machine, bigger, old, &after, err);
    if (!st) st = retention_certify(&before, &after, true, certificate, err);
    if (st) {
        model_weights_free(&bigger);
        return st;
    }
    model_weights_free(&w->weights);
    w->weights = bigger;
    ret->seconds = clock_seconds() - start;
    runner_event(w->r, COLM_EVENT_LINE, "%s: grow %s to %s, logits certified unchanged", w->r->label, from, to);
    return COLM_OK;
}

typedef struct {
    const runner *r;
    const char *task;
} eval_watch;

static bool eval_ticked(void *user, size_t done, size_t total) {
    eval_watch *e = user;
    runner_event(e->r, COLM_EVENT_PROGRESS, "%s: evaluate %s: %zu/%zu requests", e->r->label, e->task, done,
                 total);
    return runner_stop(e->r);
}

static const char *const kind_name[] = {"cloze", "choice", "bits_per_byte"};

static colm_status eval_one(stage_work *w, uint32_t index, scorer *sc, colm_err *err) {
    runner *r = w->r;
    const spec_task *ts = &r->spec->task[index];
    const eval_task *t = NULL;
    const corpus *c = NULL;
    eval_outcome *o = NULL;
    colm_status st = runner_task(r, index, &t, err);
    if (!st && ts->data >= 0) st = runner_corpus(r, (uint32_t)ts->data, &c, err);
    if (st) return st;
    eval_watch watch = {r, ts->task.name};
    st = eval_task_run(t, scorer_model(sc), eval_ticked, &watch, &o, err);
    if (!st) {
        store_task_row row = {.task = ts->task.name,
                              .kind = kind_name[ts->task.kind],
                              .task_digest = eval_task_digest(t),
                              .data_digest = c ? corpus_digest(c) : NULL,
                              .tokenizer_digest = tokenizer_digest(r->tok),
                              .checkpoint_digest = w->at->checkpoint,
                              .task_version = eval_task_version(t)};
        st = store_scores(r->db, w->id, &row, o, err);
    }
    if (!st) {
        const eval_score *top = &o->score[(o->n_scales - 1) * o->n_scores];
        runner_event(r, COLM_EVENT_LINE, "%s: %s %s %.4f +- %.4f (n %u) at scale %u", r->label, ts->task.name,
                     top->metric, top->value, top->stderr_, top->n, o->n_scales);
    }
    eval_outcome_free(&o);
    return st ? err_at(err, "task %s", ts->task.name) : COLM_OK;
}

static colm_status eval(stage_work *w, store_stage_result *ret, colm_err *err) {
    scorer *sc = NULL;
    double start = clock_seconds();
    colm_status st = scorer_open(w->r->machine, w->weights, 0, &sc, err);
    for (uint32_t i = 0; i < w->stage->n_tasks && !st; i++) st = eval_one(w, w->stage->task[i], sc, err);
    if (!st) {
        ret->tokens = scorer_tokens(sc), ret->flops = (double)scorer_flops(sc);
        ret->seconds = clock_seconds() - start;
    }
    scorer_close(&sc);
    return st;
}

colm_status stage_run(stage_work *w, const char *digest, store_stage_result *ret, str *certificate,
                      colm_err *err) {
    *ret = (store_stage_result){0};
    colm_status st = COLM_OK;
    switch (w->stage->kind) {
    case SPEC_TRAIN:
        st = train(w, ret, certificate, err);
        break;
    case SPEC_GROW:
        st = grow(w, ret, certificate, err);
        break;
    case SPEC_EVAL:
        st = eval(w, ret, err);
        break;
    }
    if (!st && w->stage->kind != SPEC_EVAL) st = checkpoint(w, digest, ret, err);
    ret->certificate = certificate->len ? certificate->text : NULL;
    return st;
}
