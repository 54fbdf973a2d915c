/* The runner of the selftest: both machines start each call from the same floats; what the device makes of them
 * is held against the reference's doubles, and the next call starts from the reference's result. */
#include "engine/ops/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/gpu/verdict.h"
#include "engine/ops/internal.h"
#include "engine/ops/selftest_scene.h"
#include "engine/ops/tune.h"
#include "engine/tensor/tensor.h"

typedef struct {
    const ops_selftest_params *p;
    ops_machine *ref, *gpu;
    const char *kernels; /* the class under test */
    ops_dtype dtype;     /* how tensors are stored that may be of 16 bits */
    bool bad[OP_COUNT];
    size_t rows, failed;
} tester;

/* A scene's tensors on one machine. */
typedef struct {
    ops_machine *m;
    ops_buf buf[SCENE_TENSORS];
} stage;

static size_t whole_len(const scene_tensor *t) {
    return t->len + 2 * SCENE_FRAME;
}

static void stage_close(stage *s) {
    for (size_t k = 0; k < SCENE_TENSORS; k++) ops_buffer_free(s->m, &s->buf[k]);
}

static colm_status stage_open(const scene *s, ops_machine *m, stage *ret, colm_err *err) {
    colm_status st = COLM_OK;
    *ret = (stage){.m = m};
    for (uint32_t k = 0; k < s->n_tensors && !st; k++)
        st = ops_buffer(m, "selftest", s->t[k].dtype, whole_len(&s->t[k]), &ret->buf[k], err);
    if (st) stage_close(ret);
    return st;
}

/* Writes what the scene holds to tensor k, or reads what it has become, as floats or integers. */
static colm_status stage_write(stage *at, const scene *s, uint32_t k, colm_err *err) {
    const scene_tensor *t = &s->t[k];
    const size_t n = whole_len(t);
    void *stored = mem_alloc(n, sizeof(uint32_t));
    if (!stored) return err_nomem(err, n * sizeof(uint32_t), "selftest");
    ops_pack(t->dtype, t->bits, stored, n);
    colm_status st = ops_write(at->m, at->buf[k], 0, stored, n, err);
    free(stored);
    return st;
}
static colm_status stage_read(stage *at, const scene *s, uint32_t k, uint32_t *ret, colm_err *err) {
    const scene_tensor *t = &s->t[k];
    const size_t n = whole_len(t);
    void *stored = mem_alloc(n, sizeof(uint32_t));
    if (!stored) return err_nomem(err, n * sizeof(uint32_t), "selftest");
    colm_status st = ops_read(at->m, at->buf[k], 0, stored, n, err);
    if (!st) ops_unpack(t->dtype, stored, ret, n);
    free(stored);
    return st;
}

/* Runs call c on what the scene holds; *ret is the kernel that did. */
static colm_status stage_run(stage *at, const scene *s, uint32_t c, const ops_variant **ret, colm_err *err) {
    ops_call call = {.op = s->call[c].op, .p = s->call[c].p};
    ops_list list = {0};
    const ops_list *lists[] = {&list};
    colm_status st = COLM_OK;
    for (uint32_t k = 0; k < s->n_tensors && !st; k++) st = stage_write(at, s, k, err);
    for (size_t k = 0; ops_get(call.op)->access[k]; k++) {
        uint32_t t = s->call[c].t[k];
        call.t[k] = (ops_view){at->buf[t], SCENE_FRAME, s->t[t].len};
    }
    if (!st) st = ops_add(&list, &call, err);
    if (!st) st = ops_prepare(at->m, &list, err);
    if (!st) st = ops_run(at->m, lists, 1, err);
    if (!st && ret) *ret = ops_call_variant(&list.call[0]);
    ops_unprepare(at->m, &list);
    ops_list_done(&list);
    return st;
}

/* Whether the tail of a matrix holds element e of the whole tensor: rows that no result reads. */
static bool in_tail(const scene_tensor *t, size_t e) {
    if (e < SCENE_FRAME + t->tail || e >= SCENE_FRAME + t->len) return false;
    size_t c = (e - SCENE_FRAME) % t->ld;
    return c >= t->first && c < t->first + t->cols;
}

static const char *compare_wholes(const scene_tensor *t, const uint32_t *want, const uint32_t *got) {
    return memcmp(want, got, whole_len(t) * sizeof *got) ? "integers differ" : NULL;
}

/* Whether f, a zero to the reference, is anything else; what is below the least float16 may have been rounded
 * up to it. */
static bool is_not_zero(ops_dtype t, float f) {
    return f != 0 && !(t == OPS_F16 && fabsf(f) < 1e-6f);
}

/* Tensor t was `bits` before the call. What the reference left as a guard must be so still, zeros must be
 * zeros, of 16-bit numbers only those near the middle of two may differ; *error is the NMSE of the rest.
 * Returns what is wrong beside that. */
