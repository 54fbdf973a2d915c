#include "engine/model/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"

static const param_info infos[PARAM_KINDS] = {
    [PARAM_EMBED] = {"embed", SPACE_V, SPACE_OWN, false, false, false},
    [PARAM_NORM1] = {"norm1", SPACE_ONE, SPACE_OWN, true, true, false},
    [PARAM_Q] = {"q", SPACE_Q, SPACE_D, true, false, false},
    [PARAM_K] = {"k", SPACE_K, SPACE_D, true, false, false},
    [PARAM_V] = {"v", SPACE_K, SPACE_D, true, false, false},
    [PARAM_O] = {"o", SPACE_D, SPACE_Q, true, false, true},
    [PARAM_NORM2] = {"norm2", SPACE_ONE, SPACE_OWN, true, true, false},
    [PARAM_W1] = {"w1", SPACE_F, SPACE_D, true, false, false},
    [PARAM_W3] = {"w3", SPACE_F, SPACE_D, true, false, false},
    [PARAM_W2] = {"w2", SPACE_D, SPACE_F, true, false, true},
    [PARAM_NORMF] = {"normf", SPACE_ONE, SPACE_OWN, false, true, false},
    [PARAM_HEAD] = {"head", SPACE_V, SPACE_OWN, false, false, false},
};

const param_info *param_get(param_kind k) {
    return &infos[k];
}

uint32_t param_space_width(const model_config *c, param_space s, uint32_t chain) {
    const model_chain *h = &c->chain[chain];
    switch (s) {
    case SPACE_D:
    case SPACE_OWN:
        return h->width;
    case SPACE_Q:
        return h->heads * c->head_dim;
    case SPACE_K:
        return h->kv_heads * c->head_dim;
    case SPACE_F:
        return h->ffn;
    case SPACE_V:
        return c->vocab;
    case SPACE_ONE:
        return 1;
    }
    return 0;
}

static void tensor_fill(model_tensor *t, const model_config *c, param_kind k, uint32_t layer, uint32_t chain) {
    const param_info *p = &infos[k];
    *t =
        (model_tensor){.kind = k, .layer = layer, .chain = chain, .rows = param_space_width(c, p->rows, chain)};
    if (p->cols == SPACE_OWN)
        t->cols = c->chain[chain].width;
    else
        for (uint32_t j = 0; j <= chain; j++) t->cols += param_space_width(c, p->cols, j);
    if (p->per_layer)
        snprintf(t->name, sizeof t->name, "layers.%u.%s.%u", layer, p->name, chain + 1);
    else
        snprintf(t->name, sizeof t->name, "%s.%u", p->name, chain + 1);
}

/* Fills the table (or only counts, with out NULL): chain by chain, its embedding, its layers, its final norm
 * and head. */
static size_t each_tensor(const model_config *c, model_tensor *out) {
    size_t n = 0;
    for (uint32_t i = 0; i < c->n_chains; i++) {
        size_t tail = n + 1 + (size_t)c->layers * (PARAM_W2 - PARAM_NORM1 + 1);
        if (out) {
            tensor_fill(&out[n++], c, PARAM_EMBED, 0, i);
            for (uint32_t l = 0; l < c->layers; l++)
                for (param_kind k = PARAM_NORM1; k <= PARAM_W2; k++) tensor_fill(&out[n++], c, k, l, i);
            tensor_fill(&out[n++], c, PARAM_NORMF, 0, i);
            tensor_fill(&out[n++], c, PARAM_HEAD, 0, i);
        }
        n = tail + 2;
    }
    return n;
}

colm_status model_weights_create(const model_config *c, model_weights **ret, colm_err *err) {
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
    w->data = mem_alloc(w->n_elems, sizeof *w->data);
    if (!w->data) st = err_nomem(err, w->n_elems * sizeof *w->data, "weights");
out:
    if (st)
        model_weights_free(&w);
    else
        *ret = w;
    return st;
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
    if (infos[t->kind].vector) {
        for (size_t i = 0; i < n; i++) x[i] = 1;
        return;
    }
    rng_stream s = rng_open(seed, t->name);
    double dev = 0.02 / (infos[t->kind].residual ? sqrt(2.0 * w->config.layers) : 1);
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

colm_status model_weights_grow(const model_weights *w, const model_config *bigger, uint64_t seed,
                               model_weights **ret, colm_err *err) {
    if (!model_config_extends(bigger, &w->config))
        return err_set(err, COLM_E_INPUT, "the grown model does not extend the old one's %u chains",
                       w->config.n_chains);
    model_weights *g;
    colm_status st = model_weights_create(bigger, &g, err);
    if (st) return st;
    copy_common(g, w);
    for (size_t i = w->n_tensors; i < g->n_tensors; i++)
        if (g->tensor[i].kind != PARAM_HEAD) tensor_init(g, &g->tensor[i], seed);
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
