/* Kernels run on the device: storage and texel bindings, push constants, barriers, submissions, copies. */
#include "engine/base/mem.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/kernels.h"

static gpu_device *dev;
static bool layer; /* validation is on */

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
                            &(gpu_kernel_params){.file = file, .defines = &define, .n_defines = define ? 1 : 0},
                            &k, &err),
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
    CHECK_OK(gpu_dispatch(dev, k, s, &push, sizeof push, (uint32_t[]){(N + 63) / 64, 1, 1}, 2000, &err), err);
    CHECK_OK(gpu_end(dev, &err), err);
    CHECK_OK(gpu_read(z, 0, c, sizeof c, &err), err);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += !(c[i] == 2 * a[i] + b[i] + 1);
    for (int i = N; i < N + 24; i++)
        wrong += !(c[i] == 0); /* new memory is zero and nothing ran past the end */
    CHECK(wrong == 0);
    gpu_unbind(dev, &s);
    CHECK(!s);
    gpu_buffer_free(&x), gpu_buffer_free(&y), gpu_buffer_free(&z);
}

static void texels_are_read(void) {
    enum { N = 300 };
    static float a[4 * N], b[4 * N];
    colm_err err = {0};
    gpu_buffer *x = buffer_of(GPU_ALIGN + sizeof a, "a"), *y = buffer_of(sizeof b, "b");
    gpu_kernel *k = kernel_of("flip.comp", NULL);
    gpu_set *s = NULL;
    if (!x || !y || !k) return;
    for (int i = 0; i < 4 * N; i++) a[i] = (float)i;
    CHECK_OK(gpu_write(x, GPU_ALIGN, a, sizeof a, &err), err); /* an offset of one alignment */
    CHECK_OK(gpu_bind(dev, k, (gpu_range[]){{x, GPU_ALIGN, sizeof a - 4}, {y, 0, sizeof b}}, 2, &s, &err), err);
    CHECK_OK(gpu_begin(dev, &err), err);
    const uint32_t n = N;
    CHECK_OK(gpu_dispatch(dev, k, s, &n, sizeof n, (uint32_t[]){(N + 31) / 32, 1, 1}, 0, &err), err);
    CHECK_OK(gpu_end(dev, &err), err);
    CHECK_OK(gpu_read(y, 0, b, sizeof b, &err), err);
    int wrong = 0;
    for (int i = 0; i < 4 * N; i++) wrong += !(b[i] == a[4 * N - 1 - i]);
    CHECK(wrong == 0);
    gpu_unbind(dev, &s);
    gpu_buffer_free(&x), gpu_buffer_free(&y);
}

enum { STEPS = 40, WIDTH = 513 };
static const size_t chain_bytes = WIDTH * sizeof(float);

static bool same_bits(const void *a, const void *b, size_t n) {
    return memcmp(a, b, n) == 0;
}

/* Runs a chain of steps, each reading what others wrote in the one before, and gives its result and
 * submissions. */
static uint64_t run_chain(uint64_t budget, bool barriers, float ret[WIDTH]) {
    colm_err err = {0};
    const uint64_t was = dev->budget;
    uint64_t before = 0, after = 0;
    double longest = -1;
    gpu_buffer *x = buffer_of(chain_bytes, "x"), *y = buffer_of(chain_bytes, "y");
    gpu_kernel *k = kernel_of("step.comp", NULL);
    gpu_set *sets[2] = {NULL, NULL};
    if (!x || !y || !k) return 0;
    for (int i = 0; i < 2; i++)
        CHECK_OK(gpu_bind(dev, k, (gpu_range[]){{i ? y : x, 0, chain_bytes}, {i ? x : y, 0, chain_bytes}}, 2,
                          &sets[i], &err),
                 err);
    dev->budget = budget;
    gpu_submit_stats(dev, &before, &longest);
    CHECK_OK(gpu_begin(dev, &err), err);
    const unsigned long long allocations = mem_count();
    for (int i = 0; i < STEPS; i++) {
        const uint32_t n = WIDTH;
        CHECK_OK(
            gpu_dispatch(dev, k, sets[i % 2], &n, sizeof n, (uint32_t[]){(WIDTH + 63) / 64, 1, 1}, 100, &err),
            err);
        if (barriers) gpu_barrier(dev);
    }
    CHECK(mem_count() == allocations);
    CHECK_OK(gpu_end(dev, &err), err);
    gpu_submit_stats(dev, &after, &longest);
    CHECK(longest > 0 && longest < 60);
    dev->budget = was;
    CHECK_OK(gpu_read(x, 0, ret, chain_bytes, &err), err); /* the last step, an odd one, wrote x */
    for (int i = 0; i < 2; i++) gpu_unbind(dev, &sets[i]);
    gpu_buffer_free(&x), gpu_buffer_free(&y);
    return after - before;
}

