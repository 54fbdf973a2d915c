/* The retention certificate (colm.md section 3): proof that frozen chains still are what they were.
 *
 * A witness is taken before a stage and after it: digests of every frozen tensor's bytes, and of the logits of
 * every frozen scale on a fixed probe batch, computed by the whole model. Tensor digests hold anywhere; logit
 * digests are compared bit for bit, which is meaningful under one device, driver, kernel digest, class and
 * precision: those are stored beside them. */
#ifndef COLM_EVAL_RETENTION_H
#define COLM_EVAL_RETENTION_H

#include "engine/base/str.h"
#include "engine/model/graph.h"

typedef struct {
    uint32_t scales; /* frozen scales 1..scales */
    model_precision precision;
    char tensors[HASH_TEXT]; /* of all tensors of those chains, with names */
    size_t n_tensors;
    char logits[MODEL_MAX_CHAINS + 1][HASH_TEXT]; /* [i]: of scale i, 1-based */
    char full[HASH_TEXT];                         /* of the full scale's logits */
    char numerics[512];                           /* ops_identity */
} retention_witness;

COLM_MUST_USE colm_status retention_witness_take(ops_machine *m, const model_weights *w,
                                                 model_precision precision, uint32_t frozen,
                                                 retention_witness *ret, colm_err *err);
/* Appends the certificate's JSON; COLM_E_CHECK naming the first difference. `grown`: the full logits must be
 * equal too. */
COLM_MUST_USE colm_status retention_certify(const retention_witness *before, const retention_witness *after,
                                            bool grown, str *json, colm_err *err);

#endif
