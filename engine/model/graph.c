/* Building a graph (where everything lies) and running it. The passes themselves are in graph_forward.c,
 * graph_backward.c. */
#include "engine/model/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/model/graph_build.h"

static uint64_t align64(uint64_t n) {
    return (n + 63) & ~(uint64_t)63;
}

static uint64_t reserve(model_graph *g, act_pool pool, uint64_t len) {
    uint64_t off = g->pool_len[pool];
    g->pool_len[pool] += align64(len);
    return off;
}

static act matrix(model_graph *g, act_pool pool, act_space space, uint32_t lo, uint32_t hi) {
    act a = {.pool = pool, .space = space, .lo = lo};
    a.ld = ops_stride(g->s->col[space][hi] - g->s->col[space][lo]);
    a.len = (uint64_t)g->rows16 * a.ld;
    a.off = reserve(g, pool, a.len);
    return a;
}

/* A value per row and chain, or per row and head. */
static act statistics(model_graph *g, act_pool pool, uint32_t lo, uint32_t hi, bool per_head) {
    act a = {.pool = pool, .lo = lo};
    a.len = align64(graph_stat_offset(g, &a, hi, per_head));
    a.off = reserve(g, pool, a.len);
    return a;
}

static void place_part(model_graph *g, act_pool pool, layer_part *p, uint32_t lo, uint32_t hi) {
    p->mid = matrix(g, pool, ACT_D, lo, hi);
    p->q = matrix(g, pool, ACT_Q, lo, hi);
    p->k = matrix(g, pool, ACT_K, lo, hi);
    p->v = matrix(g, pool, ACT_K, lo, hi);
    p->a = matrix(g, pool, ACT_F, lo, hi);
    p->b = matrix(g, pool, ACT_F, lo, hi);
    p->stat2 = statistics(g, pool, lo, hi, false);
    p->softmax = statistics(g, pool, lo, hi, true);
    if (pool == POOL_KEEP) p->softmax.len += reserve(g, pool, p->softmax.len) - p->softmax.off;
}

static void place_input(model_graph *g, act_pool pool, layer_part *p, uint32_t lo, uint32_t hi) {
    p->x = matrix(g, pool, ACT_D, lo, hi);
    p->stat1 = statistics(g, pool, lo, hi, false);
}

/* Decides where every activation lies. The frozen part of each layer, and in an evaluation everything, is the
 * same scratch for all layers. */
static void place(model_graph *g) {
    uint32_t C = g->s->config.n_chains, L = g->s->config.layers, k = g->lo[1];
    layer_part frozen = {0};
    layer_acts shared = {0};
    if (k) {
        place_input(g, POOL_SCRATCH, &frozen, 0, k);
        place_part(g, POOL_SCRATCH, &frozen, 0, k);
    }
    act_pool pool = g->p.train ? POOL_KEEP : POOL_SCRATCH;
    for (uint32_t l = 0; l <= L; l++) {
        layer_acts *a = &g->layer[l];
        a->part[0] = frozen;
        if (k < C) place_input(g, POOL_KEEP, &a->part[1], k, C);
        if (l == L) break;
        if (k < C) place_part(g, POOL_KEEP, &a->part[1], k, C);
        if (l == 0 || g->p.train) {
            shared.h1 = matrix(g, pool, ACT_D, 0, C);
            shared.o = matrix(g, pool, ACT_Q, 0, C);
            shared.h2 = matrix(g, pool, ACT_D, 0, C);
            shared.z = matrix(g, pool, ACT_F, 0, C);
        }
        a->h1 = shared.h1, a->o = shared.o, a->h2 = shared.h2, a->z = shared.z;
    }
    g->hf = matrix(g, POOL_SCRATCH, ACT_D, 0, C);
    g->logits_ld = ops_stride(ops_pad(g->s->config.vocab));
    g->logits.pool = POOL_SCRATCH;
    g->logits.ld = g->logits_ld;
    g->logits.len = (uint64_t)ops_rows(g->p.keep_logits ? g->rows : g->p.head_rows) * g->logits_ld;
    g->logits.off = reserve(g, POOL_SCRATCH, g->p.keep_logits ? C * align64(g->logits.len) : g->logits.len);
    if (!g->p.train) return;
    g->dx = matrix(g, POOL_SCRATCH, ACT_D, k, C);
    g->dh = matrix(g, POOL_SCRATCH, ACT_D, k, C);
    g->dhf = matrix(g, POOL_SCRATCH, ACT_D, k, C);
    g->dob = matrix(g, POOL_SCRATCH, ACT_Q, 0, C);
    g->dq = matrix(g, POOL_SCRATCH, ACT_Q, k, C);
    g->dk = matrix(g, POOL_SCRATCH, ACT_K, k, C);
    g->dv = matrix(g, POOL_SCRATCH, ACT_K, k, C);
    g->dz = matrix(g, POOL_SCRATCH, ACT_F, k, C);
}

