/* Causal attention, o_i = sum_{j <= i} P_ij v_j with P_i = softmax_j(scale q_i.k_j), in one pass over the keys (online
 * softmax, Milakov & Gimelshein 2018; Dao et al. 2022), and lse_i = log sum_j exp(scale q_i.k_j).
 *
 * Scores are kept in powers of 2. The keys a query meets are the blocks from the sequence's start to the end of the
 * query's tile, so its bits depend on its position alone. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_cpu.glsl"
IN4(0, Q)
IN4(1, K)
IN4(2, V)
OUT(3, vec4, O)
OUT(4, float, lse)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    if (row0 >= p.rows) return;
    uint h = gl_WorkGroupID.y, kv = h / (p.heads / p.kv_heads);

    vec4 q[VECS][D4], o[VECS][D4];
    float m[VECS], l[VECS];
    EACH_VEC {
        uint at = q_at(row0 + min(q0 + 8u * v + LANE, p.T - 1u), h) / 4u;
        EACH_DIM {
            q[v][d] = LOAD4(Q, at + d) * (p.scale * LOG2E);
            o[v][d] = vec4(0);
        }
        m[v] = MASKED;
        l[v] = 0.0;
    }
    for (uint k0 = 0u; k0 < q0 + TILE; k0 += BLOCK) {
        uint at = k_at(BLOCK_ROW(k0), kv);
        vec4 k[REGS], w[REGS];
        float s[VECS][BLOCK];
        LOAD_BLOCK(k, K, at)
        EACH_ROW {
            EACH_VEC s[v][j] = 0.0;
            EACH_DIM {
                vec4 x = PICK(k, j, d);
                EACH_VEC s[v][j] = chain(x, q[v][d], s[v][j]);
            }
        }
        EACH_VEC {
            float n = m[v];
            EACH_ROW {
                s[v][j] = k0 + j <= q0 + 8u * v + LANE ? s[v][j] : MASKED;
                n = max(n, s[v][j]);
            }
            float a = exp2(m[v] - n);
            m[v] = n;
            l[v] *= a;
            EACH_ROW {
                s[v][j] = exp2(s[v][j] - n);
                l[v] += s[v][j];
            }
            EACH_DIM o[v][d] *= a;
        }
        LOAD_BLOCK(w, V, at)
        EACH_DIM EACH_ROW {
            vec4 x = PICK(w, j, d);
            EACH_VEC o[v][d] = fma(x, vec4(s[v][j]), o[v][d]);
        }
    }
    EACH_VEC {
        uint i = q0 + 8u * v + LANE;
        if (i < p.T) {
            uint at = o_at(row0 + i, h) / 4u;
            EACH_DIM O[at + d] = o[v][d] / l[v];
            lse[stat_at(row0 + i, h)] = log_sum(m[v], l[v]);
        }
    }
}
