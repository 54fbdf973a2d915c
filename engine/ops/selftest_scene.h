/* Private to the selftest: a scene is a few tensors and the calls that work on them, one after the other. */
#ifndef COLM_OPS_SELFTEST_SCENE_H
#define COLM_OPS_SELFTEST_SCENE_H

#include "engine/ops/ops.h"

#define SCENE_TENSORS 10
#define SCENE_CALLS 6
#define SCENE_FRAME 128u /* elements before and after what the calls see */

/* Where the contract lets nobody read: NaN; in tensors that some call reads and writes, where a NaN might stay
 * what it is, a number that wins any sum. */
#define SCENE_NAN 0x7FC0BEEFu
#define SCENE_LARGE 0x4F3A5EEDu

typedef struct {
    ops_dtype dtype;
    size_t len;     /* of the view */
    uint32_t *bits; /* len + 2 SCENE_FRAME elements, float or uint32; float too where 16 bits hold them */
    uint32_t large; /* what became of SCENE_LARGE */
    size_t tail;    /* from this element of the view on ... */
    uint32_t ld, first, cols; /* ... columns first .. first+cols-1 of rows of ld may become anything */
} scene_tensor;

typedef struct {
    char shape[96];
    scene_tensor t[SCENE_TENSORS];
    struct {
        ops_id op;
        ops_push p;
        uint32_t t[OPS_MAX_TENSORS]; /* which tensors */
    } call[SCENE_CALLS];
    uint32_t n_tensors, n_calls;
    uint32_t number; /* of the case: picks offsets and strides, seeds the numbers */
    bool failed;     /* out of memory */
} scene;

/* Builds case i with floats stored as t wherever every call that works on them lets them be; false past the
 * last. scene_done also after failure. */
bool scene_make(uint32_t i, ops_dtype t, scene *ret);
/* Whether call c works on a tensor stored as t. */
bool scene_stores(const scene *s, uint32_t c, ops_dtype t);
void scene_done(scene *s);
/* Largest NMSE allowed of a result stored as t. */
double scene_limit(ops_id op, ops_dtype t);

#endif
