/* The machine that runs lists on a Vulkan device: picks a kernel per call, binds its views once, and records
 * the calls with a barrier only where one needs what another left. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/gpu/verdict.h"
#include "engine/ops/hazard.h"
#include "engine/ops/internal.h"
#include "engine/ops/tune.h"

#define MAX_DEFINES 24

const char *const ops_classes[OPS_CLASSES] = {
    [OPS_CLASS_CPU] = "cpu", [OPS_CLASS_GPU] = "gpu", [OPS_CLASS_PORTABLE] = "portable"};

typedef struct {
    gpu_device *device;
    const gpu_info *info;
    const char *kernels; /* the class tried first; "portable" is what is left */
    bool sync, tune;
    tune_table tuned;
    log_sink log;
    hazard_list hazards;
    bool watched; /* the switch `hazards` */
    hazard_watch watch;
    gpu_clock *clock; /* for ops_run_timed; has room for `stamps` */
    uint32_t stamps;
    bool timed, distrusted; /* a stamp behind every call of this run; its stamps were wrong once */
} gpu_own;

struct ops_bound {
    const ops_variant *variant;
    gpu_kernel *kernel;
    gpu_set *set;
};

static gpu_own *own(const ops_machine *m) {
    return m->own;
}

/* Buffers */

static colm_status device_buffer(ops_machine *m, ops_slot *s, const char *purpose, colm_err *err) {
    const size_t size = ops_dtype_size(s->dtype);
    if (s->n > SIZE_MAX / size) return err_nomem(err, SIZE_MAX, purpose);
    return gpu_buffer_create(own(m)->device, (size_t)s->n * size, purpose, &s->device, err);
}

static void device_buffer_free(ops_machine *m, ops_slot *s) {
    (void)m;
    gpu_buffer_free(&s->device);
}

static colm_status device_write(ops_machine *m, ops_slot *s, uint64_t off, const void *src, uint64_t n,
                                colm_err *err) {
    (void)m;
    const size_t size = ops_dtype_size(s->dtype);
    return gpu_write(s->device, (size_t)off * size, src, (size_t)n * size, err);
}

static colm_status device_read(ops_machine *m, ops_slot *s, uint64_t off, void *dst, uint64_t n,
                               colm_err *err) {
    (void)m;
    const size_t size = ops_dtype_size(s->dtype);
    return gpu_read(s->device, (size_t)off * size, dst, (size_t)n * size, err);
}

/* Kernels */

static bool lanes_available(const gpu_info *g, uint32_t lanes) {
    return !lanes || (g->subgroup == lanes && g->subgroup_shuffle);
}

/* The cooperative matrix that multiplies tensors 0 and 1 as they are stored: both in the same 16 bits. */
static const gpu_matrix *matrix_of(const ops_machine *m, const ops_call *c) {
    const ops_dtype a = machine_slot(m, c->t[0].buf)->dtype, b = machine_slot(m, c->t[1].buf)->dtype;
    return a == b && (a == OPS_BF16 || a == OPS_F16) ? gpu_matrix_of(own(m)->device, a == OPS_BF16) : NULL;
}

static bool usable(const ops_machine *m, const ops_variant *v, const ops_row *row, const ops_call *c) {
    const gpu_own *o = own(m);
    if (!lanes_available(o->info, v->subgroup) || (v->fits && !v->fits(&c->p))) return false;
    if (v->shared > o->info->shared_memory || (v->whole && !o->info->subgroup_fixed)) return false;
    for (size_t k = 0; v->texels && row->access[k]; k++)
        if (row->dtypes[k] != 'u' && (c->t[k].len + 3) / 4 > o->info->max_texels) return false;
    return !v->matrices || matrix_of(m, c);
}

static void groups_of(const ops_variant *v, const ops_push *p, uint32_t groups[3]) {
    if (v->tiles)
        v->tiles(p, v->tile, groups);
    else
        v->groups(p, groups);
}

/* What a tuned choice for the call is found by; false: calls like this are not tuned. */
static bool tune_key(const ops_machine *m, const ops_call *c, tune_choice *ret) {
    if (c->op != OP_LINEAR && c->op != OP_LINEAR_DX && c->op != OP_LINEAR_DW) return false;
    *ret = (tune_choice){.op = c->op,
                         .a = machine_slot(m, c->t[0].buf)->dtype,
                         .b = machine_slot(m, c->t[1].buf)->dtype,
                         .N = c->p.linear.N,
                         .K = c->p.linear.K};
    return true;
}

