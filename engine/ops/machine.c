/* What all machines share: buffers by purpose, lists, preparation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/ops/internal.h"

ops_machine *machine_new(const ops_vtable *vt, const char *name) {
    ops_machine *m = mem_alloc(1, sizeof *m);
    if (!m) return NULL;
    m->vt = vt;
    m->window = UINT64_MAX / 64;
    m->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    snprintf(m->name, sizeof m->name, "%s", name);
    return m;
}

void ops_close(ops_machine **pm) {
    ops_machine *m = *pm;
    if (!m) return;
    for (size_t i = 0; i < m->n_slots; i++)
        if (m->slot[i].live) m->vt->buffer_free(m, &m->slot[i]);
    if (m->vt->close) m->vt->close(m);
    gpu_close(&m->owned);
    free(m->slot);
    free(m);
    *pm = NULL;
}

const char *ops_machine_name(const ops_machine *m) {
    return m->name;
}
const gpu_switches *ops_switches(const ops_machine *m) {
    return &m->switches;
}
void ops_identity(const ops_machine *m, char *buf, size_t n) {
    m->vt->identity(m, buf, n);
}

static colm_status purpose_index(ops_machine *m, const char *purpose, uint32_t *ret, colm_err *err) {
    for (uint32_t i = 0; i < m->n_purposes; i++)
        if (strcmp(m->purpose[i], purpose) == 0) return *ret = i, COLM_OK;
    if (m->n_purposes == OPS_MAX_PURPOSES || strlen(purpose) >= sizeof m->purpose[0])
        return err_set(err, COLM_E_BUG, "no room for buffer purpose \"%s\"", purpose);
    strcpy(m->purpose[m->n_purposes], purpose);
    *ret = (uint32_t)m->n_purposes++;
    return COLM_OK;
}

colm_status ops_buffer(ops_machine *m, const char *purpose, ops_dtype t, uint64_t n, ops_buf *ret,
                       colm_err *err) {
    ops_slot s = {.dtype = t, .n = n ? n : 1, .live = true};
    if (s.n > (uint64_t)1 << 40)
        return err_set(err, COLM_E_INPUT, "%s: a buffer of %llu elements", purpose, (unsigned long long)n);
    colm_status st = purpose_index(m, purpose, &s.purpose, err);
    if (st) return st;
    size_t i = 0;
    while (i < m->n_slots && m->slot[i].live) i++;
    if (i == m->n_slots) {
        if (m->n_slots == m->cap_slots) {
            size_t cap = m->cap_slots ? 2 * m->cap_slots : 16;
            ops_slot *grown = mem_grow(m->slot, cap, sizeof *grown);
            if (!grown) return err_nomem(err, cap * sizeof *grown, "buffer table");
            m->slot = grown;
            m->cap_slots = cap;
        }
        m->n_slots++;
        m->slot[i].live = false;
    }
    if ((st = m->vt->buffer(m, &s, purpose, err))) return st;
    m->slot[i] = s;
    m->purpose_bytes[s.purpose] += ops_dtype_size(t) * s.n;
    *ret = (ops_buf)(i + 1);
    return COLM_OK;
}

void ops_buffer_free(ops_machine *m, ops_buf *b) {
    if (!m || !*b) return;
    ops_slot *s = machine_slot(m, *b);
    m->purpose_bytes[s->purpose] -= ops_dtype_size(s->dtype) * s->n;
    m->vt->buffer_free(m, s);
    s->live = false;
    *b = 0;
}

uint64_t ops_memory(const ops_machine *m) {
    return m->memory;
}
uint64_t ops_window(const ops_machine *m) {
    return m->window;
}
void ops_limit_window(ops_machine *m, uint64_t elements) {
    if (elements < m->window) m->window = elements;
}

uint64_t ops_buffer_len(const ops_machine *m, ops_buf b) {
    return machine_slot(m, b)->n;
}

uint64_t ops_bytes(const ops_machine *m, const char *purpose) {
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n_purposes; i++)
        if (!purpose || strcmp(m->purpose[i], purpose) == 0) sum += m->purpose_bytes[i];
    return sum;
}

static colm_status check_range(const ops_machine *m, ops_buf b, uint64_t off, uint64_t n, const char *what,
                               colm_err *err) {
    if (!b || b > m->n_slots || !m->slot[b - 1].live)
        return err_set(err, COLM_E_BUG, "%s: buffer %u does not exist", what, b);
    if (off > m->slot[b - 1].n || n > m->slot[b - 1].n - off)
        return err_set(err, COLM_E_BUG, "%s: elements %llu..%llu of a buffer of %llu", what,
                       (unsigned long long)off, (unsigned long long)(off + n),
                       (unsigned long long)m->slot[b - 1].n);
    return COLM_OK;
}

colm_status ops_write(ops_machine *m, ops_buf b, uint64_t off, const void *src, uint64_t n, colm_err *err) {
    colm_status st = check_range(m, b, off, n, "write", err);
    return st || !n ? st : m->vt->write(m, machine_slot(m, b), off, src, n, err);
}

colm_status ops_read(ops_machine *m, ops_buf b, uint64_t off, void *dst, uint64_t n, colm_err *err) {
    colm_status st = check_range(m, b, off, n, "read", err);
    return st || !n ? st : m->vt->read(m, machine_slot(m, b), off, dst, n, err);
}

colm_status ops_add(ops_list *l, const ops_call *c, colm_err *err) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        ops_call *grown = mem_grow(l->call, cap, sizeof *grown);
        if (!grown) return err_nomem(err, cap * sizeof *grown, "list of operations");
        l->call = grown;
        l->cap = cap;
    }
    l->call[l->n] = *c;
    l->call[l->n++].bound = NULL;
    return COLM_OK;
}

void ops_list_done(ops_list *l) {
    free(l->call);
    *l = (ops_list){0};
}

/* Whether a tensor that the table calls `kind` may be stored so. */
static bool takes(char kind, ops_dtype t) {
    return kind == 'u' ? t == OPS_U32 : t == OPS_F32 || (kind == 'h' && t != OPS_U32);
}

