/* The backward pass of the trained chains lo..hi: nothing flows into the frozen prefix, which no later chain
 * influences.
 *
 * For y_i = W_i x_{<=i}: dx_j = sum_{i>=j} dy_i W_i[:, j] and dW_i = dy_i^T x_{<=i}. */
#include "engine/model/graph_build.h"

/* A product whose gradients are wanted: its weights, its bias (PARAM_KINDS: none), the gradient of its output.
 */
typedef struct {
    param_kind w, bias;
    const act *dy;
} product;

/* dx_j = sum over the products, and of each over the trained chains i >= j, of dy_i W_i[:, j]. */
static colm_status input_gradient(model_graph *g, const product *of, size_t n, uint32_t layer, const act *dx,
                                  colm_err *err) {
    EACH_TRAINED(g, j) {
        bool add = false;
        for (size_t k = 0; k < n; k++)
            for (uint32_t i = j; i < g->hi[1]; i++) {
                uint32_t w = model_state_index(g->s, of[k].w, layer, i);
                if (w == MODEL_NO_TENSOR) continue;
                const act *dy = of[k].dy;
                ops_view out = act_view(g, dx);
                ops_call c = {.op = OP_LINEAR_DX,
                              .t = {act_view(g, dy), model_state_weight(g->s, w), out, out}};
                c.p.linear = (struct abi_linear){.M = g->rows,
                                                 .N = act_width(g, dy->space, i),
                                                 .K = act_width(g, dx->space, j),
                                                 .ldx = dx->ld,
                                                 .xo = act_col(g, dx, j),
                                                 .ldw = g->s->tensor[w].ld,
                                                 .wo = g->s->col[dx->space][j],
                                                 .ldy = dy->ld,
                                                 .yo = act_col(g, dy, i),
                                                 .init = add};
                TRY(ops_add(&g->backward, &c, err));
                add = true;
            }
    }
    return COLM_OK;
}

/* dW_i = dy_i^T x_{<=i} and the bias's gradient, for every trained chain. */
static colm_status weight_gradient(model_graph *g, const product *of, size_t n, uint32_t layer, const act *x,
                                   colm_err *err) {
    for (size_t k = 0; k < n; k++) EACH_TRAINED(g, i) {
            uint32_t w = model_state_index(g->s, of[k].w, layer, i);
            if (w == MODEL_NO_TENSOR) continue;
            const act *dy = of[k].dy;
            ops_view dw = model_state_grad(g->s, w);
            ops_call c = {.op = OP_LINEAR_DW, .t = {act_view(g, dy), act_view(g, x), dw, dw}};
            c.p.linear = (struct abi_linear){.M = g->rows,
                                             .N = act_width(g, dy->space, i),
                                             .K = g->s->col[x->space][i + 1],
                                             .ldx = x->ld,
                                             .ldw = g->s->tensor[w].ld,
                                             .ldy = dy->ld,
                                             .yo = act_col(g, dy, i)};
            TRY(ops_add(&g->backward, &c, err));
        }
    for (size_t k = 0; k < n; k++)
        EACH_TRAINED(g, i) TRY(graph_bias_gradient(g, of[k].bias, layer, i, of[k].dy, err));
    return COLM_OK;
}

/* The gradient of a branch's output: the residual stream's own, or what its post-norm makes of it. */
static colm_status branch(model_graph *g, param_kind post, uint32_t layer, const act *out, const act *stat,
                          const act **ret, colm_err *err) {
    *ret = &g->dx;
    if (!g->s->config.family.post_norms) return COLM_OK;
    TRY(graph_zero(&g->backward, act_view(g, &g->dout), err));
    EACH_TRAINED(g, i) {
        norm_of n = {post, PARAM_KINDS, layer, i};
        TRY(graph_norm_gradient(g, n, out, stat, &g->dx, &g->dout, err));
    }
    *ret = &g->dout;
    return COLM_OK;
}

