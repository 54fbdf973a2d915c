/* Causal attention, o_i = sum_{j <= i} P_ij v_j with P_i = softmax_j(scale q_i.k_j), in one pass over the keys (online
 * softmax, Milakov & Gimelshein 2018; Dao et al. 2022), and lse_i = log sum_j exp(scale q_i.k_j). Scores are kept in
 * powers of 2. A query skips the blocks behind it, so its bits depend on its position alone. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_portable.glsl"
IN(0, float, Q)
IN(1, float, K)
IN(2, float, V)
OUT(3, float, O)
OUT(4, float, lse)

shared float score[TILE][BLOCK];
DOT(dot_qk, Q, K)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint h = gl_WorkGroupID.y, kv = h / (p.heads / p.kv_heads), i = q0 + Y, row = row0 + min(i, p.T - 1u);

    float o[OWN], m = MASKED, l = 0.0;
    EACH_OWN o[n] = 0.0;
    for (uint k0 = 0u, end = live ? min(q0 + TILE, p.T) : 0u; k0 < end; k0 += BLOCK) {
        float s = dot_qk(q_at(row, h), k_at(row0 + min(k0 + X, p.T - 1u), kv));
        score[Y][X] = k0 + X <= i ? s * (p.scale * LOG2E) : MASKED;
        barrier();
        if (k0 <= i) {
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
                EACH_OWN o[n] = fma(e, V[at + DIM(n)], o[n]);
            }
        }
        barrier();
    }
    if (live && i < p.T) {
        EACH_OWN if (IS_DIM(X + 8u * n)) O[o_at(row, h) + X + 8u * n] = o[n] / l;
        if (X == 0u) lse[stat_at(row, h)] = log_sum(m, l);
    }
}
