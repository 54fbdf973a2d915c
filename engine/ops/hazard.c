#include "engine/ops/hazard.h"

#include "engine/ops/internal.h"

static bool conflicts(const hazard_list *l, ops_view v, bool written) {
    for (size_t i = 0; i < l->n; i++)
        if ((written || l->use[i].written) && ops_overlap(l->use[i].view, v)) return true;
    return false;
}

/* False when the table is full. A view that is there already, touched in the same way, is not noted twice. */
static bool push(hazard_list *l, ops_view v, bool written) {
    for (size_t i = 0; i < l->n; i++) {
        const hazard_use *u = &l->use[i];
        if (u->written == written && u->view.buf == v.buf && u->view.off == v.off && u->view.len == v.len)
            return true;
    }
    if (l->n == HAZARD_MAX) return false;
    l->use[l->n++] = (hazard_use){v, written};
    return true;
}

bool hazard_note(hazard_list *l, const ops_view *t, const char *access) {
    bool wait = false;
    for (size_t k = 0; access[k] && !wait; k++) wait = conflicts(l, t[k], access[k] != 'r');
    for (;;) {
        if (wait) l->n = 0;
        size_t k = 0;
        while (access[k] && push(l, t[k], access[k] != 'r')) k++;
        if (!access[k]) return wait;
        wait = true; /* full: an empty table has room for any call */
    }
}

/* Elements in common, of what one call writes and the other touches. */
static bool collide(const ops_call *a, size_t i, const ops_call *b, size_t k, hazard_kind *ret) {
    const ops_view v = a->t[i], w = b->t[k];
    const char before = ops_get(a->op)->access[i], after = ops_get(b->op)->access[k];
    if (before == 'r' && after == 'r') return false;
    const uint64_t from = v.off > w.off ? v.off : w.off;
    const uint64_t v_end = v.off + v.len, w_end = w.off + w.len;
    if (v.buf != w.buf || from >= (v_end < w_end ? v_end : w_end)) return false;
    *ret = before == 'r'  ? HAZARD_WRITE_AFTER_READ
           : after == 'w' ? HAZARD_WRITE_AFTER_WRITE
                          : HAZARD_READ_AFTER_WRITE;
    return true;
}

bool hazard_find(const hazard_entry *e, size_t n, hazard_fault *ret) {
    size_t start = 0; /* first entry behind the last barrier */
    for (size_t b = 0; b < n; b++) {
        if (e[b].barrier) start = b;
        for (size_t a = start; a < b; a++)
            for (size_t i = 0; ops_get(e[a].call->op)->access[i]; i++)
                for (size_t k = 0; ops_get(e[b].call->op)->access[k]; k++) {
                    hazard_kind kind;
                    if (!collide(e[a].call, i, e[b].call, k, &kind)) continue;
                    *ret = (hazard_fault){kind, a, b, i, k};
                    return true;
                }
    }
    return false;
}
