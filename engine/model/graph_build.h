/* Private to the graph: where activations lie, and the helpers that forward and backward share. */
#ifndef COLM_MODEL_GRAPH_BUILD_H
#define COLM_MODEL_GRAPH_BUILD_H

#include "engine/model/graph.h"

#define TRY(call)                  \
    do {                           \
        colm_status try_ = (call); \
        if (try_) return try_;     \
    } while (0)

/* Activations are kept for the backward pass or live in scratch that every layer uses again. */
typedef enum { POOL_KEEP, POOL_SCRATCH, POOLS } act_pool;

/* A matrix of activations: rows x ld of the columns of chains lo.. in one space; or a vector of statistics (ld
 * 0). */
typedef struct {
    act_pool pool;
    uint64_t off, len;
    uint32_t ld, lo;
    act_space space;
} act;

/* What belongs to one part of the chains: part 0 is the frozen prefix, part 1 the trained rest. */
typedef struct {
    act x, mid;        /* residual stream before the layer, and after its attention */
    act q, k, v, a, b; /* projections; gate and up */
    act stat1, stat2;
    act softmax; /* lse per head and row; where it is trained, a second half of as many deltas */
} layer_part;
typedef struct {
    layer_part part[2];
    act h1, o, h2, z; /* all chains: what chain linears read */
} layer_acts;

struct model_graph {
    model_state *s;
    graph_params p;
    uint32_t rows, rows16; /* B*T, and what is allocated */
    uint32_t lo[2], hi[2]; /* chains of the two parts */
    layer_acts *layer;     /* L + 1: the last holds only the final x and its stat1 */
    act hf, dx, dh, dob, dq, dk, dv, dz, dhf;
    act logits; /* head_rows x ld, or per scale rows16 x ld */
    uint32_t logits_ld;
    uint64_t pool_len[POOLS];
    ops_buf pool[POOLS];
    ops_buf tokens, targets, first, list, start, order, rope, nll, top, partial, clip;
    uint64_t nll_stride; /* rows to a multiple of 64: scale s starts at s*nll_stride */
    ops_list forward, head, backward, update;
    size_t n_pieces; /* of the trained buffer: sumsq partial counts */
    uint32_t *host_start, *host_order, *host_list, *host_count;
    float *host_nll;
};

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

COLM_MUST_USE colm_status graph_forward(model_graph *g, colm_err *err);
COLM_MUST_USE colm_status graph_head(model_graph *g, colm_err *err);
COLM_MUST_USE colm_status graph_backward(model_graph *g, colm_err *err);
COLM_MUST_USE colm_status graph_update_list(model_graph *g, colm_err *err);
/* Y[:, chain's columns] = (R +) X_{<=chain} W^T for one tensor of the table; R NULL starts from zero. */
COLM_MUST_USE colm_status graph_linear(model_graph *g, ops_list *l, param_kind k, uint32_t layer,
                                       uint32_t chain, const act *x, const act *r, const act *y, colm_err *err);
/* Where chain i's statistics start in a vector of `each` values per row: heads, or 1. */
uint32_t graph_stat_offset(const model_graph *g, const act *a, uint32_t chain, bool per_head);

#endif
