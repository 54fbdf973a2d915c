/* A small training: periodic texts, a model of two chains, a job of a few steps. */
#ifndef COLM_TESTS_TRAIN_JOBS_H
#define COLM_TESTS_TRAIN_JOBS_H

#include "engine/data/tokenizer.h"
#include "engine/train/loop.h"
#include "tests/data/scratch.h"
#include "tests/model/models.h"

static scratch folder;
static corpus *texts;

/* Documents of periodic text, all alike to a model that has read one. */
static inline bool texts_open(void) {
    colm_err err = {0};
    tokenizer *tok = NULL;
    const char *names[8];
    static const char line[] = "to be, or not to be: that is the question. ";
    for (int i = 0; i < 8; i++) {
        char text[512] = "", name[16];
        snprintf(name, sizeof name, "%d.txt", i);
        for (int k = 0; k < 8; k++) strcat(text, line);
        text[300 + i] = 0;
        if (!(names[i] = scratch_put(&folder, name, text, strlen(text)))) return false;
    }
    corpus_params p = {.name = "periodic",
                       .text = names,
                       .n_text = 8,
                       .heldout = 0.1,
                       .cache_dir = scratch_path(&folder, "cache")};
    bool ok = CHECK_OK(tokenizer_open("bytes", &tok, &err), err) &&
              CHECK_OK(corpus_open(&p, tok, NULL, &texts, &err), err);
    tokenizer_close(&tok);
    return ok;
}

static inline model_config config(void) {
    model_config c = test_config(2, (model_chain[]){{16, 2, 1, 24}, {9, 1, 1, 13}});
    c.vocab = 257;
    return c;
}

static inline model_weights *weights(void) {
    colm_err err = {0};
    model_config c = config();
    model_weights *w = NULL;
    CHECK_OK(model_weights_init(&c, 3, &w, &err), err);
    return w;
}

static inline model_weights *copy(const model_weights *w) {
    colm_err err = {0};
    model_weights *c = NULL;
    if (CHECK_OK(model_weights_create(&w->config, &c, &err), err))
        memcpy(c->data, w->data, w->n_elems * sizeof *w->data);
    return c;
}

static inline bool same(const model_weights *a, const model_weights *b) {
    return memcmp(a->data, b->data, a->n_elems * sizeof *a->data) == 0;
}

static inline const batch_part *part(void) {
    static batch_part p;
    p = (batch_part){texts, 1};
    return &p;
}

static inline train_job job_of(uint64_t steps) {
    return (train_job){.params = {.batch = 3,
                                  .context = 13,
                                  .tokens = steps * 39,
                                  .lr = 1e-2,
                                  .min_lr = 0.1,
                                  .warmup = 2,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .decay = 0.1,
                                  .clip = 1,
                                  .log_every = 1},
                       .part = part(),
                       .n_parts = 1,
                       .seed = 17};
}

/* A test for the end of a program: whole steps, forward to update, as the validation layer sees them. */
static inline void the_validation_layer_is_silent(void) {
    gpu_device *d = test_device();
    if (d)
        CHECK(gpu_validation_messages(d) == 0);
    else
        test_skip("no Vulkan device");
}

#endif
