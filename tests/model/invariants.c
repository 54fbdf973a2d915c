/* Causality, growth, freezing: what makes a model a chain of models, bit for bit, on every machine. */
#include "tests/model/runs.h"

#define SEQS 3
#define LEN 13
#define ROWS (SEQS * LEN)

typedef struct {
    uint32_t tokens[ROWS], targets[ROWS];
} batch;

static batch batch_of(const model_weights *w, uint64_t seed) {
    batch b;
    test_tokens(seed, w->config.vocab, ROWS, b.tokens, b.targets);
    return b;
}

static const graph_params shape_of_batch = {.B = SEQS, .T = LEN};

/* Replaces every parameter of chains from+1 .. by one value, or by noise a hundred times too large. */
static void ruin(model_weights *w, uint32_t from, double with) {
    rng_stream s = rng_open(99, "ruin");
    for (size_t i = 0; i < w->n_tensors; i++) {
        const model_tensor *t = &w->tensor[i];
        for (size_t k = 0; k < run_elems(t) && t->chain >= from; k++)
            w->data[t->off + k] = (float)(with != 0 ? with : 100 * rng_normal(&s, t->off + k));
    }
}

static void causality(ops_machine *m, const run_shape *shape) {
    static const double ruins[] = {0, NAN, INFINITY, 3e38};
    model_weights *w = run_weights(shape);
    batch b = batch_of(w, 1);
    run_scores whole = run_score(m, w, SEQS, LEN, b.tokens, b.targets);
    for (uint32_t i = 1; i < shape->n_chains; i++)
        for (size_t k = 0; k < sizeof ruins / sizeof *ruins; k++) {
            model_weights *r = run_copy(w);
            ruin(r, i, ruins[k]);
            run_scores other = run_score(m, r, SEQS, LEN, b.tokens, b.targets);
            for (uint32_t s = 0; s < i; s++)
                if (!CHECK(run_same_rows(&whole, s, 0, &other, s, 0, ROWS)))
                    printf("#   scale %u, chains from %u ruined by %g\n", s + 1, i + 1, ruins[k]);
            CHECK(!run_same_rows(&whole, i, 0, &other, i, 0, ROWS)); /* the ruin does reach its own scale */
            run_scores_free(&other);
            model_weights_free(&r);
        }
    run_scores_free(&whole);
    model_weights_free(&w);
}

/* Losses of the rows that a training graph sees. */
static void training_losses(ops_machine *m, const model_weights *w, uint32_t frozen, const batch *b,
                            float *ret) {
    colm_err err = {0};
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params gp = {.B = SEQS, .T = LEN, .train = true};
    graph_report report = {0};
    double sum = 0;
    if (CHECK_OK(run_state(m, w, frozen, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &gp, &g, &err), err) &&
        CHECK_OK(model_graph_gradients(g, b->tokens, b->targets, &report, &err), err))
        CHECK_OK(ops_read(m, model_graph_nll(g), 0, ret, ROWS, &err), err);
    for (size_t r = 0; r < ROWS; r++) sum += ret[r];
    CHECK_NEAR(report.loss, sum / ROWS, 0);
    model_graph_free(&g);
    model_state_free(&s);
}

static void scales_alone(ops_machine *m, const run_shape *shape) {
    model_weights *w = run_weights(shape);
    batch b = batch_of(w, 2);
    float nll[ROWS];
    run_scores whole = run_score(m, w, SEQS, LEN, b.tokens, b.targets);
    for (uint32_t i = 1; i <= shape->n_chains; i++) {
        colm_err err = {0};
        model_weights *alone = NULL;
        if (!CHECK_OK(model_weights_prefix(w, i, &alone, &err), err)) continue;
        run_scores part = run_score(m, alone, SEQS, LEN, b.tokens, b.targets);
        for (uint32_t s = 0; s < i; s++) CHECK(run_same_rows(&whole, s, 0, &part, s, 0, ROWS));
        for (uint32_t frozen = 0; frozen < i; frozen++) {
            training_losses(m, alone, frozen, &b, nll);
            CHECK(memcmp(nll, whole.nll + (size_t)(i - 1) * ROWS, sizeof nll) == 0);
        }
        run_scores_free(&part);
        model_weights_free(&alone);
    }
    run_scores_free(&whole);
    model_weights_free(&w);
}

