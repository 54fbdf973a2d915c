/* Descriptor sets and texel views: which ranges of which buffers a kernel works on. */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/gpu/inside.h"

#define SETS_PER_POOL 256u

/* A pool has room for its number of sets however many tensors each has, so only the count can run out. */
static colm_status new_pool(gpu_device *d, gpu_pool **ret, colm_err *err) {
    const VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS_PER_POOL * GPU_TENSORS},
        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, SETS_PER_POOL * GPU_TENSORS}};
    const VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                             .flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT,
                                             .maxSets = SETS_PER_POOL,
                                             .poolSizeCount = 2,
                                             .pPoolSizes = sizes};
    gpu_pool *p = mem_alloc(1, sizeof *p);
    if (!p) return err_nomem(err, sizeof *p, "a descriptor pool");
    VkResult r = d->vk.vkCreateDescriptorPool(d->handle, &info, NULL, &p->handle);
    if (r) {
        free(p);
        return gpu_fail(d, r, "vkCreateDescriptorPool", err);
    }
    p->next = d->pools;
    *ret = d->pools = p;
    return COLM_OK;
}

/* From the first pool that yields; a fragmented one may refuse before it is full. */
static colm_status allocate(gpu_device *d, gpu_set *s, colm_err *err) {
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &s->kernel->set_layout};
    VkResult r = VK_ERROR_OUT_OF_POOL_MEMORY;
    for (gpu_pool *p = d->pools; p && r; p = p->next) {
        if (p->used == SETS_PER_POOL) continue;
        info.descriptorPool = p->handle;
        r = d->vk.vkAllocateDescriptorSets(d->handle, &info, &s->handle);
        if (!r) s->pool = p;
    }
    if (r) {
        gpu_pool *p = NULL;
        colm_status e = new_pool(d, &p, err);
        if (!p) return e;
        info.descriptorPool = p->handle;
        r = d->vk.vkAllocateDescriptorSets(d->handle, &info, &s->handle);
        if (r) return gpu_fail(d, r, "vkAllocateDescriptorSets", err);
        s->pool = p;
    }
    s->pool->used++;
    return COLM_OK;
}

static unsigned texel_size(const gpu_kernel *k, uint32_t t) {
    return k->face.pairs >> t & 1 ? GPU_TEXEL_PAIRS : GPU_TEXEL;
}
static uint64_t texels(const gpu_kernel *k, const gpu_range *r, uint32_t t) {
    return (r->bytes + texel_size(k, t) - 1) / texel_size(k, t);
}

static colm_status check_range(const gpu_device *d, const gpu_kernel *k, const gpu_range *ranges, size_t n,
                               uint32_t t, colm_err *err) {
    const gpu_info *i = &d->found.info;
    if (t >= n || !ranges[t].buffer || ranges[t].buffer->device != d)
        return err_set(err, COLM_E_BUG, "%s: tensor %u has no buffer of this device", k->name, t);
    const gpu_range *r = &ranges[t];
    const gpu_buffer *b = r->buffer;
    if (r->offset % GPU_ALIGN)
        return err_set(err, COLM_E_BUG, "%s: tensor %u: offset %zu in %s is not a multiple of %d", k->name, t,
                       r->offset, b->purpose, GPU_ALIGN);
    if (!r->bytes || r->offset > b->bytes || r->bytes > b->bytes - r->offset)
        return err_set(err, COLM_E_BUG, "%s: tensor %u: %zu bytes at %zu are not inside %s of %llu bytes",
                       k->name, t, r->bytes, r->offset, b->purpose, (unsigned long long)b->bytes);
    if ((k->face.storage >> t & 1) && r->bytes > i->max_range)
        return err_set(err, COLM_E_BUG,
                       "%s: tensor %u: %zu bytes of %s are over the device's %llu per binding: slice them",
                       k->name, t, r->bytes, b->purpose, (unsigned long long)i->max_range);
    if ((k->face.texel >> t & 1) && texels(k, r, t) > i->max_texels)
        return err_set(
            err, COLM_E_BUG,
            "%s: tensor %u: %zu bytes of %s are over the device's %llu texels of %u bytes: slice them", k->name,
            t, r->bytes, b->purpose, (unsigned long long)i->max_texels, texel_size(k, t));
    return COLM_OK;
}