static colm_status buffers(model_graph *g, colm_err *err) {
    ops_machine *m = g->s->machine;
    static const char *const purpose[POOLS] = {"activations", "scratch"};
    const struct {
        ops_buf *buf;
        ops_dtype type;
        uint64_t n;
        bool train, eval;
    } list[] = {
        {&g->tokens, OPS_U32, g->rows16, true, true},
        {&g->targets, OPS_U32, g->rows16, true, true},
        {&g->first, OPS_U32, g->rows16, true, true},
        {&g->rope, OPS_F32, align64((uint64_t)g->p.T * g->s->config.head_dim), true, true},
        {&g->nll, OPS_F32, g->nll_stride * g->s->config.n_chains, true, true},
        {&g->top, OPS_U32, g->nll_stride * g->s->config.n_chains, false, true},
        {&g->list, OPS_U32, g->rows16, true, false},
        {&g->start, OPS_U32, g->rows16 + 16, true, false},
        {&g->order, OPS_U32, g->rows16, true, false},
        {&g->partial, OPS_F32, align64((g->s->end - g->s->trained_at) / ABI_SUMSQ_CHUNK + 64), true, false},
        {&g->clip, OPS_F32, 64, true, false},
    };
    for (act_pool p = 0; p < POOLS; p++)
        if (g->pool_len[p]) {
            colm_status st = ops_buffer(m, purpose[p], OPS_F32, g->pool_len[p], &g->pool[p], err);
            if (st) return st;
        }
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (g->p.train ? list[i].train : list[i].eval) {
            colm_status st = ops_buffer(m, "step data", list[i].type, list[i].n, list[i].buf, err);
            if (st) return st;
        }
    return COLM_OK;
}

/* Rotary tables in double on the host: sin and cos of GLSL are good to 2^-11 only (paper of RoPE: arXiv
 * 2104.09864). */
static colm_status write_rope(model_graph *g, colm_err *err) {
    uint32_t hd = g->s->config.head_dim, T = g->p.T;
    float *t = mem_alloc((size_t)T * hd, sizeof *t);
    if (!t) return err_nomem(err, (size_t)T * hd * sizeof *t, "rotary table");
    for (uint32_t pos = 0; pos < T; pos++)
        for (uint32_t i = 0; i < hd / 2; i++) {
            double angle = pos * pow(g->s->config.rope_theta, -2.0 * i / hd);
            t[(size_t)pos * hd + i] = (float)cos(angle);
            t[(size_t)pos * hd + hd / 2 + i] = (float)sin(angle);
        }
    colm_status st = ops_write(g->s->machine, g->rope, 0, t, (uint64_t)T * hd, err);
    free(t);
    return st;
}

static colm_status check_params(const model_state *s, const graph_params *p, colm_err *err) {
    const model_config *c = &s->config;
    if (!p->B || !p->T || p->T > c->context)
        return err_set(err, COLM_E_INPUT, "a batch of %u x %u tokens for a model with context %u", p->B, p->T,
                       c->context);
    if ((uint64_t)p->B * p->T > (uint64_t)1 << 24)
        return err_set(err, COLM_E_INPUT, "a batch of %u x %u tokens: at most 2^24 rows in one step", p->B,
                       p->T);
    if (p->train && s->frozen >= c->n_chains)
        return err_set(err, COLM_E_INPUT, "all %u chains are frozen: nothing to train", c->n_chains);
    if (!p->train && s->frozen < c->n_chains)
        return err_set(err, COLM_E_BUG, "an evaluation graph needs an inference state");
    return COLM_OK;
}

