#include "engine/train/loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/train/scale.h"

static uint32_t micro_batches(const train_params *p) {
    return p->accumulate ? p->accumulate : 1;
}

/* The model that takes part: chains beyond the largest scale with a loss do not. */
static model_config taking_part(const model_config *c, const train_params *p) {
    return model_config_prefix(c, p->scale ? p->scale : c->n_chains);
}

/* A separate head has no gradient but its own scale's: without a loss there it would never train. */
static colm_status check_losses(const model_config *c, const train_params *p, colm_err *err) {
    bool weighted = p->lambda[c->n_chains - 1] > 0;
    for (uint32_t i = p->frozen; c->family.head == HEAD_SEPARATE && i < c->n_chains; i++)
        if (!(weighted ? p->lambda[i] > 0 : i + 1 == c->n_chains))
            return err_set(err, COLM_E_INPUT,
                           "scale %u has no loss, so its separate head would never train: weigh it in \"loss\" "
                           "(\"multi\" weighs all), freeze its chain, or make \"head\" nested",
                           i + 1);
    return COLM_OK;
}

static graph_params graph_shape(const model_config *c, const train_params *p, uint32_t eos) {
    bool weighted = p->lambda[c->n_chains - 1] > 0;
    return (graph_params){.B = p->batch,
                          .T = p->context,
                          .train = true,
                          .lambda = weighted ? p->lambda : NULL,
                          .documents = p->documents,
                          .eos = eos,
                          .recompute = p->recompute};
}

uint64_t train_trained(const model_config *full, const train_params *p) {
    model_config c = taking_part(full, p);
    uint64_t heads = 0;
    for (uint32_t i = p->frozen; i < c.n_chains; i++)
        heads += (uint64_t)param_rows(&c, PARAM_HEAD, i) * param_cols(&c, PARAM_HEAD, i, 0);
    return p->head_only ? heads : model_params(&c, p->frozen, c.n_chains);
}

uint64_t train_tokens(const train_params *p) {
    return train_steps(p) * micro_batches(p) * p->batch * p->context;
}

double train_flops(const model_config *full, const train_params *p) {
    model_config c = taking_part(full, p);
    uint64_t backward = p->head_only ? 0 : model_flops_backward(&c, p->frozen, p->context);
    for (uint32_t i = p->frozen; p->head_only && i < c.n_chains; i++) /* dW of the heads alone */
        backward += 2ull * p->context * c.vocab * param_cols(&c, PARAM_HEAD, i, 0);
    return (double)train_steps(p) * micro_batches(p) * p->batch *
           (double)(model_flops_forward(&c, c.n_chains, p->context) + backward);
}

/* State and graph for a stage, on any machine. */
static colm_status set_up(ops_machine *m, const model_weights *w, const train_params *p, uint32_t eos,
                          model_state **ret_s, model_graph **ret_g, colm_err *err) {
    graph_params gp = graph_shape(&w->config, p, eos);
    const model_trained what = {p->frozen, p->head_only, p->precision};
    colm_status st = model_state_create_trained(m, w, what, ret_s, err);
    return st ? st : model_graph_create(*ret_s, &gp, ret_g, err);
}

/* Bytes of a stage by purpose, found by building it on a machine that only counts. */
static const char *const purposes[] = {"parameters",  "working weights", "gradients", "optimizer",
                                       "activations", "scratch",         "step data"};
#define PURPOSES (sizeof purposes / sizeof *purposes)

static colm_status count_bytes(const model_config *full, const train_params *p, uint64_t by[PURPOSES],
                               uint64_t *ret_all, colm_err *err) {
    model_config c = taking_part(full, p);
    ops_machine *m = NULL;
    model_weights *w = NULL;
    model_state *s = NULL;
    model_graph *g = NULL;
    colm_status st = check_losses(&c, p, err);
    if (!st) st = ops_open_plan(&m, err);
    if (!st) st = model_weights_outline(&c, &w, err);
    if (!st) st = set_up(m, w, p, 0, &s, &g, err);
    for (size_t i = 0; i < PURPOSES && !st; i++) by[i] = ops_bytes(m, purposes[i]);
    if (!st) *ret_all = ops_bytes(m, NULL);
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w);
    ops_close(&m);
    return st;
}

