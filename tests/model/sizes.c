/* Sizes that hurt: one training step and the scores of a device's classes against the reference machine, for
 * shapes that meet the limits of grids, tiles and bindings. */
#include "tests/model/runs.h"

#define LOSS_TOLERANCE 1e-5 /* relative */
#define GRADIENT_TOLERANCE 1e-4

typedef struct {
    const char *what;
    uint32_t B, T, n_chains, head_dim, layers, vocab;
    model_chain chain[8];
} size_shape;

static const size_shape shapes[] = {
    {"one token", 3, 1, 2, 8, 2, 50, {{16, 2, 1, 24}, {9, 1, 1, 13}}},
    {"a batch of one token", 1, 1, 2, 8, 2, 50, {{16, 2, 1, 24}, {9, 1, 1, 13}}},
    {"chains of one column", 2, 9, 3, 2, 2, 31, {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 1, 3}}},
    {"eight chains",
     2,
     11,
     8,
     4,
     2,
     67,
     {{8, 2, 1, 12},
      {3, 1, 1, 5},
      {1, 1, 1, 1},
      {16, 4, 2, 24},
      {5, 2, 2, 7},
      {8, 1, 1, 8},
      {2, 1, 1, 3},
      {9, 3, 1, 17}}},
    {"unequal chains", 2, 17, 3, 8, 2, 97, {{3, 1, 1, 2}, {130, 6, 2, 259}, {1, 5, 1, 33}}},
    {"odd feed-forward widths", 3, 13, 2, 6, 2, 61, {{14, 2, 1, 37}, {11, 2, 2, 1}}},
    {"heads of 2", 2, 33, 2, 2, 2, 53, {{12, 6, 3, 18}, {7, 4, 1, 9}}},
    {"heads of 256", 2, 20, 2, 256, 1, 53, {{12, 2, 1, 18}, {7, 1, 1, 9}}},
    {"a vocabulary of 50,000", 2, 8, 2, 4, 1, 50000, {{7, 1, 1, 11}, {13, 2, 1, 15}}},
};

/* Beyond what one axis of a grid takes, 65,535 groups. Rows that differ: a sum of 70,000 equal terms in float
 * rounds the same way each time. */
static const size_shape rows_alone = {"70,000 rows of one token",  70000, 1, 2, 2, 1, 257,
                                      {{4, 1, 1, 4}, {3, 1, 1, 5}}};
static const size_shape rows_long = {"35 windows of 2,000 tokens", 35, 2000, 1, 2, 1, 11, {{4, 1, 1, 4}}};

static const graph_update step_of_one = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 1};

static model_weights *weights_of(const size_shape *s) {
    colm_err err = {0};
    model_config c = test_config(s->n_chains, s->chain);
    model_weights *w = NULL;
    c.context = s->T, c.head_dim = s->head_dim, c.layers = s->layers, c.vocab = s->vocab;
    if (CHECK_OK(model_config_check(&c, &err), err) && CHECK_OK(model_weights_create(&c, &w, &err), err))
        test_shake(w, 5);
    return w;
}

/* What a machine makes of a shape: a step with its gradients and new weights, and every scale's scores of the
 * weights it began with. */
typedef struct {
    bool ok;
    graph_report step;
    model_weights *grads, *after;
    float *nll, *logits; /* logits: only where they are kept */
} outcome;

static void outcome_free(outcome *o) {
    model_weights_free(&o->grads), model_weights_free(&o->after);
    free(o->nll), free(o->logits);
    *o = (outcome){0};
}

static bool trained(ops_machine *m, const model_weights *w, const size_shape *s, const uint32_t *ids,
                    outcome *o) {
    colm_err err = {0};
    graph_params p = {.B = s->B, .T = s->T, .train = true};
    model_state *state = NULL;
    model_graph *g = NULL;
    bool ok = CHECK_OK(model_weights_create(&w->config, &o->grads, &err), err) && (o->after = run_copy(w)) &&
              CHECK_OK(model_state_create(m, w, 0, &state, &err), err) &&
              CHECK_OK(model_graph_create(state, &p, &g, &err), err) &&
              CHECK_OK(model_graph_train(g, ids, ids + s->B * s->T, &step_of_one, &o->step, &err), err) &&
              CHECK_OK(model_state_download_grads(state, o->grads, &err), err) &&
              CHECK_OK(model_state_download(state, o->after, &err), err);
    model_graph_free(&g);
    model_state_free(&state);
    return ok;
}

