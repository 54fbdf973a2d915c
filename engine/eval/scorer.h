/* A model on a machine as an eval_model: requests packed into batches, every scale scored from one forward
 * pass.
 *
 * A request is one row of a batch; rows do not see each other, and a shorter T gives the same bits, so neither
 * packing nor order changes a score. */
#ifndef COLM_EVAL_SCORER_H
#define COLM_EVAL_SCORER_H

#include "engine/eval/task.h"
#include "engine/model/graph.h"

typedef struct scorer scorer;
/* Uploads w. `rows` is about B*T of a batch; 0: 2048. Scores all scales of the model. */
COLM_MUST_USE colm_status scorer_open(ops_machine *m, const model_weights *w, model_precision precision,
                                      uint32_t rows, scorer **ret, colm_err *err);
void scorer_close(scorer **s);
const eval_model *scorer_model(const scorer *s);
/* Tokens read so far, padding not counted; and the forward FLOPs they took by colm.md section 2. */
uint64_t scorer_tokens(const scorer *s);
uint64_t scorer_flops(const scorer *s);

#endif