/* Of one class: the one that was tuned, else the first that suits the call, else the first that can be used.
 * Those of cooperative matrices sum in an order of their own and are never swapped for others, nor others for
 * them. */
static const ops_variant *pick_of(const ops_machine *m, const char *class, const ops_row *row,
                                  const ops_call *c) {
    const ops_variant *first = NULL, *suited = NULL, *tuned = NULL;
    tune_choice key;
    const tune_choice *choice = tune_key(m, c, &key) ? tune_find(&own(m)->tuned, &key) : NULL;
    for (size_t k = 0; k < *row->n_variants; k++) {
        const ops_variant *v = &row->variants[k];
        if (strcmp(v->name, class) != 0 || !usable(m, v, row, c)) continue;
        if (!first) first = v;
        if (!suited && (!v->suits || v->suits(&c->p))) suited = v;
        if (choice && v->kind && strcmp(v->kind, choice->kind) == 0) tuned = v;
    }
    const ops_variant *v = suited ? suited : first;
    return tuned && tuned->matrices == v->matrices ? tuned : v;
}

static const ops_variant *pick(const ops_machine *m, const ops_row *row, const ops_call *c) {
    const ops_variant *v = pick_of(m, own(m)->kernels, row, c);
    return v ? v : pick_of(m, ops_classes[OPS_CLASS_PORTABLE], row, c);
}

/* T<k> of each tensor stored in 16 bits (shaders/narrow.glsl). */
static void storage_macros(const ops_machine *m, const ops_call *c, char text[8 * OPS_MAX_TENSORS]) {
    static const int number[] = {[OPS_BF16] = 1, [OPS_F16] = 2};
    *text = '\0';
    for (size_t k = 0, n = 0; ops_get(c->op)->access[k]; k++) {
        const ops_dtype t = machine_slot(m, c->t[k].buf)->dtype;
        if (number[t]) n += (size_t)snprintf(text + n, 8, " T%zu=%d", k % OPS_MAX_TENSORS, number[t]);
    }
}

/* The variant's macros, those of the call, and those every kernel gets (shaders/common.glsl). */
static colm_status kernel_get(const ops_machine *m, const ops_variant *v, const ops_call *c, gpu_kernel **ret,
                              colm_err *err) {
    const gpu_own *o = own(m);
    char of_call[256] = "", storage[8 * OPS_MAX_TENSORS], text[512], of_matrix[64] = "";
    if (v->define) v->define(&c->p, of_call, sizeof of_call);
    const gpu_matrix *x = v->matrices ? matrix_of(m, c) : NULL;
    if (x) snprintf(of_matrix, sizeof of_matrix, " MM=%u MN=%u MK=%u", x->m, x->n, x->k);
    storage_macros(m, c, storage);
    int n = snprintf(text, sizeof text, "TEXELS=%d WIDE=%d LANES=%u %s %s%s%s", v->texels,
                     v->texels && o->info->int64, v->subgroup ? v->subgroup : 1, v->defines ? v->defines : "",
                     of_call, storage, of_matrix);
    const char *define[MAX_DEFINES];
    size_t n_defines = 0;
    char *rest = NULL;
    for (char *d = strtok_r(text, " ", &rest); d && n_defines <= MAX_DEFINES; d = strtok_r(NULL, " ", &rest)) {
        if (n_defines < MAX_DEFINES) define[n_defines] = d;
        n_defines++;
    }
    if (n >= (int)sizeof text || n_defines > MAX_DEFINES)
        return err_set(err, COLM_E_BUG, "%s: too many macros", v->file);
    gpu_kernel_params kp = {v->file, define, n_defines, v->optimize, v->subgroup};
    return gpu_kernel_get(o->device, &kp, ret, err);
}

static void device_unprepare(ops_machine *m, ops_call *c) {
    if (!c->bound) return;
    gpu_unbind(own(m)->device, &c->bound->set);
    free(c->bound);
    c->bound = NULL;
}

