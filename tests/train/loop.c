/* The training loop: the same bits however it runs, failures that leave the weights alone, no allocation,
 * memory as planned, and a loss that falls. */
#include "engine/train/loop.h"

#include "engine/base/mem.h"
#include "tests/train/jobs.h"

static const char *const machines[] = {"reference", "cpu", "portable"};

/* Six steps from the same start; NULL without a machine. */
static model_weights *six(ops_machine *m, train_job job, train_result *ret) {
    colm_err err = {0};
    model_weights *w = weights();
    CHECK_OK(train_run(m, w, &job, ret, &err), err);
    CHECK(ops_bytes(m, NULL) == 0);
    return w;
}

/* Between any two steps: another model scored on the same machine. */
typedef struct {
    ops_machine *m;
    model_weights *w;
    uint32_t ran;
} interlude;

static bool evaluate(void *user, const train_tick *t) {
    interlude *i = user;
    colm_err err = {0};
    model_state *s = NULL;
    model_graph *g = NULL;
    uint32_t tokens[14], targets[14];
    float nll[28];
    graph_params gp = {.B = 2, .T = 7};
    test_tokens(t->step, 257, 14, tokens, targets);
    if (CHECK_OK(model_state_create(i->m, i->w, 2, &s, &err), err) &&
        CHECK_OK(model_graph_create(s, &gp, &g, &err), err) &&
        CHECK_OK(model_graph_score(g, tokens, targets, nll, NULL, &err), err))
        i->ran++;
    model_graph_free(&g);
    model_state_free(&s);
    return false;
}

static void the_same_run_gives_the_same_bytes(void) {
    for (size_t k = 0; k < 3; k++)
        for (uint32_t frozen = 0; frozen < 2; frozen++) {
            ops_machine *m = test_machine(machines[k]);
            if (!m) return;
            train_job job = job_of(6);
            job.params.frozen = frozen;
            train_result first, again;
            model_weights *start = weights(), *w = six(m, job, &first);
            CHECK(!same(start, w));
            for (size_t i = 0; i < start->n_tensors; i++) {
                const model_tensor *t = &start->tensor[i];
                bool kept =
                    memcmp(start->data + t->off, w->data + t->off, t->rows * t->cols * sizeof(float)) == 0;
                if (!CHECK(kept == (t->chain < frozen))) printf("#   %s: %s\n", machines[k], t->name);
            }
            for (int i = 0; i < 2; i++) {
                model_weights *v = six(m, job, &again);
                CHECK(same(w, v) && again.loss == first.loss && again.memory == first.memory);
                model_weights_free(&v);
            }
            interlude between = {m, w, 0};
            job.tick = evaluate, job.user = &between;
            model_weights *v = six(m, job, &again);
            CHECK(same(w, v) && again.loss == first.loss && between.ran == 6);
            CHECK(first.steps == 6 && first.tokens == 6 * 39 &&
                  first.flops == train_flops(&w->config, &job.params));
            job.seed++;
            model_weights *other = six(m, job, &again);
            CHECK(!same(w, other));
            model_weights_free(&start), model_weights_free(&w), model_weights_free(&v),
                model_weights_free(&other);
            ops_close(&m);
        }
}

/* Waiting after every operation, and a submission for each. */
static void neither_waiting_nor_small_submissions_change_a_bit(void) {
    for (size_t k = 1; k < 3; k++) {
        colm_err err = {0};
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        train_result first, again;
        model_weights *w = six(m, job_of(6), &first);
        ops_close(&m);
        ops_machine_params sync = {.kernels = machines[k], .sync = true};
        CHECK_OK(ops_open_gpu(test_device(), &sync, &m, &err), err);
        model_weights *v = six(m, job_of(6), &again);
        CHECK(same(w, v) && again.loss == first.loss);
        ops_close(&m);
        model_weights_free(&v);

        gpu_device *d = NULL;
        gpu_params tiny = {.submit_flops = 1};
        uint64_t count = 0;
        double longest;
        if (CHECK_OK(gpu_open(&tiny, &d, &err), err)) {
            ops_machine_params plain = {.kernels = machines[k]};
            CHECK_OK(ops_open_gpu(d, &plain, &m, &err), err);
            v = six(m, job_of(6), &again);
            CHECK(same(w, v) && again.loss == first.loss);
            gpu_submit_stats(d, &count, &longest);
            CHECK(count > 6 * 50); /* it did cut the steps */
            ops_close(&m);
            model_weights_free(&v);
        }
        gpu_close(&d);
        model_weights_free(&w);
    }
}