/* Grows a shape's first `old` chains to all of them. */
static model_weights *grown(const run_shape *shape, uint32_t old, model_weights **ret_old) {
    colm_err err = {0};
    model_weights *all = run_weights(shape), *big = NULL;
    CHECK_OK(model_weights_prefix(all, old, ret_old, &err), err);
    CHECK_OK(model_weights_grow(*ret_old, &all->config, 5, &big, &err), err);
    model_weights_free(&all);
    return big;
}

static void growth(ops_machine *m, const run_shape *shape) {
    for (uint32_t old = 1; old < shape->n_chains; old++) {
        graph_report report;
        model_weights *small = NULL, *big = grown(shape, old, &small);
        batch b = batch_of(big, 3);
        for (size_t i = 0; i < small->n_tensors; i++) {
            CHECK_STR(big->tensor[i].name, small->tensor[i].name);
            CHECK(run_same_tensor(small, big, i));
        }
        run_scores before = run_score(m, small, SEQS, LEN, b.tokens, b.targets),
                   after = run_score(m, big, SEQS, LEN, b.tokens, b.targets);
        for (uint32_t s = 0; s < shape->n_chains; s++)
            CHECK(run_same_rows(&before, s < old ? s : old - 1, 0, &after, s, 0, ROWS));
        for (uint32_t frozen = 0; frozen <= old; frozen += old) {
            model_weights *g = run_gradients(m, big, frozen, shape_of_batch, b.tokens, b.targets, &report);
            for (size_t i = small->n_tensors; i < big->n_tensors; i++) {
                bool head = big->tensor[i].kind == PARAM_HEAD;
                if (!CHECK(run_all_zero(g, i) == !head))
                    printf("#   %u of %u frozen: %s\n", frozen, shape->n_chains, big->tensor[i].name);
            }
            model_weights_free(&g);
        }
        run_scores_free(&before), run_scores_free(&after);
        model_weights_free(&small), model_weights_free(&big);
    }
}

static graph_update update_of(uint64_t t) {
    return (graph_update){
        .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.5, .clip = 0.3, .t = t};
}

/* After a step of the head alone everything that trains has a gradient, and nothing else moved. */
static void first_steps(ops_machine *m, const run_shape *shape) {
    for (uint32_t old = 1; old < shape->n_chains; old++) {
        colm_err err = {0};
        model_weights *small = NULL, *big = grown(shape, old, &small), *end = run_copy(big);
        model_state *s = NULL;
        model_graph *g = NULL;
        graph_params gp = {.B = SEQS, .T = LEN, .train = true};
        graph_report report = {0};
        if (!CHECK_OK(run_state(m, big, old, &s, &err), err) ||
            !CHECK_OK(model_graph_create(s, &gp, &g, &err), err))
            goto next;
        model_graph_scale_loss(g, run_loss_scale());
        for (uint64_t t = 1; t <= 4; t++) {
            batch b = batch_of(big, t);
            graph_update u = update_of(t);
            CHECK_OK(model_graph_train(g, b.tokens, b.targets, &u, &report, &err), err);
            CHECK(isfinite(report.loss) && report.grad_norm > 0);
            colm_status st = model_state_check_trained(s, true, &err);
            CHECK(st == (t == 1 ? COLM_E_CHECK : COLM_OK));
            if (t == 1) CHECK_HAS(err.text, "never had a gradient");
        }
        CHECK_OK(model_state_download(s, end, &err), err);
        for (size_t i = 0; i < big->n_tensors; i++)
            if (!CHECK(run_same_tensor(big, end, i) == (i < small->n_tensors)))
                printf("#   %s\n", big->tensor[i].name);
        uint64_t trained = 0;
        for (size_t i = 0; i < s->n_tensors; i++) {
            CHECK(s->tensor[i].trained == (i >= small->n_tensors));
            if (s->tensor[i].trained) trained += s->tensor[i].len;
        }
        CHECK(ops_bytes(m, "gradients") == 4 * trained);
        CHECK(ops_bytes(m, "optimizer") == 8 * trained);
    next:
        model_graph_free(&g);
        model_state_free(&s);
        CHECK(ops_bytes(m, NULL) == 0);
        model_weights_free(&small), model_weights_free(&big), model_weights_free(&end);
    }
}

static void all_frozen(ops_machine *m, const run_shape *shape) {
    colm_err err = {0};
    model_weights *w = run_weights(shape);
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params gp = {.B = SEQS, .T = LEN, .train = true};
    if (CHECK_OK(run_state(m, w, shape->n_chains, &s, &err), err)) {
        CHECK(ops_bytes(m, "gradients") == 0 && ops_bytes(m, "optimizer") == 0);
        CHECK(model_graph_create(s, &gp, &g, &err) == COLM_E_INPUT && !g);
    }
    model_state_free(&s);
    model_weights_free(&w);
}

