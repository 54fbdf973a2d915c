/* The three linear products of every kernel class against the reference, on shapes that hurt, and the promises
 * about bits: a split sum, another stride, another number of rows give the same ones. */
#include "engine/base/rng.h"
#include "engine/tensor/tensor.h"
#include "tests/ops/device.h"

#define HEAD 128 /* elements before a view */

typedef struct abi_linear lin;
static const ops_id modes[] = {OP_LINEAR, OP_LINEAR_DX, OP_LINEAR_DW};
enum { X, W, Y, MATRICES };
/* The call's tensors in order, and its result, as matrices. */
static const int order[][3] = {[0] = {X, W, Y}, [1] = {Y, W, X}, [2] = {Y, X, W}};

typedef struct {
    uint32_t rows, cols, ld, first, whole; /* used rows and columns; all rows in memory */
    size_t len;                            /* of the buffer, guards included */
    float *v;
} matrix;

static float *at(const matrix *a, size_t r, size_t c) {
    return a->v + HEAD + r * a->ld + a->first + c;
}

/* Used columns random, all else NaN, which must be neither read nor written. Rows in memory beyond the used
 * ones are finite, and zero where `zero_tail`. */
static matrix make(uint32_t rows, uint32_t cols, uint32_t ld, uint32_t first, uint32_t whole, bool zero_tail,
                   const char *name) {
    matrix a = {rows, cols, ld, first, whole, HEAD + (size_t)whole * ld + HEAD, NULL};
    rng_stream s = rng_open(7, name);
    a.v = malloc(a.len * sizeof *a.v);
    for (size_t i = 0; i < a.len; i++) a.v[i] = NAN;
    for (uint32_t r = 0; r < whole; r++)
        for (uint32_t c = 0; c < cols; c++)
            *at(&a, r, c) = r < rows ? (float)rng_normal(&s, (uint64_t)r * cols + c) : zero_tail ? 0.0f : 6e4f;
    return a;
}

typedef struct {
    int mode;
    lin p;
    bool apart;                 /* R is a matrix of its own, not the result's */
    ops_dtype as[MATRICES + 1]; /* how the matrices and R are stored */
    matrix m[MATRICES];
} problem;

static const matrix *result(const problem *q) {
    return &q->m[order[q->mode][2]];
}

static void fill(const matrix *a, float v) {
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t c = 0; c < a->cols; c++) *at(a, r, c) = v;
}

/* extra: rows in memory beyond those the contract asks for */
static problem make_problem(int mode, lin p, uint32_t extra) {
    problem q = {.mode = mode, .p = p};
    uint32_t rows = ops_rows(p.M) + extra;
    q.m[X] = make(p.M, p.K, p.ldx, p.xo, rows, false, "X");
    q.m[W] = make(p.N, p.K, p.ldw, p.wo, p.N, false, "W");
    q.m[Y] = make(p.M, p.N, p.ldy, p.yo, rows, mode == 2, "Y");
    if (!p.init) fill(result(&q), NAN); /* not to be read */
    return q;
}

static void free_problem(problem *q) {
    for (int i = 0; i < MATRICES; i++) free(q->m[i].v);
}

static bool write(ops_machine *m, ops_buf b, ops_dtype t, const matrix *a) {
    colm_err err = {0};
    float *stored = malloc(a->len * sizeof *stored);
    ops_pack(t, a->v, stored, a->len);
    bool ok = CHECK_OK(ops_write(m, b, 0, stored, a->len, &err), err);
    free(stored);
    return ok;
}
static bool read(ops_machine *m, ops_buf b, ops_dtype t, float *ret, size_t n) {
    colm_err err = {0};
    float *stored = malloc(n * sizeof *stored);
    bool ok = CHECK_OK(ops_read(m, b, 0, stored, n, &err), err);
    if (ok) ops_unpack(t, stored, ret, n);
    free(stored);
    return ok;
}

/* Runs the calls in order on a machine over the problem's matrices; the whole result buffer goes to ret, as
 * doubles where the machine has them. */
