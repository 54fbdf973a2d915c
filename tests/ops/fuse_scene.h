/* Lists of linears for ops_fuse, as a model's graph makes them of a layer of chains: forward, input gradient,
 * weight gradient. Ways to spoil them with calls that must stay apart; what may share a call, worked out
 * element by element; and runs with and without ops_fuse. */
#ifndef COLM_TESTS_OPS_FUSE_SCENE_H
#define COLM_TESTS_OPS_FUSE_SCENE_H

#include "engine/base/rng.h"
#include "engine/ops/internal.h"
#include "tests/ops/device.h"

typedef struct abi_linear lin;
enum { FORWARD, DX, DW, MODES };
enum { X, W, Y, R, ROLES };
enum { CHAINS = 4, PRODUCTS = 3, MATS = 1 + 2 * PRODUCTS * (1 + CHAINS) };
static const ops_id ops[] = {OP_LINEAR, OP_LINEAR_DX, OP_LINEAR_DW};
/* A call's tensors 0, 1 and its result. */
static const int order[][3] = {[FORWARD] = {X, W, Y}, [DX] = {Y, W, X}, [DW] = {Y, X, W}};
enum { SUM_ANEW, SUM_FROM_RESULT, SUM_FROM_ELSEWHERE };

/* What to make; zeros: in float32, each role in its own buffer, sums start anew. */
typedef struct {
    int mode, from;
    uint32_t M, chains, products, seed;
    bool one_buffer; /* for X, W and Y */
    bool r_inside;   /* R lies in the result's buffer */
    ops_dtype as[ROLES];
} spec;

typedef struct {
    int buf;
    uint64_t off;
    uint32_t rows, cols, first, ld, whole; /* rows in memory */
} mat;

typedef struct {
    spec s;
    uint32_t draws, align;
    int where[ROLES]; /* buffer of a role */
    uint64_t len[ROLES];
    float *v[ROLES]; /* what the buffers hold */
    mat x, y[PRODUCTS], w[PRODUCTS][CHAINS];
    uint32_t x_at[CHAINS + 1], y_at[PRODUCTS][CHAINS], y_cols[PRODUCTS][CHAINS];
    uint64_t r_off; /* from the result's view to R's */
    ops_list list;  /* buffers numbered from 1 in the order of roles */
} problem;

static uint32_t draw(problem *p, uint32_t n) {
    rng_stream s = rng_open(p->s.seed, "fuse");
    return (uint32_t)rng_below(&s, p->draws++, n);
}

/* Matrices: never at a buffer's start, in strides and at columns that hurt. */
static mat place(problem *p, int role, uint32_t rows, uint32_t cols) {
    mat a = {.buf = p->where[role], .rows = rows, .cols = cols, .first = 8 * draw(p, 4)};
    a.ld = a.first + cols + 8 * draw(p, 4);
    a.whole = role == W ? rows : ops_rows(rows);
    a.off = (p->len[a.buf] / p->align + 1 + draw(p, 2)) * p->align;
    p->len[a.buf] = a.off + (uint64_t)a.whole * a.ld;
    return a;
}
static ops_view view_of(const mat *a) {
    return (ops_view){(ops_buf)a->buf + 1, a->off, (uint64_t)a->whole * a->ld};
}
static void fill(problem *p, const mat *a, uint32_t first, uint32_t cols, float scale, float tail) {
    rng_stream s = rng_open(p->s.seed, "values");
    for (uint64_t r = 0; r < a->whole; r++)
        for (uint64_t c = first; c < first + cols; c++) {
            uint64_t at = a->off + r * a->ld + a->first + c;
            p->v[a->buf][at] = r < a->rows ? scale * (float)rng_normal(&s, at) : tail;
        }
}

static void make_layer(problem *p) {
    const spec *s = &p->s;
    p->align = 64;
    for (int i = 0; i < ROLES; i++) {
        p->where[i] = s->one_buffer && i != R ? X : i;
        if (s->as[i] != OPS_F32 && (i != R || s->from == SUM_FROM_ELSEWHERE)) p->align = 128;
    }
    if (s->r_inside) p->where[R] = p->where[order[s->mode][2]];
    for (uint32_t i = 0; i < s->chains; i++) p->x_at[i + 1] = p->x_at[i] + 8 + 8 * draw(p, 12);
    p->x = place(p, X, s->M, p->x_at[s->chains]);
    for (uint32_t k = 0; k < s->products; k++) {
        uint32_t end = 0;
        for (uint32_t i = 0; i < s->chains; i++) {
            p->y_at[k][i] = end + 8 * draw(p, 2);
            p->y_cols[k][i] = 8 + 8 * draw(p, 12);
            end = p->y_at[k][i] + p->y_cols[k][i];
            p->w[k][i] = place(p, W, p->y_cols[k][i], p->x_at[i + 1]);
        }
        p->y[k] = place(p, Y, s->M, end);
    }
    /* R repeats all that lies in the result's buffer, further on. */
    const uint64_t z_len = p->len[p->where[order[s->mode][2]]];
    p->r_off = (s->r_inside ? z_len / p->align + 1 : 3) * p->align;
    p->len[p->where[R]] = p->r_off + z_len;
}

