/* The switches: how they are read, what a masked device says, and what watched memory notices. */
#include "engine/base/mem.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/kernels.h"

static void words_are_understood(void) {
    colm_err err = {0};
    gpu_switches s = {.guard = true};
    CHECK_OK(gpu_switches_parse(NULL, &s, &err), err);
    CHECK(!s.guard && !gpu_switches_of_devices(&s));
    CHECK_OK(gpu_switches_parse("guard,alloc-cap=4096,,no-texels,subgroup=4,", &s, &err), err);
    CHECK(s.guard && s.alloc_cap == 4096 && s.no_texels && s.subgroup == 4 && !s.poison && !s.no_subgroups);
    CHECK_STR(gpu_switches_of_devices(&s), "no-texels");
    CHECK_OK(gpu_switches_parse("nan-grad=18446744073709551", &s, &err), err);
    CHECK(s.nan_grad == 18446744073709551u && !gpu_switches_of_devices(&s));
}

static void others_are_refused(void) {
    static const char *const bad[][2] = {{"gard", "no switch \"gard\"; there are no-texels, "},
                                         {"guard,=1", "no switch \"=1\""},
                                         {" guard", "no switch \" guard\""},
                                         {"guard=1", "no value belongs to guard"},
                                         {"guard,guard", "guard is given twice"},
                                         {"alloc-cap=1,alloc-cap=1", "alloc-cap is given twice"},
                                         {"alloc-cap", "alloc-cap takes a whole number above 0"},
                                         {"alloc-cap=", "alloc-cap takes"},
                                         {"alloc-cap=0", "alloc-cap takes"},
                                         {"alloc-cap=-1", "alloc-cap=-1: "},
                                         {"alloc-cap=1k", "alloc-cap takes"},
                                         {"alloc-cap=99999999999999999999999", "alloc-cap takes"},
                                         {"subgroup=12", "subgroup=12: a subgroup has 1, 2, 4, "},
                                         {"subgroup=256", "128 lanes"},
                                         {"drop-barrier=1", "give both"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        colm_err err = {0};
        gpu_switches s = {.alloc_cap = 7};
        if (!CHECK(gpu_switches_parse(bad[i][0], &s, &err) == COLM_E_USAGE)) printf("#   %s\n", bad[i][0]);
        CHECK_HAS(err.text, "COLM_DEBUG: ");
        CHECK_HAS(err.text, bad[i][1]);
        CHECK(s.alloc_cap == 7 && !strchr(err.text, '\n'));
    }
}

static gpu_device *open_with(gpu_switches s) {
    gpu_params p = bench_params();
    p.switches = &s;
    return bench_open(&p);
}

static void the_variable_is_read_at_opening(void) {
    gpu_params p = bench_params();
    gpu_device *d = NULL;
    colm_err err = {0};
    setenv("COLM_DEBUG", "tpyo", 1);
    CHECK(gpu_open(&p, &d, &err) == COLM_E_USAGE && !d);
    setenv("COLM_DEBUG", "alloc-cap=12345678", 1);
    d = bench_open(&p);
    unsetenv("COLM_DEBUG");
    if (!d) return;
    CHECK(gpu_get_switches(d)->alloc_cap == 12345678 && gpu_get_info(d)->memory == 12345678);
    gpu_close(&d);
}

static void what_is_masked_is_not_there(void) {
    gpu_device *d = open_with((gpu_switches){.no_texels = true, .no_subgroups = true});
    if (!d) return;
    CHECK(gpu_get_info(d)->max_texels == 0 && !gpu_get_info(d)->subgroup_shuffle);
    CHECK(!gpu_get_info(d)->subgroup_fixed && d->found.subgroup_ops == 0);
    gpu_kernel *k = NULL;
    gpu_buffer *b = NULL;
    gpu_set *s = NULL;
    colm_err err = {0};
    CHECK_OK(gpu_kernel_get(d, &(gpu_kernel_params){.file = "flip.comp"}, &k, &err), err);
    CHECK_OK(gpu_buffer_create(d, 512, "b", &b, &err), err);
    if (k && b) {
        CHECK(gpu_bind(d, k, (gpu_range[]){{b, 0, 64}, {b, 256, 64}}, 2, &s, &err) == COLM_E_BUG && !s);
        CHECK_HAS(err.text, "texels");
    }
    gpu_buffer_free(&b);
    gpu_close(&d);
    if (!(d = open_with((gpu_switches){.subgroup = 128}))) return;
    CHECK(gpu_get_info(d)->subgroup == 128);
    const bool shuffles = gpu_get_info(d)->subgroup_shuffle;
    gpu_close(&d);
    if (!(d = open_with((gpu_switches){0}))) return;
    CHECK(shuffles == (gpu_get_info(d)->subgroup == 128 && gpu_get_info(d)->subgroup_shuffle));
    gpu_close(&d);
}

static void memory_is_capped(void) {
    gpu_device *d = open_with((gpu_switches){.alloc_cap = 4096});
    if (!d) return;
    gpu_buffer *a = NULL, *b = NULL;
    colm_err err = {0};
    CHECK(gpu_buffer_create(d, 4097, "weights", &a, &err) == COLM_E_MEMORY && !a);
    CHECK_HAS(err.text, "4352 bytes for weights are over the cap of 4096 bytes");
    CHECK_OK(gpu_buffer_create(d, 4096 - 256, "weights", &a, &err), err);
    CHECK(gpu_buffer_create(d, 257, "gradients", &b, &err) == COLM_E_MEMORY && !b);
    CHECK_HAS(err.text, "512 bytes for gradients");
    CHECK_HAS(err.text, "colm holds 3840");
    CHECK_OK(gpu_buffer_create(d, 256, "gradients", &b, &err), err);
    gpu_buffer_free(&a), gpu_buffer_free(&b);
    CHECK(gpu_bytes_allocated(d) == 0);
    gpu_close(&d);
}

/* b = step of a, n elements, on one buffer: a at 0, b at 256. */
static colm_status step(gpu_device *d, gpu_buffer *buffer, uint32_t n, colm_err *err) {
    gpu_kernel *k = NULL;
    gpu_set *s = NULL;
    const gpu_range r[] = {{buffer, 0, 256}, {buffer, 256, 256}};
    colm_status e = gpu_kernel_get(d, &(gpu_kernel_params){.file = "step.comp"}, &k, err);
    if (!e) e = gpu_bind(d, k, r, 2, &s, err);
    if (!e) e = gpu_begin(d, err);
    if (e) return e;
    e = gpu_dispatch(d, k, s, &n, 4, (uint32_t[]){1, 1, 1}, 10, err);
    colm_status ended = gpu_end(d, e ? NULL : err);
    gpu_unbind(d, &s);
    return e ? e : ended;
}

/* With and without a mapping. The buffer's last 33 words are rounding. */
static void writing_too_far_is_noticed(void) {
    for (int mapped = 0; mapped < 2; mapped++) {
        gpu_device *d = open_with((gpu_switches){.guard = true});
        if (!d) return;
        if (!mapped) d->found.info.host_visible = false;
        gpu_buffer *b = NULL, *next = NULL;
        colm_err err = {0};
        float back[128];
        CHECK_OK(gpu_buffer_create(d, 256 + 4 * 31, "activations", &b, &err), err);
        CHECK_OK(gpu_buffer_create(d, 100, "others", &next, &err), err);
        CHECK(gpu_buffer_bytes(b) == 512 && gpu_bytes_allocated(d) == 768);
        CHECK_OK(gpu_read(b, 0, back, 256 + 4 * 31, &err), err);
        for (int i = 0; i < 64 + 31; i++) CHECK(back[i] == 0);
        CHECK_OK(step(d, b, 31, &err), err);
        CHECK_OK(gpu_read(b, 256, back, 4 * 31, &err), err);
        for (int i = 0; i < 31; i++) CHECK(back[i] == (float)i);
        CHECK(step(d, b, 32, &err) == COLM_E_DEVICE);
        CHECK_HAS(err.text,
                  "something wrote outside the buffer of 380 bytes for activations, 0 bytes behind its end");
        gpu_buffer_free(&next);
        CHECK(gpu_buffer_create(d, 100, "others", &next, &err) == COLM_OK);
        bench_quiet = true;
        gpu_buffer_free(&b); /* nobody is told but by the next call */
        bench_quiet = false;
        CHECK(gpu_buffer_create(d, 100, "more", &b, &err) == COLM_E_DEVICE && !b);
        CHECK_HAS(err.text, "beyond a buffer for activations");
        gpu_buffer_free(&next);
        gpu_close(&d);
    }
}

static void both_guards_are_looked_at(void) {
    for (int behind = 0; behind < 2; behind++) {
        gpu_device *d = open_with((gpu_switches){.guard = true});
        if (!d) return;
        gpu_buffer *b = NULL;
        colm_err err = {0};
        CHECK_OK(gpu_buffer_create(d, 512, "gradients", &b, &err), err);
        CHECK_OK(step(d, b, 64, &err), err);
        CHECK_OK(gpu_move(b, behind ? 256 + 512 + 252 : 252, NULL, (const unsigned char *)"oops", 4, &err),
                 err);
        CHECK(step(d, b, 64, &err) == COLM_E_DEVICE);
        CHECK_HAS(err.text, behind ? "252 bytes behind its end" : "4 bytes before its start");
        CHECK_HAS(err.text, "for gradients");
        bench_quiet = true;
        gpu_buffer_free(&b);
        bench_quiet = false;
        gpu_close(&d);
    }
}

static void poison_lies_behind_the_bytes(void) {
    for (int mapped = 0; mapped < 2; mapped++) {
        gpu_device *d = open_with((gpu_switches){.poison = true});
        if (!d) return;
        if (!mapped) d->found.info.host_visible = false;
        gpu_buffer *b = NULL;
        colm_err err = {0};
        float back[64];
        CHECK_OK(gpu_buffer_create(d, 4 * 61, "b", &b, &err), err);
        CHECK_OK(gpu_read(b, 0, back, sizeof back, &err), err);
        for (int i = 0; i < 64; i++) CHECK(i < 61 ? back[i] == 0 : isnan(back[i]));
        gpu_buffer_free(&b);
        gpu_close(&d);
    }
}

static void memory_without_flush_is_another(void) {
    gpu_device *d = open_with((gpu_switches){.non_coherent = true});
    if (!d) return;
    gpu_buffer *b = NULL;
    colm_err err = {0};
    float back[64], one = 1;
    CHECK_OK(gpu_buffer_create(d, 512, "b", &b, &err), err);
    if (b && b->map) {
        CHECK(!b->coherent && b->real);
        memcpy(b->map, &one, sizeof one); /* not flushed: the device has 0 */
        CHECK_OK(step(d, b, 64, &err), err);
        CHECK_OK(gpu_read(b, 256, back, sizeof back, &err), err);
        CHECK(back[63] == 63);
        CHECK_OK(gpu_write(b, 0, &one, sizeof one, &err), err);
        CHECK_OK(step(d, b, 64, &err), err);
        CHECK_OK(gpu_read(b, 256, back, sizeof back, &err), err);
        CHECK(back[63] == 63.5f);
    }
    gpu_buffer_free(&b);
    gpu_close(&d);
}

static void faults_come_when_asked_for(void) {
    gpu_device *d = open_with((gpu_switches){.alloc_fail = 2, .device_lost = 2});
    if (!d) return;
    gpu_buffer *b = NULL, *c = NULL;
    colm_err err = {0};
    CHECK_OK(gpu_buffer_create(d, 512, "first", &b, &err), err);
    CHECK(gpu_buffer_create(d, 512, "second", &c, &err) == COLM_E_MEMORY && !c);
    CHECK_HAS(err.text, "512 bytes for second could not be had");
    CHECK_OK(gpu_buffer_create(d, 512, "third", &c, &err), err);
    const uint64_t before = d->tries; /* buffers that cannot be mapped are filled by submissions */
    d->switches.device_lost = before + 2;
    CHECK_OK(step(d, b, 64, &err), err);
    CHECK(step(d, b, 64, &err) == COLM_E_DEVICE);
    CHECK_HAS(err.text, "was lost in vkQueueSubmit");
    CHECK(step(d, b, 64, &err) == COLM_E_DEVICE);
    CHECK_HAS(err.text, "lost earlier");
    gpu_buffer_free(&b), gpu_buffer_free(&c);
    gpu_close(&d);
}

static void the_layer_stayed_silent(void) {
    CHECK(bench_count("validation: ") == 0 && bench_count("outlive") == 0);
}

int main(void) {
    unsetenv("COLM_DEBUG");
    bench_folders();
    bench_put("flip.comp", FLIP);
    bench_put("step.comp", STEP);
    TEST(words_are_understood);
    TEST(others_are_refused);
    TEST(the_variable_is_read_at_opening);
    TEST(what_is_masked_is_not_there);
    TEST(memory_is_capped);
    TEST(writing_too_far_is_noticed);
    TEST(both_guards_are_looked_at);
    TEST(poison_lies_behind_the_bytes);
    TEST(memory_without_flush_is_another);
    TEST(faults_come_when_asked_for);
    TEST(the_layer_stayed_silent);
    bench_done();
    return test_end();
}
