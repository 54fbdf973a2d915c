/* The switches for honesty: their table, and how COLM_DEBUG is read. */
#include "engine/gpu/switches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/str.h"

typedef struct {
    const char *name;
    size_t off;
    bool number; /* takes "=N", N above 0; else a flag */
    bool device; /* acts on Vulkan devices only */
} row;
#define FLAG(name, field, device) \
    { name, offsetof(gpu_switches, field), false, device }
#define NUMBER(name, field, device) \
    { name, offsetof(gpu_switches, field), true, device }
static const row rows[] = {FLAG("no-texels", no_texels, true),
                           FLAG("no-subgroups", no_subgroups, true),
                           FLAG("no-matrices", no_matrices, true),
                           FLAG("no-timestamps", no_timestamps, true),
                           NUMBER("subgroup", subgroup, true),
                           NUMBER("alloc-cap", alloc_cap, true),
                           FLAG("guard", guard, true),
                           FLAG("poison", poison, true),
                           FLAG("non-coherent", non_coherent, true),
                           NUMBER("alloc-fail", alloc_fail, true),
                           NUMBER("device-lost", device_lost, true),
                           NUMBER("nan-grad", nan_grad, false),
                           FLAG("hazards", hazards, true),
                           NUMBER("drop-barrier", drop_barrier, true)};
#define N_ROWS (sizeof rows / sizeof *rows)

static bool is_set(const gpu_switches *s, const row *r) {
    const char *at = (const char *)s + r->off;
    return r->number ? *(const uint64_t *)at != 0 : *(const bool *)at;
}

static colm_status unknown(const char *word, size_t n, colm_err *err) {
    str all = {0};
    for (size_t i = 0; i < N_ROWS; i++)
        str_addf(&all, "%s%s%s", i ? ", " : "", rows[i].name, rows[i].number ? "=N" : "");
    colm_status st = err_set(err, COLM_E_USAGE, "COLM_DEBUG: no switch \"%.*s\"; there are %s",
                             (int)(n < 60 ? n : 60), word, all.failed ? "none" : all.text);
    str_done(&all);
    return st;
}

/* Digits alone: strtoull would take signs and spaces too. */
static bool number(const char *text, size_t n, uint64_t *ret) {
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || v > (UINT64_MAX - 9) / 10) return false;
        v = 10 * v + (uint64_t)(text[i] - '0');
    }
    *ret = v;
    return v > 0;
}

static colm_status one(const char *word, size_t n, gpu_switches *s, colm_err *err) {
    const char *equals = memchr(word, '=', n);
    const size_t name = equals ? (size_t)(equals - word) : n;
    const row *r = NULL;
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == name && strncmp(rows[i].name, word, name) == 0) r = &rows[i];
    if (!r) return unknown(word, n, err);
    if (is_set(s, r)) return err_set(err, COLM_E_USAGE, "COLM_DEBUG: %s is given twice", r->name);
    if (!r->number && equals) return err_set(err, COLM_E_USAGE, "COLM_DEBUG: no value belongs to %s", r->name);
    if (!r->number)
        *(bool *)((char *)s + r->off) = true;
    else if (!equals || !number(equals + 1, n - name - 1, (uint64_t *)((char *)s + r->off)))
        return err_set(err, COLM_E_USAGE, "COLM_DEBUG: %.*s: %s takes a whole number above 0, as in %s=1",
                       (int)(n < 60 ? n : 60), word, r->name, r->name);
    return COLM_OK;
}

colm_status gpu_switches_parse(const char *text, gpu_switches *ret, colm_err *err) {
    gpu_switches s = {0};
    while (text && *text) {
        const size_t n = strcspn(text, ",");
        colm_status st = n ? one(text, n, &s, err) : COLM_OK;
        if (st) return st;
        text += n + (text[n] == ',');
    }
    if (s.subgroup > 128 || (s.subgroup & (s.subgroup - 1)))
        return err_set(err, COLM_E_USAGE,
                       "COLM_DEBUG: subgroup=%" PRIu64 ": a subgroup has 1, 2, 4, 8, 16, 32, 64 or 128 lanes",
                       s.subgroup);
    if (s.drop_barrier && !s.hazards)
        return err_set(err, COLM_E_USAGE, "COLM_DEBUG: drop-barrier is there to prove hazards: give both");
    *ret = s;
    return COLM_OK;
}

colm_status gpu_switches_get(const gpu_switches *given, gpu_switches *ret, colm_err *err) {
    if (given) return *ret = *given, COLM_OK;
    return gpu_switches_parse(getenv("COLM_DEBUG"), ret, err);
}

const char *gpu_switches_of_devices(const gpu_switches *s) {
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].device && is_set(s, &rows[i])) return rows[i].name;
    return NULL;
}