static bool run(ops_machine *m, const problem *q, const lin *calls, size_t n, float *ret, double *ret_double) {
    colm_err err = {0};
    enum { R = MATRICES, BUFFERS };
    ops_buf buf[BUFFERS] = {0};
    ops_view view[BUFFERS] = {{0}};
    ops_list list = {0};
    const int *o = order[q->mode];
    const matrix *z = result(q);
    bool ok = true;
    for (int i = 0; i < (q->apart ? BUFFERS : MATRICES) && ok; i++) {
        const matrix *a = i == R ? z : &q->m[i];
        ok = CHECK_OK(ops_buffer(m, "test", q->as[i], a->len, &buf[i], &err), err) &&
             write(m, buf[i], q->as[i], a);
        view[i] = (ops_view){buf[i], HEAD, (uint64_t)a->whole * a->ld};
    }
    if (ok && q->apart) { /* what the result held is not to be read */
        matrix spoilt = *z;
        spoilt.v = malloc(z->len * sizeof *z->v);
        memcpy(spoilt.v, z->v, z->len * sizeof *z->v);
        fill(&spoilt, NAN);
        ok = write(m, buf[o[2]], q->as[o[2]], &spoilt);
        free(spoilt.v);
    }
    for (size_t i = 0; i < n && ok; i++) {
        ops_call c = {.op = modes[q->mode],
                      .t = {view[o[0]], view[o[1]], q->apart ? view[R] : view[o[2]], view[o[2]]}};
        c.p.linear = calls[i];
        ok = CHECK_OK(ops_add(&list, &c, &err), err);
    }
    const ops_list *lists[] = {&list};
    ok = ok && CHECK_OK(ops_prepare(m, &list, &err), err) && CHECK_OK(ops_run(m, lists, 1, &err), err);
    if (ok && ret) ok = read(m, buf[o[2]], q->as[o[2]], ret, z->len);
    if (ok && ret_double) memcpy(ret_double, ops_doubles(m, buf[o[2]]), z->len * sizeof *ret_double);
    ops_unprepare(m, &list);
    ops_list_done(&list);
    for (int i = 0; i < BUFFERS; i++) ops_buffer_free(m, &buf[i]);
    return ok;
}

