/* Whole training steps under watch: as recorded nothing lacks a barrier, and every barrier is needed. */
#include "engine/ops/hazard.h"
#include "tests/train/jobs.h"

typedef struct {
    const char *what;
    graph_params gp;
    uint32_t frozen, chains;
} variety;

static const double lambda[MODEL_MAX_CHAINS] = {0.5, 1};
static const variety varieties[] = {{"full", {.B = 2, .T = 5}, 0, 2},
                                    {"frozen", {.B = 2, .T = 5}, 1, 2},
                                    {"recomputed", {.B = 2, .T = 5, .recompute = true}, 0, 2},
                                    {"all scales", {.B = 2, .T = 5, .lambda = lambda}, 0, 2},
                                    {"one chain", {.B = 1, .T = 1}, 0, 1}};

typedef struct {
    model_graph *g;
    hazard_watch *watch;
    uint32_t tokens[16], targets[16];
} scene;

static colm_status step(scene *s, colm_err *err) {
    const graph_update u = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 1};
    graph_report r;
    return model_graph_train(s->g, s->tokens, s->targets, &u, &r, err);
}

/* Every barrier of the recording taken away alone. Kinds that were named are counted. */
static void every_one_is_missed(scene *s, const char *what, int kinds[3]) {
    static const char *const names[] = {"read after write", "write after read", "write after write"};
    colm_err err = {0};
    s->watch->drop = 0;
    if (!CHECK_OK(step(s, &err), err)) return;
    const uint64_t n = s->watch->barriers;
    const size_t calls = s->watch->n;
    CHECK(n > 20 && n < calls);
    for (uint64_t k = 1; k <= n; k++) {
        s->watch->drop = k;
        if (!CHECK(step(s, &err) == COLM_E_BUG)) printf("#   %s: barrier %llu\n", what, (unsigned long long)k);
        CHECK(s->watch->n == calls);
        for (int i = 0; i < 3; i++) kinds[i] += strncmp(err.text, names[i], strlen(names[i])) == 0;
    }
    s->watch->drop = 0;
    CHECK_OK(step(s, &err), err);
    printf("# %s: %zu calls, %llu barriers\n", what, calls, (unsigned long long)n);
}

static void watch(gpu_device *d, const variety *v, int kinds[3]) {
    scene s = {0};
    colm_err err = {0};
    ops_machine *m = NULL;
    model_state *state = NULL;
    model_weights *w = NULL;
    model_config c = test_config(v->chains, (model_chain[]){{16, 2, 1, 24}, {9, 1, 1, 13}});
    graph_params gp = v->gp;
    gp.train = true;
    test_tokens(1, c.vocab, 16, s.tokens, s.targets);
    if (!CHECK_OK(ops_open_gpu(d, NULL, &m, &err), err)) return;
    s.watch = hazard_watch_of(m);
    if (CHECK(s.watch != NULL) && CHECK_OK(model_weights_init(&c, 3, &w, &err), err) &&
        CHECK_OK(model_state_create(m, w, v->frozen, &state, &err), err) &&
        CHECK_OK(model_graph_create(state, &gp, &s.g, &err), err))
        every_one_is_missed(&s, v->what, kinds);
    model_graph_free(&s.g);
    model_state_free(&state);
    model_weights_free(&w);
    ops_close(&m);
}

static void no_barrier_of_a_step_can_go(void) {
    const gpu_switches on = {.hazards = true};
    gpu_device *d = NULL;
    colm_err err = {0};
    int kinds[3] = {0};
    if (gpu_open(&(gpu_params){.switches = &on}, &d, &err)) {
        test_skip("no Vulkan device");
        return;
    }
    for (size_t i = 0; i < sizeof varieties / sizeof *varieties; i++) watch(d, &varieties[i], kinds);
    printf("# read after write %d, write after read %d, write after write %d\n", kinds[0], kinds[1], kinds[2]);
    for (int i = 0; i < 3; i++) CHECK(kinds[i] > 0);
    gpu_close(&d);
}

int main(void) {
    unsetenv("COLM_DEBUG");
    TEST(no_barrier_of_a_step_can_go);
    return test_end();
}
