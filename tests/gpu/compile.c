/* GLSL to SPIR-V, the cache on disk, and what is read from the words. Needs no device. */
#include "engine/base/mem.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/kernels.h"

static gpu_device fake; /* compiling uses its folders and its sink only */

static colm_status compile(const char *file, const char *define, bool optimize, uint32_t **ret, size_t *ret_n,
                           colm_err *err) {
    return gpu_compile(&fake,
                       &(gpu_kernel_params){
                           .file = file, .defines = &define, .n_defines = define ? 1 : 0, .optimize = optimize},
                       ret, ret_n, err);
}

static gpu_face face_of(const char *text, bool optimize, colm_err *err) {
    gpu_face face = {0};
    uint32_t *words = NULL;
    size_t n = 0;
    bench_put("face.comp", text);
    if (CHECK_OK(compile("face.comp", "OP=", optimize, &words, &n, err), *err))
        err->code = gpu_reflect(words, n, &face, err);
    free(words);
    return face;
}

static void interfaces_are_read_from_the_words(void) {
    for (int optimize = 0; optimize < 2; optimize++) {
        colm_err err = {0};
        gpu_face f = face_of(ADD, optimize, &err);
        CHECK(f.storage == 7 && f.texel == 0 && f.push_bytes == 8 && f.subgroup_ops == 0);
        CHECK(f.local[0] == 64 && f.local[1] == 1 && f.local[2] == 1);
        f = face_of(FLIP, optimize, &err);
        CHECK(f.storage == 2 && f.texel == 1 && f.push_bytes == 4);
        f = face_of(HEAD
                    "layout(local_size_x = 1) in; layout(binding = 9) uniform usamplerBuffer t;\n"
                    "layout(binding = 8) uniform samplerBuffer u; layout(binding = 2) buffer A { float a; };\n"
                    "void main() { a = float(texelFetch(t, 0).x) + texelFetch(u, 0).x; }",
                    optimize, &err);
        CHECK(f.storage == 4 && f.texel == 3 && f.pairs == 2);
        f = face_of(HEAD "#extension GL_KHR_shader_subgroup_shuffle : require\n"
                         "layout(local_size_x = 8, local_size_y = 3, local_size_z = 2) in;\n"
                         "layout(push_constant) uniform P { vec4 a[3]; mat3 m; uvec2 b; float c; } p;\n"
                         "layout(binding = 7) buffer A { float a[]; } a;\n"
                         "layout(binding = 15) uniform samplerBuffer t;\n"
                         "shared vec4 s[33];\n"
                         "void main() { s[gl_LocalInvocationIndex % 33] = texelFetch(t, 0); barrier();\n"
                         "a.a[0] = subgroupShuffle(s[1].x, 0) + p.c + p.m[0].x + p.a[1].x + float(p.b.x); }",
                    optimize, &err);
        CHECK(f.storage == 1 << 7 && f.texel == 1 << 7 && f.push_bytes == 48 + 48 + 8 + 4);
        CHECK(f.local[0] == 8 && f.local[1] == 3 && f.local[2] == 2 && f.shared_bytes == 33 * 16);
        CHECK(f.subgroup_ops == (VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT));
        f = face_of(HEAD "layout(local_size_x = 1) in; void main() {}", optimize, &err);
        CHECK(f.storage == 0 && f.texel == 0 && f.push_bytes == 0 && f.shared_bytes == 0 && f.local[0] == 1);
        CHECK(err.code == COLM_OK);
    }
}

static void foreign_interfaces_are_refused(void) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"layout(binding = 0) uniform U { float u; }; layout(binding = 1) buffer A { float a; }; void main() { "
         "a = u; }",
         "binding 0: only storage buffers"},
        {"layout(binding = 8) buffer A { float a; }; void main() { a = 1; }",
         "binding 8: only storage buffers"},
        {"layout(set = 1, binding = 0) buffer A { float a; }; void main() { a = 1; }", "set 1 binding 0"},
        {"layout(binding = 9) uniform isamplerBuffer t; layout(binding = 0) buffer A { int a; };"
         " void main() { a = texelFetch(t, 0).x; }",
         "binding 9: only samplerBuffer"},
        {"layout(binding = 7) uniform samplerBuffer t; layout(binding = 0) buffer A { float a; };"
         " void main() { a = texelFetch(t, 0).x; }",
         "binding 7: only samplerBuffer"},
        {"layout(binding = 8) uniform sampler2D t; layout(binding = 0) buffer A { float a; };"
         " void main() { a = texelFetch(t, ivec2(0), 0).x; }",
         "binding 8: only samplerBuffer"},
        {"layout(push_constant) uniform P { float p[33]; }; layout(binding = 0) buffer A { float a; };"
         " void main() { a = p[1]; }",
         "132 bytes of push constants"},
        {"layout(binding = 0) buffer A { double a; }; void main() { a *= 2; }", "capability 10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[800];
        colm_err err = {0};
        snprintf(text, sizeof text, HEAD "layout(local_size_x = 1) in; %s", cases[i].text);
        face_of(text, false, &err);
        CHECK(err.code == COLM_E_BUG);
        CHECK_HAS(err.text, cases[i].says);
    }
}

