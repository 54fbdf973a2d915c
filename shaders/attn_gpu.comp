/* Causal attention, o_i = sum_{first_i <= j <= i} P_ij v_j with P_i = softmax_j(s_ij), s_ij = scale q_i.k_j or its cap, in
 * one pass over the keys (online softmax, Milakov & Gimelshein 2018; Dao et al. 2022), and lse_i = log sum_j exp(s_ij).
 * A query skips the blocks of which it sees nothing, so its bits depend on its position and its first key alone. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_gpu.glsl"
IN4(0, Q)
IN4(1, K)
IN4(2, V)
#if FIRST
IN(3, uint, first)
#endif
OUT(4, vec4, O)
OUT(5, float, stat)

shared float score[TILE][BLOCK + 1u], highest[TILE][9];

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint h = gl_WorkGroupID.y, kv = kv_of(h);

    KEYS_FROM(from)
    uint at_q[4], at_k[4], start[4];
    vec4 o[4][SLICES];
    float m[4], l[4];
    EACH4(r) {
        uint row = row0 + min(q0 + OWN_ROW(r), p.T - 1u);
        at_q[r] = q_at(row, h);
#if FIRST
        start[r] = live ? first[row] : 0u;
#endif
        EACH_SLICE o[r][n] = vec4(0);
        m[r] = MASKED;
        l[r] = 0.0;
    }
    for (uint k0 = from, end = live ? min(q0 + TILE, p.T) : 0u; k0 < end; k0 += BLOCK) {
        float s[4][4];
        EACH4(r) {
            EACH4(c) s[r][c] = 0.0;
            at_k[r] = k_at(row0 + min(k0 + OWN_ROW(r), p.T - 1u), kv);
        }
        EACH_SLICE {
            if (SLICES > 1 || k0 == from) LOAD_SLICE(side_a, Q, at_q)
            LOAD_SLICE(side_b, K, at_k)
            barrier();
            add_dots(s);
            barrier();
        }
        EACH4(r) {
            float top = MASKED;
            EACH4(c) {
                s[r][c] = SEES(q0 + OWN_ROW(r), start[r], k0 + PAIR(c)) ? capped(s[r][c] * GAIN) : MASKED;
                top = max(top, s[r][c]);
            }
            highest[OWN_ROW(r)][X] = top;
        }
        barrier();
        EACH4(r) {
            float top = m[r], a;
            [[unroll]] for (uint x = 0u; x < 8u; x++) top = max(top, highest[OWN_ROW(r)][x]);
            if (!MEETS(q0 + OWN_ROW(r), start[r], k0)) top = m[r];
            a = exp2(m[r] - top);
            m[r] = top;
            l[r] *= a;
            EACH_SLICE o[r][n] *= a;
            EACH4(c) score[OWN_ROW(r)][PAIR(c)] = exp2(s[r][c] - top);
        }
        EACH_SLICE {
            LOAD_SLICE(side_b, V, at_k)
            barrier();
            EACH_PAIR(j) {
                vec4 v = side_b[j][X];
                EACH4(r) {
                    float e = score[OWN_ROW(r)][j];
                    bool meets = MEETS(q0 + OWN_ROW(r), start[r], k0);
                    if (n == 0u) l[r] += meets ? e : 0.0;
                    o[r][n] = meets ? fma(vec4(e), v, o[r][n]) : o[r][n];
                }
            }
            barrier();
        }
    }
    EACH4(r) {
        uint i = q0 + OWN_ROW(r);
        if (live && i < p.T) {
            EACH_SLICE if (IS_DIM) PUT(O, o_at(row0 + i, h) / 4u + 8u * n + X, o[r][n] / l[r]);
            if (X == 0u) stat[lse_at(row0 + i, h)] = log_sum(m[r], l[r]);
        }
    }
}