/* Tuning */

/* Seconds a call takes with a variant: the best of three recordings, each of as many dispatches as can be
 * timed. */
static colm_status measure(ops_machine *m, const ops_variant *v, const ops_call *c, const gpu_range *range,
                           size_t n, double *ret, colm_err *err) {
    gpu_device *d = own(m)->device;
    gpu_kernel *k = NULL;
    gpu_set *set = NULL;
    uint32_t groups[3] = {1, 1, 1}, times = 1;
    const ops_row *row = ops_get(c->op);
    colm_status st = kernel_get(m, v, c, &k, err);
    if (!st) st = gpu_bind(d, k, range, n, &set, err);
    groups_of(v, &c->p, groups);
    *ret = INFINITY;
    for (int round = 0; round < 3 && !st;) {
        const double before = clock_seconds();
        st = gpu_begin(d, err);
        for (uint32_t i = 0; i < times && !st; i++) {
            st = gpu_dispatch(d, k, set, &c->p, row->push_bytes, groups, row->flops(&c->p), err);
            gpu_barrier(d);
        }
        const colm_status ended = gpu_end(d, st ? NULL : err);
        if (!st) st = ended;
        const double took = clock_seconds() - before;
        if (took < 2e-3 && times < 1024) {
            times *= 4;
            continue;
        }
        if (took / times < *ret) *ret = took / times;
        round++;
    }
    gpu_unbind(d, &set);
    return st;
}

/* The fastest of the variants that give the bits of *v, by what they take with a result of no consequence. */
static colm_status fastest(ops_machine *m, const ops_call *c, const gpu_range *range, size_t n,
                           const ops_variant **v, double *ret_seconds, colm_err *err) {
    const ops_row *row = ops_get(c->op);
    const ops_variant *was = *v;
    gpu_range to[OPS_MAX_TENSORS] = {0};
    gpu_buffer *result = NULL;
    double seconds;
    memcpy(to, range, n * sizeof *to);
    const size_t bytes = to[2].bytes > to[3].bytes ? to[2].bytes : to[3].bytes;
    colm_status st = gpu_buffer_create(own(m)->device, bytes, "tuning", &result, err);
    to[2] = (gpu_range){result, 0, to[2].bytes};
    to[3] = (gpu_range){result, 0, to[3].bytes};
    *ret_seconds = INFINITY;
    for (size_t k = 0; k < *row->n_variants && !st; k++) {
        const ops_variant *x = &row->variants[k];
        if (strcmp(x->name, was->name) != 0 || !x->kind || x->matrices || !usable(m, x, row, c)) continue;
        st = measure(m, x, c, to, n, &seconds, err);
        if (!st && seconds < *ret_seconds) *ret_seconds = seconds, *v = x;
    }
    gpu_buffer_free(&result);
    return st;
}

/* Puts a choice for calls like c into the table and *v, unless there is one, or nothing to choose. */
static colm_status tune(ops_machine *m, const ops_call *c, const gpu_range *range, size_t n,
                        const ops_variant **v, colm_err *err) {
    gpu_own *o = own(m);
    tune_choice key;
    double seconds;
    if (!tune_key(m, c, &key) || !(*v)->kind || (*v)->matrices || !c->p.linear.M || tune_find(&o->tuned, &key))
        return COLM_OK;
    colm_status st = fastest(m, c, range, n, v, &seconds, err);
    if (st) return st;
    snprintf(key.kind, sizeof key.kind, "%s", (*v)->kind);
    log_line(&o->log, LOG_INFO, "tuned: %s of %u rows, N %u, K %u: %s, %.3g ms", ops_get(c->op)->name,
             c->p.linear.M, key.N, key.K, key.kind, seconds * 1e3);
    return tune_set(&o->tuned, &key, err);
}

static void tuning_load(ops_machine *m) {
    gpu_own *o = own(m);
    colm_err why;
    char *text = gpu_tuning_load(o->device, o->kernels);
    if (text && tune_parse(text, &o->tuned, &why))
        log_line(&o->log, LOG_WARN, "the tuning of %s is not heeded: %s", o->info->name, why.text);
    if (o->tuned.n) log_line(&o->log, LOG_INFO, "%zu shapes of linears are tuned for this device", o->tuned.n);
    free(text);
}

