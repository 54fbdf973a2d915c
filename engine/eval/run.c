#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eval/internal.h"
#include "engine/eval/metrics.h"

enum { CHUNK = 256, METRICS_MAX = 3 };

// What is asked of a model of one length: requests (windows of documents) in the order of the items. The scores
// of all windows of one choice or document add up in one slot.
typedef struct {
    eval_request *req;
    size_t *slot; // of each request
    size_t n, n_slots;
    uint32_t *item, n_items; // those that are scored
    uint32_t n_truncated, n_skipped;
    size_t *item_slot; // first slot of each scored item
} plan;

static void plan_done(plan *p) {
    free(p->req);
    free(p->slot);
    free(p->item);
    free(p->item_slot);
}

// Windows for a request: one, or for a document as many as its tokens need, max_length scored ones in each.
static size_t count_windows(const eval_task *t, const task_request *r, uint32_t max_length) {
    return t->kind == EVAL_BITS_PER_BYTE ? ((size_t)r->n_cont + max_length - 1) / max_length : 1;
}

// The whole, without its beginning where it is longer than the model can read. True when that was so.
static bool cut_choice(const uint32_t *pool, const task_request *r, uint32_t max_length, eval_request *ret) {
    const size_t most = (size_t)max_length + 1, n = (size_t)r->n_context + r->n_cont,
                 cut = n > most ? n - most : 0;
    *ret = (eval_request){pool + r->token + cut, (uint32_t)(r->n_context - cut), r->n_cont};
    return cut > 0;
}

// Window w scores the document's tokens from w * max_length on, and reads as much before them as fits. Token -1
// of a document is the prefix.
static eval_request window(const uint32_t *pool, const task_request *r, uint32_t max_length, size_t w) {
    const size_t from = 1 + w * max_length, left = 1 + (size_t)r->n_cont - from;
    const size_t n = left < max_length ? left : max_length;
    const size_t begin = w ? from + n - max_length - 1 : 0;
    return (eval_request){pool + r->token + begin, (uint32_t)(from - begin), (uint32_t)n};
}

static bool too_long(const eval_task *t, const task_item *it, uint32_t max_length) {
    for (uint32_t c = 0; c < it->n_choices; c++)
        if (t->request[it->request + c].n_cont > max_length) return t->kind != EVAL_BITS_PER_BYTE;
    return false;
}

static colm_status make_plan(const eval_task *t, uint32_t max_length, plan *p, colm_err *err) {
    size_t most = 0;
    for (size_t i = 0; i < t->n_requests; i++) most += count_windows(t, &t->request[i], max_length);
    p->req = mem_alloc(most, sizeof *p->req);
    p->slot = mem_alloc(most, sizeof *p->slot);
    p->item = mem_alloc(t->n_items, sizeof *p->item);
    p->item_slot = mem_alloc(t->n_items, sizeof *p->item_slot);
    if (!p->req || !p->slot || !p->item || !p->item_slot)
        return err_nomem(err, most * sizeof *p->req, "requests");
    for (size_t i = 0; i < t->n_items; i++) {
        const task_item *it = &t->item[i];
        bool truncated = false;
        if (too_long(t, it, max_length)) {
            p->n_skipped++;
            continue;
        }
        p->item[p->n_items] = (uint32_t)i;
        p->item_slot[p->n_items++] = p->n_slots;
        for (uint32_t c = 0; c < it->n_choices; c++, p->n_slots++) {
            const task_request *r = &t->request[it->request + c];
            const size_t windows = count_windows(t, r, max_length);
            for (size_t w = 0; w < windows; w++, p->n++) {
                p->slot[p->n] = p->n_slots;
                if (t->kind == EVAL_BITS_PER_BYTE) {
                    p->req[p->n] = window(t->tokens.id, r, max_length, w);
                } else if (cut_choice(t->tokens.id, r, max_length, &p->req[p->n])) {
                    truncated = true;
                }
            }
        }
        p->n_truncated += truncated;
    }
    if (p->n_items) return COLM_OK;
    return err_set(err, COLM_E_INPUT,
                   "all %zu items have a continuation of more than the %u tokens the model reads", t->n_items,
                   max_length);
}