static colm_status feed_forward(model_graph *g, uint32_t layer, colm_err *err) {
    layer_acts *a = &g->layer[layer];
    layer_part *p = &a->part[1];
    const act *dy;
    bool gated = model_ffn_gated(&g->s->config.family);
    TRY(branch(g, PARAM_POST2, layer, &p->fout, &p->stat_f, &dy, err));
    const product down = {PARAM_W2, PARAM_B2, dy};
    const product up[] = {{PARAM_W1, PARAM_B1, &p->a}, {PARAM_W3, PARAM_B3, &p->b}};
    size_t n = gated ? 2 : 1;
    TRY(input_gradient(g, &down, 1, layer, &g->dz, err));
    TRY(weight_gradient(g, &down, 1, layer, &a->z, err));
    /* a and b turn into their own gradients in place. */
    ops_call c = {.op = OP_SWIGLU_GRAD,
                  .t = {act_view(g, &p->a), act_view(g, gated ? &p->b : &p->a), act_view(g, &g->dz)}};
    c.p.ew = graph_activation(g, 1, p, &g->dz);
    TRY(ops_add(&g->backward, &c, err));
    TRY(weight_gradient(g, up, n, layer, &a->h2, err));
    return input_gradient(g, up, n, layer, &g->dh, err);
}

/* dQ of every trained chain; dK and dV where the owner of the keys and values trains. In CoLM-Air that is chain
 * 1, whose gradient sums over all chains' heads. */
static colm_status attention(model_graph *g, uint32_t layer, colm_err *err) {
    layer_acts *a = &g->layer[layer];
    layer_part *p = &a->part[1];
    ops_view dO = act_view(g, &g->dob), stat = act_view(g, &p->lse), first = graph_first(g, layer);
    for (uint32_t i = g->lo[1]; i < g->hi[1]; i = graph_attn_end(g, i)) {
        uint32_t owner = graph_kv_chain(g, i);
        layer_part *kv = &a->part[graph_part_of(g, owner)];
        ops_view q = act_view(g, &p->q), k = act_view(g, &kv->k), v = act_view(g, &kv->v);
        struct abi_attn n = graph_attn(g, layer, i);
        ops_call delta = {.op = OP_ATTN_DELTA, .t = {act_view(g, &a->o), dO, stat}, .p.attn = n};
        ops_call dq = {.op = OP_ATTN_DQ, .t = {q, k, v, dO, stat, first, act_view(g, &g->dq)}, .p.attn = n};
        TRY(ops_add(&g->backward, &delta, err));
        TRY(ops_add(&g->backward, &dq, err));
        if (owner < g->lo[1]) continue;
        n.acc = i > owner;
        ops_call dkv = {.op = OP_ATTN_DKV,
                        .t = {q, k, v, dO, stat, first, act_view(g, &g->dk), act_view(g, &g->dv)},
                        .p.attn = n};
        TRY(ops_add(&g->backward, &dkv, err));
    }
    TRY(graph_rope(g, &g->backward, &g->dq, 1, STAT_HEAD, -1, err));
    return graph_rope(g, &g->backward, &g->dk, 1, STAT_KV_HEAD, -1, err);
}

static colm_status head_norm(model_graph *g, param_kind k, uint32_t layer, uint32_t i, uint32_t heads,
                             const act *x, const act *stat, stat_per per, const act *dy, const act *dx,
                             colm_err *err) {
    uint32_t gain = model_state_index(g->s, k, layer, i);
    if (gain == MODEL_NO_TENSOR) return COLM_OK;
    struct abi_head_norm p = graph_head_norm(g, i, heads, dx, dy, stat, per);
    ops_call d = {.op = OP_HEAD_NORM_DX,
                  .t = {act_view(g, x), model_state_param(g->s, gain), act_view(g, stat), act_view(g, dy),
                        act_view(g, dx)},
                  .p.head_norm = p};
    ops_call dg = {.op = OP_HEAD_NORM_DG,
                   .t = {act_view(g, x), act_view(g, stat), act_view(g, dy), model_state_grad(g->s, gain)},
                   .p.head_norm = p};
    TRY(ops_add(&g->backward, &d, err));
    return ops_add(&g->backward, &dg, err);
}

