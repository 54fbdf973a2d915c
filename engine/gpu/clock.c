/* Stamps of the device's own clock between dispatches: a query pool, written while recording, read after it. */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/gpu/inside.h"

struct gpu_clock {
    VkQueryPool pool;
    uint32_t n, used;   /* stamps there is room for; taken in the newest recording */
    uint64_t recording; /* number of the recording they belong to */
    uint64_t *ticks;
};

bool gpu_has_clock(const gpu_device *d) {
    return d->found.stamp_bits && d->found.limits.timestampPeriod > 0 && !d->switches.no_timestamps;
}

colm_status gpu_clock_create(gpu_device *d, uint32_t n, gpu_clock **ret, colm_err *err) {
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    if (!gpu_has_clock(d))
        return err_set(err, COLM_E_BUG, "gpu_clock_create: %s has no timestamps", d->found.info.name);
    gpu_clock *c = mem_alloc(1, sizeof *c);
    uint64_t *ticks = mem_alloc(n, sizeof *ticks);
    if (!c || !ticks) {
        s = err_nomem(err, n * sizeof *ticks, "timestamps");
        goto out;
    }
    const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                        .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                        .queryCount = n};
    VkResult r = d->vk.vkCreateQueryPool(d->handle, &info, NULL, &c->pool);
    if (r) {
        s = gpu_fail(d, r, "vkCreateQueryPool", err);
        goto out;
    }
    c->n = n;
    c->ticks = ticks;
    *ret = c;
    return COLM_OK;
out:
    free(c);
    free(ticks);
    return s;
}

void gpu_clock_free(gpu_device *d, gpu_clock **clock) {
    gpu_clock *c = *clock;
    if (!c) return;
    gpu_settle(d);
    d->vk.vkDestroyQueryPool(d->handle, c->pool, NULL);
    free(c->ticks);
    free(c);
    *clock = NULL;
}

colm_status gpu_clock_stamp(gpu_device *d, gpu_clock *c, colm_err *err) {
    VkCommandBuffer cmd = VK_NULL_HANDLE;
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    if (!d->recording) return err_set(err, COLM_E_BUG, "gpu_clock_stamp outside gpu_begin and gpu_end");
    s = gpu_record(d, &cmd, err);
    if (!cmd) return s;
    if (c->recording != d->recordings) { /* the first of this recording */
        d->vk.vkCmdResetQueryPool(cmd, c->pool, 0, c->n);
        c->recording = d->recordings;
        c->used = 0;
    }
    if (c->used == c->n) return err_set(err, COLM_E_BUG, "gpu_clock_stamp: room for %u stamps only", c->n);
    d->vk.vkCmdWriteTimestamp(cmd, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, c->pool, c->used++);
    return COLM_OK;
}

colm_status gpu_clock_read(gpu_device *d, gpu_clock *c, double *ret, uint32_t n, colm_err *err) {
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    if (d->recording || n > c->used)
        return err_set(err, COLM_E_BUG, "gpu_clock_read: %u stamps of %u, %s a recording", n, c->used,
                       d->recording ? "within" : "after");
    if (!n) return COLM_OK;
    VkResult r = d->vk.vkGetQueryPoolResults(d->handle, c->pool, 0, n, n * sizeof *c->ticks, c->ticks,
                                             sizeof *c->ticks, VK_QUERY_RESULT_64_BIT);
    if (r) return gpu_fail(d, r, "vkGetQueryPoolResults", err);
    /* The clock may run over its highest bit, once at most in any recording. */
    const uint64_t mask = d->found.stamp_bits < 64 ? ((uint64_t)1 << d->found.stamp_bits) - 1 : UINT64_MAX;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = (double)((c->ticks[i] - c->ticks[0]) & mask) * 1e-9 * (double)d->found.limits.timestampPeriod;
    return COLM_OK;
}

bool gpu_clock_credible(const double *at, size_t n, double wall) {
    for (size_t i = 1; i < n; i++)
        if (!(at[i] >= at[i - 1])) return false;
    const double all = at[n - 1];
    return all > 0 && all <= 1.05 * wall + 1e-3 && (wall < 0.02 || all >= 0.25 * wall);
}
