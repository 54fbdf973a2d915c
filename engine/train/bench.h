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

/* The configurations a to f that speed is compared at (vocabulary 4096): dense 256; chains {4,4}; {2,2,2,2};
 * 256 frozen + 64 trained; dense 512; dense 320, what d saves against. NULL after the last. */
const bench_case *bench_case_at(size_t i);

typedef struct {
    uint64_t steps, tokens; /* steps measured; tokens of one */
    double median, best;    /* seconds of a step */
    double flops;           /* of one step, by the convention of colm.md section 2 */
    uint64_t memory;        /* bytes */
    double first; /* seconds from nothing to the end of the first step: kernels compiled or taken from caches */
    graph_cost op[OP_COUNT]; /* with profile: each call run and waited for alone, longest first */
    size_t n_ops;
} bench_result;

/* Steps of B x T tokens for about `seconds`, at least 5. `profile` adds a pass in which every call waits: it
 * shows shares, its sum is above a step's time by what waiting costs. */
COLM_MUST_USE colm_status bench_step(ops_machine *m, const bench_case *c, uint32_t B, uint32_t T,
                                     double seconds, bool profile, bench_result *ret, colm_err *err);

#endif
