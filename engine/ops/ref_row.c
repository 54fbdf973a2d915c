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

/* silu(a) = a sigma(a); sigma(a) = 1/(1 + exp(-a)) */
OPS_REF(swiglu) {
    const struct abi_ew *p = &push->ew;
    const double *A = t[0], *B = t[1];
    double *Z = t[2];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) {
            size_t i = r * p->lda + p->ao + c;
            Z[r * p->ldz + p->zo + c] = A[i] / (1 + exp(-A[i])) * B[i];
        }
}

/* dA = dZ B sigma(a) (1 + a (1 - sigma(a))), dB = dZ a sigma(a) */
OPS_REF(swiglu_grad) {
    const struct abi_ew *p = &push->ew;
    double *A = t[0], *B = t[1];
    const double *DZ = t[2];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) {
            size_t i = r * p->lda + p->ao + c;
            double a = A[i], s = 1 / (1 + exp(-a));
            A[i] = DZ[i] * B[i] * s * (1 + a * (1 - s));
            B[i] = DZ[i] * a * s;
        }
}

/* Natural logarithm of sum exp over a row; *first is the index of the first maximum. */
static double log_sum_exp(const double *x, size_t n, size_t *first) {
    size_t m = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[m]) m = i;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp(x[i] - x[m]);
    *first = m;
    return x[m] + log(sum);
}

OPS_REF(xent) {
    const struct abi_xent *p = &push->xent;
    const double *L = t[0];
    const uint32_t *target = t[1];
    double *NLL = t[2];
    uint32_t *top = t[3];
    for (size_t r = 0; r < p->rows; r++) {
        size_t first;
        double lse = log_sum_exp(L + r * p->ld, p->vocab, &first);
        bool has = target[r] != ABI_NO_TARGET;
        NLL[r] = has ? lse - L[r * p->ld + target[r]] : 0;
        top[r] = has && first == target[r];
    }
}

/* dL = weight (softmax - onehot(target)) on rows with a target, 0 elsewhere, pads and rows up to the next 16
 * included */
OPS_REF(xent_grad) {
    const struct abi_xent *p = &push->xent;
    double *L = t[0], *NLL = t[2];
    const uint32_t *target = t[1];
    for (size_t r = 0; r < ops_rows(p->rows); r++) {
        double *l = L + r * p->ld;
        bool has = r < p->rows && target[r] != ABI_NO_TARGET;
        size_t first;
        double lse = has ? log_sum_exp(l, p->vocab, &first) : 0;
        if (r < p->rows) NLL[r] = has ? lse - l[target[r]] : 0;
        for (size_t c = 0; c < ops_pad(p->vocab); c++)
            l[c] = has && c < p->vocab ? p->weight * (exp(l[c] - lse) - (c == target[r])) : 0;
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
    out[0] = sqrt(s);
    out[1] = p->clip > 0 && !(out[0] <= p->clip) ? p->clip / out[0] : 1;
}

OPS_REF(adamw) {
    const struct abi_adamw *p = &push->adamw;
    double *P = t[0], *M = t[2], *V = t[3];
    const double *G = t[1], *out = t[4];
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
