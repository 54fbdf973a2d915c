#include "engine/eval/metrics.h"

#include "tests/test.h"

static void shares(void) {
    metric m = metric_share(14, 307);
    CHECK_NEAR(m.value, 0.0456026, 5e-8);
    CHECK_NEAR(m.stderr_, 0.0119261, 5e-8);
    m = metric_share(1, 1);
    CHECK(m.value == 1 && isnan(m.stderr_));
    m = metric_share(0, 2);
    CHECK(m.value == 0 && m.stderr_ == 0);
    // Against the definition: sample standard deviation of zeros and ones over sqrt(n).
    double mean = 3.0 / 7, squares = 3 * (1 - mean) * (1 - mean) + 4 * mean * mean;
    CHECK_NEAR(metric_share(3, 7).stderr_, sqrt(squares / 6) / sqrt(7), 1e-15);
}

static void first_maximum(void) {
    CHECK(metric_first_max((double[]){-2, -1, -1, -3}, NULL, 4) == 1);
    CHECK(metric_first_max((double[]){-1, -1, -1}, NULL, 3) == 0);
    CHECK(metric_first_max((double[]){-1}, NULL, 1) == 0);
    CHECK(metric_first_max((double[]){-2, -4, -3}, (double[]){1, 2, 1.5}, 3) == 0); // all equal after division
    CHECK(metric_first_max((double[]){-2, -4, -3}, (double[]){1, 3, 1}, 3) == 1);
}

static void ratios(void) {
    metric m = metric_ratio((double[]){2, 3}, (double[]){1, 1}, 2); // equal units: the plain mean
    CHECK_NEAR(m.value, 2.5, 1e-15);
    CHECK_NEAR(m.stderr_, sqrt(0.5) / sqrt(2), 1e-15);
    m = metric_ratio((double[]){2, 4, 6}, (double[]){1, 2, 3}, 3); // proportional: known exactly
    CHECK(m.value == 2 && m.stderr_ == 0);
    m = metric_ratio((double[]){10}, (double[]){4}, 1);
    CHECK(m.value == 2.5 && isnan(m.stderr_));
    // x = {1, 5}, y = {1, 3}: r = 1.5, residuals -0.5 and 0.5, variance 2/1 * 0.5 / 16.
    m = metric_ratio((double[]){1, 5}, (double[]){1, 3}, 2);
    CHECK_NEAR(m.stderr_, 0.25, 1e-15);
}

int main(void) {
    TEST(shares);
    TEST(first_maximum);
    TEST(ratios);
    return test_end();
}
