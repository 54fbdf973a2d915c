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

/* O = sum_j P_j V_j with P = softmax_j(scale q.k_j), j <= i; lse = log sum_j exp(scale q.k_j). */
OPS_REF(attn) {
    const struct abi_attn *p = &push->attn;
    const double *Q = t[0], *K = t[1], *V = t[2];
    double *O = t[3], *LSE = t[4];
    for (size_t r = 0; r < p->rows; r++) {
        size_t first = r - r % p->T;
        for (size_t h = 0; h < p->heads; h++) {
            const double *q = Q + r * p->ldq + p->qo + h * p->hd;
            size_t kv = p->ko + h / (p->heads / p->kv_heads) * p->hd;
            double *o = O + r * p->ldo + p->oo + h * p->hd;
            double max = -INFINITY, sum = 0;
            for (size_t j = first; j <= r; j++) max = fmax(max, p->scale * dot(q, K + j * p->ldk + kv, p->hd));
            for (size_t i = 0; i < p->hd; i++) o[i] = 0;
            for (size_t j = first; j <= r; j++) {
                double e = exp(p->scale * dot(q, K + j * p->ldk + kv, p->hd) - max);
                sum += e;
                for (size_t i = 0; i < p->hd; i++) o[i] += e * V[j * p->ldk + kv + i];
            }
            for (size_t i = 0; i < p->hd; i++) o[i] /= sum;
            LSE[p->so + h * p->rows + r] = max + log(sum);
        }
    }
}

/* delta = sum_i dO_i O_i = sum_j P_j (dO.V_j), the term that every score's gradient subtracts. */
OPS_REF(attn_delta) {
    const struct abi_attn *p = &push->attn;
    const double *O = t[0], *DO = t[1];
    double *D = t[2];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t h = 0; h < p->heads; h++) {
            size_t o = r * p->ldo + p->oo + h * p->hd;
            D[p->so + h * p->rows + r] = dot(O + o, DO + o, p->hd);
        }
}

/* dS_j = P_j (dO.V_j - delta), dQ = scale sum_j dS_j K_j */
OPS_REF(attn_dq) {
    const struct abi_attn *p = &push->attn;
    const double *Q = t[0], *K = t[1], *V = t[2], *DO = t[3], *LSE = t[4], *D = t[5];
    double *DQ = t[6];
    for (size_t r = 0; r < p->rows; r++)
        for (size_t h = 0; h < p->heads; h++) {
            size_t q = r * p->ldq + p->qo + h * p->hd, o = r * p->ldo + p->oo + h * p->hd,
                   s = p->so + h * p->rows + r;
            size_t kv = p->ko + h / (p->heads / p->kv_heads) * p->hd;
            for (size_t i = 0; i < p->hd; i++) DQ[q + i] = 0;
            for (size_t j = r - r % p->T; j <= r; j++) {
                const double *k = K + j * p->ldk + kv;
                double P = exp(p->scale * dot(Q + q, k, p->hd) - LSE[s]);
                double dS = P * (dot(DO + o, V + j * p->ldk + kv, p->hd) - D[s]);
                for (size_t i = 0; i < p->hd; i++) DQ[q + i] += p->scale * dS * k[i];
            }
        }
}

/* dV_j = sum_r P_rj dO_r, dK_j = scale sum_r dS_rj Q_r, over the rows r >= j and the query heads that read this
 * key head */
OPS_REF(attn_dkv) {
    const struct abi_attn *p = &push->attn;
    const double *Q = t[0], *K = t[1], *V = t[2], *DO = t[3], *LSE = t[4], *D = t[5];
    double *DK = t[6], *DV = t[7];
    size_t group = p->heads / p->kv_heads;
    for (size_t j = 0; j < p->rows; j++)
        for (size_t g = 0; g < p->kv_heads; g++) {
            size_t kv = j * p->ldk + p->ko + g * p->hd, end = j - j % p->T + p->T;
            for (size_t i = 0; i < p->hd; i++) DK[kv + i] = DV[kv + i] = 0;
            for (size_t h = g * group; h < (g + 1) * group; h++)
                for (size_t r = j; r < end; r++) {
                    size_t q = r * p->ldq + p->qo + h * p->hd, o = r * p->ldo + p->oo + h * p->hd;
                    size_t s = p->so + h * p->rows + r;
                    double P = exp(p->scale * dot(Q + q, K + kv, p->hd) - LSE[s]);
                    double dS = P * (dot(DO + o, V + kv, p->hd) - D[s]);
                    for (size_t i = 0; i < p->hd; i++) {
                        DV[kv + i] += P * DO[o + i];
                        DK[kv + i] += p->scale * dS * Q[q + i];
                    }
                }
        }
}