static colm_status queries_keys_values(model_graph *g, uint32_t layer, colm_err *err) {
    layer_acts *a = &g->layer[layer];
    layer_part *p = &a->part[1];
    const act *dq = &g->dq, *dk = &g->dk;
    if (g->s->config.family.qk_norm) {
        EACH_TRAINED(g, i) {
            const model_chain *ch = &g->s->config.chain[i];
            TRY(head_norm(g, PARAM_QN, layer, i, ch->heads, &p->qraw, &p->stat_q, STAT_HEAD, &g->dq, &g->dqraw,
                          err));
            TRY(head_norm(g, PARAM_KN, layer, i, ch->kv_heads, &p->kraw, &p->stat_k, STAT_KV_HEAD, &g->dk,
                          &g->dkraw, err));
        }
        dq = &g->dqraw, dk = &g->dkraw;
    }
    const product of[] = {{PARAM_Q, PARAM_BQ, dq}, {PARAM_K, PARAM_BK, dk}, {PARAM_V, PARAM_BV, &g->dv}};
    TRY(weight_gradient(g, of, 3, layer, &a->h1, err));
    return input_gradient(g, of, 3, layer, &g->dh, err);
}

static colm_status input_norm(model_graph *g, param_kind gain, param_kind bias, uint32_t layer, const act *x,
                              const act *stat, const act *dy, colm_err *err) {
    EACH_TRAINED(g, i) {
        norm_of n = {gain, g->s->config.family.norm == NORM_LAYER ? bias : PARAM_KINDS, layer, i};
        TRY(graph_norm_gradient(g, n, x, stat, dy, &g->dx, err));
    }
    return COLM_OK;
}

static colm_status layer_backward(model_graph *g, uint32_t layer, colm_err *err) {
    layer_acts *a = &g->layer[layer];
    layer_part *p = &a->part[1];
    const act *dy;
    if (g->p.recompute) TRY(graph_layer(g, &g->backward, layer, true, err));
    TRY(feed_forward(g, layer, err));
    TRY(input_norm(g, PARAM_NORM2, PARAM_NORM2B, layer, &p->mid, &p->stat2, &g->dh, err));
    TRY(branch(g, PARAM_POST1, layer, &p->oout, &p->stat_o, &dy, err));
    const product of = {PARAM_O, PARAM_BO, dy};
    TRY(input_gradient(g, &of, 1, layer, &g->dob, err));
    TRY(weight_gradient(g, &of, 1, layer, &a->o, err));
    TRY(attention(g, layer, err));
    TRY(queries_keys_values(g, layer, err));
    return input_norm(g, PARAM_NORM1, PARAM_NORM1B, layer, &p->x, &p->stat1, &g->dh, err);
}

/* dE += embed_scale sum of dX over each token's rows; likewise over positions. */
static colm_status embed(model_graph *g, uint32_t i, colm_err *err) {
    uint32_t e = model_state_index(g->s, PARAM_EMBED, 0, i), pos = model_state_index(g->s, PARAM_POS, 0, i);
    double scale = g->s->config.chain[i].embed_scale;
    struct abi_embed_grad p = {.cols = act_width(g, ACT_D, i),
                               .lde = g->s->tensor[e].ld,
                               .ldx = g->dx.ld,
                               .xo = act_col(g, &g->dx, i),
                               .acc = 1,
                               .scale = scale > 0 ? (float)scale : 1};
    graph_window w = {0};
    while (graph_next_window(g, e, &w)) {
        p.first = w.first;
        p.count = w.all ? 0 : w.count;
        ops_call c = {.op = OP_EMBED_GRAD,
                      .t = {{g->list, 0, g->rows16},
                            {g->start, 0, g->rows16 + 16},
                            {g->order, 0, g->rows16},
                            act_view(g, &g->dx),
                            graph_window_of(model_state_grad(g->s, e), &w)},
                      .p.embed_grad = p};
        TRY(ops_add(&g->backward, &c, err));
    }
    if (pos == MODEL_NO_TENSOR) return COLM_OK;
    p.lde = g->s->tensor[pos].ld;
    p.scale = 1, p.first = p.count = 0;
    p.unique = g->p.T;
    ops_call c = {.op = OP_EMBED_GRAD,
                  .t = {{g->pos_list, 0, g->rows16},
                        {g->pos_start, 0, g->rows16 + 16},
                        {g->pos_order, 0, g->rows16},
                        act_view(g, &g->dx),
                        model_state_grad(g->s, pos)},
                  .p.embed_grad = p};
    return ops_add(&g->backward, &c, err);
}

