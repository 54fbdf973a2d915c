/* Building a graph and running it. Where things lie is in graph_place.c, the passes in graph_forward.c,
 * graph_head.c and graph_backward.c. */
#include "engine/model/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/model/graph_build.h"

/* Inverse frequency of a pair of dimensions (RoPE, arXiv 2104.09864), after the family's scaling: linear
 * divides all; llama3 keeps short wavelengths, divides long ones, and goes smoothly between (as published with
 * Llama 3.1). */
static double frequency(const model_config *c, uint32_t pair) {
    const model_family *f = &c->family;
    double inv = pow(c->rope_theta, -2.0 * pair / c->head_dim);
    if (f->rope_scaling == ROPE_LINEAR) return inv / f->rope_factor;
    if (f->rope_scaling == ROPE_PLAIN) return inv;
    double turns = f->rope_original * inv / (2 * acos(-1)); /* of the trained context */
    if (turns > f->rope_high) return inv;
    if (turns < f->rope_low) return inv / f->rope_factor;
    double smooth = (turns - f->rope_low) / (f->rope_high - f->rope_low);
    return (1 - smooth) * inv / f->rope_factor + smooth * inv;
}

/* Tables in double on the host: sin and cos of GLSL are good to 2^-11 only. */
static colm_status write_rope(model_graph *g, colm_err *err) {
    uint32_t hd = g->s->config.head_dim, T = g->p.T;
    float *t = mem_alloc((size_t)T * hd, sizeof *t);
    if (!t) return err_nomem(err, (size_t)T * hd * sizeof *t, "rotary table");
    for (uint32_t pos = 0; pos < T; pos++)
        for (uint32_t i = 0; i < hd / 2; i++) {
            double angle = pos * frequency(&g->s->config, i);
            t[(size_t)pos * hd + i] = (float)cos(angle);
            t[(size_t)pos * hd + hd / 2 + i] = (float)sin(angle);
        }
    colm_status st = ops_write(g->s->machine, g->rope, 0, t, (uint64_t)T * hd, err);
    free(t);
    return st;
}

/* Rows of each position, in the form of a batch's rows of each token. */
static colm_status write_positions(model_graph *g, colm_err *err) {
    ops_machine *m = g->s->machine;
    uint32_t T = g->p.T, B = g->p.B, *x = g->host_order;
    if (!g->pos) return COLM_OK;
    for (uint32_t r = 0; r < g->rows; r++) x[r] = r % T;
    TRY(ops_write(m, g->pos, 0, x, g->rows, err));
    if (!g->p.train) return COLM_OK;
    for (uint32_t t = 0; t < T; t++)
        for (uint32_t b = 0; b < B; b++) x[t * B + b] = b * T + t;
    TRY(ops_write(m, g->pos_order, 0, x, g->rows, err));
    for (uint32_t t = 0; t <= T; t++) g->host_start[t] = t * B;
    TRY(ops_write(m, g->pos_start, 0, g->host_start, T + 1, err));
    for (uint32_t t = 0; t < T; t++) g->host_list[t] = t;
    return ops_write(m, g->pos_list, 0, g->host_list, T, err);
}

/* The first position that each row may see: its document's first, and in windowed layers none before its
 * window. */
static colm_status write_first(model_graph *g, const uint32_t *tokens, colm_err *err) {
    uint32_t T = g->p.T, w = g->s->config.family.window;
    for (int windowed = 0; windowed < 2; windowed++) {
        uint32_t document = 0;
        if (!g->first[windowed]) continue;
        for (uint32_t r = 0; r < g->rows; r++) {
            uint32_t pos = r % T;
            if (pos == 0)
                document = 0;
            else if (g->p.documents && tokens[r - 1] == g->p.eos)
                document = pos;
            uint32_t first = windowed && pos + 1 > w ? pos + 1 - w : 0;
            g->host_first[r] = first > document ? first : document;
        }
        TRY(ops_write(g->s->machine, g->first[windowed], 0, g->host_first, g->rows, err));
    }
    return COLM_OK;
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
    double sum = 0;
    for (uint32_t i = 0; p->lambda && i < c->n_chains; i++) {
        sum += p->lambda[i];
        if (!(p->lambda[i] >= 0 && isfinite(p->lambda[i])))
            return err_set(err, COLM_E_INPUT, "loss weight %g of scale %u: expected a number from 0",
                           p->lambda[i], i + 1);
    }
    if (p->lambda && !(sum > 0))
        return err_set(err, COLM_E_INPUT, "no scale has a loss: all %u weights are 0", c->n_chains);
    return COLM_OK;
}

