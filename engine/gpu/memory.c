/* Device memory: which type of memory, how much of it, and copies to and from the host. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/gpu/inside.h"

#define LOCAL VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define VISIBLE VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
#define COHERENT VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT
#define ORDINARY (LOCAL | VISIBLE | COHERENT | CACHED)

/* Wishes, best first. Types with flags beyond the ordinary (protected, lazily allocated, uncached) are never
 * taken. */
typedef struct {
    VkMemoryPropertyFlags with, without;
} wish;
static const wish mapped[] = {
    {LOCAL | VISIBLE | COHERENT | CACHED, 0}, {LOCAL | VISIBLE, 0}, {VISIBLE | COHERENT, 0}, {LOCAL, 0}};
static const wish local[] = {{LOCAL, VISIBLE}, {LOCAL, 0}};
static const wish staging[] = {{VISIBLE | COHERENT | CACHED, 0}, {VISIBLE | COHERENT, 0}, {VISIBLE, 0}};

/* Bytes that a heap may be asked for in all. A CPU device's heap is only a driver's notion of the machine's
 * memory (some say 2 GiB whatever the machine has); there the machine's memory is the bound, or the kernel
 * would kill us instead. */
static uint64_t heap_limit(const gpu_device *d, uint32_t heap) {
    uint64_t size = d->memory.memoryHeaps[heap].size;
    if (d->found.info.kind != GPU_CPU) return size;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    return machine > size ? machine : size;
}

static bool fits(const wish *w, uint32_t bits, uint32_t type, VkMemoryPropertyFlags flags) {
    return (bits >> type & 1) && (flags & w->with) == w->with && !(flags & w->without) &&
           !(flags & ~(VkFlags)ORDINARY);
}

static colm_status no_room(const gpu_device *d, uint64_t bytes, const char *purpose, colm_err *err) {
    return err_set(err, COLM_E_MEMORY,
                   "%s: %" PRIu64 " bytes for %s could not be had (its memory is %" PRIu64
                   " bytes, one piece at most %" PRIu64 ", colm holds %" PRIu64
                   "); use a smaller model, batch or context, or another device",
                   d->found.info.name, bytes, purpose, d->found.info.memory, d->found.info.max_alloc,
                   d->allocated);
}

/* The host sees a copy of the mapping, which only flushes and invalidations bring up to date. */
static colm_status pretend(gpu_buffer *b, colm_err *err) {
    unsigned char *seen = mem_alloc(b->reserved, 1);
    if (!seen) return err_nomem(err, b->reserved, b->purpose);
    b->real = b->map;
    b->map = seen;
    b->coherent = false;
    return COLM_OK;
}

/* Memory for b->handle of the first type, by wishes, that yields; maps it where wanted and possible. */
static colm_status allocate(gpu_buffer *b, const wish *wishes, size_t n, bool map, colm_err *err) {
    gpu_device *d = b->device;
    VkMemoryRequirements need;
    d->vk.vkGetBufferMemoryRequirements(d->handle, b->handle, &need);
    uint32_t tried = 0;
    VkResult r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (size_t w = 0; w < n; w++)
        for (uint32_t t = 0; t < d->memory.memoryTypeCount; t++) {
            const VkMemoryPropertyFlags flags = d->memory.memoryTypes[t].propertyFlags;
            const uint32_t heap = d->memory.memoryTypes[t].heapIndex;
            if (!fits(&wishes[w], need.memoryTypeBits, t, flags) || (tried >> t & 1)) continue;
            tried |= 1u << t;
            const uint64_t limit = heap_limit(d, heap);
            if (need.size > limit || d->heap_used[heap] > limit - need.size) continue;
            const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                               .allocationSize = need.size,
                                               .memoryTypeIndex = t};
            r = d->vk.vkAllocateMemory(d->handle, &info, NULL, &b->memory);
            if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY) continue;
            if (r) return gpu_fail(d, r, "vkAllocateMemory", err);
            b->heap = heap;
            b->reserved = need.size;
            d->heap_used[heap] += need.size;
            b->coherent = flags & COHERENT;
            r = d->vk.vkBindBufferMemory(d->handle, b->handle, b->memory, 0);
            if (r) return gpu_fail(d, r, "vkBindBufferMemory", err);
            if (!map || !(flags & VISIBLE)) return COLM_OK;
            void *at = NULL;
            r = d->vk.vkMapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &at);
            if (r) return gpu_fail(d, r, "vkMapMemory", err);
            b->map = at;
            return d->switches.non_coherent ? pretend(b, err) : COLM_OK;
        }
    return no_room(d, b->bytes, b->purpose, err);
}

