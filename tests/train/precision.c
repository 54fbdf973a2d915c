/* Training in 16 bits: close to float32, a loss scale that finds its place, and a step whose gradients overflow
 * changes nothing at all. */
#include "engine/tensor/half.h"
#include "engine/train/scale.h"
#include "tests/model/runs.h"
#include "tests/train/jobs.h"

enum { B = 2, T = 16, ROWS = B * T };

/* The pure function */

static void a_scale_halves_and_doubles(void) {
    loss_scale s = loss_scale_first();
    CHECK(s.factor == 65536 && s.applied == 0 && s.skipped == 0);
    s = loss_scale_after(s, true);
    CHECK(s.factor == 32768 && s.skipped == 1 && s.in_row == 1 && s.applied == 0);
    s = loss_scale_after(s, true);
    CHECK(s.factor == 16384 && s.skipped == 2 && s.in_row == 2);
    for (uint32_t i = 0; i < LOSS_SCALE_SERIES - 1; i++) s = loss_scale_after(s, false);
    CHECK(s.factor == 16384 && s.in_row == 0 && s.applied == LOSS_SCALE_SERIES - 1);
    loss_scale one_more = loss_scale_after(s, false), broken = loss_scale_after(s, true);
    CHECK(one_more.factor == 32768 && one_more.good == 0);
    CHECK(broken.factor == 8192 && broken.good == 0); /* a series begins anew */
    for (uint32_t i = 0; i < LOSS_SCALE_SERIES; i++) broken = loss_scale_after(broken, false);
    CHECK(broken.factor == 16384);
    for (uint32_t i = 0; i < 40 * LOSS_SCALE_SERIES; i++) s = loss_scale_after(s, false);
    CHECK(s.factor == LOSS_SCALE_MOST);
    for (uint32_t i = 0; i < 40; i++) s = loss_scale_after(s, true);
    CHECK(s.factor == LOSS_SCALE_LEAST && s.in_row == 40);
}

/* Steps by hand */

typedef struct {
    model_state *s;
    model_graph *g;
    uint64_t t; /* updates so far */
    double clip;
} trainer;

static const run_shape shape = {"two chains", 2, 8, 2, 50, {{16, 4, 2, 24}, {9, 2, 1, 13}}};

static bool trainer_open(ops_machine *m, const model_weights *w, trainer *t) {
    colm_err err = {0};
    graph_params p = {.B = B, .T = T, .train = true};
    *t = (trainer){.clip = 1};
    return CHECK_OK(run_state(m, w, 0, &t->s, &err), err) &&
           CHECK_OK(model_graph_create(t->s, &p, &t->g, &err), err);
}

static void trainer_close(trainer *t) {
    model_graph_free(&t->g);
    model_state_free(&t->s);
}

static graph_report step(trainer *t, uint64_t batch, double scale) {
    colm_err err = {0};
    graph_report r = {0};
    graph_update u = {3e-3, 0.9, 0.95, 1e-6, 0.1, t->clip, t->t + 1};
    uint32_t ids[2 * ROWS];
    test_tokens(batch, shape.vocab, ROWS, ids, ids + ROWS);
    model_graph_scale_loss(t->g, scale);
    CHECK_OK(model_graph_train(t->g, ids, ids + ROWS, &u, &r, &err), err);
    t->t += !r.skipped;
    return r;
}

/* Everything that an update may move, as bytes. */
static uint8_t *all_of(ops_machine *m, const model_state *s, size_t *ret) {
    colm_err err = {0};
    const ops_buf buf[] = {s->params, s->moment1, s->moment2, s->work};
    uint8_t *x = calloc(s->end, 4 * sizeof(float));
    size_t at = 0;
    if (!x) abort();
    for (size_t i = 0; i < 4 && buf[i]; i++) {
        uint64_t n = ops_buffer_len(m, buf[i]);
        CHECK_OK(ops_read(m, buf[i], 0, x + at, n, &err), err);
        at += n * (i < 3 ? sizeof(float) : sizeof(uint16_t));
    }
    *ret = at;
    return x;
}

