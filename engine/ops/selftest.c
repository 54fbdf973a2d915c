/* The runner of the selftest: both machines start each call from the same floats; what the device makes of them
 * is held against the reference's doubles, and the next call starts from the reference's result. */
#include "engine/ops/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/gpu/verdict.h"
#include "engine/ops/internal.h"
#include "engine/ops/selftest_scene.h"
#include "engine/tensor/tensor.h"

typedef struct {
    const ops_selftest_params *p;
    ops_machine *ref, *gpu;
    const char *kernels; /* the class under test */
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

/* Runs call c on what the scene holds; *ret is the kernel that did. */
static colm_status stage_run(stage *at, const scene *s, uint32_t c, const ops_variant **ret, colm_err *err) {
    ops_call call = {.op = s->call[c].op, .p = s->call[c].p};
    ops_list list = {0};
    const ops_list *lists[] = {&list};
    colm_status st = COLM_OK;
    for (uint32_t k = 0; k < s->n_tensors && !st; k++)
        st = ops_write(at->m, at->buf[k], 0, s->t[k].bits, whole_len(&s->t[k]), err);
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

/* Tensor t was `bits` before the call. What the reference left as a guard must be so still, zeros must be
 * zeros; *error is the NMSE of the rest. Returns what is wrong beside that. */
static const char *compare_floats(const scene_tensor *t, const double *want, const uint32_t *got, double *a,
                                  float *b, double *error) {
    size_t used = 0;
    const char *note = NULL;
    for (size_t e = 0; e < whole_len(t); e++) {
        float before, f;
        memcpy(&before, &t->bits[e], sizeof before);
        memcpy(&f, &got[e], sizeof f);
        if (in_tail(t, e)) continue;
        if (isnan(want[e]) || (t->bits[e] == SCENE_LARGE && want[e] == (double)before)) {
            if (got[e] != t->bits[e]) note = "wrote where it must not";
            continue;
        }
        if (!note && want[e] == 0 && f != 0) note = "is not 0 where the reference is";
        a[used] = want[e];
        b[used++] = f;
    }
    double nmse = used ? tensor_nmse(a, b, used) : 0;
    if (!(nmse <= *error)) *error = nmse;
    return note;
}

/* Compares tensor k after a call on both machines and takes over the reference's result. */
static colm_status compare(stage *ref, stage *gpu, scene *s, uint32_t k, bool spoil, ops_selftest_row *row,
                           colm_err *err) {
    scene_tensor *t = &s->t[k];
    size_t n = whole_len(t);
    uint32_t *got = mem_alloc(n, sizeof *got), *want = mem_alloc(n, sizeof *want);
    double *a = mem_alloc(n, sizeof *a);
    float *b = mem_alloc(n, sizeof *b);
    const char *note = NULL;
    colm_status st = got && want && a && b ? COLM_OK : err_nomem(err, n * 20, "selftest");
    if (!st) st = ops_read(gpu->m, gpu->buf[k], 0, got, n, err);
    if (!st) st = ops_read(ref->m, ref->buf[k], 0, want, n, err);
    if (st) goto out;
    const double *exact = ops_doubles(ref->m, ref->buf[k]);
    if (spoil)
        for (size_t e = 0; e < n; e++)
            if (got[e] != t->bits[e]) got[e] ^= 1u << 20;
    note = exact ? compare_floats(t, exact, got, a, b, &row->error) : compare_wholes(t, want, got);
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

static colm_status test_call(tester *at, stage *ref, stage *gpu, scene *s, uint32_t c, colm_err *err) {
    const ops_id op = s->call[c].op;
    const ops_row *of = ops_get(op);
    const ops_variant *v = NULL;
    ops_selftest_row row = {.op = of->name, .shape = s->shape, .limit = scene_limit(op)};
    colm_status st = stage_run(ref, s, c, NULL, err);
    if (!st) st = stage_run(gpu, s, c, &v, err);
    const char *spoilt = at->p->spoil ? at->p->spoil : "";
    bool spoil = strcmp(spoilt, of->name) == 0 || strcmp(spoilt, "all") == 0;
    for (size_t k = 0; of->access[k] && !st; k++)
        if (of->access[k] != 'r') st = compare(ref, gpu, s, s->call[c].t[k], spoil, &row, err);
    if (st) return err_at(err, "%s, %s, class %s", of->name, s->shape, at->kernels);
    if (strcmp(v->name, at->kernels) != 0) return COLM_OK; /* the other class's turn */
    row.variant = v->matrices ? v->kind : v->name;
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
    for (uint32_t c = 0; c < s->n_calls && !st; c++) st = test_call(at, &ref, &gpu, s, c, err);
    if (gpu.m) stage_close(&gpu);
    if (ref.m) stage_close(&ref);
    return st;
}

static colm_status test_class(tester *at, gpu_device *d, const char *kernels, colm_err *err) {
    ops_machine_params mp = {.kernels = kernels, .sync = at->p->sync, .log = at->p->log};
    str failed = {0};
    scene s;
    at->kernels = kernels;
    memset(at->bad, 0, sizeof at->bad);
    colm_status st = ops_open_gpu(d, &mp, &at->gpu, err);
    for (uint32_t i = 0; !st && scene_make(i, &s); i++) {
        st = test_scene(at, &s, err);
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
