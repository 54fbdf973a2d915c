/* Query gradient of causal attention: with P_ij = exp(s_ij - lse_i) and dS_ij = P_ij (do_i.v_j - delta_i),
 * dq_i = scale sum_{first_i <= j <= i} dS_ij k_j, for capped scores s = cap t each term times 1 - t^2. */
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
OUT(6, float, dQ)

shared float score[TILE][BLOCK];
DOT(dot_qk, Q, K)
DOT(dot_gv, dO, V)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint h = gl_WorkGroupID.y, kv = kv_of(h), i = q0 + Y, row = row0 + min(i, p.T - 1u);
    float m = live ? stat[lse_at(row, h)] * LOG2E : 0.0, e = live ? stat[delta_at(row, h)] : 0.0;

    QUERY_START(start, begin)
    float dq[OWN];
    EACH_OWN dq[n] = 0.0;
    for (uint k0 = begin, end = live ? min(q0 + TILE, p.T) : 0u; k0 < end; k0 += BLOCK) {
        uint from = k_at(row0 + min(k0 + X, p.T - 1u), kv);
        float slope, s = capped(dot_qk(q_at(row, h), from) * GAIN, slope);
        float u = dot_gv(o_at(row, h), from);
        score[Y][X] = SEES(i, start, k0 + X) ? exp2(s - m) * (u - e) * slope : 0.0;
        barrier();
        if (MEETS(i, start, k0)) EACH_ROW {
            uint at = k_at(row0 + min(k0 + j, p.T - 1u), kv);
            EACH_OWN dq[n] = fma(score[Y][j], GET(K, at + DIM(n)), dq[n]);
        }
        barrier();
    }
    if (live && i < p.T) EACH_OWN if (IS_DIM(X + 8u * n)) PUT(dQ, q_at(row, h) + X + 8u * n, dq[n] * p.scale);
}