static colm_status allocate(model_graph *g, colm_err *err) {
    const model_config *c = &g->s->config;
    g->layer = mem_alloc(c->layers + 1, sizeof *g->layer);
    g->host_nll = mem_alloc(g->rows, sizeof *g->host_nll);
    g->host_list = mem_alloc(g->rows, sizeof(uint32_t));
    g->host_start = mem_alloc(g->rows + 1, sizeof(uint32_t));
    g->host_order = mem_alloc(g->rows, sizeof(uint32_t));
    g->host_first = mem_alloc(g->rows, sizeof(uint32_t));
    g->host_count = mem_alloc(c->vocab, sizeof(uint32_t));
    if (g->layer && g->host_nll && g->host_list && g->host_start && g->host_order && g->host_first &&
        g->host_count)
        return COLM_OK;
    return err_nomem(err, (size_t)g->rows * 20, "graph");
}

static void resolve(model_graph *g) {
    const model_state *s = g->s;
    uint32_t C = s->config.n_chains;
    g->rows = g->p.B * g->p.T;
    g->rows16 = ops_rows(g->rows);
    g->nll_stride = model_align(g->rows);
    g->head_lo = s->frozen;
    g->hi[0] = g->lo[1] = s->head_only ? C : s->frozen;
    g->hi[1] = C;
    for (uint32_t i = 0; i < C; i++) {
        g->lambda[i] = g->p.lambda ? g->p.lambda[i] : i + 1 == C;
        if (g->lambda[i] > 0) g->top_scale = i + 1;
    }
    for (uint32_t i = 0; i + 1 < g->top_scale; i++) g->multi = g->multi || g->lambda[i] > 0;
    g->multi = g->multi || g->top_scale < C;
    g->p.lambda = NULL;
    if (!g->p.head_rows) {
        uint64_t fit = ((uint64_t)32 << 20) / (4ull * ops_stride(ops_pad(s->config.vocab))) & ~63ull;
        g->p.head_rows = fit < 64 ? 64 : fit > 1u << 20 ? 1u << 20 : (uint32_t)fit;
    }
    if (g->p.head_rows > g->nll_stride) g->p.head_rows = (uint32_t)g->nll_stride;
}

/* What cannot be split must fit a binding of the device: the widest activation, and every tensor but the tables
 * of V rows. */
static colm_status check_windows(const model_graph *g, colm_err *err) {
    const model_state *s = g->s;
    uint64_t most = ops_window(s->machine);
    for (act_space a = 0; a < ACT_SPACES; a++) {
        uint64_t len = (uint64_t)g->rows16 * ops_stride(s->col[a][s->config.n_chains]);
        if (len > most)
            return err_set(err, COLM_E_INPUT,
                           "a batch of %u x %u tokens makes activations of %llu bytes; the device binds at "
                           "most %llu at once: lower "
                           "\"batch\" and raise \"accumulate\"",
                           g->p.B, g->p.T, 4 * (unsigned long long)len, 4 * (unsigned long long)most);
    }
    for (size_t i = 0; i < s->n_tensors; i++)
        if (s->tensor[i].len > most && param_get(s->shape[i].kind)->rows != SPACE_V)
            return err_set(err, COLM_E_INPUT, "tensor %s has %llu bytes; the device binds at most %llu at once",
                           s->shape[i].name, 4 * (unsigned long long)s->tensor[i].len,
                           4 * (unsigned long long)most);
    return COLM_OK;
}