static bool scored(ops_machine *m, const model_weights *w, const size_shape *s, const uint32_t *ids, bool keep,
                   outcome *o) {
    colm_err err = {0};
    size_t n = (size_t)s->B * s->T * s->n_chains;
    graph_params p = {.B = s->B, .T = s->T, .keep_logits = keep};
    model_state *state = NULL;
    model_graph *g = NULL;
    o->nll = calloc(n, sizeof *o->nll);
    if (keep) o->logits = calloc(n * s->vocab, sizeof *o->logits);
    bool ok = CHECK(o->nll && (o->logits || !keep)) &&
              CHECK_OK(model_state_create(m, w, s->n_chains, &state, &err), err) &&
              CHECK_OK(model_graph_create(state, &p, &g, &err), err) &&
              CHECK_OK(model_graph_score(g, ids, ids + s->B * s->T, o->nll, NULL, &err), err);
    for (uint32_t i = 0; ok && keep && i < s->n_chains; i++)
        ok = CHECK_OK(model_graph_logits(g, i + 1, o->logits + (size_t)i * s->B * s->T * s->vocab, &err), err);
    model_graph_free(&g);
    model_state_free(&state);
    return ok;
}

static outcome run(ops_machine *m, const model_weights *w, const size_shape *s, bool keep) {
    outcome o = {0};
    uint32_t rows = s->B * s->T, *ids = calloc(2 * (size_t)rows, sizeof *ids);
    if (!ids) abort();
    test_tokens(31, s->vocab, rows, ids, ids + rows);
    if (rows > 4) ids[rows + 3] = ABI_NO_TARGET;
    o.ok = trained(m, w, s, ids, &o) && scored(m, w, s, ids, keep, &o);
    free(ids);
    return o;
}

static double norm(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* Worst tensor: the norm of the difference against that of the tensor, or of a thousandth of all where it is
 * smaller: a tensor that is nearly without gradient says little. */
static double gradient_error(const model_weights *a, const model_weights *b) {
    double worst = 0, all = norm(b->data, b->n_elems);
    for (size_t i = 0; i < b->n_tensors; i++) {
        const float *x = a->data + a->tensor[i].off, *y = b->data + b->tensor[i].off;
        double sum = 0, size = fmax(norm(y, run_elems(&b->tensor[i])), 1e-3 * all);
        for (size_t k = 0; k < run_elems(&b->tensor[i]); k++)
            sum += ((double)x[k] - y[k]) * ((double)x[k] - y[k]);
        worst = run_worse(worst, sqrt(sum) / size);
    }
    return worst;
}

/* Every trained tensor moved, by at most what the first step of AdamW can do. */
static void check_moved(const model_weights *before, const model_weights *after) {
    for (size_t i = 0; i < before->n_tensors; i++) {
        const model_tensor *t = &before->tensor[i];
        double most = 0;
        for (size_t k = t->off; k < t->off + run_elems(t); k++)
            most = run_worse(most, fabs((double)after->data[k] - before->data[k]));
        /* A softmax over one key has no gradient, and nothing to learn from. */
        bool still = before->config.context == 1 && (t->kind == PARAM_Q || t->kind == PARAM_K);
        if (!CHECK((still || most > 0) && most < 1.1e-3)) printf("#   %s moved by %g\n", t->name, most);
    }
}

/* a against b, which is nearer to the truth. */
static void check_near(const size_shape *s, const char *name, const model_weights *w, const outcome *a,
                       const outcome *b) {
    int bad = test_bad_;
    if (!a->ok || !b->ok) return;
    double loss = fabs(a->step.loss - b->step.loss) / b->step.loss, nll = 0;
    double size = fabs(a->step.grad_norm - b->step.grad_norm) / b->step.grad_norm;
    double grads = gradient_error(a->grads, b->grads);
    for (size_t i = 0; i < (size_t)s->B * s->T * s->n_chains; i++)
        nll = run_worse(nll, fabs((double)a->nll[i] - b->nll[i]) / (1 + b->nll[i]));
    CHECK(loss <= LOSS_TOLERANCE);
    CHECK(nll <= LOSS_TOLERANCE);
    CHECK(size <= GRADIENT_TOLERANCE);
    CHECK(grads <= GRADIENT_TOLERANCE);
    CHECK(norm(b->grads->data, b->grads->n_elems) > 1e-3);
    check_moved(w, a->after);
    printf("# %s, %s: loss %.1e, scores %.1e, gradients %.1e%s\n", s->what, name, loss, nll, grads,
           test_bad_ > bad ? " WRONG" : "");
}

static void on_both_classes(const size_shape *s) {
    static const char *const classes[] = {"cpu", "portable"};
    ops_machine *ref = test_machine("reference");
    model_weights *w = weights_of(s);
    outcome want = run(ref, w, s, false);
    for (size_t i = 0; i < 2; i++) {
        ops_machine *m = test_machine(classes[i]);
        if (!m) break;
        outcome got = run(m, w, s, false);
        check_near(s, classes[i], w, &got, &want);
        CHECK(ops_bytes(m, NULL) == 0);
        outcome_free(&got);
        ops_close(&m);
    }
    outcome_free(&want);
    model_weights_free(&w);
    ops_close(&ref);
}

static void sizes_that_hurt(void) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) on_both_classes(&shapes[i]);
}

