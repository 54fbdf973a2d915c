/* Faults while a model trains: memory that runs out at any buffer, a device lost at any submission, a gradient
 * that is not a number. One clear line, the right status, weights as they were, nothing left behind. */
#include "tests/train/jobs.h"

/* A job of three steps on a machine with these switches; false when there is no device. */
static bool train_with(const char *device, gpu_switches s, colm_status *ret, colm_err *err, bool *ret_kept) {
    ops_machine *m = NULL;
    train_job job = job_of(3);
    train_result r = {.steps = 77};
    model_weights *w = weights(), *before = copy(w);
    *err = (colm_err){0};
    *ret = ops_open(&(ops_open_params){.device = device, .switches = &s}, &m, err);
    const bool there = *ret != COLM_E_NO_DEVICE;
    if (m) {
        *ret = train_run(m, w, &job, &r, err);
        CHECK(ops_bytes(m, NULL) == 0);
        CHECK((r.steps == 77) == (*ret != COLM_OK));
    }
    *ret_kept = same(before, w);
    ops_close(&m);
    model_weights_free(&w), model_weights_free(&before);
    return there;
}

static void clear_line(const colm_err *err) {
    CHECK(*err->text && !strchr(err->text, '\n') && strlen(err->text) < sizeof err->text - 1);
}

static void memory_runs_out_at_any_buffer(void) {
    colm_status st = COLM_E_BUG;
    colm_err err;
    bool kept;
    uint64_t n = 0;
    while (st && n < 60) {
        if (!train_with(NULL, (gpu_switches){.alloc_fail = ++n}, &st, &err, &kept)) {
            test_skip("no Vulkan device");
            return;
        }
        CHECK(kept == (st != COLM_OK));
        if (!st) break;
        CHECK(st == COLM_E_MEMORY);
        CHECK_HAS(err.text, "could not be had");
        clear_line(&err);
    }
    CHECK(!st && n > 10); /* more buffers than that were refused, one at a time */
}

static void a_cap_below_the_need_stops_before_the_first_step(void) {
    colm_status st;
    colm_err err;
    bool kept;
    uint64_t need = 0;
    train_job job = job_of(3);
    model_config c = config();
    CHECK_OK(train_memory(&c, &job.params, &need, &err), err);
    if (!train_with(NULL, (gpu_switches){.alloc_cap = need - 1}, &st, &err, &kept)) {
        test_skip("no Vulkan device");
        return;
    }
    char number[32];
    snprintf(number, sizeof number, "%llu bytes", (unsigned long long)need);
    CHECK(st == COLM_E_MEMORY && kept);
    CHECK_HAS(err.text, number);
    CHECK(!strstr(err.text, "step 0:"));
    clear_line(&err);
    train_with(NULL, (gpu_switches){.alloc_cap = need + 256 * 40}, &st, &err, &kept); /* buffers are rounded */
    CHECK_OK(st, err);
    CHECK(!kept);
}

static void the_device_is_lost_at_any_submission(void) {
    colm_status st = COLM_E_BUG;
    colm_err err;
    bool kept;
    for (uint64_t n = 1; n < 60; n++) {
        if (!train_with(NULL, (gpu_switches){.device_lost = n}, &st, &err, &kept)) {
            test_skip("no Vulkan device");
            return;
        }
        CHECK(kept == (st != COLM_OK));
        if (!st) {
            CHECK(n > 3); /* each of the three steps was one */
            return;
        }
        CHECK(st == COLM_E_DEVICE);
        CHECK_HAS(err.text, "was lost in vkQueueSubmit");
        clear_line(&err);
    }
    CHECK(!"it never ended well");
}

static void a_gradient_that_is_not_a_number_stops_the_run(void) {
    static const char *const devices[] = {"reference", NULL};
    for (int i = 0; i < 2; i++)
        for (uint64_t n = 1; n <= 4; n++) {
            colm_status st;
            colm_err err;
            bool kept;
            char step[16];
            if (!train_with(devices[i], (gpu_switches){.nan_grad = n}, &st, &err, &kept)) {
                test_skip("no Vulkan device");
                return;
            }
            snprintf(step, sizeof step, "step %d: loss ", (int)n - 1);
            CHECK(kept == (n <= 3) && st == (n <= 3 ? COLM_E_CHECK : COLM_OK));
            if (!st) continue;
            CHECK_HAS(err.text, step);
            CHECK_HAS(err.text, "gradient norm nan");
            CHECK(!strstr(err.text, "loss nan"));
            clear_line(&err);
        }
}

/* Also between the micro-batches of a step. */
static void accumulated_gradients_too(void) {
    const gpu_switches s = {.nan_grad = 2};
    ops_machine *m = NULL;
    colm_err err = {0};
    train_result r;
    train_job job = job_of(6);
    job.params.accumulate = 2;
    model_weights *w = weights(), *before = copy(w);
    CHECK_OK(ops_open(&(ops_open_params){.device = "reference", .switches = &s}, &m, &err), err);
    CHECK(m && train_run(m, w, &job, &r, &err) == COLM_E_CHECK && same(before, w));
    CHECK_HAS(err.text, "step 1: ");
    ops_close(&m);
    model_weights_free(&w), model_weights_free(&before);
}

int main(void) {
    unsetenv("COLM_DEBUG");
    folder = scratch_open();
    if (!texts_open()) return 1;
    TEST(memory_runs_out_at_any_buffer);
    TEST(a_cap_below_the_need_stops_before_the_first_step);
    TEST(the_device_is_lost_at_any_submission);
    TEST(a_gradient_that_is_not_a_number_stops_the_run);
    TEST(accumulated_gradients_too);
    corpus_close(&texts);
    scratch_close(&folder);
    return test_end();
}
