/* Joined linears: the same bits as call by call, and joined exactly where that is allowed. */
#include "tests/ops/fuse_scene.h"

/* Cases made by hand: how many calls are left. */

typedef struct {
    spec s;
    spoil *how;   /* NULL: nothing is spoiled */
    int old, at;  /* calls, negative from the end; what `old` and a copy of `at` give comes behind `at` */
    bool instead; /* or in its place */
    size_t calls; /* 0: as many as before */
} by_hand;

#define OF(m, ...) \
    { .mode = (m), .M = 40, .chains = 3, .products = 2, .seed = 6, __VA_ARGS__ }
#define ONE_BUFFER .one_buffer = true
static const by_hand cases[] = {
    {OF(FORWARD, ), NULL, 0, 0, false, 1},
    {OF(DX, ), NULL, 0, 0, false, 1},
    {OF(DW, ), NULL, 0, 0, false, 1},
    {OF(FORWARD, ONE_BUFFER), NULL, 0, 0, false, 1},
    {OF(DX, ONE_BUFFER), NULL, 0, 0, false, 1},
    {OF(DW, ONE_BUFFER), NULL, 0, 0, false, 1},
    {OF(DW, .from = SUM_FROM_RESULT), NULL, 0, 0, false, 1},
    {OF(FORWARD, .from = SUM_FROM_ELSEWHERE), NULL, 0, 0, false, 1},
    {OF(FORWARD, .from = SUM_FROM_ELSEWHERE, .r_inside = true), NULL, 0, 0, false, 1},
    {OF(DX, .from = SUM_FROM_ELSEWHERE), NULL, 0, 0, false, 1},
    {OF(DX, .from = SUM_FROM_ELSEWHERE, .r_inside = true), NULL, 0, 0, false, 1},
    /* Sums that go on in 16 bits are rounded in between: 9 of the 12 calls are such. */
    {OF(FORWARD, .as = {OPS_BF16, OPS_BF16, OPS_BF16, OPS_F32}), NULL, 0, 0, false, 1},
    {OF(DX, .as = {OPS_BF16, OPS_F32, OPS_F32, OPS_F32}), NULL, 0, 0, false, 10},
    {OF(DX, .as = {OPS_F16, OPS_F32, OPS_F32, OPS_F32}), NULL, 0, 0, false, 10},
    {OF(DX, .as = {OPS_F32, OPS_F16, OPS_F16, OPS_F16}), NULL, 0, 0, false, 1},
    {OF(FORWARD, ), other_rows, 2, 2, false, 3},
    {OF(DX, ), other_rows, 2, 2, false, 3},
    {OF(DW, ), other_rows, 2, 2, false, 3},
    {OF(FORWARD, ), other_buffer, 2, 2, false, 3},
    {OF(DX, ), other_buffer, 2, 2, false, 3},
    {OF(DW, ), other_buffer, 2, 2, false, 3},
    {OF(FORWARD, ), once_more_on_top, 2, 2, false, 1},
    {OF(DX, ), once_more_on_top, 2, 2, false, 1},
    {OF(DW, ), once_more_on_top, 2, 2, false, 1},
    {OF(FORWARD, ), once_more_on_top, 0, -1, false, 2}, /* not from its neighbour */
    {OF(DX, ), once_more_on_top, 0, -1, false, 2},
    {OF(DW, ), once_more_on_top, 0, -1, false, 2},
    {OF(FORWARD, ), once_more_anew, 2, 2, false, 2},
    {OF(DX, ), once_more_anew, 2, 2, false, 2},
    {OF(DW, ), once_more_anew, 2, 2, false, 2},
    {OF(FORWARD, ), overlapping, -1, -1, false, 2},
    {OF(DX, ), overlapping, -1, -1, false, 2},
    {OF(DW, ), overlapping, -1, -1, false, 2},
    {OF(FORWARD, ), other_stride, 0, -1, true, 2},
    {OF(FORWARD, ), a_row_down, -1, -1, false, 2},
    {OF(DX, ), a_row_down, -1, -1, false, 2},
    {OF(FORWARD, ONE_BUFFER), reads_result, 0, -1, true, 2},
    {OF(FORWARD, ONE_BUFFER), reads_weights, 0, -1, true, 2},
    {OF(DX, ONE_BUFFER), writes_input, 0, -1, true, 2},
    {OF(FORWARD, ONE_BUFFER), writes_weights, 0, -1, true, 2},
    {OF(DX, ONE_BUFFER), writes_weights, 0, -1, true, 2},
    {OF(FORWARD, ), starts_from_result, 0, -1, true, 2}, /* of which nothing behind is made */
    {OF(FORWARD, ), starts_from_result, 0, 1, true, 3},  /* of which more is made behind */
    {OF(FORWARD, .from = SUM_FROM_ELSEWHERE), starts_askew, 0, -1, true, 0},
    {OF(FORWARD, ), starts_too_early, 0, -1, true, 0},
    {OF(FORWARD, .as = {OPS_F32, OPS_F32, OPS_F32, OPS_BF16}), starts_between, 0, -1, true, 0},
};