// The scored item that a slot belongs to.
static uint32_t item_of(const plan *p, size_t slot) {
    uint32_t low = 0, high = p->n_items;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (p->item_slot[mid] <= slot) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return p->item[low];
}

// Fills sum[scale * n_slots + slot].
static colm_status score_all(const plan *p, const eval_model *m, size_t chunk,
                             bool (*tick)(void *user, size_t done, size_t total), void *user, double *sum,
                             colm_err *err) {
    colm_status s = COLM_OK;
    eval_result *got = mem_alloc(chunk, m->n_scales * sizeof *got);
    if (!got) return err_nomem(err, chunk * m->n_scales * sizeof *got, "scores");
    for (size_t at = 0; at < p->n && !s; at += chunk) {
        const size_t n = p->n - at < chunk ? p->n - at : chunk;
        for (size_t i = 0; i < n * m->n_scales; i++) got[i].logprob = NAN; // what is not written must not pass
        s = m->score(m->user, p->req + at, n, got, err);
        for (size_t i = 0; i < n && !s; i++) {
            for (size_t scale = 0; scale < m->n_scales && !s; scale++) {
                const double v = got[i * m->n_scales + scale].logprob;
                const size_t slot = p->slot[at + i];
                sum[scale * p->n_slots + slot] += v;
                if (!isfinite(v))
                    s = err_set(err, COLM_E_CHECK, "item %u, scale %zu: log-probability %g of %u tokens",
                                item_of(p, slot), scale + 1, v, p->req[at + i].n_cont);
            }
        }
        if (!s && tick && tick(user, at + n, p->n))
            s = err_set(err, COLM_E_INTERRUPTED, "stopped after %zu of %zu requests", at + n, p->n);
    }
    free(got);
    return s;
}

// ---- outcome

typedef struct {
    eval_outcome public; // first: what callers hold
    arena mem;
} outcome;

// Answers of one scale for items with choices, and its three shares.
static void judge_choices(const eval_task *t, const plan *p, double *by, eval_answer *answer,
                          eval_score *score) {
    size_t right[METRICS_MAX] = {0};
    static const char *const names[METRICS_MAX] = {"acc", "acc_norm", "acc_bytes"};
    for (uint32_t i = 0; i < p->n_items; i++) {
        const task_item *it = &t->item[p->item[i]];
        const task_request *r = &t->request[it->request];
        eval_answer *a = &answer[i];
        a->choice = metric_first_max(a->sum, NULL, a->n_choices);
        for (uint32_t c = 0; c < it->n_choices; c++) by[c] = r[c].chars;
        a->choice_norm = metric_first_max(a->sum, by, a->n_choices);
        for (uint32_t c = 0; c < it->n_choices; c++) by[c] = r[c].bytes;
        a->right = a->choice == a->gold;
        a->right_norm = a->choice_norm == a->gold;
        right[0] += a->right;
        right[1] += a->right_norm;
        right[2] += metric_first_max(a->sum, by, a->n_choices) == a->gold;
    }
    for (size_t i = 0; i < METRICS_MAX; i++) {
        metric v = metric_share(right[i], p->n_items);
        score[i] = (eval_score){names[i], true, v.value, v.stderr_, p->n_items, p->n_truncated, p->n_skipped};
    }
}

// bits and bytes: n_items each, for work.
static void judge_documents(const eval_task *t, const plan *p, double *bits, double *bytes, eval_answer *answer,
                            eval_score *score) {
    for (uint32_t i = 0; i < p->n_items; i++) {
        bits[i] = -answer[i].sum[0] / log(2);
        bytes[i] = t->request[t->item[p->item[i]].request].bytes;
        answer[i].bytes = (uint64_t)bytes[i];
    }
    metric v = metric_ratio(bits, bytes, p->n_items);
    *score = (eval_score){"bits_per_byte", false, v.value, v.stderr_, p->n_items, p->n_truncated, p->n_skipped};
}