static void tuning_keep(const gpu_own *o) {
    str text = {0};
    tune_format(&o->tuned, &text);
    if (o->tuned.changed && o->tune && text.text && !text.failed)
        gpu_tuning_keep(o->device, o->kernels, text.text);
    str_done(&text);
}

static colm_status device_prepare(ops_machine *m, ops_call *c, colm_err *err) {
    const gpu_own *o = own(m);
    const ops_row *row = ops_get(c->op);
    gpu_range range[OPS_MAX_TENSORS] = {0};
    size_t n = 0;
    for (; row->access[n]; n++) {
        ops_view v = c->t[n];
        const ops_slot *s = machine_slot(m, v.buf);
        const size_t size = ops_dtype_size(s->dtype);
        if (v.len > o->info->max_range / size)
            return err_set(err, COLM_E_BUG, "tensor %zu spans %llu bytes; this device binds at most %llu", n,
                           (unsigned long long)v.len * size, (unsigned long long)o->info->max_range);
        /* Whole texels; buffers are a multiple of 256 bytes, so this stays inside. */
        range[n] = (gpu_range){s->device, (size_t)v.off * size, ((size_t)v.len * size + 15u) / 16u * 16u};
    }
    device_unprepare(m, c);
    ops_bound b = {.variant = pick(m, row, c)};
    if (!b.variant) return err_set(err, COLM_E_BUG, "no kernel of class %s or portable fits", o->kernels);
    colm_status st = o->tune ? tune(m, c, range, n, &b.variant, err) : COLM_OK;
    if (!st) st = kernel_get(m, b.variant, c, &b.kernel, err);
    if (st) return st;
    ops_bound *kept = mem_alloc(1, sizeof *kept);
    if (!kept) return err_nomem(err, sizeof *kept, "bound call");
    if ((st = gpu_bind(o->device, b.kernel, range, n, &b.set, err))) {
        free(kept);
        return st;
    }
    *kept = b;
    c->bound = kept;
    return COLM_OK;
}

/* Running */

/* A barrier before the next call, unless it is the one that a test leaves out. */
static bool barrier(gpu_own *o) {
    if (++o->watch.barriers == o->watch.drop) return false;
    gpu_barrier(o->device);
    return true;
}

static colm_status remember(gpu_own *o, hazard_entry e, colm_err *err) {
    hazard_watch *w = &o->watch;
    if (w->n == w->cap) {
        const size_t cap = w->cap ? 2 * w->cap : 256;
        hazard_entry *grown = mem_grow(w->entry, cap, sizeof *grown);
        if (!grown) return err_nomem(err, cap * sizeof *grown, "the watch for hazards");
        w->entry = grown;
        w->cap = cap;
    }
    w->entry[w->n++] = e;
    return COLM_OK;
}

static colm_status look_for_hazards(const ops_machine *m, colm_err *err) {
    static const char *const kinds[] = {[HAZARD_READ_AFTER_WRITE] = "read after write",
                                        [HAZARD_WRITE_AFTER_READ] = "write after read",
                                        [HAZARD_WRITE_AFTER_WRITE] = "write after write"};
    const hazard_watch *w = &own(m)->watch;
    hazard_fault f;
    if (!hazard_find(w->entry, w->n, &f)) return COLM_OK;
    const hazard_entry *a = &w->entry[f.first], *b = &w->entry[f.second];
    const ops_view v = b->call->t[f.second_tensor];
    return err_set(err, COLM_E_BUG,
                   "%s without a barrier: list %zu, call %zu, %s (tensor %zu), then list %zu, call %zu, %s "
                   "(tensor %zu), on buffer %u, %s, elements %llu..%llu",
                   kinds[f.kind], a->list, a->index, ops_get(a->call->op)->name, f.first_tensor, b->list,
                   b->index, ops_get(b->call->op)->name, f.second_tensor, v.buf,
                   m->purpose[machine_slot(m, v.buf)->purpose], (unsigned long long)v.off,
                   (unsigned long long)(v.off + v.len));
}