/* Damaged words may be read as anything, but are read inside their bounds and come to an end. */
static void damaged_words_are_survived(void) {
    uint32_t *words = NULL, *bad = NULL, seed = 1;
    size_t n = 0, refused = 0;
    colm_err err = {0};
    gpu_face face;
    bench_put("face.comp", ADD);
    if (!CHECK_OK(compile("face.comp", "OP=", false, &words, &n, &err), err) || !n) return;
    for (size_t cut = 0; cut < n;
         cut++) { /* blocks of just that size, so that a sanitizer sees one word too many */
        bad = mem_alloc(cut, sizeof *bad);
        memcpy(bad, words, cut * sizeof *bad);
        refused += gpu_reflect(bad, cut, &face, &err) != COLM_OK;
        free(bad);
    }
    CHECK(refused > n / 2);
    bad = mem_alloc(n, sizeof *bad);
    for (int round = 0; round < 20000; round++) {
        memcpy(bad, words, n * sizeof *bad);
        for (int flips = 0; flips < 4; flips++) {
            seed = seed * 1664525u + 1013904223u;
            const size_t at = (seed >> 8) % n;
            seed = seed * 1664525u + 1013904223u;
            if (at != 3) bad[at] = seed & 1 ? seed >> 8 : bad[at] ^ 1u << (seed >> 27);
        }
        refused += gpu_reflect(bad, n, &face, &err) != COLM_OK;
    }
    CHECK(refused > 1000);
    free(bad);
    free(words);
}

