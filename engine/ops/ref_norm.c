/* Reference in double of norms and biases. */
#include <math.h>

#include "engine/ops/internal.h"

/* What multiplies: g, or 1 + g. */
static double gain_of(uint32_t kind, double g) {
    return kind == ABI_NORM_RMS_PLUS ? 1 + g : g;
}

OPS_REF(norm) {
    const struct abi_norm *p = &push->norm;
    const double *X = t[0], *g = t[1];
    double *Y = t[2], *S = t[3];
    for (size_t r = 0; r < p->rows; r++) {
        const double *x = X + r * p->ldx + p->xo;
        double *y = Y + r * p->ldy + p->yo, mean = 0, sum = 0;
        for (size_t c = 0; c < p->width && p->kind == ABI_NORM_LAYER; c++) mean += x[c] / p->width;
        for (size_t c = 0; c < p->width; c++) sum += (x[c] - mean) * (x[c] - mean);
        double s = 1 / sqrt(sum / p->width + p->eps);
        for (size_t c = 0; c < p->cols; c++)
            y[c] = c < p->width ? (x[c] - mean) * s * gain_of(p->kind, g[c]) : 0;
        S[p->so + r] = s;
        if (p->kind == ABI_NORM_LAYER) S[p->mo + r] = mean;
    }
}

/* With u = X, or X - mean: dX += s (g dY) - u s^3 / width sum_c (g dY u), and less s mean(g dY) for layer norm
 */
OPS_REF(norm_dx) {
    const struct abi_norm *p = &push->norm;
    const double *X = t[0], *g = t[1], *S = t[2], *DY = t[3];
    double *DX = t[4];
    bool layer = p->kind == ABI_NORM_LAYER;
    for (size_t r = 0; r < p->rows; r++) {
        const double *x = X + r * p->ldx + p->xo, *dy = DY + r * p->ldy + p->yo;
        double *dx = DX + r * p->ldx + p->xo, s = S[p->so + r], mean = layer ? S[p->mo + r] : 0, sum = 0,
               share = 0;
        for (size_t c = 0; c < p->width; c++) {
            double gdy = gain_of(p->kind, g[c]) * dy[c];
            sum += gdy * (x[c] - mean);
            share += layer ? gdy / p->width : 0;
        }
        double a = s * s * s * sum / p->width;
        for (size_t c = 0; c < p->width; c++)
            dx[c] += s * (gain_of(p->kind, g[c]) * dy[c] - share) - a * (x[c] - mean);
    }
}

/* dg[c] += sum_r dY[r, c] (X[r, c] - mean[r]) s[r] */
OPS_REF(norm_dg) {
    const struct abi_norm *p = &push->norm;
    const double *X = t[0], *S = t[1], *DY = t[2];
    double *DG = t[3];
    for (size_t r = 0; r < p->rows; r++) {
        double mean = p->kind == ABI_NORM_LAYER ? S[p->mo + r] : 0;
        for (size_t c = 0; c < p->width; c++)
            DG[c] += DY[r * p->ldy + p->yo + c] * (X[r * p->ldx + p->xo + c] - mean) * S[p->so + r];
    }
}

OPS_REF(head_norm) {
    const struct abi_head_norm *p = &push->head_norm;
    const double *X = t[0], *g = t[1];
    double *Y = t[2], *S = t[3];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t h = 0; h < p->heads; h++) {
            const double *x = X + r * p->ldx + p->xo + h * p->hd;
            double *y = Y + r * p->ldy + p->yo + h * p->hd, sum = 0;
            for (size_t d = 0; d < p->hd; d++) sum += x[d] * x[d];
            double s = 1 / sqrt(sum / p->hd + p->eps);
            for (size_t d = 0; d < p->hd; d++) y[d] = x[d] * s * gain_of(p->kind, g[d]);
            S[p->so + h * p->rows + r] = s;
        }
}

/* dX = s (g dY) - X s^3 / hd sum_d (g dY X) */
OPS_REF(head_norm_dx) {
    const struct abi_head_norm *p = &push->head_norm;
    const double *X = t[0], *g = t[1], *S = t[2], *DY = t[3];
    double *DX = t[4];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t h = 0; h < p->heads; h++) {
            size_t at = r * p->ldx + p->xo + h * p->hd;
            const double *x = X + at, *dy = DY + r * p->ldy + p->yo + h * p->hd;
            double *dx = DX + at, s = S[p->so + h * p->rows + r], sum = 0;
            for (size_t d = 0; d < p->hd; d++) sum += gain_of(p->kind, g[d]) * dy[d] * x[d];
            double a = s * s * s * sum / p->hd;
            for (size_t d = 0; d < p->hd; d++) dx[d] = s * gain_of(p->kind, g[d]) * dy[d] - a * x[d];
        }
}

/* dg[d] += sum over heads and rows of dY X s */
OPS_REF(head_norm_dg) {
    const struct abi_head_norm *p = &push->head_norm;
    const double *X = t[0], *S = t[1], *DY = t[2];
    double *DG = t[3];
    for (size_t h = 0; h < p->heads; h++)
        for (size_t r = 0; r < p->rows; r++)
            for (size_t d = 0; d < p->hd; d++)
                DG[d] += DY[r * p->ldy + p->yo + h * p->hd + d] * X[r * p->ldx + p->xo + h * p->hd + d] *
                         S[p->so + h * p->rows + r];
}

OPS_REF(bias) {
    const struct abi_bias *p = &push->bias;
    double *Y = t[0];
    const double *b = t[1];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) Y[r * p->ld + p->o + c] += b[c];
}

/* db[c] += sum_r dY[r, c] */
OPS_REF(bias_grad) {
    const struct abi_bias *p = &push->bias;
    const double *DY = t[0];
    double *DB = t[1];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) DB[c] += DY[r * p->ld + p->o + c];
}
