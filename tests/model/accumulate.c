/* A step in micro-batches: the loss and the gradients of the whole batch, weighted by targets however they fall
 * into the parts, and nothing left of the step before. */
#include "tests/model/runs.h"

#define SEQS 4
#define PART 2 /* sequences of a micro-batch */
#define LEN 33 /* so that a micro-batch is more than one slice of 64 rows of logits */
#define ROWS (SEQS * LEN)

typedef struct {
    const char *what;
    bool tied, multi, recompute;
    model_family family;
} kind;

static const kind kinds[] = {
    {"plain", false, false, false, {0}},
    {"tied", true, true, false, {0}},
    {"separate heads", false, true, true, {.head = HEAD_SEPARATE}},
    {"CoLM-Air", false, false, true, {.kv = KV_GROUPED}},
    {"biases and positions",
     true,
     false,
     false,
     {.norm = NORM_LAYER, .position = POSITION_LEARNED, .bias_qkv = true, .bias_o = true, .bias_ffn = true}},
    {"more norms", false, true, false, {.qk_norm = true, .post_norms = true}},
};

static model_weights *weights_of(const kind *k) {
    colm_err err = {0};
    uint32_t kv = k->family.kv == KV_OWN;
    model_config c = test_config(3, (model_chain[]){{12, 4, 2, 20, k->tied, 0, 0},
                                                    {5, 2, kv, 9, k->tied, 0, 0},
                                                    {9, 3, kv, 17, k->tied, 0, 0}});
    model_weights *w = NULL;
    c.context = LEN;
    c.family = k->family;
    if (CHECK_OK(model_weights_create(&c, &w, &err), err)) test_shake(w, 7);
    return w;
}

/* The second half of the rows has fewer targets than the first. */
static uint64_t batch(uint64_t seed, uint32_t vocab, uint32_t *tokens, uint32_t *targets) {
    uint64_t n = 0;
    test_tokens(seed, vocab, ROWS, tokens, targets);
    for (uint32_t r = 0; r < ROWS; r++) {
        if (r % 5 == 0 || (r > ROWS / 2 && r % 3)) targets[r] = ABI_NO_TARGET;
        n += targets[r] != ABI_NO_TARGET;
    }
    return n;
}

static double accumulate(model_graph *g, const uint32_t *tokens, const uint32_t *targets, uint64_t n) {
    colm_err err = {0};
    double loss = 0;
    for (uint32_t k = 0; k < SEQS / PART; k++) {
        graph_report r = {0};
        uint32_t at = k * PART * LEN;
        CHECK_OK(model_graph_accumulate(g, tokens + at, targets + at, n, k, &r, &err), err);
        loss += r.loss;
    }
    return loss;
}

/* Each tensor's distance to what it should be, against its norm; differences far below the whole are rounding.
 */
static void compare(const model_weights *want, const model_weights *got, double tol) {
    double all = 0;
    for (size_t k = 0; k < want->n_elems; k++) all += (double)want->data[k] * want->data[k];
    for (size_t i = 0; i < want->n_tensors; i++) {
        const model_tensor *t = &want->tensor[i];
        double diff = 0, size = 0;
        for (size_t k = 0; k < run_elems(t); k++) {
            double x = want->data[t->off + k], d = got->data[t->off + k] - x;
            diff += d * d, size += x * x;
        }
        if (!CHECK(sqrt(diff) <= tol * (sqrt(size) + 1e-3 * sqrt(all))))
            printf("#   %s: %g off in %g\n", t->name, sqrt(diff), sqrt(size));
    }
}