/* A scale far too large: steps are skipped whole until it has fallen enough, then training goes on. */
static void overflow(ops_machine *m) {
    model_weights *w = run_weights(&shape);
    loss_scale scale = {.factor = 4294967296.0};
    double first = 0, last = 0;
    trainer t;
    for (bool ok = trainer_open(m, w, &t); ok;) {
        size_t n, k;
        uint8_t *before = all_of(m, t.s, &n);
        graph_report r = step(&t, scale.applied % 3, scale.factor);
        uint8_t *after = all_of(m, t.s, &k);
        CHECK(n == k && (memcmp(before, after, n) == 0) == r.skipped);
        CHECK(isfinite(r.loss) && isfinite(r.grad_norm) == !r.skipped);
        if (scale.applied + scale.skipped == 0) CHECK(r.skipped);
        scale = loss_scale_after(scale, r.skipped);
        if (scale.applied == 1) first = r.loss;
        last = r.loss;
        free(before), free(after);
        ok = scale.applied < 31 && scale.skipped < 40;
    }
    printf("# %s: %u steps skipped, scale %g, loss from %.4f to %.4f\n", ops_machine_name(m),
           (unsigned)scale.skipped, scale.factor, first, last);
    CHECK(scale.applied == 31 && scale.skipped > 2 && scale.factor < 4294967296.0);
    CHECK(last < 0.9 * first);
    trainer_close(&t);
    model_weights_free(&w);
}

static void an_overflow_skips_the_step_and_nothing_else(void) {
    run_precision = PRECISION_F16;
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        ops_machine *m = test_machine(run_machines[i]);
        if (m) overflow(m);
        ops_close(&m);
    }
    run_precision = PRECISION_F32;
}

/* In float32 and bfloat16 a power of two as loss scale changes no bit of the update or the report. */
static void a_power_of_two_changes_no_bit(void) {
    for (run_precision = PRECISION_F32; run_precision <= PRECISION_BF16; run_precision++)
        for (size_t i = 0; i < RUN_MACHINES; i++) {
            ops_machine *m = test_machine(run_machines[i]);
            model_weights *w = run_weights(&shape);
            uint8_t *x[2] = {NULL, NULL};
            double norm[2] = {0};
            size_t n[2] = {0};
            for (int k = 0; m && k < 2; k++) {
                trainer t;
                graph_report r = {0};
                if (trainer_open(m, w, &t)) {
                    for (uint64_t s = 0; s < 4; s++) {
                        t.clip = s % 2 ? 0.5 : 0;
                        r = step(&t, s, k ? 1024 : 1);
                    }
                    norm[k] = r.grad_norm;
                    CHECK(isfinite(r.grad_norm) && !r.skipped);
                    x[k] = all_of(m, t.s, &n[k]);
                }
                trainer_close(&t);
            }
            if (m) CHECK(n[0] && n[0] == n[1] && memcmp(x[0], x[1], n[0]) == 0);
            CHECK_NEAR(norm[1], norm[0], 0);
            free(x[0]), free(x[1]);
            model_weights_free(&w);
            ops_close(&m);
        }
    run_precision = PRECISION_F32;
}

/* Against float32 */

/* Gradients of every tensor, without the loss scale. */
static model_weights *gradients(ops_machine *m, const model_weights *w, double scale) {
    colm_err err = {0};
    model_weights *g = run_copy(w);
    trainer t;
    graph_report r;
    uint32_t ids[2 * ROWS];
    test_tokens(5, shape.vocab, ROWS, ids, ids + ROWS);
    if (trainer_open(m, w, &t)) {
        model_graph_scale_loss(t.g, scale);
        CHECK_OK(model_graph_gradients(t.g, ids, ids + ROWS, &r, &err), err);
        CHECK_OK(model_state_download_grads(t.s, g, &err), err);
        for (size_t k = 0; k < g->n_elems; k++) g->data[k] /= (float)scale;
    }
    trainer_close(&t);
    return g;
}

