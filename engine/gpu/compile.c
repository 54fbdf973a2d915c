/* GLSL to SPIR-V through shaderc. The cache key holds the text of the file and of all that it may include, so a
 * hit never wakes the compiler, whose first call takes a good part of a second. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/gpu/inside.h"

enum { SOURCE_LIMIT = 4 << 20 };

/* shaderc does not tell its own version at run time. The version built against and the SPIR-V version come near
 * it and, where the compiler is a shared library that may have been exchanged since, size and time of its file.
 */
static colm_status identify(gpu_device *d, colm_err *err) {
    str s = {0};
    unsigned version = 0, revision = 0;
    shaderc_get_spv_version(&version, &revision);
    str_addf(&s, "shaderc %s, SPIR-V %x.%u", COLM_SHADERC_VERSION, version, revision);
    Dl_info lib, own;
    struct stat st;
    if (dladdr((void *)(uintptr_t)shaderc_compile_into_spv, &lib) &&
        dladdr((void *)(uintptr_t)identify, &own) && lib.dli_fbase != own.dli_fbase && lib.dli_fname &&
        stat(lib.dli_fname, &st) == 0)
        str_addf(&s, ", %lld bytes of %lld", (long long)st.st_size, (long long)st.st_mtime);
    colm_status status = s.failed ? err_nomem(err, 0, "the compiler's version") : COLM_OK;
    if (!status) hash_bytes(s.text, s.len, d->compiler_id);
    str_done(&s);
    return status;
}

static bool inside(const char *name) {
    return *name && *name != '/' && !strstr(name, "..");
}

static colm_status read_source(const gpu_device *d, const char *name, char **ret, size_t *ret_n,
                               colm_err *err) {
    if (!inside(name)) return err_set(err, COLM_E_BUG, "\"%s\" is not a file inside the shader folder", name);
    char *path = gpu_path(d->shader_dir, name);
    if (!path) return err_nomem(err, 0, "a path");
    colm_status s = file_read(path, SOURCE_LIMIT, ret, ret_n, err);
    free(path);
    return s ? err_at(err, "shader folder %s (COLM_SHADERS names another)", d->shader_dir) : COLM_OK;
}

typedef struct {
    shaderc_include_result result; /* first, so that its address is ours */
    char *text;
    colm_err why;
} include;

static shaderc_include_result out_of_memory = {
    .source_name = "", .content = "out of memory", .content_length = 13};

static shaderc_include_result *resolve(void *user, const char *wanted, int type, const char *from,
                                       size_t depth) {
    (void)type, (void)from;
    include *i = mem_alloc(1, sizeof *i);
    if (!i) return &out_of_memory;
    size_t n = 0;
    colm_status s = depth > 16 ? err_set(&i->why, COLM_E_BUG, "includes are nested too deep")
                               : read_source(user, wanted, &i->text, &n, &i->why);
    i->result = s ? (shaderc_include_result){.source_name = "",
                                             .content = i->why.text,
                                             .content_length = strlen(i->why.text)}
                  : (shaderc_include_result){.source_name = wanted,
                                             .source_name_length = strlen(wanted),
                                             .content = i->text,
                                             .content_length = n};
    return &i->result;
}

static void release(void *user, shaderc_include_result *result) {
    (void)user;
    if (result == &out_of_memory) return;
    include *i = (include *)result;
    free(i->text);
    free(i);
}

