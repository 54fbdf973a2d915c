/* The output head, its loss and its gradient, over slices of rows; a head matrix larger than a binding by
 * windows of rows.
 *
 * Nested heads: logits of scale i are those of scale i-1 plus W_i x_i. With loss sum_i lambda_i CE_i and
 * G_i = sum_{j>=i} lambda_j dlogits_j: dW_i = G_i^T x_i, dx_i = G_i W_i (colm.md section 2). Separate heads:
 * scale s has its own W_s over x_{<=s}, so dW_s = dl_s^T x_{<=s} and dx_{<=s} += dl_s W_s. */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/model/graph_build.h"

/* A slice of rows. */
typedef struct {
    uint32_t r0, n;
} rows;

static ops_view logits_of(const model_graph *g, uint32_t scale) {
    uint32_t at = g->n_logits > 1 ? scale : 0;
    return (ops_view){g->pool[POOL_SCRATCH], g->logits.off + at * g->logits.len, g->logits.len};
}

/* The columns of hf that a head matrix reads: its own chain's, or all up to it. */
static uint32_t first_chain(const model_graph *g, uint32_t scale) {
    return g->s->config.family.head == HEAD_SEPARATE ? 0 : scale;
}

static struct abi_linear head_push(const model_graph *g, uint32_t scale, uint32_t n, const graph_window *w,
                                   const act *x, uint32_t from) {
    const uint32_t *col = g->s->col[ACT_D];
    uint32_t t = model_state_index(g->s, PARAM_HEAD, 0, scale);
    return (struct abi_linear){.M = n,
                               .N = w->count,
                               .K = col[scale + 1] - col[from],
                               .ldx = x->ld,
                               .xo = act_col(g, x, from),
                               .ldw = g->s->tensor[t].ld,
                               .wo = col[from] - col[first_chain(g, scale)],
                               .ldy = g->logits_ld,
                               .yo = w->first};
}

static colm_status forward(model_graph *g, uint32_t scale, rows r, bool init, colm_err *err) {
    uint32_t t = model_state_index(g->s, PARAM_HEAD, 0, scale);
    ops_view out = logits_of(g, scale), start = init ? logits_of(g, scale - 1) : out;
    graph_window w = {0};
    while (graph_next_window(g, t, &w)) {
        ops_call c = {.op = OP_LINEAR,
                      .t = {act_rows(g, &g->hf, r.r0, r.n), graph_window_of(model_state_weight(g->s, t), &w),
                            start, out}};
        c.p.linear = head_push(g, scale, r.n, &w, &g->hf, first_chain(g, scale));
        c.p.linear.init = init;
        TRY(ops_add(&g->head, &c, err));
    }
    return COLM_OK;
}

static colm_status score(model_graph *g, uint32_t scale, rows r, colm_err *err) {
    ops_view out = logits_of(g, scale), target = {g->targets, r.r0, r.n},
             nll = {g->nll, graph_nll_at(g, scale) + r.r0, r.n};
    struct abi_xent p = {.rows = r.n,
                         .vocab = g->s->config.vocab,
                         .ld = g->logits_ld,
                         .cap = (float)g->s->config.family.logit_softcap};
    ops_call eval = {.op = OP_XENT, .t = {out, target, nll, {g->top, nll.off, r.n}}, .p.xent = p};
    ops_call grad = {.op = OP_XENT_GRAD, .t = {out, target, nll}, .p.xent = p};
    if (g->n_scored % 64 == 0) {
        uint8_t *grown = mem_grow(g->scored, g->n_scored + 64, 1);
        if (!grown) return err_nomem(err, g->n_scored + 64, "head");
        g->scored = grown;
    }
    g->scored[g->n_scored++] = (uint8_t)scale;
    return ops_add(&g->head, g->p.train ? &grad : &eval, err);
}

/* dW (+)= G^T hf for one head matrix. */
static colm_status weight_gradient(model_graph *g, uint32_t scale, rows r, colm_err *err) {
    uint32_t t = model_state_index(g->s, PARAM_HEAD, 0, scale);
    ops_view dw = model_state_grad(g->s, t);
    graph_window w = {0};
    while (graph_next_window(g, t, &w)) {
        ops_view window = graph_window_of(dw, &w);
        ops_call c = {.op = OP_LINEAR_DW,
                      .t = {logits_of(g, scale), act_rows(g, &g->hf, r.r0, r.n), window, window}};
        c.p.linear = head_push(g, scale, r.n, &w, &g->hf, first_chain(g, scale));
        c.p.linear.init = r.r0 > 0;
        TRY(ops_add(&g->head, &c, err));
    }
    return COLM_OK;
}