static problem make_by_hand(const by_hand *h) {
    problem p = make(&h->s);
    if (!h->how) return p;
    const ops_list old = p.list;
    const size_t at = h->at < 0 ? old.n - 1 : (size_t)h->at;
    ops_call c = old.call[at];
    p.list = (ops_list){0};
    const bool can = CHECK(spoiled(&p, h->how, &old.call[h->old < 0 ? old.n - 1 : (size_t)h->old], &c));
    for (size_t i = 0; i < old.n; i++) {
        if (i != at || !h->instead) add(&p, old.call[i]);
        if (i == at && can) add(&p, c);
    }
    free(old.call);
    return p;
}

/* Once as it is and once fused; gives the calls that are left, or 0. */
static size_t same_when_fused(ops_machine *m, const problem *p, bool twice) {
    outcome one = {0}, joined = {0};
    size_t calls = 0;
    if (run(m, p, false, twice, &one) && run(m, p, true, twice, &joined) && CHECK(same(p, &one, &joined)))
        calls = joined.calls;
    forget(&one);
    forget(&joined);
    return calls;
}

static void joins_what_it_may(void) {
    colm_err err;
    ops_machine *m[2] = {NULL, have_device() ? machine_of("cpu") : NULL};
    if (!CHECK_OK(ops_open_ref(&m[0], &err), err)) return;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        problem p = make_by_hand(&cases[i]);
        for (int k = 0; k < 2 && m[k]; k++) {
            size_t calls = same_when_fused(m[k], &p, false), want = cases[i].calls ? cases[i].calls : p.list.n;
            if (!CHECK(calls == want)) printf("# case %zu: %zu calls, not %zu\n", i, calls, want);
        }
        done(&p);
    }
    if (!m[1]) test_skip("no device of class cpu; on the reference alone");
    for (int k = 0; k < 2; k++) ops_close(&m[k]);
}

/* A spec for every number. */
static spec random_spec(uint32_t i) {
    static const ops_dtype as[][ROLES] = {{OPS_F32, OPS_F32, OPS_F32, OPS_F32},
                                          {OPS_BF16, OPS_BF16, OPS_BF16, OPS_F32},
                                          {OPS_F32, OPS_F16, OPS_F16, OPS_F32}};
    problem p = {.s.seed = 1000 + i};
    spec s = {.mode = (int)(i % MODES), .M = 1 + draw(&p, 70), .chains = 1 + draw(&p, CHAINS), .seed = i};
    s.products = 1 + draw(&p, PRODUCTS);
    s.from = (int)draw(&p, s.mode == DW ? 2 : 3);
    if (s.from == SUM_FROM_RESULT && s.mode != DW) s.from = SUM_ANEW;
    s.r_inside = draw(&p, 2);
    s.one_buffer = draw(&p, 2);
    const ops_dtype *t = as[s.one_buffer ? 0 : draw(&p, COUNT_OF(as))];
    for (int k = 0; k < ROLES; k++) s.as[k] = t[k];
    if (s.mode == DW) s.as[W] = OPS_F32;
    return s;
}

static bool all_finite(const problem *p, const outcome *o) {
    bool ok = true;
    for (size_t i = 0; i < p->list.n; i++) {
        ops_call c = p->list.call[i];
        const shape z = shape_at(&c, 3);
        const double *d = (const double *)o->bytes[c.t[3].buf - 1] + c.t[3].off;
        for (uint64_t r = 0; r < *z.rows; r++)
            for (uint64_t k = 0; k < *z.cols; k++) ok = ok && isfinite(d[r * *z.ld + *z.first + k]);
    }
    return ok;
}

