/* Cooperative matrices (VK_KHR_cooperative_matrix) and bfloat16 (VK_KHR_shader_bfloat16): what the device has,
 * as far as the headers that this was built with can ask, and what the shader compiler takes. Where any of the
 * three does not know them there are none, and nothing else changes. */
#include <stdlib.h>
#include <string.h>

#include "engine/gpu/inside.h"

#ifdef VK_KHR_cooperative_matrix

#ifdef VK_KHR_shader_bfloat16
#define HAS_BF16 1
#define TYPE_BF16 VK_COMPONENT_TYPE_BFLOAT16_KHR
#else
#define HAS_BF16 0
#define TYPE_BF16 VK_COMPONENT_TYPE_MAX_ENUM_KHR
#endif

/* Features that a device with matrices switches on, chained in front of *next. */
typedef struct {
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix;
    VkPhysicalDeviceVulkanMemoryModelFeatures model;
    VkPhysicalDeviceShaderFloat16Int8Features half;
#if HAS_BF16
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bf16;
#endif
} feature_chain;

static void *chain(feature_chain *f, bool bf16, void *next) {
    *f = (feature_chain){
        .matrix = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
                   .pNext = &f->model},
        .model = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, .pNext = &f->half},
        .half = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, .pNext = next}};
#if HAS_BF16
    f->bf16 = (VkPhysicalDeviceShaderBfloat16FeaturesKHR){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR, .pNext = next};
    if (bf16) f->half.pNext = &f->bf16;
#else
    (void)bf16;
#endif
    return f;
}

/* A shape that shaders/linear_matrix.comp can use: A and B of one 16-bit type, sums in float32, by subgroup. */
static bool is_ours(const VkCooperativeMatrixPropertiesKHR *p, bool bf16, gpu_matrix *ret) {
    const VkComponentTypeKHR in = p->AType;
    const bool known = in == VK_COMPONENT_TYPE_FLOAT16_KHR || (bf16 && in == TYPE_BF16);
    const bool sizes = (p->MSize == 8 || p->MSize == 16 || p->MSize == 32) &&
                       (p->NSize == 8 || p->NSize == 16 || p->NSize == 32) &&
                       (p->KSize == 8 || p->KSize == 16 || p->KSize == 32) && p->MSize * p->NSize <= 256;
    *ret = (gpu_matrix){p->MSize, p->NSize, p->KSize, in == TYPE_BF16};
    return known && sizes && p->BType == in && p->CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
           p->ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && p->scope == VK_SCOPE_SUBGROUP_KHR;
}

/* Larger products first: fewer loads for each number. */
static void insert(gpu_info *i, gpu_matrix m) {
    uint32_t at = i->n_matrices;
    if (at == GPU_MATRICES) return;
    for (; at && i->matrix[at - 1].m * i->matrix[at - 1].n * i->matrix[at - 1].k < m.m * m.n * m.k; at--)
        i->matrix[at] = i->matrix[at - 1];
    i->matrix[at] = m;
    i->n_matrices++;
}

void gpu_matrix_find(gpu_found *f, bool (*has)(const void *list, const char *name), const void *list) {
    if (!has(list, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) ||
        !has(list, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME) ||
        !has(list, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME) ||
        !vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)
        return;
    feature_chain c;
    bool bf16 = false;
#if HAS_BF16
    bf16 = has(list, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
#endif
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = chain(&c, bf16, NULL)};
    vkGetPhysicalDeviceFeatures2(f->handle, &features);
    if (!c.matrix.cooperativeMatrix || !c.model.vulkanMemoryModel || !c.half.shaderFloat16) return;
#if HAS_BF16
    bf16 = bf16 && c.bf16.shaderBFloat16Type && c.bf16.shaderBFloat16CooperativeMatrix;
#endif
    VkCooperativeMatrixPropertiesKHR shape[64];
    uint32_t n = 64;
    for (uint32_t k = 0; k < n; k++)
        shape[k] =
            (VkCooperativeMatrixPropertiesKHR){.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    if (vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(f->handle, &n, shape) < 0) return;
    for (uint32_t k = 0; k < n; k++) {
        gpu_matrix m;
        if (is_ours(&shape[k], bf16, &m)) insert(&f->info, m);
    }
    for (uint32_t k = 0; k < f->info.n_matrices; k++) f->matrix_bf16 |= f->info.matrix[k].bf16;
}

uint32_t gpu_matrix_extensions(const gpu_found *f, const char **names) {
    uint32_t n = 0;
    if (!f->info.n_matrices) return 0;
    names[n++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    names[n++] = VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME;
    names[n++] = VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME;
#if HAS_BF16
    if (f->matrix_bf16) names[n++] = VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME;
#endif
    return n;
}

VkResult gpu_matrix_create_device(const gpu_found *f, VkDeviceCreateInfo *info, VkDevice *ret) {
    feature_chain c;
    if (f->info.n_matrices) {
        info->pNext = chain(&c, f->matrix_bf16, (void *)(uintptr_t)info->pNext);
        c.matrix.cooperativeMatrix = c.model.vulkanMemoryModel = c.half.shaderFloat16 = VK_TRUE;
#if HAS_BF16
        c.bf16.shaderBFloat16Type = c.bf16.shaderBFloat16CooperativeMatrix = VK_TRUE;
#endif
    }
    return vkCreateDevice(f->handle, info, NULL, ret);
}

#else

void gpu_matrix_find(gpu_found *f, bool (*has)(const void *list, const char *name), const void *list) {
    (void)f, (void)has, (void)list;
}
uint32_t gpu_matrix_extensions(const gpu_found *f, const char **names) {
    (void)f, (void)names;
    return 0;
}
VkResult gpu_matrix_create_device(const gpu_found *f, VkDeviceCreateInfo *info, VkDevice *ret) {
    return vkCreateDevice(f->handle, info, NULL, ret);
}

#endif

const gpu_matrix *gpu_matrix_of(gpu_device *d, bool bf16) {
    const gpu_info *i = &d->found.info;
    const gpu_matrix *m = NULL;
    for (uint32_t k = i->n_matrices; k-- > 0;)
        if (i->matrix[k].bf16 == bf16) m = &i->matrix[k];
    if (!m || d->matrix_tried[bf16]) return d->matrix_compiles[bf16] ? m : NULL;
    d->matrix_tried[bf16] = true;
    const char *define[] = {bf16 ? "BF16=1" : "BF16=0"};
    const gpu_kernel_params p = {.file = "matrix_probe.comp", .defines = define, .n_defines = 1};
    uint32_t *words = NULL;
    size_t n = 0;
    colm_err why;
    if (gpu_compile(d, &p, &words, &n, &why))
        log_line(&d->watch.log, LOG_INFO, "%s has cooperative matrices of %s, the shader compiler does not: %s",
                 i->name, bf16 ? "bfloat16" : "float16", why.text);
    else
        d->matrix_compiles[bf16] = true;
    free(words);
    return d->matrix_compiles[bf16] ? m : NULL;
}