colm_status model_graph_create(model_state *s, const graph_params *p, model_graph **ret, colm_err *err) {
    colm_status st = check_params(s, p, err);
    if (st) return st;
    ops_list *lists[GRAPH_LISTS];
    model_graph *g = mem_alloc(1, sizeof *g);
    if (!g) return err_nomem(err, sizeof *g, "graph");
    g->s = s;
    g->p = *p;
    g->loss_scale = 1;
    resolve(g);
    if ((st = allocate(g, err))) goto out;
    graph_place(g);
    if ((st = check_windows(g, err)) || (st = graph_buffers(g, err))) goto out;
    if ((st = graph_forward(g, err)) || (st = graph_head(g, err))) goto out;
    if (p->train && ((st = graph_backward(g, err)) || (st = graph_update_list(g, err)))) goto out;
    graph_lists(g, lists);
    if ((st = ops_fuse(s->machine, (ops_list *[]){&g->forward, &g->head, &g->backward}, 3, &g->joined, err)) ||
        ops_machine_is_plan(s->machine))
        goto out;
    for (size_t i = 0; i < GRAPH_LISTS; i++)
        if ((st = ops_prepare(s->machine, lists[i], err))) goto out;
    st = write_rope(g, err);
    if (!st) st = write_positions(g, err);
    if (!st && !p->documents) st = write_first(g, NULL, err);
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
    ops_list *lists[GRAPH_LISTS];
    graph_lists(g, lists);
    for (size_t i = 0; i < GRAPH_LISTS; i++) {
        ops_unprepare(g->s->machine, lists[i]);
        ops_list_done(lists[i]);
    }
    ops_buf *bufs[] = {&g->joined,   &g->tokens, &g->targets,  &g->list,      &g->start,    &g->order,
                       &g->rope,     &g->nll,    &g->top,      &g->partial,   &g->clip,     &g->first[0],
                       &g->first[1], &g->pos,    &g->pos_list, &g->pos_start, &g->pos_order};
    for (act_pool p = 0; p < POOLS; p++) ops_buffer_free(g->s->machine, &g->pool[p]);
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) ops_buffer_free(g->s->machine, bufs[i]);
    void *blocks[] = {g->layer,      g->host_nll,   g->host_list,  g->host_start,
                      g->host_order, g->host_first, g->host_count, g->scored};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
    free(g);
    *pg = NULL;
}

static colm_status write_batch(model_graph *g, const uint32_t *tokens, const uint32_t *targets, colm_err *err) {
    for (uint32_t r = 0; r < g->rows; r++)
        if (tokens[r] >= g->s->config.vocab ||
            (targets[r] >= g->s->config.vocab && targets[r] != ABI_NO_TARGET))
            return err_set(err, COLM_E_INPUT, "row %u: token %u or target %u is outside the vocabulary of %u",
                           r, tokens[r], targets[r], g->s->config.vocab);
    TRY(ops_write(g->s->machine, g->tokens, 0, tokens, g->rows, err));
    if (g->p.documents) TRY(write_first(g, tokens, err));
    return ops_write(g->s->machine, g->targets, 0, targets, g->rows, err);
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
    for (size_t i = 0; i < g->backward.n; i++) {
        ops_call *c = &g->backward.call[i];
        if (c->op == OP_EMBED_GRAD && c->t[0].buf == g->list) c->p.embed_grad.unique = unique;
    }
    ops_machine *m = g->s->machine;
    TRY(ops_write(m, g->list, 0, g->host_list, unique, err));
    TRY(ops_write(m, g->start, 0, g->host_start, unique + 1, err));
    return ops_write(m, g->order, 0, g->host_order, g->rows, err);
}

/* What changes from one micro-batch to the next: the weight of a target, and whether weight gradients start
 * anew. */
static void set_micro(model_graph *g, uint64_t targets_in_step, bool anew) {
    size_t scored = 0;
    for (size_t i = 0; i < g->head.n; i++) {
        ops_call *c = &g->head.call[i];
        if (c->op == OP_XENT_GRAD)
            c->p.xent.weight =
                (float)(g->loss_scale * g->lambda[g->scored[scored++]] / (double)targets_in_step);
        /* Of a head's slices only the first can start; its rows are the batch's first. */
        bool first = c->t[1].off == g->hf.off;
        if (c->op == OP_LINEAR_DW && first) c->p.linear.init = !anew;
        if (c->op == OP_LINEARS_DW && first) c->p.linears.init = !anew;
    }
    for (size_t i = 0; i < g->backward.n; i++) {
        ops_call *c = &g->backward.call[i];
        if (c->op == OP_LINEAR_DW) c->p.linear.init = !anew;
        if (c->op == OP_LINEARS_DW) c->p.linears.init = !anew;
    }
}

