/* "arms": a forest by "from", put into an order in which parents come first. */
#include <stdio.h>
#include <string.h>

#include "engine/lab/spec_read.h"

static const char *const arm_keys[] = {"from", "model", "precision", "stages", NULL};

/* The arms as the file gives them. */
typedef struct {
    json_value all;
    uint32_t n;
    int from[SPEC_MAX_ARMS];       /* index in the file, -1 for none */
    uint32_t order[SPEC_MAX_ARMS]; /* place -> index in the file */
    int place[SPEC_MAX_ARMS];      /* index in the file -> place, -1: none yet */
} forest;

static const char *arm_name(const void *list, size_t i) {
    return json_key_at(((const forest *)list)->all, i);
}

static colm_status read_from(forest *f, uint32_t i, colm_err *err) {
    json_value v = json_value_at(f->all, i), from = {0};
    const char *name = NULL;
    uint32_t parent = 0;
    f->from[i] = f->place[i] = -1;
    colm_status s = spec_name(v, "an arm", json_key_at(f->all, i), err);
    if (!s) s = spec_keys(v, arm_keys, NULL, 0, err);
    if (s) return s;
    from = json_get(v, "from");
    if (!from.doc) return COLM_OK;
    s = json_read_string(from, &name, err);
    if (!s) s = spec_find(from, "arm", name, arm_name, f, f->n, &parent, err);
    if (s) return s;
    if (json_has(v, "model"))
        return json_fail(json_get(v, "model"), err,
                         "an arm that starts from another has its model; change it by a grow stage");
    f->from[i] = (int)parent;
    return COLM_OK;
}

/* Some arm that no root leads to: it lies on a cycle or behind one. */
static colm_status cycle(const forest *f, uint32_t arm, colm_err *err) {
    char way[300];
    size_t at = 0;
    for (uint32_t i = 0; i < f->n; i++) arm = (uint32_t)f->from[arm]; // by now on the cycle itself
    uint32_t next = arm;
    do {
        at += (size_t)snprintf(way + at, sizeof way - at, "%s -> ", json_key_at(f->all, next));
        next = (uint32_t)f->from[next];
    } while (next != arm && at < sizeof way - 80);
    return json_fail(json_get(json_value_at(f->all, arm), "from"), err,
                     "arms start from each other, so none can begin: %s%s", way,
                     next == arm ? json_key_at(f->all, arm) : "...");
}

/* The first arm of the file that can begin, again and again. */
static colm_status sort(forest *f, colm_err *err) {
    for (uint32_t place = 0; place < f->n; place++) {
        uint32_t i = 0;
        while (i < f->n && (f->place[i] >= 0 || (f->from[i] >= 0 && f->place[f->from[i]] < 0))) i++;
        if (i == f->n) {
            for (i = 0; f->place[i] >= 0;) i++;
            return cycle(f, i, err);
        }
        f->place[i] = (int)place;
        f->order[place] = i;
    }
    return COLM_OK;
}

static colm_status read_arm(spec_reader *r, const forest *f, uint32_t index, spec_arm *ret, colm_err *err) {
    json_value v = json_value_at(f->all, index), stages = {0};
    spec_arm a = {.line = json_line(v), .from = f->from[index], .precision = r->precision};
    spec_before before = {0};
    colm_status s = COLM_OK;
    a.name = spec_copy(r, json_key_at(f->all, index), err);
    if (!a.name) return COLM_E_MEMORY;
    if (a.from >= 0) {
        a.from = f->place[a.from];
        const spec_arm *parent = &r->out->arm[a.from];
        a.start = parent->stage[parent->n_stages - 1].model;
        before.frozen = parent->stage[parent->n_stages - 1].frozen;
    } else {
        s = spec_model_read(r, json_get(v, "model"), &a.start, err);
    }
    if (!s) s = spec_precision_read(v, &a.precision, err);
    if (!s) s = json_need(v, "stages", &stages, err);
    if (!s) s = json_read_array(stages, 1, SPEC_MAX_STAGES, err);
    if (s) return s;
    a.n_stages = (uint32_t)json_count(stages);
    a.stage = spec_alloc(r, a.n_stages, sizeof *a.stage, err);
    if (!a.stage) return COLM_E_MEMORY;
    before.model = a.start;
    before.precision = a.precision;
    for (uint32_t i = 0; i < a.n_stages && !s; i++) {
        s = spec_stage_read(r, json_item(stages, i), &before, &a.stage[i], err);
        before.model = a.stage[i].model;
        before.frozen = a.stage[i].frozen;
    }
    if (!s) *ret = a;
    return s;
}

colm_status spec_arms_read(spec_reader *r, colm_err *err) {
    forest f = {0};
    spec *o = r->out;
    model_config unused;
    colm_status s =
        spec_model_read(r, (json_value){0}, &unused, err); // sound even when no arm takes it as it is
    if (!s) s = json_need(r->root, "arms", &f.all, err);
    if (!s) s = json_read_object(f.all, err);
    if (s) return s;
    size_t n = json_count(f.all);
    if (n < 1 || n > SPEC_MAX_ARMS)
        return json_fail(f.all, err, "has %zu arms, expected 1 to %d", n, SPEC_MAX_ARMS);
    f.n = (uint32_t)n;
    for (uint32_t i = 0; i < f.n && !s; i++) s = read_from(&f, i, err);
    if (!s) s = sort(&f, err);
    if (s) return s;
    o->arm = spec_alloc(r, f.n, sizeof *o->arm, err);
    if (!o->arm) return COLM_E_MEMORY;
    for (uint32_t i = 0; i < f.n && !s; i++) s = read_arm(r, &f, f.order[i], &o->arm[i], err);
    o->n_arms = f.n;
    return s;
}
