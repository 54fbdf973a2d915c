/* A call on machines: tensors made for it, the call run, and what every element became.
 *
 * Tensors start as a known pattern; `put` fills what the contract lets a kernel read. So a kernel that
 * reads elsewhere gives NaN, and one that writes elsewhere breaks the pattern. What the reference leaves at the
 * pattern must stay so on the device, bit for bit; the rest is compared. */
#ifndef COLM_TESTS_OPS_SCENE_H
#define COLM_TESTS_OPS_SCENE_H

#include "engine/base/rng.h"
#include "engine/tensor/tensor.h"
#include "tests/ops/device.h"

#define FRAME 128u /* elements before and after a view */
#define EXACT 0.0

typedef struct {
    ops_dtype dtype;
    uint32_t len;   /* of the view */
    uint32_t *bits; /* len + 2 FRAME elements, float or uint32; with 16 bits floats that they can hold */
    uint32_t large; /* what became of scene_large */
} tensor;

typedef struct {
    ops_call call;
    tensor t[OPS_MAX_TENSORS];
    uint32_t n;
} scene;

/* NaN, or where an operation both reads and writes, which might keep a NaN as it is, a number that would win
 * any sum. */
static const uint32_t scene_nan = 0x7FC0BEEFu, scene_large = 0x4F3A5EEDu;

static inline float *floats(const tensor *t) {
    return (float *)(void *)t->bits + FRAME;
}
static inline uint32_t *wholes(const tensor *t) {
    return t->bits + FRAME;
}

static inline scene scene_new(ops_id op) {
    scene s = {.call = {.op = op}};
    return s;
}

/* Adds the next tensor, as the operation's table wants it. */
static inline tensor *scene_tensor(scene *s, size_t len) {
    tensor *t = &s->t[s->n];
    t->dtype = ops_get(s->call.op)->dtypes[s->n++] == 'u' ? OPS_U32 : OPS_F32;
    t->large = scene_large;
    t->len = (uint32_t)len;
    t->bits = malloc((len + 2 * FRAME) * sizeof *t->bits);
    for (size_t i = 0; i < len + 2 * FRAME; i++)
        t->bits[i] = ops_get(s->call.op)->access[s->n - 1] == 'm' ? scene_large : scene_nan;
    return t;
}

/* What n elements become when they are stored as t. */
static inline void store(ops_dtype t, uint32_t *bits, size_t n) {
    uint16_t *h = malloc(n * sizeof *h);
    if (ops_dtype_size(t) == 2) {
        ops_pack(t, bits, h, n);
        ops_unpack(t, h, bits, n);
    }
    free(h);
}

/* Stores the tensors that may be as `types` says, in their order, over and over. */
static inline void scene_store(scene *s, const ops_dtype *types, size_t n) {
    for (uint32_t k = 0, h = 0; k < s->n; k++) {
        tensor *t = &s->t[k];
        if (ops_get(s->call.op)->dtypes[k] != 'h') continue;
        t->dtype = types[h++ % n];
        store(t->dtype, t->bits, t->len + 2 * FRAME);
        store(t->dtype, &t->large, 1);
    }
}

static inline void scene_done(scene *s) {
    for (uint32_t k = 0; k < s->n; k++) free(s->t[k].bits);
    s->n = 0;
}

/* Normal numbers of deviation `scale` in rows x cols at stride ld from column o, zeros in the columns from
 * `width` on. */
static inline void put(tensor *t, uint32_t rows, uint32_t cols, uint32_t width, uint32_t ld, uint32_t o,
                       double scale) {
    static uint64_t counter;
    rng_stream r = rng_open(++counter, "scene");
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t c = 0; c < cols; c++)
            floats(t)[(size_t)i * ld + o + c] =
                c < width ? (float)(scale * rng_normal(&r, (uint64_t)i * cols + c)) : 0.0f;
}

/* What tensor k held after a run; doubles on the reference machine only. */
typedef struct {
    uint32_t *bits;
    double *d;
} outcome;

