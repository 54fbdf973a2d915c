#include "engine/model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The four sizes of a chain, for rules that hold for each of them alike. */
static const struct {
    const char *name;
    size_t at;
    uint32_t most; /* of all chains together */
} size_of[] = {
    {"width", offsetof(model_chain, width), MODEL_MAX_WIDTH},
    {"heads", offsetof(model_chain, heads), MODEL_MAX_WIDTH},
    {"kv_heads", offsetof(model_chain, kv_heads), MODEL_MAX_WIDTH},
    {"ffn", offsetof(model_chain, ffn), MODEL_MAX_FFN},
};
enum { WIDTH, HEADS, KV_HEADS, FFN, SIZES };

static uint32_t size_get(const model_chain *c, int which) {
    uint32_t v;
    memcpy(&v, (const char *)c + size_of[which].at, sizeof v);
    return v;
}
static void size_set(model_chain *c, int which, uint32_t v) {
    memcpy((char *)c + size_of[which].at, &v, sizeof v);
}
static uint64_t size_sum(const model_config *c, int which) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n_chains; i++) sum += size_get(&c->chain[i], which);
    return sum;
}

static colm_status within(const char *what, uint64_t v, uint64_t least, uint64_t most, colm_err *err) {
    if (v >= least && v <= most) return COLM_OK;
    return err_set(err, COLM_E_INPUT, "%s is %llu, expected %llu to %llu", what, (unsigned long long)v,
                   (unsigned long long)least, (unsigned long long)most);
}

/* err_at cannot keep the status of an error told to nobody. */
static colm_status in_chain(uint32_t i, colm_status s, colm_err *err) {
    if (err) s = err_at(err, "chain %u", i + 1);
    return s;
}

/* Sizes of a chain with own keys and values; `borrows`: it reads those of chain 1 (CoLM-Air). */
static colm_status check_chain(const model_chain *c, bool air, bool borrows, colm_err *err) {
    for (int k = 0; k < SIZES; k++) {
        if (borrows && k == KV_HEADS) continue;
        colm_status s = within(size_of[k].name, size_get(c, k), 1, size_of[k].most, err);
        if (s) return s;
    }
    if (borrows && c->kv_heads)
        return err_set(
            err, COLM_E_INPUT,
            "kv_heads is %u, expected 0: with \"kv\" grouped or tiled, chain 1 owns all keys and values",
            c->kv_heads);
    if (air || c->heads % c->kv_heads == 0) return COLM_OK; /* CoLM-Air maps any number of heads to any other */
    return err_set(err, COLM_E_INPUT, "%u heads are not divisible by %u kv heads", c->heads, c->kv_heads);
}

static bool between(double v, double least, double most) {
    return v >= least && v <= most; /* NaN is not */
}

/* Rotary scaling: its numbers are there when it needs them, and only then. Messages of this file begin with the
 * key at fault, by which a reader of files finds the place. */
static colm_status check_rope(const model_family *f, colm_err *err) {
    bool llama3 = f->rope_scaling == ROPE_LLAMA3;
    if (f->position == POSITION_LEARNED && f->rope_scaling != ROPE_PLAIN)
        return err_set(err, COLM_E_INPUT, "rope_scaling has no meaning with learned positions");
    if (f->rope_scaling == ROPE_PLAIN && f->rope_factor != 0)
        return err_set(err, COLM_E_INPUT,
                       "rope_factor is %g, but rope_scaling is plain and would not use it: choose linear or "
                       "llama3, or set it to 0",
                       f->rope_factor);
    if (f->rope_scaling != ROPE_PLAIN && !(f->rope_factor > 0 && isfinite(f->rope_factor)))
        return err_set(err, COLM_E_INPUT, "rope_scaling %s needs a rope_factor above 0, it is %g",
                       llama3 ? "llama3" : "linear", f->rope_factor);
    if (llama3 &&
        !(f->rope_low > 0 && f->rope_high > f->rope_low && isfinite(f->rope_high) && f->rope_original))
        return err_set(
            err, COLM_E_INPUT,
            "rope_scaling llama3 needs 0 < rope_low < rope_high and rope_original of at least 1; they "
            "are %g, %g and %u",
            f->rope_low, f->rope_high, f->rope_original);
    if (!llama3 && (f->rope_low != 0 || f->rope_high != 0 || f->rope_original))
        return err_set(
            err, COLM_E_INPUT,
            "rope_low, rope_high and rope_original are %g, %g and %u, but only llama3 scaling uses them: "
            "set them to 0",
            f->rope_low, f->rope_high, f->rope_original);
    return COLM_OK;
}

