/* Query gradient of causal attention: with P_ij = exp(s_ij - lse_i) and dS_ij = P_ij (do_i.v_j - delta_i),
 * dq_i = scale sum_{first_i <= j <= i} dS_ij k_j, for capped scores s = cap t each term times 1 - t^2. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn_gpu.glsl"
IN4(0, Q)
IN4(1, K)
IN4(2, V)
IN4(3, dO)
IN(4, float, stat)
#if FIRST
IN(5, uint, first)
#endif
OUT(6, vec4, dQ)

shared float score[TILE][BLOCK + 1u];

void main() {
    uint tiles = tile_count(TILE), b = GROUP_FOLDED / tiles, q0 = GROUP_FOLDED % tiles * TILE, row0 = b * p.T;
    bool live = row0 < p.rows; /* of the whole workgroup */
    uint h = gl_WorkGroupID.y, kv = kv_of(h);

    KEYS_FROM(from)
    uint at_q[4], at_o[4], at_k[4], start[4];
    vec4 dq[4][SLICES];
    float m[4], delta[4];
    EACH4(r) {
        uint row = row0 + min(q0 + OWN_ROW(r), p.T - 1u);
        at_q[r] = q_at(row, h);
        at_o[r] = o_at(row, h);
        m[r] = live ? stat[lse_at(row, h)] * LOG2E : 0.0;
        delta[r] = live ? stat[delta_at(row, h)] : 0.0;
#if FIRST
        start[r] = live ? first[row] : 0u;
#endif
        EACH_SLICE dq[r][n] = vec4(0);
    }
    for (uint k0 = from, end = live ? min(q0 + TILE, p.T) : 0u; k0 < end; k0 += BLOCK) {
        float s[4][4], u[4][4];
        EACH4(r) {
            EACH4(c) s[r][c] = u[r][c] = 0.0;
            at_k[r] = k_at(row0 + min(k0 + OWN_ROW(r), p.T - 1u), kv);
        }
        EACH_SLICE {
            LOAD_SLICE(side_a, Q, at_q)
            LOAD_SLICE(side_b, K, at_k)
            barrier();
            add_dots(s);
            barrier();
            LOAD_SLICE(side_a, dO, at_o)
            LOAD_SLICE(side_b, V, at_k)
            barrier();
            add_dots(u);
            barrier();
        }
        EACH4(r) EACH4(c) {
            float slope, x = capped(s[r][c] * GAIN, slope);
            bool sees = SEES(q0 + OWN_ROW(r), start[r], k0 + PAIR(c));
            score[OWN_ROW(r)][PAIR(c)] = sees ? exp2(x - m[r]) * (u[r][c] - delta[r]) * slope : 0.0;
        }
        EACH_SLICE {
            LOAD_SLICE(side_b, K, at_k)
            barrier();
            EACH_PAIR(j) {
                vec4 k = side_b[j][X];
                EACH4(r) {
                    vec4 sum = fma(vec4(score[OWN_ROW(r)][j]), k, dq[r][n]);
                    dq[r][n] = MEETS(q0 + OWN_ROW(r), start[r], k0) ? sum : dq[r][n];
                }
            }
            barrier();
        }
    }
    EACH4(r) {
        uint i = q0 + OWN_ROW(r);
        if (live && i < p.T) EACH_SLICE if (IS_DIM) PUT(dQ, at_q[r] / 4u + 8u * n + X, dq[r][n] * p.scale);
    }
}
