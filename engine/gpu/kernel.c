/* The table of kernels: SPIR-V made into pipelines, each set of parameters once. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/gpu/inside.h"

/* Place of a key in the sorted table; *ret_found when it is there. */
static size_t place_of(const gpu_device *d, const char *key, bool *ret_found) {
    size_t from = 0, to = d->n_kernels;
    *ret_found = false;
    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        const int order = strcmp(d->kernels[mid]->key, key);
        if (!order) *ret_found = true;
        if (order >= 0)
            to = mid;
        else
            from = mid + 1;
    }
    return from;
}

static colm_status check_face(const gpu_device *d, const gpu_kernel_params *p, const gpu_face *f,
                              colm_err *err) {
    const gpu_info *i = &d->found.info;
    const uint64_t local = (uint64_t)f->local[0] * f->local[1] * f->local[2];
    for (int a = 0; a < 3; a++)
        if (f->local[a] > d->found.limits.maxComputeWorkGroupSize[a])
            return err_set(err, COLM_E_BUG, "local size %u in %c, the device takes %u", f->local[a], "xyz"[a],
                           d -> found.limits.maxComputeWorkGroupSize[a]);
    if (local > i->max_invocations)
        return err_set(err, COLM_E_BUG, "%llu invocations per workgroup, the device takes %u",
                       (unsigned long long)local, i->max_invocations);
    if (f->shared_bytes > i->shared_memory)
        return err_set(err, COLM_E_BUG, "%u bytes of shared memory, the device has %u", f->shared_bytes,
                       i->shared_memory);
    if (f->int64 && !i->int64) return err_set(err, COLM_E_BUG, "integers of 64 bits, which the device has not");
    if (f->subgroup_ops & ~d->found.subgroup_ops)
        return err_set(err, COLM_E_BUG, "subgroup operations %#x, the device has %#x in compute",
                       f->subgroup_ops, d->found.subgroup_ops);
    if (f->matrices && !i->n_matrices)
        return err_set(err, COLM_E_BUG, "cooperative matrices, which the device has not or hides");
    if (p->subgroup && !d->found.size_control && p->subgroup != i->subgroup)
        return err_set(err, COLM_E_BUG, "needs subgroups of %u, the device has %u", p->subgroup, i->subgroup);
    if (p->subgroup && d->found.size_control &&
        (p->subgroup < d->found.subgroup_min || p->subgroup > d->found.subgroup_max ||
         (p->subgroup & (p->subgroup - 1))))
        return err_set(err, COLM_E_BUG, "needs subgroups of %u, the device has %u to %u", p->subgroup,
                       d->found.subgroup_min, d->found.subgroup_max);
    return COLM_OK;
}

static colm_status make_layouts(gpu_device *d, gpu_kernel *k, colm_err *err) {
    VkDescriptorSetLayoutBinding bindings[2 * GPU_TENSORS];
    uint32_t n = 0;
    for (uint32_t b = 0; b < 2 * GPU_TENSORS; b++) {
        const bool texel = b >= GPU_TENSORS;
        if (!((texel ? k->face.texel : k->face.storage) >> (b % GPU_TENSORS) & 1)) continue;
        bindings[n++] =
            (VkDescriptorSetLayoutBinding){.binding = b,
                                           .descriptorType = texel ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
                                                                   : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .descriptorCount = 1,
                                           .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    }
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = n, .pBindings = bindings};
    VkResult r = d->vk.vkCreateDescriptorSetLayout(d->handle, &set, NULL, &k->set_layout);
    if (r) return gpu_fail(d, r, "vkCreateDescriptorSetLayout", err);
    /* Sizes of push ranges are multiples of 4. */
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, k->face.push_bytes};
    const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .setLayoutCount = 1,
                                               .pSetLayouts = &k->set_layout,
                                               .pushConstantRangeCount = k->face.push_bytes ? 1 : 0,
                                               .pPushConstantRanges = &push};
    r = d->vk.vkCreatePipelineLayout(d->handle, &layout, NULL, &k->layout);
    return r ? gpu_fail(d, r, "vkCreatePipelineLayout", err) : COLM_OK;
}

