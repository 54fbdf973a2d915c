/* The forward pass: chain by chain inside each operation, linears first, so that neighbours in the list are
 * independent and can be joined (ops_fuse). */
#include "engine/model/graph_build.h"

/* What closes a branch: after = before + W x + b, the sum at once or through a norm of its own. */
typedef struct {
    param_kind w, bias, post;
    const act *x, *before, *out, *normed, *stat, *after;
} closing;

static colm_status residual_product(model_graph *g, ops_list *l, const closing *c, uint32_t layer, uint32_t i,
                                    colm_err *err) {
    bool post = graph_has(g, c->post, layer, i);
    return graph_linear(g, l, c->w, layer, i, c->x, post ? NULL : c->before, post ? c->out : c->after, err);
}

static colm_status residual_rest(model_graph *g, ops_list *l, const closing *c, uint32_t layer, uint32_t i,
                                 colm_err *err) {
    if (!graph_has(g, c->post, layer, i)) return graph_bias(g, l, c->bias, layer, i, c->after, err);
    norm_of post = {c->post, PARAM_KINDS, layer, i};
    TRY(graph_bias(g, l, c->bias, layer, i, c->out, err));
    TRY(graph_norm(g, l, post, c->out, c->normed, c->stat, err));
    return graph_add(g, l, c->before, c->normed, c->after, i, i + 1, err);
}

static closing closing_attention(layer_acts *a, int p) {
    layer_part *t = &a->part[p];
    return (closing){PARAM_O, PARAM_BO, PARAM_POST1, &a->o, &t->x, &t->oout, &t->post, &t->stat_o, &t->mid};
}
static closing closing_feed_forward(layer_acts *a, layer_acts *next, int p) {
    layer_part *t = &a->part[p];
    return (closing){PARAM_W2, PARAM_B2, PARAM_POST2, &a->z,           &t->mid,
                     &t->fout, &t->post, &t->stat_f,  &next->part[p].x};
}

static colm_status project(model_graph *g, ops_list *l, param_kind w, uint32_t layer, uint32_t i, const act *x,
                           const act *y, colm_err *err) {
    if (!graph_has(g, w, layer, i)) return COLM_OK; /* CoLM-Air: later chains have no keys and values */
    return graph_linear(g, l, w, layer, i, x, NULL, y, err);
}

static colm_status head_norm(model_graph *g, ops_list *l, param_kind k, uint32_t layer, uint32_t i,
                             uint32_t heads, const act *x, const act *y, const act *stat, stat_per per,
                             colm_err *err) {
    uint32_t gain = model_state_index(g->s, k, layer, i);
    if (gain == MODEL_NO_TENSOR) return COLM_OK;
    ops_call c = {.op = OP_HEAD_NORM,
                  .t = {act_view(g, x), model_state_param(g->s, gain), act_view(g, y), act_view(g, stat)}};
    c.p.head_norm = graph_head_norm(g, i, heads, x, y, stat, per);
    return ops_add(l, &c, err);
}

static colm_status queries_keys_values(model_graph *g, ops_list *l, uint32_t layer, bool again, colm_err *err) {
    const model_chain *ch = g->s->config.chain;
    layer_acts *a = &g->layer[layer];
    bool raw = g->s->config.family.qk_norm;
    EACH_CHAIN(g, again, p, i) {
        layer_part *t = &a->part[p];
        TRY(project(g, l, PARAM_Q, layer, i, &a->h1, raw ? &t->qraw : &t->q, err));
        TRY(project(g, l, PARAM_K, layer, i, &a->h1, raw ? &t->kraw : &t->k, err));
        TRY(project(g, l, PARAM_V, layer, i, &a->h1, &t->v, err));
    }
    EACH_CHAIN(g, again, p, i) {
        layer_part *t = &a->part[p];
        TRY(graph_bias(g, l, PARAM_BQ, layer, i, raw ? &t->qraw : &t->q, err));
        TRY(graph_bias(g, l, PARAM_BK, layer, i, raw ? &t->kraw : &t->k, err));
        TRY(graph_bias(g, l, PARAM_BV, layer, i, &t->v, err));
    }
    EACH_CHAIN(g, again, p, i) {
        layer_part *t = &a->part[p];
        TRY(head_norm(g, l, PARAM_QN, layer, i, ch[i].heads, &t->qraw, &t->q, &t->stat_q, STAT_HEAD, err));
        TRY(head_norm(g, l, PARAM_KN, layer, i, ch[i].kv_heads, &t->kraw, &t->k, &t->stat_k, STAT_KV_HEAD,
                      err));
    }
    for (int p = again; p < 2; p++) {
        TRY(graph_rope(g, l, &a->part[p].q, p, STAT_HEAD, 1, err));
        TRY(graph_rope(g, l, &a->part[p].k, p, STAT_KV_HEAD, 1, err));
    }
    return COLM_OK;
}

static colm_status attention(model_graph *g, ops_list *l, uint32_t layer, uint32_t i, colm_err *err) {
    layer_acts *a = &g->layer[layer];
    layer_part *p = &a->part[graph_part_of(g, i)], *kv = &a->part[graph_part_of(g, graph_kv_chain(g, i))];
    ops_call c = {.op = OP_ATTN,
                  .t = {act_view(g, &p->q), act_view(g, &kv->k), act_view(g, &kv->v), graph_first(g, layer),
                        act_view(g, &a->o), act_view(g, &p->lse)},
                  .p.attn = graph_attn(g, layer, i)};
    return ops_add(l, &c, err);
}

