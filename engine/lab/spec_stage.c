/* Stages: train, grow, eval. */
#include <string.h>

#include "engine/lab/spec_read.h"

#define TOKENS_MOST ((uint64_t)1 << 50)
#define WEIGHT_MOST 1e6

static const char *const trained_words[] = {"all", "head"}, *const documents_words[] = {"packed", "masked"};

/* context 0: the model's. */
static const spec_field train_field[] = {
    {"batch", SPEC_U32, offsetof(train_params, batch), 1, 65536, 16},
    {"context", SPEC_U32, offsetof(train_params, context), 1, MODEL_MAX_CONTEXT, 0},
    {"lr", SPEC_DOUBLE, offsetof(train_params, lr), 1e-12, 10, 1e-3},
    {"min_lr", SPEC_DOUBLE, offsetof(train_params, min_lr), 0, 1, 0.1},
    {"warmup", SPEC_U32, offsetof(train_params, warmup), 0, UINT32_MAX, 20},
    {"beta1", SPEC_DOUBLE, offsetof(train_params, beta1), 0, 0.999999, 0.9},
    {"beta2", SPEC_DOUBLE, offsetof(train_params, beta2), 0, 0.999999, 0.95},
    {"eps", SPEC_DOUBLE, offsetof(train_params, eps), 1e-16, 1, 1e-8},
    {"decay", SPEC_DOUBLE, offsetof(train_params, decay), 0, 10, 0.1},
    {"clip", SPEC_DOUBLE, offsetof(train_params, clip), 0, 1e6, 1},
    {"log_every", SPEC_U32, offsetof(train_params, log_every), 1, 1000000000, 10},
    {"accumulate", SPEC_U32, offsetof(train_params, accumulate), 1, 4096, 1},
    {"only", SPEC_FLAG, offsetof(train_params, head_only), .word = trained_words},
    {"documents", SPEC_FLAG, offsetof(train_params, documents), .word = documents_words},
    {"recompute", SPEC_FLAG, offsetof(train_params, recompute)},
};

static colm_status read_train_fields(json_value v, train_params *io, colm_err *err) {
    colm_status s = COLM_OK;
    for (size_t i = 0; i < SPEC_COUNT(train_field) && !s; i++) {
        json_value number = json_get(v, train_field[i].key);
        if (number.doc) s = spec_field_read(&train_field[i], number, io, err);
    }
    return s;
}

/* Weights of scales 1..n; n 0: any number of them. The full scale alone is left as zeros, however it is said.
 */
static colm_status read_weights(json_value v, uint32_t n, train_params *io, colm_err *err) {
    size_t given = json_count(v);
    bool alone = true;
    colm_status s = json_read_array(v, 1, MODEL_MAX_CHAINS, err);
    if (!s && n && given != n)
        s = json_fail(v, err, "has %zu weights for a loss over %u scales, expected one for each", given, n);
    for (size_t i = 0; i < given && !s; i++) {
        s = json_read_double(json_item(v, i), 0, WEIGHT_MOST, &io->lambda[i], err);
        alone = alone && io->lambda[i] == (i + 1 == given);
    }
    if (!s && !(io->lambda[given - 1] > 0))
        s = json_fail(
            json_item(v, given - 1), err,
            "the last weight is 0, so its chain would not train: weigh it, or take the loss at a smaller "
            "\"scale\"");
    if (!s && alone) io->lambda[given - 1] = 0;
    return s;
}

