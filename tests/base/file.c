#include "engine/base/file.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "engine/base/mem.h"
#include "tests/base/folder.h"
#include "tests/test.h"

static void reads_whole_files(void) {
    colm_err e;
    char *text = NULL;
    size_t n = 0;
    const char bytes[] = "a\0b\n";
    if (CHECK_OK(file_read(folder_put("f", bytes, 4), 0, &text, &n, &e), e)) {
        CHECK(n == 4 && memcmp(text, bytes, 5) == 0); // and the NUL
        free(text);
    }
    if (CHECK_OK(file_read(folder_put("empty", "", 0), 0, &text, &n, &e), e)) {
        CHECK(n == 0 && text[0] == 0);
        free(text);
    }
    if (CHECK_OK(file_read(folder_at("f"), 4, &text, &n, &e), e)) free(text);
    if (CHECK_OK(file_read("/proc/self/maps", 0, &text, &n, &e), e)) { // claims to be empty
        CHECK(n > 100 && strlen(text) == n);
        free(text);
    }
}

static void refuses_to_read(void) {
    colm_err e;
    char *text = NULL, *const untouched = text;
    size_t n = 77;
    folder_put("f", "four", 4);
    CHECK(file_read(folder_at("f"), 3, &text, &n, &e) == COLM_E_INPUT);
    CHECK_HAS(e.text, "f: larger than the limit of 3 bytes");
    CHECK(file_read(folder_at("absent"), 0, &text, &n, &e) == COLM_E_IO);
    CHECK_HAS(e.text, "absent: cannot open: ");
    CHECK(file_read(folder_path, 0, &text, &n, &e) == COLM_E_INPUT);
    CHECK_HAS(e.text, "is a folder");
    mem_fail_after(0);
    CHECK(file_read(folder_at("f"), 0, &text, &n, &e) == COLM_E_MEMORY);
    mem_fail_after(-1);
    CHECK(text == untouched && n == 77);
}

static void maps_files(void) {
    colm_err e;
    file_map m = {0};
    if (CHECK_OK(file_map_open(folder_put("f", "four", 4), &m, &e), e)) {
        CHECK(m.n == 4 && memcmp(m.bytes, "four", 4) == 0);
    }
    file_map_close(&m);
    CHECK(m.bytes == NULL && m.n == 0);
    file_map_close(&m);
    CHECK_OK(file_map_open(folder_put("empty", "", 0), &m, &e), e);
    CHECK(m.bytes == NULL && m.n == 0);
    file_map_close(&m);
    CHECK(file_map_open(folder_path, &m, &e) == COLM_E_INPUT);
    CHECK(file_map_open("/dev/null", &m, &e) == COLM_E_INPUT);
    CHECK(file_map_open(folder_at("absent"), &m, &e) == COLM_E_IO);
}

static bool holds(const char *path, const char *bytes, size_t n) {
    colm_err e;
    char *text = NULL;
    size_t got = 0;
    bool same = file_read(path, 0, &text, &got, &e) == COLM_OK && got == n && memcmp(text, bytes, n) == 0;
    free(text);
    return same;
}

static void writes_all_or_nothing(void) {
    colm_err e;
    file_out *f = NULL;
    const char *path = folder_put("out/../saved", "old", 3);
    size_t before = folder_count(folder_path);
    if (!CHECK_OK(file_out_open(path, &f, &e), e)) return;
    CHECK_OK(file_out_write(f, "ne", 2, &e), e);
    CHECK_OK(file_out_write(f, "w", 1, &e), e);
    CHECK(holds(path, "old", 3)); // until the commit
    CHECK_OK(file_out_commit(&f, &e), e);
    CHECK(f == NULL && holds(path, "new", 3));
    file_out_abandon(&f);
    if (!CHECK_OK(file_out_open(path, &f, &e), e)) return;
    CHECK_OK(file_out_write(f, "lost", 4, &e), e);
    file_out_abandon(&f);
    CHECK(f == NULL && holds(path, "new", 3));
    CHECK(folder_count(folder_path) == before); // no temporary file stays
    CHECK_OK(file_write(path, "", 0, &e), e);
    CHECK(holds(path, "", 0));
    CHECK(file_out_commit(&f, &e) == COLM_E_BUG);
}

