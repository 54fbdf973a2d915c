/* Independence and determinism: a row's result depends on that row alone, the same work gives the same bits,
 * and what pads a matrix never counts. */
#include "engine/tensor/half.h"
#include "tests/model/runs.h"

#define LEN 13

/* ids and targets of `rows` rows in one block: free() it. */
static uint32_t *ids_of(uint64_t seed, uint32_t vocab, uint32_t rows) {
    uint32_t *ids = calloc(2 * (size_t)rows, sizeof *ids);
    if (!ids) abort();
    test_tokens(seed, vocab, rows, ids, ids + rows);
    return ids;
}

/* One sequence scored alone, and as row `at` of B sequences of length T whose other tokens are noise. */
static void packed(ops_machine *m, const model_weights *w, const run_scores *alone, const uint32_t *ids,
                   uint32_t B, uint32_t T, uint32_t at) {
    uint32_t *all = ids_of(B * 100 + T, w->config.vocab, B * T);
    memcpy(all + at * T, ids, LEN * sizeof *ids);
    memcpy(all + B * T + at * T, ids + LEN, LEN * sizeof *ids);
    for (uint32_t r = 0; r < B * T; r += 3) /* rows without a target disturb nobody either */
        if (r / T != at) all[B * T + r] = ABI_NO_TARGET;
    run_scores s = run_score(m, w, B, T, all, all + B * T);
    for (uint32_t i = 0; i < w->config.n_chains; i++) {
        if (!CHECK(run_same_rows(alone, i, 0, &s, i, at * T, LEN)))
            printf("#   scale %u, sequence %u of %u x %u\n", i + 1, at, B, T);
        for (uint32_t r = 0; r < B * T; r++)
            if (all[B * T + r] == ABI_NO_TARGET) CHECK(s.nll[i * B * T + r] == 0 && s.top[i * B * T + r] == 0);
    }
    run_scores_free(&s);
    free(all);
}

static void independence(ops_machine *m, const run_shape *shape) {
    static const struct {
        uint32_t B, T, at;
    } place[] = {{3, LEN, 0}, {3, LEN, 2}, {16, LEN, 7}, {1, 16, 0}, {1, 32, 0}, {1, 40, 0}, {5, 40, 3}};
    model_weights *w = run_weights(shape);
    uint32_t *ids = ids_of(21, shape->vocab, LEN);
    run_scores alone = run_score(m, w, 1, LEN, ids, ids + LEN);
    for (size_t i = 0; i < sizeof place / sizeof *place; i++)
        packed(m, w, &alone, ids, place[i].B, place[i].T, place[i].at);
    /* Its first token alone: a sequence of one. */
    uint32_t one[2] = {ids[0], ids[LEN]};
    run_scores first = run_score(m, w, 1, 1, one, one + 1);
    for (uint32_t i = 0; i < shape->n_chains; i++) CHECK(run_same_rows(&alone, i, 0, &first, i, 0, 1));
    run_scores_free(&first);
    run_scores_free(&alone);
    free(ids);
    model_weights_free(&w);
}

static void check_same(const model_weights *a, const model_weights *b, const char *what) {
    for (size_t i = 0; i < a->n_tensors; i++)
        if (!CHECK(run_same_tensor(a, b, i))) printf("#   %s: %s\n", what, a->tensor[i].name);
}

/* One graph run again after other tokens, and a graph made anew. */
static void repeats(ops_machine *m, const run_shape *shape) {
    enum { ROWS = 3 * LEN };
    colm_err err = {0};
    graph_params gp = {.B = 3, .T = LEN, .train = true};
    graph_report first = {0}, again = {0};
    model_weights *w = run_weights(shape), *g2 = run_copy(w);
    uint32_t *ids = ids_of(22, shape->vocab, ROWS), *other = ids_of(23, shape->vocab, ROWS);
    model_weights *g1 = run_gradients(m, w, 0, gp, ids, ids + ROWS, &first);
    model_state *s = NULL;
    model_graph *g = NULL;
    if (CHECK_OK(run_state(m, w, 0, &s, &err), err) && CHECK_OK(model_graph_create(s, &gp, &g, &err), err))
        for (int i = 0; i < 3; i++) {
            CHECK_OK(model_graph_gradients(g, other, other + ROWS, &again, &err), err);
            CHECK(again.loss != first.loss);
            CHECK_OK(model_graph_gradients(g, ids, ids + ROWS, &again, &err), err);
            CHECK_NEAR(again.loss, first.loss, 0);
            CHECK_OK(model_state_download_grads(s, g2, &err), err);
            check_same(g1, g2, "run again");
        }
    model_graph_free(&g);
    model_state_free(&s);
    free(ids), free(other);
    model_weights_free(&w), model_weights_free(&g1), model_weights_free(&g2);
}

