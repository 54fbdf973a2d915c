/* The loader, the instance and its validation layer, and how failures of Vulkan calls read. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <dlfcn.h>
#include <link.h>
#endif

#include "engine/base/mem.h"
#include "engine/gpu/inside.h"

#define LAYER "VK_LAYER_KHRONOS_validation"
enum { SHOWN = 50 }; /* validation messages; a mistake in a loop makes thousands */

static const struct {
    VkResult code;
    const char *name;
} results[] = {
    {VK_NOT_READY, "VK_NOT_READY"},
    {VK_TIMEOUT, "VK_TIMEOUT"},
    {VK_INCOMPLETE, "VK_INCOMPLETE"},
    {VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY"},
    {VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED"},
    {VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST"},
    {VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED"},
    {VK_ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT"},
    {VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER"},
    {VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS"},
    {VK_ERROR_FRAGMENTED_POOL, "VK_ERROR_FRAGMENTED_POOL"},
    {VK_ERROR_OUT_OF_POOL_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY"},
    {VK_ERROR_INVALID_SHADER_NV, "VK_ERROR_INVALID_SHADER_NV"},
    {VK_ERROR_UNKNOWN, "VK_ERROR_UNKNOWN"},
};

const char *gpu_result_name(VkResult r) {
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].code == r) return results[i].name;
    return "an unknown Vulkan result";
}

colm_status gpu_check_alive(const gpu_device *d, colm_err *err) {
    if (*d->broken)
        return err_set(err, COLM_E_DEVICE, "%s: something had written beyond a buffer for %s when it was freed",
                       d->found.info.name, d->broken);
    if (!d->lost) return COLM_OK;
    return err_set(err, COLM_E_DEVICE, "%s: the device was lost earlier; start again", d->found.info.name);
}

colm_status gpu_fail(gpu_device *d, VkResult r, const char *what, colm_err *err) {
    const char *name = d->found.info.name;
    switch (r) {
    case VK_ERROR_DEVICE_LOST:
        d->lost = true;
        return err_set(
            err, COLM_E_DEVICE,
            "%s: the device was lost in %s; the driver may have stopped work that took too long: try a "
            "smaller submission budget, and look into the system's log",
            name, what);
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return err_set(err, COLM_E_MEMORY, "%s: %s ran out of %s memory", name, what,
                       r == VK_ERROR_OUT_OF_HOST_MEMORY ? "host" : "device");
    default:
        return err_set(err, COLM_E_DEVICE, "%s: %s failed: %s (%d)", name, what, gpu_result_name(r), (int)r);
    }
}

static colm_status open_loader(colm_err *err) {
    if (!vkCreateInstance && volkInitialize() != VK_SUCCESS)
        return err_set(
            err, COLM_E_NO_DEVICE,
            "no Vulkan loader (libvulkan.so.1) was found; install the package libvulkan1 (Debian, Ubuntu) "
            "and a driver such as mesa-vulkan-drivers");
    if (volkGetInstanceVersion() < VK_API_VERSION_1_1)
        return err_set(err, COLM_E_NO_DEVICE,
                       "the Vulkan loader knows only Vulkan 1.0, colm needs 1.1: install a newer libvulkan1");
    return COLM_OK;
}

/* Whether an instance extension is there, of the loader and drivers (layer NULL) or of a layer. */
static bool has_extension(const char *layer, const char *name) {
    uint32_t n = 0;
    bool found = false;
    if (vkEnumerateInstanceExtensionProperties(layer, &n, NULL) != VK_SUCCESS) return false;
    VkExtensionProperties *list = mem_alloc(n, sizeof *list);
    if (list && vkEnumerateInstanceExtensionProperties(layer, &n, list) >= VK_SUCCESS)
        for (uint32_t i = 0; i < n && !found; i++) found = strcmp(list[i].extensionName, name) == 0;
    free(list);
    return found;
}

static bool has_layer(const char *name) {
    uint32_t n = 0;
    bool found = false;
    if (vkEnumerateInstanceLayerProperties(&n, NULL) != VK_SUCCESS) return false;
    VkLayerProperties *list = mem_alloc(n, sizeof *list);
    if (list && vkEnumerateInstanceLayerProperties(&n, list) >= VK_SUCCESS)
        for (uint32_t i = 0; i < n && !found; i++) found = strcmp(list[i].layerName, name) == 0;
    free(list);
    return found;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    (void)severity, (void)types;
    gpu_watch *watch = user;
    if (++watch->count <= SHOWN)
        log_line(&watch->log, LOG_WARN, "validation: %s: %s",
                 data->pMessageIdName ? data->pMessageIdName : "unnamed",
                 data->pMessage ? data->pMessage : "no text");
    if (watch->count == SHOWN) log_line(&watch->log, LOG_WARN, "validation: more messages are only counted");
    return VK_FALSE;
}

#ifdef __SANITIZE_ADDRESS__
/* Drivers leak and are unloaded with their instance; then nothing tells their leaks from ours. So they stay. */
static int keep_loaded(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size, (void)user;
    if (strstr(info->dlpi_name, "libvulkan") || strstr(info->dlpi_name, "libVkLayer") ||
        strstr(info->dlpi_name, "LLVM"))
        dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return 0;
}
#endif

static colm_status no_driver(colm_err *err) {
    static const char *const names[] = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"};
    for (size_t i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return err_set(
                err, COLM_E_NO_DEVICE,
                "the Vulkan loader found no driver where %s=%s points; unset it or name a driver's .json file",
                names[i], value);
    }
    return err_set(
        err, COLM_E_NO_DEVICE,
        "there is a Vulkan loader but no driver; install mesa-vulkan-drivers (Debian, Ubuntu: AMD, Intel and "
        "CPU) or your GPU maker's; a container must be given the graphics capability");
}

colm_status gpu_instance_open(bool validate, gpu_watch *watch, gpu_instance *ret, colm_err *err) {
    colm_status s = open_loader(err);
    if (s) return s;
    if (validate && !has_layer(LAYER))
        return err_set(err, COLM_E_NO_DEVICE,
                       "validation was asked for, but " LAYER " is not installed; install the package "
                       "vulkan-validationlayers or switch validation off");

    const char *extensions[3];
    uint32_t n_extensions = 0;
    VkInstanceCreateFlags flags = 0;
    if (has_extension(NULL, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
        extensions[n_extensions++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
        flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }
    const VkValidationFeatureEnableEXT checks[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkValidationFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                        .enabledValidationFeatureCount = 1,
                                        .pEnabledValidationFeatures = checks};
#ifdef VK_EXT_LAYER_SETTINGS_EXTENSION_NAME
    /* Newer layers look at what shaders access only when asked to. */
    static const VkBool32 on = VK_TRUE;
    static const VkLayerSettingEXT settings[] = {
        {LAYER, "syncval_shader_accesses_heuristic", VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1, &on}};
    const VkLayerSettingsCreateInfoEXT more = {
        .sType = VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT, .settingCount = 1, .pSettings = settings};
    if (validate && has_extension(LAYER, VK_EXT_LAYER_SETTINGS_EXTENSION_NAME)) {
        extensions[n_extensions++] = VK_EXT_LAYER_SETTINGS_EXTENSION_NAME;
        features.pNext = &more;
    }
#endif
    const VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .pNext = &features,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = watch};
    static const char *const layers[] = {LAYER};
    if (validate) extensions[n_extensions++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;

    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "colm",
                                   .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pNext = validate ? &messenger : NULL,
                                       .flags = flags,
                                       .pApplicationInfo = &app,
                                       .enabledLayerCount = validate ? 1 : 0,
                                       .ppEnabledLayerNames = layers,
                                       .enabledExtensionCount = n_extensions,
                                       .ppEnabledExtensionNames = extensions};
    gpu_instance made = {0};
    VkResult r = vkCreateInstance(&info, NULL, &made.handle);
    if (r == VK_ERROR_INCOMPATIBLE_DRIVER) return no_driver(err);
    if (r)
        return err_set(err, COLM_E_NO_DEVICE, "vkCreateInstance failed: %s (%d)", gpu_result_name(r), (int)r);
    volkLoadInstanceOnly(made.handle);

    uint32_t n = 0;
    r = vkEnumeratePhysicalDevices(made.handle, &n, NULL);
#ifdef __SANITIZE_ADDRESS__
    dl_iterate_phdr(keep_loaded, NULL);
#endif
    if (r || !n) {
        gpu_instance_close(&made);
        return no_driver(err);
    }
    if (validate) {
        /* Asked of this instance: volk's pointers belong to the newest one, which may lack the extension. */
        PFN_vkCreateDebugUtilsMessengerEXT create = (PFN_vkCreateDebugUtilsMessengerEXT)vkGetInstanceProcAddr(
            made.handle, "vkCreateDebugUtilsMessengerEXT");
        VkDebugUtilsMessengerCreateInfoEXT plain = messenger;
        plain.pNext = NULL;
        if (!create || create(made.handle, &plain, NULL, &made.messenger)) {
            gpu_instance_close(&made);
            return err_set(err, COLM_E_NO_DEVICE, "validation was asked for, but its messages cannot be heard");
        }
    }
    *ret = made;
    return COLM_OK;
}

void gpu_instance_close(gpu_instance *i) {
    if (i->messenger) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy =
            (PFN_vkDestroyDebugUtilsMessengerEXT)vkGetInstanceProcAddr(i->handle,
                                                                       "vkDestroyDebugUtilsMessengerEXT");
        if (destroy) destroy(i->handle, i->messenger, NULL);
    }
    if (i->handle) vkDestroyInstance(i->handle, NULL);
    *i = (gpu_instance){0};
}
