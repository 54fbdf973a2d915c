/* The forward pass: chain by chain inside each operation, so that neighbours in the list are independent. */
#include <math.h>

#include "engine/model/graph_build.h"

uint32_t graph_stat_offset(const model_graph *g, const act *a, uint32_t chain, bool per_head) {
    uint32_t n = 0;
    for (uint32_t i = a->lo; i < chain; i++) n += per_head ? g->s->config.chain[i].heads : 1;
    return n * g->rows;
}

colm_status graph_linear(model_graph *g, ops_list *l, param_kind k, uint32_t layer, uint32_t chain,
                         const act *x, const act *r, const act *y, colm_err *err) {
    uint32_t w = model_state_index(g->s, k, layer, chain);
    ops_view out = act_view(g, y);
    ops_call c = {.op = OP_LINEAR,
                  .t = {act_view(g, x), model_state_param(g->s, w), r ? act_view(g, r) : out, out}};
    c.p.linear = (struct abi_linear){.M = g->rows,
                                     .N = act_width(g, y->space, chain),
                                     .K = g->s->col[x->space][chain + 1],
                                     .ldx = x->ld,
                                     .ldw = g->s->tensor[w].ld,
                                     .ldy = y->ld,
                                     .yo = act_col(g, y, chain),
                                     .init = r != NULL};
    return ops_add(l, &c, err);
}

static colm_status norm(model_graph *g, param_kind k, uint32_t layer, uint32_t chain, const act *x,
                        const act *y, const act *stat, colm_err *err) {
    uint32_t gain = model_state_index(g->s, k, layer, chain);
    ops_call c = {.op = OP_NORM,
                  .t = {act_view(g, x), model_state_param(g->s, gain), act_view(g, y), act_view(g, stat)}};
    c.p.norm = (struct abi_norm){.rows = g->rows,
                                 .width = g->s->config.chain[chain].width,
                                 .cols = act_width(g, ACT_D, chain),
                                 .ldx = x->ld,
                                 .xo = act_col(g, x, chain),
                                 .ldy = y->ld,
                                 .yo = act_col(g, y, chain),
                                 .so = graph_stat_offset(g, stat, chain, false),
                                 .eps = (float)g->s->config.norm_eps};
    return ops_add(&g->forward, &c, err);
}

static colm_status rope(model_graph *g, const act *x, uint32_t chain, uint32_t heads, colm_err *err) {
    uint64_t n = (uint64_t)g->p.T * g->s->config.head_dim;
    ops_call c = {.op = OP_ROPE, .t = {act_view(g, x), {g->rope, 0, n}}};
    c.p.rope = (struct abi_rope){g->rows, g->p.T, heads, g->s->config.head_dim, x->ld, act_col(g, x, chain), 1};
    return ops_add(&g->forward, &c, err);
}

static colm_status attention(model_graph *g, const layer_acts *a, const layer_part *p, uint32_t chain,
                             colm_err *err) {
    const model_config *cfg = &g->s->config;
    ops_call c = {.op = OP_ATTN,
                  .t = {act_view(g, &p->q),
                        act_view(g, &p->k),
                        act_view(g, &p->v),
                        {g->first, 0, g->rows16},
                        act_view(g, &a->o),
                        act_view(g, &p->softmax)}};
    c.p.attn = (struct abi_attn){.rows = g->rows,
                                 .T = g->p.T,
                                 .heads = cfg->chain[chain].heads,
                                 .kv_heads = cfg->chain[chain].kv_heads,
                                 .hd = cfg->head_dim,
                                 .ldq = p->q.ld,
                                 .qo = act_col(g, &p->q, chain),
                                 .ldk = p->k.ld,
                                 .ko = act_col(g, &p->k, chain),
                                 .ldo = a->o.ld,
                                 .oo = act_col(g, &a->o, chain),
                                 .so = graph_stat_offset(g, &p->softmax, chain, true),
                                 .scale = (float)(1 / sqrt(cfg->head_dim))};
    return ops_add(&g->forward, &c, err);
}

