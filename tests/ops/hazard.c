/* The look through recordings: it objects to every kind of hazard that no barrier parts, and to no other; and
 * on a device to every barrier that is left out. */
#include "engine/ops/hazard.h"

#include "tests/ops/device.h"

static ops_view view(ops_buf buf, uint64_t off, uint64_t len) {
    return (ops_view){buf, off, len};
}

/* zero writes; sumsq reads X and writes partial; rope reads and writes X and reads a table. */
static ops_call zero(ops_view x) {
    return (ops_call){.op = OP_ZERO, .t = {x}};
}
static ops_call sumsq(ops_view x, ops_view partial) {
    return (ops_call){.op = OP_SUMSQ, .t = {x, partial}};
}
static ops_call rope(ops_view x, ops_view table) {
    return (ops_call){.op = OP_ROPE, .t = {x, table}};
}

typedef struct {
    const char *what;
    ops_call first, second;
    bool hurts;
    hazard_kind kind;
} pair;

static void every_kind_is_seen(void) {
    const ops_view a = view(1, 0, 64), b = view(2, 0, 64), c = view(3, 0, 64), far = view(9, 0, 64);
    const pair pairs[] = {
        {"read after write", zero(a), sumsq(a, b), true, HAZARD_READ_AFTER_WRITE},
        {"write after read", sumsq(a, b), zero(a), true, HAZARD_WRITE_AFTER_READ},
        {"write after write", zero(a), zero(a), true, HAZARD_WRITE_AFTER_WRITE},
        {"both after write", zero(a), rope(a, b), true, HAZARD_READ_AFTER_WRITE},
        {"write after both", rope(a, b), zero(a), true, HAZARD_WRITE_AFTER_WRITE},
        {"read after both", rope(a, b), sumsq(a, c), true, HAZARD_READ_AFTER_WRITE},
        {"one element", zero(view(1, 0, 65)), zero(view(1, 64, 64)), true, HAZARD_WRITE_AFTER_WRITE},
        {"inside", zero(view(1, 0, 640)), sumsq(view(1, 128, 64), b), true, HAZARD_READ_AFTER_WRITE},
        {"around", sumsq(view(1, 128, 64), b), zero(view(1, 0, 640)), true, HAZARD_WRITE_AFTER_READ},
        {"side by side", zero(a), zero(view(1, 64, 64)), false, 0},
        {"other buffers", zero(a), zero(b), false, 0},
        {"read after read", sumsq(a, b), sumsq(a, c), false, 0},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        const pair *p = &pairs[i];
        const ops_call between = zero(far);
        hazard_fault f = {0};
        /* with another call between, and with a barrier at each place */
        for (int barrier = 0; barrier < 4; barrier++) {
            const hazard_entry e[] = {{&p->first, 0, 0, barrier == 3},
                                      {&between, 0, 1, barrier == 1},
                                      {&p->second, 1, 0, barrier == 2}};
            const bool parted = barrier == 1 || barrier == 2;
            bool ok = CHECK(hazard_find(e, 3, &f) == (p->hurts && !parted));
            if (p->hurts && !parted) ok = CHECK(f.kind == p->kind && f.first == 0 && f.second == 2) && ok;
            if (!ok) printf("#   %s, barrier %d\n", p->what, barrier);
        }
    }
}

static void a_barrier_parts_all_before_from_all_after(void) {
    const ops_view a = view(1, 0, 64), b = view(2, 0, 64), c = view(3, 0, 64);
    const ops_call calls[] = {zero(a), zero(b), sumsq(c, view(4, 0, 64)), sumsq(a, view(5, 0, 64)),
                              zero(b), zero(c)};
    hazard_entry e[COUNT_OF(calls)];
    hazard_fault f = {0};
    for (size_t i = 0; i < COUNT_OF(calls); i++) e[i] = (hazard_entry){&calls[i], 0, i, i == 3};
    CHECK(!hazard_find(e, COUNT_OF(e), &f));
    e[3].barrier = false, e[4].barrier = true;
    CHECK(hazard_find(e, COUNT_OF(e), &f) && f.second == 3 && f.kind == HAZARD_READ_AFTER_WRITE);
    CHECK(!hazard_find(e, 0, &f));
}

/* Lists on a device whose barriers are there for one kind alone. */
typedef struct {
    const char *kind;
    ops_id first, second;
    ops_view a[2], b[2];
} scene;

static ops_call call_of(ops_id op, const ops_view t[2]) {
    ops_call c = {.op = op, .t = {t[0], t[1]}};
    if (op == OP_ZERO) c.p.zero.n = 64;
    if (op == OP_SUMSQ) c.p.sumsq = (struct abi_sumsq){.n = 64};
    return c;
}

