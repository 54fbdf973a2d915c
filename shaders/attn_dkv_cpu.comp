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
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, k0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    if (row0 >= p.rows) return;
    uint kv = gl_WorkGroupID.y, share = p.heads / p.kv_heads;

    vec4 k[VECS][D4], w[VECS][D4], dk[VECS][D4], dw[VECS][D4];
    EACH_VEC {
        uint at = k_at(row0 + min(k0 + 8u * v + LANE, p.T - 1u), kv) / 4u;
        EACH_DIM {
            k[v][d] = LOAD4(K, at + d);
            w[v][d] = LOAD4(V, at + d);
            dk[v][d] = vec4(0);
            dw[v][d] = vec4(0);
        }
    }
    for (uint h = kv * share; h < (kv + 1u) * share; h++)
        for (uint q0 = k0; q0 < p.T; q0 += BLOCK) {
            uint from = BLOCK_ROW(q0);
            vec4 q[REGS], g[REGS];
            LOAD_BLOCK(q, Q, q_at(from, h))
            LOAD_BLOCK(g, dO, o_at(from, h))
            float m = lse[stat_at(from, h)] * LOG2E, e = delta[stat_at(from, h)];
            EACH_ROW {
                float P[VECS], dS[VECS];
                EACH_VEC {
                    P[v] = 0.0;
                    dS[v] = 0.0;
                }
                EACH_DIM {
                    vec4 x = PICK(q, j, d), y = PICK(g, j, d);
                    EACH_VEC {
                        P[v] = chain(x, k[v][d], P[v]);
                        dS[v] = chain(y, w[v][d], dS[v]);
                    }
                }
                EACH_VEC {
                    bool on = k0 + 8u * v + LANE <= q0 + j && q0 + j < p.T;
                    P[v] = on ? exp2(P[v] * (p.scale * LOG2E) - subgroupShuffle(m, j)) : 0.0;
                    dS[v] = P[v] * (dS[v] - subgroupShuffle(e, j));
                }
                EACH_DIM {
                    vec4 x = PICK(q, j, d), y = PICK(g, j, d);
                    EACH_VEC {
                        dw[v][d] = fma(y, vec4(P[v]), dw[v][d]);
                        dk[v][d] = fma(x, vec4(dS[v]), dk[v][d]);
                    }
                }
            }
        }
    EACH_VEC {
        uint i = k0 + 8u * v + LANE;
        if (i < p.T) {
            uint at = k_at(row0 + i, kv) / 4u;
            EACH_DIM {
                dK[at + d] = dk[v][d] * p.scale;
                dV[at + d] = dw[v][d];
            }
        }
    }
}