/* The reported norm is that of the trained gradients alone, and is what clipping divides by: the first moment
 * after one step is (1 - beta1) g clip / norm. */
static void clipping(ops_machine *m, const run_shape *shape) {
    for (uint32_t frozen = 0; frozen < shape->n_chains; frozen++) {
        colm_err err = {0};
        model_weights *w = run_weights(shape), *moment = run_copy(w), *g = NULL;
        batch b = batch_of(w, 4);
        model_state *s = NULL;
        model_graph *graph = NULL;
        graph_params gp = {.B = SEQS, .T = LEN, .train = true};
        graph_report report = {0}, plain;
        graph_update u = update_of(1);
        double square = 0, worst = 0;
        g = run_gradients(m, w, frozen, gp, b.tokens, b.targets, &plain);
        for (size_t k = 0; k < g->n_elems; k++) square += (double)g->data[k] * g->data[k];
        if (CHECK_OK(run_state(m, w, frozen, &s, &err), err) &&
            CHECK_OK(model_graph_create(s, &gp, &graph, &err), err) &&
            CHECK_OK(model_graph_train(graph, b.tokens, b.targets, &u, &report, &err), err)) {
            CHECK_NEAR(report.grad_norm, sqrt(square), 1e-5 * sqrt(square));
            CHECK(report.grad_norm > u.clip); /* else nothing is clipped */
            float *m1 = calloc(s->end - s->trained_at, sizeof *m1);
            CHECK_OK(ops_read(m, s->moment1, 0, m1, s->end - s->trained_at, &err), err);
            for (size_t i = 0; i < s->n_tensors; i++) {
                const model_tensor *t = &s->shape[i];
                if (!s->tensor[i].trained || !run_is_own(t)) continue;
                for (size_t r = 0; r < t->rows; r++)
                    for (size_t c = 0; c < t->cols; c++) {
                        double want = 0.1 * g->data[t->off + r * t->cols + c] * u.clip / sqrt(square);
                        double got = m1[s->tensor[i].off - s->trained_at + r * s->tensor[i].ld + c];
                        worst = run_worse(worst, fabs(got - want));
                    }
            }
            CHECK(worst <= 1e-5 * u.clip);
            free(m1);
        }
        model_graph_free(&graph);
        model_state_free(&s);
        model_weights_free(&w), model_weights_free(&moment), model_weights_free(&g);
    }
}

static void frozen_or_not(ops_machine *m, const run_shape *shape) {
    model_weights *w = run_weights(shape);
    batch b = batch_of(w, 6);
    graph_report all, some;
    model_weights *free_ = run_gradients(m, w, 0, shape_of_batch, b.tokens, b.targets, &all);
    for (size_t i = 0; i < w->n_tensors; i++) CHECK(!run_all_zero(free_, i));
    for (uint32_t frozen = 1; frozen < shape->n_chains; frozen++) {
        model_weights *g = run_gradients(m, w, frozen, shape_of_batch, b.tokens, b.targets, &some);
        CHECK_NEAR(some.loss, all.loss, 0);
        for (size_t i = 0; i < w->n_tensors; i++)
            if (w->tensor[i].chain >= frozen && !CHECK(run_same_tensor(free_, g, i)))
                printf("#   %u frozen: gradient of %s\n", frozen, w->tensor[i].name);
        model_weights_free(&g);
    }
    model_weights_free(&free_);
    model_weights_free(&w);
}

static void later_parameters_never_reach_a_scale(void) {
    run_in_all(causality);
}
static void a_scale_alone_is_the_scale_inside(void) {
    run_in_all(scales_alone);
}
static void growing_changes_no_bit(void) {
    run_in_all(growth);
}
static void frozen_is_frozen_and_the_rest_trains(void) {
    run_in_all(first_steps);
}
static void nothing_to_train_is_refused(void) {
    run_everywhere(all_frozen);
}
static void clipping_sees_what_trains(void) {
    run_in_all(clipping);
}
static void gradients_do_not_depend_on_freezing(void) {
    run_in_all(frozen_or_not);
}

int main(void) {
    TEST(later_parameters_never_reach_a_scale);
    TEST(a_scale_alone_is_the_scale_inside);
    TEST(growing_changes_no_bit);
    TEST(frozen_is_frozen_and_the_rest_trains);
    TEST(nothing_to_train_is_refused);
    TEST(clipping_sees_what_trains);
    TEST(gradients_do_not_depend_on_freezing);
    return test_end();
}