/* 200 rows of logits at once, and 64 at a time with a shorter last slice. */
static void slices(ops_machine *m, const run_shape *shape) {
    enum { ROWS = 5 * 40 };
    graph_report whole, sliced;
    model_weights *w = run_weights(shape);
    uint32_t *ids = ids_of(24, shape->vocab, ROWS);
    for (uint32_t frozen = 0; frozen < shape->n_chains; frozen++) {
        graph_params gp = {.B = 5, .T = 40};
        model_weights *a = run_gradients(m, w, frozen, gp, ids, ids + ROWS, &whole);
        gp.head_rows = 64;
        model_weights *b = run_gradients(m, w, frozen, gp, ids, ids + ROWS, &sliced);
        CHECK_NEAR(sliced.loss, whole.loss, 0);
        check_same(a, b, "in slices");
        model_weights_free(&a), model_weights_free(&b);
    }
    free(ids);
    model_weights_free(&w);
}

/* Few tokens that come often: their gradients against the reference's doubles, those of absent ones zero. */
static void embeddings(ops_machine *m, const run_shape *shape) {
    enum { ROWS = 3 * 37 };
    colm_err err = {0};
    ops_machine *reference = NULL;
    graph_params gp = {.B = 3, .T = 37};
    graph_report report;
    model_weights *w = run_weights(shape);
    uint32_t *ids = ids_of(25, 5, ROWS);
    for (uint32_t r = 0; r < ROWS; r++) ids[r] = ids[r] * (shape->vocab - 1) / 4;
    for (uint32_t r = 0; r < ROWS; r += 7) ids[ROWS + r] = shape->vocab - 1;
    CHECK_OK(ops_open_ref(&reference, &err), err);
    model_weights *g = run_gradients(m, w, 0, gp, ids, ids + ROWS, &report),
                  *want = run_gradients(reference, w, 0, gp, ids, ids + ROWS, &report);
    double all = 0;
    for (size_t k = 0; k < want->n_elems; k++) all += (double)want->data[k] * want->data[k];
    for (size_t i = 0; i < g->n_tensors; i++) {
        const model_tensor *t = &g->tensor[i];
        double error = 0, square = 0;
        for (size_t k = 0; k < run_elems(t); k++) {
            double x = want->data[t->off + k], d = g->data[t->off + k] - x;
            error += d * d, square += x * x;
        }
        /* A gain of one column cancels almost to nothing: what is left is measured against the whole. */
        if (!CHECK(square > 0 && error <= 1e-8 * square + 1e-16 * all))
            printf("#   %s: normalized error %g of %g\n", t->name, error / square, square);
        for (uint32_t v = 0; v < t->rows && t->kind == PARAM_EMBED; v++) {
            bool there = false, zero = true;
            for (uint32_t r = 0; r < ROWS; r++) there |= ids[r] == v;
            for (uint32_t c = 0; c < t->cols; c++) zero &= g->data[t->off + (size_t)v * t->cols + c] == 0;
            CHECK(zero == !there);
        }
    }
    free(ids);
    model_weights_free(&w), model_weights_free(&g), model_weights_free(&want);
    ops_close(&reference);
}

/* Logits that are all far below zero, where a pad's zero would win and outweigh every one. Neighbours 2k and
 * 2k+1 tie. */
