/* Parity with the independent implementation in PyTorch (tests/peer/colm_torch.py): logits, gradients and one
 * AdamW step of the same weights and tokens, relative 1e-4, for one, two and four chains and a frozen prefix,
 * on the reference and on the device. */
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "tests/model/models.h"

static char folder[] = "/tmp/colm-peer-XXXXXX";

/* Elements of a .npy file of float32 or int32; free() it. */
static void *npy_read(const char *name, size_t *ret_n) {
    char path[256], *bytes = NULL;
    size_t n = 0;
    colm_err err;
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    if (file_read(path, 0, &bytes, &n, &err)) return NULL;
    size_t at = 10 + (size_t)((unsigned char)bytes[8] | (unsigned char)bytes[9] << 8);
    char *data = malloc(n - at + 1);
    memcpy(data, bytes + at, n - at);
    *ret_n = (n - at) / 4;
    free(bytes);
    return data;
}

/* The peer's name of a tensor: "l0.q.1" for our "layers.0.q.2". */
static void peer_name(const model_tensor *t, const char *prefix, char *buf, size_t n) {
    const char *name = t->kind == PARAM_EMBED ? "emb" : param_get(t->kind)->name;
    if (param_get(t->kind)->per_layer)
        snprintf(buf, n, "%s.l%u.%s.%u", prefix, t->layer, name, t->chain);
    else
        snprintf(buf, n, "%s.%s.%u", prefix, name, t->chain);
}

static double relative(const float *a, const float *b, size_t n) {
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        s += (double)a[i] * a[i];
    }
    return sqrt(d) / sqrt(s);
}

static void compare(const model_weights *w, const char *prefix, bool matrices, uint32_t frozen) {
    for (size_t i = 0; i < w->n_tensors; i++) {
        const model_tensor *t = &w->tensor[i];
        if ((matrices && param_is_vector(t->kind)) || t->chain < frozen) continue;
        char name[64];
        size_t n = 0;
        peer_name(t, prefix, name, sizeof name);
        float *want = npy_read(name, &n);
        if (!CHECK(want && n == (size_t)t->rows * t->cols)) continue;
        double e = relative(want, w->data + t->off, n);
        if (!CHECK(e <= 1e-4)) printf("#   %s: relative error %g\n", name, e);
        free(want);
    }
}

static void parity(const char *machine, const model_config *cfg, uint32_t frozen) {
    colm_err err = {0};
    size_t n = 0, nt = 0;
    ops_machine *m = test_machine(machine);
    if (!m) return;
    model_weights *w = NULL, *g = NULL;
    CHECK_OK(model_weights_create(cfg, &w, &err), err);
    CHECK_OK(model_weights_create(cfg, &g, &err), err);
    for (size_t i = 0; i < w->n_tensors; i++) {
        char name[64];
        peer_name(&w->tensor[i], "w", name, sizeof name);
        float *x = npy_read(name, &n);
        if (CHECK(x && n == (size_t)w->tensor[i].rows * w->tensor[i].cols))
            memcpy(w->data + w->tensor[i].off, x, 4 * n);
        free(x);
    }
    uint32_t *tokens = npy_read("tokens", &nt), *targets = npy_read("targets", &n);
    if (!CHECK(tokens && targets && nt == 32)) return;

    model_state *s = NULL;
    model_graph *graph = NULL;
    CHECK_OK(model_state_create(m, w, cfg->n_chains, &s, &err), err);
    graph_params gp = {.B = 2, .T = 16, .keep_logits = true};
    CHECK_OK(model_graph_create(s, &gp, &graph, &err), err);
    float *nll = calloc(nt * cfg->n_chains, 4), *logits = calloc(nt * cfg->vocab, 4),
          *want = npy_read("logits", &n);
    CHECK_OK(model_graph_score(graph, tokens, targets, nll, NULL, &err), err);
    CHECK_OK(model_graph_logits(graph, cfg->n_chains, logits, &err), err);
    CHECK(want && n == nt * cfg->vocab);
    CHECK(relative(want, logits, n) <= 1e-4);
    free(nll), free(logits), free(want);
    model_graph_free(&graph);
    model_state_free(&s);

    CHECK_OK(model_state_create(m, w, frozen, &s, &err), err);
    gp = (graph_params){.B = 2, .T = 16, .train = true};
    CHECK_OK(model_graph_create(s, &gp, &graph, &err), err);
    graph_report r;
    CHECK_OK(model_graph_gradients(graph, tokens, targets, &r, &err), err);
    CHECK_OK(model_state_download_grads(s, g, &err), err);
    compare(g, "g", false, frozen);
    graph_update u = {.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .t = 1};
    CHECK_OK(model_graph_train(graph, tokens, targets, &u, &r, &err), err);
    CHECK_OK(model_state_download(s, g, &err), err);
    compare(g, "w1", true, frozen);
    model_graph_free(&graph);
    model_state_free(&s);
    free(tokens), free(targets);
    model_weights_free(&w);
    model_weights_free(&g);
    ops_close(&m);
}

static void run(const char *chains, uint32_t n_chains, uint32_t frozen) {
    static const char *const machines[] = {"reference", "cpu", "gpu", "portable"};
    char cmd[1024];
    const char *skip = getenv("COLM_TEST_NO_PEER") ? "left out by COLM_TEST_NO_PEER" : NULL;
    if (!skip && system("/usr/bin/python3 -c 'import torch' 2>/dev/null"))
        skip = "python3-torch is not installed";
    if (skip) {
        test_skip(skip);
        return;
    }
    snprintf(cmd, sizeof cmd,
             "/usr/bin/python3 %s/tests/peer/colm_torch.py --d 64 --layers 2 --heads 4 --ffn 96 --vocab 128 "
             "--T 16 --B 2 "
             "--chains %s --freeze %u --dump %s >/dev/null",
             COLM_SOURCE_DIR, chains, frozen, folder);
    if (!CHECK(system(cmd) == 0)) return;
    model_config c = {.vocab = 128,
                      .context = 16,
                      .layers = 2,
                      .head_dim = 16,
                      .n_chains = n_chains,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5};
    for (uint32_t i = 0; i < n_chains; i++)
        c.chain[i] = (model_chain){64 / n_chains, 4 / n_chains, 4 / n_chains, 96 / n_chains};
    for (size_t i = 0; i < 4; i++) parity(machines[i], &c, frozen);
}

static void one_chain(void) {
    run("1", 1, 0);
}
static void two_chains(void) {
    run("1,1", 2, 0);
}
static void four_chains(void) {
    run("1,1,1,1", 4, 0);
}
static void frozen_prefix(void) {
    run("1,1", 2, 1);
}

int main(void) {
    char cmd[64];
    if (!mkdtemp(folder)) return 1;
    TEST(one_chain);
    TEST(two_chains);
    TEST(four_chains);
    TEST(frozen_prefix);
    snprintf(cmd, sizeof cmd, "rm -r %s", folder);
    if (system(cmd)) printf("# %s stays\n", folder);
    return test_end();
}