static colm_status record(gpu_own *o, const ops_call *c, size_t list, size_t index, colm_err *err) {
    const ops_row *row = ops_get(c->op);
    if (!c->bound) return err_set(err, COLM_E_BUG, "was not prepared");
    uint32_t groups[3] = {1, 1, 1};
    groups_of(c->bound->variant, &c->p, groups);
    if (!groups[0] || !groups[1] || !groups[2]) return COLM_OK; /* nothing to do */
    bool wait = hazard_note(&o->hazards, c->t, row->access) && barrier(o);
    colm_status st = COLM_OK;
    if (o->watched) st = remember(o, (hazard_entry){c, list, index, wait || o->sync}, err);
    if (!st)
        st = gpu_dispatch(o->device, c->bound->kernel, c->bound->set, &c->p, row->push_bytes, groups,
                          row->flops(&c->p), err);
    if (!st && o->sync && !o->timed && !(st = gpu_end(o->device, err))) {
        o->hazards.n = 0;
        st = gpu_begin(o->device, err);
    }
    return st;
}

static colm_status device_run(ops_machine *m, const ops_list *const *lists, size_t n, colm_err *err) {
    gpu_own *o = own(m);
    colm_status st = gpu_begin(o->device, err);
    if (st) return st;
    o->hazards.n = o->watch.n = o->watch.barriers = 0;
    if (o->timed) st = gpu_clock_stamp(o->device, o->clock, err);
    for (size_t i = 0; i < n && !st; i++)
        for (size_t c = 0; c < lists[i]->n && !st; c++) {
            st = record(o, &lists[i]->call[c], i, c, err);
            if (!st && o->timed) st = gpu_clock_stamp(o->device, o->clock, err);
            if (st) err_at(err, "list %zu, call %zu, %s", i, c, ops_get(lists[i]->call[c].op)->name);
        }
    colm_status ended = gpu_end(o->device, st ? NULL : err); /* the first failure is the one to tell */
    if (!st) st = ended;
    return st || !o->watched ? st : look_for_hazards(m, err);
}

static colm_status device_run_timed(ops_machine *m, const ops_list *const *lists, size_t n, double *seconds,
                                    ops_timing *ret, colm_err *err) {
    gpu_own *o = own(m);
    double *at = NULL;
    size_t calls = 0;
    colm_status st = COLM_OK;
    for (size_t i = 0; i < n; i++) calls += lists[i]->n;
    *ret = o->distrusted ? OPS_TIMED_BY_WAITING_DISTRUST : OPS_TIMED_BY_WAITING;
    if (o->distrusted || !calls || calls >= UINT32_MAX || !gpu_has_clock(o->device)) return COLM_OK;
    if (o->stamps < calls + 1) {
        gpu_clock_free(o->device, &o->clock);
        o->stamps = (uint32_t)calls + 1;
        if ((st = gpu_clock_create(o->device, o->stamps, &o->clock, err))) return o->stamps = 0, st;
    }
    at = mem_alloc(calls + 1, sizeof *at);
    if (!at) return err_nomem(err, (calls + 1) * sizeof *at, "timestamps");
    o->timed = true;
    const double before = clock_seconds();
    st = device_run(m, lists, n, err);
    const double wall = clock_seconds() - before;
    o->timed = false;
    if (!st) st = gpu_clock_read(o->device, o->clock, at, (uint32_t)calls + 1, err);
    if (st) goto out;
    o->distrusted = !gpu_clock_credible(at, calls + 1, wall);
    *ret = o->distrusted ? OPS_TIMED_BY_WAITING_DISTRUST : OPS_TIMED_BY_STAMPS;
    for (size_t i = 0; i < calls; i++) seconds[i] = at[i + 1] - at[i];
out:
    free(at);
    return st;
}

static void device_identity(const ops_machine *m, char *buf, size_t n) {
    char digest[33];
    gpu_kernels_digest(own(m)->device, digest);
    snprintf(buf, n, "%s; %s; kernels %s", m->name, own(m)->info->driver, digest);
}

static void device_close(ops_machine *m) {
    gpu_clock_free(own(m)->device, &own(m)->clock);
    tuning_keep(own(m));
    tune_done(&own(m)->tuned);
    free(own(m)->watch.entry);
    free(m->own);
}

