#include "engine/eval/metrics.h"

#include <math.h>

uint32_t metric_first_max(const double *x, const double *by, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        double at = by ? x[i] / by[i] : x[i], most = by ? x[best] / by[best] : x[best];
        if (at > most) best = i;
    }
    return best;
}

metric metric_share(size_t right, size_t n) {
    double p = (double)right / (double)n;
    return (metric){p, n > 1 ? sqrt(p * (1 - p) / (double)(n - 1)) : NAN};
}

metric metric_ratio(const double *x, const double *y, size_t n) {
    double sx = 0, sy = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sx += x[i], sy += y[i];
    const double r = sx / sy;
    for (size_t i = 0; i < n; i++) squares += (x[i] - r * y[i]) * (x[i] - r * y[i]);
    return (metric){r, n > 1 ? sqrt((double)n / (double)(n - 1) * squares) / sy : NAN};
}
