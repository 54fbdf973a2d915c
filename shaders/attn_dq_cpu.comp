/* Query gradient of causal attention: with P_ij = exp(s_ij - lse_i) and dS_ij = P_ij (do_i.v_j - delta_i),
 * dq_i = scale sum_{first_i <= j <= i} dS_ij k_j, for capped scores s = cap t each term times 1 - t^2. A lane owns a
 * query. */
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
OUT(6, vec4, dQ)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    if (row0 >= p.rows) return;
    uint h = gl_WorkGroupID.y, kv = kv_of(h);

    vec4 q[VECS][D4], g[VECS][D4], dq[VECS][D4];
    float m[VECS], e[VECS];
    uint start[VECS];
    EACH_VEC {
        uint row = row0 + min(q0 + 8u * v + LANE, p.T - 1u);
        EACH_DIM {
            q[v][d] = LOAD4(Q, q_at(row, h) / 4u + d) * GAIN;
            g[v][d] = LOAD4(dO, o_at(row, h) / 4u + d);
            dq[v][d] = vec4(0);
        }
        m[v] = stat[lse_at(row, h)] * LOG2E;
        e[v] = stat[delta_at(row, h)];
#if FIRST
        start[v] = first[row];
#endif
    }
    KEYS_FROM(start, from)
    for (uint k0 = from; k0 < q0 + TILE; k0 += BLOCK) {
        uint at = k_at(BLOCK_ROW(k0), kv);
        vec4 k[REGS], w[REGS];
        float s[VECS][BLOCK];
        LOAD_BLOCK(k, K, at)
        LOAD_BLOCK(w, V, at)
        EACH_ROW {
            float t[VECS], u[VECS];
            EACH_VEC {
                t[v] = 0.0;
                u[v] = 0.0;
            }
            EACH_DIM {
                vec4 x = PICK(k, j, d), y = PICK(w, j, d);
                EACH_VEC {
                    t[v] = chain(x, q[v][d], t[v]);
                    u[v] = chain(y, g[v][d], u[v]);
                }
            }
            EACH_VEC {
                float slope, P = exp2(capped(t[v], slope) - m[v]);
                s[v][j] = SEES(q0 + 8u * v + LANE, start[v], k0 + j) ? P * (u[v] - e[v]) * slope : 0.0;
            }
        }
        EACH_DIM EACH_ROW {
            vec4 x = PICK(k, j, d);
            EACH_VEC dq[v][d] = fma(x, vec4(s[v][j]), dq[v][d]);
        }
    }
    EACH_VEC {
        uint i = q0 + 8u * v + LANE;
        if (i < p.T) EACH_DIM PUT(dQ, q_at(row0 + i, h) / 4u + d, dq[v][d] * p.scale);
    }
}
