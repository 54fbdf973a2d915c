/* What calls move and what they could take: bytes against counts by hand, ceilings, timed runs. */
#include "engine/ops/ceiling.h"
#include "engine/ops/internal.h"
#include "tests/ops/device.h"

static ops_machine *plan;

/* A tensor of n elements on the plan machine. */
static ops_view of(ops_dtype t, uint64_t n) {
    ops_buf b = 0;
    colm_err err = {0};
    CHECK_OK(ops_buffer(plan, "test", t, n, &b, &err), err);
    return (ops_view){b, 0, n};
}
/* The tensors of a call as its row names them, 16-bit where the row allows it and `half` says so. */
static ops_call call_of(ops_id op, bool half) {
    ops_call c = {.op = op};
    const char *dtypes = ops_get(op)->dtypes;
    for (size_t k = 0; dtypes[k]; k++)
        c.t[k] = of(dtypes[k] == 'u' ? OPS_U32 : half && dtypes[k] == 'h' ? OPS_BF16 : OPS_F32, 64);
    return c;
}
static void moves(const ops_call *c, uint64_t bytes, int line) {
    const uint64_t got = ops_call_bytes(plan, c);
    if (!CHECK(got == bytes))
        printf("#   line %d: %s: %llu bytes, by hand %llu\n", line, ops_get(c->op)->name,
               (unsigned long long)got, (unsigned long long)bytes);
}
#define MOVES(call, bytes) moves(&(call), (bytes), __LINE__)

static void bytes_agree_with_counts_by_hand(void) {
    /* 10 rows, 24 in, 16 out. X 240, W 384, Y 160 numbers; R only where the sum goes on from it. */
    ops_call c = call_of(OP_LINEAR, false);
    c.p.linear = (struct abi_linear){.M = 10, .N = 16, .K = 24};
    MOVES(c, 4 * (240 + 384 + 160));
    c.p.linear.init = 1;
    MOVES(c, 4 * (240 + 384 + 160 + 160));
    c.op = OP_LINEAR_DX;
    MOVES(c, 4 * (160 + 384 + 240 + 240));
    c.op = OP_LINEAR_DW;
    MOVES(c, 4 * (160 + 240 + 384 + 384));

    c = call_of(OP_NORM, false);
    c.p.norm = (struct abi_norm){.rows = 10, .width = 22, .cols = 24, .kind = ABI_NORM_RMS};
    MOVES(c, 4 * (240 + 24 + 240 + 10));
    c.p.norm.kind = ABI_NORM_LAYER;
    MOVES(c, 4 * (240 + 24 + 240 + 20));

    /* 6 sequences' rows of 4 heads of 8 that read 2 key-value heads. */
    c = call_of(OP_ATTN, false);
    c.p.attn = (struct abi_attn){.rows = 6, .T = 3, .heads = 4, .kv_heads = 2, .hd = 8};
    MOVES(c, 4 * (6 * 32 + 2 * 6 * 16 + 6 * 32 + 6 * 4));
    c.p.attn.masked = 1;
    MOVES(c, 4 * (6 * 32 + 2 * 6 * 16 + 6 + 6 * 32 + 6 * 4));
    c = call_of(OP_ATTN_DKV, false);
    c.p.attn =
        (struct abi_attn){.rows = 6, .T = 3, .heads = 1, .kv_heads = 2, .hd = 8}; /* one head reads one */
    MOVES(c, 4 * (6 * 8 + 2 * 6 * 8 + 6 * 8 + 2 * 6 + 2 * 6 * 8));
    c.p.attn.acc = 1;
    MOVES(c, 4 * (6 * 8 + 2 * 6 * 8 + 6 * 8 + 2 * 6 + 4 * 6 * 8));

    c = call_of(OP_ADAMW, false);
    c.p.adamw = (struct abi_adamw){.n = 100};
    MOVES(c, 4 * (200 + 100 + 200 + 200 + 2));
    c = call_of(OP_XENT_GRAD, false);
    c.p.xent = (struct abi_xent){.rows = 5, .vocab = 30};
    MOVES(c, 4 * (300 + 5 + 5));
    c = call_of(OP_EMBED_GRAD, false); /* the order's view says how many rows there are */
    c.p.embed_grad = (struct abi_embed_grad){.unique = 7, .cols = 16};
    MOVES(c, 4 * (7 + 8 + 64 + 64 * 16 + 7 * 16));
    c = call_of(OP_SWIGLU, false);
    c.p.ew = (struct abi_ew){.rows = 3, .cols = 16, .plain = 1};
    MOVES(c, 4 * (48 + 48));
}

