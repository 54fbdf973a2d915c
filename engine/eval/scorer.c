#include "engine/eval/scorer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

/* One batch shape: B rows of T, and its buffers. */
typedef struct {
    model_graph *graph; /* NULL: none yet */
    uint32_t B, T;
    uint32_t *tokens, *targets, *top;
    float *nll;
} shape;

#define BUCKETS 12 /* T = 32, 64, ... 65536 */

struct scorer {
    model_state *state;
    eval_model model;
    uint32_t rows;
    uint64_t tokens, flops;
    shape shape[BUCKETS]; /* kept from call to call */
};

static void shape_close(shape *sh) {
    model_graph_free(&sh->graph);
    free(sh->tokens);
    free(sh->targets);
    free(sh->top);
    free(sh->nll);
    *sh = (shape){0};
}

/* A shape for that many requests of T: the one there is, unless it holds fewer rows than could be filled. */
static colm_status shape_get(scorer *s, shape *sh, uint32_t T, size_t requests, colm_err *err) {
    uint32_t B = s->rows / T ? s->rows / T : 1;
    if (B > requests) B = (uint32_t)requests;
    if (sh->graph && sh->T == T && sh->B >= B) return COLM_OK;
    shape_close(sh);
    sh->B = B, sh->T = T;
    size_t n = (size_t)B * T, C = s->model.n_scales;
    graph_params gp = {.B = B, .T = T};
    sh->tokens = mem_alloc(n, sizeof *sh->tokens);
    sh->targets = mem_alloc(n, sizeof *sh->targets);
    sh->top = mem_alloc(n * C, sizeof *sh->top);
    sh->nll = mem_alloc(n * C, sizeof *sh->nll);
    if (!sh->tokens || !sh->targets || !sh->top || !sh->nll) return err_nomem(err, n * C * 16, "scoring batch");
    return model_graph_create(s->state, &gp, &sh->graph, err);
}

/* Scores up to B requests, one a row: position p holds token p and is asked for token p+1 where that is scored.
 */
static colm_status batch_score(scorer *s, shape *sh, const eval_request *req, const size_t *which, size_t n,
                               eval_result *ret, colm_err *err) {
    uint32_t T = sh->T, C = s->model.n_scales;
    memset(sh->tokens, 0, (size_t)sh->B * T * sizeof *sh->tokens);
    for (size_t i = 0; i < (size_t)sh->B * T; i++) sh->targets[i] = ABI_NO_TARGET;
    for (size_t b = 0; b < n; b++) {
        const eval_request *q = &req[which[b]];
        uint32_t len = q->n_context + q->n_cont;
        memcpy(sh->tokens + b * T, q->token, (len - 1) * sizeof *q->token);
        for (uint32_t p = q->n_context - 1; p < len - 1; p++) sh->targets[b * T + p] = q->token[p + 1];
        s->tokens += len - 1;
        s->flops += model_flops_forward(&s->state->config, C, len - 1);
    }
    colm_status st = model_graph_score(sh->graph, sh->tokens, sh->targets, sh->nll, sh->top, err);
    if (st) return st;
    for (size_t b = 0; b < n; b++)
        for (uint32_t c = 0; c < C; c++) {
            const eval_request *q = &req[which[b]];
            eval_result r = {0, true};
            for (uint32_t p = q->n_context - 1; p < q->n_context + q->n_cont - 1; p++) {
                size_t at = ((size_t)c * sh->B + b) * T + p;
                r.logprob -= sh->nll[at];
                r.greedy = r.greedy && sh->top[at];
            }
            ret[which[b] * C + c] = r;
        }
    return COLM_OK;
}

/* The sequence length that a request is run at: the power of two at or above it, from 32, at most the model's
 * context. */
static uint32_t bucket(const scorer *s, const eval_request *q) {
    uint32_t need = q->n_context + q->n_cont - 1, T = 32;
    while (T < need) T *= 2;
    return T < s->model.max_length ? T : s->model.max_length;
}

static colm_status score(void *user, const eval_request *req, size_t n, eval_result *ret, colm_err *err) {
    scorer *s = user;
    colm_status st = COLM_OK;
    size_t *which = mem_alloc(n, sizeof *which);
    if (!which) return err_nomem(err, n * sizeof *which, "scoring order");
    for (size_t i = 0; i < n && !st; i++)
        if (!req[i].n_context || !req[i].n_cont || req[i].n_context + req[i].n_cont > s->model.max_length + 1)
            st = err_set(err, COLM_E_BUG, "request %zu has %u + %u tokens for a model of context %u", i,
                         req[i].n_context, req[i].n_cont, s->model.max_length);
    shape *sh = s->shape;
    for (uint32_t T = 32, last = 0; !last && !st; T *= 2, sh++) {
        last = T >= s->model.max_length;
        if (last) T = s->model.max_length;
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (bucket(s, &req[i]) == T) which[k++] = i;
        if (!k) continue;
        st = shape_get(s, sh, T, k, err);
        for (size_t i = 0; i < k && !st; i += sh->B)
            st = batch_score(s, sh, req, which + i, k - i < sh->B ? k - i : sh->B, ret, err);
    }
    free(which);
    return st;
}

colm_status scorer_open(ops_machine *m, const model_weights *w, model_precision precision, uint32_t rows,
                        scorer **ret, colm_err *err) {
    const model_trained nothing = {.frozen = w->config.n_chains, .precision = precision};
    scorer *s = mem_alloc(1, sizeof *s);
    if (!s) return err_nomem(err, sizeof *s, "scorer");
    s->rows = rows ? rows : 2048;
    s->model = (eval_model){w->config.n_chains, w->config.context, s, score};
    colm_status st = model_state_create_trained(m, w, nothing, &s->state, err);
    if (st)
        scorer_close(&s);
    else
        *ret = s;
    return st;
}

void scorer_close(scorer **ps) {
    if (!*ps) return;
    for (size_t i = 0; i < BUCKETS; i++) shape_close(&(*ps)->shape[i]);
    model_state_free(&(*ps)->state);
    free(*ps);
    *ps = NULL;
}

const eval_model *scorer_model(const scorer *s) {
    return &s->model;
}
uint64_t scorer_tokens(const scorer *s) {
    return s->tokens;
}
uint64_t scorer_flops(const scorer *s) {
    return s->flops;
}
