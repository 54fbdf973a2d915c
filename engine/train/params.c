#include "engine/train/params.h"

#include <math.h>

#define PI 3.14159265358979323846

uint64_t train_steps(const train_params *p) {
    uint64_t step = (uint64_t)p->batch * p->context * (p->accumulate ? p->accumulate : 1);
    return step ? p->tokens / step + (p->tokens % step != 0) : 0;
}

double train_lr(const train_params *p, uint64_t step) {
    uint64_t steps = train_steps(p);
    if (step < p->warmup) return p->lr * ((double)step + 1) / p->warmup;
    if (step >= steps) return p->lr * p->min_lr;
    double part = (double)(step - p->warmup) / (double)(steps - p->warmup); // 0 .. below 1
    return p->lr * (p->min_lr + (1 - p->min_lr) * 0.5 * (1 + cos(PI * part)));
}
