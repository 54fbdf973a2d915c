#include "engine/model/state.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

const char *const model_precision_name[PRECISIONS] = {"f32", "bf16", "f16"};

ops_dtype model_storage(model_precision p) {
    static const ops_dtype type[PRECISIONS] = {OPS_F32, OPS_BF16, OPS_F16};
    return type[p];
}

static const param_space space_of[ACT_SPACES] = {SPACE_D, SPACE_Q, SPACE_K, SPACE_F};

static act_space act_of(param_space s) {
    for (act_space a = 0; a < ACT_SPACES; a++)
        if (space_of[a] == s) return a;
    return ACT_D;
}

/* Padded columns of a tensor: one chain's own, or those of chains 1..its. */
static uint32_t padded_cols(const model_state *s, const model_tensor *t) {
    const param_info *p = param_get(t->kind);
    if (param_is_own(&s->config, t->kind)) return ops_pad(t->cols);
    return s->col[act_of(p->cols)][t->chain + 1];
}

static bool trains(const model_state *s, const model_tensor *t) {
    return t->chain >= s->frozen && (!s->head_only || t->kind == PARAM_HEAD);
}

static void place(model_state *s, size_t i, uint64_t *at) {
    const model_tensor *t = &s->shape[i];
    state_tensor *p = &s->tensor[i];
    bool vector = param_is_vector(t->kind);
    p->rows = vector ? 1 : ops_pad(t->rows);
    p->ld = vector ? padded_cols(s, t) : ops_stride(padded_cols(s, t));
    p->trained = trains(s, t);
    p->off = *at;
    p->len = model_align_of(model_storage(s->precision), (uint64_t)p->rows * p->ld);
    *at += p->len;
}

static void lay_out(model_state *s) {
    for (act_space a = 0; a < ACT_SPACES; a++)
        for (uint32_t i = 0; i < s->config.n_chains; i++)
            s->col[a][i + 1] = s->col[a][i] + ops_pad(param_space_width(&s->config, space_of[a], i));
    uint64_t at = 0;
    for (size_t i = 0; i < s->n_tensors; i++)
        if (!trains(s, &s->shape[i])) place(s, i, &at);
    s->trained_at = at;
    for (int gains = 0; gains <= 1; gains++) {
        if (gains) s->gains_at = at;
        for (size_t i = 0; i < s->n_tensors; i++)
            if (trains(s, &s->shape[i]) && param_is_vector(s->shape[i].kind) == gains) place(s, i, &at);
    }
    s->end = at;
}

colm_status model_state_create(ops_machine *m, const model_weights *w, uint32_t frozen, model_state **ret,
                               colm_err *err) {
    return model_state_create_trained(m, w, (model_trained){.frozen = frozen}, ret, err);
}

