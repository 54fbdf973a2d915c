/* What the public calls share: where results lie unless told, and how a text goes to the caller. */
#ifndef COLM_LAB_REPORT_H
#define COLM_LAB_REPORT_H

#include "engine/base/str.h"

/* The results database: `db`, else $COLM_DB, else results/colm.db. */
const char *report_db(const char *db);
/* The end of a call that makes text: *out becomes the caller's on success and is freed otherwise. Returns st,
 * or COLM_E_MEMORY where the text could not be held. */
COLM_MUST_USE colm_status report_hand_over(colm_status st, str *out, char **ret, colm_err *err);

#endif
