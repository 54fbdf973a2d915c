#include "engine/model/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"

static const param_info infos[PARAM_KINDS] = {
    [PARAM_EMBED] = {"embed", SPACE_V, SPACE_D, true, false, INIT_MATRIX},
    [PARAM_POS] = {"pos", SPACE_POS, SPACE_D, true, false, INIT_MATRIX},
    [PARAM_NORM1] = {"norm1", SPACE_ONE, SPACE_D, true, true, INIT_GAIN},
    [PARAM_NORM1B] = {"norm1b", SPACE_ONE, SPACE_D, true, true, INIT_ZERO},
    [PARAM_Q] = {"q", SPACE_Q, SPACE_D, false, true, INIT_MATRIX},
    [PARAM_K] = {"k", SPACE_K, SPACE_D, false, true, INIT_MATRIX},
    [PARAM_V] = {"v", SPACE_K, SPACE_D, false, true, INIT_MATRIX},
    [PARAM_BQ] = {"bq", SPACE_ONE, SPACE_Q, true, true, INIT_ZERO},
    [PARAM_BK] = {"bk", SPACE_ONE, SPACE_K, true, true, INIT_ZERO},
    [PARAM_BV] = {"bv", SPACE_ONE, SPACE_K, true, true, INIT_ZERO},
    [PARAM_QN] = {"qn", SPACE_ONE, SPACE_HEAD, true, true, INIT_GAIN},
    [PARAM_KN] = {"kn", SPACE_ONE, SPACE_HEAD, true, true, INIT_GAIN},
    [PARAM_O] = {"o", SPACE_D, SPACE_Q, false, true, INIT_RESIDUAL},
    [PARAM_BO] = {"bo", SPACE_ONE, SPACE_D, true, true, INIT_ZERO},
    [PARAM_POST1] = {"post1", SPACE_ONE, SPACE_D, true, true, INIT_GAIN},
    [PARAM_NORM2] = {"norm2", SPACE_ONE, SPACE_D, true, true, INIT_GAIN},
    [PARAM_NORM2B] = {"norm2b", SPACE_ONE, SPACE_D, true, true, INIT_ZERO},
    [PARAM_W1] = {"w1", SPACE_F, SPACE_D, false, true, INIT_MATRIX},
    [PARAM_W3] = {"w3", SPACE_F, SPACE_D, false, true, INIT_MATRIX},
    [PARAM_B1] = {"b1", SPACE_ONE, SPACE_F, true, true, INIT_ZERO},
    [PARAM_B3] = {"b3", SPACE_ONE, SPACE_F, true, true, INIT_ZERO},
    [PARAM_W2] = {"w2", SPACE_D, SPACE_F, false, true, INIT_RESIDUAL},
    [PARAM_B2] = {"b2", SPACE_ONE, SPACE_D, true, true, INIT_ZERO},
    [PARAM_POST2] = {"post2", SPACE_ONE, SPACE_D, true, true, INIT_GAIN},
    [PARAM_NORMF] = {"normf", SPACE_ONE, SPACE_D, true, false, INIT_GAIN},
    [PARAM_NORMFB] = {"normfb", SPACE_ONE, SPACE_D, true, false, INIT_ZERO},
    [PARAM_HEAD] = {"head", SPACE_V, SPACE_D, true, false, INIT_MATRIX},
};

const param_info *param_get(param_kind k) {
    return &infos[k];
}

uint32_t param_space_width(const model_config *c, param_space s, uint32_t chain) {
    const model_chain *h = &c->chain[chain];
    switch (s) {
    case SPACE_D:
        return h->width;
    case SPACE_Q:
        return h->heads * c->head_dim;
    case SPACE_K:
        return h->kv_heads * c->head_dim;
    case SPACE_F:
        return h->ffn;
    case SPACE_HEAD:
        return c->head_dim;
    case SPACE_V:
        return c->vocab;
    case SPACE_POS:
        return c->context;
    case SPACE_ONE:
        return 1;
    }
    return 0;
}

bool param_is_own(const model_config *c, param_kind k) {
    return infos[k].own && !(k == PARAM_HEAD && c->family.head == HEAD_SEPARATE);
}

