/* Growth of what only some families have: the old scales and the grown model's own logits keep every bit, and
 * from the second step on everything that trains has a gradient. */
#include "tests/model/runs.h"

#define SEQS 3
#define LEN 13
#define ROWS (SEQS * LEN)

typedef struct {
    const char *what;
    uint32_t old; /* chains before */
    bool tie;     /* the new chains */
    model_family before, after;
} growth;

static const growth growths[] = {
    {"tied new chains", 1, true, {0}, {0}},
    {"a tied chain after two", 2, true, {0}, {0}},
    {"separate heads", 1, false, {.head = HEAD_SEPARATE}, {.head = HEAD_SEPARATE}},
    {"separate heads after two", 2, false, {.head = HEAD_SEPARATE}, {.head = HEAD_SEPARATE}},
    {"one chain to CoLM-Air", 1, false, {0}, {.kv = KV_GROUPED}},
    {"tied to CoLM-Air", 1, true, {0}, {.kv = KV_GROUPED}},
    {"CoLM-Air, tiled", 2, false, {.kv = KV_TILED}, {.kv = KV_TILED}},
    {"GPT-2's kind",
     1,
     true,
     {.norm = NORM_LAYER,
      .ffn = FFN_GELU,
      .position = POSITION_LEARNED,
      .bias_qkv = true,
      .bias_o = true,
      .bias_ffn = true},
     {.norm = NORM_LAYER,
      .ffn = FFN_GELU,
      .position = POSITION_LEARNED,
      .bias_qkv = true,
      .bias_o = true,
      .bias_ffn = true}},
    {"Gemma 2's kind",
     1,
     true,
     {.norm = NORM_RMS_PLUS_ONE,
      .ffn = FFN_GEGLU,
      .post_norms = true,
      .attn_softcap = 5,
      .logit_softcap = 3,
      .window = 5,
      .window_every = 2},
     {.norm = NORM_RMS_PLUS_ONE,
      .ffn = FFN_GEGLU,
      .post_norms = true,
      .attn_softcap = 5,
      .logit_softcap = 3,
      .window = 5,
      .window_every = 2}},
    {"Qwen 3's kind", 1, false, {.qk_norm = true, .bias_qkv = true}, {.qk_norm = true, .bias_qkv = true}},
};

static model_config before(const growth *k) {
    model_config c = test_config(k->old, (model_chain[]){{12, 4, 2, 20}, {5, 2, 1, 9}});
    c.family = k->before;
    for (uint32_t i = 1; i < k->old && c.family.kv != KV_OWN; i++) c.chain[i].kv_heads = 0;
    return c;
}

/* Two chains more, the first as narrow as its norm allows. */
static model_config after(const growth *k) {
    model_config c = before(k);
    uint32_t kv = k->after.kv == KV_OWN, narrow = k->after.norm == NORM_LAYER ? 3 : 1;
    c.family = k->after;
    c.chain[c.n_chains++] = (model_chain){narrow, 1, kv, 3, k->tie, 0, 0};
    c.chain[c.n_chains++] = (model_chain){9, 3, kv, 17, k->tie, 0, 0};
    return c;
}

static void keeps_its_logits(ops_machine *m, const growth *k, const model_weights *small,
                             const model_weights *big) {
    uint32_t tokens[ROWS], targets[ROWS];
    test_tokens(3, small->config.vocab, ROWS, tokens, targets);
    run_scores a = run_score(m, small, SEQS, LEN, tokens, targets),
               b = run_score(m, big, SEQS, LEN, tokens, targets);
    for (uint32_t s = 0; s < big->config.n_chains; s++)
        CHECK(run_same_rows(&a, s < k->old ? s : k->old - 1, 0, &b, s, 0, ROWS));
    run_scores_free(&a), run_scores_free(&b);
}

/* Losses at every new scale, since a separate head has no other gradient. */
static void comes_alive(ops_machine *m, const growth *k, const model_weights *big) {
    colm_err err = {0};
    uint32_t tokens[ROWS], targets[ROWS];
    double lambda[MODEL_MAX_CHAINS] = {0};
    model_state *s = NULL;
    model_graph *g = NULL;
    model_weights *end = run_copy(big);
    graph_params gp = {.B = SEQS, .T = LEN, .train = true, .lambda = lambda};
    graph_report r = {0};
    for (uint32_t i = k->old; i < big->config.n_chains; i++) lambda[i] = 0.5;
    if (CHECK_OK(run_state(m, big, k->old, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &gp, &g, &err), err)) {
        model_graph_scale_loss(g, run_loss_scale());
        for (uint64_t t = 1; t <= 3; t++) {
            graph_update u = {1e-2, 0.9, 0.95, 1e-8, 0.1, 1, t};
            test_tokens(t, big->config.vocab, ROWS, tokens, targets);
            CHECK_OK(model_graph_train(g, tokens, targets, &u, &r, &err), err);
            CHECK(isfinite(r.loss) && r.grad_norm > 0);
        }
        CHECK_OK(model_state_check_trained(s, true, &err), err);
        CHECK_OK(model_state_download(s, end, &err), err);
        for (size_t i = 0; i < big->n_tensors; i++)
            if (!CHECK(run_same_tensor(big, end, i) == (big->tensor[i].chain < k->old)))
                printf("#   %s\n", big->tensor[i].name);
    }
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&end);
}

static void grow_all(void) {
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        ops_machine *m = test_machine(run_machines[i]);
        for (size_t n = 0; m && n < sizeof growths / sizeof *growths; n++) {
            const growth *k = &growths[n];
            int bad = test_bad_;
            colm_err err = {0};
            model_config from = before(k), to = after(k);
            model_weights *small = NULL, *big = NULL;
            CHECK_OK(model_weights_create(&from, &small, &err), err);
            test_shake(small, 7);
            if (CHECK_OK(model_weights_grow(small, &to, 5, &big, &err), err)) {
                keeps_its_logits(m, k, small, big);
                comes_alive(m, k, big);
            }
            model_weights_free(&small), model_weights_free(&big);
            if (test_bad_ > bad)
                printf("#   on %s: %s, %s\n", run_machines[i], k->what, model_precision_name[run_precision]);
        }
        ops_close(&m);
    }
}

static void families_grow(void) {
    for (run_precision = PRECISION_F32; run_precision <= PRECISION_BF16; run_precision++) grow_all();
    run_precision = PRECISION_F32;
}

/* Four heads over two key-value heads would read others. */
static void a_map_that_moves_heads_is_refused(void) {
    colm_err err = {0};
    growth k = {"", 1, false, {0}, {.kv = KV_TILED}};
    model_config from = before(&k), to = after(&k);
    model_weights *small = NULL, *big = NULL;
    CHECK_OK(model_weights_init(&from, 1, &small, &err), err);
    CHECK(model_weights_grow(small, &to, 5, &big, &err) == COLM_E_INPUT && !big);
    CHECK_HAS(err.text, "head maps");
    model_weights_free(&small);
}

int main(void) {
    TEST(families_grow);
    TEST(a_map_that_moves_heads_is_refused);
    return test_end();
}
