/* The scorer: a request's score is its own, whatever stands beside it, and is what the graph says. */
#include "engine/eval/scorer.h"

#include "tests/model/models.h"

#define REQUESTS 23
#define SCALES 3
#define LONGEST 41 /* one more than the model reads */

static const char *const machines[] = {"reference", "cpu", "gpu", "portable"};

static model_weights *weights(void) {
    colm_err err = {0};
    model_config c = test_config(SCALES, (model_chain[]){{12, 2, 1, 20}, {1, 1, 1, 3}, {9, 3, 1, 17}});
    model_weights *w = NULL;
    c.context = 40;
    if (CHECK_OK(model_weights_create(&c, &w, &err), err)) test_shake(w, 5);
    return w;
}

typedef struct {
    uint32_t token[REQUESTS][LONGEST];
    eval_request req[REQUESTS];
} requests;

/* Of all lengths: the shortest that can be asked, the longest, and those at the edges of the batches' lengths.
 */
static void make(requests *r) {
    static const uint32_t edge[][2] = {{1, 1}, {1, 40}, {40, 1}, {32, 1}, {31, 1}, {30, 4}, {20, 21}};
    rng_stream s = rng_open(8, "requests");
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t n = i < 7 ? edge[i][0] : 1 + (uint32_t)rng_below(&s, 2 * i, 30),
                 k = i < 7 ? edge[i][1] : 1 + (uint32_t)rng_below(&s, 2 * i + 1, 10);
        r->req[i] = (eval_request){r->token[i], n, k};
        for (uint32_t p = 0; p < LONGEST; p++)
            r->token[i][p] = (uint32_t)rng_below(&s, 1000 + i * LONGEST + p, 50);
    }
}

static bool same(const eval_result *a, const eval_result *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(a[i].logprob == b[i].logprob) || a[i].greedy != b[i].greedy) return false;
    return true;
}

/* All requests by a scorer of its own. */
static void score(ops_machine *m, const model_weights *w, uint32_t rows, const eval_request *req, size_t n,
                  eval_result *ret) {
    colm_err err = {0};
    scorer *s = NULL;
    if (!CHECK_OK(scorer_open(m, w, PRECISION_F32, rows, &s, &err), err)) return;
    const eval_model *e = scorer_model(s);
    CHECK(e->n_scales == w->config.n_chains && e->max_length == 40);
    CHECK_OK(e->score(e->user, req, n, ret, &err), err);
    uint64_t tokens = 0, flops = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t len = req[i].n_context + req[i].n_cont - 1;
        tokens += len, flops += model_flops_forward(&w->config, w->config.n_chains, len);
    }
    CHECK(scorer_tokens(s) == tokens && scorer_flops(s) == flops);
    scorer_close(&s);
    CHECK(ops_bytes(m, NULL) == 0);
}

/* One request as a graph of its own length: the sum of what the rows say. */
static void direct(ops_machine *m, const model_weights *w, const eval_request *q, eval_result *ret) {
    colm_err err = {0};
    uint32_t T = q->n_context + q->n_cont - 1, targets[LONGEST], top[SCALES * LONGEST];
    float nll[SCALES * LONGEST];
    model_state *s = NULL;
    model_graph *g = NULL;
    graph_params gp = {.B = 1, .T = T};
    for (uint32_t p = 0; p < T; p++) targets[p] = q->token[p + 1];
    if (CHECK_OK(model_state_create(m, w, w->config.n_chains, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &gp, &g, &err), err) &&
        CHECK_OK(model_graph_score(g, q->token, targets, nll, top, &err), err))
        for (uint32_t c = 0; c < w->config.n_chains; c++) {
            ret[c] = (eval_result){0, true};
            for (uint32_t p = q->n_context - 1; p < T; p++) {
                ret[c].logprob -= nll[c * T + p];
                ret[c].greedy &= top[c * T + p] != 0;
            }
        }
    model_graph_free(&g);
    model_state_free(&s);
}

