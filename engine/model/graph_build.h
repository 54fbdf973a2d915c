/* Private to the graph: where activations lie, and the calls that its passes are made of. */
#ifndef COLM_MODEL_GRAPH_BUILD_H
#define COLM_MODEL_GRAPH_BUILD_H

#include "engine/model/graph.h"

#define TRY(call)                  \
    do {                           \
        colm_status try_ = (call); \
        if (try_) return try_;     \
    } while (0)

/* Activations are kept for the backward pass or live in scratch that every layer uses again; in float32, or in
 * the run's storage where that has 16 bits. */
typedef enum { POOL_KEEP, POOL_SCRATCH, POOL_KEEP_16, POOL_SCRATCH_16, POOLS } act_pool;

/* A matrix of activations: rows x ld of the columns of chains lo.. in one space; or a vector of statistics (ld
 * 0). len 0: there is none. */
typedef struct {
    act_pool pool;
    uint64_t off, len;
    uint32_t ld, lo;
    act_space space;
} act;

/* What belongs to one part of the chains: part 0 is the frozen prefix, part 1 the trained rest. */
typedef struct {
    act x, mid;     /* residual stream before the layer, and after its attention */
    act q, k, v;    /* what attention reads */
    act qraw, kraw; /* with QK-norm: before it */
    act a, b;       /* gate (or the one hidden matrix) and up */
    act oout, fout; /* with post-norms: outputs of attention and of the feed-forward before them */
    act post;       /* and after, on the way into the residual stream (scratch) */
    act stat1, stat2, stat_q, stat_k, stat_o, stat_f; /* of the norms */
    act lse;                                          /* of attention, then delta for its gradient */
} layer_part;
typedef struct {
    layer_part part[2];
    act h1, o, h2, z; /* all chains: what chain linears read */
} layer_acts;

struct model_graph {
    model_state *s;
    graph_params p;
    uint32_t rows, rows16; /* B*T, and what is allocated */
    uint32_t lo[2], hi[2]; /* chains of the two parts; with head_only nothing is in part 1 */
    uint32_t head_lo;      /* chains head_lo.. train their heads */
    bool multi;            /* more than the full scale has a loss */
    uint32_t top_scale;    /* scales 1..top_scale have losses, the last certainly */
    layer_acts *layer;     /* L + 1: the last holds only the final x and its stat1 */
    act hf;                /* the final norm's output */
    act dx, dh, dob, dq, dk, dv, dqraw, dkraw, dout, dz, dhf;
    act logits; /* head_rows x ld, n_logits times */
    uint32_t n_logits, logits_ld;
    uint64_t pool_len[POOLS];
    ops_buf pool[POOLS];
    ops_buf tokens, targets, list, start, order, rope, nll, top, partial, clip;
    ops_buf first[2]; /* first position each row may see: in layers that see all, in windowed ones */
    ops_buf joined;   /* of ops_fuse */
    ops_buf pos, pos_list, pos_start, pos_order; /* learned positions */
    uint64_t nll_stride;                         /* rows to a multiple of 64; see graph_nll_at */
    ops_list forward, head, clear, backward, update;
    uint8_t *scored; /* scale of every cross-entropy in `head`, in order */
    size_t n_scored;
    double lambda[MODEL_MAX_CHAINS], loss_scale;
    uint32_t *host_start, *host_order, *host_list, *host_count, *host_first;
    float *host_nll;
    graph_profile *profile; /* not NULL: this step is timed call by call */
};

/* The lists of a step in their order. */
#define GRAPH_LISTS 5
static inline void graph_lists(model_graph *g, ops_list *ret[GRAPH_LISTS]) {
    ops_list *const lists[GRAPH_LISTS] = {&g->clear, &g->forward, &g->head, &g->backward, &g->update};
    for (int i = 0; i < GRAPH_LISTS; i++) ret[i] = lists[i];
}

/* Columns of chain i in a matrix. */
static inline uint32_t act_col(const model_graph *g, const act *a, uint32_t chain) {
    return g->s->col[a->space][chain] - g->s->col[a->space][a->lo];
}
static inline uint32_t act_width(const model_graph *g, act_space space, uint32_t chain) {
    return g->s->col[space][chain + 1] - g->s->col[space][chain];
}
static inline ops_view act_view(const model_graph *g, const act *a) {
    return (ops_view){g->pool[a->pool], a->off, a->len};
}
/* Rows r0 .. of a matrix, r0 a multiple of 16 (so that the view stays aligned), n rows. */
static inline ops_view act_rows(const model_graph *g, const act *a, uint32_t r0, uint32_t n) {
    return (ops_view){g->pool[a->pool], a->off + (uint64_t)r0 * a->ld, (uint64_t)ops_rows(n) * a->ld};
}
/* Where a scale's losses start in the nll buffer: scale by scale, in training the full one first. */
static inline uint64_t graph_nll_at(const model_graph *g, uint32_t scale) {
    return (g->p.train ? g->s->config.n_chains - 1 - scale : scale) * g->nll_stride;
}
static inline bool graph_has(const model_graph *g, param_kind k, uint32_t layer, uint32_t chain) {
    return model_state_index(g->s, k, layer, chain) != MODEL_NO_TENSOR;
}
/* The part whose keys and values a chain reads, and the chain that owns them: its own, or in CoLM-Air chain
 * 1's. */
