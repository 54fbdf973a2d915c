/* Rows and widths that hurt, and layouts to go with them. */
#ifndef COLM_TESTS_OPS_SWEEP_H
#define COLM_TESTS_OPS_SWEEP_H

#include "tests/ops/scene.h"

static const uint32_t rows_that_hurt[] = {1, 7, 16, 17, 129};
static const uint32_t widths_that_hurt[] = {1, 5, 8, 24, 31, 33, 72, 256, 344};

/* Runs make(rows, width, i) for rows and widths that hurt, widths from the one numbered `from`; offsets and
 * strides change with i. */
static inline void sweep_from(uint32_t from, scene (*make)(uint32_t rows, uint32_t width, uint32_t i),
                              const double *limits) {
    char what[64];
    if (!machines()) return;
    for (uint32_t r = 0, i = 0; r < COUNT_OF(rows_that_hurt); r++)
        for (uint32_t w = from; w < COUNT_OF(widths_that_hurt); w++, i++) {
            scene s = make(rows_that_hurt[r], widths_that_hurt[w], i);
            snprintf(what, sizeof what, "%u rows, width %u", rows_that_hurt[r], widths_that_hurt[w]);
            bool ok = scene_check(&s, what, limits);
            scene_done(&s);
            if (!ok) return;
        }
}
static inline void sweep(scene (*make)(uint32_t rows, uint32_t width, uint32_t i), const double *limits) {
    sweep_from(0, make, limits);
}

/* A few of them with tensors of 16 bits. */
static inline void sweep_stored(scene (*make)(uint32_t rows, uint32_t width, uint32_t i),
                                const double *limits) {
    static const uint32_t shapes[][2] = {{1, 5}, {7, 344}, {17, 33}, {129, 72}};
    char what[64];
    if (!machines()) return;
    for (uint32_t i = 0; i < COUNT_OF(shapes); i++) {
        scene s = make(shapes[i][0], shapes[i][1], i);
        snprintf(what, sizeof what, "%u rows, width %u", shapes[i][0], shapes[i][1]);
        bool ok = scene_check_stored(&s, what, limits);
        scene_done(&s);
        if (!ok) return;
    }
}

static inline uint32_t offset(uint32_t i) {
    static const uint32_t o[] = {0, 8, 0, 40, 16};
    return o[i % COUNT_OF(o)];
}
static inline uint32_t stride(uint32_t o, uint32_t width, uint32_t i) {
    static const uint32_t more[] = {0, 24, 8};
    return ops_stride(o + ops_pad(width) + more[i % COUNT_OF(more)]);
}

#endif
