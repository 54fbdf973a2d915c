#include "engine/ops/hazard.h"

static bool overlap(ops_view a, ops_view b) {
    return a.buf == b.buf && a.off < b.off + b.len && b.off < a.off + a.len;
}

static bool conflicts(const hazard_list *l, ops_view v, bool written) {
    for (size_t i = 0; i < l->n; i++)
        if ((written || l->use[i].written) && overlap(l->use[i].view, v)) return true;
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
