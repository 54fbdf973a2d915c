/* Which of a class's variants makes a linear of a given shape fastest on a device, as `colm bench --tune`
 * measured it once, kept beside the compiled kernels. Only variants that give the same bits are compared, so a
 * choice is one of speed: no result depends on whether the file is there. */
#ifndef COLM_OPS_TUNE_H
#define COLM_OPS_TUNE_H

#include "engine/base/str.h"
#include "engine/ops/ops.h"

typedef struct {
    ops_id op;
    ops_dtype a, b; /* storage of tensors 0 and 1 */
    uint32_t N, K;  /* of the weight, padded */
    char kind[16];  /* of the variant */
} tune_choice;

typedef struct tune_table {
    tune_choice *choice;
    size_t n, cap;
    bool changed; /* since it was parsed */
} tune_table;

void tune_done(tune_table *t);
/* The choice with the key (all but the kind) of k, or NULL. */
const tune_choice *tune_find(const tune_table *t, const tune_choice *k);
/* Sets the choice of c's key. */
COLM_MUST_USE colm_status tune_set(tune_table *t, const tune_choice *c, colm_err *err);
/* Lines "linear f32 f32 256 688 64x64". What cannot be read is COLM_E_INPUT with the line's number; *t is then
 * empty. */
COLM_MUST_USE colm_status tune_parse(const char *text, tune_table *t, colm_err *err);
void tune_format(const tune_table *t, str *out);

#endif