/* dhf (+)= G W for one head matrix; `more`: dhf holds another scale's share already. */
static colm_status input_gradient(model_graph *g, uint32_t scale, rows r, bool more, colm_err *err) {
    uint32_t t = model_state_index(g->s, PARAM_HEAD, 0, scale);
    uint32_t from = first_chain(g, scale) < g->lo[1] ? g->lo[1] : first_chain(g, scale);
    graph_window w = {0};
    while (g->lo[1] < g->hi[1] && graph_next_window(g, t, &w)) { /* else only heads train */
        ops_view dhf = act_rows(g, &g->dhf, r.r0, r.n);
        ops_call c = {.op = OP_LINEAR_DX,
                      .t = {logits_of(g, scale), graph_window_of(model_state_weight(g->s, t), &w), dhf, dhf}};
        c.p.linear = head_push(g, scale, r.n, &w, &g->dhf, from);
        c.p.linear.init = more || w.first > 0;
        TRY(ops_add(&g->head, &c, err));
    }
    return COLM_OK;
}

/* Of scales lo .. hi-1, whose gradients of logits are all there: linears of one kind side by side (ops_fuse).
 */
static colm_status backward(model_graph *g, uint32_t lo, uint32_t hi, rows r, bool more, colm_err *err) {
    for (uint32_t i = hi; i-- > lo;) TRY(weight_gradient(g, i, r, err));
    for (uint32_t i = hi; i-- > lo;) TRY(input_gradient(g, i, r, more, err));
    return COLM_OK;
}

static colm_status slice_nested(model_graph *g, rows r, colm_err *err) {
    uint32_t C = g->s->config.n_chains;
    for (uint32_t i = 0; i < C; i++) {
        TRY(forward(g, i, r, i > 0, err));
        if (!g->p.train) TRY(score(g, i, r, err));
    }
    for (uint32_t i = g->top_scale; g->p.train && i-- > 0;) {
        ops_view own = logits_of(g, i), above = logits_of(g, i + 1);
        if (g->lambda[i] > 0) TRY(score(g, i, r, err));
        if (i + 1 < g->top_scale && g->n_logits > 1) {
            /* G_i = lambda_i dlogits_i + G_{i+1}; a scale without a loss of its own only passes on. */
            struct abi_ew p = {
                .rows = ops_rows(r.n), .cols = g->logits_ld, .lda = g->logits_ld, .ldz = g->logits_ld};
            ops_call clear = {.op = OP_ZERO, .t = {own}, .p.zero = {(uint32_t)own.len}};
            ops_call sum = {.op = OP_ADD, .t = {own, above, own}, .p.ew = p};
            if (!(g->lambda[i] > 0)) TRY(ops_add(&g->head, &clear, err));
            TRY(ops_add(&g->head, &sum, err));
        }
        if (i >= g->head_lo && g->n_logits > 1) TRY(backward(g, i, i + 1, r, false, err));
    }
    if (g->p.train && g->n_logits == 1 && g->head_lo < g->top_scale)
        TRY(backward(g, g->head_lo, g->top_scale, r, false, err));
    return COLM_OK;
}

static colm_status slice_separate(model_graph *g, rows r, colm_err *err) {
    bool more = false;
    for (uint32_t i = g->s->config.n_chains; i-- > 0;) {
        if (g->p.train && !(g->lambda[i] > 0)) continue;
        TRY(forward(g, i, r, false, err));
        TRY(score(g, i, r, err));
        if (!g->p.train || i < g->head_lo) continue;
        TRY(backward(g, i, i + 1, r, more, err));
        more = true;
    }
    return COLM_OK;
}

colm_status graph_head(model_graph *g, colm_err *err) {
    uint32_t step = g->p.keep_logits ? g->rows : g->p.head_rows;
    /* Chains beyond the largest scale with a loss have no gradient at all. */
    if (g->p.train && g->top_scale < g->s->config.n_chains && g->dhf.len) {
        ops_call clear = {.op = OP_ZERO, .t = {act_view(g, &g->dhf)}, .p.zero = {(uint32_t)g->dhf.len}};
        TRY(ops_add(&g->head, &clear, err));
    }
    for (uint32_t r0 = 0; r0 < g->rows; r0 += step) {
        rows r = {r0, g->rows - r0 < step ? g->rows - r0 : step};
        TRY(g->s->config.family.head == HEAD_SEPARATE ? slice_separate(g, r, err) : slice_nested(g, r, err));
    }
    return COLM_OK;
}
