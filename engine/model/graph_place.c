/* Where everything lies: what the backward pass needs is kept per layer, the rest is scratch that all layers
 * share. */
#include "engine/model/graph_build.h"

static ops_dtype pool_type(const model_graph *g, act_pool pool) {
    return pool < POOL_KEEP_16 ? OPS_F32 : model_storage(g->s->precision);
}

/* Of a pool the half that has the run's storage. */
static act_pool stored(const model_graph *g, act_pool pool) {
    return g->s->precision ? pool + POOL_KEEP_16 : pool;
}

static uint64_t reserve(model_graph *g, act_pool pool, uint64_t len) {
    uint64_t off = g->pool_len[pool];
    g->pool_len[pool] += model_align_of(pool_type(g, pool), len);
    return off;
}

/* What goes into sums: the residual stream, what is added to it, and the gradients of that. */
static act matrix(model_graph *g, act_pool pool, act_space space, uint32_t lo, uint32_t hi) {
    act a = {.pool = pool, .space = space, .lo = lo};
    uint32_t cols = g->s->col[space][hi] - g->s->col[space][lo];
    if (!cols) return a;
    a.ld = ops_stride(cols);
    a.len = (uint64_t)g->rows16 * a.ld;
    a.off = reserve(g, pool, a.len);
    return a;
}

/* What chain linears and attention read, and their results that no sum needs in full. */
static act operand(model_graph *g, act_pool pool, act_space space, uint32_t lo, uint32_t hi) {
    return matrix(g, stored(g, pool), space, lo, hi);
}

/* `times` values per row and chain, or per row and head. */
static act statistics(model_graph *g, act_pool pool, uint32_t lo, uint32_t hi, stat_per per, uint32_t times) {
    act a = {.pool = pool, .lo = lo};
    a.len = model_align((uint64_t)times * graph_stat_offset(g, &a, hi, per));
    if (a.len) a.off = reserve(g, pool, a.len);
    return a;
}

static uint32_t norm_values(const model_graph *g) {
    return g->s->config.family.norm == NORM_LAYER ? 2 : 1;
}

static void place_input(model_graph *g, act_pool pool, layer_part *p, uint32_t lo, uint32_t hi) {
    p->x = matrix(g, pool, ACT_D, lo, hi);
    p->stat1 = statistics(g, pool, lo, hi, STAT_ROW, norm_values(g));
}

static void place_kv(model_graph *g, act_pool pool, layer_part *p, uint32_t lo, uint32_t hi) {
    p->k = operand(g, pool, ACT_K, lo, hi);
    p->v = operand(g, pool, ACT_K, lo, hi);
}

static void place_part(model_graph *g, act_pool pool, layer_part *p, uint32_t lo, uint32_t hi) {
    const model_family *f = &g->s->config.family;
    p->mid = matrix(g, pool, ACT_D, lo, hi);
    p->q = operand(g, pool, ACT_Q, lo, hi);
    place_kv(g, pool, p, lo, hi);
    p->a = operand(g, pool, ACT_F, lo, hi);
    if (model_ffn_gated(f)) p->b = operand(g, pool, ACT_F, lo, hi);
    p->stat2 = statistics(g, pool, lo, hi, STAT_ROW, norm_values(g));
    p->lse = statistics(g, pool, lo, hi, STAT_HEAD, 2);
    if (f->qk_norm) {
        p->qraw = operand(g, pool, ACT_Q, lo, hi);
        p->kraw = operand(g, pool, ACT_K, lo, hi);
        p->stat_q = statistics(g, pool, lo, hi, STAT_HEAD, 1);
        p->stat_k = statistics(g, pool, lo, hi, STAT_KV_HEAD, 1);
    }
    if (f->post_norms) {
        p->oout = matrix(g, pool, ACT_D, lo, hi);
        p->fout = matrix(g, pool, ACT_D, lo, hi);
        p->post = matrix(g, POOL_SCRATCH, ACT_D, lo, hi);
        p->stat_o = statistics(g, pool, lo, hi, STAT_ROW, norm_values(g));
        p->stat_f = statistics(g, pool, lo, hi, STAT_ROW, norm_values(g));
    }
}

static void place_inputs_of_linears(model_graph *g, act_pool pool, layer_acts *a) {
    uint32_t C = g->s->config.n_chains;
    a->h1 = operand(g, pool, ACT_D, 0, C);
    a->o = operand(g, pool, ACT_Q, 0, C);
    a->h2 = operand(g, pool, ACT_D, 0, C);
    a->z = operand(g, pool, ACT_F, 0, C);
}