/* "loss" of a model of n chains; n 0: not known yet, only the form is checked. */
static colm_status read_loss(json_value v, uint32_t n, train_params *io, colm_err *err) {
    static const char *const words[] = {"full", "multi"}, *const keys[] = {"scale", "weights", NULL};
    json_kind kind = json_kind_of(v);
    json_value at = {0}, weights = {0};
    uint64_t scale = 0;
    size_t multi = 0;
    if (kind == JSON_ARRAY) return read_weights(v, n, io, err);
    if (kind == JSON_STRING) {
        colm_status s = json_read_word(v, words, SPEC_COUNT(words), &multi, err);
        for (uint32_t i = 0; i < n && n > 1 && multi && !s; i++) io->lambda[i] = 1.0 / n;
        return s;
    }
    if (kind != JSON_OBJECT)
        return json_fail(v, err,
                         "expected \"full\", \"multi\", a list of weights, one for each scale, or "
                         "{\"scale\": k}");
    colm_status s = spec_keys(v, keys, NULL, 0, err);
    if (!s) s = json_need(v, "scale", &at, err);
    if (!s) s = json_read_u64(at, 1, MODEL_MAX_CHAINS, &scale, err);
    if (!s && n && scale > n)
        s = json_fail(at, err, "there is no scale %u: the model has %u chains", (uint32_t)scale, n);
    weights = json_get(v, "weights");
    if (!s && weights.doc) s = read_weights(weights, (uint32_t)scale, io, err);
    io->scale = scale == n ? 0 : (uint32_t)scale;
    return s;
}

colm_status spec_train_read(spec_reader *r, colm_err *err) {
    static const char *const keys[] = {"loss", NULL};
    json_value v = json_get(r->root, "train"), loss = json_get(v, "loss");
    train_params form = {0};
    for (size_t i = 0; i < SPEC_COUNT(train_field); i++) spec_field_preset(&train_field[i], &r->train);
    if (!v.doc) return COLM_OK;
    colm_status s = spec_keys(v, keys, train_field, SPEC_COUNT(train_field), err);
    if (!s) s = read_train_fields(v, &r->train, err);
    if (!s && loss.doc) s = read_loss(loss, 0, &form, err);
    return s;
}

static colm_status read_freeze(json_value obj, uint32_t n_chains, uint32_t *io, colm_err *err) {
    json_value v = json_get(obj, "freeze");
    uint64_t freeze = *io;
    colm_status s = v.doc ? json_read_u64(v, 0, MODEL_MAX_CHAINS, &freeze, err) : COLM_OK;
    if (s) return s;
    if (freeze > n_chains)
        return json_fail(v, err, "%u chains cannot be frozen: the model has %u", (uint32_t)freeze, n_chains);
    if (freeze == n_chains)
        return json_fail(v, err, "freezing all %u chains leaves nothing to train: freeze at most %u", n_chains,
                         n_chains - 1);
    *io = (uint32_t)freeze;
    return COLM_OK;
}

/* ---- train */

/* "on": a name, a list of names, or an object of weights by name. */
static colm_status read_parts(const spec_reader *r, json_value on, spec_stage *st, colm_err *err) {
    json_kind kind = json_kind_of(on);
    size_t n = kind == JSON_STRING ? 1 : json_count(on);
    if (kind != JSON_STRING && kind != JSON_ARRAY && kind != JSON_OBJECT)
        return json_fail(on, err, "expected the name of a data set, a list of names, or {name: weight}");
    if (n < 1 || n > SPEC_MAX_PARTS)
        return json_fail(on, err, "names %zu data sets, expected 1 to %d", n, SPEC_MAX_PARTS);
    for (size_t i = 0; i < n; i++) {
        json_value v = kind == JSON_STRING ? on : kind == JSON_ARRAY ? json_item(on, i) : json_value_at(on, i);
        uint32_t data = 0;
        double weight = 1;
        colm_status s = spec_data_named(r, v, kind == JSON_OBJECT ? json_key_at(on, i) : NULL, &data, err);
        if (!s && kind == JSON_OBJECT) s = json_read_double(v, 0, WEIGHT_MOST, &weight, err);
        if (s) return s;
        if (!(weight > 0)) return json_fail(v, err, "a weight of 0 takes nothing: leave the data set out");
        for (size_t k = 0; k < i; k++)
            if (st->part[k].data == data)
                return json_fail(v, err, "data set \"%s\" is named twice", r->out->data[data].corpus.name);
        st->part[i].data = data;
        st->part[i].weight = weight;
        st->n_parts = (uint32_t)i + 1;
    }
    return COLM_OK;
}