static bool same_bits(const float *a, const float *b, size_t n) {
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* Of `got`, the used rows and columns agree with the reference, and every other column kept its bits. The
 * reference rounds as the device does: of results of 16 bits only those near the middle of two numbers may
 * differ, a sixteenth at most. */
static bool agrees(const problem *q, const double *ref, const float *got) {
    const matrix *z = result(q);
    const ops_dtype dtype = q->as[order[q->mode][2]];
    size_t n = (size_t)z->rows * z->cols, differ = 0;
    double *a = malloc(n * sizeof *a);
    float *b = malloc(n * sizeof *b);
    bool kept = same_bits(got, z->v, HEAD) && same_bits(got + z->len - HEAD, z->v + z->len - HEAD, HEAD);
    for (uint32_t r = 0; r < z->whole; r++) {
        size_t row = HEAD + (size_t)r * z->ld, end = z->first + z->cols;
        kept = kept && same_bits(got + row, z->v + row, z->first) &&
               same_bits(got + row + end, z->v + row + end, z->ld - end);
        for (uint32_t c = 0; c < z->cols && r < z->rows; c++) {
            a[(size_t)r * z->cols + c] = ref[row + z->first + c];
            b[(size_t)r * z->cols + c] = got[row + z->first + c];
            differ += ref[row + z->first + c] != (double)got[row + z->first + c];
        }
    }
    double nmse = tensor_nmse(a, b, n);
    const double limit = dtype == OPS_BF16 ? 1e-4 : dtype == OPS_F16 ? 1e-5 : 1e-10;
    bool close = nmse <= limit && (dtype == OPS_F32 || differ <= 1 + n / 16);
    if (getenv("COLM_TEST_SHOW") && dtype != OPS_F32)
        printf("# %s: nmse %g, %zu of %zu differ\n", ops_dtype_name(dtype), nmse, differ, n);
    if (!kept || !close)
        printf("# mode %d M %u N %u K %u ldx %u+%u ldw %u+%u ldy %u+%u init %u: nmse %g%s\n", q->mode, q->p.M,
               q->p.N, q->p.K, q->p.ldx, q->p.xo, q->p.ldw, q->p.wo, q->p.ldy, q->p.yo, q->p.init, nmse,
               kept ? "" : ", wrote outside its columns");
    free(a);
    free(b);
    return CHECK(kept) & CHECK(close);
}

/* A layout that changes from case to case: i picks offsets and strides. */
static lin layout(uint32_t M, uint32_t N, uint32_t K, uint32_t i) {
    static const uint32_t before[] = {0, 8, 40, 0, 16}, after[] = {0, 0, 8, 24};
    lin p = {.M = M, .N = N, .K = K, .init = i % 2};
    p.xo = before[i % 5], p.wo = before[(i + 1) % 5], p.yo = before[(i + 2) % 5];
    p.ldx = ops_stride(p.xo + K + after[i % 4]);
    p.ldw = p.wo + K + after[(i + 1) % 4];
    p.ldy = p.yo + N + after[(i + 2) % 4];
    return p;
}

static void shapes_that_hurt(void) {
    static const uint32_t rows[] = {1, 7, 16, 17, 70, 129}, cols[] = {8, 16, 24, 32, 40, 88, 264};
    if (!have_device()) return;
    colm_err err;
    ops_machine *ref = NULL, *gpu[COUNT_OF(test_classes)];
    if (!CHECK_OK(ops_open_ref(&ref, &err), err)) return;
    for (size_t k = 0; k < COUNT_OF(test_classes); k++) gpu[k] = machine_of(test_classes[k]);
    bool ok = true;
    for (uint32_t i = 0; i < COUNT_OF(rows) * COUNT_OF(cols) * COUNT_OF(cols) && ok; i++)
        for (int mode = 0; mode < 3 && ok; mode++) {
            lin p = layout(rows[i / 49], cols[i / 7 % 7], cols[i % 7], i + (uint32_t)mode);
            problem q = make_problem(mode, p, 0);
            q.apart = i % 3 == 0;
            size_t len = result(&q)->len;
            double *want = malloc(len * sizeof *want);
            float *got = malloc(len * sizeof *got);
            ok = run(ref, &q, &p, 1, NULL, want);
            for (size_t k = 0; k < COUNT_OF(test_classes) && ok; k++)
                if (gpu[k]) ok = run(gpu[k], &q, &p, 1, got, NULL) && agrees(&q, want, got);
            free(want);
            free(got);
            free_problem(&q);
        }
    ops_close(&ref);
    for (size_t k = 0; k < COUNT_OF(test_classes); k++) ops_close(&gpu[k]);
}

/* In 16 bits, and in mixtures: X, W, Y, R in turn. */
static void stored_in_16_bits(void) {
    static const ops_dtype patterns[][MATRICES + 1] = {{OPS_BF16, OPS_BF16, OPS_BF16, OPS_BF16},
                                                       {OPS_F16, OPS_F16, OPS_F16, OPS_F16},
                                                       {OPS_BF16, OPS_BF16, OPS_F32, OPS_F32},
                                                       {OPS_F16, OPS_BF16, OPS_F16, OPS_F32},
                                                       {OPS_F32, OPS_F16, OPS_BF16, OPS_F16}};
    static const uint32_t shapes[][3] = {{1, 8, 8}, {17, 40, 24}, {129, 72, 264}};
    if (!have_device()) return;
    colm_err err;
    ops_machine *ref = NULL;
    if (!CHECK_OK(ops_open_ref(&ref, &err), err)) return;
    for (size_t k = 0; k < COUNT_OF(test_classes); k++) {
        ops_machine *m = machine_of(test_classes[k]);
        for (uint32_t i = 0; m && i < 3 * COUNT_OF(patterns) * COUNT_OF(shapes); i++) {
            const uint32_t *n = shapes[i / 3 % COUNT_OF(shapes)];
            const int mode = (int)(i % 3);
            lin p = layout(n[0], n[1], n[2], i);
            problem q = make_problem(mode, p, 0);
            memcpy(q.as, patterns[i / 3 / COUNT_OF(shapes)], sizeof q.as);
            q.apart = i / 2 % 2;
            if (mode == 2) q.as[W] = q.as[MATRICES] = OPS_F32; /* a gradient of the weights */
            if (!q.apart) q.as[MATRICES] = q.as[order[mode][2]];
            size_t len = result(&q)->len;
            double *want = malloc(len * sizeof *want);
            float *got = malloc(len * sizeof *got);
            if (!run(ref, &q, &p, 1, NULL, want) || !run(m, &q, &p, 1, got, NULL) || !agrees(&q, want, got))
                printf("# stored as %s, %s, %s, %s, class %s\n", ops_dtype_name(q.as[X]),
                       ops_dtype_name(q.as[W]), ops_dtype_name(q.as[Y]), ops_dtype_name(q.as[MATRICES]),
                       test_classes[k]);
            free(want);
            free(got);
            free_problem(&q);
        }
        ops_close(&m);
    }
    ops_close(&ref);
}

/* The sum over the reduction index cut at `cut`, as a second call on shifted views. */
static void cut_calls(int mode, const lin *p, uint32_t cut, lin calls[2]) {
    calls[0] = calls[1] = *p;
    calls[1].init = 1;
    if (mode == 0) {
        calls[0].K = cut, calls[1].K = p->K - cut;
        calls[1].xo += cut, calls[1].wo += cut;
    } else if (mode == 1) {
        calls[0].N = cut, calls[1].N = p->N - cut;
        calls[1].yo += cut, calls[1].wo += cut * p->ldw;
    } else {
        calls[0].M = cut, calls[1].M = p->M - cut;
        calls[1].xo += cut * p->ldx, calls[1].yo += cut * p->ldy;
    }
}

static void a_split_sum_has_the_same_bits(void) {
    if (!have_device()) return;
    for (size_t k = 0; k < COUNT_OF(test_classes); k++) {
        ops_machine *m = machine_of(test_classes[k]);
        for (int mode = 0; mode < 3 && m; mode++)
            for (uint32_t cut = 8; cut < 88; cut += 24) {
                lin p = layout(88, 88, 88, cut), calls[2];
                problem q = make_problem(mode, p, 16);
                size_t len = result(&q)->len;
                float *once = malloc(len * sizeof *once), *twice = malloc(len * sizeof *twice);
                cut_calls(mode, &p, cut, calls);
                if (run(m, &q, &p, 1, once, NULL) && run(m, &q, calls, 2, twice, NULL))
                    CHECK(same_bits(once, twice, len));
                free(once);
                free(twice);
                free_problem(&q);
            }
        ops_close(&m);
    }
}

static void strides_do_not_change_bits(void) {
    if (!have_device()) return;
    for (size_t k = 0; k < COUNT_OF(test_classes); k++) {
        ops_machine *m = machine_of(test_classes[k]);
        for (int mode = 0; mode < 3 && m; mode++) {
            lin compact = {.M = 33, .N = 40, .K = 72, .ldx = 72, .ldw = 72, .ldy = 40};
            lin wide = {33, 40, 72, 1000, 160, 200, 96, 512, 400, 0};
            problem a = make_problem(mode, compact, 0), b = make_problem(mode, wide, 0);
            const matrix *za = result(&a), *zb = result(&b);
            float *va = malloc(za->len * sizeof *va), *vb = malloc(zb->len * sizeof *vb);
            if (run(m, &a, &compact, 1, va, NULL) && run(m, &b, &wide, 1, vb, NULL)) {
                bool same = true;
                for (uint32_t r = 0; r < za->rows; r++)
                    same =
                        same && same_bits(va + (at(za, r, 0) - za->v), vb + (at(zb, r, 0) - zb->v), za->cols);
                CHECK(same);
            }
            free(va);
            free(vb);
            free_problem(&a);
            free_problem(&b);
        }
        ops_close(&m);
    }
}

static void rows_do_not_know_each_other(void) {
    static const uint32_t picked[] = {0, 15, 77, 128};
    if (!have_device()) return;
    for (size_t k = 0; k < COUNT_OF(test_classes); k++) {
        ops_machine *m = machine_of(test_classes[k]);
        for (int mode = 0; mode < 2 && m; mode++)
            for (size_t i = 0; i < COUNT_OF(picked); i++) {
                lin p = layout(129, 40, 88, 4), one = p;
                one.M = 1;
                one.xo += picked[i] * p.ldx, one.yo += picked[i] * p.ldy;
                problem q = make_problem(mode, p, 16);
                const matrix *z = result(&q);
                float *all = malloc(z->len * sizeof *all), *alone = malloc(z->len * sizeof *alone);
                if (run(m, &q, &p, 1, all, NULL) && run(m, &q, &one, 1, alone, NULL)) {
                    size_t row = (size_t)(at(z, picked[i], 0) - z->v);
                    CHECK(same_bits(all + row, alone + row, z->cols));
                }
                free(all);
                free(alone);
                free_problem(&q);
            }
        ops_close(&m);
    }
}

/* Loops longer than the 65,535 rounds at which some drivers stop, if a step were one row. */
static void seventy_thousand_rows(void) {
    if (!have_device()) return;
    colm_err err;
    ops_machine *ref = NULL;
    lin p = {.M = 70000, .N = 8, .K = 16, .ldx = 16, .ldw = 16, .ldy = 8};
    problem q = make_problem(2, p, 0);
    size_t len = result(&q)->len;
    double *want = malloc(len * sizeof *want);
    float *got = malloc(len * sizeof *got);
    if (CHECK_OK(ops_open_ref(&ref, &err), err) && run(ref, &q, &p, 1, NULL, want))
        for (size_t k = 0; k < COUNT_OF(test_classes); k++) {
            ops_machine *m = machine_of(test_classes[k]);
            if (m && run(m, &q, &p, 1, got, NULL)) agrees(&q, want, got);
            ops_close(&m);
        }
    ops_close(&ref);
    free(want);
    free(got);
    free_problem(&q);
}

/* More row tiles than an axis holds groups: they continue on the z axis. */
static void more_tiles_than_an_axis_holds(void) {
    if (!have_device()) return;
    ops_machine *m = machine_of("cpu");
    if (!m) {
        test_skip("no device of class cpu");
        return;
    }
    uint32_t tiles = 65535 + 2;
    lin p = {.M = tiles * 16 - 5, .N = 8, .K = 8, .ldx = 8, .ldw = 8, .ldy = 8};
    problem q = make_problem(0, p, 0);
    const matrix *z = result(&q);
    float *got = malloc(z->len * sizeof *got);
    if (run(m, &q, &p, 1, got, NULL))
        for (uint32_t r = p.M - 64; r < p.M; r++) {
            double want = 0;
            for (uint32_t i = 0; i < p.K; i++) want += (double)*at(&q.m[X], r, i) * *at(&q.m[W], 3, i);
            CHECK_NEAR(got[at(z, r, 3) - z->v], want, 1e-4);
        }
    free(got);
    free_problem(&q);
    ops_close(&m);
}

int main(void) {
    TEST(shapes_that_hurt);
    TEST(stored_in_16_bits);
    TEST(a_split_sum_has_the_same_bits);
    TEST(strides_do_not_change_bits);
    TEST(rows_do_not_know_each_other);
    TEST(seventy_thousand_rows);
    TEST(more_tiles_than_an_axis_holds);
    return end_with_device();
}