static const ops_vtable device_table = {.buffer = device_buffer,
                                        .buffer_free = device_buffer_free,
                                        .write = device_write,
                                        .read = device_read,
                                        .prepare = device_prepare,
                                        .unprepare = device_unprepare,
                                        .run = device_run,
                                        .run_timed = device_run_timed,
                                        .identity = device_identity,
                                        .close = device_close};

hazard_watch *hazard_watch_of(ops_machine *m) {
    return m->vt == &device_table && own(m)->watched ? &own(m)->watch : NULL;
}

/* "cpu" only where it was made for: other devices with 8 lanes may have them, yet load from memory in another
 * way. On CPU devices without those lanes shared memory, which is what "gpu" lives on, is slower than none. */
static ops_class_id best_class(const gpu_info *g) {
    if (g->kind != GPU_CPU) return OPS_CLASS_GPU;
    return lanes_available(g, 8) && g->max_texels ? OPS_CLASS_CPU : OPS_CLASS_PORTABLE;
}

static colm_status choose_class(const gpu_info *g, const char *wanted, const char **ret, colm_err *err) {
    if (!wanted || strcmp(wanted, "auto") == 0) {
        *ret = ops_classes[best_class(g)];
        return COLM_OK;
    }
    for (size_t i = 0; i < OPS_CLASSES; i++) {
        if (strcmp(wanted, ops_classes[i])) continue;
        if (i == OPS_CLASS_CPU && !lanes_available(g, 8))
            return err_set(err, COLM_E_INPUT,
                           "kernel class \"cpu\" needs subgroups of 8 lanes with shuffles; %s has %u%s: use "
                           "\"portable\" or \"auto\"",
                           g->name, g->subgroup, g->subgroup_shuffle ? "" : " without");
        *ret = ops_classes[i];
        return COLM_OK;
    }
    return err_set(err, COLM_E_INPUT, "no kernel class \"%s\"; there are \"auto\", \"%s\", \"%s\" and \"%s\"",
                   wanted, ops_classes[0], ops_classes[1], ops_classes[2]);
}

tune_table *ops_tuned(ops_machine *m) {
    return &own(m)->tuned;
}
const ops_variant *ops_call_variant(const ops_call *c) {
    return c->bound->variant;
}

bool ops_class_runs(const gpu_info *g, const char *kernels) {
    const char *found;
    return choose_class(g, kernels, &found, NULL) == COLM_OK;
}

const char *ops_machine_class(const ops_machine *m) {
    return own(m)->kernels;
}

gpu_device *ops_machine_device(const ops_machine *m) {
    return m->vt == &device_table ? own(m)->device : NULL;
}

colm_status ops_open_gpu(gpu_device *d, const ops_machine_params *p, ops_machine **ret, colm_err *err) {
    static const ops_machine_params plain;
    if (!p) p = &plain;
    const gpu_info *g = gpu_get_info(d);
    const char *kernels = NULL;
    colm_status st = choose_class(g, p->kernels, &kernels, err);
    if (st) return st;
    gpu_own *o = mem_alloc(1, sizeof *o);
    if (!o) return err_nomem(err, sizeof *o, "machine");
    char name[300];
    snprintf(name, sizeof name, "%s %s", kernels, g->name);
    ops_machine *m = machine_new(&device_table, name);
    if (!m) {
        free(o);
        return err_nomem(err, sizeof *m, "machine");
    }
    const gpu_switches *s = gpu_get_switches(d);
    *o = (gpu_own){.device = d, .info = g, .kernels = kernels, .sync = p->sync, .watched = s->hazards};
    o->watch.drop = s->drop_barrier;
    o->tune = p->tune;
    if (p->log) o->log = *p->log;
    m->own = o;
    m->fuses = kernels == ops_classes[OPS_CLASS_CPU] && g->max_texels;
    if (g->kind != GPU_CPU || s->alloc_cap) m->memory = g->memory;
    m->switches = *s;
    /* Without texels their number bounds nothing. */
    m->window = (g->max_range / 16 < g->max_texels || !g->max_texels ? g->max_range / 16 : g->max_texels) * 4;
    log_line(p->log, LOG_INFO, "device: %s; kernels: %s", g->name, kernels);
    tuning_load(m);
    *ret = m;
    return COLM_OK;
}