/* What a train stage or the file's defaults say of a key; absent when neither does. */
static json_value said(const spec_reader *r, json_value stage, const char *key) {
    json_value v = json_get(stage, key);
    return v.doc ? v : json_get(json_get(r->root, "train"), key);
}
/* The place of that, or of the stage. */
static json_value given(const spec_reader *r, json_value stage, const char *key) {
    json_value v = said(r, stage, key);
    return v.doc ? v : stage;
}

static uint32_t loss_scale(const spec_stage *st) {
    return st->train.scale ? st->train.scale : st->model.n_chains;
}

/* That the loss reaches something that may train. */
static colm_status check_trained(const spec_reader *r, json_value v, const spec_stage *st, colm_err *err) {
    const train_params *p = &st->train;
    uint32_t scale = loss_scale(st);
    if (p->frozen >= scale)
        return json_fail(
            given(r, v, "loss"), err,
            "a loss at scale %u trains nothing while chains 1..%u are frozen: freeze at most %u, or take "
            "it at a larger scale",
            scale, p->frozen, scale - 1);
    for (uint32_t i = p->frozen; i < scale && p->head_only; i++)
        if (st->model.chain[i].tied)
            return json_fail(
                given(r, v, "only"), err,
                "the head of chain %u is tied to its embedding, which would move with it: untie the "
                "chain, freeze it, or train all",
                i + 1);
    return COLM_OK;
}

static colm_status read_train(spec_reader *r, json_value v, spec_stage *st, colm_err *err) {
    static const char *const keys[] = {"on", "tokens", "freeze", "loss", NULL};
    train_params *p = &st->train;
    json_value on = {0}, tokens = {0}, loss = {0};
    *p = r->train;
    p->frozen = st->frozen;
    p->precision = st->precision;
    colm_status s = spec_keys(v, keys, train_field, SPEC_COUNT(train_field), err);
    if (!s) s = json_need(v, "on", &on, err);
    if (!s) s = read_parts(r, on, st, err);
    if (!s) s = json_need(v, "tokens", &tokens, err);
    if (!s) s = json_read_u64(tokens, 1, TOKENS_MOST, &p->tokens, err);
    if (!s) s = read_train_fields(v, p, err);
    if (!s) s = read_freeze(v, st->model.n_chains, &p->frozen, err);
    loss = said(r, v, "loss");
    if (!s && loss.doc) s = read_loss(loss, st->model.n_chains, p, err);
    if (!s) s = check_trained(r, v, st, err);
    if (s) return s;
    if (!p->context) p->context = st->model.context;
    if (p->context > st->model.context)
        return json_fail(given(r, v, "context"), err, "context %u is longer than the model's %u", p->context,
                         st->model.context);
    if ((uint64_t)p->batch * p->context > SPEC_MAX_BATCH)
        return json_fail(
            given(r, v, "batch"), err,
            "batch %u x context %u is %llu tokens at a time, at most %u: \"accumulate\" makes a step "
            "of several batches",
            p->batch, p->context, (unsigned long long)p->batch * p->context, SPEC_MAX_BATCH);
    return COLM_OK;
}

static void add_train(const spec_reader *r, const model_config *before, const spec_stage *st, str *out) {
    (void)before;
    str_add(out, ",\"on\":[");
    for (uint32_t i = 0; i < st->n_parts; i++) {
        str_addf(out, "%s{\"data\":%s,\"weight\":", i ? "," : "", r->data_json[st->part[i].data]);
        str_add_double(out, st->part[i].weight);
        str_add(out, "}");
    }
    str_addf(out, "],\"train\":{\"tokens\":%llu,\"freeze\":%u", (unsigned long long)st->train.tokens,
             st->train.frozen);
    for (size_t i = 0; i < SPEC_COUNT(train_field); i++) {
        /* How often to log and what to keep in memory change no bit of the result. */
        if (train_field[i].at == offsetof(train_params, log_every) ||
            train_field[i].at == offsetof(train_params, recompute))
            continue;
        str_add(out, ",");
        spec_field_add(&train_field[i], &st->train, out);
    }
    uint32_t scale = loss_scale(st);
    bool weighted = st->train.lambda[scale - 1] > 0;
    str_addf(out, ",\"loss\":{\"scale\":%u,\"weights\":[", scale);
    for (uint32_t i = 0; i < scale; i++) {
        if (i) str_add(out, ",");
        str_add_double(out, weighted ? st->train.lambda[i] : i + 1 == scale);
    }
    str_add(out, "]}}");
}

