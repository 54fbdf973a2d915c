/* AdamW (Loshchilov & Hutter 2019): g = out[1] G, m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
 * p -= lr (c1 m / (sqrt(c2 v) + eps) + decay p), with c1 = 1/(1 - beta1^t), c2 = 1/(1 - beta2^t). Nothing where out[2] says
 * that the gradients are no numbers. PER vec4s an invocation. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "row.glsl"
PUSH(adamw)
IO4(0, P)
IN4(1, G)
IO4(2, M)
IO4(3, V)
IN(4, float, clip)

#define PER 16u

void main() {
    PUSH_ONCE(adamw)
    if (clip[2] != 0.0) return;
    float scale = clip[1];
    uint first = GROUP_FOLDED * (WIDTH * PER) + ME;
    for (uint k = 0u; k < PER; k++) {
        uint i = first + k * WIDTH;
        if (i < (p.n + 3u) / 4u) {
            vec4 g = LOAD4(G, i) * scale, x = LOAD4(P, i);
            vec4 m = p.beta1 * LOAD4(M, i) + (1.0 - p.beta1) * g, v = p.beta2 * LOAD4(V, i) + (1.0 - p.beta2) * g * g;
            x -= p.lr * (m * p.c1 / (sqrt(v * p.c2) + p.eps) + p.decay * x);
            if (i < p.n / 4u) {
                STORE4(P, i, x);
                STORE4(M, i, m);
                STORE4(V, i, v);
            } else {
                STORE4_PART(P, i, x, p.n % 4u)
                STORE4_PART(M, i, m, p.n % 4u)
                STORE4_PART(V, i, v, p.n % 4u)
            }
        }
    }
}
