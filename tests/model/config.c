/* Arithmetic of configurations: what divides, what it counts, against the published numbers. */
#include "engine/model/config.h"
#include "tests/test.h"

static colm_err err;

static model_config tiny(void) {
    return (model_config){.vocab = 257,
                          .context = 128,
                          .layers = 4,
                          .head_dim = 16,
                          .n_chains = 2,
                          .chain = {{64, 4, 2, 176}, {32, 2, 1, 88}},
                          .rope_theta = 10000,
                          .norm_eps = 1e-5};
}
static model_config tinyllama(void) {
    return (model_config){.vocab = 32000,
                          .context = 2048,
                          .layers = 22,
                          .head_dim = 64,
                          .n_chains = 1,
                          .chain = {{2048, 32, 4, 5632}},
                          .rope_theta = 10000,
                          .norm_eps = 1e-5};
}

/* ---- what can be a model */

static void a_sound_config_passes(void) {
    model_config c = tiny();
    CHECK_OK(model_config_check(&c, &err), err);
    c = tinyllama();
    CHECK_OK(model_config_check(&c, &err), err);
}

typedef void spoil(model_config *c);
static void no_vocab(model_config *c) {
    c->vocab = 0;
}
static void huge_vocab(model_config *c) {
    c->vocab = MODEL_MAX_VOCAB + 1;
}
static void no_context(model_config *c) {
    c->context = 0;
}
static void no_layers(model_config *c) {
    c->layers = 0;
}
static void many_layers(model_config *c) {
    c->layers = 513;
}
static void odd_head(model_config *c) {
    c->head_dim = 15;
}
static void no_chains(model_config *c) {
    c->n_chains = 0;
}
static void many_chains(model_config *c) {
    c->n_chains = MODEL_MAX_CHAINS + 1;
}
static void no_width(model_config *c) {
    c->chain[1].width = 0;
}
static void no_kv(model_config *c) {
    c->chain[0].kv_heads = 0;
}
static void bad_kv(model_config *c) {
    c->chain[1] = (model_chain){48, 3, 2, 88};
}
static void wide_in_all(model_config *c) {
    c->chain[0].width = c->chain[1].width = 40000;
}
static void wide_heads(model_config *c) {
    c->head_dim = 1024;
    c->chain[0].heads = 63;
    c->chain[0].kv_heads = 1;
}
static void nan_theta(model_config *c) {
    c->rope_theta = NAN;
}
static void infinite_theta(model_config *c) {
    c->rope_theta = INFINITY;
}
static void nan_eps(model_config *c) {
    c->norm_eps = NAN;
}
static void layer_norm_of_one(model_config *c) {
    c->family.norm = NORM_LAYER;
    c->chain[1].width = 1;
}
static void no_eps(model_config *c) {
    c->norm_eps = 0;
}

