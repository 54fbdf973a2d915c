/* Workgroup counts: how n groups lie on axes of at most 65535 (GROUP_FOLDED in shaders/common.glsl). */
#ifndef COLM_OPS_GROUPS_H
#define COLM_OPS_GROUPS_H

#include <stdint.h>

static inline uint64_t groups_ceil(uint64_t n, uint64_t size) {
    return n / size + (n % size != 0);
}

/* n groups on x and z, each for every one of `each` on y. */
static inline void groups_fold(uint64_t n, uint32_t each, uint32_t groups[3]) {
    groups[0] = (uint32_t)(n < 65535 ? n : 65535);
    groups[1] = each;
    groups[2] = (uint32_t)groups_ceil(n, 65535);
}

#endif