static colm_status feed_forward(model_graph *g, ops_list *l, uint32_t layer, bool again, colm_err *err) {
    layer_acts *a = &g->layer[layer];
    EACH_CHAIN(g, again, p, i) {
        TRY(project(g, l, PARAM_W1, layer, i, &a->h2, &a->part[p].a, err));
        TRY(project(g, l, PARAM_W3, layer, i, &a->h2, &a->part[p].b, err));
    }
    EACH_CHAIN(g, again, p, i) {
        TRY(graph_bias(g, l, PARAM_B1, layer, i, &a->part[p].a, err));
        TRY(graph_bias(g, l, PARAM_B3, layer, i, &a->part[p].b, err));
    }
    for (int p = again; p < 2; p++) {
        if (g->lo[p] == g->hi[p]) continue;
        layer_part *t = &a->part[p];
        ops_call c = {.op = OP_SWIGLU,
                      .t = {act_view(g, &t->a), act_view(g, t->b.len ? &t->b : &t->a), act_view(g, &a->z)}};
        c.p.ew = graph_activation(g, p, t, &a->z);
        TRY(ops_add(l, &c, err));
    }
    return COLM_OK;
}

colm_status graph_layer(model_graph *g, ops_list *l, uint32_t layer, bool again, colm_err *err) {
    layer_acts *a = &g->layer[layer], *next = &g->layer[layer + 1];
    bool biased = g->s->config.family.norm == NORM_LAYER;
    EACH_CHAIN(g, again, p, i) {
        norm_of n = {PARAM_NORM1, biased ? PARAM_NORM1B : PARAM_KINDS, layer, i};
        TRY(graph_norm(g, l, n, &a->part[p].x, &a->h1, &a->part[p].stat1, err));
    }
    TRY(queries_keys_values(g, l, layer, again, err));
    for (int p = again; p < 2; p++)
        for (uint32_t i = g->lo[p]; i < g->hi[p]; i = graph_attn_end(g, i)) TRY(attention(g, l, layer, i, err));
    closing c[] = {closing_attention(a, 0), closing_attention(a, 1)};
    EACH_CHAIN(g, again, p, i) TRY(residual_product(g, l, &c[p], layer, i, err));
    EACH_CHAIN(g, again, p, i) TRY(residual_rest(g, l, &c[p], layer, i, err));
    EACH_CHAIN(g, again, p, i) {
        norm_of n = {PARAM_NORM2, biased ? PARAM_NORM2B : PARAM_KINDS, layer, i};
        TRY(graph_norm(g, l, n, &a->part[p].mid, &a->h2, &a->part[p].stat2, err));
    }
    TRY(feed_forward(g, l, layer, again, err));
    if (again && !g->s->config.family.post_norms) return COLM_OK; /* the next layer's input was kept */
    closing f[] = {closing_feed_forward(a, next, 0), closing_feed_forward(a, next, 1)};
    EACH_CHAIN(g, again, p, i) TRY(residual_product(g, l, &f[p], layer, i, err));
    EACH_CHAIN(g, again, p, i) TRY(residual_rest(g, l, &f[p], layer, i, err));
    return COLM_OK;
}

/* X = embed_scale E[token] + P[position]. A table larger than a binding is read window by window. */
static colm_status embed(model_graph *g, uint32_t i, const act *x, colm_err *err) {
    uint32_t e = model_state_index(g->s, PARAM_EMBED, 0, i), pos = model_state_index(g->s, PARAM_POS, 0, i);
    double scale = g->s->config.chain[i].embed_scale;
    struct abi_embed p = {.rows = g->rows,
                          .cols = act_width(g, ACT_D, i),
                          .lde = g->s->tensor[e].ld,
                          .ldx = x->ld,
                          .xo = act_col(g, x, i),
                          .scale = scale > 0 ? (float)scale : 1};
    graph_window w = {0};
    while (graph_next_window(g, e, &w)) {
        p.first = w.first;
        p.count = w.all ? 0 : w.count;
        ops_call c = {
            .op = OP_EMBED,
            .t = {{g->tokens, 0, g->rows16}, graph_window_of(model_state_param(g->s, e), &w), act_view(g, x)},
            .p.embed = p};
        TRY(ops_add(&g->forward, &c, err));
    }
    if (pos == MODEL_NO_TENSOR) return COLM_OK;
    p.lde = g->s->tensor[pos].ld;
    p.scale = 1, p.acc = 1, p.first = p.count = 0;
    ops_call c = {.op = OP_EMBED,
                  .t = {{g->pos, 0, g->rows16}, model_state_param(g->s, pos), act_view(g, x)},
                  .p.embed = p};
    return ops_add(&g->forward, &c, err);
}

colm_status graph_forward(model_graph *g, colm_err *err) {
    layer_acts *last = &g->layer[g->s->config.layers];
    norm_of n = {PARAM_NORMF, g->s->config.family.norm == NORM_LAYER ? PARAM_NORMFB : PARAM_KINDS, 0, 0};
    EACH_CHAIN(g, 0, p, i) TRY(embed(g, i, &g->layer[0].part[p].x, err));
    for (uint32_t l = 0; l < g->s->config.layers; l++) TRY(graph_layer(g, &g->forward, l, false, err));
    EACH_CHAIN(g, 0, p, i) {
        n.chain = i;
        TRY(graph_norm(g, &g->forward, n, &last->part[p].x, &g->hf, &last->part[p].stat1, err));
    }
    return COLM_OK;
}