/* Numbers where calls read, NaN everywhere else. */
static void fill_layer(problem *p) {
    const int mode = p->s.mode;
    mat x = p->x;
    for (int i = 0; i < ROLES; i++) {
        p->v[i] = malloc(p->len[i] * sizeof(float) + 1);
        for (uint64_t k = 0; k < p->len[i]; k++) p->v[i][k] = NAN;
    }
    mat r = x;
    r.buf = p->where[R], r.off += p->r_off;
    if (mode == DX) fill(p, &r, 0, x.cols, 1, 0);
    if (mode != DX || p->s.from == SUM_FROM_RESULT) fill(p, &x, 0, x.cols, 1, 6e4f);
    for (uint32_t k = 0; k < p->s.products; k++)
        for (uint32_t i = 0; i < p->s.chains; i++) {
            mat y = p->y[k], w = p->w[k][i];
            if (mode != FORWARD || p->s.from == SUM_FROM_RESULT)
                fill(p, &y, p->y_at[k][i], p->y_cols[k][i], 1, mode == DW ? 0 : 6e4f);
            if (mode != DW || p->s.from == SUM_FROM_RESULT) fill(p, &w, 0, w.cols, 0.06f, 0);
            y.buf = w.buf = p->where[R], y.off += p->r_off, w.off += p->r_off;
            if (mode == FORWARD) fill(p, &y, p->y_at[k][i], p->y_cols[k][i], 1, 0);
            if (mode == DW) fill(p, &w, 0, w.cols, 1, 0);
        }
}

/* The call of product k and chain i, in the input gradient to the columns of chain j. */
static ops_call call_of(const problem *p, uint32_t k, uint32_t i, uint32_t j) {
    const mat *of[] = {&p->x, &p->w[k][i], &p->y[k]};
    const int *o = order[p->s.mode];
    ops_call c = {.op = ops[p->s.mode],
                  .t = {view_of(of[o[0]]), view_of(of[o[1]]), view_of(of[o[2]]), view_of(of[o[2]])}};
    const bool dx = p->s.mode == DX;
    const uint32_t from = dx ? p->x_at[j] : 0, to = p->x_at[dx ? j + 1 : i + 1];
    c.p.linear = (lin){.M = p->s.M,
                       .N = p->y_cols[k][i],
                       .K = to - from,
                       .ldx = p->x.ld,
                       .xo = p->x.first + from,
                       .ldw = p->w[k][i].ld,
                       .wo = p->w[k][i].first + from,
                       .ldy = p->y[k].ld,
                       .yo = p->y[k].first + p->y_at[k][i],
                       .init = p->s.from != SUM_ANEW};
    if (p->s.from == SUM_FROM_ELSEWHERE) c.t[2].buf = (ops_buf)p->where[R] + 1, c.t[2].off += p->r_off;
    return c;
}
static void go_on(ops_call *c) {
    c->p.linear.init = 1;
    c->t[2] = c->t[3];
}

static void add(problem *p, ops_call c) {
    colm_err err = {0};
    CHECK_OK(ops_add(&p->list, &c, &err), err);
}

static problem make(const spec *s) {
    problem p = {.s = *s};
    make_layer(&p);
    fill_layer(&p);
    if (s->mode == FORWARD)
        for (uint32_t i = 0; i < s->chains; i++)
            for (uint32_t k = 0; k < s->products; k++) add(&p, call_of(&p, k, i, 0));
    if (s->mode == DW)
        for (uint32_t k = 0; k < s->products; k++)
            for (uint32_t i = 0; i < s->chains; i++) add(&p, call_of(&p, k, i, 0));
    for (uint32_t j = 0; s->mode == DX && j < s->chains; j++)
        for (uint32_t k = 0; k < s->products; k++)
            for (uint32_t i = j; i < s->chains; i++) {
                ops_call c = call_of(&p, k, i, j);
                if (k || i > j) go_on(&c);
                add(&p, c);
            }
    return p;
}
static void done(problem *p) {
    for (int i = 0; i < ROLES; i++) free(p->v[i]);
    ops_list_done(&p->list);
}

