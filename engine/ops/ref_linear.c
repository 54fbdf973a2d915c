/* Reference of the linears in double: the definition the shaders are held to. Sums ascend in the reduction
 * index. */
#include "engine/ops/internal.h"

/* Y[m, n] = (R[m, n]) + sum_k X[m, k] W[n, k] */
OPS_REF(linear) {
    const struct abi_linear *p = &push->linear;
    const double *X = t[0], *W = t[1], *R = t[2];
    double *Y = t[3];
    for (size_t m = 0; m < p->M; m++) {
        const double *x = X + m * p->ldx + p->xo;
        for (size_t n = 0; n < p->N; n++) {
            const double *w = W + n * p->ldw + p->wo;
            size_t y = m * p->ldy + p->yo + n;
            double s = p->init ? R[y] : 0;
            for (size_t k = 0; k < p->K; k++) s += x[k] * w[k];
            Y[y] = s;
        }
    }
}

/* dX[m, k] = (R[m, k]) + sum_n dY[m, n] W[n, k] */
OPS_REF(linear_dx) {
    const struct abi_linear *p = &push->linear;
    const double *DY = t[0], *W = t[1], *R = t[2];
    double *DX = t[3];
    for (size_t m = 0; m < p->M; m++) {
        const double *dy = DY + m * p->ldy + p->yo;
        double *dx = DX + m * p->ldx + p->xo;
        const double *r = R + m * p->ldx + p->xo;
        for (size_t k = 0; k < p->K; k++) dx[k] = p->init ? r[k] : 0;
        for (size_t n = 0; n < p->N; n++) {
            const double *w = W + n * p->ldw + p->wo;
            for (size_t k = 0; k < p->K; k++) dx[k] += dy[n] * w[k];
        }
    }
}

/* dW[n, k] = (R[n, k]) + sum_m dY[m, n] X[m, k] */
OPS_REF(linear_dw) {
    const struct abi_linear *p = &push->linear;
    const double *DY = t[0], *X = t[1], *R = t[2];
    double *DW = t[3];
    for (size_t n = 0; n < p->N; n++) {
        size_t w = n * p->ldw + p->wo;
        for (size_t k = 0; k < p->K; k++) DW[w + k] = p->init ? R[w + k] : 0;
        for (size_t m = 0; m < p->M; m++) {
            double dy = DY[m * p->ldy + p->yo + n];
            const double *x = X + m * p->ldx + p->xo;
            for (size_t k = 0; k < p->K; k++) DW[w + k] += dy * x[k];
        }
    }
}

/* Joined linears (abi_linears): block by block, each as a call of its own. All tiles of a result name the same
 * blocks; the one of its first row and column stands for them. */
static void each_block(const ops_push *push, void *const t[OPS_MAX_TENSORS],
                       void (*one)(const ops_push *p, void *const t[OPS_MAX_TENSORS])) {
    const struct abi_linears *p = &push->linears;
    const double *plan = t[4];
    for (size_t i = 0; i < p->tiles; i++) {
        const double *tile = plan + 4 * i;
        for (size_t k = 0; k < (size_t)tile[1] && !(tile[2] > 0 || tile[3] > 0); k++) {
            const double *b = plan + 4 * (p->tiles + 3 * ((size_t)tile[0] + k));
            uint32_t n[9];
            for (int v = 0; v < 9; v++) n[v] = (uint32_t)b[v];
            ops_push call = {
                .linear = {p->M, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8] | (!k && p->init)}};
            one(&call, (void *[OPS_MAX_TENSORS]){t[0], t[1], k ? t[3] : t[2], t[3]});
        }
    }
}

OPS_REF(linears) {
    each_block(push, t, ref_linear);
}
OPS_REF(linears_dx) {
    each_block(push, t, ref_linear_dx);
}
OPS_REF(linears_dw) {
    each_block(push, t, ref_linear_dw);
}
