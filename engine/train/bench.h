/* How fast a whole training step is: forward, loss, backward, update on random tokens; and where its time goes.
 */
#ifndef COLM_TRAIN_BENCH_H
#define COLM_TRAIN_BENCH_H

#include "engine/model/graph.h"

typedef struct {
    const char *name, *about;
    model_config config;
    uint32_t frozen;
} bench_case;

/* The configurations that speed is compared at (vocabulary 4096): a dense 256; b chains {4,4}; c {2,2,2,2}; d
 * 256 frozen + 64 trained; e dense 512; f dense 320, what d saves against; g CoLM-Air {4,4}. NULL after the
 * last. */
const bench_case *bench_case_at(size_t i);

typedef enum {
    BENCH_STEPS,  /* whole steps alone */
    BENCH_INSIDE, /* and then a few of them call by call: where the time goes */
    BENCH_ALONE   /* and then every operation alone, at each of its shapes */
} bench_look;

typedef struct {
    uint32_t batch, context; /* sequences and tokens of each in a step; 0: 8 x 256 */
    double seconds;          /* of measured steps per case, at least 5 steps; 0: 5 s */
    bool interleave;         /* all cases are in memory at once and take a step each in turn, so that what
                                disturbs one disturbs all: for their ratios */
    model_precision precision;
    bench_look look;
    bool by_shape;              /* of BENCH_INSIDE: each shape of an operation by itself */
    const ops_ceiling *ceiling; /* what shares are taken of; NULL: none */
} bench_params;

typedef struct {
    uint64_t steps, tokens; /* steps measured; tokens of one */
    double *time;           /* seconds of each, in their order; owned */
    double median, best;    /* of these */
    double flops;           /* of one step, by the convention of colm.md section 2 */
    double bytes, ideal;    /* that its calls must move; its least seconds at the ceilings, 0 without them */
    uint64_t memory;        /* bytes of device memory */
    double ready; /* seconds from nothing until the first step begins: weights, graph, kernels compiled or
                     taken from caches */
    double first; /* and of the first step itself, in which a driver may finish kernels */
    graph_profile profile; /* BENCH_INSIDE, BENCH_ALONE: rows, longest first; without, one step counted */
} bench_result;

/* n cases, a result each; bench_result_done frees what is in one, also after a failure. */
COLM_MUST_USE colm_status bench_cases(ops_machine *m, const bench_case *const *c, size_t n,
                                      const bench_params *p, bench_result *ret, colm_err *err);
void bench_result_done(bench_result *r);

#endif
