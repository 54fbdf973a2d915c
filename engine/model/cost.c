/* Parameters and floating-point operations, counted from the table of tensors (weights.h), so that what is
 * counted is what exists. */
#include "engine/model/weights.h"

uint64_t model_linear_params(const uint32_t *in, const uint32_t *out, uint32_t n, uint32_t from) {
    uint64_t read = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        read += in[i];
        if (i >= from) sum += read * out[i];
    }
    return sum;
}

uint64_t model_linear_backward(const uint32_t *in, const uint32_t *out, uint32_t n, uint32_t frozen) {
    uint64_t read = 0, trained = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        read += in[i];
        if (i < frozen) continue;
        trained += in[i];
        sum += (read + trained) * out[i]; // dW, then dx
    }
    return sum;
}

static uint64_t copies(const model_config *c, param_kind k) {
    return param_get(k)->per_layer ? c->layers : 1;
}

uint64_t model_params(const model_config *c, uint32_t from, uint32_t to) {
    uint64_t sum = 0;
    for (uint32_t i = from; i < to && i < c->n_chains; i++)
        for (param_kind k = 0; k < PARAM_KINDS; k++)
            sum += copies(c, k) * param_rows(c, k, i) * param_cols(c, k, i, 0);
    return sum;
}

/* Whether a kind is multiplied by activations (an embedding is looked up, a vector is elementwise). A tied
 * chain's head is its embedding's matrix at work. */
static bool multiplies(param_kind k) {
    return !param_is_vector(k) && k != PARAM_EMBED && k != PARAM_POS;
}

/* Multiply-adds of one row through the linears: those of chains i in [from, to), of their input columns only
 * chains [cols, i]. */
static uint64_t linears(const model_config *c, uint32_t from, uint32_t to, uint32_t cols) {
    uint64_t sum = 0;
    for (uint32_t i = from; i < to && i < c->n_chains; i++)
        for (param_kind k = 0; k < PARAM_KINDS; k++) {
            if (!multiplies(k)) continue;
            bool tied = k == PARAM_HEAD && c->chain[i].tied;
            sum += copies(c, k) * (tied ? (uint64_t)c->vocab * c->chain[i].width
                                        : (uint64_t)param_rows(c, k, i) * param_cols(c, k, i, cols));
        }
    return sum;
}

/* Pairs (row, column it sees) of one head over a sequence, all layers. */
static uint64_t pairs(const model_config *c, uint64_t T) {
    uint64_t full = T * (T + 1) / 2, w = c->family.window, sum = 0;
    for (uint32_t l = 0; l < c->layers; l++) {
        bool windowed = w && w < T && !(c->family.window_every && (l + 1) % c->family.window_every == 0);
        sum += windowed ? w * (w + 1) / 2 + (T - w) * w : full;
    }
    return sum;
}

/* Q K^T and P V: two dot products of head_dim for each pair and head of chains from+1 .. to. */
static uint64_t attention(const model_config *c, uint32_t from, uint32_t to, uint64_t T) {
    uint64_t heads = 0;
    for (uint32_t i = from; i < to && i < c->n_chains; i++) heads += c->chain[i].heads;
    return 4 * c->head_dim * heads * pairs(c, T);
}

uint64_t model_flops_forward(const model_config *c, uint32_t to, uint32_t T) {
    return 2 * linears(c, 0, to, 0) * T + attention(c, 0, to, T);
}

uint64_t model_flops_backward(const model_config *c, uint32_t frozen, uint32_t T) {
    /* dW of the trained rows, dx of the trained columns. Attention: dV, dP, dQ, dK where forward has two
     * products; with the keys and values of a frozen chain 1 (CoLM-Air) only dP and dQ. */
    uint32_t n = c->n_chains;
    bool frozen_kv = c->family.kv != KV_OWN && frozen > 0;
    uint64_t token = 2 * (linears(c, frozen, n, 0) + linears(c, frozen, n, frozen));
    return token * T + (frozen_kv ? 1 : 2) * attention(c, frozen, n, T);
}