/* What only some families have. */
static bool present(const model_config *c, param_kind k, uint32_t chain) {
    const model_family *f = &c->family;
    switch (k) {
    case PARAM_POS:
        return f->position == POSITION_LEARNED;
    case PARAM_NORM1B:
    case PARAM_NORM2B:
    case PARAM_NORMFB:
        return f->norm == NORM_LAYER;
    case PARAM_BQ:
        return f->bias_qkv;
    case PARAM_BK:
    case PARAM_BV:
        return f->bias_qkv && c->chain[chain].kv_heads;
    case PARAM_QN:
        return f->qk_norm;
    case PARAM_KN:
        return f->qk_norm && c->chain[chain].kv_heads;
    case PARAM_BO:
        return f->bias_o;
    case PARAM_POST1:
    case PARAM_POST2:
        return f->post_norms;
    case PARAM_W3:
        return model_ffn_gated(f);
    case PARAM_B1:
    case PARAM_B2:
        return f->bias_ffn;
    case PARAM_B3:
        return f->bias_ffn && model_ffn_gated(f);
    case PARAM_HEAD:
        return !c->chain[chain].tied;
    default:
        return true;
    }
}

uint32_t param_rows(const model_config *c, param_kind k, uint32_t chain) {
    return present(c, k, chain) ? param_space_width(c, infos[k].rows, chain) : 0;
}

uint32_t param_cols(const model_config *c, param_kind k, uint32_t chain, uint32_t from) {
    uint32_t n = 0;
    if (param_is_own(c, k)) return param_space_width(c, infos[k].cols, chain);
    for (uint32_t j = from; j <= chain; j++) n += param_space_width(c, infos[k].cols, j);
    return n;
}

/* Appends a tensor to the table (out NULL: only counts), unless the configuration has none. */
static size_t put(const model_config *c, param_kind k, uint32_t layer, uint32_t chain, model_tensor *out,
                  size_t n) {
    uint32_t rows = param_rows(c, k, chain), cols = param_cols(c, k, chain, 0);
    if (!rows || !cols) return n;
    if (out) {
        out[n] = (model_tensor){.kind = k, .layer = layer, .chain = chain, .rows = rows, .cols = cols};
        if (infos[k].per_layer)
            snprintf(out[n].name, sizeof out[n].name, "layers.%u.%s.%u", layer, infos[k].name, chain + 1);
        else
            snprintf(out[n].name, sizeof out[n].name, "%s.%u", infos[k].name, chain + 1);
    }
    return n + 1;
}

static size_t each_tensor(const model_config *c, model_tensor *out) {
    size_t n = 0;
    for (uint32_t i = 0; i < c->n_chains; i++) {
        param_kind k = 0, layers;
        for (; !infos[k].per_layer; k++) n = put(c, k, 0, i, out, n);
        layers = k;
        for (uint32_t l = 0; l < c->layers; l++)
            for (k = layers; infos[k].per_layer; k++) n = put(c, k, l, i, out, n);
        for (; k < PARAM_KINDS; k++) n = put(c, k, 0, i, out, n);
    }
    return n;
}

colm_status model_weights_outline(const model_config *c, model_weights **ret, colm_err *err) {
    colm_status st = model_config_check(c, err);
    if (st) return st;
    model_weights *w = mem_alloc(1, sizeof *w);
    if (!w) return err_nomem(err, sizeof *w, "weights");
    w->config = *c;
    w->n_tensors = each_tensor(c, NULL);
    w->tensor = mem_alloc(w->n_tensors, sizeof *w->tensor);
    if (!w->tensor) {
        st = err_nomem(err, w->n_tensors * sizeof *w->tensor, "table of tensors");
        goto out;
    }
    each_tensor(c, w->tensor);
    for (size_t i = 0; i < w->n_tensors; i++) {
        w->tensor[i].off = w->n_elems;
        w->n_elems += (size_t)w->tensor[i].rows * w->tensor[i].cols;
    }
out:
    if (st)
        model_weights_free(&w);
    else
        *ret = w;
    return st;
}

colm_status model_weights_create(const model_config *c, model_weights **ret, colm_err *err) {
    model_weights *w;
    colm_status st = model_weights_outline(c, &w, err);
    if (st) return st;
    w->data = mem_alloc(w->n_elems, sizeof *w->data);
    if (!w->data) {
        st = err_nomem(err, w->n_elems * sizeof *w->data, "weights");
        model_weights_free(&w);
        return st;
    }
    *ret = w;
    return COLM_OK;
}

void model_weights_free(model_weights **pw) {
    model_weights *w = *pw;
    if (!w) return;
    free(w->tensor);
    free(w->data);
    free(w);
    *pw = NULL;
}

const model_tensor *model_weights_find(const model_weights *w, const char *name) {
    for (size_t i = 0; i < w->n_tensors; i++)
        if (strcmp(w->tensor[i].name, name) == 0) return &w->tensor[i];
    return NULL;
}

