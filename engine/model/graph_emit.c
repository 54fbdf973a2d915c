/* The calls that forward and backward are made of. */
#include <math.h>

#include "engine/model/graph_build.h"

uint32_t graph_stat_offset(const model_graph *g, const act *a, uint32_t chain, stat_per per) {
    uint32_t n = 0;
    for (uint32_t i = a->lo; i < chain; i++) {
        const model_chain *c = &g->s->config.chain[i];
        n += per == STAT_HEAD ? c->heads : per == STAT_KV_HEAD ? c->kv_heads : 1;
    }
    return n * g->rows;
}

colm_status graph_linear(model_graph *g, ops_list *l, param_kind k, uint32_t layer, uint32_t chain,
                         const act *x, const act *r, const act *y, colm_err *err) {
    uint32_t w = model_state_index(g->s, k, layer, chain);
    ops_view out = act_view(g, y);
    ops_call c = {.op = OP_LINEAR,
                  .t = {act_view(g, x), model_state_weight(g->s, w), r ? act_view(g, r) : out, out}};
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

static struct abi_norm norm_push(const model_graph *g, uint32_t chain, const act *x, const act *y,
                                 const act *stat) {
    const model_config *c = &g->s->config;
    struct abi_norm p = {.rows = g->rows,
                         .width = c->chain[chain].width,
                         .cols = act_width(g, ACT_D, chain),
                         .ldx = x->ld,
                         .xo = act_col(g, x, chain),
                         .ldy = y->ld,
                         .yo = act_col(g, y, chain),
                         .so = graph_stat_offset(g, stat, chain, STAT_ROW),
                         .eps = (float)c->norm_eps,
                         .kind = c->family.norm};
    p.mo = p.so + (uint32_t)(stat->len / 2); /* the means' half; used by layer norm alone */
    return p;
}

colm_status graph_norm(model_graph *g, ops_list *l, norm_of n, const act *x, const act *y, const act *stat,
                       colm_err *err) {
    uint32_t gain = model_state_index(g->s, n.gain, n.layer, n.chain);
    ops_call c = {.op = OP_NORM,
                  .t = {act_view(g, x), model_state_param(g->s, gain), act_view(g, y), act_view(g, stat)}};
    c.p.norm = norm_push(g, n.chain, x, y, stat);
    TRY(ops_add(l, &c, err));
    return n.bias == PARAM_KINDS ? COLM_OK : graph_bias(g, l, n.bias, n.layer, n.chain, y, err);
}

colm_status graph_norm_gradient(model_graph *g, norm_of n, const act *x, const act *stat, const act *dy,
                                const act *dx, colm_err *err) {
    uint32_t gain = model_state_index(g->s, n.gain, n.layer, n.chain);
    struct abi_norm p = norm_push(g, n.chain, x, dy, stat);
    ops_call dg = {.op = OP_NORM_DG,
                   .t = {act_view(g, x), act_view(g, stat), act_view(g, dy), model_state_grad(g->s, gain)},
                   .p.norm = p};
    ops_call d = {.op = OP_NORM_DX,
                  .t = {act_view(g, x), model_state_param(g->s, gain), act_view(g, stat), act_view(g, dy),
                        act_view(g, dx)},
                  .p.norm = p};
    TRY(ops_add(&g->backward, &dg, err));
    if (n.bias != PARAM_KINDS) TRY(graph_bias_gradient(g, n.bias, n.layer, n.chain, dy, err));
    return ops_add(&g->backward, &d, err);
}

static struct abi_bias bias_push(const model_graph *g, uint32_t chain, const act *y) {
    return (struct abi_bias){g->rows, act_width(g, y->space, chain), y->ld, act_col(g, y, chain)};
}

colm_status graph_bias(model_graph *g, ops_list *l, param_kind k, uint32_t layer, uint32_t chain, const act *y,
                       colm_err *err) {
    uint32_t b = model_state_index(g->s, k, layer, chain);
    if (b == MODEL_NO_TENSOR) return COLM_OK;
    ops_call c = {
        .op = OP_BIAS, .t = {act_view(g, y), model_state_param(g->s, b)}, .p.bias = bias_push(g, chain, y)};
    return ops_add(l, &c, err);
}

colm_status graph_bias_gradient(model_graph *g, param_kind k, uint32_t layer, uint32_t chain, const act *dy,
                                colm_err *err) {
    uint32_t b = model_state_index(g->s, k, layer, chain);
    if (b == MODEL_NO_TENSOR) return COLM_OK;
    ops_call c = {.op = OP_BIAS_GRAD,
                  .t = {act_view(g, dy), model_state_grad(g->s, b)},
                  .p.bias = bias_push(g, chain, dy)};
    return ops_add(&g->backward, &c, err);
}

/* Heads of 8 n columns stand without padding between chains: one call turns them all. */
colm_status graph_rope(model_graph *g, ops_list *l, const act *x, int part, stat_per per, float sign,
                       colm_err *err) {
    uint32_t hd = g->s->config.head_dim, next;
    if (g->s->config.family.position != POSITION_ROPE) return COLM_OK;
    for (uint32_t i = g->lo[part]; i < g->hi[part]; i = next) {
        next = hd % 8 ? i + 1 : g->hi[part];
        uint32_t heads = (graph_stat_offset(g, x, next, per) - graph_stat_offset(g, x, i, per)) / g->rows;
        if (!heads) continue;
        ops_call c = {.op = OP_ROPE, .t = {act_view(g, x), {g->rope, 0, (uint64_t)g->p.T * hd}}};
        c.p.rope = (struct abi_rope){g->rows, g->p.T, heads, hd, x->ld, act_col(g, x, i), sign};
        TRY(ops_add(l, &c, err));
    }
    return COLM_OK;
}

uint32_t graph_attn_end(const model_graph *g, uint32_t chain) {
    const model_config *c = &g->s->config;
    const model_chain *a = &c->chain[chain];
    uint32_t i = chain + 1;
    for (; i < g->hi[graph_part_of(g, chain)] && c->head_dim % 8 == 0; i++) {
        const model_chain *b = &c->chain[i];
        bool own = c->family.kv == KV_OWN && a->heads * b->kv_heads == b->heads * a->kv_heads;
        if (!(own || c->family.kv == KV_TILED) || a->attn_scale != b->attn_scale) break;
    }
    return i;
}

struct abi_attn graph_attn(const model_graph *g, uint32_t layer, uint32_t chain) {
    const model_config *c = &g->s->config;
    uint32_t owner = graph_kv_chain(g, chain), h0 = 0;
    const layer_acts *a = &g->layer[layer];
    const layer_part *p = &a->part[graph_part_of(g, chain)], *kv = &a->part[graph_part_of(g, owner)];
    for (uint32_t i = 0; i < chain; i++) h0 += c->chain[i].heads;
    double scale = c->chain[chain].attn_scale;
    uint32_t heads = 0, kv_heads = c->family.kv == KV_OWN ? 0 : c->chain[owner].kv_heads;
    for (uint32_t i = chain; i < graph_attn_end(g, chain); i++) {
        heads += c->chain[i].heads;
        kv_heads += c->family.kv == KV_OWN ? c->chain[i].kv_heads : 0;
    }
    struct abi_attn n = {.rows = g->rows,
                         .T = g->p.T,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .hd = c->head_dim,
                         .ldq = p->q.ld,
                         .qo = act_col(g, &p->q, chain),
                         .ldk = kv->k.ld,
                         .ko = act_col(g, &kv->k, owner),
                         .ldo = a->o.ld,
                         .oo = act_col(g, &a->o, chain),
                         .so = graph_stat_offset(g, &p->lse, chain, STAT_HEAD),
                         .scale = (float)(scale > 0 ? scale : 1 / sqrt(c->head_dim)),
                         .masked = g->p.documents || graph_windowed(g, layer),
                         .cap = (float)c->family.attn_softcap,
                         .map = c->family.kv == KV_TILED,
                         .h0 = h0};
    n.dlo = n.so + (uint32_t)(p->lse.len / 2);
    return n;
}

ops_view graph_first(const model_graph *g, uint32_t layer) {
    return (ops_view){g->first[graph_windowed(g, layer)], 0, g->rows16};
}

colm_status graph_add(model_graph *g, ops_list *l, const act *x, const act *y, const act *z, uint32_t lo,
                      uint32_t hi, colm_err *err) {
    ops_call c = {.op = OP_ADD, .t = {act_view(g, x), act_view(g, y), act_view(g, z)}};
    c.p.ew = (struct abi_ew){.rows = g->rows,
                             .cols = g->s->col[x->space][hi] - g->s->col[x->space][lo],
                             .lda = x->ld,
                             .ao = act_col(g, x, lo),
                             .ldz = z->ld,
                             .zo = act_col(g, z, lo)};
    return ops_add(l, &c, err);
}

colm_status graph_zero(ops_list *l, ops_view v, colm_err *err) {
    ops_call c = {.op = OP_ZERO, .t = {v}, .p.zero = {(uint32_t)v.len}};
    return ops_add(l, &c, err);
}

struct abi_head_norm graph_head_norm(const model_graph *g, uint32_t chain, uint32_t heads, const act *x,
                                     const act *y, const act *stat, stat_per per) {
    const model_config *c = &g->s->config;
    return (struct abi_head_norm){.rows = g->rows,
                                  .heads = heads,
                                  .hd = c->head_dim,
                                  .ldx = x->ld,
                                  .xo = act_col(g, x, chain),
                                  .ldy = y->ld,
                                  .yo = act_col(g, y, chain),
                                  .so = graph_stat_offset(g, stat, chain, per),
                                  .kind = c->family.norm,
                                  .eps = (float)c->norm_eps};
}

struct abi_ew graph_activation(const model_graph *g, int part, const layer_part *p, const act *z) {
    static const uint32_t act_of[] = {[FFN_SWIGLU] = ABI_ACT_SILU,
                                      [FFN_GEGLU] = ABI_ACT_GELU_TANH,
                                      [FFN_GELU] = ABI_ACT_GELU_TANH,
                                      [FFN_GELU_ERF] = ABI_ACT_GELU};
    const model_family *f = &g->s->config.family;
    uint32_t lo = g->lo[part], hi = g->hi[part];
    return (struct abi_ew){.rows = g->rows,
                           .cols = g->s->col[ACT_F][hi] - g->s->col[ACT_F][lo],
                           .lda = p->a.ld,
                           .ao = act_col(g, &p->a, lo),
                           .ldz = z->ld,
                           .zo = act_col(g, z, lo),
                           .act = act_of[f->ffn],
                           .plain = !model_ffn_gated(f)};
}

bool graph_next_window(const model_graph *g, uint32_t tensor, graph_window *w) {
    const state_tensor *t = &g->s->tensor[tensor];
    uint64_t fit = ops_window(g->s->machine) / t->ld & ~(uint64_t)63;
    if (!fit) fit = 64;
    w->first += w->count;
    w->ld = t->ld;
    w->all = !w->first && t->rows <= fit;
    w->count = t->rows - w->first < fit ? t->rows - w->first : (uint32_t)fit;
    return w->count > 0;
}

ops_view graph_window_of(ops_view table, const graph_window *w) {
    return (ops_view){table.buf, table.off + (uint64_t)w->first * w->ld, (uint64_t)w->count * w->ld};
}
