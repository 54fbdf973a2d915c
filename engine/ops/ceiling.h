/* How fast a device is at best, measured by kernels that do one thing only: what every other figure is a share
 * of.
 *
 * The kernels load and store as those of the machine's class do (texels and 8 lanes, or storage buffers), so
 * the ceiling is one that this class could reach, not what the data sheet says. Seconds at a ceiling follow the
 * roofline: a call needs the longer of what its operations and what its bytes take. Arithmetic is float32's and
 * a copy stores as much as it loads: matrix units, calls that mostly load, and tensors that a cache still holds
 * can beat it. */
#ifndef COLM_OPS_CEILING_H
#define COLM_OPS_CEILING_H

#include "engine/ops/ops.h"

typedef struct {
    double flops;         /* floating-point operations a second, fused multiply-add = 2 */
    double memory;        /* bytes a second, read plus written, of a copy far larger than caches */
    double cache;         /* likewise of one that stays in cache */
    uint64_t cache_bytes; /* what that one works on: calls that move no more are held against it */
} ops_ceiling;

/* Takes about half a second and device memory for two buffers of at most 128 MiB, given back at the end. All
 * zero on machines that are no device. */
COLM_MUST_USE colm_status ops_ceiling_measure(ops_machine *m, ops_ceiling *ret, colm_err *err);

/* Least seconds for so many operations and bytes; 0 where c is all zero. */
double ops_ceiling_seconds(const ops_ceiling *c, double flops, double bytes);

#endif