colm_status ops_prepare(ops_machine *m, ops_list *l, colm_err *err) {
    for (size_t i = 0; i < l->n; i++) {
        ops_call *c = &l->call[i];
        const ops_row *row = ops_get(c->op);
        for (size_t k = 0; row->access[k]; k++) {
            colm_status st = check_range(m, c->t[k].buf, c->t[k].off, c->t[k].len, row->name, err);
            if (st) return err_at(err, "call %zu, tensor %zu", i, k);
            const ops_dtype t = machine_slot(m, c->t[k].buf)->dtype;
            if (!takes(row->dtypes[k], t))
                return err_set(err, COLM_E_BUG, "call %zu, %s: tensor %zu is stored as %s, which it cannot be",
                               i, row->name, k, ops_dtype_name(t));
            if (c->t[k].off * ops_dtype_size(t) % 256 || !c->t[k].len)
                return err_set(
                    err, COLM_E_BUG,
                    "call %zu, %s: tensor %zu, %s, begins at element %llu and has %llu: it must begin at a "
                    "multiple of 256 bytes and not be empty",
                    i, row->name, k, ops_dtype_name(t), (unsigned long long)c->t[k].off,
                    (unsigned long long)c->t[k].len);
        }
        colm_status st = m->vt->prepare ? m->vt->prepare(m, c, err) : COLM_OK;
        if (st) return err_at(err, "%s", row->name);
    }
    return COLM_OK;
}

void ops_unprepare(ops_machine *m, ops_list *l) {
    for (size_t i = 0; m && i < l->n; i++)
        if (l->call[i].bound && m->vt->unprepare) m->vt->unprepare(m, &l->call[i]);
}

const char *ops_timing_text(ops_timing t) {
    static const char *const text[] = {
        [OPS_TIMED_BY_STAMPS] = "by the device's timestamps within one recording",
        [OPS_TIMED_BY_WAITING] = "each call waited for alone, for there are no timestamps",
        [OPS_TIMED_BY_WAITING_DISTRUST] =
            "each call waited for alone, for the device's timestamps contradict the clock"};
    return text[t];
}

colm_status ops_run_timed(ops_machine *m, const ops_list *const *lists, size_t n, double *seconds,
                          ops_timing *ret, colm_err *err) {
    ops_timing how = OPS_TIMED_BY_WAITING;
    colm_status st = m->vt->run_timed ? m->vt->run_timed(m, lists, n, seconds, &how, err) : COLM_OK;
    for (size_t i = 0, at = 0; i < n && how != OPS_TIMED_BY_STAMPS; i++)
        for (size_t c = 0; c < lists[i]->n && !st; c++) {
            const ops_list one = {.call = &lists[i]->call[c], .n = 1};
            const ops_list *run = &one;
            const double before = clock_seconds();
            st = m->vt->run(m, &run, 1, err);
            seconds[at++] = clock_seconds() - before;
        }
    if (!st) *ret = how;
    return st;
}

colm_status ops_run(ops_machine *m, const ops_list *const *lists, size_t n, colm_err *err) {
    return m->vt->run(m, lists, n, err);
}
