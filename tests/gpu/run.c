/* Kernels run on the device: storage and texel bindings, push constants, barriers, submissions, copies. */
#include "engine/base/mem.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/kernels.h"

static gpu_device *dev;

typedef struct {
    uint32_t n;
    float scale;
} add_push;

static gpu_buffer *buffer_of(size_t bytes, const char *purpose) {
    gpu_buffer *b = NULL;
    colm_err err = {0};
    CHECK_OK(gpu_buffer_create(dev, bytes, purpose, &b, &err), err);
    return b;
}

static gpu_kernel *kernel_of(const char *file, const char *define) {
    gpu_kernel *k = NULL;
    colm_err err = {0};
    CHECK_OK(gpu_kernel_get(dev,
                            &(gpu_kernel_params){.file = file, .defines = &define, .n_defines = define ? 1 : 0}, &k,
                            &err),
             err);
    return k;
}

static void adds_two_buffers(void) {
    enum { N = 1000 };
    static float a[N], b[N], c[N + 24];
    colm_err err = {0};
    gpu_buffer *x = buffer_of(sizeof a, "a"), *y = buffer_of(sizeof b, "b"), *z = buffer_of(sizeof c, "c");
    gpu_kernel *k = kernel_of("add.comp", "OP=+1.0");
    gpu_set *s = NULL;
    if (!x || !y || !z || !k) return;
    for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = (float)(3 * i);
    CHECK_OK(gpu_write(x, 0, a, sizeof a, &err), err);
    CHECK_OK(gpu_write(y, 0, b, sizeof b, &err), err);
    const gpu_range ranges[] = {{x, 0, sizeof a}, {y, 0, sizeof b}, {z, 0, sizeof c}};
    CHECK_OK(gpu_bind(dev, k, ranges, 3, &s, &err), err);
    CHECK_OK(gpu_begin(dev, &err), err);
    const add_push push = {N, 2};
    CHECK_OK(gpu_dispatch(dev, k, s, &push, sizeof push, (uint32_t[]){(N + 63) / 64, 1, 1}, 2 * N, &err), err);
    CHECK_OK(gpu_end(dev, &err), err);
    CHECK_OK(gpu_read(z, 0, c, sizeof c, &err), err);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += !(c[i] == 2 * a[i] + b[i] + 1);
    for (int i = N; i < N + 24; i++) wrong += !(c[i] == 0); /* new memory is zero and nothing ran past the end */
    CHECK(wrong == 0);
    gpu_unbind(dev, &s);
    CHECK(!s);
    gpu_buffer_free(&x), gpu_buffer_free(&y), gpu_buffer_free(&z);
}

int main(void) {
    bench_folders();
    bench_put("add.comp", ADD);
    bench_put("abi.glsl", ABI);
    bench_put("flip.comp", FLIP);
    bench_put("step.comp", STEP);
    const gpu_params p = bench_params();
    dev = bench_open(&p);
    TEST(adds_two_buffers);
    gpu_close(&dev);
    bench_done();
    return test_end();
}
