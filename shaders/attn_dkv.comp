/* Key and value gradients of causal attention: with P and dS as in the query gradient, dv_j = sum_i P_ij do_i and
 * dk_j = scale sum_i dS_ij q_i over the queries i >= j, first_i <= j, of every query head that reads the key head, heads
 * and positions ascending, up to the last query that sees a key of the tile. ACC 1: the sums go on from what is there. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_portable.glsl"
IN(0, float, Q)
IN(1, float, K)
IN(2, float, V)
IN(3, float, dO)
IN(4, float, stat)
#if FIRST
IN(5, uint, first)
#endif
OUT(6, float, dK)
OUT(7, float, dV)

shared float prob[TILE][BLOCK], score[TILE][BLOCK];
DOT(dot_qk, Q, K)
DOT(dot_gv, dO, V)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, k0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint kv = gl_WorkGroupID.y, i = k0 + Y, row = row0 + min(i, p.T - 1u);

    float dk[OWN], dv[OWN];
    EACH_OWN {
        bool old = ACC == 1 && live && IS_DIM(X + 8u * n);
        dk[n] = old ? GET(dK, k_at(row, kv) + X + 8u * n) : 0.0;
        dv[n] = old ? GET(dV, k_at(row, kv) + X + 8u * n) : 0.0;
    }
    uint end = live ? p.T : 0u;
#if FIRST
    uint seen = k0;
    for (uint q0 = k0; q0 < end; q0 += BLOCK)
        EACH_ROW if (first[row0 + min(q0 + j, p.T - 1u)] < k0 + TILE) seen = q0 + BLOCK;
    end = min(end, seen);
#endif
    EACH_HEAD_OF(kv)
        for (uint q0 = k0; q0 < end; q0 += BLOCK) {
            uint q = q0 + X, from = row0 + min(q, p.T - 1u);
#if FIRST
            uint start = first[from];
#endif
            float slope, s = capped(dot_qk(q_at(from, h), k_at(row, kv)) * GAIN, slope);
            float u = dot_gv(o_at(from, h), k_at(row, kv));
            float P = SEES(q, start, i) && q < p.T ? exp2(s - stat[lse_at(from, h)] * LOG2E) : 0.0;
            prob[Y][X] = P;
            score[Y][X] = P * (u - stat[delta_at(from, h)]) * (slope * p.scale);
            barrier();
            EACH_ROW {
                uint at = row0 + min(q0 + j, p.T - 1u);
                EACH_OWN {
                    dv[n] = fma(prob[Y][j], GET(dO, o_at(at, h) + DIM(n)), dv[n]);
                    dk[n] = fma(score[Y][j], GET(Q, q_at(at, h) + DIM(n)), dk[n]);
                }
            }
            barrier();
        }
    if (live && i < p.T)
        EACH_OWN if (IS_DIM(X + 8u * n)) {
            PUT(dK, k_at(row, kv) + X + 8u * n, plus_zero(dk[n]));
            PUT(dV, k_at(row, kv) + X + 8u * n, plus_zero(dv[n]));
        }
}