static colm_status make_pipeline(gpu_device *d, gpu_kernel *k, uint32_t subgroup, colm_err *err) {
    VkShaderModule module = VK_NULL_HANDLE;
    const VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = k->n_words * 4, .pCode = k->words};
    VkResult r = d->vk.vkCreateShaderModule(d->handle, &code, NULL, &module);
    if (r) return gpu_fail(d, r, "vkCreateShaderModule", err);
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT,
        .requiredSubgroupSize = subgroup};
    const bool ask = subgroup && d->found.size_control;
    const bool full = ask && d->found.full_subgroups && k->face.local[0] % subgroup == 0;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = ask ? &size : NULL,
                  .flags = full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = k->layout};
    r = d->vk.vkCreateComputePipelines(d->handle, VK_NULL_HANDLE, 1, &info, NULL, &k->pipeline);
    d->vk.vkDestroyShaderModule(d->handle, module, NULL);
    return r ? gpu_fail(d, r, "vkCreateComputePipelines", err) : COLM_OK;
}

static void destroy(gpu_device *d, gpu_kernel *k) {
    if (!k) return;
    if (k->pipeline) d->vk.vkDestroyPipeline(d->handle, k->pipeline, NULL);
    if (k->layout) d->vk.vkDestroyPipelineLayout(d->handle, k->layout, NULL);
    if (k->set_layout) d->vk.vkDestroyDescriptorSetLayout(d->handle, k->set_layout, NULL);
    free(k->words);
    free(k->key);
    free(k->name);
    free(k);
}

/* The key (a line per part, so that no two parameter lists read the same) and the name for messages. */
static colm_status write_names(const gpu_kernel_params *p, str *key, str *name, colm_err *err) {
    str_addf(key, "%s\n", p->file);
    str_addf(name, "%s", p->file);
    for (size_t i = 0; i < p->n_defines; i++) {
        str_addf(key, "%s\n", p->defines[i]);
        str_addf(name, "%s%s", i ? " " : " [", p->defines[i]);
    }
    if (p->n_defines) str_add(name, "]");
    str_addf(key, "\t%d %u", p->optimize, p->subgroup);
    return key->failed || name->failed ? err_nomem(err, 0, "a kernel's name") : COLM_OK;
}

static colm_status insert(gpu_device *d, size_t at, gpu_kernel *k, colm_err *err) {
    if (d->n_kernels == d->cap_kernels) {
        const size_t cap = d->cap_kernels ? 2 * d->cap_kernels : 32;
        gpu_kernel **list = mem_grow(d->kernels, cap, sizeof *list);
        if (!list) return err_nomem(err, cap * sizeof *list, "the table of kernels");
        d->kernels = list;
        d->cap_kernels = cap;
    }
    memmove(d->kernels + at + 1, d->kernels + at, (d->n_kernels - at) * sizeof *d->kernels);
    d->kernels[at] = k;
    d->n_kernels++;
    return COLM_OK;
}

colm_status gpu_kernel_get(gpu_device *d, const gpu_kernel_params *p, gpu_kernel **ret, colm_err *err) {
    str key = {0}, name = {0};
    gpu_kernel *k = NULL;
    size_t at = 0;
    bool found = false;
    colm_status s = gpu_check_alive(d, err);
    if (s) return s;
    s = write_names(p, &key, &name, err);
    if (s) goto out;
    at = place_of(d, key.text, &found);
    if (found) {
        *ret = d->kernels[at];
        goto out;
    }
    k = mem_alloc(1, sizeof *k);
    if (!k) {
        s = err_nomem(err, sizeof *k, "a kernel");
        goto out;
    }
    s = gpu_compile(d, p, &k->words, &k->n_words, err);
    if (!s) s = gpu_reflect(k->words, k->n_words, &k->face, err);
    if (!s) s = check_face(d, p, &k->face, err);
    if (!s) s = make_layouts(d, k, err);
    if (!s) s = make_pipeline(d, k, p->subgroup, err);
    if (!s) s = insert(d, at, k, err);
    if (s) {
        s = err_at(err, "%s", name.text);
        goto out;
    }
    hash_bytes(k->words, k->n_words * 4, k->digest);
    k->key = key.text, k->name = name.text;
    key = name = (str){0};
    *ret = k;
    k = NULL;
out:
    destroy(d, k);
    str_done(&key);
    str_done(&name);
    return s;
}

void gpu_kernels_digest(const gpu_device *d, char ret[33]) {
    /* A chain of digests: no memory is needed, so none can be lacking. */
    char chain[2 * HASH_TEXT] = {0};
    for (size_t i = 0; i < d->n_kernels; i++) {
        memcpy(chain + HASH_TEXT, d->kernels[i]->digest, HASH_TEXT);
        hash_bytes(chain, sizeof chain, chain);
    }
    hash_bytes(chain, HASH_TEXT, ret);
}

void gpu_kernels_free(gpu_device *d) {
    for (size_t i = 0; i < d->n_kernels; i++) destroy(d, d->kernels[i]);
    free(d->kernels);
    d->kernels = NULL;
    d->n_kernels = 0;
}