static colm_status check_window(const model_family *f, colm_err *err) {
    if (f->window_every && !f->window)
        return err_set(err, COLM_E_INPUT,
                       "window_every is %u, but there is no window (it is 0): give window the tokens that a "
                       "layer sees",
                       f->window_every);
    if (f->window_every == 1)
        return err_set(err, COLM_E_INPUT,
                       "window_every is 1: every layer would see all, and the window of %u would not be used",
                       f->window);
    return COLM_OK;
}

/* Switches that contradict each other or lack their numbers. */
static colm_status check_family(const model_config *c, colm_err *err) {
    const model_family *f = &c->family;
    colm_status s = check_rope(f, err);
    if (!s) s = check_window(f, err);
    if (s) return s;
    if (f->qk_norm && f->norm == NORM_LAYER)
        return err_set(err, COLM_E_INPUT, "qk_norm is an RMS norm of heads, but the model's norm is layer");
    if (!between(f->attn_softcap, 0, 1e6) || !between(f->logit_softcap, 0, 1e6))
        return err_set(err, COLM_E_INPUT,
                       "attn_softcap is %g and logit_softcap %g, expected numbers from 0 to 1e6",
                       f->attn_softcap, f->logit_softcap);
    for (uint32_t i = 0; i < c->n_chains; i++) {
        const model_chain *h = &c->chain[i];
        if (h->tied && f->head == HEAD_SEPARATE)
            return err_set(err, COLM_E_INPUT,
                           "chain %u is tied, but separate heads are matrices of their own: untie it, or make "
                           "the head nested",
                           i + 1);
        if (h->width == 1 && f->norm == NORM_LAYER)
            return err_set(
                err, COLM_E_INPUT,
                "chain %u: width is 1, expected at least 2: a layer norm takes the mean off, and of one "
                "column nothing is left",
                i + 1);
        if (!between(h->embed_scale, 0, 1e6) || !between(h->attn_scale, 0, 1e6))
            return err_set(err, COLM_E_INPUT,
                           "chain %u: embed_scale %g or attn_scale %g is not a number from 0 to 1e6", i + 1,
                           h->embed_scale, h->attn_scale);
    }
    return COLM_OK;
}

colm_status model_config_check(const model_config *c, colm_err *err) {
    colm_status s = within("vocab", c->vocab, 1, MODEL_MAX_VOCAB, err);
    if (!s) s = within("context", c->context, 1, MODEL_MAX_CONTEXT, err);
    if (!s) s = within("layers", c->layers, 1, MODEL_MAX_LAYERS, err);
    if (!s) s = within("head_dim", c->head_dim, 2, MODEL_MAX_HEAD_DIM, err);
    if (!s) s = within("number of chains", c->n_chains, 1, MODEL_MAX_CHAINS, err);
    if (s) return s;
    if (c->head_dim % 2) {
        return err_set(err, COLM_E_INPUT,
                       "head_dim is %u, expected an even number (rotary embedding turns pairs)", c->head_dim);
    }
    for (uint32_t i = 0; i < c->n_chains; i++)
        if ((s = check_chain(&c->chain[i], c->family.kv != KV_OWN, i && c->family.kv != KV_OWN, err)))
            return in_chain(i, s, err);
    for (int k = 0; k < SIZES && !s; k++) {
        char what[48];
        snprintf(what, sizeof what, "%s of all chains together", size_of[k].name);
        s = within(what, size_sum(c, k), 1, size_of[k].most, err);
    }
    if (!s) s = within("heads times head_dim", size_sum(c, HEADS) * c->head_dim, 1, MODEL_MAX_WIDTH, err);
    if (s) return s;
    if (!(c->rope_theta >= 1 && isfinite(c->rope_theta)))
        return err_set(err, COLM_E_INPUT, "rope_theta is %g, expected a finite number of at least 1",
                       c->rope_theta);
    if (!(c->norm_eps > 0 && c->norm_eps < 1))
        return err_set(err, COLM_E_INPUT, "norm_eps is %g, expected a number between 0 and 1", c->norm_eps);
    return check_family(c, err);
}

model_config model_config_prefix(const model_config *c, uint32_t scale) {
    model_config r = *c;
    if (scale < r.n_chains) r.n_chains = scale;
    for (uint32_t i = r.n_chains; i < MODEL_MAX_CHAINS; i++) r.chain[i] = (model_chain){0};
    return r;
}

