/* The schedule: number of steps, learning rate of each. */
#include "engine/train/params.h"
#include "tests/test.h"

static train_params base(void) {
    return (train_params){.batch = 4, .context = 8, .tokens = 320, .lr = 1e-3, .min_lr = 0.1, .warmup = 4};
}

static void steps_round_up(void) {
    train_params p = base();
    CHECK(train_steps(&p) == 10);
    p.tokens = 321;
    CHECK(train_steps(&p) == 11);
    p.tokens = 1;
    CHECK(train_steps(&p) == 1);
    p.tokens = 0;
    CHECK(train_steps(&p) == 0);
    p.tokens = 1ull << 50;
    p.batch = 1 << 12;
    p.context = 1 << 12;
    CHECK(train_steps(&p) == 1ull << 26);
    p.tokens = UINT64_MAX;
    p.batch = p.context = 1;
    CHECK(train_steps(&p) == UINT64_MAX);
    p.batch = 0;
    CHECK(train_steps(&p) == 0);
}

static void rises_then_falls(void) {
    train_params p = base();
    CHECK_NEAR(train_lr(&p, 0), 0.25e-3, 1e-18);
    CHECK_NEAR(train_lr(&p, 1), 0.50e-3, 1e-18);
    CHECK_NEAR(train_lr(&p, 3), 1e-3, 1e-18);
    CHECK_NEAR(train_lr(&p, 4), 1e-3, 1e-18);
    CHECK_NEAR(train_lr(&p, 7), 0.55e-3, 1e-18); // half way of 6: middle of 1 and 0.1
    CHECK_NEAR(train_lr(&p, 10), 0.1e-3, 1e-18); // past the end: the floor
    for (uint64_t s = 4; s < 10; s++) CHECK(train_lr(&p, s + 1) < train_lr(&p, s));
}

/* Every step of every odd warmup has a finite rate in (0, lr], even with a floor of 0. */
static void no_step_is_zero_or_undefined(void) {
    static const uint32_t warmup[] = {0, 1, 9, 10, 11, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof warmup / sizeof *warmup; i++) {
        train_params p = base();
        p.warmup = warmup[i];
        p.min_lr = 0;
        for (uint64_t s = 0; s < 10; s++) CHECK(train_lr(&p, s) > 0 && train_lr(&p, s) <= p.lr);
    }
    train_params p = base();
    p.warmup = 0;
    CHECK_NEAR(train_lr(&p, 0), 1e-3, 0);
    p.tokens = 1;
    CHECK_NEAR(train_lr(&p, 0), 1e-3, 0); // a single step trains at the peak
    p = base();
    p.min_lr = 1;
    p.warmup = 0;
    for (uint64_t s = 0; s < 10; s++) CHECK_NEAR(train_lr(&p, s), 1e-3, 1e-18);
}

int main(void) {
    TEST(steps_round_up);
    TEST(rises_then_falls);
    TEST(no_step_is_zero_or_undefined);
    return test_end();
}