static const char *compare_floats(const scene_tensor *t, const double *want, const uint32_t *got, double *a,
                                  float *b, double *error) {
    size_t used = 0, differ = 0;
    const char *note = NULL;
    for (size_t e = 0; e < whole_len(t); e++) {
        float before, f;
        memcpy(&before, &t->bits[e], sizeof before);
        memcpy(&f, &got[e], sizeof f);
        if (in_tail(t, e)) continue;
        if (isnan(want[e]) || (t->bits[e] == t->large && want[e] == (double)before)) {
            if (got[e] != t->bits[e]) note = "wrote where it must not";
            continue;
        }
        if (!note && want[e] == 0 && is_not_zero(t->dtype, f)) note = "is not 0 where the reference is";
        differ += want[e] != (double)f;
        a[used] = want[e];
        b[used++] = f;
    }
    *error = used ? tensor_nmse(a, b, used) : 0;
    if (!note && ops_dtype_size(t->dtype) == 2 && differ > 1 + used / 16) note = "is rounded otherwise";
    return note;
}

/* The tensor that is furthest beyond its limit, or nearest to it, speaks for the row. */
static void judge(ops_selftest_row *row, double error, double limit) {
    if (!(row->error <= row->limit) || (error <= limit && error * row->limit < row->error * limit)) return;
    row->error = error;
    row->limit = limit;
}

/* Compares tensor k after a call on both machines and takes over the reference's result. */
static colm_status compare(stage *ref, stage *gpu, scene *s, uint32_t k, ops_id op, bool spoil,
                           ops_selftest_row *row, colm_err *err) {
    scene_tensor *t = &s->t[k];
    size_t n = whole_len(t);
    uint32_t *got = mem_alloc(n, sizeof *got), *want = mem_alloc(n, sizeof *want);
    double *a = mem_alloc(n, sizeof *a);
    float *b = mem_alloc(n, sizeof *b);
    const char *note = NULL;
    double error = 0;
    colm_status st = got && want && a && b ? COLM_OK : err_nomem(err, n * 20, "selftest");
    if (!st) st = stage_read(gpu, s, k, got, err);
    if (!st) st = stage_read(ref, s, k, want, err);
    if (st) goto out;
    const double *exact = ops_doubles(ref->m, ref->buf[k]);
    if (spoil)
        for (size_t e = 0; e < n; e++)
            if (got[e] != t->bits[e]) got[e] ^= 1u << 20;
    note = exact ? compare_floats(t, exact, got, a, b, &error) : compare_wholes(t, want, got);
    judge(row, error, scene_limit(op, t->dtype));
    if (note && !row->note) row->note = note;
    for (size_t e = 0; e < n; e++)
        if (!exact || !isnan(exact[e])) t->bits[e] = want[e];
out:
    free(got);
    free(want);
    free(a);
    free(b);
    return st;
}

/* Tiles give the same bits, and a device could fail in any of them: cases take them in turn. */
static colm_status take_tile(tester *at, const scene *s, uint32_t c, colm_err *err) {
    const ops_row *of = ops_get(s->call[c].op);
    const struct abi_linear *p = &s->call[c].p.linear;
    uint32_t kinds = 0;
    tune_choice choice = {.op = s->call[c].op, .a = at->dtype, .b = at->dtype, .N = p->N, .K = p->K};
    if (choice.op < OP_LINEAR || choice.op > OP_LINEAR_DW) return COLM_OK;
    for (int take = 0; take < 2; take++)
        for (uint32_t v = 0, k = 0; v < *of->n_variants; v++) {
            const ops_variant *x = &of->variants[v];
            if (strcmp(x->name, at->kernels) != 0 || !x->kind || x->matrices) continue;
            if (take && k++ == s->number % kinds) snprintf(choice.kind, sizeof choice.kind, "%s", x->kind);
            kinds += !take;
        }
    return kinds ? tune_set(ops_tuned(at->gpu), &choice, err) : COLM_OK;
}

