/* Which devices there are, what they can, and which one a wish means. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/gpu/inside.h"

static gpu_kind kind_of(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return GPU_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return GPU_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return GPU_VIRTUAL;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return GPU_CPU;
    default:
        return GPU_OTHER;
    }
}

void gpu_check_budget(gpu_found *f, uint32_t api) {
    const VkPhysicalDeviceLimits *l = &f->limits;
    const struct {
        const char *what;
        uint64_t has, needs;
    } rows[] = {
        {"compute queues", f->family == UINT32_MAX ? 0 : 1, 1},
        {"bytes of push constants", l->maxPushConstantsSize, GPU_PUSH},
        {"storage buffers per stage", l->maxPerStageDescriptorStorageBuffers, GPU_TENSORS},
        {"texel buffers per stage", l->maxPerStageDescriptorSampledImages, GPU_TENSORS},
        {"texels per view", l->maxTexelBufferElements, 65536},
        {"workgroups in x", l->maxComputeWorkGroupCount[0], 65535},
        {"workgroups in y", l->maxComputeWorkGroupCount[1], 65535},
        {"workgroups in z", l->maxComputeWorkGroupCount[2], 65535},
        {"invocations per workgroup", l->maxComputeWorkGroupInvocations, 256},
        {"invocations in x", l->maxComputeWorkGroupSize[0], 256},
        {"bytes of shared memory", l->maxComputeSharedMemorySize, 16384},
        {"bytes per storage binding", l->maxStorageBufferRange, 1u << 27},
    };
    gpu_info *i = &f->info;
    i->usable = false;
    if (api < VK_API_VERSION_1_1) {
        snprintf(i->why, sizeof i->why, "Vulkan %s, colm needs 1.1", i->api);
        return;
    }
    if (i->offset_align > GPU_ALIGN) {
        snprintf(i->why, sizeof i->why, "binding offsets must be multiples of %llu, colm uses %d",
                 (unsigned long long)i->offset_align, GPU_ALIGN);
        return;
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (rows[r].has < rows[r].needs) {
            snprintf(i->why, sizeof i->why, "%llu %s, colm needs %llu", (unsigned long long)rows[r].has,
                     rows[r].what, (unsigned long long)rows[r].needs);
            return;
        }
    i->usable = true;
    i->why[0] = 0;
}

static void find_compute_family(gpu_found *f) {
    VkQueueFamilyProperties list[32];
    uint32_t n = 32;
    vkGetPhysicalDeviceQueueFamilyProperties(f->handle, &n, list);
    f->family = UINT32_MAX;
    for (uint32_t i = n; i-- > 0;)
        if (list[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            f->family = i;
            f->stamp_bits = list[i].timestampValidBits;
        }
}

typedef struct {
    VkExtensionProperties *list;
    uint32_t n;
} extension_list;

static bool has(const void *list, const char *name) {
    const extension_list *e = list;
    for (uint32_t i = 0; i < e->n; i++)
        if (strcmp(e->list[i].extensionName, name) == 0) return true;
    return false;
}

/* Everything that Vulkan 1.1 and later tell beyond the plain limits. */
static void look_closer(gpu_found *f, uint32_t api, const extension_list *e) {
    const bool v12 = api >= VK_API_VERSION_1_2, v13 = api >= VK_API_VERSION_1_3;
    const bool control = v13 || has(e, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties m3 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &id};
    VkPhysicalDeviceSubgroupProperties sub = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                              .pNext = &m3};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sub};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties m4 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES, .maxBufferSize = UINT64_MAX};
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT};
    if (v12 || has(e, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME)) driver.pNext = p.pNext, p.pNext = &driver;
    if (v13 || has(e, VK_KHR_MAINTENANCE_4_EXTENSION_NAME)) m4.pNext = p.pNext, p.pNext = &m4;
    if (control) sizes.pNext = p.pNext, p.pNext = &sizes;
    vkGetPhysicalDeviceProperties2(f->handle, &p);

    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT may = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = control ? &may : NULL};
    vkGetPhysicalDeviceFeatures2(f->handle, &features);

    gpu_info *i = &f->info;
    i->int64 = features.features.shaderInt64;
    for (size_t b = 0; b < 16; b++) snprintf(i->uuid + 2 * b, 3, "%02x", id.deviceUUID[b]);
    if (driver.driverName[0])
        snprintf(i->driver, sizeof i->driver, "%.120s %.120s", driver.driverName, driver.driverInfo);
    i->max_alloc =
        m3.maxMemoryAllocationSize < m4.maxBufferSize ? m3.maxMemoryAllocationSize : m4.maxBufferSize;
    f->subgroup_ops = sub.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT ? sub.supportedOperations : 0;
    i->subgroup = sub.subgroupSize;
    i->subgroup_shuffle = f->subgroup_ops & VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    f->size_control =
        may.subgroupSizeControl && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
    f->full_subgroups = f->size_control && may.computeFullSubgroups;
    f->size_control_ext = f->size_control && !v13;
    f->subgroup_min = sizes.minSubgroupSize, f->subgroup_max = sizes.maxSubgroupSize;
    i->subgroup_fixed = f->full_subgroups && i->subgroup >= f->subgroup_min && i->subgroup <= f->subgroup_max;
}

