#include <math.h>

#include "engine/base/rng.h"
#include "engine/data/corpus.h"

static colm_status check_parts(const batch_part *part, size_t n_parts, uint32_t T, double *ret_total,
                               colm_err *err) {
    double total = 0;
    for (size_t i = 0; i < n_parts; i++) {
        size_t n;
        corpus_train(part[i].corpus, &n);
        if (n <= T)
            return err_set(err, COLM_E_INPUT,
                           "corpus \"%s\" has %zu training tokens, too few for a window of %u + 1",
                           corpus_name(part[i].corpus), n, T);
        if (!(part[i].weight > 0 && isfinite(part[i].weight)))
            return err_set(err, COLM_E_INPUT, "corpus \"%s\": weight %g is not a positive number",
                           corpus_name(part[i].corpus), part[i].weight);
        total += part[i].weight;
    }
    if (!(total > 0 && isfinite(total)))
        return err_set(err, COLM_E_INPUT, "weights of %zu parts add up to %g", n_parts, total);
    *ret_total = total;
    return COLM_OK;
}

static size_t choose_part(const batch_part *part, size_t n_parts, double at) {
    size_t i = 0;
    for (double end = part[0].weight; i + 1 < n_parts && at >= end; end += part[i].weight) i++;
    return i;
}

colm_status batch_fill(const batch_part *part, size_t n_parts, uint64_t seed, uint64_t step, uint32_t B,
                       uint32_t T, uint32_t *ret_tokens, uint32_t *ret_targets, colm_err *err) {
    return batch_fill_rows(part, n_parts, seed, step, 0, B, T, ret_tokens, ret_targets, err);
}

colm_status batch_fill_rows(const batch_part *part, size_t n_parts, uint64_t seed, uint64_t step, uint32_t row0,
                            uint32_t B, uint32_t T, uint32_t *ret_tokens, uint32_t *ret_targets,
                            colm_err *err) {
    double total = 0;
    if (B == 0 || T == 0)
        return err_set(err, COLM_E_INPUT, "a batch of %u windows of %u tokens is empty", B, T);
    if (step >> 32)
        return err_set(err, COLM_E_INPUT, "step %llu: steps end at 2^32 - 1", (unsigned long long)step);
    colm_status s = check_parts(part, n_parts, T, &total, err);
    if (s) return s;
    const rng_stream choice = rng_open(seed, "batch part"), start = rng_open(seed, "batch start");
    for (uint32_t b = 0; b < B; b++) {
        const uint64_t draw = step << 32 | (row0 + b);
        const corpus *c = part[choose_part(part, n_parts, total * rng_uniform(&choice, draw))].corpus;
        size_t n;
        const uint16_t *window = corpus_train(c, &n);
        window += rng_below(&start, draw, n - T); // starts 0 .. n-T-1
        const size_t row = (size_t)b * T;
        for (uint32_t i = 0; i < T; i++) {
            ret_tokens[row + i] = window[i];
            ret_targets[row + i] = window[i + 1];
        }
    }
    return COLM_OK;
}
