/* Reference in double of everything that works row by row or element by element, norms and biases apart. */
#include <math.h>
#include <string.h>

#include "engine/ops/internal.h"

/* Row of the window first .. first+count-1 (all of the table: count 0) that belongs to a token; false: none. */
static bool window_row(uint32_t token, uint32_t first, uint32_t count, size_t *row) {
    *row = (size_t)token - first;
    return !count || (token >= first && *row < count);
}

OPS_REF(embed) {
    const struct abi_embed *p = &push->embed;
    const uint32_t *token = t[0];
    const double *E = t[1];
    double *X = t[2];
    for (size_t r = 0, row; r < p->rows; r++) {
        if (!window_row(token[r], p->first, p->count, &row)) continue;
        double *x = X + r * p->ldx + p->xo;
        for (size_t c = 0; c < p->cols; c++) x[c] = (p->acc ? x[c] : 0) + p->scale * E[row * p->lde + c];
    }
}

/* dE[v] = scale times the sum of dX over the rows that hold token v */
OPS_REF(embed_grad) {
    const struct abi_embed_grad *p = &push->embed_grad;
    const uint32_t *list = t[0], *start = t[1], *order = t[2];
    const double *DX = t[3];
    double *DE = t[4];
    for (size_t u = 0, row; u < p->unique; u++) {
        if (!window_row(list[u], p->first, p->count, &row)) continue;
        double *e = DE + row * p->lde;
        for (size_t c = 0; c < p->cols; c++) {
            double s = 0;
            for (size_t j = start[u]; j < start[u + 1]; j++) s += DX[(size_t)order[j] * p->ldx + p->xo + c];
            e[c] = (p->acc ? e[c] : 0) + p->scale * s;
        }
    }
}

OPS_REF(add) {
    const struct abi_ew *p = &push->ew;
    const double *A = t[0], *B = t[1];
    double *Z = t[2];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) {
            size_t i = r * p->lda + p->ao + c;
            Z[r * p->ldz + p->zo + c] = A[i] + B[i];
        }
}

/* An activation's value and slope, by abi_ew's number. */
typedef struct {
    double value, slope;
} activated;

/* a sigma(a); sigma(a) (1 + a (1 - sigma(a))), where sigma(a) = 1/(1 + exp(-a)) */
static activated silu(double a) {
    double s = 1 / (1 + exp(-a));
    return (activated){a * s, s * (1 + a * (1 - s))};
}
/* a/2 (1 + tanh(u)) = a sigma(2u), where u = sqrt(2/pi) (a + 0.044715 a^3); sigma + a sigma (1 - sigma) 2 du/da
 */
static activated gelu_tanh(double a) {
    const double k = 1.59576912160573071176;
    double s = 1 / (1 + exp(-k * (a + 0.044715 * a * a * a)));
    return (activated){a * s, s + a * s * (1 - s) * k * (1 + 3 * 0.044715 * a * a)};
}
/* a Phi(a); Phi(a) + a exp(-a^2/2) / sqrt(2 pi), where Phi(a) = erfc(-a/sqrt(2))/2 */
static activated gelu(double a) {
    double phi = erfc(-a * 0.70710678118654752440) / 2;
    return (activated){a * phi, phi + a * exp(-a * a / 2) * 0.39894228040143267794};
}
static activated (*const activation[])(double) = {silu, gelu_tanh, gelu};

OPS_REF(swiglu) {
    const struct abi_ew *p = &push->ew;
    const double *A = t[0], *B = t[1];
    double *Z = t[2];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) {
            size_t i = r * p->lda + p->ao + c;
            Z[r * p->ldz + p->zo + c] = activation[p->act](A[i]).value * (p->plain ? 1 : B[i]);
        }
}

/* dA = dZ B act'(a), dB = dZ act(a); plain: dA = dZ act'(a) */
OPS_REF(swiglu_grad) {
    const struct abi_ew *p = &push->ew;
    double *A = t[0], *B = t[1];
    const double *DZ = t[2];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) {
            size_t i = r * p->lda + p->ao + c;
            activated a = activation[p->act](A[i]);
            A[i] = DZ[i] * a.slope * (p->plain ? 1 : B[i]);
            if (!p->plain) B[i] = DZ[i] * a.value;
        }
}