static void set_update(model_graph *g, const graph_update *u) {
    for (size_t i = 0; i < g->update.n; i++) {
        ops_call *c = &g->update.call[i];
        if (c->op == OP_CLIP) c->p.clip.clip = (float)u->clip, c->p.clip.unscale = (float)(1 / g->loss_scale);
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

static uint64_t count_targets(const model_graph *g, const uint32_t *targets) {
    uint64_t n = 0;
    for (uint32_t r = 0; r < g->rows; r++) n += targets[r] != ABI_NO_TARGET;
    return n;
}

static colm_status read_update(const model_graph *g, graph_report *io, colm_err *err) {
    float out[3];
    TRY(ops_read(g->s->machine, g->clip, 0, out, 3, err));
    io->grad_norm = out[0];
    io->skipped = out[2] != 0;
    return COLM_OK;
}

/* One recording: forward, loss, backward, and with u the update. */
static colm_status step(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                        uint64_t targets_in_step, uint32_t micro, const graph_update *u, graph_report *ret,
                        colm_err *err) {
    ops_machine *m = g->s->machine;
    if (!g->p.train) return err_set(err, COLM_E_BUG, "an evaluation graph cannot train");
    if (!targets_in_step) return err_set(err, COLM_E_INPUT, "a step without a single target has no loss");
    TRY(write_batch(g, tokens, targets, err));
    TRY(write_order(g, tokens, err));
    set_micro(g, targets_in_step, micro == 0);
    if (u) set_update(g, u);
    const ops_list *lists[GRAPH_LISTS];
    size_t n = 0;
    if (micro == 0) lists[n++] = &g->clear;
    lists[n++] = &g->forward;
    lists[n++] = &g->head;
    lists[n++] = &g->backward;
    if (u) lists[n++] = &g->update;
    TRY(graph_run(g, lists, n, err));
    graph_report r = {0};
    for (uint32_t i = 0; i < g->s->config.n_chains; i++) {
        double sum = 0;
        if (!(g->lambda[i] > 0)) continue;
        TRY(ops_read(m, g->nll, graph_nll_at(g, i), g->host_nll, g->rows, err));
        for (uint32_t k = 0; k < g->rows; k++) sum += g->host_nll[k];
        r.loss += g->lambda[i] * sum / (double)targets_in_step;
    }
    if (u) TRY(read_update(g, &r, err));
    *ret = r;
    return COLM_OK;
}

void model_graph_scale_loss(model_graph *g, double scale) {
    g->loss_scale = scale;
}

colm_status model_graph_train(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                              const graph_update *u, graph_report *ret, colm_err *err) {
    return step(g, tokens, targets, count_targets(g, targets), 0, u, ret, err);
}

colm_status model_graph_gradients(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                  graph_report *ret, colm_err *err) {
    return step(g, tokens, targets, count_targets(g, targets), 0, NULL, ret, err);
}

colm_status model_graph_accumulate(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                   uint64_t targets_in_step, uint32_t micro, graph_report *ret, colm_err *err) {
    return step(g, tokens, targets, targets_in_step, micro, NULL, ret, err);
}

colm_status model_graph_apply(model_graph *g, const graph_update *u, graph_report *ret, colm_err *err) {
    const ops_list *update = &g->update;
    set_update(g, u);
    TRY(ops_run(g->s->machine, &update, 1, err));
    return read_update(g, ret, err);
}

ops_buf model_graph_nll(const model_graph *g) {
    return g->nll;
}

colm_status model_graph_score(model_graph *g, const uint32_t *tokens, const uint32_t *targets, float *ret_nll,
                              uint32_t *ret_top, colm_err *err) {
    if (g->p.train) return err_set(err, COLM_E_BUG, "a training graph cannot score");
    TRY(write_batch(g, tokens, targets, err));
    const ops_list *lists[] = {&g->forward, &g->head};
    TRY(ops_run(g->s->machine, lists, 2, err));
    for (uint32_t i = 0; i < g->s->config.n_chains; i++) {
        TRY(ops_read(g->s->machine, g->nll, i * g->nll_stride, ret_nll + (size_t)i * g->rows, g->rows, err));
        if (ret_top)
            TRY(ops_read(g->s->machine, g->top, i * g->nll_stride, ret_top + (size_t)i * g->rows, g->rows,
                         err));
    }
    return COLM_OK;
}

/* The cap, where there is one, is applied where logits are used; what is read here is the same function of
 * them. */
colm_status model_graph_logits(model_graph *g, uint32_t scale, float *ret, colm_err *err) {
    uint32_t V = g->s->config.vocab;
    double cap = g->s->config.family.logit_softcap;
    if (!g->p.keep_logits || scale < 1 || scale > g->s->config.n_chains)
        return err_set(err, COLM_E_BUG, "logits of scale %u were not kept", scale);
    uint64_t off = g->logits.off + (scale - 1) * g->logits.len;
    for (uint32_t r = 0; r < g->rows; r++)
        TRY(ops_read(g->s->machine, g->pool[POOL_SCRATCH], off + (uint64_t)r * g->logits_ld,
                     ret + (size_t)r * V, V, err));
    for (size_t i = 0; cap > 0 && i < (size_t)g->rows * V; i++) ret[i] = (float)(cap * tanh(ret[i] / cap));
    return COLM_OK;
}
