/* Joining linears: which neighbours of a list may share a call, and the table that such a call reads.
 *
 * Chains make many narrow products out of one wide one. In one call they start together, the input gradient of
 * a chain sums over all later ones without touching memory in between, and a result is stored once. */
#include <stddef.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/ops/internal.h"

#define MOST_TILES 65535u                 /* workgroups on one axis */
#define MOST_ELEMENTS ((uint64_t)1 << 27) /* of a view: multiples of 8 up to here are floats */
enum { A, B, R, Z, PLAN };                /* the tensors of a call */

/* Where a linear's push constants hold the first column of tensors A, B and Z, and Z's columns and stride. */
typedef struct {
    ops_id joined;
    size_t at[3], cols, ld;
} layout;
#define FIELD(x) offsetof(struct abi_linear, x)
static const layout layouts[] = {
    {OP_LINEARS, {FIELD(xo), FIELD(wo), FIELD(yo)}, FIELD(N), FIELD(ldy)},
    {OP_LINEARS_DX, {FIELD(yo), FIELD(wo), FIELD(xo)}, FIELD(K), FIELD(ldx)},
    {OP_LINEARS_DW, {FIELD(yo), FIELD(xo), FIELD(wo)}, FIELD(K), FIELD(ldw)},
};

static const layout *layout_of(const ops_call *c) {
    switch (c->op) {
    case OP_LINEAR:
        return &layouts[0];
    case OP_LINEAR_DX:
        return &layouts[1];
    case OP_LINEAR_DW:
        return &layouts[2];
    default:
        return NULL;
    }
}
static uint32_t get(const struct abi_linear *p, size_t field) {
    return *(const uint32_t *)((const char *)p + field);
}

/* The columns that a call makes. */
typedef struct {
    uint32_t first, cols, ld;
} result;
static result result_of(const ops_call *c) {
    const layout *l = layout_of(c);
    const struct abi_linear *p = &c->p.linear;
    return (result){get(p, l->at[2]), get(p, l->cols), get(p, l->ld)};
}

static bool same_view(ops_view a, ops_view b) {
    return a.buf == b.buf && a.off == b.off && a.len == b.len;
}
static bool same_result(const ops_call *a, const ops_call *b) {
    result x = result_of(a), y = result_of(b);
    return same_view(a->t[Z], b->t[Z]) && x.first == y.first && x.cols == y.cols && x.ld == y.ld;
}
/* In memory of their own, or in columns of their own of the same rows. */
static bool apart(const ops_call *a, const ops_call *b) {
    result x = result_of(a), y = result_of(b);
    if (!ops_overlap(a->t[Z], b->t[Z])) return true;
    return a->t[Z].off == b->t[Z].off && x.ld == y.ld && x.first + x.cols <= x.ld && y.first + y.cols <= y.ld &&
           (x.first + x.cols <= y.first || y.first + y.cols <= x.first);
}
/* b goes on with a's sum. In one call that stays in registers, so it is the same in float32 only. */
static bool goes_on(const ops_machine *m, const ops_call *a, const ops_call *b) {
    return b->p.linear.init && same_result(a, b) && same_view(b->t[R], b->t[Z]) &&
           machine_slot(m, b->t[Z].buf)->dtype == OPS_F32;
}
static bool reads_elsewhere(const ops_call *c) {
    return c->p.linear.init && !same_view(c->t[R], c->t[Z]);
}
/* One reads what the other makes, sums that go on left aside. */
static bool depends(const ops_call *a, const ops_call *b) {
    return ops_overlap(a->t[Z], b->t[A]) || ops_overlap(a->t[Z], b->t[B]) || ops_overlap(b->t[Z], a->t[A]) ||
           ops_overlap(b->t[Z], a->t[B]) || (reads_elsewhere(b) && ops_overlap(a->t[Z], b->t[R])) ||
           (reads_elsewhere(a) && ops_overlap(b->t[Z], a->t[R]));
}

/* Whether call c may join the n before it. */
static bool joins(const ops_machine *m, const ops_call *g, size_t n, const ops_call *c) {
    if (c->op != g->op || c->p.linear.M != g->p.linear.M || c->t[A].buf != g->t[A].buf ||
        c->t[B].buf != g->t[B].buf || c->t[Z].buf != g->t[Z].buf)
        return false;
    bool on = goes_on(m, &g[n - 1], c);
    for (size_t i = 0; i < n; i++)
        if (depends(&g[i], c) || !((on && same_result(&g[i], c)) || apart(&g[i], c))) return false;
    return true;
}

/* One view for tensor k of all calls. */
static ops_view span(const ops_call *g, size_t n, int k) {
    ops_view s = g->t[k];
    for (size_t i = 1; i < n; i++) {
        uint64_t end = s.off + s.len, own = g[i].t[k].off + g[i].t[k].len;
        if (g[i].t[k].off < s.off) s.off = g[i].t[k].off;
        s.len = (own > end ? own : end) - s.off;
    }
    return s;
}