/* Ways to spoil a list. */

typedef struct {
    uint32_t *rows, *cols, *ld, *first;
} shape;
static shape shape_of(lin *p, int role) {
    return role == X   ? (shape){&p->M, &p->K, &p->ldx, &p->xo}
           : role == W ? (shape){&p->N, &p->K, &p->ldw, &p->wo}
                       : (shape){&p->M, &p->N, &p->ldy, &p->yo};
}
static shape shape_at(ops_call *c, int t) {
    const int mode = c->op == OP_LINEAR ? FORWARD : c->op == OP_LINEAR_DX ? DX : DW;
    return shape_of(&c->p.linear, order[mode][t == 3 ? 2 : t]);
}

/* What a call becomes; false: it cannot. `old` is an earlier one, or itself. */
static bool other_rows(const problem *p, const ops_call *old, ops_call *c) {
    (void)p, (void)old;
    c->p.linear.M &= ~15u;
    return c->p.linear.M && c->p.linear.M < p->s.M;
}
static bool other_buffer(const problem *p, const ops_call *old, ops_call *c) {
    (void)old;
    c->t[3].buf = (ops_buf)p->where[R] + 1;
    c->t[3].off += p->r_off;
    c->t[2] = c->t[3];
    c->p.linear.init = 0;
    return true;
}
static bool once_more(const problem *p, const ops_call *old, ops_call *c) {
    (void)p;
    *c = *old;
    return true;
}
static bool once_more_anew(const problem *p, const ops_call *old, ops_call *c) {
    once_more(p, old, c);
    c->p.linear.init = 0;
    return true;
}
static bool once_more_on_top(const problem *p, const ops_call *old, ops_call *c) {
    once_more(p, old, c);
    go_on(c);
    return true;
}
static bool overlapping(const problem *p, const ops_call *old, ops_call *c) {
    once_more_anew(p, old, c);
    const shape z = shape_at(c, 3);
    *z.first += *z.first + *z.cols + 8 <= *z.ld ? 8u : -8u;
    return *z.first < *z.ld;
}
/* Columns beside the others', but rows of another length; the same columns, a row further down. */
static bool other_stride(const problem *p, const ops_call *old, ops_call *c) {
    (void)p, (void)old;
    *shape_at(c, 3).ld -= 8;
    return true;
}
static bool a_row_down(const problem *p, const ops_call *old, ops_call *c) {
    once_more_anew(p, old, c);
    const shape z = shape_at(c, 3);
    *z.first += *z.ld;
    return p->s.mode != DW && *z.rows % 16;
}
/* Tensor t becomes what an earlier call makes. */
static bool reads_as(int t, const problem *p, const ops_call *old, ops_call *c) {
    ops_call from = *old;
    const shape z = shape_at(&from, 3), a = shape_at(c, t);
    if (p->s.mode == DW || from.p.linear.M != c->p.linear.M) return false;
    c->t[t] = from.t[3];
    *a.ld = *z.ld, *a.first = *z.first;
    if (*z.cols < *a.cols) *a.cols = *z.cols;
    if (*z.rows < *a.rows) *a.rows = *z.rows & ~7u;
    return *a.rows > 0;
}
static bool reads_result(const problem *p, const ops_call *old, ops_call *c) {
    return reads_as(0, p, old, c);
}
static bool reads_weights(const problem *p, const ops_call *old, ops_call *c) {
    return reads_as(1, p, old, c);
}
/* The result takes the place of an earlier call's tensor t. */
static bool writes_over(int t, const problem *p, const ops_call *old, ops_call *c) {
    ops_call from = *old;
    const shape a = shape_at(&from, t), z = shape_at(c, 3);
    if (p->s.mode == DW || *a.rows < *z.rows) return false;
    c->t[2] = c->t[3] = from.t[t];
    c->p.linear.init = 0;
    *z.ld = *a.ld, *z.first = *a.first;
    if (*a.cols < *z.cols) *z.cols = *a.cols;
    return true;
}
static bool writes_input(const problem *p, const ops_call *old, ops_call *c) {
    return writes_over(0, p, old, c);
}
static bool writes_weights(const problem *p, const ops_call *old, ops_call *c) {
    return writes_over(1, p, old, c);
}
/* The sum starts from what an earlier call makes; */
static bool starts_from_result(const problem *p, const ops_call *old, ops_call *c) {
    (void)p;
    c->t[2] = (ops_view){old->t[3].buf, old->t[3].off, c->t[3].len};
    c->p.linear.init = 1;
    return c->t[2].off < c->t[3].off;
}
/* from R, at another distance than others; from where R's buffer begins. */
static bool starts_askew(const problem *p, const ops_call *old, ops_call *c) {
    (void)old;
    c->t[2].off -= p->align;
    return c->p.linear.init;
}
static bool starts_too_early(const problem *p, const ops_call *old, ops_call *c) {
    (void)old;
    c->t[2] = (ops_view){(ops_buf)p->where[R] + 1, 0, c->t[3].len};
    c->p.linear.init = 1;
    return true;
}
/* from R in 16 bits, where other results would begin at no multiple of 256 bytes. */
static bool starts_between(const problem *p, const ops_call *old, ops_call *c) {
    const uint64_t before = c->t[3].off - old->t[3].off;
    c->t[2] = (ops_view){(ops_buf)p->where[R] + 1, (before + 127) / 128 * 128, c->t[3].len};
    c->p.linear.init = 1;
    return before % 128;
}
typedef bool spoil(const problem *p, const ops_call *old, ops_call *c);
static spoil *const spoils[] = {other_rows,  other_buffer, once_more,     once_more_anew, once_more_on_top,
                                overlapping, reads_result, reads_weights, writes_input,   writes_weights};