/* ---- grow */

/* One new chain; `preset` has what does not follow from proportions. */
static colm_status read_added(json_value v, const model_config *before, const model_chain *preset,
                              model_chain *ret, colm_err *err) {
    uint64_t heads = 0;
    model_chain c = {0};
    colm_err inner;
    if (json_kind_of(v) == JSON_OBJECT)
        return spec_chain_read(v, preset, before->family.kv != KV_OWN, ret, err);
    colm_status s = json_read_u64(v, 1, MODEL_MAX_WIDTH, &heads, err);
    if (!s && model_chain_grow(before, (uint32_t)heads, &c, &inner)) s = spec_relay(v, &inner, err);
    if (s) return s;
    *ret = *preset;
    ret->width = c.width;
    ret->heads = c.heads;
    ret->kv_heads = c.kv_heads;
    ret->ffn = c.ffn;
    return COLM_OK;
}

/* "kv": a model of one chain may grow as CoLM or as CoLM-Air; with more it is what it is. */
static colm_status read_kv(json_value v, model_config *io, colm_err *err) {
    json_value kv = json_get(v, "kv");
    const model_config before = *io;
    if (!kv.doc) return COLM_OK;
    colm_status s = model_family_read(v, &io->family, err);
    if (!s && io->n_chains == 1 && !model_config_extends(io, &before))
        return json_fail(
            kv, err,
            "the tiled map would give the %u heads of chain 1 other key-value heads (of %u) than they have: "
            "\"grouped\" keeps them",
            before.chain[0].heads, before.chain[0].kv_heads);
    if (s || io->n_chains == 1) return s;
    return json_fail(kv, err,
                     "the model has %u chains already: only one of a single chain can choose its \"kv\"",
                     io->n_chains);
}

static colm_status read_grow(spec_reader *r, json_value v, spec_stage *st, colm_err *err) {
    static const char *const keys[] = {"add", "freeze", "kv", "tie", NULL};
    model_chain preset = {.embed_scale = st->model.chain[0].embed_scale,
                          .attn_scale = st->model.chain[0].attn_scale};
    colm_err inner;
    json_value add = {0};
    (void)r;
    colm_status s = spec_keys(v, keys, NULL, 0, err);
    if (!s) s = read_kv(v, &st->model, err);
    model_config before = st->model;
    if (!s) s = json_opt_bool(v, "tie", &preset.tied, err);
    if (!s) s = json_need(v, "add", &add, err);
    if (!s) s = json_read_array(add, 1, MODEL_MAX_CHAINS, err);
    if (s) return s;
    size_t n = json_count(add);
    if (n > MODEL_MAX_CHAINS - before.n_chains)
        return json_fail(add, err, "%u chains and %zu more are too many: at most %d", before.n_chains, n,
                         MODEL_MAX_CHAINS);
    for (size_t i = 0; i < n && !s; i++)
        s = read_added(json_item(add, i), &before, &preset, &st->model.chain[st->model.n_chains++], err);
    if (!s && model_config_check(&st->model, &inner)) s = spec_relay(add, &inner, err);
    st->frozen = before.n_chains;
    if (!s) s = read_freeze(v, st->model.n_chains, &st->frozen, err);
    return s;
}

