/* Stamps of the device's own clock: taken between dispatches, read afterwards, in an order that makes sense. */
#include "tests/gpu/bench.h"
#include "tests/gpu/kernels.h"

#define N (1u << 20)

static gpu_device *dev;

/* False, with the case marked as skipped, where there is no clock to try. */
static bool have_clock(void) {
    if (!dev)
        test_skip("no device");
    else if (!gpu_has_clock(dev))
        test_skip("the device has no timestamps");
    return dev && gpu_has_clock(dev);
}

/* Begins a recording of `steps` dispatches with stamps around them. */
static bool record(gpu_clock *c, uint32_t steps, gpu_kernel *k, gpu_set *s, colm_err *err) {
    const uint32_t n = N;
    bool ok = CHECK_OK(gpu_begin(dev, err), *err) && CHECK_OK(gpu_clock_stamp(dev, c, err), *err);
    for (uint32_t i = 0; i < steps && ok; i++) {
        gpu_barrier(dev);
        ok = CHECK_OK(gpu_dispatch(dev, k, s, &n, sizeof n, (uint32_t[]){N / 64, 1, 1}, 1000, err), *err) &&
             CHECK_OK(gpu_clock_stamp(dev, c, err), *err);
    }
    return ok;
}

static void stamps_follow_the_work(void) {
    colm_err err = {0};
    double at[5] = {0}, again[3];
    gpu_clock *c = NULL;
    gpu_buffer *a = NULL, *b = NULL;
    gpu_kernel *k = NULL;
    gpu_set *s = NULL;
    if (!have_clock()) return;
    bool ok = CHECK_OK(gpu_buffer_create(dev, 4 * N, "a", &a, &err), err) &&
              CHECK_OK(gpu_buffer_create(dev, 4 * N, "b", &b, &err), err) &&
              CHECK_OK(gpu_kernel_get(dev, &(gpu_kernel_params){.file = "step.comp"}, &k, &err), err) &&
              CHECK_OK(gpu_bind(dev, k, (gpu_range[]){{a, 0, 4 * N}, {b, 0, 4 * N}}, 2, &s, &err), err) &&
              CHECK_OK(gpu_clock_create(dev, 5, &c, &err), err);
    const double before = clock_seconds();
    ok = ok && record(c, 4, k, s, &err);
    if (ok) {
        CHECK(gpu_clock_stamp(dev, c, &err) == COLM_E_BUG); /* one too many */
        CHECK_HAS(err.text, "room for 5");
        CHECK(gpu_clock_read(dev, c, at, 5, &err) == COLM_E_BUG); /* still recording */
    }
    CHECK_OK(gpu_end(dev, &err), err);
    const double wall = clock_seconds() - before;
    if (ok && CHECK_OK(gpu_clock_read(dev, c, at, 5, &err), err)) {
        CHECK(at[0] == 0);
        for (int i = 1; i < 5; i++) CHECK(at[i] > at[i - 1]); /* a million elements take some time */
        CHECK(at[4] <= 1.05 * wall + 1e-3);
    }
    /* The next recording starts anew, with fewer. */
    ok = ok && record(c, 2, k, s, &err);
    CHECK_OK(gpu_end(dev, &err), err);
    if (ok) {
        CHECK(gpu_clock_read(dev, c, at, 4, &err) == COLM_E_BUG);
        CHECK_HAS(err.text, "4 stamps of 3");
        CHECK_OK(gpu_clock_read(dev, c, again, 3, &err), err);
        CHECK(again[0] == 0 && again[1] > 0 && again[2] > again[1]);
        CHECK(gpu_clock_stamp(dev, c, &err) == COLM_E_BUG); /* outside a recording */
    }
    gpu_clock_free(dev, &c);
    CHECK(!c);
    gpu_clock_free(dev, &c);
    gpu_unbind(dev, &s);
    gpu_buffer_free(&a), gpu_buffer_free(&b);
}

static void a_narrow_clock_may_run_over(void) {
    if (!have_clock()) return;
    colm_err err = {0};
    double at[2];
    gpu_clock *c = NULL;
    const uint32_t bits = dev->found.stamp_bits;
    if (!CHECK_OK(gpu_clock_create(dev, 2, &c, &err), err)) return;
    CHECK_OK(gpu_begin(dev, &err), err);
    CHECK_OK(gpu_clock_stamp(dev, c, &err), err);
    CHECK_OK(gpu_clock_stamp(dev, c, &err), err);
    CHECK_OK(gpu_end(dev, &err), err);
    dev->found.stamp_bits = 36; /* the fewest that there may be: 69 s of nanoseconds */
    CHECK_OK(gpu_clock_read(dev, c, at, 2, &err), err);
    CHECK(at[0] == 0 && at[1] >= 0 && at[1] < 69);
    dev->found.stamp_bits = bits;
    gpu_clock_free(dev, &c);
}

static void masked_it_is_not_there(void) {
    if (!have_clock()) return;
    const gpu_switches s = {.no_timestamps = true};
    gpu_params p = bench_params();
    colm_err err = {0};
    gpu_clock *c = NULL;
    p.switches = &s;
    gpu_device *d = bench_open(&p);
    if (!d) return;
    CHECK(!gpu_has_clock(d));
    CHECK(gpu_clock_create(d, 2, &c, &err) == COLM_E_BUG && !c);
    CHECK_HAS(err.text, "no timestamps");
    gpu_close(&d);
}

static void what_cannot_be_true_is_not_believed(void) {
    const double good[] = {0, 0.01, 0.01, 0.05}, back[] = {0, 0.02, 0.01, 0.05}, none[] = {0, 0, 0, 0};
    const double nan[] = {0, NAN, 0.01, 0.05};
    CHECK(gpu_clock_credible(good, 4, 0.05));
    CHECK(gpu_clock_credible(good, 4, 0.19));
    CHECK(!gpu_clock_credible(good, 4, 0.21)); /* most of a long recording is missing */
    CHECK(!gpu_clock_credible(good, 4, 0.04)); /* longer than the host saw */
    CHECK(!gpu_clock_credible(back, 4, 0.05));
    CHECK(!gpu_clock_credible(none, 4, 0.05));
    CHECK(!gpu_clock_credible(nan, 4, 0.05));
    const double small[] = {0, 1e-5};
    CHECK(gpu_clock_credible(small, 2, 0.01)); /* a short one is mostly waiting */
}

int main(void) {
    bench_folders();
    bench_put("step.comp", STEP);
    const gpu_params p = bench_params();
    dev = bench_open(&p);
    TEST(stamps_follow_the_work);
    TEST(a_narrow_clock_may_run_over);
    TEST(masked_it_is_not_there);
    TEST(what_cannot_be_true_is_not_believed);
    if (dev && gpu_validation_messages(dev)) {
        printf("# the validation layer objected\n");
        test_failed_++;
    }
    gpu_close(&dev);
    bench_done();
    return test_end();
}
