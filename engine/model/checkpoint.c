/* Checkpoints: model_weights to and from safetensors. The configuration travels in __metadata__ as JSON. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/model/weights.h"
#include "engine/tensor/safetensors.h"

#define FORMAT "1"

/* The numbers of a configuration under their names in the file, one table for writing and reading. */
static const struct {
    const char *key;
    size_t off;
} config_words[] = {{"vocab", offsetof(model_config, vocab)},
                    {"context", offsetof(model_config, context)},
                    {"layers", offsetof(model_config, layers)},
                    {"head_dim", offsetof(model_config, head_dim)}},
  chain_words[] = {{"width", offsetof(model_chain, width)},
                   {"heads", offsetof(model_chain, heads)},
                   {"kv_heads", offsetof(model_chain, kv_heads)},
                   {"ffn", offsetof(model_chain, ffn)}},
  config_reals[] = {{"rope_theta", offsetof(model_config, rope_theta)},
                    {"norm_eps", offsetof(model_config, norm_eps)}},
  chain_reals[] = {{"embed_scale", offsetof(model_chain, embed_scale)},
                   {"attn_scale", offsetof(model_chain, attn_scale)}};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void chain_json(const model_chain *c, str *out) {
    for (size_t k = 0; k < COUNT(chain_words); k++)
        str_addf(out, "%s\"%s\":%u", k ? "," : "{", chain_words[k].key,
                 *(const uint32_t *)((const char *)c + chain_words[k].off));
    for (size_t k = 0; k < COUNT(chain_reals); k++) {
        str_addf(out, ",\"%s\":", chain_reals[k].key);
        str_add_double(out, *(const double *)((const char *)c + chain_reals[k].off));
    }
    str_addf(out, ",\"tied\":%s}", c->tied ? "true" : "false");
}

void model_config_json(const model_config *c, str *out) {
    str_add(out, "{\"chains\":[");
    for (uint32_t i = 0; i < c->n_chains; i++) {
        if (i) str_add(out, ",");
        chain_json(&c->chain[i], out);
    }
    str_add(out, "]");
    for (size_t k = 0; k < COUNT(config_words); k++)
        str_addf(out, ",\"%s\":%u", config_words[k].key,
                 *(const uint32_t *)((const char *)c + config_words[k].off));
    for (size_t k = 0; k < COUNT(config_reals); k++) {
        str_addf(out, ",\"%s\":", config_reals[k].key);
        str_add_double(out, *(const double *)((const char *)c + config_reals[k].off));
    }
    model_family_add(&c->family, out);
    str_add(out, "}");
}

static colm_status need_u32(json_value obj, const char *key, uint32_t *ret, colm_err *err) {
    json_value v;
    uint64_t x;
    colm_status st = json_need(obj, key, &v, err);
    if (!st) st = json_read_u64(v, 0, UINT32_MAX, &x, err);
    if (!st) *ret = (uint32_t)x;
    return st;
}

static colm_status chain_read(json_value item, model_chain *c, colm_err *err) {
    colm_status st = json_read_object(item, err);
    for (size_t k = 0; k < COUNT(chain_words) && !st; k++)
        st = need_u32(item, chain_words[k].key, (uint32_t *)((char *)c + chain_words[k].off), err);
    for (size_t k = 0; k < COUNT(chain_reals) && !st; k++)
        st = json_opt_double(item, chain_reals[k].key, 0, 1e6, (double *)((char *)c + chain_reals[k].off), err);
    if (!st) st = json_opt_bool(item, "tied", &c->tied, err);
    return st ? st : json_finish(item, err);
}

