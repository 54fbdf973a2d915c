/* Key and value gradients of causal attention: with P and dS as in the query gradient, dv_j = sum_i P_ij do_i and
 * dk_j = scale sum_i dS_ij q_i over the queries i >= j of every query head that reads the key head, heads and positions
 * ascending. A lane owns a key. */
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
OUT(6, vec4, dK)
OUT(7, vec4, dV)

void main() {
    uint tiles = tile_count(8u), b = GROUP_FOLDED / tiles, k0 = GROUP_FOLDED % tiles * 8u, row0 = b * p.T;
    if (row0 >= p.rows) return;
    uint kv = gl_WorkGroupID.y, share = p.heads / p.kv_heads, i = k0 + LANE, row = row0 + min(i, p.T - 1u);

    vec4 k[D4], w[D4], dk[D4], dw[D4];
    EACH_DIM {
        k[d] = LOAD4(K, k_at(row, kv) / 4u + d);
        w[d] = LOAD4(V, k_at(row, kv) / 4u + d);
        dk[d] = vec4(0);
        dw[d] = vec4(0);
    }
    for (uint h = kv * share; h < (kv + 1u) * share; h++)
        for (uint q0 = k0; q0 < p.T; q0 += BLOCK) {
            uint from = BLOCK_ROW(q0);
            vec4 q[REGS], g[REGS];
            LOAD_BLOCK(q, Q, q_at(from, h))
            LOAD_BLOCK(g, dO, o_at(from, h))
            float m = lse[stat_at(from, h)] * LOG2E, e = delta[stat_at(from, h)];
            EACH_ROW {
                float t = 0.0, u = 0.0;
                EACH_DIM {
                    t = chain(PICK(q, j, d), k[d], t);
                    u = chain(PICK(g, j, d), w[d], u);
                }
                bool on = i <= q0 + j && q0 + j < p.T;
                float P = on ? exp2(t * (p.scale * LOG2E) - subgroupShuffle(m, j)) : 0.0;
                float dS = P * (u - subgroupShuffle(e, j));
                EACH_DIM {
                    dw[d] = fma(PICK(g, j, d), vec4(P), dw[d]);
                    dk[d] = fma(PICK(q, j, d), vec4(dS), dk[d]);
                }
            }
        }
    if (i < p.T) {
        uint at = k_at(row, kv) / 4u;
        EACH_DIM {
            dK[at + d] = dk[d] * p.scale;
            dV[at + d] = dw[d];
        }
    }
}
