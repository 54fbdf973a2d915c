/* One stage of one run: train, grow or evaluate. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/eval/retention.h"
#include "engine/eval/scorer.h"
#include "engine/lab/print.h"
#include "engine/lab/run.h"
#include "engine/train/loop.h"

#define SHOW_EVERY 0.2   /* seconds between states of progress */
#define STORE_EVERY 2.0  /* seconds between writes of metrics, so that others can look on */
#define ALIVE_EVERY 60.0 /* seconds between signs of life, well below OWNER_SILENCE */

const char *stage_kind(spec_kind k) {
    static const char *const kinds[] = {[SPEC_TRAIN] = "train", [SPEC_GROW] = "grow", [SPEC_EVAL] = "eval"};
    return kinds[k];
}

void stage_what(const spec *s, const spec_stage *g, char *buf, size_t n) {
    size_t at = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < g->n_parts && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? "+" : "", s->data[g->part[i].data].corpus.name);
    for (uint32_t i = 0; i < g->n_tasks && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? ", " : "", s->task[g->task[i]].task.name);
}

colm_status stage_digest(runner *r, const spec_stage *s, const arm_state *at, char ret[HASH_TEXT],
                         colm_err *err) {
    hash_state *h = hash_open();
    colm_status st = h ? COLM_OK : err_nomem(err, 1024, "digest");
    if (st) return st;
    hash_add_text(h, "colm stage 2");
    hash_add_text(h, at->digest);
    /* The bytes it starts from, too: made again on another device they may be others, and what was built on the
     * old ones is then another result. */
    hash_add_text(h, at->checkpoint);
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

/* Files are named by the stage and by what came out: another device's result of the same stage is another file,
 * and none ever replaces one with other contents. */
static colm_status checkpoint(stage_work *w, store_stage_result *ret, colm_err *err) {
    arm_state *at = w->at;
    char name[2 * HASH_TEXT], digest[HASH_TEXT], path[RUNNER_PATH];
    file_map map = {0};
    colm_status st = model_weights_digest(w->weights, w->weights->config.n_chains, digest, err);
    if (st) return st;
    memcpy(name, w->digest, HASH_TEXT);
    memcpy(name + HASH_TEXT, digest, HASH_TEXT);
    hash_bytes(name, sizeof name, digest);
    snprintf(at->file, sizeof at->file, "checkpoints/%s.safetensors", digest);
    st = runner_path(w->r, at->file, path, err);
    if (!st) st = model_weights_save(w->weights, path, err);
    if (!st) st = file_map_open(path, &map, err);
    if (st) return st;
    hash_bytes(map.bytes, map.n, at->checkpoint);
    st = store_artifact(w->r->db, w->id, "checkpoint", at->file, at->checkpoint, map.n, err);
    file_map_close(&map);
    ret->checkpoint = at->file;
    ret->checkpoint_digest = at->checkpoint;
    return st;
}

/* Long silence would look like death to other machines. */
static colm_status alive(stage_work *w, double now, colm_err *err) {
    if (now - w->seen < ALIVE_EVERY) return COLM_OK;
    w->seen = now;
    return store_run_alive(w->r->db, w->run, err);
}

/* "0.3s", "42s", "3m20s" or "2h05m". */
static const char *duration(double s, char buf[PRINT_SHORT]) {
    unsigned long long whole = s > 0 && s < 1e15 ? (unsigned long long)(s + 0.5) : 0;
    if (s < 9.95)
        snprintf(buf, PRINT_SHORT, "%.1fs", s);
    else if (whole < 60)
        snprintf(buf, PRINT_SHORT, "%llus", whole);
    else if (whole < 3600)
        snprintf(buf, PRINT_SHORT, "%llum%02llus", whole / 60, whole % 60);
    else
        snprintf(buf, PRINT_SHORT, "%lluh%02llum", whole / 3600, whole / 60 % 60);
    return buf;
}

typedef struct {
    stage_work *w;
    const char *on; /* "bible+perldoc" */
    store_metric_row row[256];
    size_t n;
    double started, shown, stored; /* by clock_seconds */
    colm_status st;                /* of the database */
    colm_err *err;
} train_watch;

static void store_rows(train_watch *t, double now) {
    if (!t->st && t->n) t->st = store_metrics(t->w->r->db, t->w->id, t->row, t->n, t->err);
    t->stored = now;
    t->n = 0;
}

static bool train_ticked(void *user, const train_tick *k) {
    train_watch *t = user;
    const train_params *p = &t->w->stage->train;
    double now = clock_seconds(), step_tokens = (double)p->tokens / (double)k->steps;
    bool last = k->step + 1 == k->steps;
    if (k->step % p->log_every == 0 || last) {
        const store_metric_row rows[] = {{k->step, "loss", k->loss},
                                         {k->step, "grad_norm", k->grad_norm},
                                         {k->step, "lr", k->lr},
                                         {k->step, "tokens_per_s", k->tokens_per_s},
                                         {k->step, "loss_scale", k->loss_scale},
                                         {k->step, "steps_skipped", (double)k->skipped}};
        const size_t most = sizeof rows / sizeof *rows, n = k->loss_scale > 0 ? most : most - 2;
        memcpy(t->row + t->n, rows, n * sizeof *rows);
        t->n += n;
        if (now - t->stored > STORE_EVERY || t->n + n > sizeof t->row / sizeof *t->row) store_rows(t, now);
    }
    if (!t->st) t->st = alive(t->w, now, t->err);
    if (now - t->shown > SHOW_EVERY || last) {
        double rate = (double)(k->step + 1) * step_tokens / (now - t->started);
        char left[PRINT_SHORT], speed[PRINT_SHORT];
        t->shown = now;
        runner_progress(t->w->r, k->step + 1, k->steps, "%s: %s %llu/%llu, loss %.4f, %s tokens/s, %s left",
                        t->w->r->label, t->on, (unsigned long long)k->step + 1, (unsigned long long)k->steps,
                        k->loss, print_count(rate, speed),
                        duration((double)(k->steps - k->step - 1) * step_tokens / rate, left));
    }
    return t->st || runner_stop(t->w->r);
}

static colm_status train_watched(stage_work *w, const char *on, train_result *ret, colm_err *err) {
    const spec_stage *s = w->stage;
    batch_part part[sizeof s->part / sizeof *s->part];
    char stream[64];
    colm_status st = COLM_OK;
    for (uint32_t i = 0; i < s->n_parts && !st; i++) {
        st = runner_corpus(w->r, s->part[i].data, &part[i].corpus, err);
        part[i].weight = s->part[i].weight;
    }
    if (st) return st;
    snprintf(stream, sizeof stream, "batches of training stage %u", w->at->train_stages);
    rng_stream seeds = rng_open(w->r->seed, stream);
    double now = clock_seconds();
    colm_err trouble;
    train_watch watch = {.w = w, .on = on, .started = now, .stored = now, .err = &trouble};
    train_job job = {.params = s->train,
                     .eos = tokenizer_eos(w->r->tok),
                     .part = part,
                     .n_parts = s->n_parts,
                     .seed = rng_u64(&seeds, 0),
                     .tick = train_ticked,
                     .user = &watch};
    st = train_run(w->r->machine, w->weights, &job, ret, err);
    store_rows(&watch, now); /* also of a training that failed: its course tells why */
    if (watch.st && err) *err = trouble;
    return watch.st ? watch.st : st; /* trouble with the database outranks the stop that it caused */
}

/* Chains that do not train must come out as they went in: a certificate stands between two witnesses. */
static colm_status train(stage_work *w, store_stage_result *ret, str *certificate, colm_err *err) {
    uint32_t frozen = w->stage->train.frozen;
    model_precision precision = w->stage->precision;
    retention_witness before, after;
    train_result r;
    char on[256], chains[64], tokens[PRINT_SHORT], took[PRINT_SHORT], speed[PRINT_SHORT], skipped[96] = "";
    colm_status st = COLM_OK;
    stage_what(w->r->spec, w->stage, on, sizeof on);
    if (frozen) st = retention_witness_take(w->r->machine, w->weights, precision, frozen, &before, err);
    if (!st) st = train_watched(w, on, &r, err);
    if (!st && frozen) st = retention_witness_take(w->r->machine, w->weights, precision, frozen, &after, err);
    if (!st && frozen) st = retention_certify(&before, &after, false, certificate, err);
    if (st) return st;
    ret->tokens = r.tokens, ret->flops = (double)r.flops, ret->seconds = r.seconds, ret->memory = r.memory;
    model_config_name(&w->stage->model, chains, sizeof chains);
    if (r.skipped)
        snprintf(skipped, sizeof skipped, "; %llu of %llu steps skipped: gradients beyond float16",
                 (unsigned long long)r.skipped, (unsigned long long)r.steps);
    runner_event(w->r, COLM_EVENT_LINE, "%s: trained %s on %s: loss %.4f after %s tokens, %s, %s tokens/s%s%s",
                 w->r->label, chains, on, r.loss, print_count((double)r.tokens, tokens),
                 duration(r.seconds, took), print_count((double)r.tokens / r.seconds, speed), skipped,
                 frozen ? "; frozen chains certified unchanged" : "");
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
    model_precision precision = w->stage->precision;
    colm_status st = retention_witness_take(w->r->machine, w->weights, precision, old, &before, err);
    if (!st) st = model_weights_grow(w->weights, &w->stage->model, w->r->seed, &bigger, err);
    if (!st) st = retention_witness_take(w->r->machine, bigger, precision, old, &after, err);
    if (!st) st = retention_certify(&before, &after, true, certificate, err);
    if (st) {
        model_weights_free(&bigger);
        return st;
    }
    model_weights_free(&w->weights);
    w->weights = bigger;
    ret->seconds = clock_seconds() - start;
    runner_event(w->r, COLM_EVENT_LINE, "%s: grown from %s to %s; logits certified unchanged", w->r->label,
                 from, to);
    return COLM_OK;
}

typedef struct {
    stage_work *w;
    const char *task;
    double shown;
    colm_status st;
    colm_err *err;
} eval_watch;

static bool eval_ticked(void *user, size_t done, size_t total) {
    eval_watch *e = user;
    double now = clock_seconds();
    if (!e->st) e->st = alive(e->w, now, e->err);
    if (now - e->shown > SHOW_EVERY) {
        e->shown = now;
        runner_progress(e->w->r, done, total, "%s: %s %zu/%zu", e->w->r->label, e->task, done, total);
    }
    return e->st || runner_stop(e->w->r);
}

/* "bible_bits, bits_per_byte by scale: 4.795, 4.391 +- 0.038", and what was not asked as it should have been.
 */
static void tell_scores(const stage_work *w, const char *task, const eval_outcome *o) {
    str line = {0};
    char value[PRINT_SHORT];
    const eval_score *top = &o->score[(size_t)(o->n_scales - 1) * o->n_scores];
    str_addf(&line, "%s, %s%s:", task, top->metric, o->n_scales > 1 ? " by scale" : "");
    for (uint32_t s = 0; s < o->n_scales; s++)
        str_addf(&line, "%s %s", s ? "," : "", print_fixed(o->score[(size_t)s * o->n_scores].value, 4, value));
    if (isfinite(top->stderr_)) str_addf(&line, " +- %s", print_fixed(top->stderr_, 4, value));
    if (top->n_skipped)
        str_addf(&line, "; %u of %u items left out, longer than the model's context", top->n_skipped,
                 top->n + top->n_skipped);
    if (top->n_truncated) str_addf(&line, "; %u cut at their beginning to fit", top->n_truncated);
    if (!line.failed) runner_event(w->r, COLM_EVENT_LINE, "%s: %s", w->r->label, line.text);
    str_done(&line);
}

static colm_status eval_one(stage_work *w, uint32_t index, scorer *sc, colm_err *err) {
    static const char *const kinds[] = {
        [EVAL_CLOZE] = "cloze", [EVAL_CHOICE] = "choice", [EVAL_BITS_PER_BYTE] = "bits_per_byte"};
    runner *r = w->r;
    const spec_task *ts = &r->spec->task[index];
    const eval_task *t = NULL;
    const corpus *c = NULL;
    eval_outcome *o = NULL;
    colm_err trouble;
    colm_status st = runner_task(r, index, &t, err);
    if (!st && ts->data >= 0) st = runner_corpus(r, (uint32_t)ts->data, &c, err);
    if (st) return st;
    eval_watch watch = {.w = w, .task = ts->task.name, .err = &trouble};
    st = eval_task_run(t, scorer_model(sc), eval_ticked, &watch, &o, err);
    if (watch.st) {
        if (err) *err = trouble;
        st = watch.st;
    }
    if (!st) {
        store_task_row row = {.task = ts->task.name,
                              .kind = kinds[ts->task.kind],
                              .task_digest = eval_task_digest(t),
                              .data_digest = c ? corpus_digest(c) : NULL,
                              .tokenizer_digest = tokenizer_digest(r->tok),
                              .checkpoint_digest = *w->at->checkpoint ? w->at->checkpoint : NULL,
                              .task_version = eval_task_version(t)};
        st = store_scores(r->db, w->id, &row, o, err);
    }
    if (!st) tell_scores(w, ts->task.name, o);
    eval_outcome_free(&o);
    return st;
}

static colm_status eval(stage_work *w, store_stage_result *ret, colm_err *err) {
    scorer *sc = NULL;
    double start = clock_seconds();
    colm_status st = scorer_open(w->r->machine, w->weights, w->stage->precision, 0, &sc, err);
    for (uint32_t i = 0; i < w->stage->n_tasks && !st; i++) st = eval_one(w, w->stage->task[i], sc, err);
    if (!st) {
        ret->tokens = scorer_tokens(sc), ret->flops = (double)scorer_flops(sc);
        ret->seconds = clock_seconds() - start;
    }
    scorer_close(&sc);
    return st;
}

colm_status stage_run(stage_work *w, store_stage_result *ret, str *certificate, colm_err *err) {
    *ret = (store_stage_result){0};
    spec_kind kind = w->stage->kind;
    colm_status st = kind == SPEC_TRAIN  ? train(w, ret, certificate, err)
                     : kind == SPEC_GROW ? grow(w, ret, certificate, err)
                                         : eval(w, ret, err);
    if (!st && kind != SPEC_EVAL) st = checkpoint(w, ret, err);
    ret->certificate = certificate->len ? certificate->text : NULL;
    return st;
}
