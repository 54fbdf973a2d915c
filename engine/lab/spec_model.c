/* "model": sizes, chains in their short or explicit form, and what makes a family of models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/spec_read.h"

/* Members of a model_config that the file gives directly. head_dim 0: to be found from width and heads. */
static const spec_field model_field[] = {
    {"layers", SPEC_U32, offsetof(model_config, layers), 1, MODEL_MAX_LAYERS, 0},
    {"context", SPEC_U32, offsetof(model_config, context), 1, MODEL_MAX_CONTEXT, 0},
    {"head_dim", SPEC_U32, offsetof(model_config, head_dim), 2, MODEL_MAX_HEAD_DIM, 0},
    {"rope_theta", SPEC_DOUBLE, offsetof(model_config, rope_theta), 1, 1e12, 10000},
    {"norm_eps", SPEC_DOUBLE, offsetof(model_config, norm_eps), 1e-12, 0.1, 1e-5},
};
enum { HEAD_DIM = 2 };
/* Those that belong to chains: head counts need them here, chains in full carry their own. */
static const char *const shape_keys[] = {"width", "ffn", "kv_heads", "tie", "embed_scale", "attn_scale"};
enum { FAMILY_MOST = 32 };

static const spec_field chain_field[] = {
    {"width", SPEC_U32, offsetof(model_chain, width), 1, MODEL_MAX_WIDTH, 0},
    {"heads", SPEC_U32, offsetof(model_chain, heads), 1, MODEL_MAX_WIDTH, 0},
    {"ffn", SPEC_U32, offsetof(model_chain, ffn), 1, MODEL_MAX_FFN, 0},
    {"kv_heads", SPEC_U32, offsetof(model_chain, kv_heads), 0, MODEL_MAX_WIDTH, 0},
    {"tied", SPEC_FLAG, offsetof(model_chain, tied)},
    {"embed_scale", SPEC_DOUBLE, offsetof(model_chain, embed_scale), 0, 1e6, 0},
    {"attn_scale", SPEC_DOUBLE, offsetof(model_chain, attn_scale), 0, 1e6, 0},
};
enum { CHAIN_NEEDS = 3, EMBED_SCALE = 5, ATTN_SCALE = 6 }; /* the first three must be given */

colm_status spec_chain_read(json_value v, const model_chain *preset, bool borrows, model_chain *ret,
                            colm_err *err) {
    static const char *const none[] = {NULL};
    model_chain c = *preset;
    colm_status s = spec_keys(v, none, chain_field, SPEC_COUNT(chain_field), err);
    for (size_t i = 0; i < SPEC_COUNT(chain_field) && !s; i++) {
        json_value member = json_get(v, chain_field[i].key);
        if (i < CHAIN_NEEDS) s = json_need(v, chain_field[i].key, &member, err);
        if (!s && member.doc) s = spec_field_read(&chain_field[i], member, &c, err);
    }
    if (s) return s;
    json_value kv = json_get(v, "kv_heads");
    if (borrows) {
        if (c.kv_heads)
            return json_fail(kv, err, "is %u, expected 0: by \"kv\", chain 1 owns all keys and values",
                             c.kv_heads);
        *ret = c;
        return COLM_OK;
    }
    if (kv.doc && !c.kv_heads)
        return json_fail(
            kv, err, "is 0, but this chain owns keys and values: expected a divisor of its %u heads", c.heads);
    if (!kv.doc) c.kv_heads = c.heads;
    if (c.heads % c.kv_heads)
        return json_fail(v, err, "%u heads are not divisible by %u kv heads", c.heads, c.kv_heads);
    *ret = c;
    return COLM_OK;
}

/* The file's model under an arm's own: a member comes from the upper one that has it. */
typedef struct {
    json_value base, over;
    bool reshaped; /* over changes between short and explicit chains, so sizes of the other form do not carry */
} layered;

static json_value pick(const layered *m, const char *key) {
    json_value v = json_get(m->over, key);
    return v.doc ? v : json_get(m->base, key);
}
static json_value pick_shape(const layered *m, const char *key) {
    return m->reshaped ? json_get(m->over, key) : pick(m, key);
}
static bool is_explicit(json_value chains) {
    return json_kind_of(json_item(chains, 0)) == JSON_OBJECT;
}
/* Where the sizes that belong to chains are to be written. */
static json_value home(const layered *m) {
    return m->over.doc ? m->over : m->base;
}