/* The view of R, in which elements lie as in the result's: where sums start from elsewhere, at one distance. */
static bool span_of_r(const ops_machine *m, const ops_call *g, size_t n, ops_view z, ops_view *ret) {
    const ops_call *from = NULL;
    *ret = z;
    for (size_t i = 0; i < n; i++) {
        if (!g[i].p.linear.init || (i && goes_on(m, &g[i - 1], &g[i]))) continue;
        if (from && (g[i].t[R].buf != from->t[R].buf ||
                     g[i].t[R].off - g[i].t[Z].off != from->t[R].off - from->t[Z].off))
            return false;
        from = &g[i];
    }
    if (!from) return true;
    const uint64_t before = from->t[Z].off - z.off;
    const ops_slot *s = machine_slot(m, from->t[R].buf);
    *ret = (ops_view){from->t[R].buf, from->t[R].off - before, z.len};
    return from->t[R].off >= before && ret->off + ret->len <= s->n &&
           ret->off * ops_dtype_size(s->dtype) % 256 == 0;
}

typedef struct {
    float *v;
    size_t n, cap;
    bool failed;
} table;

static void put(table *t, double a, double b, double c, double d) {
    if (t->n == t->cap && !t->failed) {
        size_t cap = t->cap ? 2 * t->cap : 1024; /* a multiple of 4 */
        float *grown = mem_grow(t->v, cap, sizeof *grown);
        t->failed = !grown;
        if (grown) t->v = grown, t->cap = cap;
    }
    if (t->failed) return;
    const double v[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) t->v[t->n++] = (float)v[i];
}

static void put_block(table *t, const ops_call *c, const ops_view s[]) {
    static const int tensor[] = {A, B, Z};
    struct abi_linear p = c->p.linear;
    for (int i = 0; i < 3; i++)
        *(uint32_t *)((char *)&p + layout_of(c)->at[i]) += (uint32_t)(c->t[tensor[i]].off - s[tensor[i]].off);
    put(t, p.N, p.K, p.ldx, p.xo);
    put(t, p.ldw, p.wo, p.ldy, p.yo);
    put(t, p.init, 0, 0, 0);
}

/* The tiles and blocks of n calls behind the table's end; *ret is the call that stands for them, but for the
 * buffer of its plan. False: they need views that are too long. */
static bool put_call(const ops_machine *m, table *t, const ops_call *g, size_t n, ops_call *ret) {
    ops_call c = {.op = layout_of(g)->joined, .p.linears.M = g->p.linear.M};
    ops_view *s = c.t;
    while (t->n % 64 && !t->failed) put(t, 0, 0, 0, 0);
    s[PLAN].off = t->n;
    for (int k = A; k <= Z; k++) s[k] = span(g, n, k);
    bool fits = span_of_r(m, g, n, s[Z], &s[R]);
    for (size_t i = 0, blocks = 1; i < n; i += blocks, blocks = 1) {
        uint32_t rows = g->op == OP_LINEAR_DW ? g[i].p.linear.N : 1;
        while (i + blocks < n && goes_on(m, &g[i + blocks - 1], &g[i + blocks])) blocks++;
        for (uint32_t r = 0; r < rows; r += ABI_LINEARS_TILE)
            for (uint32_t j = 0; j < result_of(&g[i]).cols; j += ABI_LINEARS_TILE, c.p.linears.tiles++)
                put(t, (double)i, (double)blocks, r, j);
    }
    for (size_t i = 0; i < n; i++) {
        put_block(t, &g[i], s);
        c.p.linears.work += (uint32_t)((uint64_t)g[i].p.linear.N * g[i].p.linear.K / 64);
    }
    s[PLAN].len = t->n - s[PLAN].off;
    for (int k = A; k <= PLAN; k++) fits &= s[k].len <= ops_window(m) && s[k].len <= MOST_ELEMENTS;
    *ret = c;
    return fits && c.p.linears.tiles <= MOST_TILES;
}

static void fuse_list(const ops_machine *m, ops_list *l, table *t) {
    size_t to = 0;
    for (size_t i = 0, n = 1; i < l->n; i += n, n = 1) {
        const ops_call *g = &l->call[i];
        while (layout_of(g) && i + n < l->n && joins(m, g, n, g + n)) n++;
        ops_call c;
        if (n > 1 && put_call(m, t, g, n, &c) && m->fuses) {
            l->call[to++] = c;
            continue;
        }
        for (size_t k = 0; k < n; k++) l->call[to++] = g[k];
    }
    l->n = to;
}

colm_status ops_fuse(ops_machine *m, ops_list *const *lists, size_t n, ops_buf *ret, colm_err *err) {
    table t = {0};
    colm_status st = COLM_OK;
    *ret = 0;
    for (size_t i = 0; i < n; i++) fuse_list(m, lists[i], &t);
    if (t.failed) st = err_nomem(err, 2 * t.cap * sizeof *t.v, "table of joined linears");
    if (!st && t.n) st = ops_buffer(m, "step data", OPS_F32, t.n, ret, err);
    if (!st && t.n) st = ops_write(m, *ret, 0, t.v, t.n, err);
    for (size_t i = 0; i < n && !st; i++)
        for (size_t k = 0; k < lists[i]->n; k++) {
            ops_call *c = &lists[i]->call[k];
            if (c->op >= OP_LINEARS && c->op <= OP_LINEARS_DW) c->t[PLAN].buf = *ret;
        }
    free(t.v);
    return st;
}