static void any_list_has_the_same_bits(void) {
    colm_err err;
    ops_machine *ref = NULL, *cpu = have_device() ? machine_of("cpu") : NULL;
    size_t before = 0, after = 0;
    if (!CHECK_OK(ops_open_ref(&ref, &err), err)) return;
    for (uint32_t i = 0; i < 42; i++) {
        const spec s = random_spec(i);
        problem p = make(&s);
        outcome o = {0};
        if (i % 4) spoil_some(&p);
        const bool twice = s.mode == DW;
        if (run(ref, &p, false, twice, &o)) CHECK(all_finite(&p, &o));
        const size_t calls = same_when_fused(ref, &p, twice);
        CHECK(calls > 0 && calls <= p.list.n);
        if (cpu) CHECK(same_when_fused(cpu, &p, twice) == calls);
        before += p.list.n, after += calls;
        forget(&o);
        done(&p);
    }
    CHECK(2 * after < before);
    if (!cpu) test_skip("no device of class cpu; on the reference alone");
    ops_close(&ref);
    ops_close(&cpu);
}

/* Weight gradients of several micro-batches: they start anew, then add to what is there. */
static void accumulates(void) {
    if (!have_device()) return;
    ops_machine *m = machine_of("cpu");
    if (!m) {
        test_skip("no device of class cpu");
        return;
    }
    const spec s = OF(DW, );
    problem p = make(&s);
    outcome once = {0}, twice = {0};
    if (run(m, &p, true, false, &once) && run(m, &p, true, true, &twice)) {
        const mat *w = &p.w[1][2];
        const float *a = once.bytes[W], *b = twice.bytes[W];
        CHECK(once.calls == 1 && twice.calls == 1);
        for (uint64_t r = 0; r < w->rows; r++)
            for (uint64_t c = 0; c < w->cols; c++) {
                const uint64_t at = w->off + r * w->ld + w->first + c;
                CHECK_NEAR(b[at], 2 * (double)a[at], 1e-4);
            }
    }
    CHECK(same_when_fused(m, &p, true) == 1);
    forget(&once);
    forget(&twice);
    done(&p);
    ops_close(&m);
}

static void views_that_are_too_long_stay_apart(void) {
    colm_err err;
    ops_machine *m[2] = {NULL, have_device() ? machine_of("cpu") : NULL};
    if (!CHECK_OK(ops_open_ref(&m[0], &err), err)) return;
    for (int k = 0; k < 2 && m[k]; k++)
        for (int mode = 0; mode < MODES; mode++) {
            const spec s = OF(mode, );
            problem p = make(&s);
            uint64_t longest = 0;
            CHECK(same_when_fused(m[k], &p, false) == 1);
            for (size_t i = 0; i < p.list.n; i++)
                for (int t = 0; t < 4; t++)
                    if (p.list.call[i].t[t].len > longest) longest = p.list.call[i].t[t].len;
            ops_limit_window(m[k], longest);
            CHECK(same_when_fused(m[k], &p, false) == p.list.n);
            done(&p);
            ops_close(&m[k]);
            if (k == 0 && !CHECK_OK(ops_open_ref(&m[0], &err), err)) return;
            if (k == 1) m[1] = machine_of("cpu");
        }
    if (!m[1]) test_skip("no device of class cpu; on the reference alone");
    for (int k = 0; k < 2; k++) ops_close(&m[k]);
}

static void a_table_that_is_too_long_is_not_used(void) {
    colm_err err;
    ops_machine *m = NULL;
    ops_buf buf = 0, joined = 0;
    ops_list l = {0};
    const uint32_t n = 100, table = 4 * (1 + 3 * n);
    for (uint32_t fits = 0; fits < 2; fits++) {
        if (!CHECK_OK(ops_open_ref(&m, &err), err) ||
            !CHECK_OK(ops_buffer(m, "test", OPS_F32, 384, &buf, &err), err))
            return;
        for (uint32_t i = 0; i < n; i++) {
            ops_call c = {.op = OP_LINEAR_DX,
                          .t = {{buf, 0, 128}, {buf, 128, 64}, {buf, 192, 128}, {buf, 192, 128}}};
            c.p.linear = (lin){.M = 1, .N = 8, .K = 8, .ldx = 8, .ldw = 8, .ldy = 8, .init = i > 0};
            CHECK_OK(ops_add(&l, &c, &err), err);
        }
        ops_limit_window(m, table - !fits);
        CHECK_OK(ops_fuse(m, (ops_list *[]){&l}, 1, &joined, &err), err);
        CHECK(l.n == (fits ? 1 : n) && ops_buffer_len(m, joined) == table);
        ops_list_done(&l);
        ops_close(&m);
    }
}

