/* Where a step's time goes: what its calls cost, timed within the step or each alone. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/model/graph_build.h"

/* The row of a call; a new one with zeros where there is none yet. NULL: out of memory. */
static graph_cost *row_of(graph_profile *p, const ops_call *c) {
    const ops_row *op = ops_get(c->op);
    char shape[OPS_SHAPE] = "";
    if (p->by_shape) op->shape(&c->p, shape, sizeof shape);
    for (size_t i = 0; i < p->n; i++)
        if (p->cost[i].op == op->name && strcmp(p->cost[i].shape, shape) == 0) return &p->cost[i];
    graph_cost *grown = mem_grow(p->cost, p->n + 1, sizeof *grown);
    if (!grown) return NULL;
    p->cost = grown;
    grown[p->n] = (graph_cost){.op = op->name};
    memcpy(grown[p->n].shape, shape, sizeof shape);
    return &grown[p->n++];
}

static colm_status count(const ops_machine *m, const ops_call *c, double seconds, graph_profile *io,
                         colm_err *err) {
    graph_cost *r = row_of(io, c);
    if (!r) return err_nomem(err, (io->n + 1) * sizeof *r, "profile");
    const double flops = (double)ops_get(c->op)->flops(&c->p), bytes = (double)ops_call_bytes(m, c);
    r->calls++;
    r->seconds += seconds;
    r->flops += flops;
    r->bytes += bytes;
    if (io->ceiling) r->ideal += ops_ceiling_seconds(io->ceiling, flops, bytes);
    return COLM_OK;
}

colm_status graph_run(model_graph *g, const ops_list *const *lists, size_t n, colm_err *err) {
    const ops_machine *m = g->s->machine;
    if (!g->profile) return ops_run(g->s->machine, lists, n, err);
    size_t calls = 0, at = 0;
    for (size_t i = 0; i < n; i++) calls += lists[i]->n;
    double *seconds = mem_alloc(calls, sizeof *seconds);
    if (!seconds) return err_nomem(err, calls * sizeof *seconds, "profile");
    colm_status st = ops_run_timed(g->s->machine, lists, n, seconds, &g->profile->timing, err);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < lists[i]->n && !st; c++)
            st = count(m, &lists[i]->call[c], seconds[at++], g->profile, err);
    free(seconds);
    return st;
}

colm_status model_graph_profile(model_graph *g, const uint32_t *tokens, const uint32_t *targets,
                                const graph_update *u, graph_profile *io, colm_err *err) {
    graph_report report;
    const double before = clock_seconds();
    g->profile = io;
    colm_status st = model_graph_train(g, tokens, targets, u, &report, err);
    g->profile = NULL;
    io->step_seconds += clock_seconds() - before;
    io->steps++;
    return st;
}

colm_status model_graph_count(const model_graph *g, graph_profile *io, colm_err *err) {
    const ops_list *const lists[] = {&g->clear, &g->forward, &g->head, &g->backward, &g->update};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t c = 0; c < lists[i]->n; c++) TRY(count(g->s->machine, &lists[i]->call[c], 0, io, err));
    return COLM_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define MOST_ALONE 256
/* The median time of one call of a row of such calls, as many as take about `wanted` seconds. */
static colm_status alone(ops_machine *m, const ops_call *c, double wanted, ops_timing *ret_timing, double *ret,
                         colm_err *err) {
    ops_call same[MOST_ALONE];
    double seconds[MOST_ALONE];
    const ops_list list = {.call = same, .n = 1};
    const ops_list *run = &list;
    ops_list many = list;
    same[0] = *c;
    TRY(ops_run(m, &run, 1, err)); /* the first may compile or wait for memory */
    TRY(ops_run_timed(m, &run, 1, seconds, ret_timing, err));
    double fit = seconds[0] > 0 ? wanted / seconds[0] : MOST_ALONE;
    many.n = fit < 3 ? 3 : fit > MOST_ALONE ? MOST_ALONE : (size_t)fit;
    for (size_t i = 1; i < many.n; i++) same[i] = *c;
    run = &many;
    TRY(ops_run_timed(m, &run, 1, seconds, ret_timing, err));
    qsort(seconds, many.n, sizeof *seconds, by_value);
    *ret = seconds[many.n / 2];
    return COLM_OK;
}

colm_status model_graph_alone(model_graph *g, double seconds, graph_profile *io, colm_err *err) {
    ops_list *lists[GRAPH_LISTS];
    TRY(model_graph_count(g, io, err));
    graph_lists(g, lists);
    for (size_t i = 0; i < GRAPH_LISTS; i++)
        for (size_t c = 0; c < lists[i]->n; c++) {
            graph_cost *r = row_of(io, &lists[i]->call[c]);
            double each = 0;
            if (r->seconds > 0) continue;
            TRY(alone(g->s->machine, &lists[i]->call[c], seconds, &io->timing, &each, err));
            r->seconds = each * (double)r->calls;
        }
    return COLM_OK;
}

void graph_profile_done(graph_profile *p) {
    free(p->cost);
    p->cost = NULL;
    p->n = 0;
}