static void writes_across_its_buffer(void) {
    colm_err e;
    enum { N = 300000 };
    char *bytes = malloc(N);
    static const size_t chunks[] = {1, 7, 65535, 65536, 65537, 1000, 0, 131072};
    for (size_t i = 0; i < N; i++) bytes[i] = (char)(i * 31 >> 3);
    for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
        file_out *f = NULL;
        if (!CHECK_OK(file_out_open(folder_at("big"), &f, &e), e)) break;
        size_t at = 0, step = chunks[k];
        bool ok = true;
        while (at < N && ok) {
            size_t n = step ? step : at % 70000 + 1; // 0: a step of its own each time
            if (n > N - at) n = N - at;
            ok = file_out_write(f, bytes + at, n, &e) == COLM_OK;
            at += n;
        }
        CHECK(ok);
        CHECK_OK(file_out_commit(&f, &e), e);
        CHECK(holds(folder_at("big"), bytes, N));
    }
    free(bytes);
}

static void keeps_links_and_modes(void) {
    colm_err e;
    struct stat st;
    const char *target = folder_put("target", "old", 3), *link = folder_at("link");
    CHECK(symlink("target", link) == 0);
    CHECK_OK(file_write(link, "new", 3, &e), e);
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(holds(target, "new", 3));
    mode_t mask = umask(022);
    umask(mask);
    CHECK_OK(file_write(folder_at("fresh"), "x", 1, &e), e);
    CHECK(stat(folder_at("fresh"), &st) == 0 && (st.st_mode & 0777) == (0666 & ~mask));
}

static void refuses_to_write(void) {
    colm_err e;
    file_out *f = NULL;
    CHECK(file_out_open(folder_at("no/such/folder"), &f, &e) == COLM_E_IO);
    CHECK_HAS(e.text, "no/such/folder");
    CHECK(file_out_open(folder_path, &f, &e) == COLM_E_INPUT);
    CHECK_HAS(e.text, "is a folder");
    CHECK(file_out_open("", &f, &e) == COLM_E_INPUT);
    CHECK(file_out_open(folder_at("x/"), &f, &e) == COLM_E_INPUT);
    CHECK(file_out_open("/dev/null", &f, &e) == COLM_E_INPUT);
    CHECK(f == NULL);
    file_out_abandon(&f);
}

// A disk that fills up, played by a limit on the size of files. In a child, so that the limit ends with it.
static int full_disk(void) {
    colm_err e = {0};
    file_out *f = NULL;
    char bytes[50000] = {0};
    struct rlimit limit = {100000, 100000};
    signal(SIGXFSZ, SIG_IGN);
    const char *path = folder_put("precious", "old", 3);
    size_t before = folder_count(folder_path);
    if (setrlimit(RLIMIT_FSIZE, &limit) || file_out_open(path, &f, &e)) return 1;
    colm_status s = COLM_OK;
    for (int i = 0; i < 4 && !s; i++) s = file_out_write(f, bytes, sizeof bytes, &e);
    if (s != COLM_E_IO || !strstr(e.text, "precious: cannot write: ")) return 2;
    if (file_out_write(f, "more", 4, &e) != COLM_E_IO) return 3; // no later call forgets it
    if (file_out_commit(&f, &e) != COLM_E_IO || f) return 4;
    if (!holds(path, "old", 3) || folder_count(folder_path) != before) return 5;
    // What still fits the buffer fails at the commit.
    if (file_out_open(path, &f, &e)) return 6;
    if (file_out_write(f, bytes, 50000, &e) || file_out_write(f, bytes, 50000, &e)) return 7;
    if (file_out_write(f, bytes, 50000, &e) || file_out_commit(&f, &e) != COLM_E_IO) return 8;
    return holds(path, "old", 3) && folder_count(folder_path) == before ? 0 : 9;
}
static void full_disk_is_no_success(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(full_disk());
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    int code = WEXITSTATUS(status);
    if (!CHECK(code == 0)) printf("# the child stopped at step %d\n", code);
}