colm_status model_graph_create(model_state *s, const graph_params *p, model_graph **ret, colm_err *err) {
    colm_status st = check_params(s, p, err);
    if (st) return st;
    model_graph *g = mem_alloc(1, sizeof *g);
    if (!g) return err_nomem(err, sizeof *g, "graph");
    g->s = s;
    g->p = *p;
    g->rows = p->B * p->T;
    g->rows16 = ops_rows(g->rows);
    g->nll_stride = align64(g->rows);
    g->lo[0] = 0, g->hi[0] = g->lo[1] = s->frozen, g->hi[1] = s->config.n_chains;
    if (!g->p.head_rows) {
        uint64_t fit = ((uint64_t)32 << 20) / (4ull * ops_stride(ops_pad(s->config.vocab))) & ~63ull;
        g->p.head_rows = fit < 64 ? 64 : fit > 1u << 20 ? 1u << 20 : (uint32_t)fit;
    }
    if (g->p.head_rows > align64(g->rows)) g->p.head_rows = (uint32_t)align64(g->rows);
    g->layer = mem_alloc(s->config.layers + 1, sizeof *g->layer);
    g->host_nll = mem_alloc(g->rows, sizeof *g->host_nll);
    g->host_list = mem_alloc(g->rows, sizeof(uint32_t));
    g->host_start = mem_alloc(g->rows + 1, sizeof(uint32_t));
    g->host_order = mem_alloc(g->rows, sizeof(uint32_t));
    g->host_count = mem_alloc(s->config.vocab, sizeof(uint32_t));
    if (!g->layer || !g->host_nll || !g->host_list || !g->host_start || !g->host_order || !g->host_count) {
        st = err_nomem(err, (size_t)g->rows * 16, "graph");
        goto out;
    }
    place(g);
    if ((st = buffers(g, err))) goto out;
    if ((st = graph_forward(g, err)) || (st = graph_head(g, err))) goto out;
    if (p->train && ((st = graph_backward(g, err)) || (st = graph_update_list(g, err)))) goto out;
    if (ops_machine_is_plan(s->machine)) goto out;
    ops_list *lists[] = {&g->forward, &g->head, &g->backward, &g->update};
    for (size_t i = 0; i < 4; i++)
        if ((st = ops_prepare(s->machine, lists[i], err))) goto out;
    st = write_rope(g, err);
out:
    if (st)
        model_graph_free(&g);
    else
        *ret = g;
    return st;
}

void model_graph_free(model_graph **pg) {
    model_graph *g = *pg;
    if (!g) return;
    ops_list *lists[] = {&g->forward, &g->head, &g->backward, &g->update};
    for (size_t i = 0; i < 4; i++) {
        ops_unprepare(g->s->machine, lists[i]);
        ops_list_done(lists[i]);
    }
    ops_buf *bufs[] = {&g->pool[0], &g->pool[1], &g->tokens, &g->targets, &g->list, &g->start, &g->order,
                       &g->rope,    &g->nll,     &g->top,    &g->partial, &g->clip, &g->first};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) ops_buffer_free(g->s->machine, bufs[i]);
    free(g->layer);
    free(g->host_nll);
    free(g->host_list);
    free(g->host_start);
    free(g->host_order);
    free(g->host_count);
    free(g);
    *pg = NULL;
}

static colm_status write_batch(model_graph *g, const uint32_t *tokens, const uint32_t *targets, colm_err *err) {
    for (uint32_t r = 0; r < g->rows; r++)
        if (tokens[r] >= g->s->config.vocab ||
            (targets[r] >= g->s->config.vocab && targets[r] != ABI_NO_TARGET))
            return err_set(err, COLM_E_INPUT, "row %u: token %u or target %u is outside the vocabulary of %u",
                           r, tokens[r], targets[r], g->s->config.vocab);
    colm_status st = ops_write(g->s->machine, g->tokens, 0, tokens, g->rows, err);
    return st ? st : ops_write(g->s->machine, g->targets, 0, targets, g->rows, err);
}

/* The rows of every token that occurs, in row order (counting sort): what makes the embedding's gradient a
 * fixed sum. */
static colm_status write_order(model_graph *g, const uint32_t *tokens, colm_err *err) {
    uint32_t V = g->s->config.vocab, unique = 0, at = 0;
    memset(g->host_count, 0, V * sizeof *g->host_count);
    for (uint32_t r = 0; r < g->rows; r++) g->host_count[tokens[r]]++;
    for (uint32_t v = 0; v < V; v++) {
        uint32_t n = g->host_count[v];
        if (!n) continue;
        g->host_list[unique] = v;
        g->host_start[unique++] = at;
        g->host_count[v] = at; /* from now on: where this token's next row goes */
        at += n;
    }
    g->host_start[unique] = at;
    for (uint32_t r = 0; r < g->rows; r++) g->host_order[g->host_count[tokens[r]]++] = r;
    for (size_t i = 0; i < g->backward.n; i++)
        if (g->backward.call[i].op == OP_EMBED_GRAD) g->backward.call[i].p.embed_grad.unique = unique;
    ops_machine *m = g->s->machine;
    colm_status st = ops_write(m, g->list, 0, g->host_list, unique, err);
    if (!st) st = ops_write(m, g->start, 0, g->host_start, unique + 1, err);
    if (!st) st = ops_write(m, g->order, 0, g->host_order, g->rows, err);
    return st;
}