static void add_grow(const spec_reader *r, const model_config *before, const spec_stage *st, str *out) {
    (void)r;
    str_addf(out, ",\"from\":%u,\"freeze\":%u", before->n_chains, st->frozen);
}

/* ---- eval */

static const char *task_name(const void *list, size_t i) {
    return ((const spec_task *)list)[i].task.name;
}

static colm_status read_eval(spec_reader *r, json_value v, spec_stage *st, colm_err *err) {
    static const char *const keys[] = {"tasks", NULL};
    const spec *o = r->out;
    colm_status s = spec_keys(v, keys, NULL, 0, err);
    if (s) return s;
    json_value list = json_get(v, "tasks");
    if (!o->n_tasks) return json_fail(v, err, "the file has no \"tasks\" to evaluate");
    if (list.doc) s = json_read_array(list, 1, SPEC_MAX_TASKS, err);
    if (s) return s;
    st->n_tasks = list.doc ? (uint32_t)json_count(list) : o->n_tasks;
    for (uint32_t i = 0; i < st->n_tasks; i++) {
        const char *name = NULL;
        json_value item = json_item(list, i);
        st->task[i] = i;
        if (!list.doc) continue;
        s = json_read_string(item, &name, err);
        if (!s) s = spec_find(item, "task", name, task_name, o->task, o->n_tasks, &st->task[i], err);
        for (uint32_t k = 0; k < i && !s; k++)
            if (st->task[k] == st->task[i]) s = json_fail(item, err, "task \"%s\" is named twice", name);
        if (s) return s;
    }
    return COLM_OK;
}

static void add_eval(const spec_reader *r, const model_config *before, const spec_stage *st, str *out) {
    (void)before;
    str_add(out, ",\"tasks\":[");
    for (uint32_t i = 0; i < st->n_tasks; i++) str_addf(out, "%s%s", i ? "," : "", r->task_json[st->task[i]]);
    str_add(out, "]");
}

/* ---- all kinds */

static const struct {
    const char *key;
    spec_kind kind;
    colm_status (*read)(spec_reader *r, json_value v, spec_stage *st, colm_err *err);
    void (*add)(const spec_reader *r, const model_config *before, const spec_stage *st, str *out);
} kinds[] = {
    {"train", SPEC_TRAIN, read_train, add_train},
    {"grow", SPEC_GROW, read_grow, add_grow},
    {"eval", SPEC_EVAL, read_eval, add_eval},
};

static colm_status write_canonical(spec_reader *r, size_t kind, const model_config *before, spec_stage *st,
                                   colm_err *err) {
    str out = {0};
    str_addf(&out, "{\"kind\":\"%s\",\"tokenizer\":", kinds[kind].key);
    str_add_json(&out, r->out->tokenizer);
    str_add(&out, ",\"model\":");
    spec_model_add(&st->model, &out);
    if (st->precision) str_addf(&out, ",\"precision\":\"%s\"", model_precision_name[st->precision]);
    kinds[kind].add(r, before, st, &out);
    str_add(&out, "}");
    return spec_keep(r, &out, true, &st->canonical, err);
}

colm_status spec_stage_read(spec_reader *r, json_value v, const spec_before *before, spec_stage *ret,
                            colm_err *err) {
    static const char *const keys[] = {"train", "grow", "eval", NULL};
    spec_stage *st = ret;
    colm_status s = spec_keys(v, keys, NULL, 0, err);
    if (s) return s;
    if (json_count(v) != 1)
        return json_fail(v, err,
                         "a stage is one of {\"train\": ...}, {\"grow\": ...}, {\"eval\": ...}, not %zu",
                         json_count(v));
    size_t kind = 0;
    while (!json_has(v, kinds[kind].key)) kind++;
    *st = (spec_stage){.kind = kinds[kind].kind,
                       .line = json_line(v),
                       .model = before->model,
                       .frozen = before->frozen,
                       .precision = before->precision};
    s = kinds[kind].read(r, json_get(v, kinds[kind].key), st, err);
    return s ? s : write_canonical(r, kind, &before->model, st, err);
}