static void destroy(gpu_buffer *b) {
    gpu_device *d = b->device;
    if (b->map) d->vk.vkUnmapMemory(d->handle, b->memory);
    if (b->real) free(b->map);
    if (b->handle) d->vk.vkDestroyBuffer(d->handle, b->handle, NULL);
    if (b->memory) d->vk.vkFreeMemory(d->handle, b->memory, NULL);
    d->heap_used[b->heap] -= b->reserved;
    free(b);
}

/* With a guard of so many bytes on both sides. */
static colm_status create(gpu_device *d, uint64_t bytes, uint64_t guard, const char *purpose,
                          VkBufferUsageFlags usage, const wish *wishes, size_t n, bool map, gpu_buffer **ret,
                          colm_err *err) {
    if (bytes > d->found.info.max_alloc || bytes > UINT64_MAX - 2 * guard)
        return no_room(d, bytes, purpose, err);
    gpu_buffer *b = mem_alloc(1, sizeof *b);
    if (!b) return err_nomem(err, sizeof *b, purpose);
    b->device = d;
    b->bytes = bytes;
    b->base = guard;
    snprintf(b->purpose, sizeof b->purpose, "%s", purpose);
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = bytes + 2 * guard,
                                     .usage = usage | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                                     .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    VkResult r = d->vk.vkCreateBuffer(d->handle, &info, NULL, &b->handle);
    colm_status s = r == VK_ERROR_OUT_OF_DEVICE_MEMORY ? no_room(d, bytes, purpose, err)
                    : r                                ? gpu_fail(d, r, "vkCreateBuffer", err)
                                                       : allocate(b, wishes, n, map, err);
    if (s) {
        destroy(b);
        return s;
    }
    *ret = b;
    return COLM_OK;
}

colm_status gpu_sync_map(gpu_buffer *b, uint64_t offset, uint64_t bytes, bool to_device, colm_err *err) {
    gpu_device *d = b->device;
    if (b->coherent) return COLM_OK;
    const uint64_t atom = d->found.limits.nonCoherentAtomSize, from = offset / atom * atom;
    const uint64_t end = (offset + bytes + atom - 1) / atom * atom;
    const VkMappedMemoryRange range = {.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
                                       .memory = b->memory,
                                       .offset = from,
                                       .size = end > b->reserved ? VK_WHOLE_SIZE : end - from};
    if (b->real && to_device) memcpy(b->real + offset, b->map + offset, bytes);
    VkResult r = to_device ? d->vk.vkFlushMappedMemoryRanges(d->handle, 1, &range)
                           : d->vk.vkInvalidateMappedMemoryRanges(d->handle, 1, &range);
    if (b->real && !to_device) memcpy(b->map + offset, b->real + offset, bytes);
    return r ? gpu_fail(d, r, to_device ? "vkFlushMappedMemoryRanges" : "vkInvalidateMappedMemoryRanges", err)
             : COLM_OK;
}

/* What the switches say to a new buffer. */
static colm_status may_create(gpu_device *d, uint64_t bytes, const char *purpose, colm_err *err) {
    const uint64_t cap = d->switches.alloc_cap;
    if (d->switches.alloc_fail && ++d->creations == d->switches.alloc_fail)
        return no_room(d, bytes, purpose, err);
    if (!cap || (d->allocated <= cap && bytes <= cap - d->allocated)) return COLM_OK;
    return err_set(err, COLM_E_MEMORY,
                   "%s: %" PRIu64 " bytes for %s are over the cap of %" PRIu64
                   " bytes (COLM_DEBUG, alloc-cap); colm holds %" PRIu64,
                   d->found.info.name, bytes, purpose, cap, d->allocated);
}

colm_status gpu_buffer_create(gpu_device *d, size_t bytes, const char *purpose, gpu_buffer **ret,
                              colm_err *err) {
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    if (d->recording)
        return err_set(err, COLM_E_BUG, "%s: a buffer was created between gpu_begin and gpu_end", purpose);
    uint64_t size = bytes ? bytes : 1;
    if (size > UINT64_MAX - GPU_ALIGN) return no_room(d, size, purpose, err);
    size = (size + GPU_ALIGN - 1) / GPU_ALIGN * GPU_ALIGN;
    s = may_create(d, size, purpose, err);
    if (s) return s;
    const bool map = d->found.info.host_visible;
    gpu_buffer *b = NULL;
    s = create(d, size, d->switches.guard ? GPU_ALIGN : 0, purpose,
               VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT,
               map ? mapped : local, map ? sizeof mapped / sizeof *mapped : sizeof local / sizeof *local, map,
               &b, err);
    if (!b) return s;
    b->used = ((bytes ? bytes : 1) + 3) / 4 * 4;
    s = gpu_guard_fill(b, err);
    if (s) {
        destroy(b);
        return s;
    }
    d->allocated += size;
    d->n_buffers++;
    b->next = d->buffers;
    if (b->next) b->next->prev = b;
    d->buffers = b;
    *ret = b;
    return COLM_OK;
}