static void gradients_are_close_to_float32(void) {
    static const double limit[PRECISIONS] = {0, 4e-3, 1e-4};
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        ops_machine *m = test_machine(run_machines[i]);
        model_weights *w = run_weights(&shape), *want = m ? gradients(m, w, 1) : NULL;
        for (run_precision = PRECISION_BF16; m && run_precision < PRECISIONS; run_precision++) {
            model_weights *g = gradients(m, w, 4096);
            double worst = 0;
            for (size_t t = 0; t < w->n_tensors; t++) {
                double error = 0, square = 0;
                for (size_t k = w->tensor[t].off; k < w->tensor[t].off + run_elems(&w->tensor[t]); k++) {
                    double d = (double)g->data[k] - want->data[k];
                    error += d * d, square += (double)want->data[k] * want->data[k];
                }
                CHECK(square > 0);
                worst = run_worse(worst, error / square);
            }
            printf("# %s, %s: NMSE of gradients at most %.1e\n", run_machines[i],
                   model_precision_name[run_precision], worst);
            CHECK(worst <= limit[run_precision] && worst > 0);
            model_weights_free(&g);
        }
        run_precision = PRECISION_F32;
        model_weights_free(&w), model_weights_free(&want);
        ops_close(&m);
    }
}

/* Through the loop */

typedef struct {
    double scale[64], loss[64];
    uint64_t skipped[64];
} course;

static bool follow(void *user, const train_tick *t) {
    course *c = user;
    if (t->step < 64)
        c->scale[t->step] = t->loss_scale, c->loss[t->step] = t->loss, c->skipped[t->step] = t->skipped;
    return false;
}

/* A job of the test's texts in a precision, on a machine. */
static colm_status run_job(ops_machine *m, model_precision p, train_job job, course *c, train_result *ret,
                           model_weights *w, colm_err *err) {
    job.params.precision = p;
    job.tick = follow, job.user = c;
    return train_run(m, w, &job, ret, err);
}

static void learns_as_float32_does(void) {
    static const double limit[PRECISIONS] = {0, 5e-3, 5e-3};
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        ops_machine *m = test_machine(run_machines[i]);
        double loss[PRECISIONS];
        for (model_precision p = PRECISION_F32; m && p < PRECISIONS; p++) {
            colm_err err = {0};
            course c = {0};
            train_result r = {0};
            model_weights *w = weights();
            if (CHECK_OK(run_job(m, p, job_of(40), &c, &r, w, &err), err)) {
                loss[p] = r.loss;
                double off = fabs(loss[p] - loss[0]) / loss[0];
                printf("# %s, %s: loss %.4f, %.1e from float32\n", run_machines[i], model_precision_name[p],
                       r.loss, off);
                CHECK(off <= limit[p] && (p == 0 || off > 0));
                CHECK(r.loss < 0.9 * c.loss[0]);
                CHECK(c.scale[39] == (p == PRECISION_F16 ? c.scale[0] / (double)(1 << r.skipped) : 0));
            }
            model_weights_free(&w);
        }
        ops_close(&m);
    }
}

/* Losses that weigh a thousandfold overflow at first: the scale falls, which is counted, and the training ends
 * well. A millionfold no scale can help: it fails, and says what to do. */
static void what_overflows_is_counted_or_fails(void) {
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        colm_err err = {0};
        course c = {0};
        train_result r = {0};
        ops_machine *m = test_machine(run_machines[i]);
        if (!m) continue;
        model_weights *w = weights(), *start = copy(w);
        train_job job = job_of(30);
        job.params.lambda[0] = 0, job.params.lambda[1] = 1000;
        if (CHECK_OK(run_job(m, PRECISION_F16, job, &c, &r, w, &err), err)) {
            printf("# %s: %u of 30 steps skipped, scale %g\n", run_machines[i], (unsigned)r.skipped,
                   c.scale[29]);
            CHECK(r.skipped > 0 && r.skipped < 12 && c.skipped[29] == r.skipped);
            CHECK(c.scale[0] == 65536 && c.scale[29] == 65536 / (double)(1 << r.skipped));
            CHECK(c.loss[29] < c.loss[0]);
        }
        memcpy(w->data, start->data, w->n_elems * sizeof *w->data);
        job.params.lambda[1] = 1e12;
        CHECK(run_job(m, PRECISION_F16, job, &c, &r, w, &err) == COLM_E_CHECK);
        CHECK_HAS(err.text, "step 19: 20 steps in a row");
        CHECK_HAS(err.text, "bf16");
        CHECK(same(w, start));
        CHECK_OK(run_job(m, PRECISION_BF16, job, &c, &r, w, &err), err);
        model_weights_free(&w), model_weights_free(&start);
        ops_close(&m);
    }
}

