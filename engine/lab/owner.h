/* Who owns a run: a process, named so that nobody else can be taken for it.
 *
 * A process id alone is reused; with the start time of the process and the boot id of the machine it is unique.
 * A process on another machine cannot be asked: it counts as living while it has written lately. */
#ifndef COLM_LAB_OWNER_H
#define COLM_LAB_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#define OWNER_SILENCE 600.0 /* seconds without a write after which an owner on another host counts as gone */

typedef struct {
    char host[256];
    char boot[64]; /* id of the boot, "" where the system has none */
    int64_t pid;   /* process id */
    int64_t start; /* clock ticks from boot to the process's start, 0 where the system does not tell */
} owner;

/* This process. Never fails: what the system does not tell is left empty. */
owner owner_self(void);
bool owner_same(const owner *a, const owner *b);
/* True when `o` runs, seen from the process `self`; `silent` seconds have passed since it last wrote. A zombie
 * is gone. */
bool owner_lives(const owner *o, const owner *self, double silent);

#endif