static colm_status swiglu(model_graph *g, const layer_part *p, const act *z, uint32_t lo, uint32_t hi,
                          colm_err *err) {
    ops_call c = {.op = OP_SWIGLU, .t = {act_view(g, &p->a), act_view(g, &p->b), act_view(g, z)}};
    c.p.ew = (struct abi_ew){g->rows, g->s->col[ACT_F][hi] - g->s->col[ACT_F][lo],
                             p->a.ld, act_col(g, &p->a, lo),
                             z->ld,   act_col(g, z, lo)};
    return ops_add(&g->forward, &c, err);
}

/* The statement for every chain, with its part. */
#define EACH_CHAIN(g, part, chain)       \
    for (int part = 0; part < 2; part++) \
        for (uint32_t chain = (g)->lo[part]; chain < (g)->hi[part]; chain++)

static colm_status layer(model_graph *g, uint32_t l, colm_err *err) {
    const model_chain *ch = g->s->config.chain;
    layer_acts *a = &g->layer[l], *next = &g->layer[l + 1];
    ops_list *f = &g->forward;
    EACH_CHAIN(g, p, i) TRY(norm(g, PARAM_NORM1, l, i, &a->part[p].x, &a->h1, &a->part[p].stat1, err));
    EACH_CHAIN(g, p, i) {
        TRY(graph_linear(g, f, PARAM_Q, l, i, &a->h1, NULL, &a->part[p].q, err));
        TRY(graph_linear(g, f, PARAM_K, l, i, &a->h1, NULL, &a->part[p].k, err));
        TRY(graph_linear(g, f, PARAM_V, l, i, &a->h1, NULL, &a->part[p].v, err));
    }
    EACH_CHAIN(g, p, i) {
        TRY(rope(g, &a->part[p].q, i, ch[i].heads, err));
        TRY(rope(g, &a->part[p].k, i, ch[i].kv_heads, err));
    }
    EACH_CHAIN(g, p, i) TRY(attention(g, a, &a->part[p], i, err));
    EACH_CHAIN(g, p, i) TRY(graph_linear(g, f, PARAM_O, l, i, &a->o, &a->part[p].x, &a->part[p].mid, err));
    EACH_CHAIN(g, p, i) TRY(norm(g, PARAM_NORM2, l, i, &a->part[p].mid, &a->h2, &a->part[p].stat2, err));
    EACH_CHAIN(g, p, i) {
        TRY(graph_linear(g, f, PARAM_W1, l, i, &a->h2, NULL, &a->part[p].a, err));
        TRY(graph_linear(g, f, PARAM_W3, l, i, &a->h2, NULL, &a->part[p].b, err));
    }
    for (int p = 0; p < 2; p++)
        if (g->lo[p] < g->hi[p]) TRY(swiglu(g, &a->part[p], &a->z, g->lo[p], g->hi[p], err));
    EACH_CHAIN(g, p, i) TRY(graph_linear(g, f, PARAM_W2, l, i, &a->z, &a->part[p].mid, &next->part[p].x, err));
    return COLM_OK;
}

colm_status graph_forward(model_graph *g, colm_err *err) {
    EACH_CHAIN(g, p, i) {
        uint32_t e = model_state_index(g->s, PARAM_EMBED, 0, i);
        const act *x = &g->layer[0].part[p].x;
        ops_call c = {.op = OP_EMBED,
                      .t = {{g->tokens, 0, g->rows16}, model_state_param(g->s, e), act_view(g, x)}};
        c.p.embed = (struct abi_embed){.rows = g->rows,
                                       .cols = act_width(g, ACT_D, i),
                                       .lde = g->s->tensor[e].ld,
                                       .ldx = x->ld,
                                       .xo = act_col(g, x, i),
                                       .scale = 1};
        TRY(ops_add(&g->forward, &c, err));
    }
    for (uint32_t l = 0; l < g->s->config.layers; l++) TRY(layer(g, l, err));
    layer_acts *last = &g->layer[g->s->config.layers];
    EACH_CHAIN(g, p, i) TRY(norm(g, PARAM_NORMF, 0, i, &last->part[p].x, &g->hf, &last->part[p].stat1, err));
    return COLM_OK;
}

