/* Host memory: checked sizes and arenas that are freed as one.
 *
 * Order: arena_init (or zero-initialise), arena_alloc any number of times, arena_done. Allocation can be made
 * to fail for tests: mem_fail_after(n) lets n allocations pass and then refuses all. */
#ifndef COLM_BASE_MEM_H
#define COLM_BASE_MEM_H

#include <stddef.h>

#include "engine/base/err.h"

/* n*size zeroed bytes, or NULL on overflow or lack of memory. Free with free(). n or size 0 gives a valid
 * pointer. */
void *mem_alloc(size_t n, size_t size);
/* Like realloc to n*size bytes with overflow check; the old block stays valid on NULL. New bytes are not
 * cleared. */
void *mem_grow(void *block, size_t n, size_t size);
/* Tests: the next n allocations pass, later ones fail. Negative: never fail (the default). */
void mem_fail_after(long n);
/* Number of allocations made so far by mem_* and arena_* in this process (to prove that a loop allocates none).
 */
unsigned long long mem_count(void);

typedef struct arena_block arena_block;
typedef struct {
    arena_block *head; /* newest block first */
} arena;

/* Zeroed, 16-byte aligned; NULL on lack of memory. Lives until arena_done. */
void *arena_alloc(arena *a, size_t n, size_t size);
char *arena_strdup(arena *a, const char *text);
COLM_PRINTF(2, 3) char *arena_printf(arena *a, const char *fmt, ...);
void arena_done(arena *a);

#endif
