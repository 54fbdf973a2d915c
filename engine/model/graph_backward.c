/* The backward pass of the trained chains lo..hi: nothing flows into the frozen prefix, which no later chain
 * influences.
 *
 * For y_i = W_i x_{<=i}: dx_j = sum_{i>=j} dy_i W_i[:, j] and dW_i = dy_i^T x_{<=i}. */
#include <math.h>

#include "engine/model/graph_build.h"

/* dx_j (+)= sum over the trained chains i >= j of dy_i W_i[:, j]; `more` adds to what dx holds. */
static colm_status input_gradient(model_graph *g, param_kind k, uint32_t layer, const act *dy, const act *dx,
                                  bool more, colm_err *err) {
    for (uint32_t j = g->lo[1]; j < g->hi[1]; j++)
        for (uint32_t i = j; i < g->hi[1]; i++) {
            uint32_t w = model_state_index(g->s, k, layer, i);
            ops_view out = act_view(g, dx);
            ops_call c = {.op = OP_LINEAR_DX, .t = {act_view(g, dy), model_state_param(g->s, w), out, out}};
            c.p.linear = (struct abi_linear){.M = g->rows,
                                             .N = act_width(g, dy->space, i),
                                             .K = act_width(g, dx->space, j),
                                             .ldx = dx->ld,
                                             .xo = act_col(g, dx, j),
                                             .ldw = g->s->tensor[w].ld,
                                             .wo = g->s->col[dx->space][j],
                                             .ldy = dy->ld,
                                             .yo = act_col(g, dy, i),
                                             .init = more || i > j};
            TRY(ops_add(&g->backward, &c, err));
        }
    return COLM_OK;
}