static void scores_are_the_graphs(void) {
    requests r;
    make(&r);
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        model_weights *w = weights();
        eval_result got[REQUESTS * SCALES], want[SCALES];
        /* The first choice of the model, so that something is greedy: request 0 is one token after one. */
        score(m, w, 0, r.req, REQUESTS, got);
        for (uint32_t v = 0; v < 50 && !got[SCALES - 1].greedy; v++) {
            r.token[0][1] = v;
            score(m, w, 0, r.req, REQUESTS, got);
        }
        CHECK(got[SCALES - 1].greedy);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            direct(m, w, &r.req[i], want);
            if (!CHECK(same(want, got + i * SCALES, SCALES)))
                printf("#   %s: request %u of %u + %u tokens\n", machines[k], i, r.req[i].n_context,
                       r.req[i].n_cont);
            CHECK(got[i * SCALES].logprob < 0 && got[i * SCALES].logprob != got[i * SCALES + 2].logprob);
        }
        model_weights_free(&w);
        ops_close(&m);
    }
}

static void neither_order_nor_batch_changes_a_score(void) {
    requests r;
    make(&r);
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        model_weights *w = weights();
        eval_result first[REQUESTS * SCALES], other[REQUESTS * SCALES];
        score(m, w, 0, r.req, REQUESTS, first);
        static const uint32_t rows[] = {1, 100, 333};
        for (size_t i = 0; i < 3; i++) {
            score(m, w, rows[i], r.req, REQUESTS, other);
            CHECK(same(first, other, REQUESTS * SCALES));
        }
        eval_request back[REQUESTS];
        for (uint32_t i = 0; i < REQUESTS; i++) back[i] = r.req[(i * 7 + 3) % REQUESTS];
        score(m, w, 200, back, REQUESTS, other);
        for (uint32_t i = 0; i < REQUESTS; i++)
            CHECK(same(first + (i * 7 + 3) % REQUESTS * SCALES, other + i * SCALES, SCALES));
        for (uint32_t i = 0; i < REQUESTS; i += 5) {
            score(m, w, 0, &r.req[i], 1, other);
            CHECK(same(first + i * SCALES, other, SCALES));
        }
        model_weights_free(&w);
        ops_close(&m);
    }
}

/* A scale as a model of its own scores as it does inside. */
static void a_scale_alone_scores_the_same(void) {
    requests r;
    make(&r);
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        model_weights *w = weights();
        eval_result whole[REQUESTS * SCALES], part[REQUESTS * SCALES];
        score(m, w, 0, r.req, REQUESTS, whole);
        for (uint32_t n = 1; n < SCALES; n++) {
            colm_err err = {0};
            model_weights *alone = NULL;
            if (!CHECK_OK(model_weights_prefix(w, n, &alone, &err), err)) continue;
            score(m, alone, 0, r.req, REQUESTS, part);
            for (uint32_t i = 0; i < REQUESTS; i++) CHECK(same(whole + i * SCALES, part + i * n, n));
            model_weights_free(&alone);
        }
        model_weights_free(&w);
        ops_close(&m);
    }
}

static void requests_that_do_not_fit_are_refused(void) {
    static const uint32_t bad[][2] = {{0, 3}, {3, 0}, {40, 2}, {1, 41}};
    colm_err err = {0};
    requests r;
    make(&r);
    ops_machine *m = test_machine("reference");
    model_weights *w = weights();
    scorer *s = NULL;
    eval_result got[2 * SCALES];
    CHECK_OK(scorer_open(m, w, PRECISION_F32, 0, &s, &err), err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        eval_request q[2] = {r.req[0], {r.token[1], bad[i][0], bad[i][1]}};
        CHECK(scorer_model(s)->score(scorer_model(s)->user, q, 2, got, &err) == COLM_E_BUG);
        CHECK_HAS(err.text, "request 1");
    }
    eval_request none = r.req[0];
    CHECK_OK(scorer_model(s)->score(scorer_model(s)->user, &none, 0, got, &err), err);
    scorer_close(&s);
    scorer_close(&s);
    model_weights_free(&w);
    ops_close(&m);
}

int main(void) {
    TEST(scores_are_the_graphs);
    TEST(neither_order_nor_batch_changes_a_score);
    TEST(a_scale_alone_scores_the_same);
    TEST(requests_that_do_not_fit_are_refused);
    return test_end();
}
