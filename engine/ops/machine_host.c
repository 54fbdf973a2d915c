/* The reference machine (double, on the CPU) and the plan machine (which only counts). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/ops/internal.h"

static colm_status host_buffer(ops_machine *m, ops_slot *s, const char *purpose, colm_err *err) {
    (void)m;
    size_t size = s->dtype == OPS_U32 ? sizeof(uint32_t) : sizeof(double);
    s->host = mem_alloc(s->n, size);
    return s->host ? COLM_OK : err_nomem(err, s->n * size, purpose);
}

static void host_free(ops_machine *m, ops_slot *s) {
    (void)m;
    free(s->host);
    s->host = NULL;
}

static colm_status host_write(ops_machine *m, ops_slot *s, uint64_t off, const void *src, uint64_t n,
                              colm_err *err) {
    (void)m, (void)err;
    const ops_storage *as = storage_of(s->dtype);
    double *to = s->host;
    if (s->dtype == OPS_U32)
        memcpy((uint32_t *)s->host + off, src, n * sizeof(uint32_t));
    else if (as->widen)
        for (uint64_t i = 0; i < n; i++) to[off + i] = as->widen(((const uint16_t *)src)[i]);
    else
        for (uint64_t i = 0; i < n; i++) to[off + i] = ((const float *)src)[i];
    return COLM_OK;
}

static colm_status host_read(ops_machine *m, ops_slot *s, uint64_t off, void *dst, uint64_t n, colm_err *err) {
    (void)m, (void)err;
    const ops_storage *as = storage_of(s->dtype);
    const double *from = s->host;
    if (s->dtype == OPS_U32)
        memcpy(dst, (uint32_t *)s->host + off, n * sizeof(uint32_t));
    else if (as->narrow)
        for (uint64_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = as->narrow((float)from[off + i]);
    else
        for (uint64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)from[off + i];
    return COLM_OK;
}

static void *view_start(const ops_machine *m, ops_view v) {
    if (!v.buf) return NULL;
    const ops_slot *s = machine_slot(m, v.buf);
    return s->dtype == OPS_U32 ? (void *)((uint32_t *)s->host + v.off) : (void *)((double *)s->host + v.off);
}

/* What a call left in a tensor of 16 bits becomes what they can hold; the rest of the view is so already. */
static void narrow(const ops_machine *m, ops_view v) {
    const ops_storage *as = storage_of(machine_slot(m, v.buf)->dtype);
    double *d = view_start(m, v);
    for (uint64_t i = 0; i < v.len && as->narrow; i++) d[i] = as->widen(as->narrow((float)d[i]));
}

static colm_status host_run(ops_machine *m, const ops_list *const *lists, size_t n, colm_err *err) {
    (void)err;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < lists[i]->n; c++) {
            const ops_call *call = &lists[i]->call[c];
            const ops_row *row = ops_get(call->op);
            void *t[OPS_MAX_TENSORS] = {0};
            for (size_t k = 0; row->access[k]; k++) t[k] = view_start(m, call->t[k]);
            row->ref(&call->p, t);
            for (size_t k = 0; row->access[k]; k++)
                if (row->access[k] != 'r') narrow(m, call->t[k]);
        }
    return COLM_OK;
}

static void host_identity(const ops_machine *m, char *buf, size_t n) {
    snprintf(buf, n, "%s", m->name);
}

static const ops_vtable host_table = {.buffer = host_buffer,
                                      .buffer_free = host_free,
                                      .write = host_write,
                                      .read = host_read,
                                      .run = host_run,
                                      .identity = host_identity};

colm_status ops_open_ref(ops_machine **ret, colm_err *err) {
    ops_machine *m = machine_new(&host_table, "reference (double, CPU)");
    if (!m) return err_nomem(err, sizeof *m, "reference machine");
    m->fuses = true;
    *ret = m;
    return COLM_OK;
}

double *ops_doubles(ops_machine *m, ops_buf b) {
    return m->vt == &host_table && machine_slot(m, b)->dtype != OPS_U32 ? machine_slot(m, b)->host : NULL;
}

static colm_status plan_buffer(ops_machine *m, ops_slot *s, const char *purpose, colm_err *err) {
    (void)m, (void)s, (void)purpose, (void)err;
    return COLM_OK;
}
static void plan_free(ops_machine *m, ops_slot *s) {
    (void)m, (void)s;
}
static colm_status plan_write(ops_machine *m, ops_slot *s, uint64_t off, const void *src, uint64_t n,
                              colm_err *err) {
    (void)m, (void)s, (void)off, (void)src, (void)n, (void)err;
    return COLM_OK;
}
static colm_status plan_read(ops_machine *m, ops_slot *s, uint64_t off, void *dst, uint64_t n, colm_err *err) {
    (void)m, (void)s, (void)off, (void)dst, (void)n;
    return err_set(err, COLM_E_BUG, "a plan holds no data to read");
}
static colm_status plan_run(ops_machine *m, const ops_list *const *lists, size_t n, colm_err *err) {
    (void)m, (void)lists, (void)n;
    return err_set(err, COLM_E_BUG, "a plan cannot run");
}

static const ops_vtable plan_table = {.buffer = plan_buffer,
                                      .buffer_free = plan_free,
                                      .write = plan_write,
                                      .read = plan_read,
                                      .run = plan_run,
                                      .identity = host_identity};

colm_status ops_open_plan(ops_machine **ret, colm_err *err) {
    ops_machine *m = machine_new(&plan_table, "plan");
    if (!m) return err_nomem(err, sizeof *m, "plan machine");
    *ret = m;
    return COLM_OK;
}

bool ops_machine_is_plan(const ops_machine *m) {
    return m->vt == &plan_table;
}