static model_weights *low(const run_shape *shape) {
    model_weights *w = run_weights(shape);
    for (size_t i = 0; i < w->n_tensors; i++) {
        const model_tensor *t = &w->tensor[i];
        for (size_t k = 0; k < run_elems(t); k++) {
            size_t v = k / t->cols;
            w->data[t->off + k] = t->kind == PARAM_HEAD    ? -2 - (float)(v / 2 * 5 % t->rows) / (float)t->rows
                                  : t->kind == PARAM_EMBED ? 1 + (float)(v % 3)
                                                           : run_is_gain(t);
        }
    }
    return w;
}

static void vocabulary(ops_machine *m, const run_shape *shape) {
    static const uint32_t sizes[] = {1, 7, 8, 9, 50, 257};
    enum { ROWS = 4 * LEN };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        run_shape sh = *shape;
        uint32_t V = sh.vocab = sizes[k];
        model_weights *w = low(&sh);
        uint32_t *ids = ids_of(26, V, ROWS);
        run_scores s = run_score(m, w, 4, LEN, ids, ids + ROWS);
        for (size_t r = 0; r < (size_t)ROWS * sh.n_chains; r++) {
            const float *x = s.logits + r * V;
            uint32_t target = ids[ROWS + r % ROWS], first = 0;
            double sum = 0;
            for (uint32_t v = 0; v < V; v++) {
                CHECK(x[v] < -10);
                sum += exp((double)x[v] - x[target]);
                if (x[v] > x[first]) first = v;
            }
            CHECK_NEAR(s.nll[r], log(sum), 1e-5 * (1 + log(sum)));
            CHECK(s.top[r] == (first == target));
        }
        /* Over all tokens the gradients of a softmax cancel, in every column of the head. */
        graph_report report;
        graph_params gp = {.B = 4, .T = LEN};
        model_weights *g = run_gradients(m, w, 0, gp, ids, ids + ROWS, &report);
        for (size_t i = 0; i < g->n_tensors; i++) {
            const model_tensor *t = &g->tensor[i];
            for (uint32_t c = 0; c < t->cols && t->kind == PARAM_HEAD; c++) {
                double sum = 0, largest = 0;
                for (uint32_t v = 0; v < V; v++) {
                    double x = g->data[t->off + (size_t)v * t->cols + c];
                    sum += x, largest = run_worse(largest, fabs(x));
                }
                CHECK(fabs(sum) <= 1e-5 * largest && (largest > 0) == (V > 1));
            }
        }
        free(ids);
        run_scores_free(&s);
        model_weights_free(&g), model_weights_free(&w);
    }
}

