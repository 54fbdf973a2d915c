/* Query gradient of causal attention: with P_ij = exp(scale q_i.k_j - lse_i) and dS_ij = P_ij (do_i.v_j - delta_i),
 * dq_i = scale sum_{j <= i} dS_ij k_j. A lane owns a query. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_cpu.glsl"
IN4(0, Q)
IN4(1, K)
IN4(2, V)
IN4(3, dO)
IN(4, float, lse)
IN(5, float, delta)
OUT(6, vec4, dQ)

void main() {
    uint tiles = tile_count(8u), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * 8u, row0 = b * p.T;
    if (row0 >= p.rows) return;
    uint h = gl_WorkGroupID.y, kv = h / (p.heads / p.kv_heads), i = q0 + LANE, row = row0 + min(i, p.T - 1u);

    vec4 q[D4], g[D4], dq[D4];
    EACH_DIM {
        q[d] = LOAD4(Q, q_at(row, h) / 4u + d) * (p.scale * LOG2E);
        g[d] = LOAD4(dO, o_at(row, h) / 4u + d);
        dq[d] = vec4(0);
    }
    float m = lse[stat_at(row, h)] * LOG2E, e = delta[stat_at(row, h)];
    for (uint k0 = 0u; k0 < q0 + 8u; k0 += BLOCK) {
        uint at = k_at(BLOCK_ROW(k0), kv);
        vec4 k[REGS], w[REGS];
        float s[BLOCK];
        LOAD_BLOCK(k, K, at)
        LOAD_BLOCK(w, V, at)
        EACH_ROW {
            float t = 0.0, u = 0.0;
            EACH_DIM {
                t = chain(PICK(k, j, d), q[d], t);
                u = chain(PICK(w, j, d), g[d], u);
            }
            s[j] = k0 + j <= i ? exp2(t - m) * (u - e) : 0.0;
        }
        EACH_DIM EACH_ROW dq[d] = fma(PICK(k, j, d), vec4(s[j]), dq[d]);
    }
    if (i < p.T) EACH_DIM dQ[q_at(row, h) / 4u + d] = dq[d] * p.scale;
}