colm_status model_state_create_trained(ops_machine *m, const model_weights *w, model_trained what,
                                       model_state **ret, colm_err *err) {
    for (uint32_t i = what.frozen; what.head_only && i < w->config.n_chains; i++)
        if (w->config.chain[i].tied)
            return err_set(
                err, COLM_E_INPUT,
                "chain %u's head is its embedding (tied): training the heads alone would move it; untie it",
                i + 1);
    colm_status st = COLM_OK;
    model_state *s = mem_alloc(1, sizeof *s);
    if (!s) return err_nomem(err, sizeof *s, "model state");
    *s = (model_state){.machine = m,
                       .config = w->config,
                       .frozen = what.frozen,
                       .head_only = what.head_only,
                       .precision = what.precision,
                       .n_tensors = w->n_tensors};
    s->shape = mem_alloc(s->n_tensors, sizeof *s->shape);
    s->tensor = mem_alloc(s->n_tensors, sizeof *s->tensor);
    size_t n_index = (size_t)s->config.n_chains * s->config.layers * PARAM_KINDS;
    s->index = mem_alloc(n_index, sizeof *s->index);
    if (!s->shape || !s->tensor || !s->index) {
        st = err_nomem(err, s->n_tensors * sizeof *s->shape, "model state");
        goto out;
    }
    memcpy(s->shape, w->tensor, s->n_tensors * sizeof *s->shape);
    for (size_t i = 0; i < n_index; i++) s->index[i] = MODEL_NO_TENSOR;
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        const model_tensor *x = &s->shape[i];
        s->index[((size_t)x->chain * s->config.layers + x->layer) * PARAM_KINDS + x->kind] = i;
    }
    lay_out(s);
    uint64_t trained = s->end - s->trained_at;
    if ((st = ops_buffer(m, "parameters", OPS_F32, s->end, &s->params, err))) goto out;
    if (trained) {
        if ((st = ops_buffer(m, "gradients", OPS_F32, trained, &s->grads, err))) goto out;
        if ((st = ops_buffer(m, "optimizer", OPS_F32, trained, &s->moment1, err))) goto out;
        if ((st = ops_buffer(m, "optimizer", OPS_F32, trained, &s->moment2, err))) goto out;
    }
    if (s->precision) {
        ops_dtype type = model_storage(s->precision);
        if ((st = ops_buffer(m, "working weights", type, s->end, &s->work, err))) goto out;
        if ((st = model_state_add_rounding(s, 0, s->end, &s->rounding, err))) goto out;
    }
    if (ops_machine_is_plan(m)) goto out;
    if (s->precision && (st = ops_prepare(m, &s->rounding, err))) goto out;
    st = model_state_upload(s, w, err);
out:
    if (st)
        model_state_free(&s);
    else
        *ret = s;
    return st;
}

void model_state_free(model_state **ps) {
    model_state *s = *ps;
    if (!s) return;
    ops_buf *bufs[] = {&s->params, &s->grads, &s->moment1, &s->moment2, &s->work};
    ops_unprepare(s->machine, &s->rounding);
    ops_list_done(&s->rounding);
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) ops_buffer_free(s->machine, bufs[i]);
    free(s->shape);
    free(s->tensor);
    free(s->index);
    free(s);
    *ps = NULL;
}

/* Moves one tensor between its true shape (flat) and its padded place (padded): the columns of every chain j it
 * reads, as one segment each. */
static void repack(const model_state *s, size_t i, float *flat, float *padded, bool to_flat) {
    const model_tensor *t = &s->shape[i];
    const param_info *p = param_get(t->kind);
    act_space a = act_of(p->cols);
    bool own = param_is_own(&s->config, t->kind);
    uint32_t first = own ? t->chain : 0;
    for (size_t r = 0; r < t->rows; r++) {
        size_t from = r * t->cols;
        for (uint32_t j = first; j <= t->chain; j++) {
            uint32_t n = param_space_width(&s->config, p->cols, j);
            size_t to = r * s->tensor[i].ld + (own ? 0 : s->col[a][j]);
            if (to_flat)
                memcpy(flat + from, padded + to, n * sizeof *flat);
            else
                memcpy(padded + to, flat + from, n * sizeof *flat);
            from += n;
        }
    }
}

/* Every tensor that lies in [from, end) of the parameter layout, between w and a buffer that starts at `from`.
 */
static colm_status transfer(model_state *s, ops_buf buf, uint64_t from, model_weights *w, bool down,
                            colm_err *err) {
    colm_status st = COLM_OK;
    uint64_t most = 0;
    for (size_t i = 0; i < s->n_tensors; i++)
        if (s->tensor[i].len > most) most = s->tensor[i].len;
    float *tmp = mem_alloc(most, sizeof *tmp);
    if (!tmp) return err_nomem(err, most * sizeof *tmp, "copy of a tensor");
    for (size_t i = 0; i < s->n_tensors && !st; i++) {
        const state_tensor *p = &s->tensor[i];
        float *flat = w->data + s->shape[i].off;
        if (p->off < from) continue;
        if (down) {
            st = ops_read(s->machine, buf, p->off - from, tmp, p->len, err);
            if (!st) repack(s, i, flat, tmp, true);
        } else {
            memset(tmp, 0, p->len * sizeof *tmp);
            repack(s, i, flat, tmp, false);
            st = ops_write(s->machine, buf, p->off - from, tmp, p->len, err);
        }
    }
    free(tmp);
    return st;
}