const model_tensor *model_weights_at(const model_weights *w, param_kind k, uint32_t layer, uint32_t chain) {
    for (size_t i = 0; i < w->n_tensors; i++) {
        const model_tensor *t = &w->tensor[i];
        if (t->kind == k && t->chain == chain && (t->layer == layer || !infos[k].per_layer)) return t;
    }
    return NULL;
}

static void tensor_init(model_weights *w, const model_tensor *t, uint64_t seed) {
    float *x = w->data + t->off;
    size_t n = (size_t)t->rows * t->cols;
    param_init init = infos[t->kind].init;
    if (init == INIT_GAIN || init == INIT_ZERO) {
        float v = init == INIT_GAIN && w->config.family.norm != NORM_RMS_PLUS_ONE;
        for (size_t i = 0; i < n; i++) x[i] = v;
        return;
    }
    rng_stream s = rng_open(seed, t->name);
    double dev = 0.02 / (init == INIT_RESIDUAL ? sqrt(2.0 * w->config.layers) : 1);
    for (size_t i = 0; i < n; i++) x[i] = (float)(dev * rng_normal(&s, i));
}

colm_status model_weights_init(const model_config *c, uint64_t seed, model_weights **ret, colm_err *err) {
    model_weights *w;
    colm_status st = model_weights_create(c, &w, err);
    if (st) return st;
    for (size_t i = 0; i < w->n_tensors; i++) tensor_init(w, &w->tensor[i], seed);
    *ret = w;
    return COLM_OK;
}

/* Copies the tensors that both hold; both tables list chains in order, so the smaller one is a prefix. */
static void copy_common(model_weights *to, const model_weights *from) {
    size_t n = to->n_tensors < from->n_tensors ? to->n_tensors : from->n_tensors;
    const model_weights *small = n == to->n_tensors ? to : from;
    memcpy(to->data, from->data, small->n_elems * sizeof *to->data);
}

/* A new scale's own matrix starts as [the last old scale's, 0]. */
static void grow_separate_heads(model_weights *g, uint32_t old) {
    const model_tensor *last = NULL;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const model_tensor *t = &g->tensor[i];
        if (t->kind != PARAM_HEAD) continue;
        if (t->chain < old) last = t;
        for (uint32_t r = 0; last && t->chain >= old && r < t->rows; r++)
            memcpy(g->data + t->off + (size_t)r * t->cols, g->data + last->off + (size_t)r * last->cols,
                   last->cols * sizeof *g->data);
    }
}

colm_status model_weights_grow(const model_weights *w, const model_config *bigger, uint64_t seed,
                               model_weights **ret, colm_err *err) {
    if (!model_config_extends(bigger, &w->config))
        return err_set(
            err, COLM_E_INPUT,
            "the grown model does not extend the old one's %u chains: their sizes, constants or head maps "
            "differ",
            w->config.n_chains);
    model_weights *g;
    colm_status st = model_weights_create(bigger, &g, err);
    if (st) return st;
    copy_common(g, w);
    for (size_t i = w->n_tensors; i < g->n_tensors; i++)
        if (g->tensor[i].kind != PARAM_HEAD &&
            !(g->tensor[i].kind == PARAM_EMBED && g->config.chain[g->tensor[i].chain].tied))
            tensor_init(g, &g->tensor[i], seed);
    if (bigger->family.head == HEAD_SEPARATE) grow_separate_heads(g, w->config.n_chains);
    *ret = g;
    return COLM_OK;
}

colm_status model_weights_prefix(const model_weights *w, uint32_t scale, model_weights **ret, colm_err *err) {
    if (scale < 1 || scale > w->config.n_chains)
        return err_set(err, COLM_E_INPUT, "scale %u of a model with %u chains", scale, w->config.n_chains);
    model_config c = model_config_prefix(&w->config, scale);
    model_weights *p;
    colm_status st = model_weights_create(&c, &p, err);
    if (st) return st;
    copy_common(p, w);
    *ret = p;
    return COLM_OK;
}

void model_tensor_digest(const model_weights *w, const model_tensor *t, char ret[HASH_TEXT]) {
    hash_bytes(w->data + t->off, (size_t)t->rows * t->cols * sizeof(float), ret);
}

colm_status model_weights_digest(const model_weights *w, uint32_t chains, char ret[HASH_TEXT], colm_err *err) {
    hash_state *h = hash_open();
    if (!h) return err_nomem(err, 1024, "digest");
    for (size_t i = 0; i < w->n_tensors && w->tensor[i].chain < chains; i++) {
        const model_tensor *t = &w->tensor[i];
        hash_add_text(h, t->name);
        hash_add(h, w->data + t->off, (size_t)t->rows * t->cols * sizeof(float));
    }
    hash_close(&h, ret);
    return COLM_OK;
}