/* Tokens outside the vocabulary stop before anything runs. */
static void strangers(ops_machine *m, const run_shape *shape) {
    colm_err err = {0};
    uint32_t tokens[4] = {0}, targets[4] = {0}, top[16];
    float nll[16];
    model_weights *w = run_weights(shape);
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params gp = {.B = 1, .T = 4};
    CHECK_OK(run_state(m, w, shape->n_chains, &s, &err), err);
    if (CHECK_OK(model_graph_create(s, &gp, &g, &err), err)) {
        targets[1] = ABI_NO_TARGET;
        CHECK_OK(model_graph_score(g, tokens, targets, nll, top, &err), err);
        tokens[2] = shape->vocab;
        CHECK(model_graph_score(g, tokens, targets, nll, top, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, "row 2");
        tokens[2] = 0, targets[3] = shape->vocab;
        CHECK(model_graph_score(g, tokens, targets, nll, top, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, "row 3");
    }
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w);
}

/* Columns that chain j gives to a matrix of t's kind: heads for O, the feed-forward's for W2, else its width.
 */
static uint32_t columns(const model_config *c, const model_tensor *t, uint32_t j) {
    const model_chain *ch = &c->chain[j];
    return t->kind == PARAM_O ? ch->heads * c->head_dim : t->kind == PARAM_W2 ? ch->ffn : ch->width;
}

/* Reads a state's buffer that starts at element `from` of the parameters and clears all that belongs to a
 * tensor's true shape: what is left must be zero. */
static void check_pads(ops_machine *m, const model_state *s, ops_buf buf, uint64_t from, const char *what) {
    colm_err err = {0};
    uint64_t n = s->end - from, left = 0;
    float *x = calloc(n, sizeof *x);
    if (!x) abort();
    CHECK_OK(ops_read(m, buf, 0, x, n, &err), err);
    for (size_t i = 0; i < s->n_tensors; i++) {
        const model_tensor *t = &s->shape[i];
        const state_tensor *p = &s->tensor[i];
        if (p->off < from) continue;
        for (uint32_t r = 0; r < t->rows; r++) {
            float *row = x + p->off - from + (uint64_t)r * p->ld;
            for (uint32_t j = run_is_own(t) ? t->chain : 0; j <= t->chain; j++) {
                memset(row, 0, columns(&s->config, t, j) * sizeof *row);
                row += ops_pad(columns(&s->config, t, j));
            }
        }
    }
    for (uint64_t k = 0; k < n; k++) left += x[k] != 0;
    if (!CHECK(left == 0)) printf("#   %s: %llu pads are not zero\n", what, (unsigned long long)left);
    free(x);
}

/* The working copy of every parameter, pads too, is what its master rounds to. */
static void check_rounded(ops_machine *m, const model_state *s) {
    colm_err err = {0};
    float *x = calloc(s->end, sizeof *x);
    uint16_t *h = calloc(s->end, sizeof *h);
    uint64_t wrong = 0;
    if (!x || !h) abort();
    CHECK_OK(ops_read(m, s->params, 0, x, s->end, &err), err);
    CHECK_OK(ops_read(m, s->work, 0, h, s->end, &err), err);
    for (uint64_t k = 0; k < s->end; k++)
        wrong += h[k] != (s->precision == PRECISION_BF16 ? tensor_to_bf16(x[k]) : tensor_to_f16(x[k]));
    if (!CHECK(wrong == 0))
        printf("#   %llu working weights are not their masters\n", (unsigned long long)wrong);
    free(x), free(h);
}

static void pads(ops_machine *m, const run_shape *shape) {
    enum { ROWS = 3 * LEN };
    for (uint32_t frozen = 0; frozen < shape->n_chains; frozen++) {
        colm_err err = {0};
        model_weights *w = run_weights(shape);
        model_state *s = NULL;
        model_graph *g = NULL;
        graph_params gp = {.B = 3, .T = LEN, .train = true};
        graph_report report;
        CHECK_OK(run_state(m, w, frozen, &s, &err), err);
        if (CHECK_OK(model_graph_create(s, &gp, &g, &err), err)) {
            for (uint64_t t = 1; t <= 3; t++) {
                uint32_t *ids = ids_of(30 + t, shape->vocab, ROWS);
                graph_update u = {1e-2, 0.9, 0.95, 1e-8, 0.1, 1, t};
                CHECK_OK(model_graph_train(g, ids, ids + ROWS, &u, &report, &err), err);
                free(ids);
            }
            check_pads(m, s, s->params, 0, "parameters");
            if (s->work) check_rounded(m, s);
            check_pads(m, s, s->grads, s->trained_at, "gradients");
            check_pads(m, s, s->moment1, s->trained_at, "first moments");
            check_pads(m, s, s->moment2, s->trained_at, "second moments");
        }
        model_graph_free(&g);
        model_state_free(&s);
        model_weights_free(&w);
    }
}

static void a_row_does_not_depend_on_its_batch(void) {
    run_in_all(independence);
}
static void the_same_work_gives_the_same_bits(void) {
    run_in_all(repeats);
}
static void slices_of_logits_change_no_bit(void) {
    run_everywhere(slices);
}
static void absent_tokens_have_no_gradient(void) {
    run_everywhere(embeddings);
}
static void padded_vocabulary_never_counts(void) {
    run_everywhere(vocabulary);
}
static void tokens_outside_the_vocabulary_are_refused(void) {
    run_everywhere(strangers);
}
static void pads_stay_zero(void) {
    run_in_all(pads);
}

int main(void) {
    TEST(a_row_does_not_depend_on_its_batch);
    TEST(the_same_work_gives_the_same_bits);
    TEST(slices_of_logits_change_no_bit);
    TEST(absent_tokens_have_no_gradient);
    TEST(padded_vocabulary_never_counts);
    TEST(tokens_outside_the_vocabulary_are_refused);
    TEST(pads_stay_zero);
    return test_end();
}