/* Where a message of model_config_check has its cause: the member that its first word names, or the whole. */
static json_value spot(const layered *m, const char *message) {
    char word[24];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(message, " ,:"), message);
    json_value v = pick(m, strcmp(word, "chain") == 0 ? "chains" : word);
    return v.doc ? v : home(m);
}

static colm_status read_size(const layered *m, const char *key, uint32_t most, uint32_t *ret, colm_err *err) {
    json_value v = pick_shape(m, key);
    uint64_t size = 0;
    if (!v.doc)
        return json_fail(home(m), err, "key \"%s\" is missing: chains of head counts need it for all chains",
                         key);
    colm_status s = json_read_u64(v, 1, most, &size, err);
    if (!s) *ret = (uint32_t)size;
    return s;
}

/* What head counts share: who is tied, and the scales. */
static colm_status read_shared(const layered *m, model_config *c, colm_err *err) {
    static const char *const words[] = {"none", "all", "first"};
    enum { NONE, ALL, FIRST };
    size_t tie = NONE;
    model_chain shared = {0};
    json_value v = pick_shape(m, "tie");
    colm_status s = v.doc ? json_read_word(v, words, SPEC_COUNT(words), &tie, err) : COLM_OK;
    for (int k = EMBED_SCALE; k <= ATTN_SCALE && !s; k++) {
        v = pick_shape(m, chain_field[k].key);
        if (v.doc) s = spec_field_read(&chain_field[k], v, &shared, err);
    }
    for (uint32_t i = 0; i < c->n_chains && !s; i++) {
        c->chain[i].tied = tie == ALL || (tie == FIRST && i == 0);
        c->chain[i].embed_scale = shared.embed_scale;
        c->chain[i].attn_scale = shared.attn_scale;
    }
    return s;
}

static colm_status read_short(const layered *m, json_value chains, model_config *c, colm_err *err) {
    uint32_t heads[MODEL_MAX_CHAINS], sum = 0, width = 0, ffn = 0, kv_heads = 0;
    bool borrow = c->family.kv != KV_OWN; /* then all key-value heads are chain 1's */
    json_value kv = pick_shape(m, "kv_heads");
    colm_err inner;
    colm_status s = COLM_OK;
    for (uint32_t i = 0; i < c->n_chains && !s; i++) {
        uint64_t count = 0;
        s = json_read_u64(json_item(chains, i), 1, MODEL_MAX_WIDTH, &count, err);
        heads[i] = (uint32_t)count;
        sum += heads[i];
    }
    if (!s) s = read_size(m, "width", MODEL_MAX_WIDTH, &width, err);
    if (!s) s = read_size(m, "ffn", MODEL_MAX_FFN, &ffn, err);
    if (!s && kv.doc) s = read_size(m, "kv_heads", MODEL_MAX_WIDTH, &kv_heads, err);
    if (s) return s;
    if (!kv_heads) kv_heads = borrow ? heads[0] : sum;
    if (model_chains_split(heads, c->n_chains, width, ffn, borrow ? sum : kv_heads, c->chain, &inner))
        return spec_relay(chains, &inner, err);
    for (uint32_t i = 0; i < c->n_chains && borrow; i++) c->chain[i].kv_heads = i ? 0 : kv_heads;
    if (borrow && heads[0] % kv_heads)
        return json_fail(kv, err, "%u heads of chain 1 are not divisible by %u kv heads", heads[0], kv_heads);
    return read_shared(m, c, err);
}

static colm_status read_explicit(const layered *m, json_value chains, model_config *c, colm_err *err) {
    const model_chain plain = {0};
    for (size_t i = 0; i < SPEC_COUNT(shape_keys); i++) {
        const char *own = strcmp(shape_keys[i], "tie") ? shape_keys[i] : "tied";
        json_value v = pick_shape(m, shape_keys[i]);
        if (v.doc) return json_fail(v, err, "explicit chains carry their own %s: remove it here", own);
    }
    colm_status s = COLM_OK;
    for (uint32_t i = 0; i < c->n_chains && !s; i++)
        s = spec_chain_read(json_item(chains, i), &plain, i && c->family.kv != KV_OWN, &c->chain[i], err);
    return s;
}