static double capped(const struct abi_xent *p, double l) {
    return p->cap > 0 ? p->cap * tanh(l / p->cap) : l;
}

/* Natural logarithm of sum exp over a row's logits, capped; *first is the index of the first maximum. */
static double log_sum_exp(const struct abi_xent *p, const double *l, size_t *first) {
    size_t m = 0;
    for (size_t i = 1; i < p->vocab; i++)
        if (l[i] > l[m]) m = i;
    double sum = 0, most = capped(p, l[m]);
    for (size_t i = 0; i < p->vocab; i++) sum += exp(capped(p, l[i]) - most);
    *first = m;
    return most + log(sum);
}

OPS_REF(xent) {
    const struct abi_xent *p = &push->xent;
    const double *L = t[0];
    const uint32_t *target = t[1];
    double *NLL = t[2];
    uint32_t *top = t[3];
    for (size_t r = 0; r < p->rows; r++) {
        size_t first;
        double lse = log_sum_exp(p, L + r * p->ld, &first);
        bool has = target[r] != ABI_NO_TARGET;
        NLL[r] = has ? lse - capped(p, L[r * p->ld + target[r]]) : 0;
        top[r] = has && first == target[r];
    }
}

/* dL = weight (softmax - onehot(target)), times 1 - tanh(l / cap)^2 = 1 / cosh(l / cap)^2 of capped logits, on
 * rows with a target, 0 elsewhere, pads and rows up to the next 16 included */
OPS_REF(xent_grad) {
    const struct abi_xent *p = &push->xent;
    double *L = t[0], *NLL = t[2];
    const uint32_t *target = t[1];
    for (size_t r = 0; r < ops_rows(p->rows); r++) {
        double *l = L + r * p->ld;
        bool has = r < p->rows && target[r] != ABI_NO_TARGET;
        size_t first;
        double lse = has ? log_sum_exp(p, l, &first) : 0;
        if (r < p->rows) NLL[r] = has ? lse - capped(p, l[target[r]]) : 0;
        for (size_t c = 0; c < ops_pad(p->vocab); c++) {
            if (!has || c >= p->vocab) {
                l[c] = 0;
                continue;
            }
            double slope = p->cap > 0 ? pow(cosh(l[c] / p->cap), -2) : 1;
            l[c] = p->weight * (exp(capped(p, l[c]) - lse) - (c == target[r])) * slope;
        }
    }
}

OPS_REF(sumsq) {
    const struct abi_sumsq *p = &push->sumsq;
    const double *X = t[0];
    double *partial = t[1];
    for (size_t i = 0, g = 0; i < p->n; g++) {
        double s = 0;
        for (size_t end = i + ABI_SUMSQ_CHUNK; i < p->n && i < end; i++) s += X[i] * X[i];
        partial[p->po + g] = s;
    }
}

OPS_REF(clip) {
    const struct abi_clip *p = &push->clip;
    const double *partial = t[0];
    double *out = t[1], s = 0;
    for (size_t i = 0; i < p->n; i++) s += partial[i];
    out[0] = p->unscale * sqrt(s);
    out[1] = p->unscale * (p->clip > 0 && !(out[0] <= p->clip) ? p->clip / out[0] : 1);
    out[2] = !isfinite(out[0]);
    if (out[2] != 0) out[1] = 0;
}

OPS_REF(adamw) {
    const struct abi_adamw *p = &push->adamw;
    double *P = t[0], *M = t[2], *V = t[3];
    const double *G = t[1], *out = t[4];
    if (out[2] != 0) return;
    for (size_t i = 0; i < p->n; i++) {
        double g = G[i] * out[1];
        M[i] = p->beta1 * M[i] + (1 - (double)p->beta1) * g;
        V[i] = p->beta2 * V[i] + (1 - (double)p->beta2) * g * g;
        P[i] -= p->lr * (M[i] * p->c1 / (sqrt(V[i] * p->c2) + p->eps) + p->decay * P[i]);
    }
}

OPS_REF(zero) {
    double *X = t[0];
    memset(X, 0, push->zero.n * sizeof *X);
}

/* Y's own rounding is the machine's to do. */
OPS_REF(cast) {
    memcpy(t[1], t[0], push->cast.n * sizeof(double));
}
