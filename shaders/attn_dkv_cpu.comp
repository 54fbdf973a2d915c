/* Key and value gradients of causal attention: with P and dS as in the query gradient, dv_j = sum_i P_ij do_i and
 * dk_j = scale sum_i dS_ij q_i over the queries i >= j, first_i <= j, of every query head that reads the key head, heads
 * and positions ascending, up to the last query that sees a key of the tile. ACC 1: the sums go on from what is there. A lane owns a key. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_cpu.glsl"
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

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, k0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    if (row0 >= p.rows) return;
    uint kv = gl_WorkGroupID.y;

    vec4 k[VECS][D4], w[VECS][D4], dk[VECS][D4], dw[VECS][D4];
    EACH_VEC {
        uint at = k_at(row0 + min(k0 + 8u * v + LANE, p.T - 1u), kv) / 4u;
        EACH_DIM {
            k[v][d] = LOAD4(K, at + d) * GAIN;
            w[v][d] = LOAD4(V, at + d) * p.scale;
            dk[v][d] = ACC == 1 ? GET(dK, at + d) : vec4(0);
            dw[v][d] = ACC == 1 ? GET(dV, at + d) : vec4(0);
        }
    }
    uint end = p.T;
#if FIRST
    end = k0;
    for (uint i = k0 + LANE; i < p.T; i += 8u) end = first[row0 + i] < k0 + TILE ? i + 1u : end;
    end = p.T - lanes_min(p.T - end);
#endif
    EACH_HEAD_OF(kv)
        for (uint q0 = k0; q0 < end; q0 += BLOCK) {
            uint from = BLOCK_ROW(q0);
#if FIRST
            uint starts = first[from];
#endif
            vec4 q[REGS], g[REGS];
            LOAD_BLOCK(q, Q, q_at(from, h))
            LOAD_BLOCK(g, dO, o_at(from, h))
            float m = stat[lse_at(from, h)] * LOG2E, e = stat[delta_at(from, h)] * p.scale;
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
#if FIRST
                uint start = subgroupShuffle(starts, j);
#endif
                EACH_VEC {
                    bool on = SEES(q0 + j, start, k0 + 8u * v + LANE) && q0 + j < p.T;
                    float slope, s = capped(P[v], slope);
                    P[v] = on ? exp2(s - subgroupShuffle(m, j)) : 0.0;
                    dS[v] = P[v] * (dS[v] - subgroupShuffle(e, j)) * slope;
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
                PUT(dK, at + d, plus_zero(dk[v][d]));
                PUT(dV, at + d, plus_zero(dw[v][d]));
            }
        }
    }
}