/* The class can be asked for where its kernels have no texels to read: all calls then fall back. */
static void a_device_without_texels_keeps_its_calls(void) {
    if (!have_device()) return;
    const gpu_switches s = {.no_texels = true};
    const gpu_params params = {.switches = &s, .log = &test_sink};
    const ops_machine_params kernels = {.kernels = "cpu", .log = &test_sink};
    const spec of = OF(FORWARD, );
    colm_err err;
    gpu_device *d = NULL;
    ops_machine *m = NULL;
    problem p = make(&of);
    if (!ops_class_runs(gpu_get_info(test_gpu), "cpu"))
        test_skip("no device of class cpu");
    else if (CHECK_OK(gpu_open(&params, &d, &err), err) && CHECK_OK(ops_open_gpu(d, &kernels, &m, &err), err))
        CHECK(same_when_fused(m, &p, false) == p.list.n);
    done(&p);
    ops_close(&m);
    gpu_close(&d);
}

/* A plan must tell the bytes that any class takes. */
static void the_table_has_one_size(void) {
    colm_err err;
    for (int mode = 0; mode < MODES; mode++) {
        ops_machine *plan = NULL, *ref = NULL;
        const spec s = OF(mode, );
        problem p = make(&s);
        outcome planned = {0}, o = {0};
        spoil_some(&p);
        if (CHECK_OK(ops_open_plan(&plan, &err), err) && run(plan, &p, true, false, &planned)) {
            CHECK(planned.calls == p.list.n && planned.table > 0);
            CHECK(ops_bytes(plan, "step data") == 0); /* freed again */
        }
        if (CHECK_OK(ops_open_ref(&ref, &err), err) && run(ref, &p, true, false, &o))
            CHECK(o.calls < p.list.n && o.table == planned.table);
        for (size_t k = 0; k < COUNT_OF(test_classes) && have_device(); k++) {
            ops_machine *m = machine_of(test_classes[k]);
            forget(&o);
            if (m && run(m, &p, true, false, &o)) {
                CHECK(o.table == planned.table);
                CHECK((o.calls < p.list.n) == (strcmp(test_classes[k], "cpu") == 0));
            }
            ops_close(&m);
        }
        forget(&o);
        forget(&planned);
        done(&p);
        ops_close(&plan);
        ops_close(&ref);
    }
}

/* Tiles are groups on one axis. The buffer is smaller than its views: nothing here is prepared. */
static void no_more_tiles_than_an_axis_holds(void) {
    colm_err err;
    for (uint32_t more = 0; more < 2; more++) {
        ops_machine *m = NULL;
        ops_buf buf = 0, joined = 0;
        ops_list l = {0};
        if (!CHECK_OK(ops_open_ref(&m, &err), err) ||
            !CHECK_OK(ops_buffer(m, "test", OPS_F32, 64, &buf, &err), err))
            return;
        for (uint64_t i = 0, off = 64; i < 2; i++) {
            const uint64_t rows = ABI_LINEARS_TILE * (uint64_t)(i ? 32767 + more : 32768);
            const ops_view z = {buf, off, 8 * rows}, in = {buf, 0, 64};
            ops_call c = {.op = OP_LINEAR_DW, .t = {in, in, z, z}};
            c.p.linear = (lin){.M = 1, .N = (uint32_t)rows, .K = 8, .ldx = 8, .ldw = 8, .ldy = 8};
            CHECK_OK(ops_add(&l, &c, &err), err);
            off += z.len;
        }
        CHECK_OK(ops_fuse(m, (ops_list *[]){&l}, 1, &joined, &err), err);
        CHECK(l.n == 1 + more);
        if (!more) CHECK(l.call[0].p.linears.tiles == 65535);
        ops_list_done(&l);
        ops_close(&m);
    }
}

static void nothing_to_join(void) {
    colm_err err;
    ops_machine *m = NULL;
    ops_buf joined = 7;
    const spec s = {.mode = FORWARD, .M = 3, .chains = 1, .products = 1};
    problem p = make(&s);
    if (CHECK_OK(ops_open_ref(&m, &err), err)) {
        CHECK_OK(ops_fuse(m, (ops_list *[]){&(ops_list){0}}, 1, &joined, &err), err);
        CHECK(joined == 0);
        CHECK(same_when_fused(m, &p, false) == 1);
    }
    done(&p);
    ops_close(&m);
}

int main(void) {
    TEST(joins_what_it_may);
    TEST(any_list_has_the_same_bits);
    TEST(accumulates);
    TEST(views_that_are_too_long_stay_apart);
    TEST(a_table_that_is_too_long_is_not_used);
    TEST(a_device_without_texels_keeps_its_calls);
    TEST(the_table_has_one_size);
    TEST(no_more_tiles_than_an_axis_holds);
    TEST(nothing_to_join);
    return end_with_device();
}
