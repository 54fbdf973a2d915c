/* What lies around a buffer's bytes. In words of one allocation:
 *
 *     guard | bytes asked for | what rounding adds | guard
 *
 * The guards are there with the switch `guard` only, which watches what rounding adds as well. */
#include <inttypes.h>
#include <string.h>

#include "engine/gpu/inside.h"

#define MOST_BYTES (2u * GPU_ALIGN) /* of what rounding adds with the guard behind it */

static uint64_t end_of(const gpu_buffer *b) {
    return b->base + b->bytes + b->base; /* the guards are of one size */
}

static colm_status fill(gpu_buffer *b, VkCommandBuffer cmd, uint64_t from, uint64_t to, uint32_t word,
                        colm_err *err) {
    if (from == to) return COLM_OK;
    if (cmd) {
        b->device->vk.vkCmdFillBuffer(cmd, b->handle, from, to - from, word);
        return COLM_OK;
    }
    if (!word) memset(b->map + from, 0, to - from);
    for (uint64_t at = from; word && at < to; at += sizeof word) memcpy(b->map + at, &word, sizeof word);
    return gpu_sync_map(b, from, to - from, true, err);
}

colm_status gpu_guard_fill(gpu_buffer *b, colm_err *err) {
    const gpu_switches *w = &b->device->switches;
    const uint64_t used = b->base + b->used, end = end_of(b);
    VkCommandBuffer cmd = VK_NULL_HANDLE;
    colm_status s = COLM_OK;
    if (!b->map) {
        s = gpu_record(b->device, &cmd, err);
        if (!cmd) return s;
    }
    s = fill(b, cmd, 0, b->base, GPU_MARK, err);
    if (!s) s = fill(b, cmd, b->base, used, 0, err);
    if (!s) s = fill(b, cmd, used, end, w->guard || w->poison ? GPU_MARK : 0, err);
    return s || !cmd ? s : gpu_flush(b->device, err);
}

/* Whether the words from..to of the allocation are as they were filled. */
static colm_status check(gpu_buffer *b, uint64_t from, uint64_t to, colm_err *err) {
    uint32_t word[MOST_BYTES / 4];
    colm_status s = gpu_move(b, from, (unsigned char *)word, NULL, to - from, err);
    for (uint64_t i = 0; i < (to - from) / 4 && !s; i++)
        if (word[i] != GPU_MARK) {
            const uint64_t at = from + 4 * i;
            const bool front = at < b->base;
            s = err_set(err, COLM_E_DEVICE,
                        "%s: something wrote outside the buffer of %" PRIu64 " bytes for %s, %" PRIu64
                        " bytes %s (%#" PRIx32 " is in its guard)",
                        b->device->found.info.name, b->used, b->purpose,
                        front ? b->base - at : at - b->base - b->used,
                        front ? "before its start" : "behind its end", word[i]);
        }
    return s;
}

colm_status gpu_guard_check(gpu_buffer *b, colm_err *err) {
    colm_status s = check(b, 0, b->base, err);
    return s ? s : check(b, b->base + b->used, end_of(b), err);
}

colm_status gpu_check_guards(gpu_device *d, colm_err *err) {
    colm_status s = COLM_OK;
    for (gpu_buffer *b = d->switches.guard ? d->buffers : NULL; b && !s; b = b->next)
        s = gpu_guard_check(b, err);
    return s;
}
