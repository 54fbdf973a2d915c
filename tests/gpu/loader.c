/* Machines without a driver or without a loader: one line that says what to install. Runs itself again, since
 * both are looked for where the environment says when the process starts. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/bench.h"

static const char *self;

/* Runs this program again with a variable set; what it prints, its status at the front. */
static void run_child(const char *const names[], const char *value, char *ret, size_t size) {
    int ends[2];
    size_t have = 0;
    ret[0] = 0;
    fflush(stdout);
    if (pipe(ends)) return;
    const pid_t child = fork();
    if (child == 0) {
        for (int i = 0; names[i]; i++) setenv(names[i], value, 1);
        dup2(ends[1], 1);
        close(ends[0]), close(ends[1]);
        execl(self, self, "child", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t n; have + 1 < size && (n = read(ends[0], ret + have, size - 1 - have)) > 0;) have += (size_t)n;
    ret[have] = 0;
    close(ends[0]);
    if (child > 0) waitpid(child, NULL, 0);
}

static int child(void) {
    gpu_info *list = NULL;
    gpu_device *d = NULL;
    size_t n = 0;
    colm_err err = {0}, open_err = {0};
    const colm_status s = gpu_list(&list, &n, &err), t = gpu_open(&(gpu_params){0}, &d, &open_err);
    printf("%d %d %s%s", (int)s, (int)t, err.text, strcmp(err.text, open_err.text) ? " (and otherwise)" : "");
    free(list);
    gpu_close(&d);
    return 0;
}

static void no_driver_is_one_line(void) {
    char text[1200];
    run_child((const char *[]){"VK_DRIVER_FILES", "VK_ICD_FILENAMES", NULL}, "/nonexistent", text, sizeof text);
    CHECK_HAS(text, "5 5 ");
    if (strstr(text, "libvulkan1")) return; /* there is no loader either */
    CHECK_HAS(text, "no driver where VK_DRIVER_FILES=/nonexistent points");
    CHECK(!strchr(text, '\n') && !strstr(text, "otherwise"));
}

static void no_loader_is_one_line(void) {
    char text[1200], path[160];
    /* Empty files in front of the loader make the search for it end in an error. */
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", bench_shaders, names[i]);
        FILE *f = fopen(path, "w");
        if (f) fclose(f);
    }
    run_child((const char *[]){"LD_LIBRARY_PATH", NULL}, bench_shaders, text, sizeof text);
    CHECK_STR(
        text,
        "5 5 no Vulkan loader (libvulkan.so.1) was found; install the package libvulkan1 (Debian, Ubuntu) "
        "and a driver such as mesa-vulkan-drivers");
}

int main(int argc, char **argv) {
    if (argc > 1) return child();
    self = argv[0];
    bench_folders();
    TEST(no_driver_is_one_line);
    TEST(no_loader_is_one_line);
    bench_done();
    return test_end();
}