/* dW_i = dy_i^T x_{<=i} for every trained chain. */
static colm_status weight_gradient(model_graph *g, param_kind k, uint32_t layer, const act *dy, const act *x,
                                   colm_err *err) {
    for (uint32_t i = g->lo[1]; i < g->hi[1]; i++) {
        uint32_t w = model_state_index(g->s, k, layer, i);
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
    return COLM_OK;
}

/* Gain gradients, then the gradient that the norm passes on, added to the residual stream's. */
static colm_status norm_gradient(model_graph *g, param_kind k, uint32_t layer, const act *x, const act *stat,
                                 const act *dy, colm_err *err) {
    for (uint32_t i = g->lo[1]; i < g->hi[1]; i++) {
        uint32_t w = model_state_index(g->s, k, layer, i);
        struct abi_norm p = {.rows = g->rows,
                             .width = g->s->config.chain[i].width,
                             .cols = act_width(g, ACT_D, i),
                             .ldx = x->ld,
                             .xo = act_col(g, x, i),
                             .ldy = dy->ld,
                             .yo = act_col(g, dy, i),
                             .so = graph_stat_offset(g, stat, i, false),
                             .eps = (float)g->s->config.norm_eps};
        ops_call dg = {.op = OP_NORM_DG,
                       .t = {act_view(g, x), act_view(g, stat), act_view(g, dy), model_state_grad(g->s, w)},
                       .p.norm = p};
        ops_call dx = {.op = OP_NORM_DX,
                       .t = {act_view(g, x), model_state_param(g->s, w), act_view(g, stat), act_view(g, dy),
                             act_view(g, &g->dx)},
                       .p.norm = p};
        TRY(ops_add(&g->backward, &dg, err));
        TRY(ops_add(&g->backward, &dx, err));
    }
    return COLM_OK;
}

static colm_status attention_gradient(model_graph *g, const layer_acts *a, const layer_part *p, uint32_t i,
                                      colm_err *err) {
    const model_config *cfg = &g->s->config;
    struct abi_attn n = {.rows = g->rows,
                         .T = g->p.T,
                         .heads = cfg->chain[i].heads,
                         .kv_heads = cfg->chain[i].kv_heads,
                         .hd = cfg->head_dim,
                         .ldq = p->q.ld,
                         .qo = act_col(g, &p->q, i),
                         .ldk = p->k.ld,
                         .ko = act_col(g, &p->k, i),
                         .ldo = a->o.ld,
                         .oo = act_col(g, &a->o, i),
                         .so = graph_stat_offset(g, &p->softmax, i, true),
                         .scale = (float)(1 / sqrt(cfg->head_dim))};
    n.dlo = n.so + (uint32_t)(p->softmax.len / 2);
    ops_view q = act_view(g, &p->q), k = act_view(g, &p->k), v = act_view(g, &p->v), dO = act_view(g, &g->dob),
             stat = act_view(g, &p->softmax), first = {g->first, 0, g->rows16};
    ops_call d = {.op = OP_ATTN_DELTA, .t = {act_view(g, &a->o), dO, stat}, .p.attn = n};
    ops_call dq = {.op = OP_ATTN_DQ, .t = {q, k, v, dO, stat, first, act_view(g, &g->dq)}, .p.attn = n};
    ops_call dkv = {.op = OP_ATTN_DKV,
                    .t = {q, k, v, dO, stat, first, act_view(g, &g->dk), act_view(g, &g->dv)},
                    .p.attn = n};
    TRY(ops_add(&g->backward, &d, err));
    TRY(ops_add(&g->backward, &dq, err));
    return ops_add(&g->backward, &dkv, err);
}

static colm_status unrope(model_graph *g, const act *x, uint32_t chain, uint32_t heads, colm_err *err) {
    uint32_t hd = g->s->config.head_dim;
    ops_call c = {.op = OP_ROPE, .t = {act_view(g, x), {g->rope, 0, (uint64_t)g->p.T * hd}}};
    c.p.rope = (struct abi_rope){g->rows, g->p.T, heads, hd, x->ld, act_col(g, x, chain), -1};
    return ops_add(&g->backward, &c, err);
}

static colm_status layer_backward(model_graph *g, uint32_t l, colm_err *err) {
    layer_acts *a = &g->layer[l];
    layer_part *p = &a->part[1];
    uint32_t lo = g->lo[1], hi = g->hi[1];

    /* x' = mid + W2 (silu(a) b): a and b turn into their own gradients in place. */
    TRY(input_gradient(g, PARAM_W2, l, &g->dx, &g->dz, false, err));
    TRY(weight_gradient(g, PARAM_W2, l, &g->dx, &a->z, err));
    ops_call s = {.op = OP_SWIGLU_GRAD, .t = {act_view(g, &p->a), act_view(g, &p->b), act_view(g, &g->dz)}};
    s.p.ew = (struct abi_ew){g->rows, g->s->col[ACT_F][hi] - g->s->col[ACT_F][lo], p->a.ld, 0, g->dz.ld, 0};
    TRY(ops_add(&g->backward, &s, err));
    TRY(weight_gradient(g, PARAM_W1, l, &p->a, &a->h2, err));
    TRY(weight_gradient(g, PARAM_W3, l, &p->b, &a->h2, err));
    TRY(input_gradient(g, PARAM_W1, l, &p->a, &g->dh, false, err));
    TRY(input_gradient(g, PARAM_W3, l, &p->b, &g->dh, true, err));
    TRY(norm_gradient(g, PARAM_NORM2, l, &p->mid, &p->stat2, &g->dh, err));

    /* mid = x + O attention(q, k, v) */
    TRY(input_gradient(g, PARAM_O, l, &g->dx, &g->dob, false, err));
    TRY(weight_gradient(g, PARAM_O, l, &g->dx, &a->o, err));
    for (uint32_t i = lo; i < hi; i++) TRY(attention_gradient(g, a, p, i, err));
    for (uint32_t i = lo; i < hi; i++) {
        TRY(unrope(g, &g->dq, i, g->s->config.chain[i].heads, err));
        TRY(unrope(g, &g->dk, i, g->s->config.chain[i].kv_heads, err));
    }
    TRY(weight_gradient(g, PARAM_Q, l, &g->dq, &a->h1, err));
    TRY(weight_gradient(g, PARAM_K, l, &g->dk, &a->h1, err));
    TRY(weight_gradient(g, PARAM_V, l, &g->dv, &a->h1, err));
    TRY(input_gradient(g, PARAM_Q, l, &g->dq, &g->dh, false, err));
    TRY(input_gradient(g, PARAM_K, l, &g->dk, &g->dh, true, err));
    TRY(input_gradient(g, PARAM_V, l, &g->dv, &g->dh, true, err));
    return norm_gradient(g, PARAM_NORM1, l, &p->x, &p->stat1, &g->dh, err);
}

static colm_status zero(model_graph *g, ops_view v, colm_err *err) {
    ops_call c = {.op = OP_ZERO, .t = {v}, .p.zero = {(uint32_t)v.len}};
    return ops_add(&g->backward, &c, err);
}

colm_status graph_backward(model_graph *g, colm_err *err) {
    model_state *s = g->s;
    uint32_t L = s->config.layers;
    /* These are added to rather than written: tokens that a batch lacks, gains, the residual stream's gradient.
     */
    for (uint32_t i = g->lo[1]; i < g->hi[1]; i++)
        TRY(zero(g, model_state_grad(s, model_state_index(s, PARAM_EMBED, 0, i)), err));
    TRY(zero(g, (ops_view){s->grads, s->gains_at - s->trained_at, s->end - s->gains_at}, err));
    TRY(zero(g, act_view(g, &g->dx), err));
    TRY(norm_gradient(g, PARAM_NORMF, 0, &g->layer[L].part[1].x, &g->layer[L].part[1].stat1, &g->dhf, err));
    for (uint32_t l = L; l-- > 0;) TRY(layer_backward(g, l, err));
    for (uint32_t i = g->lo[1]; i < g->hi[1]; i++) {
        uint32_t e = model_state_index(s, PARAM_EMBED, 0, i);
        ops_call c = {.op = OP_EMBED_GRAD,
                      .t = {{g->list, 0, g->rows16},
                            {g->start, 0, g->rows16 + 16},
                            {g->order, 0, g->rows16},
                            act_view(g, &g->dx),
                            model_state_grad(s, e)}};
        c.p.embed_grad = (struct abi_embed_grad){.cols = act_width(g, ACT_D, i),
                                                 .lde = s->tensor[e].ld,
                                                 .ldx = g->dx.ld,
                                                 .xo = act_col(g, &g->dx, i),
                                                 .scale = 1};
        TRY(ops_add(&g->backward, &c, err));
    }
    return COLM_OK;
}

/* Elements per update call: one binding's window. */
#define PIECE ((uint64_t)1 << 24)

colm_status graph_update_list(model_graph *g, colm_err *err) {
    model_state *s = g->s;
    uint64_t n = s->end - s->trained_at, gains = s->gains_at - s->trained_at, partials = 0;
    ops_view out = {g->clip, 0, 64};
    ops_view partial = {g->partial, 0, ops_buffer_len(s->machine, g->partial)};
    for (uint64_t at = 0; at < n; at += PIECE) {
        uint64_t len = n - at < PIECE ? n - at : PIECE;
        ops_call c = {.op = OP_SUMSQ, .t = {{s->grads, at, len}, partial}};
        c.p.sumsq = (struct abi_sumsq){(uint32_t)len, (uint32_t)partials};
        TRY(ops_add(&g->update, &c, err));
        partials += (len + ABI_SUMSQ_CHUNK - 1) / ABI_SUMSQ_CHUNK;
    }
    ops_call clip = {.op = OP_CLIP, .t = {partial, out}, .p.clip = {(uint32_t)partials, 0}};
    TRY(ops_add(&g->update, &clip, err));
    for (uint64_t at = 0; at < n;) {
        uint64_t end = at < gains ? gains : n, len = end - at < PIECE ? end - at : PIECE;
        ops_call c = {.op = OP_ADAMW,
                      .t = {{s->params, s->trained_at + at, len},
                            {s->grads, at, len},
                            {s->moment1, at, len},
                            {s->moment2, at, len},
                            out}};
        c.p.adamw = (struct abi_adamw){.n = (uint32_t)len, .decay = at < gains ? 1.0f : 0.0f};
        TRY(ops_add(&g->update, &c, err));
        at += len;
    }
    return COLM_OK;
}