/* Fills the set; makes the texel views it needs. */
static colm_status write_set(gpu_device *d, gpu_set *s, const gpu_range *ranges, colm_err *err) {
    VkDescriptorBufferInfo buffers[GPU_TENSORS];
    VkWriteDescriptorSet writes[2 * GPU_TENSORS];
    uint32_t n = 0;
    for (uint32_t t = 0; t < GPU_TENSORS; t++) {
        const gpu_range *r = &ranges[t];
        if (s->kernel->face.storage >> t & 1) {
            buffers[t] = (VkDescriptorBufferInfo){r->buffer->handle, r->buffer->base + r->offset, r->bytes};
            writes[n++] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                                 .dstSet = s->handle,
                                                 .dstBinding = t,
                                                 .descriptorCount = 1,
                                                 .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                 .pBufferInfo = &buffers[t]};
        }
        if (s->kernel->face.texel >> t & 1) {
            /* Whole texels: sizes of buffers are multiples of 256, so the end stays inside. */
            const VkBufferViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                                 .buffer = r->buffer->handle,
                                                 .format = s->kernel->face.pairs >> t & 1
                                                               ? VK_FORMAT_R32G32_UINT
                                                               : VK_FORMAT_R32G32B32A32_SFLOAT,
                                                 .offset = r->buffer->base + r->offset,
                                                 .range = texels(s->kernel, r, t) * texel_size(s->kernel, t)};
            VkResult res = d->vk.vkCreateBufferView(d->handle, &view, NULL, &s->views[t]);
            if (res) return gpu_fail(d, res, "vkCreateBufferView", err);
            writes[n++] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                                 .dstSet = s->handle,
                                                 .dstBinding = GPU_TENSORS + t,
                                                 .descriptorCount = 1,
                                                 .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
                                                 .pTexelBufferView = &s->views[t]};
        }
    }
    d->vk.vkUpdateDescriptorSets(d->handle, n, writes, 0, NULL);
    return COLM_OK;
}

static void destroy(gpu_device *d, gpu_set *s) {
    for (int t = 0; t < GPU_TENSORS; t++)
        if (s->views[t]) d->vk.vkDestroyBufferView(d->handle, s->views[t], NULL);
    if (s->pool) {
        d->vk.vkFreeDescriptorSets(d->handle, s->pool->handle, 1, &s->handle);
        s->pool->used--;
    }
    free(s);
}

colm_status gpu_bind(gpu_device *d, gpu_kernel *k, const gpu_range *ranges, size_t n, gpu_set **ret,
                     colm_err *err) {
    colm_status e = gpu_check_alive(d, err);
    for (uint32_t t = 0; t < GPU_TENSORS && !e; t++)
        if ((k->face.storage | k->face.texel) >> t & 1) e = check_range(d, k, ranges, n, t, err);
    if (e) return e;
    gpu_set *s = mem_alloc(1, sizeof *s);
    if (!s) return err_nomem(err, sizeof *s, "a descriptor set");
    s->kernel = k;
    e = allocate(d, s, err);
    if (!e) e = write_set(d, s, ranges, err);
    if (e) {
        destroy(d, s);
        return err_at(err, "%s", k->name);
    }
    s->next = d->sets;
    if (d->sets) d->sets->prev = s;
    d->sets = s;
    *ret = s;
    return COLM_OK;
}

void gpu_unbind(gpu_device *d, gpu_set **set) {
    if (!set || !*set) return;
    gpu_set *s = *set;
    gpu_settle(d);
    if (s->prev)
        s->prev->next = s->next;
    else
        d->sets = s->next;
    if (s->next) s->next->prev = s->prev;
    destroy(d, s);
    *set = NULL;
}

void gpu_sets_free(gpu_device *d) {
    while (d->sets) {
        gpu_set *s = d->sets;
        d->sets = s->next;
        destroy(d, s);
    }
    while (d->pools) {
        gpu_pool *p = d->pools;
        d->pools = p->next;
        d->vk.vkDestroyDescriptorPool(d->handle, p->handle, NULL);
        free(p);
    }
}
