/* Selftest: every operation, forward and backward, of every kernel class that a device takes, on shapes that
 * hurt, in every storage that it takes, against the reference in double. Its verdict is kept beside the
 * compiled kernels, and ops_open refuses a device whose newest verdict is a failure. */
#ifndef COLM_OPS_SELFTEST_H
#define COLM_OPS_SELFTEST_H

#include "engine/ops/ops.h"

/* One call on one class. */
typedef struct {
    const char *op, *variant; /* the operation's name; the class whose kernel ran, or "coopmat" */
    const char *dtype;        /* "f32", or how the tensors are stored that may be of 16 bits */
    const char *shape;        /* in words */
    double error, limit;      /* the NMSE (tensor_nmse) of what the call writes that is nearest to its limit, or
                                 beyond it; may be NaN */
    const char *note;         /* what is wrong beside the error, or NULL */
    bool pass;
} ops_selftest_row;

typedef struct {
    const char *device;  /* as for gpu_open */
    const char *kernels; /* NULL or "auto": every class that the device takes; else this one */
    bool validate, sync;
    const char *spoil; /* for tests of the selftest: the results of this operation, or of "all", are changed
                          before they are compared; the verdict is kept */
    const log_sink *log;
    void (*row)(void *user, const ops_selftest_row *r); /* valid during the call; may be NULL */
    void *user;
} ops_selftest_params;

/* Runs all cases and keeps the verdict. COLM_OK: all ran, and *ret_failed of *ret_n rows failed. */
COLM_MUST_USE colm_status ops_selftest(const ops_selftest_params *p, size_t *ret_failed, size_t *ret_n,
                                       colm_err *err);

#endif
