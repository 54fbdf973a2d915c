#include "engine/ops/ceiling.h"

#include <math.h>
#include <string.h>

#include "engine/ops/groups.h"
#include "engine/ops/internal.h"

#define TEXEL 16u             /* bytes of a vec4 */
#define RUN 4096u             /* bytes that a workgroup copies */
#define TURNS_FMA 1024u       /* of one dispatch */
#define TURNS_COPY 64u        /* of one dispatch in cache */
#define FMA_FLOPS 384ull      /* of one turn of one invocation: shaders/peak_fma.comp */
#define ENOUGH 0.01           /* seconds of a recording that is long enough to be timed */
#define TRIES 5               /* the best counts: what disturbs can only slow down */
#define PATIENCE 0.4          /* seconds after which one try must do */
#define MOST_DISPATCHES 4096u /* in a recording */
#define LARGE (128u << 20)    /* bytes of each of the two buffers, if the device has so many */

/* One measurement: a kernel, how it is dispatched, and what a dispatch comes to. */
typedef struct {
    const char *file;
    struct abi_peak push;
    uint32_t groups;
    gpu_range range[2];
    size_t n;
    uint64_t flops;
    double amount; /* operations or bytes */
} peak;

/* Per class: how its kernels load, and how many workgroups keep a device busy while what they copy stays in
 * cache. */
typedef struct {
    const char *defines[3];
    uint32_t lanes; /* of a required subgroup, 0: any */
    uint32_t width; /* invocations of a workgroup */
    bool optimize;
    uint32_t groups;
} peak_class;
static const peak_class cpu_class = {{"TEXELS=1", "LANES=8", "BATCH=1u"}, 8, 8, false, 64};
static const peak_class other_class = {{"TEXELS=0", "LANES=1", "BATCH=4u"}, 0, 64, true, 512};

/* `count` dispatches that need not wait for each other: seconds. */
static colm_status record(gpu_device *d, gpu_kernel *k, gpu_set *s, const peak *p, uint32_t count, double *ret,
                          colm_err *err) {
    uint32_t groups[3];
    groups_fold(p->groups, 1, groups);
    const double before = clock_seconds();
    colm_status st = gpu_begin(d, err);
    if (st) return st;
    for (uint32_t i = 0; i < count && !st; i++)
        st = gpu_dispatch(d, k, s, &p->push, sizeof p->push, groups, p->flops, err);
    colm_status ended = gpu_end(d, st ? NULL : err);
    *ret = clock_seconds() - before;
    return st ? st : ended;
}

/* Amount a second. */
static colm_status measure(gpu_device *d, const peak_class *c, const peak *p, double *ret, colm_err *err) {
    const gpu_kernel_params kp = {p->file, c->defines, 3, c->optimize, c->lanes};
    gpu_kernel *k = NULL;
    gpu_set *s = NULL;
    double seconds = 0, best = INFINITY;
    uint32_t count = 1;
    colm_status st = gpu_kernel_get(d, &kp, &k, err);
    if (!st) st = gpu_bind(d, k, p->range, p->n, &s, err);
    if (!st) st = record(d, k, s, p, 1, &seconds, err); /* compiles, and touches the memory */
    if (!st) st = record(d, k, s, p, count, &seconds, err);
    while (!st && seconds < ENOUGH && count < MOST_DISPATCHES)
        st = record(d, k, s, p, count *= 2, &seconds, err);
    double spent = 0;
    for (int i = 0; i < TRIES && spent < PATIENCE && !st; i++) {
        st = record(d, k, s, p, count, &seconds, err);
        spent += seconds;
        if (seconds < best) best = seconds;
    }
    if (!st) *ret = p->amount * count / best;
    gpu_unbind(d, &s);
    return st;
}

static colm_status measure_all(gpu_device *d, const peak_class *c, gpu_buffer *x, gpu_buffer *y, uint64_t large,
                               ops_ceiling *ret, colm_err *err) {
    const uint64_t threads = (uint64_t)c->groups * c->width, small = (uint64_t)c->groups * RUN;
    ops_ceiling r = {.cache_bytes = 2 * small};
    const peak fma = {.file = "peak_fma.comp",
                      .push = {.turns = TURNS_FMA, .a = 0.999f, .b = 0.001f},
                      .groups = c->groups,
                      .range = {{y, 0, threads * TEXEL}},
                      .n = 1,
                      .flops = FMA_FLOPS * TURNS_FMA * threads,
                      .amount = (double)(FMA_FLOPS * TURNS_FMA * threads)};
    const peak far = {.file = "peak_copy.comp",
                      .push = {.turns = 1, .n = RUN / TEXEL},
                      .groups = (uint32_t)(large / RUN),
                      .range = {{x, 0, large}, {y, 0, large}},
                      .n = 2,
                      .amount = 2.0 * (double)large};
    const peak near = {.file = "peak_copy.comp",
                       .push = {.turns = TURNS_COPY, .n = RUN / TEXEL},
                       .groups = c->groups,
                       .range = {{x, 0, small}, {y, 0, small}},
                       .n = 2,
                       .amount = 2.0 * TURNS_COPY * (double)small};
    colm_status st = measure(d, c, &fma, &r.flops, err);
    if (!st) st = measure(d, c, &far, &r.memory, err);
    if (!st) st = measure(d, c, &near, &r.cache, err);
    if (!st) *ret = r;
    return st;
}

colm_status ops_ceiling_measure(ops_machine *m, ops_ceiling *ret, colm_err *err) {
    gpu_device *d = ops_machine_device(m);
    gpu_buffer *x = NULL, *y = NULL;
    if (!d) return *ret = (ops_ceiling){0}, COLM_OK;
    const peak_class *c =
        strcmp(ops_machine_class(m), "cpu") == 0 && gpu_get_info(d)->max_texels ? &cpu_class : &other_class;
    const uint64_t window = ops_window(m) * 4, share = ops_memory(m) / 8, least = (uint64_t)c->groups * RUN;
    uint64_t large = LARGE;
    if (large > window) large = window;
    if (large > share) large = share;
    large = large / RUN * RUN;
    if (large < least)
        return err_set(
            err, COLM_E_MEMORY,
            "ceilings are measured on two buffers of %llu bytes at least; an eighth of the device is %llu",
            (unsigned long long)least, (unsigned long long)large);
    colm_status st = gpu_buffer_create(d, (size_t)large, "ceilings", &x, err);
    if (!st) st = gpu_buffer_create(d, (size_t)large, "ceilings", &y, err);
    if (!st) st = measure_all(d, c, x, y, large, ret, err);
    gpu_buffer_free(&x);
    gpu_buffer_free(&y);
    return st;
}

double ops_ceiling_seconds(const ops_ceiling *c, double flops, double bytes) {
    if (!(c->flops > 0 && c->memory > 0 && c->cache > 0)) return 0;
    const double bandwidth = bytes <= (double)c->cache_bytes ? c->cache : c->memory;
    const double compute = flops / c->flops, move = bytes / bandwidth;
    return compute > move ? compute : move;
}
