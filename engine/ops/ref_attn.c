/* Reference of rotary positions and causal attention in double. */
#include <math.h>

#include "engine/ops/internal.h"

/* (a, b) -> (a c - s b, b c + s a) for the two halves of every head; the inverse has sign -1 (a rotation). */
OPS_REF(rope) {
    const struct abi_rope *p = &push->rope;
    double *X = t[0];
    const double *table = t[1];
    size_t half = p->hd / 2;
    for (size_t r = 0; r < p->rows; r++) {
        const double *c = table + (r % p->T) * p->hd, *s = c + half;
        for (size_t h = 0; h < p->heads; h++) {
            double *x = X + r * p->ld + p->xo + h * p->hd;
            for (size_t i = 0; i < half; i++) {
                double a = x[i], b = x[half + i], sn = p->sign * s[i];
                x[i] = a * c[i] - b * sn;
                x[half + i] = b * c[i] + a * sn;
            }
        }
    }
}

static double dot(const double *a, const double *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/* Columns of the key-value head that query head h reads. */
static size_t kv_column(const struct abi_attn *p, size_t h) {
    size_t kv = p->map ? (p->h0 + h) % p->kv_heads : h * p->kv_heads / p->heads;
    return p->ko + kv * p->hd;
}

/* The first row that row r sees. */
static size_t first_row(const struct abi_attn *p, const uint32_t *first, size_t r) {
    return r - r % p->T + (p->masked ? first[r] : 0);
}

/* The score s = scale q.k or its cap c tanh(s/c), and its derivative by scale q.k: 1 or 1 - tanh(s/c)^2. */
static double score(const struct abi_attn *p, const double *q, const double *k, double *slope) {
    double s = p->scale * dot(q, k, p->hd), t = p->cap > 0 ? tanh(s / p->cap) : 0;
    *slope = 1 - t * t;
    return p->cap > 0 ? p->cap * t : s;
}

/* O = sum_j P_j V_j with P = softmax_j(score(q, k_j)), first <= j <= i; lse = log sum_j exp(score). */
OPS_REF(attn) {
    const struct abi_attn *p = &push->attn;
    const double *Q = t[0], *K = t[1], *V = t[2];
    const uint32_t *F = t[3];
    double *O = t[4], *S = t[5], slope;
    for (size_t r = 0; r < p->rows; r++)
        for (size_t h = 0; h < p->heads; h++) {
            const double *q = Q + r * p->ldq + p->qo + h * p->hd;
            size_t kv = kv_column(p, h), first = first_row(p, F, r);
            double *o = O + r * p->ldo + p->oo + h * p->hd;
            double max = -INFINITY, sum = 0;
            for (size_t j = first; j <= r; j++) max = fmax(max, score(p, q, K + j * p->ldk + kv, &slope));
            for (size_t i = 0; i < p->hd; i++) o[i] = 0;
            for (size_t j = first; j <= r; j++) {
                double e = exp(score(p, q, K + j * p->ldk + kv, &slope) - max);
                sum += e;
                for (size_t i = 0; i < p->hd; i++) o[i] += e * V[j * p->ldk + kv + i];
            }
            for (size_t i = 0; i < p->hd; i++) o[i] /= sum;
            S[p->so + h * p->rows + r] = max + log(sum);
        }
}

/* delta = sum_i dO_i O_i = sum_j P_j (dO.V_j), the term that every score's gradient subtracts. */
OPS_REF(attn_delta) {
    const struct abi_attn *p = &push->attn;
    const double *O = t[0], *DO = t[1];
    double *S = t[2];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t h = 0; h < p->heads; h++) {
            size_t o = r * p->ldo + p->oo + h * p->hd;
            S[p->dlo + h * p->rows + r] = dot(O + o, DO + o, p->hd);
        }
}

/* P = exp(score - lse) of a query (row r, head h) and a key row j, and the gradient of scale q.k:
 * dS = P (dO.V_j - delta), times the cap's slope. */
static double pair(const struct abi_attn *p, void *const t[], size_t r, size_t h, size_t j, double *P) {
    const double *Q = t[0], *K = t[1], *V = t[2], *DO = t[3], *S = t[4];
    size_t kv = j * p->ldk + kv_column(p, h), s = h * p->rows + r;
    double slope, of = score(p, Q + r * p->ldq + p->qo + h * p->hd, K + kv, &slope);
    *P = exp(of - S[p->so + s]);
    return *P * (dot(DO + r * p->ldo + p->oo + h * p->hd, V + kv, p->hd) - S[p->dlo + s]) * slope;
}

/* dQ = scale sum_j dS_j K_j */
OPS_REF(attn_dq) {
    const struct abi_attn *p = &push->attn;
    const double *K = t[1];
    double *DQ = t[6], P;
    for (size_t r = 0; r < p->rows; r++)
        for (size_t h = 0; h < p->heads; h++) {
            double *dq = DQ + r * p->ldq + p->qo + h * p->hd;
            for (size_t i = 0; i < p->hd; i++) dq[i] = 0;
            for (size_t j = first_row(p, t[5], r); j <= r; j++) {
                const double *k = K + j * p->ldk + kv_column(p, h);
                double dS = pair(p, t, r, h, j, &P);
                for (size_t i = 0; i < p->hd; i++) dq[i] += p->scale * dS * k[i];
            }
        }
}

/* dV_j (+)= sum_r P_rj dO_r, dK_j (+)= scale sum_r dS_rj Q_r, over the query heads that read this key head and
 * the rows r >= j that see it */
OPS_REF(attn_dkv) {
    const struct abi_attn *p = &push->attn;
    const double *Q = t[0], *DO = t[3];
    double *DK = t[6], *DV = t[7], P;
    for (size_t j = 0; j < p->rows; j++) {
        double *dk = DK + j * p->ldk, *dv = DV + j * p->ldk;
        for (size_t i = p->ko; !p->acc && i < p->ko + p->kv_heads * p->hd; i++) dk[i] = dv[i] = 0;
        for (size_t h = 0; h < p->heads; h++)
            for (size_t r = j, end = j - j % p->T + p->T; r < end; r++) {
                if (first_row(p, t[5], r) > j) continue;
                const double *q = Q + r * p->ldq + p->qo + h * p->hd, *o = DO + r * p->ldo + p->oo + h * p->hd;
                size_t kv = kv_column(p, h);
                double dS = pair(p, t, r, h, j, &P);
                for (size_t i = 0; i < p->hd; i++) {
                    dv[kv + i] += P * o[i];
                    dk[kv + i] += p->scale * dS * q[i];
                }
            }
    }
}
