/* A device for the tests of operations, opened once, and machines on it. With COLM_TEST_VALIDATE set the
 * validation layer watches, and any objection fails the program. */
#ifndef COLM_TESTS_OPS_DEVICE_H
#define COLM_TESTS_OPS_DEVICE_H

#include "engine/ops/ops.h"
#include "tests/test.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

static gpu_device *test_gpu;
static const char *const test_classes[] = {"cpu", "gpu", "portable"}; /* as ops_classes */

static void test_log_(void *user, log_level level, const char *text) {
    (void)user;
    if (level >= LOG_WARN) printf("# %s\n", text);
}
static const log_sink test_sink = {test_log_, NULL};

/* False, with the case marked as skipped, when there is no device. */
static inline bool have_device(void) {
    static bool tried;
    static colm_err why;
    if (!tried) {
        tried = true;
        gpu_params p = {.validate = getenv("COLM_TEST_VALIDATE") != NULL, .log = &test_sink};
        if (gpu_open(&p, &test_gpu, &why)) test_gpu = NULL;
    }
    if (!test_gpu) test_skip(why.text);
    return test_gpu != NULL;
}

/* A machine of a class, or NULL: where the device lacks what the class needs. */
static inline ops_machine *machine_of(const char *kernels) {
    ops_machine *m = NULL;
    ops_machine_params p = {.kernels = kernels, .log = &test_sink};
    colm_err err;
    if (!ops_open_gpu(test_gpu, &p, &m, &err)) return m;
    printf("# %s\n", err.text);
    return NULL;
}

static inline int end_with_device(void) {
    if (test_gpu && gpu_validation_messages(test_gpu)) {
        printf("# the validation layer objected %u times\n", gpu_validation_messages(test_gpu));
        test_failed_++;
    }
    gpu_close(&test_gpu);
    return test_end();
}

#endif