static void storage_decides_the_size_of_an_element(void) {
    ops_call c = call_of(OP_LINEAR, true);
    c.p.linear = (struct abi_linear){.M = 10, .N = 16, .K = 24};
    MOVES(c, 2 * (240 + 384 + 160));
    c.t[3] = of(OPS_F32, 64);
    MOVES(c, 2 * (240 + 384) + 4 * 160);
    c = call_of(OP_NORM, true); /* only what it makes */
    c.p.norm = (struct abi_norm){.rows = 10, .width = 24, .cols = 24};
    MOVES(c, 4 * (240 + 24 + 10) + 2 * 240);
}

/* Whatever the numbers: every operation counts bytes, and says its shape within the room there is. */
static void every_operation_has_bytes_and_a_shape(void) {
    for (ops_id op = 0; op < OP_COUNT; op++) {
        ops_call c = call_of(op, false);
        char shape[OPS_SHAPE];
        memset(&c.p, 1, sizeof c.p);
        CHECK(ops_call_bytes(plan, &c) > 0);
        memset(&c.p, 0xff, sizeof c.p);
        ops_get(op)->shape(&c.p, shape, sizeof shape);
        CHECK(strchr(shape, '=') && strlen(shape) + 1 < sizeof shape);
    }
}

static void the_slower_of_work_and_bytes_bounds(void) {
    const ops_ceiling c = {.flops = 100, .memory = 10, .cache = 20, .cache_bytes = 40}, none = {0};
    CHECK_NEAR(ops_ceiling_seconds(&c, 1000, 41), 10, 1e-12); /* work */
    CHECK_NEAR(ops_ceiling_seconds(&c, 1, 4000), 400, 1e-9);  /* bytes from memory */
    CHECK_NEAR(ops_ceiling_seconds(&c, 1, 40), 2, 1e-12);     /* bytes that stay in cache */
    CHECK_NEAR(ops_ceiling_seconds(&c, 1, 41), 4.1, 1e-12);
    CHECK(ops_ceiling_seconds(&none, 1000, 1000) == 0);
}

static void ceilings_are_measured(void) {
    ops_ceiling c = {.flops = 7};
    colm_err err = {0};
    CHECK_OK(ops_ceiling_measure(plan, &c, &err), err); /* no device: none */
    CHECK(c.flops == 0 && c.memory == 0 && c.cache == 0);
    if (!have_device()) return;
    ops_machine *m = machine_of(NULL);
    if (!CHECK(m != NULL)) return;
    ops_limit_window(m, (4u << 20) / 4); /* smaller buffers: quicker here */
    if (CHECK_OK(ops_ceiling_measure(m, &c, &err), err)) {
        CHECK(c.flops > 1e6 && c.memory > 1e6 && c.cache > 1e6 && c.flops < 1e18 && c.memory < 1e18);
        CHECK(isfinite(c.flops + c.memory + c.cache) && c.cache_bytes > 0);
    }
    ops_limit_window(m, 1024);
    CHECK(ops_ceiling_measure(m, &c, &err) == COLM_E_MEMORY);
    CHECK_HAS(err.text, "an eighth");
    ops_close(&m);
}

#define SIDE 128u
#define TIMES 12u