static size_t most_choices(const eval_task *t) {
    size_t most = 0;
    for (size_t i = 0; i < t->n_items; i++)
        if (t->item[i].n_choices > most) most = t->item[i].n_choices;
    return most;
}

static colm_status judge(const eval_task *t, const plan *p, outcome *o, const double *sum, colm_err *err) {
    eval_outcome *q = &o->public;
    const bool documents = t->kind == EVAL_BITS_PER_BYTE;
    q->n_answers = p->n_items;
    q->n_scores = documents ? 1 : METRICS_MAX;
    q->score = arena_alloc(&o->mem, (size_t)q->n_scales * q->n_scores, sizeof *q->score);
    q->answer = arena_alloc(&o->mem, (size_t)q->n_scales * q->n_answers, sizeof *q->answer);
    double *work = mem_alloc(documents ? 2 * (size_t)p->n_items : most_choices(t), sizeof *work);
    if (!q->score || !q->answer || !work) {
        free(work);
        return err_nomem(err, (size_t)q->n_scales * q->n_answers * sizeof *q->answer, "answers");
    }
    for (size_t scale = 0; scale < q->n_scales; scale++) {
        eval_answer *answer = q->answer + scale * q->n_answers;
        eval_score *score = q->score + scale * q->n_scores;
        for (uint32_t i = 0; i < p->n_items; i++) {
            const task_item *it = &t->item[p->item[i]];
            answer[i] = (eval_answer){.item = p->item[i],
                                      .n_choices = it->n_choices,
                                      .gold = it->gold,
                                      .sum = sum + scale * p->n_slots + p->item_slot[i]};
        }
        if (documents) {
            judge_documents(t, p, work, work + p->n_items, answer, score);
        } else {
            judge_choices(t, p, work, answer, score);
        }
    }
    free(work);
    return COLM_OK;
}

colm_status task_run(const eval_task *t, const eval_model *m, size_t chunk,
                     bool (*tick)(void *user, size_t done, size_t total), void *user, eval_outcome **ret,
                     colm_err *err) {
    plan p = {0};
    double *sum;
    colm_status s;
    outcome *o = mem_alloc(1, sizeof *o);
    if (!o) return err_nomem(err, sizeof *o, "an outcome");
    if (m->n_scales == 0 || m->max_length == 0) {
        s = err_set(err, COLM_E_INPUT, "a model of %u scales that reads %u tokens cannot be scored",
                    m->n_scales, m->max_length);
        goto out;
    }
    s = make_plan(t, m->max_length, &p, err);
    if (s) goto out;
    o->public.n_scales = m->n_scales;
    sum = arena_alloc(&o->mem, p.n_slots, m->n_scales * sizeof *sum);
    s = sum ? score_all(&p, m, chunk, tick, user, sum, err) : err_nomem(err, p.n_slots * sizeof *sum, "scores");
    if (!s) s = judge(t, &p, o, sum, err);
out:
    plan_done(&p);
    if (s) {
        err_at(err, "task \"%s\"", t->name);
        eval_outcome *q = &o->public;
        eval_outcome_free(&q);
    } else {
        *ret = &o->public;
    }
    return s;
}

colm_status eval_task_run(const eval_task *t, const eval_model *m,
                          bool (*tick)(void *user, size_t done, size_t total), void *user, eval_outcome **ret,
                          colm_err *err) {
    return task_run(t, m, CHUNK, tick, user, ret, err);
}

void eval_outcome_free(eval_outcome **public) {
    outcome *o = (outcome *)*public;
    if (!o) return;
    arena_done(&o->mem);
    free(o);
    *public = NULL;
}