static void place_gradients(model_graph *g) {
    const model_family *f = &g->s->config.family;
    uint32_t k = g->lo[1], C = g->hi[1];
    g->dhf = matrix(g, POOL_SCRATCH, ACT_D, k, C);
    g->dx = matrix(g, POOL_SCRATCH, ACT_D, k, C);
    g->dh = matrix(g, POOL_SCRATCH, ACT_D, k, C);
    g->dob = matrix(g, POOL_SCRATCH, ACT_Q, 0, C); /* laid out as the attention output */
    g->dq = operand(g, POOL_SCRATCH, ACT_Q, k, C);
    /* In CoLM-Air sums over the chains that read them. */
    bool sums = f->kv != KV_OWN;
    g->dk = sums ? matrix(g, POOL_SCRATCH, ACT_K, k, C) : operand(g, POOL_SCRATCH, ACT_K, k, C);
    g->dv = sums ? matrix(g, POOL_SCRATCH, ACT_K, k, C) : operand(g, POOL_SCRATCH, ACT_K, k, C);
    g->dz = matrix(g, POOL_SCRATCH, ACT_F, k, C);
    if (f->qk_norm) {
        g->dqraw = operand(g, POOL_SCRATCH, ACT_Q, k, C);
        g->dkraw = operand(g, POOL_SCRATCH, ACT_K, k, C);
    }
    if (f->post_norms) g->dout = matrix(g, POOL_SCRATCH, ACT_D, k, C);
}

static void place_logits(model_graph *g) {
    uint32_t C = g->s->config.n_chains;
    bool nested = g->s->config.family.head == HEAD_NESTED;
    g->logits_ld = ops_stride(ops_pad(g->s->config.vocab));
    g->n_logits = g->p.keep_logits || (g->multi && nested) ? C : 1;
    g->logits = (act){.pool = POOL_SCRATCH, .ld = g->logits_ld};
    g->logits.len = model_align((uint64_t)ops_rows(g->p.keep_logits ? g->rows : g->p.head_rows) * g->logits_ld);
    g->logits.off = reserve(g, POOL_SCRATCH, g->n_logits * g->logits.len);
}

/* The frozen part of each layer, and in an evaluation everything, is the same scratch for all layers. With
 * recompute the trained part is too, but for each layer's input; what its linears read must still be kept per
 * layer where a frozen prefix wrote columns that are not computed again. */
void graph_place(model_graph *g) {
    uint32_t C = g->s->config.n_chains, L = g->s->config.layers, k = g->lo[1];
    bool body = k < C, air = g->s->config.family.kv != KV_OWN;
    layer_part frozen = {0}, trained = {0};
    layer_acts shared = {0};
    if (k) {
        place_input(g, POOL_SCRATCH, &frozen, 0, k);
        place_part(g, POOL_SCRATCH, &frozen, 0, k);
    }
    if (body && g->p.recompute) place_part(g, POOL_SCRATCH, &trained, k, C);
    bool keep_inputs = body && !(g->p.recompute && k == 0);
    if (!keep_inputs) place_inputs_of_linears(g, POOL_SCRATCH, &shared);
    for (uint32_t l = 0; l <= L; l++) {
        layer_acts *a = &g->layer[l];
        if (l < L) {
            if (keep_inputs) place_inputs_of_linears(g, POOL_KEEP, &shared);
            if (body && !g->p.recompute) place_part(g, POOL_KEEP, &trained, k, C);
            if (body && air && k) place_kv(g, POOL_KEEP, &frozen, 0, k); /* later chains' gradients read them */
        }
        *a = shared;
        a->part[0] = frozen;
        a->part[1] = trained;
        if (body) place_input(g, POOL_KEEP, &a->part[1], k, C);
    }
    g->hf = operand(g, POOL_SCRATCH, ACT_D, 0, C);
    place_logits(g);
    if (body) place_gradients(g);
}

colm_status graph_buffers(model_graph *g, colm_err *err) {
    static const char *const purpose[POOLS] = {"activations", "scratch", "activations", "scratch"};
    ops_machine *m = g->s->machine;
    const model_config *c = &g->s->config;
    bool train = g->p.train, learned = c->family.position == POSITION_LEARNED;
    uint64_t trained = g->s->end - g->s->trained_at;
    const struct {
        ops_buf *buf;
        ops_dtype type;
        uint64_t n;
        bool wanted;
    } list[] = {
        {&g->tokens, OPS_U32, g->rows16, true},
        {&g->targets, OPS_U32, g->rows16, true},
        {&g->first[0], OPS_U32, g->rows16, true},
        {&g->first[1], OPS_U32, g->rows16, c->family.window > 0},
        {&g->rope, OPS_F32, model_align((uint64_t)g->p.T * c->head_dim), true},
        {&g->nll, OPS_F32, g->nll_stride * c->n_chains, true},
        {&g->top, OPS_U32, g->nll_stride * c->n_chains, !train},
        {&g->list, OPS_U32, g->rows16, train},
        {&g->start, OPS_U32, g->rows16 + 16, train},
        {&g->order, OPS_U32, g->rows16, train},
        {&g->pos, OPS_U32, g->rows16, learned},
        {&g->pos_list, OPS_U32, g->rows16, learned && train},
        {&g->pos_start, OPS_U32, g->rows16 + 16, learned && train},
        {&g->pos_order, OPS_U32, g->rows16, learned && train},
        {&g->partial, OPS_F32, model_align(trained / ABI_SUMSQ_CHUNK + trained / MODEL_PIECE + 64), train},
        {&g->clip, OPS_F32, 64, train},
    };
    for (act_pool p = 0; p < POOLS; p++)
        if (g->pool_len[p]) TRY(ops_buffer(m, purpose[p], pool_type(g, p), g->pool_len[p], &g->pool[p], err));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].wanted) TRY(ops_buffer(m, "step data", list[i].type, list[i].n, list[i].buf, err));
    return COLM_OK;
}
