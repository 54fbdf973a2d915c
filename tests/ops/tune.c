/* Tiles change no bit, so that what is tuned is speed alone; a tuning is kept, found again, and not heeded when
 * it is damaged; and products by cooperative matrices, where there are any, know no row but their own. */
#include "engine/ops/tune.h"

#include "engine/base/rng.h"
#include "engine/ops/internal.h"
#include "engine/tensor/half.h"
#include "tests/base/folder.h"
#include "tests/ops/device.h"

static const ops_id modes[] = {OP_LINEAR, OP_LINEAR_DX, OP_LINEAR_DW};
static const int order[][3] = {{0, 1, 2}, {2, 1, 0}, {2, 0, 1}}; /* of X, W, Y as tensors */

static unsigned warnings;
static void count(void *user, log_level level, const char *text) {
    (void)user, (void)text;
    warnings += level >= LOG_WARN;
}

static struct abi_linear shape(uint32_t M, uint32_t N, uint32_t K) {
    return (struct abi_linear){M, N, K, ops_stride(K), 0, K, 0, ops_stride(N), 0, 1};
}

/* Runs a product on numbers that depend on the shape alone, rows from `from` on where a mode has rows; *ret is
 * the whole result, to be freed, and *ret_v the kernel. */
static float *product(ops_machine *m, int mode, struct abi_linear p, ops_dtype t, uint32_t from, size_t *ret_n,
                      const ops_variant **ret_v) {
    colm_err err = {0};
    const size_t rows = ops_rows(p.M + from);
    const size_t len[] = {rows * p.ldx, (size_t)p.N * p.ldw, rows * p.ldy};
    const uint32_t used[] = {p.K, p.K, p.N}, ld[] = {p.ldx, p.ldw, p.ldy};
    const uint32_t rows_of[] = {p.M + from, p.N, p.M + from};
    const int *o = order[mode];
    ops_buf b[3] = {0};
    ops_list list = {0};
    const ops_list *lists[] = {&list};
    float *got = calloc(len[o[2]], sizeof *got);
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        rng_stream s = rng_open(3, "tune");
        float *v = calloc(len[i], sizeof *v);
        uint16_t *h = calloc(len[i], sizeof *h);
        const bool narrow = t != OPS_F32 && i != o[2];
        for (size_t e = 0; e < len[i]; e++)
            if (e % ld[i] < used[i] && e / ld[i] < rows_of[i]) v[e] = (float)rng_normal(&s, e);
        for (size_t e = 0; e < len[i]; e++) h[e] = t == OPS_BF16 ? tensor_to_bf16(v[e]) : tensor_to_f16(v[e]);
        ok = ok && CHECK_OK(ops_buffer(m, "test", narrow ? t : OPS_F32, len[i], &b[i], &err), err) &&
             CHECK_OK(ops_write(m, b[i], 0, narrow ? (void *)h : (void *)v, len[i], &err), err);
        free(v), free(h);
    }
    p.xo += from * p.ldx, p.yo += from * p.ldy;
    ops_call c = {.op = modes[mode]};
    for (int k = 0; k < 3; k++) c.t[k == 2 ? 3 : k] = (ops_view){b[o[k]], 0, len[o[k]]};
    c.t[2] = c.t[3];
    c.p.linear = p;
    ok = ok && CHECK_OK(ops_add(&list, &c, &err), err) && CHECK_OK(ops_prepare(m, &list, &err), err) &&
         CHECK_OK(ops_run(m, lists, 1, &err), err) &&
         CHECK_OK(ops_read(m, b[o[2]], 0, got, len[o[2]], &err), err);
    if (ok && ret_v) *ret_v = ops_call_variant(&list.call[0]);
    ops_unprepare(m, &list);
    ops_list_done(&list);
    for (int i = 0; i < 3; i++) ops_buffer_free(m, &b[i]);
    *ret_n = ok ? len[o[2]] : 0;
    return got;
}

static void every_tile_gives_the_same_bits(void) {
    static const struct { uint32_t M, N, K; } shapes[] = {{130, 72, 40}, {17, 8, 264}, {33, 136, 24}};
    if (!have_device()) return;
    ops_machine *plain = machine_of("portable"), *m = machine_of("gpu");
    colm_err err;
    for (int mode = 0; mode < 3; mode++)
        for (size_t i = 0; i < COUNT_OF(shapes); i++) {
            size_t n = 0, kinds = 0;
            const struct abi_linear p = shape(shapes[i].M, shapes[i].N, shapes[i].K);
            float *want = product(plain, mode, p, OPS_F32, 0, &n, NULL);
            for (size_t k = 0; k < *ops_get(modes[mode])->n_variants; k++) {
                const ops_variant *v = &ops_get(modes[mode])->variants[k], *ran = NULL;
                if (strcmp(v->name, "gpu") != 0 || v->matrices ||
                    v->shared > gpu_get_info(test_gpu)->shared_memory)
                    continue;
                tune_choice c = {.op = modes[mode], .a = OPS_F32, .b = OPS_F32, .N = p.N, .K = p.K};
                snprintf(c.kind, sizeof c.kind, "%s", v->kind);
                size_t got_n = 0;
                CHECK_OK(tune_set(ops_tuned(m), &c, &err), err);
                float *got = product(m, mode, p, OPS_F32, 0, &got_n, &ran);
                CHECK(ran == v);
                if (!CHECK(n && got_n == n && memcmp(got, want, n * sizeof *got) == 0))
                    printf("# %s, %u x %u x %u, tile %s\n", ops_get(modes[mode])->name, p.M, p.N, p.K, v->kind);
                kinds++;
                free(got);
            }
            CHECK(kinds >= 4);
            free(want);
        }
    ops_close(&m);
    ops_close(&plain);
}