static void one_kind(ops_machine *m, const kind *k, uint32_t frozen, double tol) {
    static const double each[] = {0.2, 0.3, 0.5};
    colm_err err = {0};
    uint32_t tokens[ROWS], targets[ROWS], other[ROWS], goals[ROWS];
    model_weights *w = weights_of(k), *got = run_copy(w), *again = run_copy(w);
    uint64_t n = batch(5, w->config.vocab, tokens, targets), n_other = batch(6, w->config.vocab, other, goals);
    graph_params p = {.B = SEQS, .T = LEN, .train = true, .lambda = k->multi ? each : NULL};
    graph_report whole = {0}, report = {0};
    model_weights *want = run_gradients(m, w, frozen, p, tokens, targets, &whole);
    model_state *s = NULL;
    model_graph *g = NULL;
    p.B = PART, p.head_rows = 64, p.recompute = k->recompute;
    memset(got->data, 0, got->n_elems * sizeof *got->data);
    memset(again->data, 0, again->n_elems * sizeof *again->data);
    if (CHECK_OK(model_state_create(m, w, frozen, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &p, &g, &err), err)) {
        CHECK_NEAR(accumulate(g, tokens, targets, n), whole.loss, tol * whole.loss);
        CHECK_OK(model_state_download_grads(s, got, &err), err);
        compare(want, got, tol);
        CHECK(accumulate(g, other, goals, n_other) != whole.loss);
        accumulate(g, tokens, targets, n);
        CHECK_OK(model_state_download_grads(s, again, &err), err);
        for (size_t i = 0; i < got->n_tensors; i++)
            if (!CHECK(run_same_tensor(got, again, i)))
                printf("#   after another step: %s\n", got->tensor[i].name);
        double square = 0;
        for (size_t i = 0; i < got->n_elems; i++) square += (double)got->data[i] * got->data[i];
        graph_update u = {1e-2, 0.9, 0.95, 1e-8, 0.1, 1, 1};
        CHECK_OK(model_graph_apply(g, &u, &report, &err), err);
        CHECK_NEAR(report.grad_norm, sqrt(square), 1e-5 * sqrt(square));
        CHECK_OK(model_state_download(s, again, &err), err);
        for (size_t i = 0; i < w->n_tensors; i++) {
            /* Without a rotation a key's bias adds the same to every score of a row: no gradient but rounding.
             */
            if (w->tensor[i].kind == PARAM_BK && w->tensor[i].chain >= frozen) continue;
            CHECK(run_same_tensor(w, again, i) == (w->tensor[i].chain < frozen));
        }
    }
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w), model_weights_free(&got), model_weights_free(&again), model_weights_free(&want);
}

static void parts_make_the_whole_step(void) {
    for (size_t i = 0; i < sizeof run_machines / sizeof *run_machines; i++) {
        ops_machine *m = test_machine(run_machines[i]);
        for (size_t k = 0; m && k < sizeof kinds / sizeof *kinds; k++)
            for (uint32_t frozen = 0; frozen < 2; frozen++) {
                int bad = test_bad_;
                one_kind(m, &kinds[k], frozen, i ? 1e-4 : 1e-6);
                if (test_bad_ > bad)
                    printf("#   on %s: %s, %u frozen\n", run_machines[i], kinds[k].what, frozen);
            }
        ops_close(&m);
    }
}

/* A step needs a target somewhere, a micro-batch does not. */
static void a_step_without_a_target_is_refused(void) {
    colm_err err = {0};
    uint32_t tokens[ROWS] = {0}, targets[ROWS];
    graph_report r = {0};
    ops_machine *m = test_machine("reference");
    model_weights *w = weights_of(&kinds[0]);
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params p = {.B = PART, .T = LEN, .train = true};
    for (uint32_t i = 0; i < ROWS; i++) targets[i] = ABI_NO_TARGET;
    if (CHECK_OK(model_state_create(m, w, 0, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &p, &g, &err), err)) {
        CHECK(model_graph_gradients(g, tokens, targets, &r, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, "without a single target");
        CHECK_OK(model_graph_accumulate(g, tokens, targets, 7, 0, &r, &err), err);
        CHECK(r.loss == 0);
    }
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w);
    ops_close(&m);
}

int main(void) {
    TEST(parts_make_the_whole_step);
    TEST(a_step_without_a_target_is_refused);
    return test_end();
}
