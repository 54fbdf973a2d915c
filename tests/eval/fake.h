/* Models that know their scores beforehand, and a corpus out of texts. */
#ifndef COLM_TESTS_EVAL_FAKE_H
#define COLM_TESTS_EVAL_FAKE_H

#include "engine/base/rng.h"
#include "engine/eval/internal.h"
#include "tests/data/scratch.h"
#include "tests/test.h"

/* Log-probability of a token after another one: any fixed function will do. Scale s differs from scale 1. */
static inline double fake_logprob(uint32_t before, uint32_t token, uint32_t scale) {
    const rng_stream r = rng_open(scale, "fake model");
    return -0.01 - 6 * rng_uniform(&r, (uint64_t)before << 32 | token);
}

typedef struct {
    bool uniform; /* over `vocab` tokens; else fake_logprob */
    uint32_t vocab;
    size_t calls, seen, largest; /* calls, requests, most requests in a call */
    uint32_t longest;            /* most tokens that were read */
    bool malformed;              /* a request without context or continuation, or too long */
    double poison;               /* given for request poison_at */
    size_t poison_at;
    colm_status fail; /* returned when not COLM_OK */
    eval_model model;
} fake;

static inline colm_status fake_score(void *user, const eval_request *req, size_t n, eval_result *ret,
                                     colm_err *err) {
    fake *f = user;
    f->calls++;
    if (n > f->largest) f->largest = n;
    if (f->fail) return err_set(err, f->fail, "the fake model fails");
    for (size_t i = 0; i < n; i++, f->seen++) {
        const uint32_t all = req[i].n_context + req[i].n_cont;
        if (!req[i].n_context || !req[i].n_cont || all > f->model.max_length + 1) f->malformed = true;
        if (all - 1 > f->longest) f->longest = all - 1;
        for (uint32_t s = 0; s < f->model.n_scales; s++) {
            double sum = 0;
            for (uint32_t k = req[i].n_context; k < all; k++)
                sum += f->uniform ? -log(f->vocab) : fake_logprob(req[i].token[k - 1], req[i].token[k], s + 1);
            ret[i * f->model.n_scales + s] =
                (eval_result){f->poison != 0 && f->seen == f->poison_at ? f->poison : sum, false};
        }
    }
    return COLM_OK;
}

static inline void fake_init(fake *f, uint32_t n_scales, uint32_t max_length) {
    *f = (fake){.vocab = 257, .model = {n_scales, max_length, f, fake_score}};
}

/* A corpus that holds out about half of the documents; every "@" begins one. */
static inline corpus *fake_corpus(scratch *dir, const tokenizer *t, const char *bytes, size_t n,
                                  double heldout) {
    colm_err err;
    corpus *c = NULL;
    const char *file[] = {"corpus.txt"};
    const corpus_params p = {.name = "fake",
                             .base_dir = dir->path,
                             .text = file,
                             .n_text = 1,
                             .split_on = "@",
                             .heldout = heldout,
                             .seed = 1,
                             .cache_dir = dir->path};
    CHECK(scratch_put(dir, "corpus.txt", bytes, n));
    CHECK_OK(corpus_open(&p, t, NULL, &c, &err), err);
    return c;
}

#endif