static void more_rows_than_an_axis_of_a_grid(void) {
    on_both_classes(&rows_alone);
}

static void more_rows_in_long_windows(void) {
    on_both_classes(&rows_long);
}

static bool same(const float *a, const float *b, size_t n) {
    return run_finite(a, n) && memcmp(a, b, n * sizeof *a) == 0;
}

/* Embeddings and heads that do not fit a binding are taken by windows of rows. Where the cuts lie changes no
 * bit of logits, scores, loss, gradients or new weights. */
static void windows_of_a_vocabulary_change_no_bit(void) {
    static const uint64_t limits[] = {1u << 18, 1u << 16, 1u << 12};
    static const char *const classes[] = {"cpu", "portable"};
    size_shape s = shapes[sizeof shapes / sizeof *shapes - 1];
    model_weights *w = weights_of(&s);
    for (size_t i = 0; i < 2; i++) {
        ops_machine *m = test_machine(classes[i]);
        if (!m) break;
        CHECK(ops_window(m) >= (uint64_t)s.vocab * 16); /* the whole run is in one piece */
        outcome whole = run(m, w, &s, true);
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
            size_t n = (size_t)s.B * s.T * s.n_chains;
            ops_limit_window(m, limits[k]);
            CHECK(ops_window(m) == limits[k]);
            outcome cut = run(m, w, &s, true);
            if (whole.ok && cut.ok) {
                int bad = test_bad_;
                CHECK(cut.step.loss == whole.step.loss && cut.step.grad_norm == whole.step.grad_norm);
                CHECK(same(cut.nll, whole.nll, n));
                CHECK(same(cut.logits, whole.logits, n * s.vocab));
                CHECK(same(cut.grads->data, whole.grads->data, w->n_elems));
                CHECK(same(cut.after->data, whole.after->data, w->n_elems));
                if (test_bad_ > bad)
                    printf("#   %s, windows of %llu\n", classes[i], (unsigned long long)limits[k]);
            }
            outcome_free(&cut);
        }
        outcome_free(&whole);
        ops_close(&m);
    }
    model_weights_free(&w);
}

/* What cannot be cut is refused before anything runs, with its numbers, and leaves nothing behind. */
static void what_fits_no_window_is_refused(void) {
    static const char *const machines[] = {"reference", "cpu"};
    const size_shape s = {"", 64, 32, 1, 8, 1, 50, {{16, 2, 1, 24}}};
    const size_shape wide = {"", 1, 1, 1, 8, 1, 50, {{100, 2, 1, 120}}};
    for (size_t i = 0; i < 2; i++) {
        colm_err err = {0};
        ops_machine *m = test_machine(machines[i]);
        model_weights *w = weights_of(&s), *v = weights_of(&wide);
        model_state *state = NULL, *other = NULL;
        model_graph *g = NULL;
        graph_params p = {.B = s.B, .T = s.T, .train = true}, one = {.B = 1, .T = 1, .train = true};
        if (m && CHECK_OK(model_state_create(m, w, 0, &state, &err), err) &&
            CHECK_OK(model_state_create(m, v, 0, &other, &err), err)) {
            const uint64_t held = ops_bytes(m, NULL);
            ops_limit_window(m, 8192); /* 2048 rows of 24 columns are 49,152 */
            CHECK(model_graph_create(state, &p, &g, &err) == COLM_E_INPUT && !g);
            CHECK_HAS(err.text, "64 x 32");
            CHECK_HAS(err.text, "32768"); /* the limit in bytes */
            CHECK_HAS(err.text, "lower \"batch\"");
            CHECK(ops_bytes(m, NULL) == held);
            CHECK(model_graph_create(other, &one, &g, &err) == COLM_E_INPUT && !g);
            CHECK_HAS(err.text, "layers.0.w1.1");
            CHECK_HAS(err.text, "32768");
            CHECK(ops_bytes(m, NULL) == held);
            p.B = 8; /* fits */
            CHECK_OK(model_graph_create(state, &p, &g, &err), err);
        }
        model_graph_free(&g);
        model_state_free(&state), model_state_free(&other);
        model_weights_free(&w), model_weights_free(&v);
        ops_close(&m);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--slow") == 0) {
        TEST(more_rows_than_an_axis_of_a_grid);
        TEST(more_rows_in_long_windows);
        return test_end();
    }
    TEST(sizes_that_hurt);
    TEST(windows_of_a_vocabulary_change_no_bit);
    TEST(what_fits_no_window_is_refused);
    return test_end();
}
