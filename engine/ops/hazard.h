/* Which calls must wait for earlier ones: views touched since the last barrier, in a fixed table so that
 * recording allocates nothing. A full table costs one barrier too many, never one too few. */
#ifndef COLM_OPS_HAZARD_H
#define COLM_OPS_HAZARD_H

#include "engine/ops/ops.h"

#define HAZARD_MAX 128

typedef struct {
    ops_view view;
    bool written;
} hazard_use;

typedef struct {
    size_t n;
    hazard_use use[HAZARD_MAX];
} hazard_list;

/* Notes a call on views t[i], touched as access[i] says: r read, w written, m both. True when a barrier must
 * come before it (it reads what was written, or writes what was touched, since the last one); the list is then
 * started anew with this call alone. Views of one call do not hurt each other. */
bool hazard_note(hazard_list *l, const ops_view *t, const char *access);

#endif