void model_config_name(const model_config *c, char *buf, size_t n) {
    size_t at = 0;
    if (n) buf[0] = 0;
    for (uint32_t i = 0; i < c->n_chains && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%u", i ? "," : "<", c->chain[i].heads);
    if (at < n) snprintf(buf + at, n - at, "%s", c->n_chains ? ">" : "<>");
}

/* One chain is the same model as CoLM and as CoLM-Air, unless its heads would find other key-value heads:
 * tiled, neighbours read different ones, otherwise the same one. */
static bool same_heads_read(const model_chain *only, uint32_t kv, uint32_t before) {
    bool moves = (kv == KV_TILED) != (before == KV_TILED);
    return !moves || only->kv_heads == 1 || only->kv_heads == only->heads;
}

bool model_config_extends(const model_config *big, const model_config *small) {
    if (big->n_chains < small->n_chains || big->vocab != small->vocab || big->layers != small->layers ||
        big->head_dim != small->head_dim || big->rope_theta != small->rope_theta ||
        big->norm_eps != small->norm_eps)
        return false;
    model_family family = small->family;
    if (small->n_chains == 1 && same_heads_read(&small->chain[0], big->family.kv, family.kv))
        family.kv = big->family.kv;
    if (!model_family_equal(&big->family, &family)) return false;
    if (family.position == POSITION_LEARNED && big->context != small->context)
        return false; /* a table has that many rows */
    for (uint32_t i = 0; i < small->n_chains; i++) {
        const model_chain *a = &big->chain[i], *b = &small->chain[i];
        for (int k = 0; k < SIZES; k++)
            if (size_get(a, k) != size_get(b, k)) return false;
        if (a->tied != b->tied || a->embed_scale != b->embed_scale || a->attn_scale != b->attn_scale)
            return false;
    }
    return true;
}

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

colm_status model_chains_split(const uint32_t *c, uint32_t n, uint32_t width, uint32_t ffn, uint32_t kv_heads,
                               model_chain *ret, colm_err *err) {
    model_chain chain[MODEL_MAX_CHAINS] = {0};
    const uint32_t total[SIZES] = {width, 0, kv_heads, ffn};
    uint64_t sum = 0, all = 0;
    colm_status s = within("number of chains", n, 1, MODEL_MAX_CHAINS, err);
    for (uint32_t i = 0; i < n && !s; i++) {
        s = within("heads", c[i], 1, MODEL_MAX_WIDTH, err);
        if (s) return in_chain(i, s, err);
        sum += c[i];
        all = gcd(all, c[i]);
    }
    if (s) return s;
    for (uint32_t i = 0; i < n; i++) {
        chain[i].heads = c[i];
        for (int k = 0; k < SIZES; k++) {
            if (k == HEADS) continue;
            uint64_t product = (uint64_t)c[i] * total[k];
            if (product % sum == 0 && product) {
                size_set(&chain[i], k, (uint32_t)(product / sum));
                continue;
            }
            return err_set(err, COLM_E_INPUT,
                           "chain %u: %u of %llu heads make %g of %s %u, expected a whole number: choose a "
                           "multiple of %llu",
                           i + 1, c[i], (unsigned long long)sum, (double)product / (double)sum, size_of[k].name,
                           total[k], (unsigned long long)(sum / all));
        }
        if ((s = check_chain(&chain[i], false, false, err))) return in_chain(i, s, err);
    }
    memcpy(ret, chain, n * sizeof *ret);
    return COLM_OK;
}

colm_status model_chain_grow(const model_config *c, uint32_t heads, model_chain *ret, colm_err *err) {
    model_chain chain = {.heads = heads};
    uint64_t sum = size_sum(c, HEADS), step = 1;
    int odd = -1;
    colm_status s = within("heads", heads, 1, MODEL_MAX_WIDTH, err);
    if (s) return s;
    if (sum == 0) return err_set(err, COLM_E_INPUT, "a model without heads gives no proportions to grow by");
    for (int k = 0; k < SIZES; k++) {
        uint64_t total = size_sum(c, k), least = sum / gcd(sum, total);
        if (k == HEADS || (k == KV_HEADS && c->family.kv != KV_OWN)) continue;
        step = step / gcd(step, least) * least;
        uint64_t part = heads * total / sum;
        if (heads * total % sum && odd < 0) odd = k;
        if (part > size_of[k].most) return within(size_of[k].name, part, 1, size_of[k].most, err);
        size_set(&chain, k, (uint32_t)part);
    }
    if (odd >= 0) {
        unsigned long long total = size_sum(c, odd);
        return err_set(err, COLM_E_INPUT,
                       "%u heads at the proportions of the model before (%s %llu for %llu heads) would have %s "
                       "%g, expected a whole number: add a multiple of %llu heads",
                       heads, size_of[odd].name, total, (unsigned long long)sum, size_of[odd].name,
                       (double)heads * (double)total / (double)sum, (unsigned long long)step);
    }
    s = check_chain(&chain, c->family.kv != KV_OWN, c->family.kv != KV_OWN, err);
    if (!s) *ret = chain;
    return s;
}