void gpu_buffer_free(gpu_buffer **b) {
    if (!b || !*b) return;
    gpu_device *d = (*b)->device;
    gpu_settle(d);
    colm_err err;
    if (d->switches.guard && !d->lost && !*d->broken && gpu_guard_check(*b, &err)) {
        memcpy(d->broken, (*b)->purpose, sizeof d->broken);
        log_line(&d->watch.log, LOG_WARN, "%s", err.text);
    }
    if ((*b)->prev)
        (*b)->prev->next = (*b)->next;
    else
        d->buffers = (*b)->next;
    if ((*b)->next) (*b)->next->prev = (*b)->prev;
    d->allocated -= (*b)->bytes;
    d->n_buffers--;
    destroy(*b);
    *b = NULL;
}

void gpu_staging_free(gpu_device *d) {
    if (d->staging) destroy(d->staging);
    d->staging = NULL;
}

size_t gpu_buffer_bytes(const gpu_buffer *b) {
    return (size_t)b->bytes;
}
uint64_t gpu_bytes_allocated(const gpu_device *d) {
    return d->allocated;
}

/* One piece through the staging buffer; it is free again when this returns. */
static colm_status copy_piece(gpu_buffer *b, uint64_t offset, unsigned char *dst, const unsigned char *src,
                              uint64_t n, colm_err *err) {
    gpu_device *d = b->device;
    VkCommandBuffer cmd = VK_NULL_HANDLE;
    colm_status s = COLM_OK;
    if (src) {
        memcpy(d->staging->map, src, n);
        s = gpu_sync_map(d->staging, 0, n, true, err);
    }
    if (!s) s = gpu_record(d, &cmd, err);
    if (!cmd) return s;
    const VkBufferCopy there = {.srcOffset = 0, .dstOffset = offset, .size = n};
    const VkBufferCopy back = {.srcOffset = offset, .dstOffset = 0, .size = n};
    if (src)
        d->vk.vkCmdCopyBuffer(cmd, d->staging->handle, b->handle, 1, &there);
    else
        d->vk.vkCmdCopyBuffer(cmd, b->handle, d->staging->handle, 1, &back);
    s = gpu_flush(d, err);
    if (!s && dst) s = gpu_sync_map(d->staging, 0, n, false, err);
    if (!s && dst) memcpy(dst, d->staging->map, n);
    return s;
}

colm_status gpu_move(gpu_buffer *b, uint64_t at, unsigned char *dst, const unsigned char *src, uint64_t n,
                     colm_err *err) {
    gpu_device *d = b->device;
    colm_status s = COLM_OK;
    if (b->map && src) {
        memcpy(b->map + at, src, n);
        return gpu_sync_map(b, at, n, true, err);
    }
    if (b->map) {
        s = gpu_sync_map(b, at, n, false, err);
        if (!s && dst) memcpy(dst, b->map + at, n);
        return s;
    }
    if (!d->staging) {
        s = create(d, GPU_STAGING, 0, "the staging buffer", 0, staging, sizeof staging / sizeof *staging, true,
                   &d->staging, err);
        if (s) return s;
    }
    for (uint64_t done = 0; done < n && !s; done += GPU_STAGING) {
        const uint64_t piece = n - done < GPU_STAGING ? n - done : GPU_STAGING;
        s = copy_piece(b, at + done, dst ? dst + done : NULL, src ? src + done : NULL, piece, err);
    }
    return s;
}

/* Copies to the device from src, or from it to dst; the other one is NULL. */
static colm_status copy(gpu_buffer *b, size_t offset, unsigned char *dst, const unsigned char *src,
                        size_t bytes, colm_err *err) {
    gpu_device *d = b->device;
    const char *what = src ? "gpu_write" : "gpu_read";
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    if (d->recording) return err_set(err, COLM_E_BUG, "%s: %s between gpu_begin and gpu_end", b->purpose, what);
    if (offset > b->bytes || bytes > b->bytes - offset)
        return err_set(err, COLM_E_BUG, "%s: %s of %zu bytes at %zu, but the buffer has %" PRIu64, b->purpose,
                       what, bytes, offset, b->bytes);
    return bytes ? gpu_move(b, b->base + offset, dst, src, bytes, err) : COLM_OK;
}

colm_status gpu_write(gpu_buffer *b, size_t offset, const void *src, size_t bytes, colm_err *err) {
    return copy(b, offset, NULL, src, bytes, err);
}

colm_status gpu_read(gpu_buffer *b, size_t offset, void *dst, size_t bytes, colm_err *err) {
    return copy(b, offset, dst, NULL, bytes, err);
}