colm_status train_memory(const model_config *c, const train_params *p, uint64_t *ret, colm_err *err) {
    uint64_t by[PURPOSES];
    return count_bytes(c, p, by, ret, err);
}

colm_status train_fits(const model_config *c, const train_params *p, uint64_t available, colm_err *err) {
    uint64_t by[PURPOSES], all = 0;
    char list[320] = "";
    colm_status st = count_bytes(c, p, by, &all, err);
    if (st || all <= available) return st;
    for (size_t i = 0, at = 0; i < PURPOSES && at < sizeof list; i++)
        if (by[i])
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s %llu", at ? ", " : "", purposes[i],
                                   (unsigned long long)by[i]);
    return err_set(err, COLM_E_MEMORY,
                   "the stage needs %llu bytes of device memory (%s); there are %llu: lower \"batch\" and "
                   "raise \"accumulate\", or set "
                   "\"recompute\"",
                   (unsigned long long)all, list, (unsigned long long)available);
}

/* The switch nan-grad: a fault between the backward pass and the update. */
static colm_status spoil(const model_state *s, colm_err *err) {
    const float nan = NAN;
    return ops_write(s->machine, s->grads, 0, &nan, 1, err);
}

/* The micro-batches of one step, then the update. Windows have a target at every row. */
static colm_status one_step(model_state *state, model_graph *g, const train_job *job, uint64_t s,
                            const graph_update *u, uint32_t *tokens, uint32_t *targets, graph_report *ret,
                            colm_err *err) {
    const train_params *p = &job->params;
    uint32_t n = micro_batches(p);
    uint64_t in_step = (uint64_t)n * p->batch * p->context;
    const bool spoilt = ops_switches(state->machine)->nan_grad == s + 1, at_once = n == 1 && !spoilt;
    graph_report sum = {0};
    for (uint32_t k = 0; k < n; k++) {
        graph_report r;
        colm_status st = batch_fill_rows(job->part, job->n_parts, job->seed, s, k * p->batch, p->batch,
                                         p->context, tokens, targets, err);
        if (!st)
            st = at_once ? model_graph_train(g, tokens, targets, u, &r, err)
                         : model_graph_accumulate(g, tokens, targets, in_step, k, &r, err);
        if (st) return st;
        sum.loss += r.loss;
        sum.grad_norm = r.grad_norm;
        sum.skipped = r.skipped;
    }
    colm_status st = spoilt ? spoil(state, err) : COLM_OK;
    if (!st && !at_once) st = model_graph_apply(g, u, &sum, err);
    if (!st) *ret = sum;
    return st;
}

/* What a step came to, or why there is no going on. In float16 gradients may overflow now and then; a loss that
 * is not finite, or gradients that stay so, have another cause than the loss scale. */
static colm_status check_step(const train_params *p, uint64_t s, const graph_report *r, const loss_scale *scale,
                              colm_err *err) {
    bool f16 = p->precision == PRECISION_F16;
    if (!isfinite(r->loss) || (!f16 && !isfinite(r->grad_norm)))
        return err_set(err, COLM_E_CHECK,
                       "step %llu: loss %g, gradient norm %g: not finite; a lower \"lr\" or a \"clip\" usually "
                       "helps%s",
                       (unsigned long long)s, r->loss, r->grad_norm,
                       f16 ? ", or precision \"bf16\", which has the range of float32" : "");
    if (scale->in_row < LOSS_SCALE_PATIENCE) return COLM_OK;
    return err_set(
        err, COLM_E_CHECK,
        "step %llu: %u steps in a row had gradients beyond float16, the last at a loss scale of %g: a "
        "lower \"lr\" or smaller loss weights may help; precision \"bf16\" has the range of float32",
        (unsigned long long)s, scale->in_row, scale->factor);
}

