/* Machines and small models for tests. */
#ifndef COLM_TESTS_MODEL_MODELS_H
#define COLM_TESTS_MODEL_MODELS_H

#include "engine/base/rng.h"
#include "engine/model/graph.h"
#include "tests/test.h"

/* The device most tests run on; NULL (after the first call said why) when there is none. */
static inline gpu_device *test_device(void) {
    static gpu_device *device;
    static bool tried;
    if (!tried) {
        colm_err err;
        gpu_params p = {.validate = getenv("COLM_TEST_VALIDATE") != NULL};
        tried = true;
        if (gpu_open(&p, &device, &err)) printf("# no device: %s\n", err.text);
    }
    return device;
}

/* A machine by name: "reference", or a kernel class on the device. NULL after test_skip when there is no
 * device. */
static inline ops_machine *test_machine(const char *name) {
    colm_err err = {0};
    ops_machine *m = NULL;
    if (strcmp(name, "reference") == 0) {
        CHECK_OK(ops_open_ref(&m, &err), err);
        return m;
    }
    gpu_device *d = test_device();
    if (!d) return test_skip("no Vulkan device"), NULL;
    ops_machine_params p = {.kernels = name};
    CHECK_OK(ops_open_gpu(d, &p, &m, &err), err);
    return m;
}

static inline model_config test_config(uint32_t n_chains, const model_chain *chain) {
    model_config c = {.vocab = 50,
                      .context = 32,
                      .layers = 2,
                      .head_dim = 8,
                      .n_chains = n_chains,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5};
    memcpy(c.chain, chain, n_chains * sizeof *chain);
    return c;
}

/* Ids below the vocabulary, a pure function of the seed. */
static inline void test_tokens(uint64_t seed, uint32_t vocab, uint32_t n, uint32_t *tokens, uint32_t *targets) {
    rng_stream s = rng_open(seed, "test tokens");
    for (uint32_t i = 0; i < n; i++) {
        tokens[i] = (uint32_t)rng_below(&s, 2 * i, vocab);
        targets[i] = (uint32_t)rng_below(&s, 2 * i + 1, vocab);
    }
}

/* Weights away from the symmetric start: gains near 1, matrices large enough that every part matters. */
static inline void test_shake(model_weights *w, uint64_t seed) {
    for (size_t i = 0; i < w->n_tensors; i++) {
        const model_tensor *t = &w->tensor[i];
        rng_stream s = rng_open(seed, t->name);
        bool gain = param_is_vector(t->kind);
        for (size_t k = 0; k < (size_t)t->rows * t->cols; k++)
            w->data[t->off + k] = (float)(gain ? 1 + 0.1 * rng_normal(&s, k) : 0.15 * rng_normal(&s, k));
    }
}

#endif
