/* Query gradient of causal attention: with P_ij = exp(scale q_i.k_j - lse_i) and dS_ij = P_ij (do_i.v_j - delta_i),
 * dq_i = scale sum_{j <= i} dS_ij k_j. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_portable.glsl"
IN(0, float, Q)
IN(1, float, K)
IN(2, float, V)
IN(3, float, dO)
IN(4, float, lse)
IN(5, float, delta)
OUT(6, float, dQ)

shared float score[TILE][BLOCK];
DOT(dot_qk, Q, K)
DOT(dot_gv, dO, V)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint h = gl_WorkGroupID.y, kv = h / (p.heads / p.kv_heads), i = q0 + Y, row = row0 + min(i, p.T - 1u);
    float m = live ? lse[stat_at(row, h)] * LOG2E : 0.0, e = live ? delta[stat_at(row, h)] : 0.0;

    float dq[OWN];
    EACH_OWN dq[n] = 0.0;
    for (uint k0 = 0u, end = live ? min(q0 + TILE, p.T) : 0u; k0 < end; k0 += BLOCK) {
        uint from = k_at(row0 + min(k0 + X, p.T - 1u), kv);
        float s = dot_qk(q_at(row, h), from) * (p.scale * LOG2E);
        float u = dot_gv(o_at(row, h), from);
        score[Y][X] = k0 + X <= i ? exp2(s - m) * (u - e) : 0.0;
        barrier();
        if (k0 <= i) EACH_ROW {
            uint at = k_at(row0 + min(k0 + j, p.T - 1u), kv);
            EACH_OWN dq[n] = fma(score[Y][j], K[at + DIM(n)], dq[n]);
        }
        barrier();
    }
    if (live && i < p.T) EACH_OWN if (IS_DIM(X + 8u * n)) dQ[q_at(row, h) + X + 8u * n] = dq[n] * p.scale;
}