// Killed between write and commit: the old file is whole, the rest of the dead process hides and does not stand
// in the way.
static void killed_while_writing(void) {
    colm_err e;
    int status = 0;
    const char *path = folder_put("kept", "old", 3);
    pid_t child = fork();
    if (child == 0) {
        file_out *f = NULL;
        char bytes[100000] = {0};
        if (file_out_open(path, &f, &e) || file_out_write(f, bytes, sizeof bytes, &e)) _exit(1);
        raise(SIGKILL);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(holds(path, "old", 3));
    CHECK_OK(file_write(path, "new", 3, &e), e);
    CHECK(holds(path, "new", 3));
}

static void makes_folders(void) {
    colm_err e;
    CHECK_OK(file_make_dirs(folder_at("d/e//f/"), &e), e);
    CHECK(file_exists(folder_at("d/e/f")));
    CHECK_OK(file_make_dirs(folder_at("d/e/f"), &e), e);
    CHECK_OK(file_make_dirs("/", &e), e);
    CHECK_OK(file_make_dirs("", &e), e);
    CHECK_OK(file_make_dirs(".", &e), e);
    folder_put("file", "", 0);
    CHECK(file_make_dirs(folder_at("file/sub"), &e) == COLM_E_IO);
    CHECK_HAS(e.text, "file: cannot make the folder: ");
    CHECK(file_make_dirs(folder_at("file"), &e) == COLM_E_IO);
    CHECK(!file_exists(folder_at("file/sub")) && file_exists(folder_at("file")));
}

// The names found, without the base, joined by spaces.
static const char *expand(const char *base, const char *pattern) {
    static char joined[2048];
    colm_err e;
    char **paths = NULL;
    size_t n = 0, at = 0, skip = strlen(base) + 1;
    joined[0] = 0;
    if (file_expand(base, pattern, &paths, &n, &e)) return e.text[0] ? "failed" : "no reason";
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(joined + at, sizeof joined - at, "%s%s", i ? " " : "", paths[i] + skip);
    free(paths);
    return joined;
}

static void expands_names(void) {
    colm_err e;
    char base[1024];
    snprintf(base, sizeof base, "%s", folder_at("corpus[1]"));
    CHECK_OK(file_make_dirs(folder_at("corpus[1]/sub/deep"), &e), e);
    CHECK_OK(file_make_dirs(folder_at("corpus[1]/void"), &e), e);
    CHECK_OK(file_make_dirs(folder_at("corpus[1]/.git"), &e), e);
    static const char *const names[] = {"b.txt",          "a.txt",       "B.txt",      "sub/c.txt",
                                        "sub/deep/d.txt", "sub/.hidden", ".git/e.txt", "odd[x]*.txt",
                                        "oddx.txt",       "\xC3\xA9.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[256];
        snprintf(name, sizeof name, "corpus[1]/%s", names[i]);
        folder_put(name, "", 0);
    }
    CHECK(symlink(".", folder_at("corpus[1]/sub/circle")) == 0);
    CHECK(symlink("../a.txt", folder_at("corpus[1]/sub/link")) == 0);
    CHECK(symlink("nowhere", folder_at("corpus[1]/sub/dangling")) == 0);
    CHECK_STR(expand(base, "a.txt"), "a.txt");
    CHECK_STR(expand(base, "?.txt"), "B.txt a.txt b.txt"); // by bytes, not by the locale's alphabet
    CHECK_STR(expand(base, "sub"), "sub/c.txt sub/deep/d.txt sub/link");
    CHECK_STR(expand(base, "sub/"), "sub/c.txt sub/deep/d.txt sub/link");
    CHECK_STR(expand(base, "s*"), "sub/c.txt sub/deep/d.txt sub/link");
    CHECK_STR(expand(base, "*/*.txt"), "sub/c.txt");
    CHECK_STR(expand(base, "odd[x]*.txt"), "odd[x]*.txt"); // a file of that very name comes before the pattern
    CHECK_STR(expand(base, "[ab].txt"), "a.txt b.txt");
    CHECK_STR(expand(base, "*.txt"), "B.txt a.txt b.txt odd[x]*.txt oddx.txt \xC3\xA9.txt");
    CHECK_STR(expand(base, "none*"), "failed");
    CHECK_STR(expand(base, "void"), "failed");
    CHECK_STR(expand(base, ""), "failed");
    char absolute[2048];
    snprintf(absolute, sizeof absolute, "%s/sub/c.txt", base);
    char **paths = NULL;
    size_t n = 0;
    if (CHECK_OK(file_expand("/elsewhere", absolute, &paths, &n, &e), e)) {
        CHECK(n == 1);
        CHECK_STR(paths[0], absolute);
        free(paths);
    }
    CHECK(file_expand(base, "none", &paths, &n, &e) == COLM_E_INPUT);
    CHECK_HAS(e.text, "\"none\": names no file");
    for (long k = 0; k < 100; k++) { // every allocation refused in turn
        mem_fail_after(k);
        colm_status s = file_expand(base, "*", &paths, &n, &e);
        mem_fail_after(-1);
        if (s == COLM_OK) {
            free(paths);
            CHECK(k > 3);
            return;
        }
        CHECK(s == COLM_E_MEMORY);
    }
    CHECK(!"it never succeeded");
}

int main(void) {
    folder_make();
    (void)mkdir(folder_at("out"), 0777);
    TEST(reads_whole_files);
    TEST(refuses_to_read);
    TEST(maps_files);
    TEST(writes_all_or_nothing);
    TEST(writes_across_its_buffer);
    TEST(keeps_links_and_modes);
    TEST(refuses_to_write);
    TEST(full_disk_is_no_success);
    TEST(killed_while_writing);
    TEST(makes_folders);
    TEST(expands_names);
    folder_remove();
    return test_end();
}