static shaderc_compile_options_t make_options(gpu_device *d, const gpu_kernel_params *p) {
    shaderc_compile_options_t o = shaderc_compile_options_initialize();
    if (!o) return NULL;
    for (size_t i = 0; i < p->n_defines; i++) {
        const char *text = p->defines[i], *equals = strchr(text, '=');
        const size_t n = equals ? (size_t)(equals - text) : strlen(text);
        const char *value = equals ? equals + 1 : "1";
        shaderc_compile_options_add_macro_definition(o, text, n, value, strlen(value));
    }
    shaderc_compile_options_set_target_env(o, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
    shaderc_compile_options_set_target_spirv(o, shaderc_spirv_version_1_3);
    shaderc_compile_options_set_optimization_level(o, p->optimize ? shaderc_optimization_level_performance
                                                                  : shaderc_optimization_level_zero);
    shaderc_compile_options_set_include_callbacks(o, resolve, release, d);
    return o;
}

/* COLM_E_BUG with the first line of what the compiler says. */
static colm_status check(shaderc_compilation_result_t r, colm_err *err) {
    if (!r) return err_nomem(err, 0, "the shader compiler");
    if (shaderc_result_get_compilation_status(r) == shaderc_compilation_status_success) return COLM_OK;
    const char *text = shaderc_result_get_error_message(r);
    return err_set(err, COLM_E_BUG, "%.*s", (int)strcspn(text, "\n"), text);
}

/* What an include line names: its first byte, and its length. 0: the line is no include; SIZE_MAX: one that
 * cannot be read without a preprocessor. */
static size_t included(const char *line, const char **ret) {
    line += strspn(line, " \t");
    if (*line != '#') return 0;
    line += 1 + strspn(line + 1, " \t");
    if (strncmp(line, "include", 7) != 0) return 0;
    line += 7 + strspn(line + 7, " \t");
    const size_t n = *line == '"' ? strcspn(line + 1, "\"\n") : 0;
    *ret = line + 1;
    return n && line[1 + n] == '"' ? n : SIZE_MAX;
}

/* Appends a file and, once each, all it names in include lines, taken or not. False: there is no saying what
 * belongs to it. */
static bool collect(const gpu_device *d, const char *name, int depth, str *text) {
    char *source = NULL, mark[256], inner[200];
    size_t n = 0, len = 0;
    snprintf(mark, sizeof mark, "\f%s\f", name);
    if (depth > 16 || strlen(name) > 200) return false;
    if (text->text && strstr(text->text, mark)) return true;
    if (read_source(d, name, &source, &n, NULL) || !source) return false;
    str_add(text, mark);
    str_add(text, source);
    bool ok = !text->failed && strlen(source) == n;
    for (const char *line = source; ok && line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *what = NULL;
        len = included(line, &what);
        if (!len) continue;
        ok = len < sizeof inner;
        if (!ok) break;
        memcpy(inner, what, len);
        inner[len] = 0;
        ok = collect(d, inner, depth + 1, text);
    }
    free(source);
    return ok;
}

static bool make_key(const gpu_device *d, const gpu_kernel_params *p, char ret[HASH_TEXT]) {
    str text = {0};
    hash_state *h = collect(d, p->file, 0, &text) ? hash_open() : NULL;
    if (h) {
        hash_add_text(h, "colm SPIR-V 1, Vulkan 1.1, SPIR-V 1.3");
        hash_add_text(h, d->compiler_id);
        hash_add_text(h, p->optimize ? "optimised" : "as written");
        for (size_t i = 0; i < p->n_defines; i++) hash_add_text(h, p->defines[i]);
        hash_add_text(h, text.text);
        hash_close(&h, ret);
    }
    str_done(&text);
    return *ret;
}

colm_status gpu_compile(gpu_device *d, const gpu_kernel_params *p, uint32_t **ret_words, size_t *ret_n,
                        colm_err *err) {
    char *source = NULL, key[HASH_TEXT] = "";
    size_t n = 0;
    uint32_t *words = NULL;
    shaderc_compile_options_t options = NULL;
    shaderc_compilation_result_t spirv = NULL;
    const double start = clock_seconds();
    colm_status s = read_source(d, p->file, &source, &n, err);
    if (!s && !*d->compiler_id) s = identify(d, err);
    if (s) goto out;
    const bool may_cache = d->cache_dir && make_key(d, p, key);
    if (may_cache && gpu_cache_load(d, key, ret_words, ret_n)) {
        log_line(&d->watch.log, LOG_DEBUG, "%s: taken from the shader cache", p->file);
        goto out;
    }
    if (!d->compiler) d->compiler = shaderc_compiler_initialize();
    options = make_options(d, p);
    if (!d->compiler || !options) {
        s = err_nomem(err, 0, "the shader compiler");
        goto out;
    }
    spirv = shaderc_compile_into_spv(d->compiler, source, n, shaderc_compute_shader, p->file, "main", options);
    s = check(spirv, err);
    if (s) goto out;
    const size_t bytes = shaderc_result_get_length(spirv);
    words = mem_alloc(bytes, 1);
    if (!words) {
        s = err_nomem(err, bytes, "SPIR-V");
        goto out;
    }
    memcpy(words, shaderc_result_get_bytes(spirv), bytes);
    log_line(&d->watch.log, LOG_DEBUG, "%s: compiled in %.0f ms", p->file, 1e3 * (clock_seconds() - start));
    if (may_cache) gpu_cache_store(d, key, words, bytes / 4);
    *ret_words = words;
    *ret_n = bytes / 4;
out:
    if (spirv) shaderc_result_release(spirv);
    if (options) shaderc_compile_options_release(options);
    free(source);
    return s;
}