static inline uint32_t graph_kv_chain(const model_graph *g, uint32_t chain) {
    return g->s->config.family.kv == KV_OWN ? chain : 0;
}
static inline int graph_part_of(const model_graph *g, uint32_t chain) {
    return chain >= g->hi[0];
}
static inline bool graph_windowed(const model_graph *g, uint32_t layer) {
    const model_family *f = &g->s->config.family;
    return f->window && !(f->window_every && (layer + 1) % f->window_every == 0);
}

/* The statement for every chain with its part, from part `from` on: a recomputation leaves out the frozen
 * prefix. */
#define EACH_CHAIN(g, from, part, chain)      \
    for (int part = (from); part < 2; part++) \
        for (uint32_t chain = (g)->lo[part]; chain < (g)->hi[part]; chain++)
#define EACH_TRAINED(g, chain) for (uint32_t chain = (g)->lo[1]; chain < (g)->hi[1]; chain++)

/* graph_place.c */
void graph_place(model_graph *g);
COLM_MUST_USE colm_status graph_buffers(model_graph *g, colm_err *err);

/* graph_profile.c: ops_run, or where the step is profiled its timed form. */
COLM_MUST_USE colm_status graph_run(model_graph *g, const ops_list *const *lists, size_t n, colm_err *err);

/* graph_emit.c: one or a few calls each, appended to a list. */
/* Where chain i's statistics start in a vector of `each` values per row: heads, key-value heads, or 1. */
typedef enum { STAT_ROW, STAT_HEAD, STAT_KV_HEAD } stat_per;
uint32_t graph_stat_offset(const model_graph *g, const act *a, uint32_t chain, stat_per per);
/* Y[:, chain's columns] = (R +) X_{<=chain} W^T for one tensor of the table; R NULL starts from zero. */
COLM_MUST_USE colm_status graph_linear(model_graph *g, ops_list *l, param_kind k, uint32_t layer,
                                       uint32_t chain, const act *x, const act *r, const act *y, colm_err *err);
/* Norm of one chain, its bias included; `stat` keeps what the gradient needs. */
typedef struct {
    param_kind gain, bias; /* bias PARAM_KINDS: none */
    uint32_t layer, chain;
} norm_of;
COLM_MUST_USE colm_status graph_norm(model_graph *g, ops_list *l, norm_of n, const act *x, const act *y,
                                     const act *stat, colm_err *err);
/* dx += what the norm passes on of dy; gain and bias gradients. */
COLM_MUST_USE colm_status graph_norm_gradient(model_graph *g, norm_of n, const act *x, const act *stat,
                                              const act *dy, const act *dx, colm_err *err);
/* y += bias, and its gradient; nothing when the family has none. */
COLM_MUST_USE colm_status graph_bias(model_graph *g, ops_list *l, param_kind k, uint32_t layer, uint32_t chain,
                                     const act *y, colm_err *err);
COLM_MUST_USE colm_status graph_bias_gradient(model_graph *g, param_kind k, uint32_t layer, uint32_t chain,
                                              const act *dy, colm_err *err);
/* Turns the (key-value) heads of one part's chains in x; sign -1: back. */
COLM_MUST_USE colm_status graph_rope(model_graph *g, ops_list *l, const act *x, int part, stat_per per,
                                     float sign, colm_err *err);
/* One attention call can do for chains of one part whose heads stand without padding between and find their
 * key-value heads by one rule: the chain behind the last of them that `chain` begins. */
uint32_t graph_attn_end(const model_graph *g, uint32_t chain);
/* The attention of these chains in one layer, as every attention call wants it. */
struct abi_attn graph_attn(const model_graph *g, uint32_t layer, uint32_t chain);
ops_view graph_first(const model_graph *g, uint32_t layer);
/* z = x + y over the columns of chains lo.. hi-1. */
COLM_MUST_USE colm_status graph_add(model_graph *g, ops_list *l, const act *x, const act *y, const act *z,
                                    uint32_t lo, uint32_t hi, colm_err *err);
COLM_MUST_USE colm_status graph_zero(ops_list *l, ops_view v, colm_err *err);

struct abi_head_norm graph_head_norm(const model_graph *g, uint32_t chain, uint32_t heads, const act *x,
                                     const act *y, const act *stat, stat_per per);
/* The activation of the feed-forward of one part: A, B in its layout, Z in z's. */
struct abi_ew graph_activation(const model_graph *g, int part, const layer_part *p, const act *z);

/* A table of V rows in windows that fit a binding: `graph_window w = {0}; while (graph_next_window(g, tensor,
 * &w)) ...`. */
typedef struct {
    uint32_t first, count; /* rows */
    uint32_t ld;
    bool all; /* one window is the whole table */
} graph_window;
bool graph_next_window(const model_graph *g, uint32_t tensor, graph_window *w);
ops_view graph_window_of(ops_view table, const graph_window *w);

/* The passes. graph_layer emits one layer's forward; `again`: for the backward pass, of the trained part alone.
 */
COLM_MUST_USE colm_status graph_layer(model_graph *g, ops_list *l, uint32_t layer, bool again, colm_err *err);
COLM_MUST_USE colm_status graph_forward(model_graph *g, colm_err *err);
COLM_MUST_USE colm_status graph_head(model_graph *g, colm_err *err);
COLM_MUST_USE colm_status graph_backward(model_graph *g, colm_err *err);
COLM_MUST_USE colm_status graph_update_list(model_graph *g, colm_err *err);

#endif