static bool same_view(ops_view a, ops_view b) {
    return a.buf == b.buf && a.off == b.off && a.len == b.len;
}

/* Spoils *c as asked, unless that cannot be or the call would read what it makes itself. */
static bool spoiled(const problem *p, spoil *how, const ops_call *old, ops_call *c) {
    if (!how(p, old, c) || ops_overlap(c->t[0], c->t[3]) || ops_overlap(c->t[1], c->t[3])) return false;
    return !ops_overlap(c->t[2], c->t[3]) || same_view(c->t[2], c->t[3]);
}

static void spoil_some(problem *p) {
    ops_list old = p->list;
    p->list = (ops_list){0};
    for (size_t i = 0; i < old.n; i++) {
        add(p, old.call[i]);
        ops_call c = old.call[i];
        spoil *how = spoils[draw(p, COUNT_OF(spoils))];
        if (draw(p, 5) == 0 && spoiled(p, how, &p->list.call[draw(p, (uint32_t)p->list.n)], &c)) add(p, c);
    }
    ops_list_done(&old);
}

/* What may share a call. */

static bool is_joined(const ops_call *c) {
    return c->op >= OP_LINEARS && c->op <= OP_LINEARS_DW;
}
static size_t stands_for(const ops_call *c) {
    return is_joined(c) ? (c->t[4].len / 4 - c->p.linears.tiles) / 3 : 1;
}

typedef struct {
    uint16_t *owner[ROLES]; /* of each element: the sum that makes it, 0: none */
} marks;

/* Whether tensor t of a call lies in elements of none of these sums but `own`; marks it where mark is set. */
static bool clear_of_others(marks *m, ops_call *c, int t, int layout, uint16_t own, bool mark) {
    const shape s = shape_at(c, layout);
    bool clear = true;
    for (uint64_t r = 0; r < *s.rows; r++)
        for (uint64_t k = 0; k < *s.cols; k++) {
            uint16_t *o = &m->owner[c->t[t].buf - 1][c->t[t].off + r * *s.ld + *s.first + k];
            clear = clear && (!*o || *o == own);
            if (mark) *o = own;
        }
    return clear;
}

static bool continues(const problem *p, const ops_call *a, const ops_call *b) {
    ops_call x = *a, y = *b;
    const shape za = shape_at(&x, 3), zb = shape_at(&y, 3);
    return y.p.linear.init && same_view(y.t[2], y.t[3]) && same_view(x.t[3], y.t[3]) &&
           *za.first == *zb.first && *za.cols == *zb.cols && p->s.as[y.t[3].buf - 1] == OPS_F32;
}

/* The n calls from g on may run at the same time, sums that go on from call to call left aside. */
static bool independent(const problem *p, ops_call *g, size_t n) {
    marks m = {{0}};
    bool ok = true;
    for (int i = 0; i < ROLES; i++) m.owner[i] = calloc(p->len[i] + 1, sizeof *m.owner[i]);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0, sum = 0; i < n; i++) {
            if (!i || !continues(p, &g[i - 1], &g[i])) sum++;
            if (pass == 0) ok = ok && clear_of_others(&m, &g[i], 3, 3, (uint16_t)sum, true);
            if (pass == 0 || !ok) continue;
            ok = clear_of_others(&m, &g[i], 0, 0, 0, false) && clear_of_others(&m, &g[i], 1, 1, 0, false) &&
                 (!g[i].p.linear.init || clear_of_others(&m, &g[i], 2, 3, (uint16_t)sum, false));
        }
    for (int i = 0; i < ROLES; i++) free(m.owner[i]);
    return ok;
}