static inline void outcome_done(outcome o[OPS_MAX_TENSORS]) {
    for (int k = 0; k < OPS_MAX_TENSORS; k++) {
        free(o[k].bits);
        free(o[k].d);
        o[k] = (outcome){0};
    }
}

static inline bool scene_run(ops_machine *m, const scene *s, outcome ret[OPS_MAX_TENSORS]) {
    colm_err err = {0};
    ops_buf buf[OPS_MAX_TENSORS] = {0};
    ops_call call = s->call;
    ops_list list = {0};
    bool ok = true;
    memset(ret, 0, sizeof *ret * OPS_MAX_TENSORS);
    for (uint32_t k = 0; k < s->n && ok; k++) {
        const tensor *t = &s->t[k];
        size_t n = t->len + 2 * FRAME;
        uint32_t *stored = malloc(n * sizeof *stored);
        ops_pack(t->dtype, t->bits, stored, n);
        ok = CHECK_OK(ops_buffer(m, "test", t->dtype, n, &buf[k], &err), err) &&
             CHECK_OK(ops_write(m, buf[k], 0, stored, n, &err), err);
        free(stored);
        call.t[k] = (ops_view){buf[k], FRAME, t->len};
    }
    const ops_list *lists[] = {&list};
    ok = ok && CHECK_OK(ops_add(&list, &call, &err), err) && CHECK_OK(ops_prepare(m, &list, &err), err) &&
         CHECK_OK(ops_run(m, lists, 1, &err), err);
    for (uint32_t k = 0; k < s->n && ok; k++) {
        size_t n = s->t[k].len + 2 * FRAME;
        const double *d = ops_doubles(m, buf[k]);
        uint32_t *stored = malloc(n * sizeof *stored);
        ret[k].bits = malloc(n * sizeof *ret[k].bits);
        ok = CHECK_OK(ops_read(m, buf[k], 0, stored, n, &err), err);
        if (ok) ops_unpack(s->t[k].dtype, stored, ret[k].bits, n);
        free(stored);
        if (d) ret[k].d = memcpy(malloc(n * sizeof *d), d, n * sizeof *d);
    }
    ops_unprepare(m, &list);
    ops_list_done(&list);
    for (uint32_t k = 0; k < s->n; k++)
        if (buf[k]) ops_buffer_free(m, &buf[k]);
    return ok;
}

static inline bool same_bits(const void *a, const void *b, size_t n) {
    return memcmp(a, b, n * 4) == 0;
}

/* Largest NMSE of results stored so: what one rounding to the other side makes. */
static inline double stored_limit(ops_dtype t, double limit) {
    return t == OPS_BF16 ? 1e-4 : t == OPS_F16 ? 1e-5 : limit;
}

/* Tensor k of the device against the reference: untouched elements to the bit, zeros exactly, the rest within
 * the limit. The reference rounds as the device does: of results of 16 bits only those near the middle of two
 * numbers may differ, a sixteenth at most. */
static inline bool agrees(const scene *s, uint32_t k, const outcome *ref, const outcome *got, double limit) {
    const ops_dtype dtype = s->t[k].dtype;
    size_t n = s->t[k].len + 2 * FRAME, used = 0, differ = 0;
    if (!ref->d) return CHECK(same_bits(ref->bits, got->bits, n));
    double *a = malloc(n * sizeof *a);
    float *b = malloc(n * sizeof *b);
    bool kept = true, zeros = true;
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, &got->bits[i], sizeof f);
        bool large = s->t[k].bits[i] == s->t[k].large && ref->bits[i] == s->t[k].large;
        if (isnan(ref->d[i]) || large) {
            kept = kept && got->bits[i] == s->t[k].bits[i];
            continue;
        }
        /* what is below the least float16 may have been rounded up to it */
        zeros = zeros && (ref->d[i] != 0 || f == 0 || (dtype == OPS_F16 && fabsf(f) < 1e-6f));
        differ += ref->d[i] != (double)f;
        a[used] = ref->d[i];
        b[used++] = f;
    }
    double nmse = used ? tensor_nmse(a, b, used) : 0;
    limit = stored_limit(dtype, limit);
    bool close = nmse <= limit && (ops_dtype_size(dtype) == 4 || differ <= 1 + used / 16);
    free(a);
    free(b);
    if (getenv("COLM_TEST_SHOW") || !kept || !zeros || !close)
        printf("# %s tensor %u, %s: nmse %.3g, limit %.3g, %zu of %zu differ%s%s\n", ops_get(s->call.op)->name,
               k, ops_dtype_name(dtype), nmse, limit, differ, used, kept ? "" : ", wrote where it must not",
               zeros ? "" : ", not zero where it must be");
    return CHECK(kept) & CHECK(zeros) & CHECK(close);
}