colm_status model_config_read(const char *name, const char *text, model_config *ret, colm_err *err) {
    json_doc *doc = NULL;
    model_config c = {0};
    colm_status st = json_open_text(name, text, strlen(text), &doc, err);
    if (st) return st;
    json_value root = json_root(doc), chains;
    if ((st = json_read_object(root, err))) goto out;
    if ((st = json_need(root, "chains", &chains, err)) ||
        (st = json_read_array(chains, 1, MODEL_MAX_CHAINS, err)))
        goto out;
    c.n_chains = (uint32_t)json_count(chains);
    for (uint32_t i = 0; i < c.n_chains; i++) {
        if ((st = chain_read(json_item(chains, i), &c.chain[i], err))) goto out;
    }
    for (size_t k = 0; k < COUNT(config_words); k++)
        if ((st = need_u32(root, config_words[k].key, (uint32_t *)((char *)&c + config_words[k].off), err)))
            goto out;
    for (size_t k = 0; k < COUNT(config_reals); k++) {
        json_value v;
        if ((st = json_need(root, config_reals[k].key, &v, err))) goto out;
        if ((st = json_read_double(v, 0, 1e30, (double *)((char *)&c + config_reals[k].off), err))) goto out;
    }
    if ((st = model_family_read(root, &c.family, err))) goto out;
    if ((st = json_finish(root, err)) || (st = model_config_check(&c, err))) goto out;
    *ret = c;
out:
    json_close(&doc);
    return st;
}

static tensor_shape shape_of(const model_tensor *t) {
    if (param_is_vector(t->kind)) return (tensor_shape){.n = 1, .dim = {t->cols}};
    return (tensor_shape){.n = 2, .dim = {t->rows, t->cols}};
}

colm_status model_weights_save(const model_weights *w, const char *path, colm_err *err) {
    colm_status st = COLM_OK;
    str config = {0};
    safetensors_writer *out = NULL;
    safetensors_decl *decl = mem_alloc(w->n_tensors, sizeof *decl);
    model_config_json(&w->config, &config);
    if (!decl || config.failed) {
        st = err_nomem(err, w->n_tensors * sizeof *decl, "checkpoint header");
        goto out;
    }
    for (size_t i = 0; i < w->n_tensors; i++)
        decl[i] = (safetensors_decl){w->tensor[i].name, TENSOR_F32, shape_of(&w->tensor[i])};
    safetensors_pair meta[] = {{"colm", FORMAT}, {"config", config.text}};
    if ((st = safetensors_writer_open(path, decl, w->n_tensors, meta, COUNT(meta), &out, err))) goto out;
    if ((st = safetensors_writer_data(out, w->data, w->n_elems * sizeof *w->data, err))) goto out;
    st = safetensors_writer_commit(&out, err);
out:
    safetensors_writer_abandon(&out);
    str_done(&config);
    free(decl);
    return st;
}

/* Every tensor of the configuration must be there with its shape, and nothing else. */
static colm_status tensors_read(const char *path, const safetensors *f, model_weights *w, colm_err *err) {
    for (size_t i = 0; i < w->n_tensors; i++) {
        const model_tensor *t = &w->tensor[i];
        const safetensors_entry *e = safetensors_find(f, t->name);
        tensor_shape want = shape_of(t);
        if (!e) return err_set(err, COLM_E_INPUT, "%s: tensor %s is missing", path, t->name);
        if (e->dtype != TENSOR_F32 || e->shape.n != want.n ||
            memcmp(e->shape.dim, want.dim, want.n * sizeof *want.dim))
            return err_set(err, COLM_E_INPUT, "%s: tensor %s is not F32 of %u x %u", path, t->name, t->rows,
                           t->cols);
        memcpy(w->data + t->off, e->data, e->bytes);
    }
    for (size_t i = 0; i < safetensors_count(f); i++)
        if (!model_weights_find(w, safetensors_at(f, i)->name))
            return err_set(err, COLM_E_INPUT, "%s: unexpected tensor %s", path, safetensors_at(f, i)->name);
    return COLM_OK;
}

colm_status model_weights_load(const char *path, model_weights **ret, colm_err *err) {
    safetensors *f = NULL;
    model_weights *w = NULL;
    model_config c;
    colm_status st = safetensors_open(path, &f, err);
    if (st) return st;
    const char *format = safetensors_meta(f, "colm"), *config = safetensors_meta(f, "config");
    if (!format || !config || strcmp(format, FORMAT) != 0) {
        st = err_set(err, COLM_E_INPUT,
                     "%s: not a colm checkpoint of format " FORMAT " (metadata \"colm\" is %s)", path,
                     format ? format : "missing");
        goto out;
    }
    if ((st = model_config_read(path, config, &c, err))) goto out;
    if ((st = model_weights_create(&c, &w, err)) || (st = tensors_read(path, f, w, err))) goto out;
    *ret = w;
    w = NULL;
out:
    model_weights_free(&w);
    safetensors_close(&f);
    return st;
}