static bool sound(const problem *p, const ops_list *fused) {
    size_t at = 0;
    bool ok = true;
    for (size_t i = 0; i < fused->n && at < p->list.n; i++) {
        size_t n = stands_for(&fused->call[i]);
        ok = ok && n && at + n <= p->list.n && independent(p, p->list.call + at, n);
        at += n;
    }
    return ok && at == p->list.n;
}

/* Running */

typedef struct {
    void *bytes[ROLES];
    size_t size[ROLES], calls;
    uint64_t table; /* bytes of "step data" */
} outcome;

static void forget(outcome *o) {
    for (int i = 0; i < ROLES; i++) free(o->bytes[i]);
    *o = (outcome){0};
}

static bool same(const problem *p, const outcome *a, const outcome *b) {
    bool ok = true;
    for (int i = 0; i < ROLES; i++) ok = ok && memcmp(a->bytes[i], b->bytes[i], a->size[i]) == 0;
    if (!ok)
        printf("# mode %d, seed %u, M %u, %u chains, %u products, stored as %d %d %d %d: other bits\n",
               p->s.mode, p->s.seed, p->s.M, p->s.chains, p->s.products, (int)p->s.as[X], (int)p->s.as[W],
               (int)p->s.as[Y], (int)p->s.as[R]);
    return ok;
}

static bool keep(ops_machine *m, const ops_buf *buf, const problem *p, outcome *ret) {
    colm_err err = {0};
    for (int i = 0; i < ROLES; i++) {
        const double *d = ops_doubles(m, buf[i]);
        ret->size[i] = (size_t)p->len[i] * (d ? sizeof *d : ops_dtype_size(p->s.as[i]));
        ret->bytes[i] = malloc(ret->size[i] + 1);
        if (d) memcpy(ret->bytes[i], d, ret->size[i]);
        if (!d && !CHECK_OK(ops_read(m, buf[i], 0, ret->bytes[i], p->len[i], &err), err)) return false;
    }
    return true;
}

/* Fuses, and where there is something to run runs: with `twice` again with all weight gradients added. */
static bool run(ops_machine *m, const problem *p, bool fuse, bool twice, outcome *ret) {
    colm_err err = {0};
    ops_buf buf[ROLES] = {0}, joined = 0;
    ops_list l = {0};
    bool ok = true;
    for (int i = 0; i < ROLES && ok; i++) {
        void *stored = malloc(p->len[i] * sizeof(float) + 1);
        ops_pack(p->s.as[i], p->v[i], stored, p->len[i]);
        ok = CHECK_OK(ops_buffer(m, "test", p->s.as[i], p->len[i], &buf[i], &err), err) &&
             CHECK_OK(ops_write(m, buf[i], 0, stored, p->len[i], &err), err);
        free(stored);
    }
    for (size_t i = 0; i < p->list.n && ok; i++) {
        ops_call c = p->list.call[i];
        for (int t = 0; t < 4; t++) c.t[t].buf = buf[c.t[t].buf - 1];
        ok = CHECK_OK(ops_add(&l, &c, &err), err);
    }
    const ops_list *lists[] = {&l};
    if (ok && fuse) ok = CHECK_OK(ops_fuse(m, (ops_list *[]){&l}, 1, &joined, &err), err) & CHECK(sound(p, &l));
    ret->calls = l.n;
    ret->table = ops_bytes(m, "step data");
    if (ok && !ops_machine_is_plan(m)) {
        ok = CHECK_OK(ops_prepare(m, &l, &err), err) && CHECK_OK(ops_run(m, lists, 1, &err), err);
        for (size_t i = 0; i < l.n && twice; i++)
            *(is_joined(&l.call[i]) ? &l.call[i].p.linears.init : &l.call[i].p.linear.init) = 1;
        if (ok && twice) ok = CHECK_OK(ops_run(m, lists, 1, &err), err);
        ok = ok && keep(m, buf, p, ret);
    }
    ops_unprepare(m, &l);
    ops_list_done(&l);
    for (int i = 0; i < ROLES; i++) ops_buffer_free(m, &buf[i]);
    ops_buffer_free(m, &joined);
    return ok;
}

#endif
