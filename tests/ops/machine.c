/* Machines on a device: what must wait for what, kernel classes, buffers, and failures that leave them usable.
 */
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/ops/hazard.h"
#include "tests/ops/device.h"

static ops_view view(ops_buf buf, uint64_t off, uint64_t len) {
    return (ops_view){buf, off, len};
}

static void waits_only_where_it_must(void) {
    ops_view a = view(1, 0, 64), b = view(2, 0, 64), c = view(3, 0, 64), a_next = view(1, 64, 64);
    hazard_list l = {0};
    CHECK(!hazard_note(&l, (ops_view[]){a, b}, "rw"));
    CHECK(!hazard_note(&l, (ops_view[]){a, c}, "rw"));     /* read after read */
    CHECK(hazard_note(&l, (ops_view[]){b, a_next}, "rw")); /* read after write */
    CHECK(!hazard_note(&l, (ops_view[]){a, c}, "rw"));     /* the barrier served the earlier writes as well */
    CHECK(hazard_note(&l, (ops_view[]){b}, "w"));          /* write after read */
    CHECK(hazard_note(&l, (ops_view[]){b}, "w"));          /* write after write */
    CHECK(hazard_note(&l, (ops_view[]){b}, "m"));
    CHECK(!hazard_note(&l, (ops_view[]){a, a, a}, "rrw")); /* one call's own views */
    CHECK(!hazard_note(&l, (ops_view[]){view(1, 128, 64)}, "w"));
    CHECK(hazard_note(&l, (ops_view[]){view(1, 191, 1)}, "r")); /* the last element of it */
    CHECK(!hazard_note(&l, (ops_view[]){view(1, 192, 64)}, "w"));
}

static void a_full_table_waits(void) {
    hazard_list l = {0};
    unsigned waits = 0;
    for (uint32_t i = 0; i < 3 * HAZARD_MAX; i++) {
        waits += hazard_note(&l, (ops_view[]){view(i + 1, 0, 64), view(i + 1, 64, 64)}, "rw");
        if (!l.n || l.n > HAZARD_MAX) break;
    }
    CHECK(waits == 5);
    unsigned again = 0;
    l.n = 0;
    for (uint32_t i = 0; i < 3 * HAZARD_MAX; i++) again += hazard_note(&l, (ops_view[]){view(1, 0, 64)}, "r");
    CHECK(again == 0 && l.n == 1);
}