/* A product on a device with a cache folder; whether it was tuned before, and is tuned now. */
static float *session(bool tune, size_t *ret_known, size_t *ret_n) {
    const log_sink sink = {count, NULL};
    gpu_params gp = {.cache_dir = folder_path, .log = &sink};
    ops_machine_params mp = {.kernels = "gpu", .tune = tune, .log = &sink};
    gpu_device *d = NULL;
    ops_machine *m = NULL;
    float *got = NULL;
    colm_err err;
    if (CHECK_OK(gpu_open(&gp, &d, &err), err) && CHECK_OK(ops_open_gpu(d, &mp, &m, &err), err)) {
        *ret_known = ops_tuned(m)->n;
        got = product(m, 0, shape(40, 72, 24), OPS_F32, 0, ret_n, NULL);
        CHECK(ops_tuned(m)->n == (tune ? 1 : *ret_known));
    }
    ops_close(&m);
    gpu_close(&d);
    return got;
}

/* Changes one letter of the tuning in the folder. */
static void damage(void) {
    DIR *dir = opendir(folder_path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, "tuning-", 7)) continue;
        FILE *f = fopen(folder_at(e->d_name), "r+b");
        if (!CHECK(f != NULL && !fseek(f, -2, SEEK_END) && fputc('7', f) != EOF)) printf("# %s\n", e->d_name);
        if (f) fclose(f);
    }
    if (dir) closedir(dir);
}

static void a_tuning_is_kept_and_changes_nothing(void) {
    size_t known[4] = {9, 9, 9, 9}, n[4] = {0};
    float *got[4];
    if (!have_device()) return;
    for (int i = 0; i < 3; i++) got[i] = session(i == 1, &known[i], &n[i]);
    CHECK(known[0] == 0 && known[1] == 0 && known[2] == 1 && warnings == 0);
    damage();
    got[3] = session(false, &known[3], &n[3]);
    CHECK(known[3] == 0 && warnings == 1);
    for (int i = 1; i < 4; i++) CHECK(n[i] && n[i] == n[0] && memcmp(got[i], got[0], n[0] * sizeof **got) == 0);
    for (int i = 0; i < 4; i++) free(got[i]);
}

static void what_cannot_be_read_is_refused(void) {
    static const char *const wrong[] = {"linear f32 f32 8 8\n", "linear f32 f64 8 8 64x64\n",
                                        "norm f32 f32 8 8 64x64\n", "linear f32 f32 8 8 64x64 more\n", "\n"};
    tune_table t;
    colm_err err = {0};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) CHECK(tune_parse(wrong[i], &t, &err) == COLM_E_INPUT && !t.n);
    str again = {0};
    static const char right[] = "linear f32 f32 256 688 64x64\nlinear_dw bf16 f16 8 8 32x32\n";
    if (CHECK_OK(tune_parse(right, &t, &err), err)) tune_format(&t, &again);
    CHECK(t.n == 2 && again.text && strcmp(again.text, right) == 0);
    str_done(&again);
    tune_done(&t);
}

static void matrices_know_no_other_row(void) {
    if (!have_device()) return;
    if (!gpu_get_info(test_gpu)->n_matrices) {
        test_skip("no cooperative matrices");
        return;
    }
    ops_machine *m = machine_of("gpu");
    for (int narrow = 0; narrow < 2; narrow++) {
        if (!gpu_matrix_of(test_gpu, narrow == 1)) continue;
        for (int mode = 0; mode < 2; mode++) {
            const ops_variant *v = NULL;
            const ops_dtype t = narrow ? OPS_BF16 : OPS_F16;
            struct abi_linear p = shape(129, 72, 104), one = p;
            const uint32_t row = 77, ld = mode ? p.ldx : p.ldy, cols = mode ? p.K : p.N;
            size_t n = 0, n_one = 0, n_again = 0;
            one.M = 1;
            float *all = product(m, mode, p, t, 0, &n, &v), *again = product(m, mode, p, t, 0, &n_again, NULL);
            float *alone = product(m, mode, one, t, row, &n_one, NULL);
            CHECK(v && v->matrices && n == n_again && memcmp(all, again, n * sizeof *all) == 0);
            CHECK(n_one > row * ld && memcmp(all + row * ld, alone + row * ld, cols * sizeof *all) == 0);
            free(all), free(again), free(alone);
        }
    }
    ops_close(&m);
}

int main(void) {
    folder_make();
    TEST(every_tile_gives_the_same_bits);
    TEST(a_tuning_is_kept_and_changes_nothing);
    TEST(what_cannot_be_read_is_refused);
    TEST(matrices_know_no_other_row);
    folder_remove();
    return end_with_device();
}