colm_status model_state_add_rounding(const model_state *s, uint64_t from, uint64_t end, ops_list *l,
                                     colm_err *err) {
    colm_status st = COLM_OK;
    for (uint64_t at = from, n; s->precision && at < end && !st; at += n) {
        n = end - at < MODEL_PIECE ? end - at : MODEL_PIECE;
        ops_call c = {.op = OP_CAST, .t = {{s->params, at, n}, {s->work, at, n}}, .p.cast = {(uint32_t)n}};
        st = ops_add(l, &c, err);
    }
    return st;
}

colm_status model_state_upload(model_state *s, const model_weights *w, colm_err *err) {
    const ops_list *rounding = &s->rounding;
    colm_status st = transfer(s, s->params, 0, (model_weights *)w, false, err);
    return st || !rounding->n ? st : ops_run(s->machine, &rounding, 1, err);
}
colm_status model_state_download(model_state *s, model_weights *w, colm_err *err) {
    return transfer(s, s->params, 0, w, true, err);
}
colm_status model_state_download_grads(model_state *s, model_weights *w, colm_err *err) {
    return transfer(s, s->grads, s->trained_at, w, true, err);
}

/* Whether a kind can have a gradient at all: scores that all keys share, or that nothing competes with, change
 * nothing. */
static bool can_move(const model_config *c, param_kind k, bool attends) {
    bool scores =
        k == PARAM_Q || k == PARAM_K || k == PARAM_BQ || k == PARAM_BK || k == PARAM_QN || k == PARAM_KN;
    if (k == PARAM_BK && c->family.position == POSITION_LEARNED && !c->family.qk_norm) return false;
    return attends || !scores;
}

colm_status model_state_check_trained(model_state *s, bool attends, colm_err *err) {
    colm_status st = COLM_OK;
    float tmp[4096];
    for (size_t i = 0; i < s->n_tensors && !st; i++) {
        const state_tensor *p = &s->tensor[i];
        bool moved = !p->trained || !can_move(&s->config, s->shape[i].kind, attends);
        for (uint64_t at = 0; at < p->len && !moved; at += sizeof tmp / sizeof *tmp) {
            uint64_t n = p->len - at < sizeof tmp / sizeof *tmp ? p->len - at : sizeof tmp / sizeof *tmp;
            if ((st = ops_read(s->machine, s->moment2, p->off - s->trained_at + at, tmp, n, err))) return st;
            for (uint64_t k = 0; k < n && !moved; k++) moved = tmp[k] != 0;
        }
        if (!moved)
            return err_set(err, COLM_E_CHECK, "tensor %s was to be trained but never had a gradient",
                           s->shape[i].name);
    }
    return st;
}

uint32_t model_state_index(const model_state *s, param_kind k, uint32_t layer, uint32_t chain) {
    if (k == PARAM_HEAD && s->config.chain[chain].tied) k = PARAM_EMBED;
    return s->index[((size_t)chain * s->config.layers + layer) * PARAM_KINDS + k];
}

ops_view model_state_param(const model_state *s, uint32_t tensor) {
    return (ops_view){s->params, s->tensor[tensor].off, s->tensor[tensor].len};
}

ops_view model_state_weight(const model_state *s, uint32_t tensor) {
    ops_view v = model_state_param(s, tensor);
    if (s->work) v.buf = s->work;
    return v;
}

ops_view model_state_grad(const model_state *s, uint32_t tensor) {
    return (ops_view){s->grads, s->tensor[tensor].off - s->trained_at, s->tensor[tensor].len};
}
