/* Causal attention, o_i = sum_{first_i <= j <= i} P_ij v_j with P_i = softmax_j(s_ij), s_ij = scale q_i.k_j or its cap, in
 * one pass over the keys (online softmax, Milakov & Gimelshein 2018; Dao et al. 2022), and lse_i = log sum_j exp(s_ij).
 * A query skips the blocks of which it sees nothing, so its bits depend on its position and its first key alone. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_portable.glsl"
IN(0, float, Q)
IN(1, float, K)
IN(2, float, V)
#if FIRST
IN(3, uint, first)
#endif
OUT(4, float, O)
OUT(5, float, stat)

shared float score[TILE][BLOCK];
DOT(dot_qk, Q, K)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint h = gl_WorkGroupID.y, kv = kv_of(h), i = q0 + Y, row = row0 + min(i, p.T - 1u);

    QUERY_START(start, from)
    float o[OWN], m = MASKED, l = 0.0;
    EACH_OWN o[n] = 0.0;
    for (uint k0 = from, end = live ? min(q0 + TILE, p.T) : 0u; k0 < end; k0 += BLOCK) {
        float s = dot_qk(q_at(row, h), k_at(row0 + min(k0 + X, p.T - 1u), kv));
        score[Y][X] = SEES(i, start, k0 + X) ? capped(s * GAIN) : MASKED;
        barrier();
        if (MEETS(i, start, k0)) {
            float top = m;
            EACH_ROW top = max(top, score[Y][j]);
            float a = exp2(m - top);
            m = top;
            l *= a;
            EACH_OWN o[n] *= a;
            EACH_ROW {
                uint at = k_at(row0 + min(k0 + j, p.T - 1u), kv);
                float e = exp2(score[Y][j] - m);
                l += e;
                EACH_OWN o[n] = fma(e, GET(V, at + DIM(n)), o[n]);
            }
        }
        barrier();
    }
    if (live && i < p.T) {
        EACH_OWN if (IS_DIM(X + 8u * n)) PUT(O, o_at(row, h) + X + 8u * n, o[n] / l);
        if (X == 0u) stat[lse_at(row, h)] = log_sum(m, l);
    }
}