/* The first update after skipped steps is a first step of AdamW: without decay it moves what has a gradient by
 * the learning rate. Were the skipped ones counted, it would move by half of that. */
static void bias_correction_counts_updates(void) {
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        colm_err err = {0};
        course c = {0};
        train_result r = {0};
        double most = 0;
        ops_machine *m = test_machine(run_machines[i]);
        if (!m) continue;
        model_weights *w = weights(), *start = copy(w);
        train_job job = job_of(5);
        job.params.lambda[1] = 1000, job.params.decay = 0;
        CHECK_OK(run_job(m, PRECISION_F16, job, &c, &r, w, &err), err);
        CHECK(r.skipped == 4 && c.skipped[3] == 4);
        for (size_t k = 0; k < w->n_elems; k++)
            most = run_worse(most, fabs((double)w->data[k] - start->data[k]));
        CHECK_NEAR(most, train_lr(&job.params, 4), 1e-3 * train_lr(&job.params, 4));
        model_weights_free(&w), model_weights_free(&start);
        ops_close(&m);
    }
}

/* 16 bits halve what is stored in them, and a working copy comes on top. */
static void memory_is_planned(void) {
    colm_err err = {0};
    model_config c = config();
    train_params p = job_of(1).params;
    uint64_t bytes[PRECISIONS];
    for (p.precision = PRECISION_F32; p.precision < PRECISIONS; p.precision++) {
        CHECK_OK(train_memory(&c, &p, &bytes[p.precision], &err), err);
        CHECK(train_fits(&c, &p, 1000, &err) == COLM_E_MEMORY);
        CHECK((strstr(err.text, "working weights") != NULL) == (p.precision != PRECISION_F32));
    }
    CHECK(bytes[PRECISION_BF16] == bytes[PRECISION_F16]);
    p.batch = 256; /* activations are all that counts */
    for (p.precision = PRECISION_F32; p.precision < PRECISIONS; p.precision++)
        CHECK_OK(train_memory(&c, &p, &bytes[p.precision], &err), err);
    CHECK((double)bytes[PRECISION_BF16] < 0.9 * (double)bytes[PRECISION_F32]);
    for (size_t i = 0; i < RUN_MACHINES; i++) {
        ops_machine *m = test_machine(run_machines[i]);
        course unused;
        train_result r = {0};
        model_weights *w = weights();
        train_job job = job_of(1);
        job.params.precision = PRECISION_BF16;
        CHECK_OK(train_memory(&c, &job.params, &bytes[0], &err), err);
        if (m && CHECK_OK(run_job(m, PRECISION_BF16, job, &unused, &r, w, &err), err))
            CHECK(r.memory == bytes[0]);
        model_weights_free(&w);
        ops_close(&m);
    }
}

int main(void) {
    folder = scratch_open();
    if (!texts_open()) return 1;
    TEST(a_scale_halves_and_doubles);
    TEST(an_overflow_skips_the_step_and_nothing_else);
    TEST(a_power_of_two_changes_no_bit);
    TEST(gradients_are_close_to_float32);
    TEST(learns_as_float32_does);
    TEST(what_overflows_is_counted_or_fails);
    TEST(bias_correction_counts_updates);
    TEST(memory_is_planned);
    if (getenv("COLM_TEST_VALIDATE")) TEST(the_validation_layer_is_silent);
    corpus_close(&texts);
    scratch_close(&folder);
    return test_end();
}