static colm_status describe(VkPhysicalDevice handle, gpu_found *f, colm_err *err) {
    VkPhysicalDeviceProperties p;
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceProperties(handle, &p);
    vkGetPhysicalDeviceMemoryProperties(handle, &memory);
    *f = (gpu_found){.handle = handle, .limits = p.limits};
    find_compute_family(f);
    gpu_info *i = &f->info;
    snprintf(i->name, sizeof i->name, "%.255s", p.deviceName);
    snprintf(i->api, sizeof i->api, "%u.%u.%u", VK_API_VERSION_MAJOR(p.apiVersion) & 0xffu,
             VK_API_VERSION_MINOR(p.apiVersion), VK_API_VERSION_PATCH(p.apiVersion));
    snprintf(i->driver, sizeof i->driver, "vendor %04x, driver version %08x", p.vendorID, p.driverVersion);
    i->kind = kind_of(p.deviceType);
    for (uint32_t h = 0; h < memory.memoryHeapCount; h++)
        if ((memory.memoryHeaps[h].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
            memory.memoryHeaps[h].size > i->memory)
            i->memory = memory.memoryHeaps[h].size;
    /* A GPU of its own may map some memory too, but reading it through the bus is slower than staging. */
    if (i->kind == GPU_CPU || i->kind == GPU_INTEGRATED)
        for (uint32_t t = 0; t < memory.memoryTypeCount; t++)
            i->host_visible |= (memory.memoryTypes[t].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
    i->max_range = p.limits.maxStorageBufferRange;
    i->max_texels = p.limits.maxTexelBufferElements;
    i->offset_align = p.limits.minStorageBufferOffsetAlignment > p.limits.minTexelBufferOffsetAlignment
                          ? p.limits.minStorageBufferOffsetAlignment
                          : p.limits.minTexelBufferOffsetAlignment;
    memcpy(i->max_groups, p.limits.maxComputeWorkGroupCount, sizeof i->max_groups);
    i->max_invocations = p.limits.maxComputeWorkGroupInvocations;
    i->shared_memory = p.limits.maxComputeSharedMemorySize;
    i->push_bytes = p.limits.maxPushConstantsSize;

    extension_list e = {0};
    colm_status s = COLM_OK;
    if (vkEnumerateDeviceExtensionProperties(handle, NULL, &e.n, NULL)) e.n = 0;
    e.list = mem_alloc(e.n, sizeof *e.list);
    if (!e.list) {
        s = err_nomem(err, e.n * sizeof *e.list, "the list of device extensions");
        goto out;
    }
    if (vkEnumerateDeviceExtensionProperties(handle, NULL, &e.n, e.list) < 0) e.n = 0;
    f->portability = has(&e, "VK_KHR_portability_subset");
    if (p.apiVersion >= VK_API_VERSION_1_1) {
        look_closer(f, p.apiVersion, &e);
        gpu_matrix_find(f, has, &e);
    }
    gpu_check_budget(f, p.apiVersion);
out:
    free(e.list);
    return s;
}

colm_status gpu_survey(VkInstance instance, gpu_found **ret, size_t *ret_n, colm_err *err) {
    uint32_t n = 0, filled = 0;
    VkPhysicalDevice *handles = NULL;
    gpu_found *list = NULL, *sorted = NULL;
    colm_status s = COLM_OK;
    VkResult r = vkEnumeratePhysicalDevices(instance, &n, NULL);
    if (r) return err_set(err, COLM_E_NO_DEVICE, "vkEnumeratePhysicalDevices failed: %s", gpu_result_name(r));
    handles = mem_alloc(n, sizeof *handles);
    list = mem_alloc(n, sizeof *list);
    sorted = mem_alloc(n, sizeof *sorted);
    if (!handles || !list || !sorted) {
        s = err_nomem(err, n * sizeof *list, "the list of devices");
        goto out;
    }
    r = vkEnumeratePhysicalDevices(instance, &n, handles);
    if (r < 0) {
        s = err_set(err, COLM_E_NO_DEVICE, "vkEnumeratePhysicalDevices failed: %s", gpu_result_name(r));
        goto out;
    }
    for (uint32_t i = 0; i < n && !s; i++) s = describe(handles[i], &list[i], err);
    if (s) goto out;
    for (int kind = GPU_DISCRETE; kind <= GPU_CPU; kind++)
        for (uint32_t i = 0; i < n; i++)
            if (list[i].info.kind == (gpu_kind)kind) {
                list[i].info.index = filled;
                sorted[filled++] = list[i];
            }
    *ret = sorted;
    *ret_n = n;
    sorted = NULL;
out:
    free(handles);
    free(list);
    free(sorted);
    return s;
}

colm_status gpu_list(gpu_info **ret, size_t *ret_n, colm_err *err) {
    gpu_instance instance = {0};
    gpu_found *found = NULL;
    size_t n = 0;
    colm_status s = gpu_instance_open(false, NULL, &instance, err);
    if (s) goto out;
    s = gpu_survey(instance.handle, &found, &n, err);
    if (s) goto out;
    gpu_info *list = mem_alloc(n, sizeof *list);
    if (!list) {
        s = err_nomem(err, n * sizeof *list, "the list of devices");
        goto out;
    }
    for (size_t i = 0; i < n; i++) list[i] = found[i].info;
    *ret = list;
    *ret_n = n;
out:
    free(found);
    gpu_instance_close(&instance);
    return s;
}

/* Whether text starts with part, whatever the case. */
static bool starts(const char *text, const char *part) {
    while (*part && tolower((unsigned char)*text) == tolower((unsigned char)*part)) text++, part++;
    return !*part;
}

/* The ways to read a wish, the surer ones first; the first that names any device decides. */
static bool by_index(const gpu_info *i, const char *wish) {
    char text[16];
    snprintf(text, sizeof text, "%u", i->index);
    return strcmp(text, wish) == 0;
}
/* At least 8 digits from the start, with or without dashes. */
static bool by_uuid(const gpu_info *i, const char *wish) {
    char digits[33] = "";
    size_t n = 0;
    for (; *wish; wish++) {
        if (*wish == '-') continue;
        if (n == 32 || !isxdigit((unsigned char)*wish)) return false;
        digits[n++] = *wish;
    }
    return n >= 8 && starts(i->uuid, digits);
}
static bool by_whole_name(const gpu_info *i, const char *wish) {
    return strlen(i->name) == strlen(wish) && starts(i->name, wish);
}
static bool by_part_of_name(const gpu_info *i, const char *wish) {
    for (const char *at = i->name; *at; at++)
        if (starts(at, wish)) return true;
    return false;
}

static colm_status refuse(const gpu_found *list, size_t n, colm_err *err, const char *what, const char *wish) {
    str s = {0};
    for (size_t i = 0; i < n; i++) {
        const gpu_info *g = &list[i].info;
        str_addf(&s, "%s%u: %s, UUID %s", i ? "; " : "", g->index, g->name, g->uuid);
        if (!g->usable) str_addf(&s, " (not usable: %s)", g->why);
    }
    colm_status code = s.failed ? err_nomem(err, 0, "the list of devices")
                                : err_set(err, COLM_E_NO_DEVICE, "%s%s%s; there is %s", what, *wish ? " " : "",
                                          wish, s.text ? s.text : "none");
    str_done(&s);
    return code;
}

colm_status gpu_choose(const gpu_found *list, size_t n, const char *wish, size_t *ret, colm_err *err) {
    if (!wish || !*wish) {
        for (size_t i = 0; i < n; i++)
            if (list[i].info.usable) {
                *ret = i;
                return COLM_OK;
            }
        return refuse(list, n, err, "no device meets what colm needs", "");
    }
    static bool (*const ways[])(const gpu_info *, const char *) = {by_index, by_uuid, by_whole_name,
                                                                   by_part_of_name};
    /* One or two digits are an index and nothing else: "2" must never mean some 2080. */
    const bool only_index = strlen(wish) <= 2 && strspn(wish, "0123456789") == strlen(wish);
    for (size_t w = 0; w < (only_index ? 1 : 4); w++) {
        size_t hits = 0, hit = 0;
        for (size_t i = 0; i < n; i++)
            if (ways[w](&list[i].info, wish)) hits++, hit = i;
        if (hits > 1)
            return refuse(list, n, err, "choose by index or UUID, for more than one device is called", wish);
        if (!hits) continue;
        const gpu_info *g = &list[hit].info;
        if (!g->usable)
            return err_set(err, COLM_E_NO_DEVICE, "device %u (%s) cannot be used: %s", g->index, g->name,
                           g->why);
        *ret = hit;
        return COLM_OK;
    }
    return refuse(list, n, err, "no device is called", wish);
}