static void submissions_change_no_bit(void) {
    static float want[WIDTH], one[WIDTH], got[WIDTH], zero[WIDTH];
    static float even[WIDTH];
    for (int s = 0; s < STEPS; s++) {
        memcpy(even, want, sizeof want);
        for (int i = 0; i < WIDTH; i++) want[i] = even[(i + 1) % WIDTH] * 0.5f + (float)i;
    }
    CHECK(run_chain(UINT64_MAX, true, one) == 1);
    CHECK(same_bits(one, want, sizeof want));
    CHECK(!same_bits(one, zero, sizeof zero));
    static const struct {
        uint64_t budget, submissions;
    } cases[] = {{100, STEPS}, {1, STEPS}, {199, STEPS}, {200, STEPS / 2}, {799, (STEPS + 6) / 7}, {4000, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        memset(got, 0, sizeof got);
        CHECK(run_chain(cases[c].budget, true, got) == cases[c].submissions);
        CHECK(same_bits(one, got, sizeof got));
    }
}

static int expected; /* messages of the layer that were asked for */

/* The layer is only worth its silence if it speaks when a barrier lacks. */
static void a_missing_barrier_is_reported(void) {
    static float got[WIDTH];
    if (!dev->instance.messenger) {
        test_skip("the validation layer is not installed");
        return;
    }
    CHECK(gpu_validation_messages(dev) == 0); /* silent so far */
    bench_quiet = true;
    run_chain(UINT64_MAX, false, got);
    bench_quiet = false;
    CHECK(gpu_validation_messages(dev) > 0);
    CHECK(bench_count("SYNC-HAZARD") > 0);
    expected = bench_count("validation: ");
}

/* Copies of many sizes through a mapping, through one that must be flushed, and staged. */
static void copies_by_every_way(void) {
    const size_t size = GPU_STAGING * 2 + 1000;
    unsigned char *in = mem_alloc(size, 1), *out = mem_alloc(size, 1);
    const bool visible = dev->found.info.host_visible;
    for (size_t i = 0; i < size; i++) in[i] = (unsigned char)(i * 7 + (i >> 11));
    for (int way = 0; way < 3; way++) {
        colm_err err = {0};
        dev->found.info.host_visible = visible && way < 2;
        gpu_buffer *b = buffer_of(size, "copies");
        if (!b) break;
        CHECK((b->map != NULL) == dev->found.info.host_visible);
        if (way == 1) b->coherent = false;
        CHECK_OK(gpu_read(b, 0, out, size, &err), err);
        size_t wrong = 0;
        for (size_t i = 0; i < size; i++) wrong += out[i] != 0;
        CHECK(wrong == 0); /* new memory */
        static const size_t pieces[][2] = {{0, 1}, {255, 2}, {1000, GPU_STAGING}, {3, GPU_STAGING + 5}, {0, 0}};
        for (size_t p = 0; p <= sizeof pieces / sizeof *pieces; p++) {
            const bool all = p == sizeof pieces / sizeof *pieces;
            const size_t at = all ? 0 : pieces[p][0], n = all ? size : pieces[p][1];
            memset(out, 0xee, size);
            CHECK_OK(gpu_write(b, at, in + at, n, &err), err);
            CHECK_OK(gpu_read(b, at, out, n, &err), err);
            CHECK(memcmp(out, in + at, n) == 0);
            CHECK(n == size || out[n] == 0xee);
        }
        CHECK(gpu_write(b, b->bytes - 3, in, 4, &err) == COLM_E_BUG);
        CHECK_HAS(err.text, "copies: gpu_write of 4 bytes at ");
        CHECK(gpu_read(b, SIZE_MAX, out, 4, &err) == COLM_E_BUG);
        CHECK(gpu_read(b, 4, out, SIZE_MAX, &err) == COLM_E_BUG);
        CHECK_OK(gpu_read(b, b->bytes, out, 0, &err), err);
        gpu_buffer_free(&b);
    }
    dev->found.info.host_visible = visible;
    free(in);
    free(out);
}

static void bytes_are_counted(void) {
    const uint64_t before = gpu_bytes_allocated(dev);
    gpu_buffer *a = buffer_of(1, "a"), *b = buffer_of(257, "b"), *c = buffer_of(0, "c");
    if (!a || !b || !c) return;
    CHECK(gpu_buffer_bytes(a) == 256 && gpu_buffer_bytes(b) == 512 && gpu_buffer_bytes(c) == 256);
    CHECK(gpu_bytes_allocated(dev) == before + 1024);
    gpu_buffer_free(&b), gpu_buffer_free(&a), gpu_buffer_free(&c), gpu_buffer_free(&c);
    CHECK(gpu_bytes_allocated(dev) == before);
    for (uint32_t h = 0; h < dev->memory.memoryHeapCount; h++)
        CHECK(dev->heap_used[h] == (dev->staging && dev->staging->heap == h ? dev->staging->reserved : 0));
}

static void wrong_ranges_are_refused(void) {
    colm_err err = {0};
    gpu_kernel *k = kernel_of("flip.comp", NULL);
    gpu_buffer *x = buffer_of(4096, "some arena");
    gpu_set *s = NULL;
    if (!k || !x) return;
    const gpu_range good = {x, 0, 4096};
    static const struct {
        size_t offset, bytes;
        const char *says;
    } cases[] = {
        {128, 256, "offset 128 in some arena is not a multiple of 256"},
        {0, 0, "0 bytes at 0 are not inside"},
        {256, 4096, "4096 bytes at 256 are not inside some arena of 4096"},
        {8192, 1, "1 bytes at 8192"},
        {0, SIZE_MAX, "are not inside"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int t = 0; t < 2; t++) {
            gpu_range r[] = {good, good};
            r[t] = (gpu_range){x, cases[c].offset, cases[c].bytes};
            CHECK(gpu_bind(dev, k, r, 2, &s, &err) == COLM_E_BUG && !s);
            CHECK_HAS(err.text, cases[c].says);
            CHECK_HAS(err.text, t ? "flip.comp: tensor 1" : "flip.comp: tensor 0");
        }
    CHECK(gpu_bind(dev, k, &good, 1, &s, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "flip.comp: tensor 1 has no buffer");
    CHECK(gpu_bind(dev, k, (gpu_range[]){{NULL, 0, 16}, good}, 2, &s, &err) == COLM_E_BUG);
    /* The device's limits, made small for once. */
    const gpu_info was = dev->found.info;
    dev->found.info.max_texels = 255;
    CHECK(gpu_bind(dev, k, (gpu_range[]){good, good}, 2, &s, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "4096 bytes of some arena are over the device's 255 texels of 16 bytes");
    dev->found.info.max_texels = 256;
    dev->found.info.max_range = 4095;
    CHECK(gpu_bind(dev, k, (gpu_range[]){good, good}, 2, &s, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "tensor 1: 4096 bytes of some arena are over the device's 4095 per binding");
    dev->found.info.max_range = 4096;
    CHECK_OK(gpu_bind(dev, k, (gpu_range[]){good, good}, 2, &s, &err), err);
    dev->found.info = was;
    gpu_unbind(dev, &s);
    gpu_buffer_free(&x);
}

static void misuse_is_refused(void) {
    colm_err err = {0};
    gpu_kernel *k = kernel_of("flip.comp", NULL), *other = kernel_of("step.comp", NULL);
    gpu_buffer *x = buffer_of(4096, "x"), *y = buffer_of(64, "y"), *late = NULL;
    gpu_set *s = NULL, *t = NULL;
    const uint32_t n = 0, one[] = {1, 1, 1};
    const gpu_range r[] = {{x, 0, 4096}, {x, 0, 4096}};
    if (!k || !other || !x || !y) return;
    CHECK_OK(gpu_bind(dev, k, r, 2, &s, &err), err);
    CHECK(gpu_dispatch(dev, k, s, &n, 4, one, 0, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "outside gpu_begin");
    CHECK(gpu_end(dev, &err) == COLM_E_BUG);
    CHECK_OK(gpu_begin(dev, &err), err);
    CHECK(gpu_begin(dev, &err) == COLM_E_BUG);
    CHECK(gpu_write(x, 0, &n, 4, &err) == COLM_E_BUG);
    CHECK(gpu_read(x, 0, &t, 4, &err) == COLM_E_BUG);
    CHECK(gpu_buffer_create(dev, 16, "late", &late, &err) == COLM_E_BUG && !late);
    CHECK(gpu_dispatch(dev, other, s, &n, 4, one, 0, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "step.comp: the set was bound for flip.comp");
    CHECK(gpu_dispatch(dev, k, s, &n, 3, one, 0, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "3 bytes of push constants were given, it declares 4");
    CHECK(gpu_dispatch(dev, k, s, &n, 20, one, 0, &err) == COLM_E_BUG);
    for (int a = 0; a < 3; a++) {
        uint32_t groups[] = {1, 1, 1};
        if (dev->found.info.max_groups[a] == UINT32_MAX) continue;
        groups[a] = dev->found.info.max_groups[a] + 1;
        CHECK(gpu_dispatch(dev, k, s, &n, 4, groups, 0, &err) == COLM_E_BUG);
        CHECK_HAS(err.text, "over the device's limit");
    }
    CHECK_OK(gpu_dispatch(dev, k, s, &n, 4, (uint32_t[]){0, 1, 1}, 0, &err), err);
    CHECK_OK(gpu_end(dev, &err), err);
    /* Freed while recorded: the recording goes, not the process. */
    CHECK_OK(gpu_bind(dev, other, (gpu_range[]){{y, 0, 64}, {y, 0, 64}}, 2, &t, &err), err);
    CHECK_OK(gpu_begin(dev, &err), err);
    CHECK_OK(gpu_dispatch(dev, other, t, &n, 4, one, 0, &err), err);
    gpu_unbind(dev, &t);
    CHECK(gpu_end(dev, &err) == COLM_E_BUG);
    CHECK_OK(gpu_begin(dev, &err), err);
    CHECK_OK(gpu_dispatch(dev, k, s, &n, 4, one, 0, &err), err);
    CHECK_OK(gpu_end(dev, &err), err);
    gpu_unbind(dev, &s);
    gpu_buffer_free(&x), gpu_buffer_free(&y);
}

/* More sets than any one pool holds, freed in another order. */
static void sets_do_not_run_out(void) {
    enum { N = 1500 };
    static gpu_set *sets[N];
    colm_err err = {0};
    gpu_kernel *k = kernel_of("add.comp", "OP=+1.0");
    gpu_buffer *x = buffer_of(4096, "x");
    if (!k || !x) return;
    const gpu_range r[] = {{x, 0, 256}, {x, 256, 256}, {x, 512, 256}};
    int failed = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            if (!sets[i]) failed += gpu_bind(dev, k, r, 3, &sets[i], &err) != COLM_OK;
        for (int i = round; i < N; i += 2 + round) gpu_unbind(dev, &sets[i]);
    }
    CHECK(failed == 0);
    for (int i = N - 1; i >= 0; i--) gpu_unbind(dev, &sets[i]);
    int pools = 0;
    for (gpu_pool *p = dev->pools; p; p = p->next) pools++, failed += p->used != 0;
    CHECK(pools >= N / 256 && pools <= N / 256 + 2 && failed == 0);
    gpu_buffer_free(&x);
}

static void kernels_are_made_once(void) {
    char before[33], after[33], again[33];
    colm_err err = {0};
    gpu_kernel *a = kernel_of("add.comp", "OP=+1.0");
    gpu_kernels_digest(dev, before);
    CHECK(a && a == kernel_of("add.comp", "OP=+1.0"));
    gpu_kernels_digest(dev, again);
    CHECK_STR(before, again);
    CHECK(a != kernel_of("add.comp", "OP=-1.0"));
    gpu_kernels_digest(dev, after);
    CHECK(strlen(after) == 32 && strcmp(before, after) != 0);
    gpu_kernel *k = NULL;
    const gpu_kernel_params odd = {.file = "flip.comp", .subgroup = 3};
    CHECK(gpu_kernel_get(dev, &odd, &k, &err) == COLM_E_BUG && !k);
    CHECK_HAS(err.text, "flip.comp: needs subgroups of 3");
    const gpu_kernel_params fits = {.file = "flip.comp", .subgroup = dev->found.info.subgroup};
    CHECK_OK(gpu_kernel_get(dev, &fits, &k, &err), err);
    const gpu_kernel_params none = {.file = "none.comp"};
    CHECK(gpu_kernel_get(dev, &none, &k, &err) == COLM_E_IO);
    bench_put("wide.comp", HEAD "layout(local_size_x = 1, local_size_y = 4096) in; void main() {}\n");
    CHECK(gpu_kernel_get(dev, &(gpu_kernel_params){.file = "wide.comp"}, &k, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "wide.comp");
    const char *defines[] = {"OP=*2.0", "Z=1"};
    CHECK_OK(gpu_kernel_get(dev, &(gpu_kernel_params){.file = "add.comp", .defines = defines, .n_defines = 2},
                            &k, &err),
             err);
    CHECK(k && strcmp(k->name, "add.comp [OP=*2.0 Z=1]") == 0);
}

/* The digest does not depend on the order in which kernels were made, nor on the device object. */
static void digests_are_of_the_set_of_kernels(void) {
    static const char *const files[] = {"flip.comp", "step.comp", "add.comp"};
    static const char *const op = "OP=";
    char digests[2][33];
    for (int turn = 0; turn < 2; turn++) {
        const gpu_params p = bench_params();
        gpu_device *d = bench_open(&p);
        colm_err err = {0};
        if (!d) return;
        for (int i = 0; i < 3; i++) {
            gpu_kernel *k = NULL;
            const gpu_kernel_params kp = {.file = files[turn ? 2 - i : i], .defines = &op, .n_defines = 1};
            CHECK_OK(gpu_kernel_get(d, &kp, &k, &err), err);
        }
        gpu_kernels_digest(d, digests[turn]);
        gpu_close(&d);
        CHECK(!d);
    }
    CHECK_STR(digests[0], digests[1]);
}

static void devices_are_listed(void) {
    gpu_info *list = NULL;
    size_t n = 0;
    colm_err err = {0};
    if (!CHECK_OK(gpu_list(&list, &n, &err), err)) return;
    CHECK(n > 0);
    for (size_t i = 0; i < n; i++) {
        printf("# %u: %s; %s; Vulkan %s; UUID %s; %s %s\n", list[i].index, list[i].name, list[i].driver,
               list[i].api, list[i].uuid, list[i].usable ? "usable" : "not usable:", list[i].why);
        CHECK(list[i].index == i && strlen(list[i].uuid) == 32 && list[i].name[0] && list[i].driver[0]);
        CHECK(list[i].usable == !list[i].why[0]);
        CHECK(i == 0 || list[i].kind >= list[i - 1].kind);
        CHECK(!list[i].usable || (list[i].memory && list[i].max_alloc && list[i].subgroup >= 1));
    }
    gpu_device *d = NULL;
    CHECK(gpu_open(&(gpu_params){.device = "no such device"}, &d, &err) == COLM_E_NO_DEVICE && !d);
    CHECK_HAS(err.text, list[0].name);
    gpu_params p = bench_params();
    p.device = dev->found.info.uuid;
    p.log = NULL;
    if (!p.device[0] || gpu_open(&p, &d, &err))
        printf("# by UUID: %s\n", err.text);
    else
        CHECK_STR(gpu_get_info(d)->name, dev->found.info.name);
    gpu_close(&d);
    free(list);
}

/* Until everything is closed, when the layer would speak of what was left behind. */
static void the_layer_stayed_silent(void) {
    if (!layer) test_skip("the validation layer is not installed");
    CHECK(bench_count("validation: ") == expected);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"devices_are_listed", devices_are_listed},
    {"adds_two_buffers", adds_two_buffers},
    {"texels_are_read", texels_are_read},
    {"submissions_change_no_bit", submissions_change_no_bit},
    {"copies_by_every_way", copies_by_every_way},
    {"bytes_are_counted", bytes_are_counted},
    {"wrong_ranges_are_refused", wrong_ranges_are_refused},
    {"misuse_is_refused", misuse_is_refused},
    {"sets_do_not_run_out", sets_do_not_run_out},
    {"kernels_are_made_once", kernels_are_made_once},
    {"digests_are_of_the_set_of_kernels", digests_are_of_the_set_of_kernels},
    {"a_missing_barrier_is_reported", a_missing_barrier_is_reported},
};

static void no_device(void) {
    test_skip("no Vulkan device");
}

int main(void) {
    bench_folders();
    bench_put("add.comp", ADD);
    bench_put("abi.glsl", ABI);
    bench_put("flip.comp", FLIP);
    bench_put("step.comp", STEP);
    const gpu_params p = bench_params();
    dev = bench_open(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_run_(cases[i].name, dev ? cases[i].run : no_device);
    layer = dev && dev->instance.messenger;
    gpu_close(&dev);
    TEST(the_layer_stayed_silent);
    bench_done();
    return test_end();
}