/* The machines of all tests: reference first, then one per kernel class or NULL. */
static ops_machine *scene_ref, *scene_gpu[COUNT_OF(test_classes)];

static inline bool machines(void) {
    colm_err err;
    if (!have_device()) return false;
    if (scene_ref) return true;
    for (size_t c = 0; c < COUNT_OF(test_classes); c++) scene_gpu[c] = machine_of(test_classes[c]);
    return CHECK_OK(ops_open_ref(&scene_ref, &err), err);
}

static inline void machines_done(void) {
    for (size_t c = 0; c < COUNT_OF(test_classes); c++) ops_close(&scene_gpu[c]);
    ops_close(&scene_ref);
}

#define EACH_GPU(m)                                                    \
    for (size_t class_ = 0; class_ < COUNT_OF(test_classes); class_++) \
        for (ops_machine *m = scene_gpu[class_]; m; m = NULL)

/* Runs the scene everywhere and compares every tensor that the operation writes. limits: of those, in their
 * order. */
static inline bool scene_check(scene *s, const char *what, const double *limits) {
    outcome ref[OPS_MAX_TENSORS], got[OPS_MAX_TENSORS];
    const char *access = ops_get(s->call.op)->access;
    bool ok = scene_run(scene_ref, s, ref);
    if (!ok) return false;
    EACH_GPU(m) {
        bool here = scene_run(m, s, got);
        size_t written = 0;
        for (uint32_t k = 0; k < s->n && here; k++)
            if (access[k] != 'r')
                here &= agrees(s, k, &ref[k], &got[k], limits[written++]);
            else
                here &= CHECK(same_bits(s->t[k].bits, got[k].bits, s->t[k].len + 2 * FRAME));
        if (!here) printf("# %s, %s, class %s\n", ops_get(s->call.op)->name, what, test_classes[class_]);
        outcome_done(got);
        ok &= here;
    }
    outcome_done(ref);
    return ok;
}

static inline scene scene_copy(const scene *s) {
    scene c = *s;
    for (uint32_t k = 0; k < s->n; k++) {
        size_t n = (s->t[k].len + 2 * FRAME) * sizeof *s->t[k].bits;
        c.t[k].bits = memcpy(malloc(n), s->t[k].bits, n);
    }
    return c;
}

/* The scene with its tensors in bfloat16, in float16, and in a mixture with float32. */
static inline bool scene_check_stored(const scene *s, const char *what, const double *limits) {
    static const ops_dtype patterns[][3] = {
        {OPS_BF16, OPS_BF16, OPS_BF16}, {OPS_F16, OPS_F16, OPS_F16}, {OPS_F16, OPS_F32, OPS_BF16}};
    bool ok = true;
    for (size_t p = 0; p < COUNT_OF(patterns) && ok; p++) {
        const ops_dtype *t = patterns[p];
        scene c = scene_copy(s);
        scene_store(&c, t, 3);
        ok = scene_check(&c, what, limits);
        if (!ok) printf("# as %s, %s, %s\n", ops_dtype_name(t[0]), ops_dtype_name(t[1]), ops_dtype_name(t[2]));
        scene_done(&c);
    }
    return ok;
}

#endif