static void what_cannot_be_is_refused_by_name(void) {
    static const struct {
        spoil *spoil;
        const char *says;
    } row[] = {
        {no_vocab, "vocab is 0, expected 1 to 16777216"},
        {huge_vocab, "vocab is 16777217"},
        {no_context, "context is 0, expected 1 to 65536"},
        {no_layers, "layers is 0, expected 1 to 512"},
        {many_layers, "layers is 513"},
        {odd_head, "head_dim is 15, expected an even number"},
        {no_chains, "number of chains is 0, expected 1 to 32"},
        {many_chains, "number of chains is 33"},
        {no_width, "chain 2: width is 0"},
        {no_kv, "chain 1: kv_heads is 0"},
        {bad_kv, "chain 2: 3 heads are not divisible by 2 kv heads"},
        {wide_in_all, "width of all chains together is 80000, expected 1 to 65536"},
        {wide_heads, "heads times head_dim is 66560"},
        {nan_theta, "rope_theta is nan"},
        {infinite_theta, "rope_theta is inf"},
        {nan_eps, "norm_eps is nan"},
        {no_eps, "norm_eps is 0"},
        {layer_norm_of_one, "chain 2: width is 1, expected at least 2: a layer norm"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        model_config c = tiny();
        row[i].spoil(&c);
        err.text[0] = 0;
        CHECK(model_config_check(&c, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, row[i].says);
        CHECK(model_config_check(&c, NULL) == COLM_E_INPUT); // told to nobody
    }
}

/* ---- names and prefixes */

static void names_count_query_heads(void) {
    model_config c = tiny();
    char buf[64], small[4];
    model_config_name(&c, buf, sizeof buf);
    CHECK_STR(buf, "<4,2>");
    model_config_name(&c, small, sizeof small);
    CHECK_STR(small, "<4,");
    c = tinyllama();
    model_config_name(&c, buf, sizeof buf);
    CHECK_STR(buf, "<32>");
}

static void a_prefix_forgets_later_chains(void) {
    model_config c = tiny(), p = model_config_prefix(&c, 1);
    CHECK(p.n_chains == 1 && p.chain[0].width == 64 && p.chain[1].width == 0);
    CHECK(model_config_extends(&c, &p));
    CHECK(model_config_extends(&c, &c));
    CHECK(!model_config_extends(&p, &c));
    p = model_config_prefix(&c, 9);
    CHECK(p.n_chains == 2);
    p = model_config_prefix(&c, 1);
    p.context = 7;
    CHECK(model_config_extends(&c, &p));
    p.chain[0].ffn++;
    CHECK(!model_config_extends(&c, &p));
    p = model_config_prefix(&c, 1);
    p.norm_eps = 1e-6;
    CHECK(!model_config_extends(&c, &p));
}

/* Four heads over two key-value heads read 0 0 1 1, tiled 0 1 0 1: not the same model any more. */
static void one_chain_becomes_air_where_its_heads_read_the_same(void) {
    static const struct {
        uint32_t kv_heads, from, to;
        bool same;
    } cases[] = {
        {2, KV_OWN, KV_GROUPED, true},   {2, KV_GROUPED, KV_OWN, true},    {2, KV_OWN, KV_TILED, false},
        {2, KV_TILED, KV_OWN, false},    {2, KV_GROUPED, KV_TILED, false}, {1, KV_OWN, KV_TILED, true},
        {4, KV_TILED, KV_GROUPED, true}, {2, KV_TILED, KV_TILED, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config big = tiny(), small;
        big.chain[0].kv_heads = cases[i].kv_heads;
        small = model_config_prefix(&big, 1);
        small.family.kv = cases[i].from;
        big.family.kv = cases[i].to;
        if (cases[i].to != KV_OWN) big.chain[1].kv_heads = 0;
        if (!CHECK(model_config_extends(&big, &small) == cases[i].same)) printf("#   case %zu\n", i);
    }
    model_config two = tiny(), air = two;
    air.family.kv = KV_GROUPED;
    CHECK(!model_config_extends(&air, &two)); // two chains are what they are
}

/* ---- short forms */

static void heads_split_exactly(void) {
    const uint32_t c[] = {32, 8};
    model_chain r[2];
    if (!CHECK_OK(model_chains_split(c, 2, 2560, 10240, 10, r, &err), err)) return;
    CHECK(r[0].width == 2048 && r[0].heads == 32 && r[0].kv_heads == 8 && r[0].ffn == 8192);
    CHECK(r[1].width == 512 && r[1].heads == 8 && r[1].kv_heads == 2 && r[1].ffn == 2048);
}

static void what_does_not_divide_is_refused_with_the_numbers(void) {
    const uint32_t c[] = {4, 2}, zero[] = {4, 0}, odd[] = {3, 3}, uneven[] = {3, 1};
    model_chain r[2] = {{7, 7, 7, 7}};
    CHECK(model_chains_split(c, 2, 100, 96, 6, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "chain 1: 4 of 6 heads make 66.6667 of width 100");
    CHECK_HAS(err.text, "a multiple of 3");
    CHECK(r[0].width == 7); // untouched
    CHECK(model_chains_split(c, 2, 96, 100, 6, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "of ffn 100");
    CHECK(model_chains_split(c, 2, 96, 96, 4, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "of kv_heads 4");
    CHECK(model_chains_split(zero, 2, 96, 96, 4, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "chain 2: heads is 0");
    CHECK(model_chains_split(odd, 2, 96, 96, 4, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "chain 1: 3 heads are not divisible by 2 kv heads");
    CHECK(model_chains_split(c, 0, 96, 96, 6, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "number of chains is 0");
    CHECK(model_chains_split(c, 2, 0, 96, 6, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "of width 0");
    CHECK(model_chains_split(uneven, 2, 65536, 262144, 65536, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "chain 1: 3 heads are not divisible by 49152 kv heads");
    const uint32_t vast[] = {4, 0xffffffffu};
    CHECK(model_chains_split(vast, 2, 65536, 65536, 65536, r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "chain 2: heads is 4294967295");
}

static void growth_keeps_proportions(void) {
    model_config c = tinyllama();
    model_chain r;
    if (!CHECK_OK(model_chain_grow(&c, 8, &r, &err), err)) return;
    CHECK(r.width == 512 && r.heads == 8 && r.kv_heads == 1 && r.ffn == 1408);
    c.chain[0] = (model_chain){2048, 32, 8, 8192};
    if (!CHECK_OK(model_chain_grow(&c, 8, &r, &err), err)) return;
    CHECK(r.width == 512 && r.heads == 8 && r.kv_heads == 2 && r.ffn == 2048);
}

static void growth_that_does_not_divide_is_refused(void) {
    model_config c = tinyllama();
    model_chain r = {1, 1, 1, 1};
    CHECK(model_chain_grow(&c, 4, &r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "4 heads at the proportions of the model before (kv_heads 4 for 32 heads)");
    CHECK_HAS(err.text, "kv_heads 0.5");
    CHECK_HAS(err.text, "a multiple of 8 heads");
    CHECK(r.width == 1);
    CHECK(model_chain_grow(&c, 0, &r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "heads is 0");
    c.chain[0].ffn = MODEL_MAX_FFN;
    CHECK(model_chain_grow(&c, 64, &r, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "ffn is 524288");
    c.n_chains = 0;
    CHECK(model_chain_grow(&c, 8, &r, &err) == COLM_E_INPUT);
    // Whatever multiple the error names does divide.
    c = tiny();
    c.chain[0].ffn = 90;
    CHECK(model_chain_grow(&c, 1, &r, &err) == COLM_E_INPUT);
    unsigned step = 0;
    const char *says = strstr(err.text, "a multiple of ");
    CHECK(says && sscanf(says, "a multiple of %u", &step) == 1 && step > 1);
    CHECK_OK(model_chain_grow(&c, step, &r, &err), err);
}

/* ---- counts */

/* The MLP of the paper's CIFAR-10 table: 3072-768 with bias, chain linears 768-1024-512-256 without, 256-10
 * with. */
static uint64_t cifar(const uint32_t *c, uint32_t n) {
    static const uint32_t columns[] = {768, 1024, 512, 256};
    uint32_t part[4][MODEL_MAX_CHAINS], heads = 0;
    uint64_t sum = 3072 * 768 + 768 + 256 * 10 + 10;
    for (uint32_t i = 0; i < n; i++) heads += c[i];
    for (int k = 0; k < 4; k++) {
        model_chain r[MODEL_MAX_CHAINS];
        if (!CHECK_OK(model_chains_split(c, n, columns[k], columns[k], heads, r, &err), err)) return 0;
        for (uint32_t i = 0; i < n; i++) part[k][i] = r[i].width;
        if (k) sum += model_linear_params(part[k - 1], part[k], n, 0);
    }
    return sum;
}

static void cifar_counts_of_the_paper(void) {
    CHECK(cifar((const uint32_t[]){16}, 1) + 1024 + 512 + 256 == 3806218); // the dense net has hidden biases
    CHECK(cifar((const uint32_t[]){4, 4, 4, 4}, 4) == 3263754);
    CHECK(cifar((const uint32_t[]){8, 8}, 2) == 3443978);
    CHECK(cifar((const uint32_t[]){4, 12}, 2) == 3534090);
    CHECK(cifar((const uint32_t[]){4, 4, 8}, 3) == 3353866);
}

static void shares_of_a_dense_layer(void) {
    static const struct {
        uint32_t c[8], n;
        double share;
    } row[] = {
        {{16, 16}, 2, .75},
        {{8, 8, 8, 8}, 4, .625},
        {{8, 8, 16}, 3, .6875},
        {{8, 24}, 2, .8125},
        {{4, 4, 4, 4, 4, 4, 4, 4}, 8, .5625},
        {{32, 8}, 2, .84},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < row[i].n; k++) sum += row[i].c[k];
        CHECK_NEAR((double)model_linear_params(row[i].c, row[i].c, row[i].n, 0), row[i].share * sum * sum,
                   1e-9);
    }
}

/* TinyLLaMA grown by 8 and by 16 heads: +335.6M; +792.2M, 1.892B in all, 41.87 % trained. */
static void tinyllama_counts_of_the_paper(void) {
    static const struct {
        uint32_t heads;
        double added, total;
    } row[] = {{8, 335.6e6, 1.4356e9}, {16, 792.2e6, 1.892e9}};
    model_config c = tinyllama();
    CHECK(model_params(&c, 0, 1) == 1100048384); // the published base
    for (size_t i = 0; i < 2; i++) {
        c = tinyllama();
        if (!CHECK_OK(model_chain_grow(&c, row[i].heads, &c.chain[1], &err), err)) return;
        c.n_chains = 2;
        CHECK_NEAR((double)model_params(&c, 1, 2), row[i].added, .05e6);
        CHECK_NEAR((double)model_params(&c, 0, 2), row[i].total, .5e6);
        CHECK(model_params(&c, 0, 2) == model_params(&c, 0, 1) + model_params(&c, 1, 2));
    }
    CHECK_NEAR(100.0 * (double)model_params(&c, 1, 2) / (double)model_params(&c, 0, 2), 41.87, .005);
}

static void small_counts_by_hand(void) {
    model_config c = tiny();
    /* Chain 1: q 64x64, k v 32x64, o 64x64, w1 w3 176x64, w2 64x176, two gains. */
    uint64_t one = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 176 * 64 + 2 * 64;
    /* Chain 2 reads 96 columns of the stream and of attention, 264 of the product. */
    uint64_t two = 32 * 96 + 2 * 16 * 96 + 32 * 96 + 2 * 88 * 96 + 32 * 264 + 2 * 32;
    CHECK(model_params(&c, 0, 1) == 4 * one + 64 + 2 * 257 * 64);
    CHECK(model_params(&c, 1, 2) == 4 * two + 32 + 2 * 257 * 32);
    CHECK(model_params(&c, 1, 1) == 0);
}

/* ---- operations */

static void flops_by_hand(void) {
    model_config c = tiny();
    uint64_t T = 5, pairs = 15;
    uint64_t one = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 176 * 64;
    uint64_t two = 32 * 96 + 2 * 16 * 96 + 32 * 96 + 2 * 88 * 96 + 32 * 264;
    CHECK(model_flops_forward(&c, 1, 5) == 2 * T * (4 * one + 257 * 64) + 4 * 4 * 4 * 16 * pairs);
    CHECK(model_flops_forward(&c, 2, 5) == 2 * T * (4 * (one + two) + 257 * 96) + 4 * 6 * 4 * 16 * pairs);
    // Ordinary training: twice the forward, exactly.
    CHECK(model_flops_backward(&c, 0, 5) == 2 * model_flops_forward(&c, 2, 5));
    /* Frozen chain 1: dW of chain 2's rows as above; dx for its own 32 (stream, attention) and 88 columns only.
     */
    uint64_t dx = 32 * 32 + 2 * 16 * 32 + 32 * 32 + 2 * 88 * 32 + 32 * 88;
    CHECK(model_flops_backward(&c, 1, 5) ==
          2 * T * (4 * (two + dx) + 2 * 257 * 32) + 2 * 4 * 2 * 4 * 16 * pairs);
    CHECK(model_flops_backward(&c, 2, 5) == 0);
}

static void freezing_saves_what_the_paper_says(void) {
    const uint32_t c[] = {2048, 512};
    double forward = (double)model_linear_params(c, c, 2, 0);
    CHECK_NEAR(forward, 2048. * 2048 + 2048. * 512 + 512. * 512, 0);
    CHECK_NEAR((double)model_linear_backward(c, c, 2, 0) / forward, 2.0, 0);
    CHECK_NEAR((double)model_linear_backward(c, c, 2, 1) / forward, 0.29, .005);
    CHECK(model_linear_backward(c, c, 2, 1) == 512 * 2560 + 512 * 512);
}

/* The largest model that passes the check stays inside 64 bits. */
static void the_largest_model_can_be_counted(void) {
    model_config c = {.vocab = MODEL_MAX_VOCAB,
                      .context = MODEL_MAX_CONTEXT,
                      .layers = MODEL_MAX_LAYERS,
                      .head_dim = 64,
                      .n_chains = 1,
                      .chain = {{MODEL_MAX_WIDTH, 1024, 1024, MODEL_MAX_FFN}},
                      .rope_theta = 1e6,
                      .norm_eps = 1e-5};
    CHECK_OK(model_config_check(&c, &err), err);
    double D = MODEL_MAX_WIDTH, F = MODEL_MAX_FFN, T = MODEL_MAX_CONTEXT, L = MODEL_MAX_LAYERS,
           V = MODEL_MAX_VOCAB;
    double want = 2 * T * (L * (4 * D * D + 3 * D * F) + V * D) + L * 4 * D * T * (T + 1) / 2;
    CHECK_NEAR((double)model_flops_forward(&c, 1, MODEL_MAX_CONTEXT) / want, 1, 1e-12);
    CHECK_NEAR((double)model_flops_backward(&c, 0, MODEL_MAX_CONTEXT) / want, 2, 1e-12);
}

int main(void) {
    TEST(a_sound_config_passes);
    TEST(what_cannot_be_is_refused_by_name);
    TEST(names_count_query_heads);
    TEST(a_prefix_forgets_later_chains);
    TEST(one_chain_becomes_air_where_its_heads_read_the_same);
    TEST(heads_split_exactly);
    TEST(what_does_not_divide_is_refused_with_the_numbers);
    TEST(growth_keeps_proportions);
    TEST(growth_that_does_not_divide_is_refused);
    TEST(cifar_counts_of_the_paper);
    TEST(shares_of_a_dense_layer);
    TEST(tinyllama_counts_of_the_paper);
    TEST(small_counts_by_hand);
    TEST(flops_by_hand);
    TEST(freezing_saves_what_the_paper_says);
    TEST(the_largest_model_can_be_counted);
    return test_end();
}