/* What is added to rather than written, cleared before the first micro-batch: embeddings (a tied one is written
 * by its head's gradient first) and everything that is no matrix. */
static colm_status clear(model_graph *g, colm_err *err) {
    model_state *s = g->s;
    uint64_t gains = s->end - s->gains_at;
    EACH_TRAINED(g, i) {
        uint32_t e = model_state_index(s, PARAM_EMBED, 0, i), pos = model_state_index(s, PARAM_POS, 0, i);
        graph_window w = {0};
        while (!s->config.chain[i].tied && graph_next_window(g, e, &w))
            TRY(graph_zero(&g->clear, graph_window_of(model_state_grad(s, e), &w), err));
        if (pos != MODEL_NO_TENSOR) TRY(graph_zero(&g->clear, model_state_grad(s, pos), err));
    }
    return gains ? graph_zero(&g->clear, (ops_view){s->grads, s->gains_at - s->trained_at, gains}, err)
                 : COLM_OK;
}

colm_status graph_backward(model_graph *g, colm_err *err) {
    uint32_t L = g->s->config.layers;
    if (g->lo[1] == g->hi[1]) return COLM_OK;
    TRY(clear(g, err));
    TRY(graph_zero(&g->backward, act_view(g, &g->dx), err));
    TRY(input_norm(g, PARAM_NORMF, PARAM_NORMFB, 0, &g->layer[L].part[1].x, &g->layer[L].part[1].stat1, &g->dhf,
                   err));
    for (uint32_t l = L; l-- > 0;) TRY(layer_backward(g, l, err));
    EACH_TRAINED(g, i) TRY(embed(g, i, err));
    return COLM_OK;
}

colm_status graph_update_list(model_graph *g, colm_err *err) {
    model_state *s = g->s;
    uint64_t n = s->end - s->trained_at, gains = s->gains_at - s->trained_at, partials = 0;
    ops_view out = {g->clip, 0, 64};
    ops_view partial = {g->partial, 0, ops_buffer_len(s->machine, g->partial)};
    for (uint64_t at = 0; at < n; at += MODEL_PIECE) {
        uint64_t len = n - at < MODEL_PIECE ? n - at : MODEL_PIECE;
        ops_call c = {.op = OP_SUMSQ, .t = {{s->grads, at, len}, partial}};
        c.p.sumsq = (struct abi_sumsq){(uint32_t)len, (uint32_t)partials};
        TRY(ops_add(&g->update, &c, err));
        partials += (len + ABI_SUMSQ_CHUNK - 1) / ABI_SUMSQ_CHUNK;
    }
    ops_call clip = {.op = OP_CLIP, .t = {partial, out}, .p.clip = {(uint32_t)partials, 0, 1}};
    TRY(ops_add(&g->update, &clip, err));
    for (uint64_t at = 0; at < n;) {
        uint64_t end = at < gains ? gains : n, len = end - at < MODEL_PIECE ? end - at : MODEL_PIECE;
        ops_call c = {.op = OP_ADAMW,
                      .t = {{s->params, s->trained_at + at, len},
                            {s->grads, at, len},
                            {s->moment1, at, len},
                            {s->moment2, at, len},
                            out}};
        c.p.adamw = (struct abi_adamw){.n = (uint32_t)len};
        TRY(ops_add(&g->update, &c, err));
        at += len;
    }
    return model_state_add_rounding(s, s->trained_at, s->end, &g->update, err);
}