/* Logits of rows r0.. : (R +) hf_i W_i^T for one chain, into `out`. */
static colm_status head_linear(model_graph *g, uint32_t chain, uint32_t r0, uint32_t n, ops_view start,
                               bool init, ops_view out, colm_err *err) {
    uint32_t w = model_state_index(g->s, PARAM_HEAD, 0, chain);
    ops_call c = {.op = OP_LINEAR, .t = {act_rows(g, &g->hf, r0, n), model_state_param(g->s, w), start, out}};
    c.p.linear = (struct abi_linear){.M = n,
                                     .N = ops_pad(g->s->config.vocab),
                                     .K = act_width(g, ACT_D, chain),
                                     .ldx = g->hf.ld,
                                     .xo = act_col(g, &g->hf, chain),
                                     .ldw = g->s->tensor[w].ld,
                                     .ldy = g->logits_ld,
                                     .init = init};
    return ops_add(&g->head, &c, err);
}

/* Gradient of the head for rows r0..: dhf = dlogits W_i, dW_i += dlogits^T hf_i, for the trained chains. */
static colm_status head_backward(model_graph *g, uint32_t r0, uint32_t n, ops_view logits, colm_err *err) {
    for (uint32_t i = g->lo[1]; i < g->hi[1]; i++) {
        uint32_t w = model_state_index(g->s, PARAM_HEAD, 0, i);
        ops_view dhf = act_rows(g, &g->dhf, r0, n), dw = model_state_grad(g->s, w);
        struct abi_linear p = {.M = n,
                               .N = ops_pad(g->s->config.vocab),
                               .K = act_width(g, ACT_D, i),
                               .ldw = g->s->tensor[w].ld,
                               .ldy = g->logits_ld,
                               .ldx = g->dhf.ld,
                               .xo = act_col(g, &g->dhf, i)};
        ops_call dx = {.op = OP_LINEAR_DX, .t = {logits, model_state_param(g->s, w), dhf, dhf}, .p.linear = p};
        TRY(ops_add(&g->head, &dx, err));
        p.ldx = g->hf.ld;
        p.xo = act_col(g, &g->hf, i);
        p.init = r0 > 0;
        ops_call wg = {.op = OP_LINEAR_DW, .t = {logits, act_rows(g, &g->hf, r0, n), dw, dw}, .p.linear = p};
        TRY(ops_add(&g->head, &wg, err));
    }
    return COLM_OK;
}

/* The head over slices of rows; scales' logits are running sums over chains, each scored before the next is
 * added. */
colm_status graph_head(model_graph *g, colm_err *err) {
    uint32_t C = g->s->config.n_chains, step = g->p.keep_logits ? g->rows : g->p.head_rows;
    for (uint32_t r0 = 0; r0 < g->rows; r0 += step) {
        uint32_t n = g->rows - r0 < step ? g->rows - r0 : step;
        ops_view prev = {0}, out = act_view(g, &g->logits);
        for (uint32_t i = 0; i < C; i++) {
            if (g->p.keep_logits) {
                out.len = (uint64_t)g->rows16 * g->logits_ld;
                out.off = g->logits.off + i * ((out.len + 63) & ~(uint64_t)63);
            }
            TRY(head_linear(g, i, r0, n, i ? prev : out, i > 0, out, err));
            prev = out;
            if (g->p.train) continue;
            ops_view nll = {g->nll, i * g->nll_stride + r0, n}, top = {g->top, nll.off, n};
            ops_call c = {.op = OP_XENT, .t = {out, {g->targets, r0, n}, nll, top}};
            c.p.xent = (struct abi_xent){n, g->s->config.vocab, g->logits_ld, 0};
            TRY(ops_add(&g->head, &c, err));
        }
        if (!g->p.train) continue;
        ops_call c = {.op = OP_XENT_GRAD, .t = {out, {g->targets, r0, n}, {g->nll, r0, n}}};
        c.p.xent = (struct abi_xent){n, g->s->config.vocab, g->logits_ld, (float)(1.0 / g->rows)};
        TRY(ops_add(&g->head, &c, err));
        TRY(head_backward(g, r0, n, out, err));
    }
    return COLM_OK;
}
