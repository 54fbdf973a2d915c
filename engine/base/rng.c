#include "engine/base/rng.h"

#include <Random123/philox.h>
#include <math.h>
#include <string.h>

#include "engine/base/hash.h"

#define PI 3.14159265358979323846

typedef struct {
    uint64_t a, b;
} block;

static block draw(const rng_stream *s, uint64_t i) {
    philox4x32_ctr_t c = {{(uint32_t)i, (uint32_t)(i >> 32), s->hi[0], s->hi[1]}};
    philox4x32_key_t k = {{s->key[0], s->key[1]}};
    c = philox4x32_R(10, c, k);
    return (block){(uint64_t)c.v[1] << 32 | c.v[0], (uint64_t)c.v[3] << 32 | c.v[2]};
}

rng_stream rng_open(uint64_t seed, const char *name) {
    uint64_t h = hash_u64(name, strlen(name));
    return (rng_stream){{(uint32_t)seed, (uint32_t)(seed >> 32)}, {(uint32_t)h, (uint32_t)(h >> 32)}};
}

uint64_t rng_u64(const rng_stream *s, uint64_t i) {
    return draw(s, i).a;
}

double rng_uniform(const rng_stream *s, uint64_t i) {
    return (double)(rng_u64(s, i) >> 11) * 0x1p-53;
}

uint64_t rng_below(const rng_stream *s, uint64_t i, uint64_t n) {
    // Upper half of the 128-bit product x * n, in 32-bit pieces.
    uint64_t x = rng_u64(s, i), xh = x >> 32, xl = (uint32_t)x, nh = n >> 32, nl = (uint32_t)n;
    uint64_t low = xl * nl, mid = xh * nl + (low >> 32), cross = xl * nh + (uint32_t)mid;
    return xh * nh + (mid >> 32) + (cross >> 32);
}

double rng_normal(const rng_stream *s, uint64_t i) {
    block d = draw(s, i);
    double u = ((double)(d.a >> 12) + 0.5) * 0x1p-52; // never 0: the logarithm is finite
    double v = (double)(d.b >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * PI * v);
}