/* A job that must fail with a status and leave the weights as they were. */
static void fails(const char *machine, train_job job, model_weights *w, colm_status want, const char *text) {
    colm_err err = {0};
    ops_machine *m = test_machine(machine);
    if (!m) return;
    train_result r = {.steps = 77};
    model_weights *before = copy(w);
    CHECK(train_run(m, w, &job, &r, &err) == want);
    CHECK_HAS(err.text, text);
    CHECK(same(before, w) && r.steps == 77 && ops_bytes(m, NULL) == 0);
    model_weights_free(&before);
    ops_close(&m);
}

static void a_loss_that_is_not_finite_stops_the_run(void) {
    for (size_t k = 0; k < 3; k++) {
        model_weights *w = weights();
        w->data[model_weights_at(w, PARAM_O, 1, 0)->off + 5] = NAN;
        fails(machines[k], job_of(6), w, COLM_E_CHECK, "step 0: loss nan");
        model_weights_free(&w);
        train_job job = job_of(6);
        job.params.lr = 3e38;
        job.params.warmup = 0;
        w = weights();
        if (k) fails(machines[k], job, w, COLM_E_CHECK, "step 1: ");
        model_weights_free(&w);
    }
}

/* Values and the columns that read them both zero: a dead point, at which decay still moves bytes. */
static void a_tensor_without_gradient_stops_the_run_by_name(void) {
    for (size_t k = 0; k < 3; k++) {
        model_weights *w = weights();
        const model_tensor *v = model_weights_at(w, PARAM_V, 0, 1), *o = model_weights_at(w, PARAM_O, 0, 1);
        memset(w->data + v->off, 0, v->rows * v->cols * sizeof *w->data);
        for (uint32_t r = 0; r < o->rows; r++) /* only chain 2's own heads, the last 8 columns */
            memset(w->data + o->off + r * o->cols + o->cols - 8, 0, 8 * sizeof *w->data);
        train_job job = job_of(6);
        fails(machines[k], job, w, COLM_E_CHECK, "layers.0.norm1.2");
        model_weights_free(&w);
    }
}

static bool stop_at_two(void *user, const train_tick *t) {
    (*(uint32_t *)user)++;
    return t->step == 2;
}

static void a_stop_leaves_the_weights(void) {
    for (size_t k = 0; k < 3; k++) {
        uint32_t ticks = 0;
        train_job job = job_of(6);
        job.tick = stop_at_two, job.user = &ticks;
        model_weights *w = weights();
        fails(machines[k], job, w, COLM_E_INTERRUPTED, "step 2");
        CHECK(ticks == 3 || test_skip_);
        model_weights_free(&w);
    }
}

typedef struct {
    unsigned long long count[6];
    double loss[200], norm[200], lr[200];
} diary;

static bool note(void *user, const train_tick *t) {
    diary *d = user;
    if (t->step < 6) d->count[t->step] = mem_count();
    if (t->step < 200) d->loss[t->step] = t->loss, d->norm[t->step] = t->grad_norm, d->lr[t->step] = t->lr;
    return false;
}

static void a_warm_step_allocates_nothing(void) {
    for (size_t k = 0; k < 3; k++) {
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        diary d = {0};
        train_result r;
        train_job job = job_of(6);
        job.tick = note, job.user = &d;
        model_weights *w = six(m, job, &r);
        CHECK(d.count[1] > 0);
        for (int i = 2; i < 6; i++) CHECK(d.count[i] == d.count[1]);
        for (int i = 0; i < 6; i++) {
            CHECK_NEAR(d.lr[i], train_lr(&job.params, (uint64_t)i), 0);
            CHECK(d.norm[i] > 0);
        }
        model_weights_free(&w);
        ops_close(&m);
    }
}