static colm_status steps_run(model_state *state, model_graph *g, const train_job *job, uint32_t *tokens,
                             uint32_t *targets, train_result *ret, colm_err *err) {
    const train_params *p = &job->params;
    uint64_t steps = train_steps(p), tail = steps - steps / 10;
    double tokens_per_step = (double)micro_batches(p) * p->batch * p->context, sum = 0, start = clock_seconds();
    loss_scale scale = loss_scale_first();
    bool f16 = p->precision == PRECISION_F16;
    if (tail == steps) tail = steps - 1;
    for (uint64_t s = 0; s < steps; s++) {
        double before = clock_seconds();
        graph_update u = {train_lr(p, s), p->beta1, p->beta2, p->eps, p->decay, p->clip, scale.applied + 1};
        double factor = f16 ? scale.factor : 0;
        graph_report r;
        if (f16) model_graph_scale_loss(g, factor);
        colm_status st = one_step(state, g, job, s, &u, tokens, targets, &r, err);
        if (st) {
            err_at(err, "step %llu", (unsigned long long)s);
            return st; /* also of an error told to nobody */
        }
        scale = loss_scale_after(scale, r.skipped);
        if ((st = check_step(p, s, &r, &scale, err))) return st;
        if (s >= tail) sum += r.loss;
        train_tick t = {s,           steps,        r.loss,
                        r.grad_norm, u.lr,         tokens_per_step / (clock_seconds() - before),
                        factor,      scale.skipped};
        if (job->tick && job->tick(job->user, &t))
            return err_set(err, COLM_E_INTERRUPTED, "stopped after step %llu", (unsigned long long)s);
    }
    ret->steps = steps;
    ret->tokens = train_tokens(p);
    ret->seconds = clock_seconds() - start;
    ret->loss = sum / (double)(steps - tail);
    ret->skipped = scale.skipped;
    return COLM_OK;
}

/* The weights that take part: w itself, or its first chains when the loss is taken at a smaller scale. */
static colm_status part_of(model_weights *w, const train_params *p, model_weights **ret, colm_err *err) {
    if (!p->scale || p->scale >= w->config.n_chains) return *ret = w, COLM_OK;
    return model_weights_prefix(w, p->scale, ret, err);
}

colm_status train_run(ops_machine *m, model_weights *w, const train_job *job, train_result *ret,
                      colm_err *err) {
    const train_params *p = &job->params;
    model_state *s = NULL;
    model_graph *g = NULL;
    model_weights *part = NULL;
    train_result r = {.flops = train_flops(&w->config, p)};
    size_t rows = (size_t)p->batch * p->context;
    uint32_t *ids = mem_alloc(2 * rows, sizeof *ids);
    colm_status st = ids ? COLM_OK : err_nomem(err, 2 * rows * sizeof *ids, "batch");
    if (!st) st = part_of(w, p, &part, err);
    if (!st) st = train_fits(&w->config, p, ops_memory(m), err);
    if (!st) st = set_up(m, part, p, job->eos, &s, &g, err);
    r.memory = ops_bytes(m, NULL);
    if (!st) st = steps_run(s, g, job, ids, ids + rows, &r, err);
    /* The head of a new chain starts at zero, so its body has no gradient before the second step. */
    if (!st && r.steps - r.skipped >= 2)
        st = model_state_check_trained(s, p->context > 1 && part->config.family.window != 1, err);
    if (!st) st = model_state_download(s, part, err);
    if (!st && part != w) memcpy(w->data, part->data, part->n_elems * sizeof *w->data);
    if (!st) *ret = r;
    model_graph_free(&g);
    model_state_free(&s);
    if (part != w) model_weights_free(&part);
    free(ids);
    return st;
}
