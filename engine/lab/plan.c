/* What an experiment would do, before anything is opened: `colm validate` and `colm plan`; and what it could
 * run on: `colm devices`. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/lab/print.h"
#include "engine/lab/report.h"
#include "engine/lab/run.h"
#include "engine/train/loop.h"

static void add_counted(str *out, uint32_t n, const char *noun, const char *then) {
    str_addf(out, "%u %s%s%s", n, noun, n == 1 ? "" : "s", then);
}

colm_status colm_validate(const char *path, char **ret_text, colm_err *err) {
    spec *s = NULL;
    str out = {0};
    colm_err unseen;
    if (!err) err = &unseen; /* err_at needs one to know the status */
    colm_status st = spec_load(path, &s, err);
    if (!st) {
        uint32_t stages = 0;
        for (uint32_t i = 0; i < s->n_arms; i++) stages += s->arm[i].n_stages;
        str_addf(&out, "%s: experiment \"%s\" is valid: ", path, s->name);
        add_counted(&out, s->n_data, "data set", ", ");
        add_counted(&out, s->n_tasks, "task", ", ");
        add_counted(&out, s->n_arms, "arm", " with ");
        add_counted(&out, stages, "stage", ", ");
        add_counted(&out, s->n_seeds, "seed", "\n");
    }
    spec_free(&s);
    return report_hand_over(st, &out, ret_text, err);
}

static const print_column plan_columns[] = {
    {"arm", NULL},
    {"stage", NULL},
    {"kind", NULL},
    {"chains", ""},
    {NULL, "chains"},
    {"precision", ""},
    {"params_total", "params"},
    {"params_trained", "trained"},
    {"frozen_chains", "frozen\nchains"},
    {"tokens", NULL},
    {"steps", NULL},
    {"flops", "FLOPs"},
    {"memory_bytes", "device\nbytes"},
    {"what", NULL},
};

static void print_big(print *p, double v) {
    char shown[PRINT_SHORT];
    print_real_shown(p, v, print_count(v, shown));
}

/* Costs that add up. */
typedef struct {
    double tokens, flops;
} plan_total;

static colm_status plan_train(const spec_stage *g, plan_total *sum, print *p, colm_err *err) {
    uint64_t memory = 0, steps = train_steps(&g->train), tokens = train_tokens(&g->train);
    double flops = (double)train_flops(&g->model, &g->train);
    colm_status st = train_memory(&g->model, &g->train, &memory, err);
    if (st) return st;
    print_big(p, (double)train_trained(&g->model, &g->train));
    print_int(p, g->train.frozen);
    print_big(p, (double)tokens);
    print_int(p, (int64_t)steps);
    print_big(p, flops);
    print_big(p, (double)memory);
    sum->tokens += (double)tokens;
    sum->flops += flops;
    return COLM_OK;
}

static colm_status plan_stage(const spec *s, const spec_arm *a, uint32_t index, plan_total *sum, print *p,
                              colm_err *err) {
    const spec_stage *g = &a->stage[index];
    char chains[128], stored[160], what[512];
    const char *precision = model_precision_name[g->precision];
    colm_status st = COLM_OK;
    model_config_name(&g->model, chains, sizeof chains);
    print_text(p, a->name);
    print_int(p, index);
    print_text(p, stage_kind(g->kind));
    snprintf(stored, sizeof stored, "%s%s%s", chains, g->precision ? " " : "", g->precision ? precision : "");
    print_text(p, chains);
    print_text(p, stored);
    print_text(p, precision);
    print_big(p, (double)model_params(&g->model, 0, g->model.n_chains));
    if (g->kind == SPEC_TRAIN) {
        st = plan_train(g, sum, p, err);
    } else {
        print_null(p);
        print_int(p, g->frozen);
        for (int i = 0; i < 4; i++) print_null(p);
    }
    stage_what(s, g, what, sizeof what);
    print_text(p, what);
    return st ? err_at(err, "arms.%s.stages[%u]", a->name, index) : COLM_OK;
}

colm_status colm_plan(const char *path, colm_format f, char **ret_text, colm_err *err) {
    spec *s = NULL;
    print *p = NULL;
    str out = {0};
    plan_total sum = {0};
    char tokens[PRINT_SHORT], flops[PRINT_SHORT];
    colm_err unseen;
    if (!err) err = &unseen; /* err_at needs one to know the status */
    colm_status st = spec_load(path, &s, err);
    if (!st)
        st = print_open((store_format)f, plan_columns, sizeof plan_columns / sizeof *plan_columns, &out, &p,
                        err);
    for (uint32_t i = 0; !st && i < s->n_arms; i++)
        for (uint32_t k = 0; !st && k < s->arm[i].n_stages; k++)
            st = plan_stage(s, &s->arm[i], k, &sum, p, err);
    colm_status end = print_close(&p, st ? NULL : err);
    if (!st && f == COLM_TABLE) {
        str_add(&out, "\nTo train: ");
        add_counted(&out, s->n_seeds, "seed", " of ");
        str_addf(&out, "all this: %s tokens, %s FLOPs. Evaluation is not counted.\n",
                 print_count(sum.tokens * s->n_seeds, tokens), print_count(sum.flops * s->n_seeds, flops));
    }
    spec_free(&s);
    return report_hand_over(st ? st : end, &out, ret_text, err);
}

/* "f16 16x16x16, bf16 16x16x16", all with sums in float32; NULL: none. */
static const char *matrices_text(const gpu_info *g, char *buf, size_t n) {
    size_t at = 0;
    for (uint32_t k = 0; k < g->n_matrices && at < n; k++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s %ux%ux%u", k ? ", " : "",
                               g->matrix[k].bf16 ? "bf16" : "f16", g->matrix[k].m, g->matrix[k].n,
                               g->matrix[k].k);
    return g->n_matrices ? buf : NULL;
}

colm_status colm_devices(colm_format f, char **ret_text, colm_err *err) {
    static const print_column columns[] = {
        {"index", NULL},
        {"name", NULL},
        {"type", NULL},
        {"memory_bytes", "memory"},
        {"subgroup", NULL},
        {"api", "Vulkan"},
        {"driver", NULL},
        {"matrices", "cooperative matrices"},
        {"uuid", NULL},
        {"usable", ""},
        {"why", "cannot be used"},
    };
    static const char *const kinds[] = {"discrete", "integrated", "virtual", "other", "cpu"};
    gpu_info *list = NULL;
    size_t n = 0;
    print *p = NULL;
    str out = {0};
    char shown[PRINT_SHORT], matrices[256];
    colm_err unseen;
    if (!err) err = &unseen; /* err_at needs one to know the status */
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
        print_text(p, matrices_text(&list[i], matrices, sizeof matrices));
        print_text(p, list[i].uuid);
        print_bool(p, list[i].usable);
        print_text(p, list[i].usable ? NULL : list[i].why);
    }
    colm_status end = print_close(&p, st ? NULL : err);
    free(list);
    return report_hand_over(st ? st : end, &out, ret_text, err);
}
