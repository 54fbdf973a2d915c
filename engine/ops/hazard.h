/* Which calls must wait for earlier ones, twice and apart from each other: where barriers are put while a list
 * is recorded, and a look through what was recorded for one that lacks. */
#ifndef COLM_OPS_HAZARD_H
#define COLM_OPS_HAZARD_H

#include "engine/ops/ops.h"

#define HAZARD_MAX 128

typedef struct {
    ops_view view;
    bool written;
} hazard_use;

/* Views touched since the last barrier, in a fixed table so that recording allocates nothing. A full table
 * costs one barrier too many, never one too few. */
typedef struct {
    size_t n;
    hazard_use use[HAZARD_MAX];
} hazard_list;

/* Notes a call on views t[i], touched as access[i] says: r read, w written, m both. True when a barrier must
 * come before it (it reads what was written, or writes what was touched, since the last one); the list is then
 * started anew with this call alone. Views of one call do not hurt each other. */
bool hazard_note(hazard_list *l, const ops_view *t, const char *access);

/* A recording as it went to the device: calls in order, and whether a barrier stands before each. */
typedef struct {
    const ops_call *call;
    size_t list, index; /* of the call among the lists that were run */
    bool barrier;
} hazard_entry;

typedef enum { HAZARD_READ_AFTER_WRITE, HAZARD_WRITE_AFTER_READ, HAZARD_WRITE_AFTER_WRITE } hazard_kind;

typedef struct {
    hazard_kind kind;
    size_t first, second;               /* entries */
    size_t first_tensor, second_tensor; /* their tensors that overlap */
} hazard_fault;

/* Whether two calls with no barrier between touch the same elements, and one of them writes; *ret is the first
 * such pair. Knows nothing of hazard_list: each call is held against every one since the last barrier. */
bool hazard_find(const hazard_entry *e, size_t n, hazard_fault *ret);

/* What a device machine with the switch `hazards` keeps of its last recording; NULL without. Tests set `drop`
 * to leave out a barrier of the next recordings (from 1; 0: none). */
typedef struct {
    hazard_entry *entry;
    size_t n, cap;
    uint64_t barriers, drop;
} hazard_watch;
hazard_watch *hazard_watch_of(ops_machine *m);

#endif