static void a_barrier_left_out_is_named(void) {
    gpu_switches s = {.hazards = true};
    gpu_params gp = {.switches = &s, .log = &test_sink};
    gpu_device *d = NULL;
    ops_machine *m = NULL;
    colm_err err = {0};
    if (gpu_open(&gp, &d, &err)) {
        test_skip("no Vulkan device");
        return;
    }
    ops_buf a = 0, b = 0;
    CHECK_OK(ops_open_gpu(d, NULL, &m, &err), err);
    hazard_watch *w = m ? hazard_watch_of(m) : NULL;
    if (!CHECK(w != NULL) || !CHECK_OK(ops_buffer(m, "gradients", OPS_F32, 4096, &a, &err), err) ||
        !CHECK_OK(ops_buffer(m, "scratch", OPS_F32, 4096, &b, &err), err))
        return;
    const ops_view x = view(a, 64, 64), y = view(b, 0, 64), z = view(b, 64, 64);
    const scene scenes[] = {{"read after write", OP_ZERO, OP_SUMSQ, {x}, {x, y}},
                            {"write after read", OP_SUMSQ, OP_ZERO, {x, z}, {x}},
                            {"write after write", OP_ZERO, OP_ZERO, {x}, {x}}};
    for (size_t i = 0; i < COUNT_OF(scenes); i++) {
        ops_list first = {0}, second = {0};
        const ops_call c = call_of(scenes[i].first, scenes[i].a), e = call_of(scenes[i].second, scenes[i].b);
        CHECK_OK(ops_add(&first, &c, &err), err);
        CHECK_OK(ops_add(&second, &e, &err), err);
        CHECK_OK(ops_prepare(m, &first, &err), err);
        CHECK_OK(ops_prepare(m, &second, &err), err);
        const ops_list *lists[] = {&first, &second};
        w->drop = 0;
        CHECK_OK(ops_run(m, lists, 2, &err), err);
        CHECK(w->n == 2 && w->barriers == 1 && w->entry[1].barrier);
        w->drop = 1;
        CHECK(ops_run(m, lists, 2, &err) == COLM_E_BUG);
        CHECK_HAS(err.text, scenes[i].kind);
        CHECK_HAS(err.text, "gradients, elements 64..128");
        CHECK_HAS(err.text, ops_get(scenes[i].first)->name);
        CHECK_HAS(err.text, ops_get(scenes[i].second)->name);
        CHECK_HAS(err.text, "list 1, call 0");
        CHECK(!strchr(err.text, '\n'));
        ops_unprepare(m, &first), ops_unprepare(m, &second);
        ops_list_done(&first), ops_list_done(&second);
    }
    ops_close(&m);
    gpu_close(&d);
}

static void nobody_watches_unasked(void) {
    if (!have_device()) return;
    ops_machine *m = machine_of(NULL), *ref = NULL;
    colm_err err = {0};
    CHECK_OK(ops_open_ref(&ref, &err), err);
    CHECK(m && ref && !hazard_watch_of(m) && !hazard_watch_of(ref));
    ops_close(&m), ops_close(&ref);
}

/* What stands in COLM_DEBUG for a machine by name; the reference takes what needs no device. */
static void a_machine_by_name_takes_switches(void) {
    const gpu_switches nan = {.nan_grad = 3}, cap = {.nan_grad = 3, .alloc_cap = 4};
    ops_machine *m = NULL;
    colm_err err = {0};
    CHECK_OK(ops_open(&(ops_open_params){.device = "reference", .switches = &nan}, &m, &err), err);
    CHECK(m && ops_switches(m)->nan_grad == 3);
    ops_close(&m);
    CHECK(ops_open(&(ops_open_params){.device = "reference", .switches = &cap}, &m, &err) == COLM_E_USAGE &&
          !m);
    CHECK_HAS(err.text, "alloc-cap acts on Vulkan devices");
}

/* Without what it was written for, the class "cpu" is not chosen. */
static void masks_choose_the_portable_kernels(void) {
    const gpu_switches masks[] = {{.no_texels = true}, {.no_subgroups = true}, {.subgroup = 64}};
    for (size_t i = 0; i < COUNT_OF(masks); i++) {
        ops_machine *m = NULL;
        colm_err err = {0};
        ops_open_params p = {.switches = &masks[i]};
        colm_status st = ops_open(&p, &m, &err);
        if (st == COLM_E_NO_DEVICE) {
            test_skip("no Vulkan device");
            return;
        }
        if (!CHECK_OK(st, err)) continue;
        CHECK(strncmp(ops_machine_name(m), "portable ", 9) == 0);
        CHECK(ops_window(m) > 0);
        ops_close(&m);
    }
}

int main(void) {
    unsetenv("COLM_DEBUG");
    TEST(every_kind_is_seen);
    TEST(a_barrier_parts_all_before_from_all_after);
    TEST(a_barrier_left_out_is_named);
    TEST(nobody_watches_unasked);
    TEST(a_machine_by_name_takes_switches);
    TEST(masks_choose_the_portable_kernels);
    return end_with_device();
}
