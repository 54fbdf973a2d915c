/* What an experiment would do, before anything is opened: `colm validate` and `colm plan`; and what it could
 * run on: `colm devices`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/print.h"
#include "engine/lab/spec.h"
#include "engine/ops/ops.h"
#include "engine/train/loop.h"

static colm_status hand_over(colm_status st, str *out, char **ret, colm_err *err) {
    if (!st && out->failed) st = err_nomem(err, out->len, "output");
    if (!st)
        *ret = out->text;
    else
        str_done(out);
    return st;
}

colm_status colm_validate(const char *path, char **ret_text, colm_err *err) {
    spec *s = NULL;
    str out = {0};
    colm_status st = spec_load(path, &s, err);
    if (!st) {
        uint32_t stages = 0;
        for (uint32_t i = 0; i < s->n_arms; i++) stages += s->arm[i].n_stages;
        str_addf(&out,
                 "%s: experiment \"%s\" is valid: %u data sets, %u tasks, %u arms with %u stages, %u seeds\n",
                 path, s->name, s->n_data, s->n_tasks, s->n_arms, stages, s->n_seeds);
    }
    spec_free(&s);
    return hand_over(st, &out, ret_text, err);
}

static const print_column plan_columns[] = {
    {"arm", NULL},
    {"stage", NULL},
    {"kind", NULL},
    {"chains", NULL},
    {"params_total", "params"},
    {"params_trained", "trained"},
    {"frozen_chains", "frozen\nchains"},
    {"tokens", NULL},
    {"steps", NULL},
    {"flops", "FLOPs"},
    {"memory_bytes", "device\nbytes"},
    {"what", NULL},
};

/* "bible+perldoc", or the tasks of an evaluation. */
static void stage_what(const spec *s, const spec_stage *g, char *buf, size_t n) {
    size_t at = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < g->n_parts && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? "+" : "", s->data[g->part[i].data].corpus.name);
    for (uint32_t i = 0; i < g->n_tasks && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? ", " : "", s->task[g->task[i]].task.name);
}

static colm_status plan_stage(const spec *s, const spec_arm *a, uint32_t index, print *p, colm_err *err) {
    static const char *const kinds[] = {"train", "grow", "eval"};
    const spec_stage *g = &a->stage[index];
    char chains[128], what[512], shown[PRINT_SHORT];
    uint64_t total = model_params(&g->model, 0, g->model.n_chains), memory = 0;
    model_config_name(&g->model, chains, sizeof chains);
    stage_what(s, g, what, sizeof what);
    print_text(p, a->name);
    print_int(p, index);
    print_text(p, kinds[g->kind]);
    print_text(p, chains);
    print_int_shown(p, (int64_t)total, print_count((double)total, shown));
    if (g->kind != SPEC_TRAIN) {
        print_null(p);
        print_int(p, g->frozen);
        for (int i = 0; i < 4; i++) print_null(p);
        print_text(p, what);
        return COLM_OK;
    }
    colm_status st = train_memory(&g->model, &g->train, &memory, err);
    if (st) return err_at(err, "arm %s, stage %u", a->name, index);
    uint64_t trained = model_params(&g->model, g->train.frozen, g->model.n_chains),
             steps = train_steps(&g->train);
    uint64_t tokens = steps * g->train.batch * g->train.context;
    double flops = (double)train_flops(&g->model, &g->train);
    print_int_shown(p, (int64_t)trained, print_count((double)trained, shown));
    print_int(p, g->train.frozen);
    print_int_shown(p, (int64_t)tokens, print_count((double)tokens, shown));
    print_int(p, (int64_t)steps);
    print_real_shown(p, flops, print_count(flops, shown));
    print_int_shown(p, (int64_t)memory, print_count((double)memory, shown));
    print_text(p, what);
    return COLM_OK;
}

colm_status colm_plan(const char *path, colm_format f, char **ret_text, colm_err *err) {
    spec *s = NULL;
    print *p = NULL;
    str out = {0};
    colm_status st = spec_load(path, &s, err);
    if (!st && f == COLM_TABLE)
        str_addf(&out, "%s: %u seed%s; every line below runs once per seed\n\n", s->name, s->n_seeds,
                 s->n_seeds == 1 ? "" : "s");
    if (!st)
        st = print_open((store_format)f, plan_columns, sizeof plan_columns / sizeof *plan_columns, &out, &p,
                        err);
    for (uint32_t i = 0; !st && i < s->n_arms; i++)
        for (uint32_t k = 0; !st && k < s->arm[i].n_stages; k++) st = plan_stage(s, &s->arm[i], k, p, err);
    colm_status end = print_close(&p, st ? NULL : err);
    spec_free(&s);
    return hand_over(st ? st : end, &out, ret_text, err);
}

colm_status colm_devices(colm_format f, char **ret_text, colm_err *err) {
    static const print_column columns[] = {
        {"index", NULL},    {"name", NULL},
        {"type", NULL},     {"memory_bytes", "memory"},
        {"subgroup", NULL}, {"api", "Vulkan"},
        {"driver", NULL},   {"uuid", NULL},
        {"usable", ""},     {"why", "cannot be used"},
    };
    static const char *const kinds[] = {"discrete", "integrated", "virtual", "other", "cpu"};
    gpu_info *list = NULL;
    size_t n = 0;
    print *p = NULL;
    str out = {0};
    char shown[PRINT_SHORT];
    colm_status st = gpu_list(&list, &n, err);
    if (!st) st = print_open((store_format)f, columns, sizeof columns / sizeof *columns, &out, &p, err);
    for (size_t i = 0; !st && i < n; i++) {
        print_int(p, list[i].index);
        print_text(p, list[i].name);
        print_text(p, kinds[list[i].kind]);
        print_int_shown(p, (int64_t)list[i].memory, print_count((double)list[i].memory, shown));
        print_int(p, list[i].subgroup);
        print_text(p, list[i].api);
        print_text(p, list[i].driver);
        print_text(p, list[i].uuid);
        print_bool(p, list[i].usable);
        print_text(p, list[i].usable ? NULL : list[i].why);
    }
    colm_status end = print_close(&p, st ? NULL : err);
    free(list);
    return hand_over(st ? st : end, &out, ret_text, err);
}
