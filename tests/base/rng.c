#include "engine/base/rng.h"

#include "engine/base/hash.h"
#include "tests/test.h"

// Known answers of Philox4x32-10 (Random123's kat_vectors): counter, key, result, lowest word first.
static void known_answers(void) {
    static const struct {
        uint32_t counter[4], key[2];
        uint64_t first;
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, 0xe169c58d6627e8d5},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, 0x41c83b0e408f276d},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, 0x94fdccebd16cfe09},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rng_stream s = {{cases[i].key[0], cases[i].key[1]}, {cases[i].counter[2], cases[i].counter[3]}};
        CHECK(rng_u64(&s, (uint64_t)cases[i].counter[1] << 32 | cases[i].counter[0]) == cases[i].first);
    }
}

static void streams_are_named(void) {
    rng_stream a = rng_open(7, "init"), b = rng_open(7, "order"), c = rng_open(8, "init"),
               d = rng_open(7ull << 32, "init");
    CHECK(rng_u64(&a, 0) != rng_u64(&b, 0));
    CHECK(rng_u64(&a, 0) != rng_u64(&c, 0));
    CHECK(rng_u64(&a, 0) != rng_u64(&d, 0)); // all 64 bits of the seed count
    CHECK(rng_u64(&a, 1) != rng_u64(&a, 1 + (1ull << 32)));
    rng_stream again = rng_open(7, "init");
    uint64_t late = rng_u64(&again, 1000);
    rng_u64(&a, 3);
    CHECK(rng_u64(&a, 1000) == late); // no state: the order of draws does not matter
}

// A change of the streams would silently change every seeded result, so their values are pinned.
static void streams_do_not_change(void) {
    rng_stream s = rng_open(42, "weights");
    CHECK(s.key[0] == 42 && s.key[1] == 0);
    uint64_t name = hash_u64("weights", 7);
    CHECK(s.hi[0] == (uint32_t)name && s.hi[1] == (uint32_t)(name >> 32));
    CHECK(name == 0x06cc94573ff53c71);
    CHECK(rng_u64(&s, 5) == 0xe5fa66d13b0a083c);
    CHECK_NEAR(rng_normal(&s, 5), -0.43173281792883572, 1e-14);
}

static void uniform_fills_its_range(void) {
    rng_stream s = rng_open(1, "uniform");
    enum { N = 200000, BINS = 20 };
    double sum = 0, low = 1, high = 0;
    int bin[BINS] = {0};
    for (uint64_t i = 0; i < N; i++) {
        double u = rng_uniform(&s, i);
        sum += u;
        low = u < low ? u : low;
        high = u > high ? u : high;
        bin[(int)(u * BINS)]++;
    }
    CHECK(low >= 0 && low < 1e-4 && high < 1 && high > 1 - 1e-4);
    CHECK_NEAR(sum / N, 0.5, 5 * sqrt(1.0 / 12 / N));
    double chi2 = 0, want = (double)N / BINS;
    for (int i = 0; i < BINS; i++) chi2 += (bin[i] - want) * (bin[i] - want) / want;
    CHECK(chi2 < 50); // 19 degrees of freedom: mean 19, standard deviation 6.2
}

static void below_reaches_each_and_no_more(void) {
    rng_stream s = rng_open(2, "below");
    int seen[7] = {0};
    size_t bad = 0;
    for (uint64_t i = 0; i < 70000; i++) {
        uint64_t v = rng_below(&s, i, 7);
        if (v < 7) {
            seen[v]++;
        } else {
            bad++;
        }
        bad += rng_below(&s, i, 1) != 0;
        bad += rng_below(&s, i, UINT64_MAX) >= UINT64_MAX;
    }
    CHECK(bad == 0);
    for (int i = 0; i < 7; i++) CHECK_NEAR(seen[i], 10000, 5 * sqrt(70000 * 6.0 / 49));
    // The upper half of the product, against long multiplication in halves of another size.
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t n = rng_u64(&s, i + 100000), x = rng_u64(&s, i), high = 0, low = 0;
        for (int bit = 63; bit >= 0; bit--) { // (high, low) = 2 (high, low) + bit of x times n
            high = high << 1 | low >> 63;
            low <<= 1;
            if (x >> bit & 1) {
                low += n;
                high += low < n;
            }
        }
        bad += n && rng_below(&s, i, n) != high;
    }
    CHECK(bad == 0);
}

static void normal_has_its_moments(void) {
    rng_stream s = rng_open(3, "normal");
    enum { N = 200000 };
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, beyond = 0, next = 0, last = 0;
    for (uint64_t i = 0; i < N; i++) {
        double v = rng_normal(&s, i);
        m1 += v / N;
        m2 += v * v / N;
        m3 += v * v * v / N;
        m4 += v * v * v * v / N;
        beyond += fabs(v) > 1.959963984540054;
        next += v * last / N;
        last = v;
    }
    CHECK_NEAR(m1, 0, 5 / sqrt(N));
    CHECK_NEAR(m2, 1, 5 * sqrt(2.0 / N));
    CHECK_NEAR(m3, 0, 5 * sqrt(15.0 / N));
    CHECK_NEAR(m4, 3, 5 * sqrt(96.0 / N));
    CHECK_NEAR(beyond / N, 0.05, 5 * sqrt(0.05 * 0.95 / N));
    CHECK_NEAR(next, 0, 5 / sqrt(N));
}

int main(void) {
    TEST(known_answers);
    TEST(streams_are_named);
    TEST(streams_do_not_change);
    TEST(uniform_fills_its_range);
    TEST(below_reaches_each_and_no_more);
    TEST(normal_has_its_moments);
    return test_end();
}