static void classes_are_chosen_by_name(void) {
    if (!have_device()) return;
    colm_err err;
    ops_machine *m = NULL;
    CHECK(ops_open_gpu(test_gpu, &(ops_machine_params){.kernels = "tpu"}, &m, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "tpu");
    CHECK_HAS(err.text, "\"portable\"");
    CHECK_HAS(err.text, "\"cpu\"");
    CHECK(m == NULL);
    if (CHECK_OK(ops_open_gpu(test_gpu, NULL, &m, &err), err)) {
        const gpu_info *g = gpu_get_info(test_gpu);
        bool cpu = g->kind == GPU_CPU && g->subgroup == 8 && g->subgroup_shuffle;
        CHECK(strncmp(ops_machine_name(m), cpu ? "cpu " : "portable ", cpu ? 4 : 9) == 0);
        CHECK_HAS(ops_machine_name(m), g->name);
    }
    ops_close(&m);
    m = machine_of("portable");
    if (CHECK(m != NULL)) {
        char text[700];
        ops_identity(m, text, sizeof text);
        CHECK_HAS(text, ops_machine_name(m));
        CHECK(strncmp(text, "portable ", 9) == 0);
    }
    ops_close(&m);
}

static void buffers_hold_what_is_written(void) {
    if (!have_device()) return;
    colm_err err = {0};
    ops_machine *m = machine_of(NULL);
    if (!CHECK(m != NULL)) return;
    float in[100], out[200];
    uint32_t ids[5] = {1, 0xFFFFFFFFu, 3, 4, 5}, back[5] = {0};
    for (int i = 0; i < 100; i++) in[i] = (float)i - 0.5f;
    ops_buf f = 0, u = 0;
    CHECK_OK(ops_buffer(m, "activations", OPS_F32, 200, &f, &err), err);
    CHECK_OK(ops_buffer(m, "data", OPS_U32, 5, &u, &err), err);
    CHECK_OK(ops_write(m, f, 100, in, 100, &err), err);
    CHECK_OK(ops_write(m, u, 0, ids, 5, &err), err);
    CHECK_OK(ops_read(m, f, 0, out, 200, &err), err);
    CHECK_OK(ops_read(m, u, 0, back, 5, &err), err);
    bool zero = true;
    for (int i = 0; i < 100; i++) zero = zero && out[i] == 0;
    CHECK(zero && memcmp(out + 100, in, sizeof in) == 0);
    CHECK(memcmp(ids, back, sizeof ids) == 0);
    CHECK(ops_bytes(m, "activations") == 800 && ops_bytes(m, NULL) == 820);
    CHECK(ops_write(m, f, 150, in, 51, &err) == COLM_E_BUG);
    CHECK(ops_read(m, u, 5, back, 1, &err) == COLM_E_BUG);
    CHECK(ops_doubles(m, f) == NULL);
    ops_buffer_free(m, &f);
    CHECK(f == 0 && ops_bytes(m, "activations") == 0);
    ops_close(&m);
}

#define SIDE 32
#define CELLS (SIDE * SIDE)

/* n products that each need the one before: between two halves of one buffer, so that every kind of hazard is
 * there. */
static bool ping_pong(bool sync, size_t n, float *ret) {
    colm_err err = {0};
    ops_machine *m = NULL;
    ops_buf x = 0, w = 0;
    ops_list list = {0};
    float v[2 * CELLS];
    rng_stream s = rng_open(1, "ping pong");
    ops_machine_params mp = {.sync = sync, .log = &test_sink};
    bool ok = CHECK_OK(ops_open_gpu(test_gpu, &mp, &m, &err), err) &&
              CHECK_OK(ops_buffer(m, "test", OPS_F32, 2 * CELLS, &x, &err), err) &&
              CHECK_OK(ops_buffer(m, "test", OPS_F32, CELLS, &w, &err), err);
    for (size_t i = 0; i < 2 * CELLS; i++) v[i] = (float)rng_normal(&s, i);
    ok = ok && CHECK_OK(ops_write(m, x, 0, v, 2 * CELLS, &err), err);
    for (size_t i = 0; i < CELLS; i++) v[i] /= 6; /* keeps the products in bounds */
    ok = ok && CHECK_OK(ops_write(m, w, 0, v, CELLS, &err), err);
    for (size_t i = 0; i < n && ok; i++) {
        ops_view from = view(x, i % 2 * CELLS, CELLS), to = view(x, (i + 1) % 2 * CELLS, CELLS);
        ops_call c = {.op = OP_LINEAR, .t = {from, view(w, 0, CELLS), to, to}};
        c.p.linear = (struct abi_linear){
            .M = SIDE, .N = SIDE, .K = SIDE, .ldx = SIDE, .ldw = SIDE, .ldy = SIDE, .init = i % 3 == 0};
        ok = CHECK_OK(ops_add(&list, &c, &err), err);
    }
    const ops_list *lists[] = {&list};
    ok = ok && CHECK_OK(ops_prepare(m, &list, &err), err) && CHECK_OK(ops_run(m, lists, 1, &err), err);
    unsigned long long before = mem_count();
    ok = ok && CHECK_OK(ops_run(m, lists, 1, &err), err) && CHECK(mem_count() == before);
    ok = ok && CHECK_OK(ops_read(m, x, 0, ret, 2 * CELLS, &err), err);
    ops_unprepare(m, &list);
    ops_list_done(&list);
    ops_close(&m);
    return ok;
}

static void waiting_after_every_call_changes_nothing(void) {
    if (!have_device()) return;
    float free_running[2 * CELLS], in_step[2 * CELLS];
    if (!ping_pong(false, 60, free_running) || !ping_pong(true, 60, in_step)) return;
    CHECK(memcmp(free_running, in_step, sizeof in_step) == 0);
    double sum = 0;
    for (size_t i = 0; i < 2 * CELLS; i++) sum += fabs((double)in_step[i]);
    CHECK(sum > 0 && sum < 1e30);
}

static void failures_name_the_call(void) {
    if (!have_device()) return;
    colm_err err = {0};
    ops_machine *m = machine_of(NULL);
    if (!CHECK(m != NULL)) return;
    ops_buf b = 0;
    ops_list list = {0};
    CHECK_OK(ops_buffer(m, "test", OPS_F32, 1024, &b, &err), err);
    ops_view all = view(b, 0, 256);
    ops_call c = {.op = OP_LINEAR, .t = {all, view(b, 256, 64), all, view(b, 512, 128)}};
    c.p.linear = (struct abi_linear){.M = 16, .N = 8, .K = 8, .ldx = 8, .ldw = 8, .ldy = 8};
    CHECK_OK(ops_add(&list, &c, &err), err);
    const ops_list *lists[] = {&list};
    CHECK(ops_run(m, lists, 1, &err) == COLM_E_BUG); /* before ops_prepare */
    CHECK_HAS(err.text, "linear");
    list.call[0].t[1].off = 32;
    CHECK(ops_prepare(m, &list, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "linear");
    list.call[0].t[1].off = 1024;
    CHECK(ops_prepare(m, &list, &err) == COLM_E_BUG);
    list.call[0].t[1].off = 256;
    CHECK_OK(ops_prepare(m, &list, &err), err);
    CHECK_OK(ops_run(m, lists, 1, &err), err); /* the device is none the worse */
    list.call[0].p.linear.M = 0;               /* nothing to do is no failure */
    CHECK_OK(ops_run(m, lists, 1, &err), err);
    ops_unprepare(m, &list);
    CHECK(list.call[0].bound == NULL);
    ops_list_done(&list);
    ops_close(&m);
}

static void views_over_the_binding_limit_are_refused(void) {
    if (!have_device()) return;
    uint64_t n = gpu_get_info(test_gpu)->max_range / 4 + 64;
    if (n > (uint64_t)80 << 20) {
        test_skip("the device binds more than this test allocates");
        return;
    }
    colm_err err = {0};
    ops_machine *m = machine_of(NULL);
    ops_buf b = 0, small = 0;
    ops_list list = {0};
    CHECK_OK(ops_buffer(m, "test", OPS_F32, n, &b, &err), err);
    CHECK_OK(ops_buffer(m, "test", OPS_F32, 256, &small, &err), err);
    ops_view v = view(small, 0, 128);
    ops_call c = {.op = OP_LINEAR, .t = {view(b, 0, n), v, v, v}};
    c.p.linear = (struct abi_linear){.M = 16, .N = 8, .K = 8, .ldx = 8, .ldw = 8, .ldy = 8};
    CHECK_OK(ops_add(&list, &c, &err), err);
    CHECK(ops_prepare(m, &list, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "linear");
    CHECK_HAS(err.text, "binds at most");
    ops_unprepare(m, &list);
    ops_list_done(&list);
    ops_close(&m);
}

/* The n-th allocation of a machine's life fails, for every n: a clean error, and nothing lost. */
static void lack_of_memory_is_an_error(void) {
    if (!have_device()) return;
    bool done = false;
    for (long n = 0; n < 200 && !done; n++) {
        colm_err err = {0};
        ops_machine *m = NULL;
        ops_buf b = 0;
        ops_list list = {0};
        mem_fail_after(n);
        colm_status st = ops_open_gpu(test_gpu, NULL, &m, &err);
        if (!st) st = ops_buffer(m, "test", OPS_F32, 1024, &b, &err);
        ops_view v = view(b, 0, 1024);
        ops_call c = {.op = OP_LINEAR_DX, .t = {v, v, v, v}};
        c.p.linear = (struct abi_linear){.M = 16, .N = 8, .K = 8, .ldx = 8, .ldw = 8, .ldy = 8};
        if (!st) st = ops_add(&list, &c, &err);
        if (!st) st = ops_prepare(m, &list, &err);
        mem_fail_after(-1);
        done = !st;
        /* inside the shader compiler it is a message among others */
        if (!CHECK(!st || st == COLM_E_MEMORY || strstr(err.text, "out of memory")))
            printf("#   allocation %ld: %s\n", n, err.text);
        ops_unprepare(m, &list);
        ops_list_done(&list);
        ops_close(&m);
    }
    CHECK(done);
}

int main(void) {
    TEST(waits_only_where_it_must);
    TEST(a_full_table_waits);
    TEST(classes_are_chosen_by_name);
    TEST(buffers_hold_what_is_written);
    TEST(waiting_after_every_call_changes_nothing);
    TEST(failures_name_the_call);
    TEST(views_over_the_binding_limit_are_refused);
    TEST(lack_of_memory_is_an_error);
    return end_with_device();
}
