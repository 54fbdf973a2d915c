/* The three products of a linear layer as one: Z = (R) + A B, with Z of OUT_ROWS x OUT_COLS and a reduction of DEPTH.
 *
 *     MODE LINEAR     Y  = (R) + X  W^T    Y[m,n]  = sum_k X[m,k] W[n,k]     rows m, columns n, reduced k
 *     MODE LINEAR_DX  dX = (R) + dY W      dX[m,k] = sum_n dY[m,n] W[n,k]    rows m, columns k, reduced n
 *     MODE LINEAR_DW  dW = (R) + dY^T X    dW[n,k] = sum_m dY[m,n] X[m,k]    rows n, columns k, reduced m
 *
 * The last two are the derivatives of the first. Each element is one chain of fused multiply-adds in ascending order of
 * the reduction index, started from 0 or from R, so a sum cut in two calls gives the bits of one.
 *
 * A_AT(row, step), B_AT(step, column) and OUT_AT(row, column) give the element of tensors 0, 1 and 3. Tiles of columns
 * lie on the x axis, which runs fastest, so that a strip of A is used up while it is in the cache; tiles of rows on y,
 * those beyond its 65535 on z. */
#define COL_TILE gl_WorkGroupID.x
#define ROW_TILE (gl_WorkGroupID.z * 65535u + gl_WorkGroupID.y)

#define LINEAR 0
#define LINEAR_DX 1
#define LINEAR_DW 2

#define X_AT(m, k) ((m) * p.ldx + p.xo + (k))
#define W_AT(n, k) ((n) * p.ldw + p.wo + (k))
#define Y_AT(m, n) ((m) * p.ldy + p.yo + (n))

#if MODE == LINEAR
#define OUT_ROWS p.M
#define OUT_COLS p.N
#define DEPTH p.K
#define A_AT(i, t) X_AT(i, t)
#define B_AT(t, j) W_AT(j, t)
#define OUT_AT(i, j) Y_AT(i, j)
#elif MODE == LINEAR_DX
#define OUT_ROWS p.M
#define OUT_COLS p.K
#define DEPTH p.N
#define A_AT(i, t) Y_AT(i, t)
#define B_AT(t, j) W_AT(t, j)
#define OUT_AT(i, j) X_AT(i, j)
#else
#define OUT_ROWS p.N
#define OUT_COLS p.K
#define DEPTH p.M
#define A_AT(i, t) Y_AT(t, i)
#define B_AT(t, j) X_AT(t, j)
#define OUT_AT(i, j) W_AT(i, j)
#endif
