/* Recording and submission: a ring of command buffers on one queue.
 *
 * Every command buffer begins with a barrier behind all earlier device work and ends with one that shows its
 * writes to the host, so where a recording is cut into submissions cannot change what it computes. */
#include "engine/gpu/inside.h"

colm_status gpu_ring_create(gpu_device *d, colm_err *err) {
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = d->found.family};
    VkResult r = d->vk.vkCreateCommandPool(d->handle, &pool, NULL, &d->command_pool);
    if (r) return gpu_fail(d, r, "vkCreateCommandPool", err);
    for (int i = 0; i < GPU_RING; i++) {
        const VkCommandBufferAllocateInfo cmd = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                 .commandPool = d->command_pool,
                                                 .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                 .commandBufferCount = 1};
        const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        r = d->vk.vkAllocateCommandBuffers(d->handle, &cmd, &d->ring[i].cmd);
        if (r) return gpu_fail(d, r, "vkAllocateCommandBuffers", err);
        r = d->vk.vkCreateFence(d->handle, &fence, NULL, &d->ring[i].fence);
        if (r) return gpu_fail(d, r, "vkCreateFence", err);
    }
    return COLM_OK;
}

void gpu_ring_free(gpu_device *d) {
    for (int i = 0; i < GPU_RING; i++)
        if (d->ring[i].fence) d->vk.vkDestroyFence(d->handle, d->ring[i].fence, NULL);
    if (d->command_pool) d->vk.vkDestroyCommandPool(d->handle, d->command_pool, NULL);
}

/* Waits for one submission. Its time counts from when it was sent or from the end of the one before, whichever
 * is later; it is an upper bound, since the host may look late. */
static colm_status wait_slot(gpu_device *d, gpu_slot *slot, colm_err *err) {
    if (!slot->pending) return COLM_OK;
    slot->pending = false;
    VkResult r = d->vk.vkWaitForFences(d->handle, 1, &slot->fence, VK_TRUE, UINT64_MAX);
    if (!r) r = d->vk.vkResetFences(d->handle, 1, &slot->fence);
    if (r) { /* whether the work is done cannot be known any more */
        d->lost = true;
        return gpu_fail(d, r, "waiting for submitted work", err);
    }
    const double now = clock_seconds(), from = slot->submitted > d->last_done ? slot->submitted : d->last_done;
    if (now - from > d->longest) d->longest = now - from;
    d->last_done = now;
    return COLM_OK;
}

static void memory_barrier(gpu_device *d, VkPipelineStageFlags from, VkAccessFlags writes,
                           VkPipelineStageFlags to, VkAccessFlags reads) {
    const VkMemoryBarrier b = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = writes, .dstAccessMask = reads};
    d->vk.vkCmdPipelineBarrier(d->ring[d->slot].cmd, from, to, 0, 1, &b, 0, NULL, 0, NULL);
}

#define STAGES (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)
#define WRITES (VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)
#define READS (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT)

colm_status gpu_record(gpu_device *d, VkCommandBuffer *ret, colm_err *err) {
    gpu_slot *slot = &d->ring[d->slot];
    if (!d->open) {
        colm_status s = wait_slot(d, slot, err);
        if (s) return s;
        const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                                .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
        VkResult r = d->vk.vkBeginCommandBuffer(slot->cmd, &begin);
        if (r) return gpu_fail(d, r, "vkBeginCommandBuffer", err);
        memory_barrier(d, STAGES, WRITES, STAGES, READS | WRITES);
        d->open = true;
        d->barrier = false;
        d->bound = NULL;
        d->work = 0;
    }
    *ret = slot->cmd;
    return COLM_OK;
}

static colm_status submit(gpu_device *d, colm_err *err) {
    if (!d->open) return COLM_OK;
    gpu_slot *slot = &d->ring[d->slot];
    memory_barrier(d, STAGES, WRITES, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    d->open = false;
    VkResult r = d->vk.vkEndCommandBuffer(slot->cmd);
    if (r) return gpu_fail(d, r, "vkEndCommandBuffer", err);
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &slot->cmd};
    slot->submitted = clock_seconds();
    const bool lose = d->switches.device_lost && ++d->tries == d->switches.device_lost;
    r = lose ? VK_ERROR_DEVICE_LOST : d->vk.vkQueueSubmit(d->queue, 1, &info, slot->fence);
    if (r) return gpu_fail(d, r, "vkQueueSubmit", err);
    slot->pending = true;
    d->submits++;
    d->slot = (d->slot + 1) % GPU_RING;
    return COLM_OK;
}

