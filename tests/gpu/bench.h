/* What the tests of this room share: a folder of shaders and a cache that vanish again, a listening sink, and a
 * device that is opened once per program. */
#ifndef COLM_TESTS_GPU_BENCH_H
#define COLM_TESTS_GPU_BENCH_H

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/gpu/inside.h"
#include "tests/test.h"

static char bench_shaders[64], bench_cache[64]; /* folders */
static char bench_log[1 << 18];                 /* all lines so far */
static bool bench_quiet;                        /* warnings are expected: do not show them */

static inline void bench_line(void *user, log_level level, const char *text) {
    (void)user;
    const size_t have = strlen(bench_log), n = strlen(text);
    if (level == LOG_WARN && !bench_quiet) printf("# %s\n", text);
    if (have + n + 2 < sizeof bench_log) {
        memcpy(bench_log + have, text, n);
        memcpy(bench_log + have + n, "\n", 2);
    }
}
static const log_sink bench_sink = {.line = bench_line};

static inline int bench_count(const char *part) {
    int n = 0;
    for (const char *at = bench_log; (at = strstr(at, part)); at++) n++;
    return n;
}

static inline void bench_put(const char *name, const char *text) {
    char path[160];
    colm_err err = {0};
    snprintf(path, sizeof path, "%s/%s", bench_shaders, name);
    if (file_write(path, text, strlen(text), &err)) printf("Bail out! %s\n", err.text), exit(1);
}

static inline void bench_remove(const char *dir) {
    char path[512];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}

static inline void bench_folders(void) {
    const char *tmp = getenv("TMPDIR");
    char *const dirs[] = {bench_shaders, bench_cache};
    for (int i = 0; i < 2; i++) {
        snprintf(dirs[i], 64, "%.40s/colm-gpu-XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(dirs[i])) printf("Bail out! no temporary folder\n"), exit(1);
    }
}
static inline void bench_done(void) {
    bench_remove(bench_shaders);
    bench_remove(bench_cache);
}

/* The parameters that the tests open devices with: validation where its layer is installed. */
static inline gpu_params bench_params(void) {
    return (gpu_params){.device = getenv("COLM_TEST_DEVICE"),
                        .cache_dir = bench_cache,
                        .shader_dir = bench_shaders,
                        .log = &bench_sink};
}

/* A device with validation, or without where the layer lacks; NULL when there is no device: the case is
 * skipped. */
static inline gpu_device *bench_open(const gpu_params *params) {
    gpu_params p = *params;
    gpu_device *d = NULL;
    colm_err err = {0};
    p.validate = true;
    if (gpu_open(&p, &d, &err) == COLM_OK) return d;
    p.validate = false;
    if (gpu_open(&p, &d, &err) == COLM_OK) return d;
    test_skip("no device");
    printf("# %s\n", err.text);
    return NULL;
}

#endif
