/* Finite differences of the whole model's loss in double: four points, eps 1e-4, error <= 1e-7 in every tensor.
 */
#include "tests/model/models.h"

typedef struct {
    const char *what;
    uint32_t n;
    model_chain chain[4];
    uint32_t frozen, B, T;
} shape;

static double loss_at(model_graph *g, const uint32_t *tokens, const uint32_t *targets) {
    graph_report r;
    colm_err err = {0};
    CHECK_OK(model_graph_gradients(g, tokens, targets, &r, &err), err);
    return r.loss;
}

/* The loss read back passes through float; differences of 1e-7 need the doubles, so sum those of the machine.
 */
static void check_shape(const shape *sh) {
    colm_err err = {0};
    model_config c = test_config(sh->n, sh->chain);
    c.vocab = 11;
    c.norm_eps =
        1e-2; /* a norm over one column is a step of width sqrt(eps): keep it smooth at the step of 1e-4 */
    model_weights *w = NULL;
    ops_machine *m = test_machine("reference");
    model_state *s = NULL;
    model_graph *g = NULL;
    uint32_t tokens[64], targets[64];
    CHECK_OK(model_weights_create(&c, &w, &err), err);
    test_shake(w, 7);
    CHECK_OK(model_state_create(m, w, sh->frozen, &s, &err), err);
    graph_params gp = {.B = sh->B, .T = sh->T, .train = true};
    if (!CHECK_OK(model_graph_create(s, &gp, &g, &err), err)) return;
    test_tokens(3, c.vocab, sh->B * sh->T, tokens, targets);
    loss_at(g, tokens, targets);
    double *params = ops_doubles(m, s->params), *grads = ops_doubles(m, s->grads);
    uint64_t n = s->end - s->trained_at;
    double *saved = malloc(n * sizeof *saved);
    memcpy(saved, grads, n * sizeof *saved);
    const double *nll = ops_doubles(m, model_graph_nll(g));
    for (size_t i = 0; i < s->n_tensors; i++) {
        const state_tensor *t = &s->tensor[i];
        if (!t->trained) continue;
        double worst = 0, largest = 0;
        /* A few elements of every tensor: its corners and a spread between, padding left out. */
        uint32_t cols = s->shape[i].cols, rows = s->shape[i].rows;
        for (uint32_t k = 0; k < 6; k++) {
            uint32_t row = (k * (rows - 1)) / 5, col = ((5 - k) * (cols - 1)) / 5;
            uint64_t at = t->off + (uint64_t)row * t->ld + col;
            if (saved[at - s->trained_at] == 0 && params[at] == 0) continue; /* a pad between chains */
            double old = params[at], f[4];
            static const double h[4] = {-2e-4, -1e-4, 1e-4, 2e-4};
            for (int q = 0; q < 4; q++) {
                params[at] = old + h[q];
                loss_at(g, tokens, targets);
                f[q] = 0;
                for (uint32_t r = 0; r < sh->B * sh->T; r++) f[q] += nll[r];
                f[q] /= sh->B * sh->T;
            }
            params[at] = old;
            double numeric = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * 1e-4);
            double e = fabs(numeric - saved[at - s->trained_at]);
            if (!(e <= worst)) worst = e;
            if (fabs(numeric) > largest) largest = fabs(numeric);
        }
        if (!CHECK(worst <= 1e-7)) printf("#   %s, %s: error %g\n", sh->what, s->shape[i].name, worst);
        if (s->shape[i].kind != PARAM_EMBED && !CHECK(largest > 0))
            printf("#   %s, %s: all zero\n", sh->what, s->shape[i].name);
    }
    free(saved);
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w);
    ops_close(&m);
}

static void finite_differences(void) {
    static const shape shapes[] = {
        {"one chain", 1, {{16, 2, 2, 24}}, 0, 2, 5},
        {"two unequal chains, grouped heads", 2, {{12, 2, 1, 20}, {8, 1, 1, 9}}, 0, 2, 5},
        {"frozen prefix", 2, {{12, 2, 1, 20}, {8, 2, 2, 9}}, 1, 1, 7},
        {"one-column chain", 3, {{8, 1, 1, 8}, {1, 1, 1, 3}, {5, 3, 1, 7}}, 0, 3, 3},
        {"one token", 2, {{8, 1, 1, 8}, {4, 1, 1, 5}}, 0, 3, 1},
        {"frozen two of four", 4, {{8, 1, 1, 8}, {4, 1, 1, 5}, {6, 2, 1, 8}, {3, 1, 1, 4}}, 2, 2, 4},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(&shapes[i]);
}

int main(void) {
    TEST(finite_differences);
    return test_end();
}
