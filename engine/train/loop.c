#include "engine/train/loop.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"

static graph_params graph_shape(const train_params *p) {
    return (graph_params){.B = p->batch, .T = p->context, .train = true};
}

uint64_t train_flops(const model_config *c, const train_params *p) {
    uint64_t sequence =
        model_flops_forward(c, c->n_chains, p->context) + model_flops_backward(c, p->frozen, p->context);
    return train_steps(p) * p->batch * sequence;
}

colm_status train_memory(const model_config *c, const train_params *p, uint64_t *ret, colm_err *err) {
    ops_machine *m = NULL;
    model_weights *w = NULL;
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params gp = graph_shape(p);
    colm_status st = ops_open_plan(&m, err);
    if (!st) st = model_weights_create(c, &w, err);
    if (!st) st = model_state_create(m, w, p->frozen, &s, err);
    if (!st) st = model_graph_create(s, &gp, &g, err);
    if (!st) *ret = ops_bytes(m, NULL);
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w);
    ops_close(&m);
    return st;
}

static colm_status steps_run(model_graph *g, const train_job *job, uint32_t *tokens, uint32_t *targets,
                             train_result *ret, colm_err *err) {
    const train_params *p = &job->params;
    uint64_t steps = train_steps(p), tail = steps - steps / 10;
    double sum = 0, start = clock_seconds();
    if (tail == steps) tail = steps - 1;
    for (uint64_t s = 0; s < steps; s++) {
        double before = clock_seconds();
        graph_update u = {train_lr(p, s), p->beta1, p->beta2, p->eps, p->decay, p->clip, s + 1};
        graph_report r;
        colm_status st =
            batch_fill(job->part, job->n_parts, job->seed, s, p->batch, p->context, tokens, targets, err);
        if (!st) st = model_graph_train(g, tokens, targets, &u, &r, err);
        if (st) return err_at(err, "step %llu", (unsigned long long)s);
        if (!isfinite(r.loss) || !isfinite(r.grad_norm))
            return err_set(
                err, COLM_E_CHECK,
                "step %llu: loss %g, gradient norm %g: not finite; a lower \"lr\" or a \"clip\" usually helps",
                (unsigned long long)s, r.loss, r.grad_norm);
        if (s >= tail) sum += r.loss;
        train_tick t = {s,           steps, r.loss,
                        r.grad_norm, u.lr,  p->batch * p->context / (clock_seconds() - before)};
        if (job->tick && job->tick(job->user, &t))
            return err_set(err, COLM_E_INTERRUPTED, "stopped after step %llu", (unsigned long long)s);
    }
    ret->steps = steps;
    ret->tokens = steps * p->batch * p->context;
    ret->seconds = clock_seconds() - start;
    ret->loss = sum / (double)(steps - tail);
    return COLM_OK;
}

colm_status train_run(ops_machine *m, model_weights *w, const train_job *job, train_result *ret,
                      colm_err *err) {
    const train_params *p = &job->params;
    model_state *s = NULL;
    model_graph *g = NULL;
    train_result r = {.flops = train_flops(&w->config, p)};
    size_t rows = (size_t)p->batch * p->context;
    uint32_t *ids = mem_alloc(2 * rows, sizeof *ids);
    graph_params gp = graph_shape(p);
    colm_status st = ids ? COLM_OK : err_nomem(err, 2 * rows * sizeof *ids, "batch");
    if (!st) st = model_state_create(m, w, p->frozen, &s, err);
    if (!st) st = model_graph_create(s, &gp, &g, err);
    r.memory = ops_bytes(m, NULL);
    if (!st) st = steps_run(g, job, ids, ids + rows, &r, err);
    /* The head of a new chain starts at zero, so its body has no gradient before the second step. */
    if (!st && r.steps >= 2) st = model_state_check_trained(s, err);
    if (!st) st = model_state_download(s, w, err);
    if (!st) *ret = r;
    model_graph_free(&g);
    model_state_free(&s);
    free(ids);
    return st;
}
