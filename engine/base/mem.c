#include "engine/base/mem.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic long passes_left = -1; // negative: no limit
static _Atomic unsigned long long made;

// Counts an allocation, unless a test wants it to fail.
static bool take_pass(void) {
    long left = atomic_load(&passes_left);
    while (left >= 0) {
        if (left == 0) return false;
        if (atomic_compare_exchange_weak(&passes_left, &left, left - 1)) break;
    }
    atomic_fetch_add(&made, 1);
    return true;
}

// False when n * size does not fit an object.
static bool total_size(size_t n, size_t size, size_t *ret) {
    if (size && n > PTRDIFF_MAX / size) return false;
    *ret = n && size ? n * size : 1;
    return true;
}

void *mem_alloc(size_t n, size_t size) {
    size_t bytes;
    return total_size(n, size, &bytes) && take_pass() ? calloc(1, bytes) : NULL;
}

void *mem_grow(void *block, size_t n, size_t size) {
    size_t bytes;
    return total_size(n, size, &bytes) && take_pass() ? realloc(block, bytes) : NULL;
}

void mem_fail_after(long n) {
    atomic_store(&passes_left, n);
}
unsigned long long mem_count(void) {
    return atomic_load(&made);
}

#define ALIGN 16
#define BLOCK_FIRST (4u << 10)
#define BLOCK_MOST (1u << 20)

struct arena_block {
    arena_block *next; // older
    size_t used, cap;
    alignas(ALIGN) unsigned char bytes[];
};

void *arena_alloc(arena *a, size_t n, size_t size) {
    size_t bytes;
    if (!total_size(n, size, &bytes) || bytes > PTRDIFF_MAX - sizeof(arena_block) - ALIGN || !take_pass())
        return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    arena_block *head = a->head;
    if (!head || head->cap - head->used < bytes) {
        size_t cap = !head ? BLOCK_FIRST : head->cap < BLOCK_MOST ? 2 * head->cap : BLOCK_MOST;
        if (cap < bytes) cap = bytes;
        head = calloc(1, sizeof *head + cap);
        if (!head) return NULL;
        head->cap = cap;
        head->next = a->head;
        a->head = head;
    }
    void *p = head->bytes + head->used;
    head->used += bytes;
    return p;
}

char *arena_strdup(arena *a, const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = arena_alloc(a, n, 1);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *arena_printf(arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1, 1);
    if (!text) return NULL;
    va_start(ap, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return text;
}

void arena_done(arena *a) {
    while (a->head) {
        arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
}
