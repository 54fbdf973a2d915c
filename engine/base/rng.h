/* Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011; Random123).
 *
 * A stream is named by (seed, name); the i-th draw is a pure function of (seed, name, i), so order, threads and
 * resumes cannot change it. Nothing has state. */
#ifndef COLM_BASE_RNG_H
#define COLM_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t key[2];
    uint32_t hi[2]; /* upper half of the counter: hash of the name */
} rng_stream;

rng_stream rng_open(uint64_t seed, const char *name);
/* 64 random bits. */
uint64_t rng_u64(const rng_stream *s, uint64_t i);
/* Uniform in [0, 1) with 53 bits. */
double rng_uniform(const rng_stream *s, uint64_t i);
/* Uniform in 0 .. n-1 without modulo bias worth naming (multiply-high of 64 bits); n > 0. */
uint64_t rng_below(const rng_stream *s, uint64_t i, uint64_t n);
/* Standard normal (Box-Muller on the two 64-bit halves of block i). */
double rng_normal(const rng_stream *s, uint64_t i);

#endif