colm_status gpu_flush(gpu_device *d, colm_err *err) {
    colm_status s = submit(d, err);
    for (uint32_t i = 0; i < GPU_RING; i++) { /* oldest first */
        colm_status w = wait_slot(d, &d->ring[(d->slot + i) % GPU_RING], s ? NULL : err);
        if (!s) s = w;
    }
    return s;
}

void gpu_settle(gpu_device *d) {
    if (d->open) { /* what is about to go may be in it: drop it, and let gpu_end say so */
        d->open = false;
        d->dropped = true;
        if (d->vk.vkEndCommandBuffer(d->ring[d->slot].cmd)) d->lost = true;
    }
    for (uint32_t i = 0; i < GPU_RING; i++)
        if (wait_slot(d, &d->ring[(d->slot + i) % GPU_RING], NULL)) d->lost = true;
}

colm_status gpu_begin(gpu_device *d, colm_err *err) {
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    if (d->recording) return err_set(err, COLM_E_BUG, "gpu_begin before the gpu_end of the recording before");
    d->recording = true;
    d->recordings++;
    d->barrier = d->dropped = false;
    return COLM_OK;
}

static colm_status check_dispatch(const gpu_device *d, const gpu_kernel *k, const gpu_set *s, size_t push_bytes,
                                  const uint32_t groups[3], colm_err *err) {
    if (!d->recording)
        return err_set(err, COLM_E_BUG, "%s: gpu_dispatch outside gpu_begin and gpu_end", k->name);
    if (!s || s->kernel != k)
        return err_set(err, COLM_E_BUG, "%s: the set was bound for %s", k->name,
                       s ? s->kernel->name : "no kernel");
    /* A C structure may end in padding up to the alignment of its widest member. */
    if (push_bytes < k->face.push_bytes || (k->face.push_bytes && push_bytes >= k->face.push_bytes + 16))
        return err_set(err, COLM_E_BUG, "%s: %zu bytes of push constants were given, it declares %u", k->name,
                       push_bytes, k->face.push_bytes);
    for (int i = 0; i < 3; i++)
        if (groups[i] > d->found.info.max_groups[i])
            return err_set(
                err, COLM_E_BUG,
                "%s: %u workgroups in %c are over the device's limit of %u: split them over the axes", k->name,
                groups[i], "xyz"[i], d -> found.info.max_groups[i]);
    return COLM_OK;
}

colm_status gpu_dispatch(gpu_device *d, gpu_kernel *k, gpu_set *s, const void *push, size_t push_bytes,
                         const uint32_t groups[3], uint64_t flops, colm_err *err) {
    colm_status e = gpu_check_alive(d, err);
    if (e) return e;
    e = check_dispatch(d, k, s, push_bytes, groups, err);
    if (e) return e;
    if (!groups[0] || !groups[1] || !groups[2]) return COLM_OK;

    const bool limited = d->budget != UINT64_MAX;
    if (limited && d->open && d->work && flops > d->budget - d->work) {
        e = submit(d, err);
        if (e) return e;
    }
    VkCommandBuffer cmd = VK_NULL_HANDLE;
    e = gpu_record(d, &cmd, err);
    if (!cmd) return e;
    if (d->barrier) {
        memory_barrier(d, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                       VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                       VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        d->barrier = false;
    }
    if (d->bound != k) d->vk.vkCmdBindPipeline(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline);
    d->bound = k;
    d->vk.vkCmdBindDescriptorSets(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, k->layout, 0, 1, &s->handle, 0, NULL);
    if (k->face.push_bytes)
        d->vk.vkCmdPushConstants(cmd, k->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, k->face.push_bytes, push);
    d->vk.vkCmdDispatch(cmd, groups[0], groups[1], groups[2]);
    d->work = flops > UINT64_MAX - d->work ? UINT64_MAX : d->work + flops;
    return limited && d->work >= d->budget ? submit(d, err) : COLM_OK;
}

void gpu_barrier(gpu_device *d) {
    d->barrier = true;
}

colm_status gpu_end(gpu_device *d, colm_err *err) {
    if (!d->recording) return err_set(err, COLM_E_BUG, "gpu_end without gpu_begin");
    d->recording = false;
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    s = gpu_flush(d, err);
    if (!s && d->dropped)
        return err_set(err, COLM_E_BUG,
                       "a buffer or a set was freed while it was being recorded; the recording is dropped");
    return s ? s : gpu_check_guards(d, err);
}

void gpu_submit_stats(const gpu_device *d, uint64_t *ret_count, double *ret_longest) {
    *ret_count = d->submits;
    *ret_longest = d->longest;
}
