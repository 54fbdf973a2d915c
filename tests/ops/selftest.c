/* The selftest passes where the engine is right, fails where a result is wrong, and its verdict is kept: a
 * device that failed is refused. */
#include "engine/ops/selftest.h"

#include <unistd.h>

#include "tests/ops/device.h"

typedef struct {
    size_t rows[OP_COUNT][COUNT_OF(test_classes)], narrow[2][OP_COUNT][COUNT_OF(test_classes)];
    size_t bad, beyond;
    bool quiet;
} seen;

static void on_row(void *user, const ops_selftest_row *r) {
    seen *s = user;
    for (int op = 0; op < OP_COUNT; op++)
        for (size_t c = 0; c < COUNT_OF(test_classes); c++)
            if (!strcmp(r->op, ops_get((ops_id)op)->name) && !strcmp(r->variant, test_classes[c]))
                s->rows[op][c]++, s->narrow[0][op][c] += !strcmp(r->dtype, "bf16"),
                    s->narrow[1][op][c] += !strcmp(r->dtype, "f16");
    s->beyond += !(r->error <= r->limit);
    s->bad += !r->pass;
    if ((!r->pass && !s->quiet) || getenv("COLM_TEST_SHOW"))
        printf("# %s, %s, %s, %s: %g, limit %g%s%s\n", r->op, r->variant, r->dtype, r->shape, r->error,
               r->limit, r->note ? ", " : "", r->note ? r->note : "");
}

static bool test(const char *kernels, const char *spoil, seen *s, size_t *failed, size_t *n) {
    colm_err err;
    ops_selftest_params p = {.kernels = kernels, .spoil = spoil, .log = &test_sink, .row = on_row, .user = s};
    *s = (seen){.quiet = spoil != NULL};
    return CHECK_OK(ops_selftest(&p, failed, n, &err), err);
}

static bool has_class(int op, const char *class) {
    const ops_row *row = ops_get((ops_id)op);
    for (size_t v = 0; v < *row->n_variants; v++)
        if (strcmp(row->variants[v].name, class) == 0) return true;
    return false;
}

static bool takes_narrow(int op) {
    return strchr(ops_get((ops_id)op)->dtypes, 'h');
}

/* Every operation, every class that it has and the device takes. */
static void passes(void) {
    seen s;
    size_t failed, n;
    if (!have_device() || !test(NULL, NULL, &s, &failed, &n)) return;
    CHECK(failed == 0 && s.bad == 0 && n > 0);
    for (size_t c = 0; c < COUNT_OF(test_classes); c++) {
        ops_machine *m = machine_of(test_classes[c]);
        for (int op = 0; op < OP_COUNT && m; op++)
            if (has_class(op, test_classes[c]) &&
                !CHECK(s.rows[op][c] > 0 && takes_narrow(op) == (s.narrow[0][op][c] > 0) &&
                       takes_narrow(op) == (s.narrow[1][op][c] > 0)))
                printf("# no case of %s for class %s\n", ops_get((ops_id)op)->name, test_classes[c]);
        ops_close(&m);
    }
}

static bool can_open(const char *kernels, bool unsafe, colm_err *err) {
    ops_machine *m = NULL;
    ops_open_params p = {.kernels = kernels, .unsafe = unsafe, .log = &test_sink};
    bool ok = !ops_open(&p, &m, err);
    ops_close(&m);
    return ok;
}

/* A changed result is noticed in every row, and only there. */
static void a_wrong_result_fails_and_is_remembered(void) {
    seen s;
    size_t failed, n;
    colm_err err;
    if (!have_device() || !test("portable", "all", &s, &failed, &n)) return;
    CHECK(failed == n && s.beyond == n);
    if (!test("portable", "xent", &s, &failed, &n)) return;
    CHECK(failed > 0 && failed == s.rows[OP_XENT][OPS_CLASS_PORTABLE]);
    CHECK(!can_open("portable", false, &err));
    CHECK(err.code == COLM_E_DEVICE);
    CHECK_HAS(err.text, "xent");
    CHECK_HAS(err.text, "--unsafe-device");
    CHECK(!can_open(NULL, false, &err));
    CHECK(can_open("portable", true, &err));
    if (!test("portable", NULL, &s, &failed, &n)) return;
    CHECK(failed == 0 && can_open("portable", false, &err) && can_open(NULL, false, &err));
}

static void what_cannot_be_tested_is_said(void) {
    colm_err err;
    size_t failed, n;
    if (!have_device()) return;
    CHECK(ops_selftest(&(ops_selftest_params){.device = "reference"}, &failed, &n, &err) == COLM_E_INPUT);
    CHECK(ops_selftest(&(ops_selftest_params){.kernels = "none"}, &failed, &n, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "none");
}

/* Verdicts go to a folder of this test's own. */
int main(void) {
    char folder[] = "/tmp/colm-selftest-XXXXXX", command[80];
    if (!mkdtemp(folder)) return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    TEST(passes);
    TEST(a_wrong_result_fails_and_is_remembered);
    TEST(what_cannot_be_tested_is_said);
    int code = end_with_device();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) ? 1 : code;
}