/* TIMES products, each of the one before, and a few empty calls between them. */
static bool products(ops_machine *m, float *ret, double *seconds, ops_timing *timing) {
    colm_err err = {0};
    ops_buf x = 0, w = 0;
    ops_list list = {0};
    const ops_list *run = &list;
    static float v[2 * SIDE * SIDE];
    for (uint32_t i = 0; i < 2 * SIDE * SIDE; i++) v[i] = (float)((i * 7919u) % 97u) / 970.0f - 0.05f;
    bool ok = CHECK_OK(ops_buffer(m, "test", OPS_F32, 2 * SIDE * SIDE, &x, &err), err) &&
              CHECK_OK(ops_buffer(m, "test", OPS_F32, SIDE * SIDE, &w, &err), err) &&
              CHECK_OK(ops_write(m, x, 0, v, SIDE * SIDE, &err), err) &&
              CHECK_OK(ops_write(m, w, 0, v + SIDE * SIDE, SIDE * SIDE, &err), err);
    for (uint32_t i = 0; i < TIMES && ok; i++) {
        const ops_view a = {x, i % 2 * SIDE * SIDE, SIDE * SIDE},
                       b = {x, (i + 1) % 2 * SIDE * SIDE, SIDE * SIDE};
        ops_call c = {.op = OP_LINEAR, .t = {a, {w, 0, SIDE * SIDE}, b, b}};
        ops_call nothing = {.op = OP_ZERO, .t = {b}}; /* no elements, no workgroups */
        c.p.linear =
            (struct abi_linear){.M = SIDE, .N = SIDE, .K = SIDE, .ldx = SIDE, .ldw = SIDE, .ldy = SIDE};
        ok = CHECK_OK(ops_add(&list, &c, &err), err) && CHECK_OK(ops_add(&list, &nothing, &err), err);
    }
    ok = ok && CHECK_OK(ops_prepare(m, &list, &err), err);
    const double before = clock_seconds();
    ok = ok && (seconds ? CHECK_OK(ops_run_timed(m, &run, 1, seconds, timing, &err), err)
                        : CHECK_OK(ops_run(m, &run, 1, &err), err));
    const double wall = clock_seconds() - before;
    double sum = 0;
    for (uint32_t i = 0; i < 2 * TIMES && ok && seconds; i++) {
        CHECK(seconds[i] >= 0);
        sum += seconds[i];
    }
    /* Stamps add up to no more than the whole took by another clock. */
    if (ok && seconds) CHECK(sum > 0 && sum <= 1.05 * wall + 1e-3);
    ok = ok && CHECK_OK(ops_read(m, x, 0, ret, 2 * SIDE * SIDE, &err), err);
    ops_unprepare(m, &list);
    ops_list_done(&list);
    ops_buffer_free(m, &x);
    ops_buffer_free(m, &w);
    return ok;
}

static void timing_changes_no_result(void) {
    if (!have_device()) return;
    static float plain[2 * SIDE * SIDE], timed[2 * SIDE * SIDE];
    double seconds[2 * TIMES];
    ops_timing how = OPS_TIMED_BY_WAITING;
    ops_machine *m = machine_of(NULL);
    if (!CHECK(m != NULL)) return;
    for (int again = 0; again < 2; again++) {
        if (!products(m, plain, NULL, NULL) || !products(m, timed, seconds, &how)) break;
        CHECK(memcmp(plain, timed, sizeof plain) == 0);
        CHECK(how == OPS_TIMED_BY_WAITING || gpu_has_clock(test_gpu));
        printf("# %s\n", ops_timing_text(how));
    }
    ops_close(&m);
}

static void without_timestamps_each_call_waits(void) {
    if (!have_device()) return;
    static float out[2 * SIDE * SIDE];
    double seconds[2 * TIMES];
    const gpu_switches masked = {.no_timestamps = true};
    const ops_open_params p = {.switches = &masked, .log = &test_sink};
    ops_machine *m = NULL;
    ops_timing how = OPS_TIMED_BY_STAMPS;
    colm_err err = {0};
    if (!CHECK_OK(ops_open(&p, &m, &err), err)) return;
    if (products(m, out, seconds, &how)) CHECK(how == OPS_TIMED_BY_WAITING);
    CHECK_HAS(ops_timing_text(how), "no timestamps");
    ops_close(&m);
}

static void the_reference_is_timed_by_waiting(void) {
    static float out[2 * SIDE * SIDE];
    double seconds[2 * TIMES];
    ops_machine *m = NULL;
    ops_timing how = OPS_TIMED_BY_STAMPS;
    colm_err err = {0};
    if (!CHECK_OK(ops_open_ref(&m, &err), err)) return;
    if (products(m, out, seconds, &how)) CHECK(how == OPS_TIMED_BY_WAITING);
    ops_close(&m);
}

int main(void) {
    colm_err err = {0};
    if (ops_open_plan(&plan, &err)) return puts("Bail out! no plan machine"), 1;
    TEST(bytes_agree_with_counts_by_hand);
    TEST(storage_decides_the_size_of_an_element);
    TEST(every_operation_has_bytes_and_a_shape);
    TEST(the_slower_of_work_and_bytes_bounds);
    TEST(ceilings_are_measured);
    TEST(timing_changes_no_result);
    TEST(without_timestamps_each_call_waits);
    TEST(the_reference_is_timed_by_waiting);
    ops_close(&plan);
    return end_with_device();
}
