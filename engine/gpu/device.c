/* Opening and closing a device. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/gpu/inside.h"

#define GPU_SUBMIT_FLOPS 200000000000ull

char *gpu_path(const char *dir, const char *name) {
    const size_t n = strlen(dir), m = strlen(name);
    char *path = mem_alloc(n + m + 2, 1);
    if (!path) return NULL;
    memcpy(path, dir, n);
    if (*dir && *name) path[n] = '/';
    memcpy(path + strlen(path), name, m);
    return path;
}

static colm_status set_folders(gpu_device *d, const gpu_params *p, colm_err *err) {
    const char *shaders = p->shader_dir ? p->shader_dir : getenv("COLM_SHADERS");
    d->shader_dir = gpu_path(shaders && *shaders ? shaders : COLM_SHADER_DIR, "");
    if (!d->shader_dir) return err_nomem(err, 0, "the path of the shader folder");

    const char *cache = p->cache_dir, *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && !*cache) return COLM_OK;
    if (cache)
        d->cache_dir = gpu_path(cache, "");
    else if (base && *base == '/')
        d->cache_dir = gpu_path(base, "colm");
    else if (home && *home)
        d->cache_dir = gpu_path(home, ".cache/colm");
    else
        return COLM_OK;
    if (!d->cache_dir) return err_nomem(err, 0, "the path of the cache folder");
    colm_err why;
    if (file_make_dirs(d->cache_dir, &why)) {
        log_line(&d->watch.log, LOG_DEBUG, "no shader cache: %s", why.text);
        free(d->cache_dir);
        d->cache_dir = NULL;
    }
    return COLM_OK;
}

static colm_status create_device(gpu_device *d, colm_err *err) {
    const gpu_found *f = &d->found;
    const char *extensions[2 + GPU_MATRIX_EXTENSIONS];
    uint32_t n = 0;
    if (f->portability) extensions[n++] = "VK_KHR_portability_subset";
    if (f->size_control_ext) extensions[n++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    n += gpu_matrix_extensions(f, extensions + n);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = f->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT,
        .subgroupSizeControl = f->size_control,
        .computeFullSubgroups = f->full_subgroups};
    const VkPhysicalDeviceFeatures features = {.shaderInt64 = f->info.int64};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = f->size_control ? &sizes : NULL,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = n,
                               .ppEnabledExtensionNames = extensions,
                               .pEnabledFeatures = &features};
    VkResult r = gpu_matrix_create_device(f, &info, &d->handle);
    if (r) return gpu_fail(d, r, "vkCreateDevice", err);
    volkLoadDeviceTable(&d->vk, d->handle);
    d->vk.vkGetDeviceQueue(d->handle, f->family, 0, &d->queue);
    vkGetPhysicalDeviceMemoryProperties(f->handle, &d->memory);
    return COLM_OK;
}

/* What is masked is not there, for whoever asks. */
static void mask(gpu_device *d) {
    const gpu_switches *s = &d->switches;
    gpu_info *i = &d->found.info;
    const bool other = s->subgroup && s->subgroup != i->subgroup;
    if (s->alloc_cap && s->alloc_cap < i->memory) i->memory = s->alloc_cap;
    if (s->no_texels) i->max_texels = 0;
    if (s->no_matrices) i->n_matrices = 0;
    if (s->subgroup) i->subgroup = (uint32_t)s->subgroup;
    if (!s->no_subgroups && !other) return;
    i->subgroup_shuffle = i->subgroup_fixed = d->found.size_control = d->found.full_subgroups = false;
    d->found.size_control_ext = false;
    d->found.subgroup_ops = 0;
}

colm_status gpu_open(const gpu_params *p, gpu_device **ret, colm_err *err) {
    gpu_found *list = NULL;
    size_t n = 0, at = 0;
    gpu_device *d = mem_alloc(1, sizeof *d);
    if (!d) return err_nomem(err, sizeof *d, "a device");
    if (p->log) d->watch.log = *p->log;

    colm_status s = gpu_switches_get(p->switches, &d->switches, err);
    if (s) goto out;
    s = gpu_instance_open(p->validate, &d->watch, &d->instance, err);
    if (s) goto out;
    s = gpu_survey(d->instance.handle, &list, &n, err);
    if (s) goto out;
    s = gpu_choose(list, n, p->device, &at, err);
    if (s) goto out;
    d->found = list[at];
    mask(d);
    s = create_device(d, err);
    if (s) goto out;
    s = gpu_ring_create(d, err);
    if (s) goto out;
    s = set_folders(d, p, err);
    if (s) goto out;
    d->budget = p->submit_flops                 ? p->submit_flops
                : d->found.info.kind == GPU_CPU ? UINT64_MAX
                                                : GPU_SUBMIT_FLOPS;
    log_line(&d->watch.log, LOG_DEBUG, "device %u: %s, %s, Vulkan %s", d->found.info.index, d->found.info.name,
             d->found.info.driver, d->found.info.api);
    *ret = d;
    d = NULL;
out:
    free(list);
    gpu_close(&d);
    return s;
}

void gpu_close(gpu_device **dev) {
    if (!dev || !*dev) return;
    gpu_device *d = *dev;
    if (d->handle) {
        d->vk.vkDeviceWaitIdle(d->handle);
        if (d->n_buffers)
            log_line(&d->watch.log, LOG_WARN, "%zu buffers outlive their device %s", d->n_buffers,
                     d->found.info.name);
        gpu_sets_free(d);
        gpu_kernels_free(d);
        gpu_staging_free(d);
        gpu_ring_free(d);
        d->vk.vkDestroyDevice(d->handle, NULL);
    }
    if (d->compiler) shaderc_compiler_release(d->compiler);
    gpu_instance_close(&d->instance);
    free(d->shader_dir);
    free(d->cache_dir);
    free(d);
    *dev = NULL;
}

const gpu_info *gpu_get_info(const gpu_device *d) {
    return &d->found.info;
}
const gpu_switches *gpu_get_switches(const gpu_device *d) {
    return &d->switches;
}
unsigned gpu_validation_messages(const gpu_device *d) {
    return d->watch.count;
}
