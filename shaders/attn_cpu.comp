/* Causal attention, o_i = sum_{first_i <= j <= i} P_ij v_j with P_i = softmax_j(s_ij), s_ij = scale q_i.k_j or its cap, in
 * one pass over the keys (online softmax, Milakov & Gimelshein 2018; Dao et al. 2022), and lse_i = log sum_j exp(s_ij).
 *
 * The keys a query meets are the blocks from the sequence's start to the end of the query's tile, so its bits depend on
 * its position alone. With FIRST the blocks before any key that the tile sees are left out: until a query's first key
 * its sums are zeros, whatever it meets. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_cpu.glsl"
IN4(0, Q)
IN4(1, K)
IN4(2, V)
#if FIRST
IN(3, uint, first)
#endif
OUT(4, vec4, O)
OUT(5, float, stat)

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    if (row0 >= p.rows) return;
    uint h = gl_WorkGroupID.y, kv = kv_of(h);

    vec4 q[VECS][D4], o[VECS][D4];
    float m[VECS], l[VECS];
    uint start[VECS];
    EACH_VEC {
        uint row = row0 + min(q0 + 8u * v + LANE, p.T - 1u), at = q_at(row, h) / 4u;
        EACH_DIM {
            q[v][d] = LOAD4(Q, at + d) * GAIN;
            o[v][d] = vec4(0);
        }
        m[v] = MASKED;
        l[v] = 0.0;
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
                s[v][j] = SEES(q0 + 8u * v + LANE, start[v], k0 + j) ? capped(s[v][j]) : MASKED;
                n = max(n, s[v][j]);
            }
            float a = exp2(m[v] - n);
            m[v] = n;
            l[v] *= a;
            EACH_ROW {
#if FIRST
                s[v][j] = s[v][j] == MASKED ? 0.0 : exp2(s[v][j] - n);
#else
                s[v][j] = exp2(s[v][j] - n);
#endif
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
            EACH_DIM PUT(O, at + d, o[v][d] / l[v]);
            stat[lse_at(row0 + i, h)] = log_sum(m[v], l[v]);
        }
    }
}
