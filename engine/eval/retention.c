#include "engine/eval/retention.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"

#define PROBE_ROWS 2
#define PROBE_TOKENS 64
#define PROBE_LOGITS (1u << 23)

/* Tokens of a row, a function of the model alone: no more logits of a scale than a device binds at once. */
static uint32_t probe_tokens(const model_config *c) {
    uint32_t T = c->context < PROBE_TOKENS ? c->context : PROBE_TOKENS;
    while (T > 8 && (uint64_t)PROBE_ROWS * T * c->vocab > PROBE_LOGITS) T /= 2;
    return T;
}

colm_status retention_witness_take(ops_machine *m, const model_weights *w, model_precision precision,
                                   uint32_t frozen, retention_witness *ret, colm_err *err) {
    const model_config *c = &w->config;
    graph_params gp = {.B = PROBE_ROWS, .T = probe_tokens(c), .keep_logits = true};
    size_t rows = (size_t)gp.B * gp.T, n = rows * c->vocab;
    const model_trained nothing = {.frozen = c->n_chains, .precision = precision};
    retention_witness r = {.scales = frozen, .precision = precision};
    model_state *s = NULL;
    model_graph *g = NULL;
    uint32_t *ids = mem_alloc(2 * rows, sizeof *ids);
    float *nll = mem_alloc(rows * c->n_chains, sizeof *nll), *logits = mem_alloc(n, sizeof *logits);
    colm_status st = ids && nll && logits ? COLM_OK : err_nomem(err, n * sizeof *logits, "probe batch");
    if (!st) st = model_weights_digest(w, frozen, r.tensors, err);
    for (size_t i = 0; i < w->n_tensors; i++) r.n_tensors += w->tensor[i].chain < frozen;
    if (!st) st = model_state_create_trained(m, w, nothing, &s, err);
    if (!st) st = model_graph_create(s, &gp, &g, err);
    if (!st) {
        rng_stream probe = rng_open(0, "retention probe");
        for (size_t i = 0; i < rows; i++)
            ids[i] = (uint32_t)rng_below(&probe, i, c->vocab), ids[rows + i] = ABI_NO_TARGET;
        st = model_graph_score(g, ids, ids + rows, nll, NULL, err);
    }
    for (uint32_t i = 1; i <= c->n_chains && !st; i++) {
        if (i > frozen && i < c->n_chains) continue;
        if ((st = model_graph_logits(g, i, logits, err))) break;
        if (i <= frozen) hash_bytes(logits, n * sizeof *logits, r.logits[i]);
        if (i == c->n_chains) hash_bytes(logits, n * sizeof *logits, r.full);
    }
    ops_identity(m, r.numerics, sizeof r.numerics);
    if (!st) *ret = r;
    model_graph_free(&g);
    model_state_free(&s);
    free(ids);
    free(nll);
    free(logits);
    return st;
}

colm_status retention_certify(const retention_witness *a, const retention_witness *b, bool grown, str *json,
                              colm_err *err) {
    colm_status st = COLM_OK;
    bool tensors = strcmp(a->tensors, b->tensors) == 0;
    str_addf(json,
             "{\"frozen\":%u,\"tensors\":%zu,\"tensors_before\":\"%s\",\"tensors_after\":\"%s\",\"tensors_"
             "equal\":%s,\"scales\":[",
             a->scales, a->n_tensors, a->tensors, b->tensors, tensors ? "true" : "false");
    if (!tensors) st = err_set(err, COLM_E_CHECK, "retention: tensors of frozen chains changed");
    for (uint32_t i = 1; i <= a->scales; i++) {
        bool equal = strcmp(a->logits[i], b->logits[i]) == 0;
        str_addf(json, "%s{\"scale\":%u,\"logits_before\":\"%s\",\"logits_after\":\"%s\",\"equal\":%s}",
                 i > 1 ? "," : "", i, a->logits[i], b->logits[i], equal ? "true" : "false");
        if (!equal && !st) st = err_set(err, COLM_E_CHECK, "retention: logits of frozen scale %u changed", i);
    }
    str_add(json, "]");
    if (grown) {
        bool equal = strcmp(a->full, b->full) == 0;
        str_addf(json, ",\"full_logits_equal\":%s", equal ? "true" : "false");
        if (!equal && !st)
            st = err_set(err, COLM_E_CHECK, "retention: growing changed the logits of the full model");
    }
    str_add(json, ",\"numerics\":");
    str_add_json(json, b->numerics);
    if (b->precision) str_addf(json, ",\"precision\":\"%s\"", model_precision_name[b->precision]);
    str_add(json, "}");
    if (json->failed && !st) st = err_nomem(err, json->len, "certificate");
    return st;
}