static colm_status test_call(tester *at, stage *ref, stage *gpu, scene *s, uint32_t c, colm_err *err) {
    const ops_id op = s->call[c].op;
    const ops_row *of = ops_get(op);
    const ops_variant *v = NULL;
    ops_selftest_row row = {.op = of->name, .dtype = ops_dtype_name(at->dtype), .shape = s->shape};
    row.limit = scene_limit(op, OPS_F32);
    colm_status st = stage_run(ref, s, c, NULL, err);
    if (!st) st = take_tile(at, s, c, err);
    if (!st) st = stage_run(gpu, s, c, &v, err);
    const char *spoilt = at->p->spoil ? at->p->spoil : "";
    bool spoil = strcmp(spoilt, of->name) == 0 || strcmp(spoilt, "all") == 0;
    for (size_t k = 0; of->access[k] && !st; k++)
        if (of->access[k] != 'r') st = compare(ref, gpu, s, s->call[c].t[k], op, spoil, &row, err);
    if (st) return err_at(err, "%s, %s, %s, class %s", of->name, row.dtype, s->shape, at->kernels);
    if (strcmp(v->name, at->kernels) != 0) return COLM_OK; /* the other class's turn */
    row.variant = v->matrices ? v->kind : v->name;
    char shape[sizeof s->shape + 32];
    snprintf(shape, sizeof shape, "%s, tile %s", s->shape, v->kind ? v->kind : "");
    if (v->kind && !v->matrices) row.shape = shape;
    row.pass = row.error <= row.limit && !row.note;
    at->rows++;
    if (!row.pass) at->failed++, at->bad[op] = true;
    if (at->p->row) at->p->row(at->p->user, &row);
    return COLM_OK;
}

/* Some operations have kernels in one class only (those of ops_fuse). */
static bool has_kernel(ops_id op, const char *kernels) {
    const ops_row *row = ops_get(op);
    for (size_t v = 0; v < *row->n_variants; v++)
        if (strcmp(row->variants[v].name, kernels) == 0 ||
            strcmp(row->variants[v].name, ops_classes[OPS_CLASS_PORTABLE]) == 0)
            return true;
    return false;
}

static colm_status test_scene(tester *at, scene *s, colm_err *err) {
    stage ref = {0}, gpu = {0};
    if (s->failed) return err_nomem(err, 0, "selftest");
    for (uint32_t c = 0; c < s->n_calls; c++)
        if (!has_kernel(s->call[c].op, at->kernels)) return COLM_OK;
    colm_status st = stage_open(s, at->ref, &ref, err);
    if (!st) st = stage_open(s, at->gpu, &gpu, err);
    for (uint32_t c = 0; c < s->n_calls && !st; c++)
        if (at->dtype == OPS_F32 || scene_stores(s, c, at->dtype)) st = test_call(at, &ref, &gpu, s, c, err);
    if (gpu.m) stage_close(&gpu);
    if (ref.m) stage_close(&ref);
    return st;
}

/* Kernels of 16 bits are those of float32 but for loads and stores, and most of the time goes into compiling:
 * the two storages take every other pair of cases each. */
static bool in_turn(ops_dtype t, uint32_t i) {
    return t == OPS_F32 || (i / 2 % 2 == 0) == (t == OPS_BF16);
}

static colm_status test_class(tester *at, gpu_device *d, const char *kernels, colm_err *err) {
    ops_machine_params mp = {.kernels = kernels, .sync = at->p->sync, .log = at->p->log};
    static const ops_dtype dtypes[] = {OPS_F32, OPS_BF16, OPS_F16};
    str failed = {0};
    scene s;
    at->kernels = kernels;
    memset(at->bad, 0, sizeof at->bad);
    colm_status st = ops_open_gpu(d, &mp, &at->gpu, err);
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
        for (uint32_t i = 0; !st && scene_make(i, at->dtype = dtypes[k], &s); i++) {
            if (in_turn(at->dtype, i)) st = test_scene(at, &s, err);
            scene_done(&s);
        }
    for (ops_id op = 0; op < OP_COUNT; op++)
        if (at->bad[op]) str_addf(&failed, "%s%s", failed.len ? " " : "", ops_get(op)->name);
    if (!st && !failed.failed) gpu_verdict_keep(d, kernels, failed.text);
    str_done(&failed);
    ops_close(&at->gpu);
    return st;
}

colm_status ops_selftest(const ops_selftest_params *p, size_t *ret_failed, size_t *ret_n, colm_err *err) {
    const bool all = !p->kernels || strcmp(p->kernels, "auto") == 0;
    gpu_params g = {.device = p->device, .validate = p->validate, .log = p->log};
    gpu_device *d = NULL;
    tester at = {.p = p};
    if (p->device && strcmp(p->device, "reference") == 0)
        return err_set(
            err, COLM_E_INPUT,
            "the selftest holds Vulkan devices against \"reference\"; name one that `colm devices` lists");
    colm_status st = gpu_open(&g, &d, err);
    if (!st) st = ops_open_ref(&at.ref, err);
    if (!st && !all) st = test_class(&at, d, p->kernels, err);
    for (size_t i = 0; i < OPS_CLASSES && all && !st; i++)
        if (ops_class_runs(gpu_get_info(d), ops_classes[i])) st = test_class(&at, d, ops_classes[i], err);
    if (!st && gpu_validation_messages(d))
        st = err_set(err, COLM_E_CHECK, "the validation layer objected %u times", gpu_validation_messages(d));
    ops_close(&at.ref);
    gpu_close(&d);
    if (st) return st;
    *ret_failed = at.failed;
    *ret_n = at.rows;
    return COLM_OK;
}