static void set_update(model_graph *g, const graph_update *u) {
    for (size_t i = 0; i < g->update.n; i++) {
        ops_call *c = &g->update.call[i];
        if (c->op == OP_CLIP) c->p.clip.clip = (float)u->clip;
        if (c->op != OP_ADAMW) continue;
        bool decays = c->t[1].off < g->s->gains_at - g->s->trained_at;
        c->p.adamw.lr = (float)u->lr;
        c->p.adamw.beta1 = (float)u->beta1;
        c->p.adamw.beta2 = (float)u->beta2;
        c->p.adamw.eps = (float)u->eps;
        c->p.adamw.decay = decays ? (float)u->decay : 0;
        c->p.adamw.c1 = (float)(1 / (1 - pow(u->beta1, (double)u->t)));
        c->p.adamw.c2 = (float)(1 / (1 - pow(u->beta2, (double)u->t)));
    }
}

static colm_status step(model_graph *g, const uint32_t *tokens, const uint32_t *targets, const graph_update *u,
                        graph_report *ret, colm_err *err) {
    if (!g->p.train) return err_set(err, COLM_E_BUG, "an evaluation graph cannot train");
    colm_status st = write_batch(g, tokens, targets, err);
    if (st || (st = write_order(g, tokens, err))) return st;
    if (u) set_update(g, u);
    const ops_list *lists[] = {&g->forward, &g->head, &g->backward, &g->update};
    if ((st = ops_run(g->s->machine, lists, u ? 4 : 3, err))) return st;
    if ((st = ops_read(g->s->machine, g->nll, 0, g->host_nll, g->rows, err))) return st;
    float clip[2] = {0};
    if (u && (st = ops_read(g->s->machine, g->clip, 0, clip, 2, err))) return st;
    double sum = 0;
    for (uint32_t r = 0; r < g->rows; r++) sum += g->host_nll[r];
    *ret = (graph_report){sum / g->rows, clip[0]};
    return COLM_OK;
}

colm_status model_graph_train(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                              const graph_update *u, graph_report *ret, colm_err *err) {
    return step(g, tokens, targets, u, ret, err);
}

colm_status model_graph_gradients(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                  graph_report *ret, colm_err *err) {
    return step(g, tokens, targets, NULL, ret, err);
}

ops_buf model_graph_nll(const model_graph *g) {
    return g->nll;
}

colm_status model_graph_score(model_graph *g, const uint32_t *tokens, const uint32_t *targets, float *ret_nll,
                              uint32_t *ret_top, colm_err *err) {
    if (g->p.train) return err_set(err, COLM_E_BUG, "a training graph cannot score");
    colm_status st = write_batch(g, tokens, targets, err);
    if (st) return st;
    const ops_list *lists[] = {&g->forward, &g->head};
    if ((st = ops_run(g->s->machine, lists, 2, err))) return st;
    for (uint32_t i = 0; i < g->s->config.n_chains && !st; i++) {
        st = ops_read(g->s->machine, g->nll, i * g->nll_stride, ret_nll + (size_t)i * g->rows, g->rows, err);
        if (!st && ret_top)
            st =
                ops_read(g->s->machine, g->top, i * g->nll_stride, ret_top + (size_t)i * g->rows, g->rows, err);
    }
    return st;
}

colm_status model_graph_logits(model_graph *g, uint32_t scale, float *ret, colm_err *err) {
    uint32_t V = g->s->config.vocab;
    if (!g->p.keep_logits || scale < 1 || scale > g->s->config.n_chains)
        return err_set(err, COLM_E_BUG, "logits of scale %u were not kept", scale);
    uint64_t off = g->logits.off + (scale - 1) * align64(g->logits.len);
    for (uint32_t r = 0; r < g->rows; r++) {
        colm_status st = ops_read(g->s->machine, g->pool[POOL_SCRATCH], off + (uint64_t)r * g->logits_ld,
                                  ret + (size_t)r * V, V, err);
        if (st) return st;
    }
    return COLM_OK;
}
