/* The budget of every kernel, read from its SPIR-V: after whole steps of families that use all operations
 * (casts apart), in all kernel classes, each variant of the table was compiled, and asks for no more than any
 * device that colm accepts has. */
#include "engine/gpu/inside.h"
#include "tests/model/models.h"

static model_family rich(void) {
    return (model_family){.norm = NORM_RMS_PLUS_ONE,
                          .ffn = FFN_GEGLU,
                          .kv = KV_GROUPED,
                          .qk_norm = true,
                          .post_norms = true,
                          .attn_softcap = 20,
                          .logit_softcap = 15,
                          .window = 5};
}

static model_family biased(void) {
    return (model_family){.norm = NORM_LAYER,
                          .ffn = FFN_GELU_ERF,
                          .position = POSITION_LEARNED,
                          .bias_qkv = true,
                          .bias_o = true,
                          .bias_ffn = true};
}

/* What no float32 model asks for. */
static bool cast(ops_machine *m) {
    colm_err err = {0};
    ops_buf b = 0;
    ops_list list = {0};
    ops_call c = {.op = OP_CAST, .p.cast = {64}};
    bool ok = CHECK_OK(ops_buffer(m, "test", OPS_F32, 128, &b, &err), err);
    c.t[0] = (ops_view){b, 0, 64}, c.t[1] = (ops_view){b, 64, 64};
    ok = ok && CHECK_OK(ops_add(&list, &c, &err), err) && CHECK_OK(ops_prepare(m, &list, &err), err);
    ops_unprepare(m, &list);
    ops_list_done(&list);
    ops_buffer_free(m, &b);
    return ok;
}

static void step(const char *class, const model_family *f) {
    static const model_chain chain[] = {{16, 2, 2, 24}, {8, 2, 0, 16}};
    static const double lambda[] = {0.5, 0.5};
    colm_err err = {0};
    ops_machine *m = test_machine(class);
    if (!m) return;
    model_config c = test_config(2, chain);
    model_weights *w = NULL;
    model_state *s = NULL;
    model_graph *g = NULL;
    uint32_t tokens[32], targets[32];
    float nll[64];
    graph_report r;
    graph_update u = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 1};
    c.family = *f;
    if (f->kv == KV_OWN) c.chain[1].kv_heads = 2;
    test_tokens(1, c.vocab, 32, tokens, targets);
    graph_params train = {.B = 2, .T = 16, .train = true, .lambda = lambda}, score = {.B = 2, .T = 16};
    bool ok = cast(m) && CHECK_OK(model_weights_init(&c, 1, &w, &err), err) &&
              CHECK_OK(model_state_create(m, w, 0, &s, &err), err) &&
              CHECK_OK(model_graph_create(s, &train, &g, &err), err) &&
              CHECK_OK(model_graph_train(g, tokens, targets, &u, &r, &err), err);
    model_graph_free(&g);
    model_state_free(&s);
    if (ok && CHECK_OK(model_state_create(m, w, 2, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &score, &g, &err), err))
        CHECK_OK(model_graph_score(g, tokens, targets, nll, NULL, &err), err);
    model_graph_free(&g);
    model_state_free(&s);
    model_weights_free(&w);
    ops_close(&m);
}

/* What the variant says that the kernel of this name may take. */
static uint32_t shared_of(const char *name) {
    for (int op = 0; op < OP_COUNT; op++)
        for (size_t v = 0; v < *ops_get((ops_id)op)->n_variants; v++) {
            const ops_variant *x = &ops_get((ops_id)op)->variants[v];
            if (x->shared && strstr(name, x->file) && (!x->defines || strstr(name, x->defines)))
                return x->shared;
        }
    return 16384;
}

static void budgets(void) {
    const model_family families[] = {{0}, rich(), biased()};
    gpu_device *d = test_device();
    if (!d) {
        test_skip("no Vulkan device");
        return;
    }
    bool lanes = gpu_get_info(d)->subgroup == 8 && gpu_get_info(d)->subgroup_shuffle;
    for (size_t k = lanes ? 0 : 1; k < OPS_CLASSES; k++)
        for (size_t i = 0; i < 3; i++) step(ops_classes[k], &families[i]);
    for (size_t i = 0; i < d->n_kernels; i++) {
        const gpu_kernel *k = d->kernels[i];
        const gpu_face *f = &k->face;
        uint32_t storage = 0;
        for (uint32_t b = f->storage; b; b &= b - 1) storage++;
        bool ok = CHECK(f->push_bytes > 0 && f->push_bytes <= 128) &&
                  CHECK(f->shared_bytes <= shared_of(k->name)) &&
                  CHECK((uint64_t)f->local[0] * f->local[1] * f->local[2] <= 256) &&
                  CHECK(storage >= 1 && storage <= 8) && CHECK(f->storage >> 8 == 0 && f->texel >> 8 == 0);
        if (!ok) printf("#   %s\n", k->name);
    }
    for (int op = 0; op < OP_COUNT; op++)
        for (size_t v = 0; v < *ops_get((ops_id)op)->n_variants; v++) {
            const ops_variant *x = &ops_get((ops_id)op)->variants[v];
            bool seen = (x->subgroup && !lanes) || x->matrices; /* of 16-bit models only: tests/ops/tune.c */
            for (size_t i = 0; i < d->n_kernels; i++)
                seen = seen || strncmp(d->kernels[i]->name, x->file, strlen(x->file)) == 0;
            if (!CHECK(seen))
                printf("#   %s (%s of %s) was never compiled\n", x->file, x->name, ops_get((ops_id)op)->name);
        }
}

int main(void) {
    TEST(budgets);
    return test_end();
}
