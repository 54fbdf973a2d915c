/* Numbers out of scores: pure functions. */
#ifndef COLM_EVAL_METRICS_H
#define COLM_EVAL_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* Index of the first maximum of x[i] / by[i] (by NULL: of x[i]). n > 0, no NaN. */
uint32_t metric_first_max(const double *x, const double *by, uint32_t n);

typedef struct {
    double value, stderr_; /* NAN: none (n < 2) */
} metric;
/* `right` of n: mean, and sample standard deviation (n - 1) over sqrt(n). n > 0. */
metric metric_share(size_t right, size_t n);
/* r = sum x / sum y. Its variance by the delta method: n/(n-1) * sum (x - r*y)^2 / (sum y)^2. n > 0, sum y > 0.
 */
metric metric_ratio(const double *x, const double *y, size_t n);

#endif
