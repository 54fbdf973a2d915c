/* Key and value gradients of causal attention: with P and dS as in the query gradient, dv_j = sum_i P_ij do_i and
 * dk_j = scale sum_i dS_ij q_i over the queries i >= j, first_i <= j, of every query head that reads the key head, heads
 * and positions ascending, up to the last query that sees a key of the tile. ACC 1: the sums go on from what is there. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_gpu.glsl"
IN4(0, Q)
IN4(1, K)
IN4(2, V)
IN4(3, dO)
IN(4, float, stat)
#if FIRST
IN(5, uint, first)
#endif
OUT(6, vec4, dK)
OUT(7, vec4, dV)

shared float prob[TILE][BLOCK + 1u], score[TILE][BLOCK + 1u];

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, k0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint kv = gl_WorkGroupID.y;

    uint at_k[4], at_q[4], at_o[4];
    vec4 dk[4][SLICES], dv[4][SLICES];
    EACH4(r) {
        at_k[r] = k_at(row0 + min(k0 + OWN_ROW(r), p.T - 1u), kv);
        EACH_SLICE {
            bool old = ACC == 1 && live && IS_DIM;
            dk[r][n] = old ? GET(dK, at_k[r] / 4u + 8u * n + X) : vec4(0);
            dv[r][n] = old ? GET(dV, at_k[r] / 4u + 8u * n + X) : vec4(0);
        }
    }
    uint end = live ? p.T : 0u;
#if FIRST
    uint seen = k0;
    for (uint q = k0; q < end; q++)
        if (first[row0 + q] < k0 + TILE) seen = q + 1u;
    end = seen;
#endif
    EACH_HEAD_OF(kv)
        for (uint q0 = k0; q0 < end; q0 += BLOCK) {
            float s[4][4], u[4][4];
            EACH4(r) {
                EACH4(c) s[r][c] = u[r][c] = 0.0;
                uint row = row0 + min(q0 + OWN_ROW(r), p.T - 1u);
                at_q[r] = q_at(row, h);
                at_o[r] = o_at(row, h);
            }
            EACH_SLICE {
                LOAD_SLICE(side_a, K, at_k)
                LOAD_SLICE(side_b, Q, at_q)
                barrier();
                add_dots(s);
                barrier();
                LOAD_SLICE(side_a, V, at_k)
                LOAD_SLICE(side_b, dO, at_o)
                barrier();
                add_dots(u);
                barrier();
            }
            EACH4(c) {
                uint q = q0 + PAIR(c), row = row0 + min(q, p.T - 1u), start = 0u;
                float m = stat[lse_at(row, h)] * LOG2E, delta = stat[delta_at(row, h)];
#if FIRST
                start = first[row];
#endif
                EACH4(r) {
                    float slope, x = capped(s[r][c] * GAIN, slope);
                    float P = SEES(q, start, k0 + OWN_ROW(r)) && q < p.T ? exp2(x - m) : 0.0;
                    prob[OWN_ROW(r)][PAIR(c)] = P;
                    score[OWN_ROW(r)][PAIR(c)] = P * (u[r][c] - delta) * (slope * p.scale);
                }
            }
            EACH_SLICE {
                LOAD_SLICE(side_a, dO, at_o)
                LOAD_SLICE(side_b, Q, at_q)
                barrier();
                EACH_PAIR(j) {
                    vec4 g = side_a[j][X], q = side_b[j][X];
                    EACH4(r) {
                        dv[r][n] = fma(vec4(prob[OWN_ROW(r)][j]), g, dv[r][n]);
                        dk[r][n] = fma(vec4(score[OWN_ROW(r)][j]), q, dk[r][n]);
                    }
                }
                barrier();
            }
        }
    EACH4(r)
        if (live && k0 + OWN_ROW(r) < p.T)
            EACH_SLICE if (IS_DIM) {
                PUT(dK, at_k[r] / 4u + 8u * n + X, plus_zero(dk[r][n]));
                PUT(dV, at_k[r] / 4u + 8u * n + X, plus_zero(dv[r][n]));
            }
}
