/* A test program: functions that CHECK, listed in a table, reported as TAP.
 *
 *     static void adds(void) { CHECK(1 + 1 == 2); CHECK_NEAR(0.1 + 0.2, 0.3, 1e-15); }
 *     int main(int argc, char **argv) { TEST(adds); return test_end(); }
 *
 * A case without a single CHECK fails: it could not have failed otherwise. test_skip("why") ends a case as
 * skipped. */
#ifndef COLM_TESTS_TEST_H
#define COLM_TESTS_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_count_, test_failed_, test_checks_, test_bad_;
static const char *test_skip_;

#define CHECK(cond) test_check_((cond), #cond, __FILE__, __LINE__)
/* NaN on either side fails. */
#define CHECK_NEAR(a, b, tol) test_near_((a), (b), (tol), #a " ~ " #b, __FILE__, __LINE__)
#define CHECK_STR(a, b) test_str_((a), (b), #a " == " #b, __FILE__, __LINE__)
/* The text of an error must contain a part. */
#define CHECK_HAS(text, part) test_has_((text), (part), #text, __FILE__, __LINE__)
/* A colm call must succeed; prints the error otherwise. Gives true on success. */
#define CHECK_OK(call, err) test_ok_((int)(call), (err).text, #call, __FILE__, __LINE__)
#define TEST(fn) test_run_(#fn, fn)

static inline bool test_check_(bool ok, const char *what, const char *file, int line) {
    test_checks_++;
    if (!ok) {
        test_bad_++;
        printf("# %s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}
static inline bool test_near_(double a, double b, double tol, const char *what, const char *file, int line) {
    bool ok = fabs(a - b) <= tol;
    if (!test_check_(ok, what, file, line)) printf("#   %.17g against %.17g, tolerance %g\n", a, b, tol);
    return ok;
}
static inline bool test_str_(const char *a, const char *b, const char *what, const char *file, int line) {
    bool ok = a && b && strcmp(a, b) == 0;
    if (!test_check_(ok, what, file, line))
        printf("#   \"%s\"\n#   \"%s\"\n", a ? a : "(null)", b ? b : "(null)");
    return ok;
}
static inline bool test_has_(const char *text, const char *part, const char *what, const char *file, int line) {
    bool ok = text && strstr(text, part);
    if (!test_check_(ok, what, file, line)) printf("#   \"%s\" lacks \"%s\"\n", text ? text : "(null)", part);
    return ok;
}
static inline bool test_ok_(int status, const char *text, const char *what, const char *file, int line) {
    bool ok = status == 0;
    if (!test_check_(ok, what, file, line)) printf("#   status %d: %s\n", status, text);
    return ok;
}
static inline void test_skip(const char *why) {
    test_skip_ = why;
}
static inline void test_run_(const char *name, void (*fn)(void)) {
    test_checks_ = test_bad_ = 0;
    test_skip_ = NULL;
    fn();
    test_count_++;
    if (test_skip_ && !test_bad_) {
        printf("ok %d - %s # SKIP %s\n", test_count_, name, test_skip_);
    } else if (test_bad_ || !test_checks_) {
        test_failed_++;
        printf("not ok %d - %s%s\n", test_count_, name, test_checks_ ? "" : " (checked nothing)");
    } else {
        printf("ok %d - %s\n", test_count_, name);
    }
    fflush(stdout);
}
static inline int test_end(void) {
    printf("1..%d\n", test_count_);
    return test_failed_ ? 1 : 0;
}

#endif