static void compiler_errors_name_the_line(void) {
    uint32_t *words = NULL;
    size_t n = 0;
    colm_err err = {0};
    bench_put("bad.comp", HEAD "layout(local_size_x = 1) in;\nvoid main() { nonsense = 1; }\n");
    CHECK(compile("bad.comp", NULL, false, &words, &n, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "bad.comp:3: error: 'nonsense'");
    CHECK(!strchr(err.text, '\n') && !words);
    bench_put("bad.comp", HEAD "#include \"missing.glsl\"\nvoid main() {}\n");
    CHECK(compile("bad.comp", NULL, false, &words, &n, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "missing.glsl");
    bench_put("bad.comp", HEAD "#include \"../outside.glsl\"\nvoid main() {}\n");
    CHECK(compile("bad.comp", NULL, false, &words, &n, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "is not a file inside the shader folder");
    bench_put("loop.glsl", "#include \"loop.glsl\"\n");
    bench_put("bad.comp", HEAD "#include \"loop.glsl\"\nvoid main() {}\n");
    CHECK(compile("bad.comp", NULL, false, &words, &n, &err) == COLM_E_BUG);
    CHECK(compile("none.comp", NULL, false, &words, &n, &err) == COLM_E_IO);
    CHECK_HAS(err.text, "none.comp");
    CHECK_HAS(err.text, "COLM_SHADERS");
    CHECK(compile("/etc/passwd", NULL, false, &words, &n, &err) == COLM_E_BUG);
}

/* Compiles again; gives whether the words came from the cache. */
static bool cached(const char *file, const char *define, bool optimize, uint32_t **io_words, size_t *io_n) {
    uint32_t *words = NULL;
    size_t n = 0;
    colm_err err = {0};
    const int before = bench_count("taken from the shader cache");
    CHECK_OK(compile(file, define, optimize, &words, &n, &err), err);
    if (io_words && words) {
        if (*io_words)
            CHECK(n == *io_n && memcmp(words, *io_words, 4 * n) == 0);
        else
            *io_words = words, *io_n = n, words = NULL;
    }
    free(words);
    return bench_count("taken from the shader cache") > before;
}

static void the_cache_knows_what_matters(void) {
    uint32_t *first = NULL;
    size_t n = 0;
    bench_put("add.comp", ADD);
    CHECK(!cached("add.comp", "OP=+1.0", false, &first, &n));
    CHECK(cached("add.comp", "OP=+1.0", false, &first, &n));
    CHECK(!cached("add.comp", "OP=+2.0", false, NULL, NULL));
    CHECK(!cached("add.comp", "OP=+1.0", true, NULL, NULL));
    bench_put("abi.glsl",
              "layout(push_constant) uniform P { float scale; uint n; } p;\n"); /* an include changes */
    CHECK(!cached("add.comp", "OP=+1.0", false, NULL, NULL));
    bench_put("abi.glsl", ABI);
    CHECK(cached("add.comp", "OP=+1.0", false, &first, &n));
    bench_put("abi.glsl", "#  include \"deep.glsl\"\n"); /* and what an include includes */
    bench_put("deep.glsl", ABI);
    CHECK(!cached("add.comp", "OP=+1.0", false, &first, &n));
    CHECK(cached("add.comp", "OP=+1.0", false, &first, &n));
    bench_put("deep.glsl", ABI "const float deeper = 1.0;\n");
    CHECK(!cached("add.comp", "OP=+1.0", false, NULL, NULL));
    bench_put("other.glsl", "int x;\n");
    CHECK(cached("add.comp", "OP=+1.0", false, NULL, NULL));
    /* What cannot be told without a preprocessor is compiled each time. */
    bench_put("abi.glsl", "#include <deep.glsl>\n");
    CHECK(!cached("add.comp", "OP=+1.0", false, NULL, NULL));
    CHECK(!cached("add.comp", "OP=+1.0", false, NULL, NULL));
    bench_put("abi.glsl", ABI "#if 0\n#include \"missing.glsl\"\n#endif\n");
    CHECK(!cached("add.comp", "OP=+1.0", false, NULL, NULL));
    CHECK(!cached("add.comp", "OP=+1.0", false, NULL, NULL));
    bench_put("abi.glsl", ABI);
    CHECK(cached("add.comp", "OP=+1.0", false, &first, &n));
    free(first);
}

static void cached_file(const char *key_file, char *path, size_t size) {
    snprintf(path, size, "%s/%s", bench_cache, key_file);
}

static void a_damaged_cache_is_made_again(void) {
    static const char *const damage[] = {"empty", "cut", "flipped word", "other mark", "grown", "another's"};
    uint32_t *first = NULL;
    size_t n = 0;
    for (size_t c = 0; c < sizeof damage / sizeof *damage; c++) {
        char path[512] = "", name[256] = "";
        bench_remove(bench_cache);
        CHECK(mkdir(bench_cache, 0700) == 0);
        CHECK(!cached("add.comp", "OP=", false, &first, &n));
        DIR *d = opendir(bench_cache);
        for (struct dirent *e; d && (e = readdir(d));)
            if (e->d_name[0] != '.') snprintf(name, sizeof name, "%s", e->d_name);
        if (d) closedir(d);
        cached_file(name, path, sizeof path);
        char *bytes = NULL;
        size_t size = 0;
        colm_err err = {0};
        if (!CHECK_OK(file_read(path, 0, &bytes, &size, &err), err)) return;
        switch (c) {
        case 0:
            size = 0;
            break;
        case 1:
            size -= 4;
            break;
        case 2:
            bytes[size - 9] ^= 1;
            break;
        case 3:
            bytes[12] = '2';
            break;
        case 4:
            size -= 3;
            break;
        default: /* a good file under the wrong name */
            CHECK(!cached("add.comp", "OP=*3.0", false, NULL, NULL));
            d = opendir(bench_cache);
            for (struct dirent *e; d && (e = readdir(d));)
                if (e->d_name[0] != '.' && strcmp(e->d_name, name)) {
                    char other[512];
                    cached_file(e->d_name, other, sizeof other);
                    CHECK(rename(other, path) == 0);
                }
            if (d) closedir(d);
            size = SIZE_MAX;
        }
        if (size != SIZE_MAX) CHECK_OK(file_write(path, bytes, size, &err), err);
        free(bytes);
        CHECK(!cached("add.comp", "OP=", false, &first, &n)); /* same words as before */
        CHECK(cached("add.comp", "OP=", false, &first, &n));  /* and mended */
        printf("# %s\n", damage[c]);
    }
    free(first);
}

static void a_cache_that_cannot_be_written_is_no_error(void) {
    char *const was = fake.cache_dir;
    fake.cache_dir = (char[]){"/proc/no/such/folder"};
    CHECK(!cached("add.comp", "OP=+7.0", false, NULL, NULL));
    CHECK(!cached("add.comp", "OP=+7.0", false, NULL, NULL));
    fake.cache_dir = NULL;
    CHECK(!cached("add.comp", "OP=+7.0", false, NULL, NULL));
    fake.cache_dir = was;
}

static void lack_of_memory_is_an_error(void) {
    int refused = 0;
    for (long n = 0; n < 60; n++) {
        uint32_t *words = NULL;
        size_t count = 0;
        colm_err err = {0};
        mem_fail_after(n);
        const colm_status s = compile("add.comp", "OP=+9.0", false, &words, &count, &err);
        mem_fail_after(-1);
        CHECK((s == COLM_OK) == (words != NULL)); /* losing only the cache is no error */
        refused += s != COLM_OK;
        free(words);
    }
    CHECK(refused > 3 && refused < 60);
}

int main(void) {
    bench_folders();
    bench_put("abi.glsl", ABI);
    fake.shader_dir = bench_shaders;
    fake.cache_dir = bench_cache;
    fake.watch.log = bench_sink;
    TEST(interfaces_are_read_from_the_words);
    TEST(foreign_interfaces_are_refused);
    TEST(damaged_words_are_survived);
    TEST(compiler_errors_name_the_line);
    TEST(the_cache_knows_what_matters);
    TEST(a_damaged_cache_is_made_again);
    TEST(a_cache_that_cannot_be_written_is_no_error);
    TEST(lack_of_memory_is_an_error);
    if (fake.compiler) shaderc_compiler_release(fake.compiler);
    bench_done();
    return test_end();
}
