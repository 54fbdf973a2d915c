/* A model on a machine: parameters, gradients and optimizer moments in device layout.
 *
 * Layout: every tensor's columns are split by chain and each chain's columns padded to a multiple of 8 with
 * zeros; rows likewise; row strides by ops_stride. One buffer holds all parameters: frozen tensors first, then
 * trained matrices, then trained gains (which do not decay). Gradients and moments exist for the trained part
 * only, at the same distances. In a 16-bit precision a second buffer of that type holds the parameters rounded,
 * at the same places: what matrix products read. */
#ifndef COLM_MODEL_STATE_H
#define COLM_MODEL_STATE_H

#include "engine/model/precision.h"
#include "engine/model/weights.h"
#include "engine/ops/ops.h"

/* Column spaces of activations; a space's columns stand chain by chain. */
typedef enum { ACT_D, ACT_Q, ACT_K, ACT_F, ACT_SPACES } act_space;

typedef struct {
    uint64_t off, len; /* elements of the parameter buffer */
    uint32_t rows, ld; /* padded rows, row stride */
    bool trained;
} state_tensor;

typedef struct {
    ops_machine *machine; /* the caller's */
    model_config config;
    uint32_t frozen; /* chains 1..frozen have no gradient */
    bool head_only;  /* of the others only the output heads have one */
    model_precision precision;
    model_tensor *shape;  /* the weights' table of tensors: names, true shapes */
    state_tensor *tensor; /* where each of them lies */
    size_t n_tensors;
    uint32_t *index;                                /* by (chain, layer, kind): place in the table */
    uint32_t col[ACT_SPACES][MODEL_MAX_CHAINS + 1]; /* first padded column of each chain, and the total */
    ops_buf params, grads, moment1, moment2;        /* the last three 0 when nothing trains */
    ops_buf work;                                   /* params in 16 bits; 0 in float32 */
    ops_list rounding;                              /* makes all of it */
    uint64_t trained_at;                            /* first element of the trained part */
    uint64_t gains_at;                              /* first element of the trained gains */
    uint64_t end;
} model_state;

/* Allocates (and, except on a plan machine, uploads) w. frozen = number of chains: an inference state without
 * gradients. */
COLM_MUST_USE colm_status model_state_create(ops_machine *m, const model_weights *w, uint32_t frozen,
                                             model_state **ret, colm_err *err);
/* The same with a choice of the precision and a finer one of what trains. head_only: of chains beyond `frozen`
 * the output heads alone; refused when one of them is tied, since its embedding would move. */
typedef struct {
    uint32_t frozen;
    bool head_only;
    model_precision precision; /* 0: float32 */
} model_trained;
COLM_MUST_USE colm_status model_state_create_trained(ops_machine *m, const model_weights *w, model_trained t,
                                                     model_state **ret, colm_err *err);
void model_state_free(model_state **s);
COLM_MUST_USE colm_status model_state_upload(model_state *s, const model_weights *w, colm_err *err);
COLM_MUST_USE colm_status model_state_download(model_state *s, model_weights *w, colm_err *err);
/* The same layout of one trained tensor's gradient or second moment into a weights-shaped block (tests,
 * checks). */
COLM_MUST_USE colm_status model_state_download_grads(model_state *s, model_weights *w, colm_err *err);
/* COLM_E_CHECK naming the first trained tensor whose second moment is still all zero: it never had a gradient.
 * `attends` false: rows see only themselves (one token, or a window of one), so queries and keys cannot have
 * one. */
COLM_MUST_USE colm_status model_state_check_trained(model_state *s, bool attends, colm_err *err);

/* Elements to where a view of a type may begin: 256 bytes. */
static inline uint64_t model_align_of(ops_dtype t, uint64_t n) {
    uint64_t each = t == OPS_BF16 || t == OPS_F16 ? 128 : 64;
    return (n + each - 1) / each * each;
}
static inline uint64_t model_align(uint64_t n) {
    return model_align_of(OPS_F32, n);
}
/* The type that a precision stores in. */
ops_dtype model_storage(model_precision p);

/* Elements of a buffer of parameters that one call takes. */
#define MODEL_PIECE ((uint64_t)1 << 24)
/* Rounds elements [from, end) of the parameters into the working copy; nothing in float32. */
COLM_MUST_USE colm_status model_state_add_rounding(const model_state *s, uint64_t from, uint64_t end,
                                                   ops_list *l, colm_err *err);

#define MODEL_NO_TENSOR UINT32_MAX
/* Place in the table, or MODEL_NO_TENSOR when the configuration has none. A tied chain's head is its embedding.
 */
uint32_t model_state_index(const model_state *s, param_kind k, uint32_t layer, uint32_t chain);
ops_view model_state_param(const model_state *s, uint32_t tensor);
/* As matrix products read it: the working copy, where there is one. */
ops_view model_state_weight(const model_state *s, uint32_t tensor);
ops_view model_state_grad(const model_state *s, uint32_t tensor);

#endif