/* ---- the family */

static colm_status read_family(const layered *m, model_family *ret, colm_err *err) {
    colm_status s = COLM_OK;
    for (size_t i = 0; model_family_key(i) && !s; i++) {
        json_value v = pick(m, model_family_key(i));
        if (v.doc) s = model_family_read_member(i, v, ret, err);
    }
    return s;
}

static colm_status check_keys(json_value v, colm_err *err) {
    const char *keys[1 + SPEC_COUNT(shape_keys) + FAMILY_MOST + 1] = {"chains"};
    size_t n = 1;
    for (size_t i = 0; i < SPEC_COUNT(shape_keys); i++) keys[n++] = shape_keys[i];
    for (size_t i = 0; i < FAMILY_MOST && model_family_key(i); i++) keys[n++] = model_family_key(i);
    return spec_keys(v, keys, model_field, SPEC_COUNT(model_field), err);
}

static colm_status find_head_dim(const layered *m, model_config *c, colm_err *err) {
    uint64_t width = 0, heads = 0;
    if (c->head_dim) return COLM_OK;
    for (uint32_t i = 0; i < c->n_chains; i++) {
        width += c->chain[i].width;
        heads += c->chain[i].heads;
    }
    c->head_dim = (uint32_t)(width / heads);
    if (width % heads == 0 && c->head_dim && c->head_dim % 2 == 0) return COLM_OK;
    return json_fail(home(m), err,
                     "width %llu over %llu heads is %g, not an even head size: change one, or give head_dim",
                     (unsigned long long)width, (unsigned long long)heads, (double)width / (double)heads);
}

colm_status spec_model_read(const spec_reader *r, json_value over, model_config *ret, colm_err *err) {
    model_config c = {.vocab = r->vocab};
    layered m = {.over = over};
    colm_err inner;
    json_value chains = {0};
    colm_status s = json_need(r->root, "model", &m.base, err);
    if (!s) s = check_keys(m.base, err);
    if (!s && over.doc) s = check_keys(over, err);
    if (s) return s;

    json_value below = json_get(m.base, "chains"), above = json_get(over, "chains");
    m.reshaped = above.doc && is_explicit(above) != is_explicit(below);
    for (size_t i = 0; i < SPEC_COUNT(model_field) && !s; i++) {
        const spec_field *f = &model_field[i];
        json_value v = i == HEAD_DIM ? pick_shape(&m, f->key) : pick(&m, f->key);
        spec_field_preset(f, &c);
        if (v.doc) {
            s = spec_field_read(f, v, &c, err);
        } else if (f->preset == 0 && i != HEAD_DIM) {
            s = json_fail(m.base, err, "key \"%s\" is missing", f->key);
        }
    }
    if (!s) s = read_family(&m, &c.family, err);
    chains = above.doc ? above : below;
    if (!s && !chains.doc)
        s = json_fail(m.base, err, "key \"chains\" is missing: head counts, [4], or chains in full");
    if (!s) s = json_read_array(chains, 1, MODEL_MAX_CHAINS, err);
    if (s) return s;
    c.n_chains = (uint32_t)json_count(chains);
    s = is_explicit(chains) ? read_explicit(&m, chains, &c, err) : read_short(&m, chains, &c, err);
    if (!s) s = find_head_dim(&m, &c, err);
    if (!s && model_config_check(&c, &inner)) s = spec_relay(spot(&m, inner.text), &inner, err);
    if (!s) *ret = c;
    return s;
}

static void add_chain(const model_chain *c, str *out) {
    str_add(out, "{");
    for (size_t i = 0; i < SPEC_COUNT(chain_field); i++) {
        if (i) str_add(out, ",");
        spec_field_add(&chain_field[i], c, out);
    }
    str_add(out, "}");
}

void spec_model_add(const model_config *c, str *out) {
    str_addf(out, "{\"vocab\":%u,\"chains\":[", c->vocab);
    for (uint32_t i = 0; i < c->n_chains; i++) {
        if (i) str_add(out, ",");
        add_chain(&c->chain[i], out);
    }
    str_add(out, "]");
    for (size_t i = 0; i < SPEC_COUNT(model_field); i++) {
        str_add(out, ",");
        spec_field_add(&model_field[i], c, out);
    }
    model_family_add(&c->family, out);
    str_add(out, "}");
}