static void memory_is_what_the_plan_says(void) {
    for (size_t k = 0; k < 3; k++)
        for (uint32_t frozen = 0; frozen < 2; frozen++) {
            colm_err err = {0};
            ops_machine *m = test_machine(machines[k]);
            if (!m) return;
            train_job job = job_of(2);
            uint64_t plan = 0;
            train_result r = {0};
            job.params.frozen = frozen;
            model_weights *w = six(m, job, &r);
            CHECK_OK(train_memory(&w->config, &job.params, &plan, &err), err);
            CHECK(plan > 0 && plan == r.memory);
            model_weights_free(&w);
            ops_close(&m);
        }
}

/* Some 380 billion parameters: a plan allocates none of them, and their FLOPs on 10^13 tokens pass 64 bits. */
static void a_plan_needs_no_room_for_the_model(void) {
    colm_err err = {0};
    model_config c = test_config(1, (model_chain[]){{16384, 128, 8, 65536}});
    c.layers = 100, c.head_dim = 128;
    train_params p = job_of(1).params;
    uint64_t bytes = 0;
    CHECK_OK(train_memory(&c, &p, &bytes, &err), err);
    CHECK(bytes / 16 >= model_params(&c, 0, 1) && model_params(&c, 0, 1) > 350000000000);
    p.tokens = 10000000000000;
    double want = 6.0 * (double)model_params(&c, 0, 1) * 1e13;
    CHECK_NEAR(train_flops(&c, &p), want, 0.01 * want);
}

/* Weights of the losses of two separate heads, and whether each that trains has one. */
static void a_separate_head_needs_a_loss(void) {
    static const struct {
        uint32_t frozen;
        double lambda[2];
        bool trains;
    } cases[] = {{0, {0, 0}, false}, {0, {0, 2}, false}, {0, {0.5, 0.5}, true}, {1, {0, 0}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        colm_err err = {0};
        ops_machine *m = test_machine("reference");
        train_job job = job_of(6);
        train_result r;
        uint64_t bytes;
        model_config c = config();
        model_weights *w = NULL;
        c.family.head = HEAD_SEPARATE;
        job.params.frozen = cases[i].frozen;
        memcpy(job.params.lambda, cases[i].lambda, sizeof cases[i].lambda);
        CHECK_OK(model_weights_init(&c, 3, &w, &err), err);
        if (cases[i].trains) {
            CHECK_OK(train_run(m, w, &job, &r, &err), err);
        } else {
            CHECK(train_memory(&c, &job.params, &bytes, &err) == COLM_E_INPUT);
            fails("reference", job, w, COLM_E_INPUT, "scale 1 has no loss");
        }
        model_weights_free(&w);
        ops_close(&m);
    }
}

/* A byte to come is certain after a few: from log 257 = 5.5 nats to below 0.4 (0.6 by chain 2 alone), positions
 * without context included. */
static void a_short_text_is_learnt_by_heart(void) {
    for (size_t k = 0; k < 3; k++)
        for (uint32_t frozen = 0; frozen < 2; frozen++) {
            ops_machine *m = test_machine(machines[k]);
            if (!m) return;
            diary d = {0};
            train_result r = {0};
            train_job job = job_of(120);
            job.params.frozen = frozen;
            job.params.lr = 2e-2;
            job.tick = note, job.user = &d;
            model_weights *w = six(m, job, &r);
            CHECK_NEAR(d.loss[0], log(257), 0.1);
            if (!CHECK(r.loss < (frozen ? 0.6 : 0.4)))
                printf("#   %s, %u frozen: loss %g\n", machines[k], frozen, r.loss);
            model_weights_free(&w);
            ops_close(&m);
        }
}

int main(void) {
    folder = scratch_open();
    if (!texts_open()) return 1;
    TEST(the_same_run_gives_the_same_bytes);
    TEST(neither_waiting_nor_small_submissions_change_a_bit);
    TEST(a_loss_that_is_not_finite_stops_the_run);
    TEST(a_tensor_without_gradient_stops_the_run_by_name);
    TEST(a_stop_leaves_the_weights);
    TEST(a_warm_step_allocates_nothing);
    TEST(memory_is_what_the_plan_says);
    TEST(a_plan_needs_no_room_for_the_model);
    TEST(a_separate_head_needs_a_loss);
    TEST(a_short_text_is_learnt_by_heart);
    if (getenv("COLM_TEST_VALIDATE")) TEST(the_validation_layer_is_silent);
    corpus_close(&texts);
    scratch_close(&folder);
    return test_end();
}
