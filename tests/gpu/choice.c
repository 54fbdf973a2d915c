/* Which device a wish means, and which devices are good enough: on invented devices, so none is needed. */
#include "engine/gpu/inside.h"
#include "tests/test.h"

/* A device that has just what colm needs. */
static gpu_found invented(uint32_t index, const char *name, const char *uuid) {
    gpu_found f = {.info = {.index = index, .offset_align = 256, .api = "1.1.0"},
                   .limits = {.maxPushConstantsSize = 128,
                              .maxPerStageDescriptorStorageBuffers = 8,
                              .maxPerStageDescriptorSampledImages = 8,
                              .maxTexelBufferElements = 65536,
                              .maxComputeWorkGroupCount = {65535, 65535, 65535},
                              .maxComputeWorkGroupInvocations = 256,
                              .maxComputeWorkGroupSize = {256, 128, 64},
                              .maxComputeSharedMemorySize = 16384,
                              .maxStorageBufferRange = 1u << 27}};
    snprintf(f.info.name, sizeof f.info.name, "%s", name);
    snprintf(f.info.uuid, sizeof f.info.uuid, "%s", uuid);
    gpu_check_budget(&f, VK_API_VERSION_1_1);
    return f;
}

static void the_least_is_enough(void) {
    gpu_found f = invented(0, "least", "");
    CHECK(f.info.usable);
    CHECK_STR(f.info.why, "");
}

static void less_is_refused_by_name(void) {
    gpu_found f;
#define LESS(field, text)                     \
    f = invented(0, "less", "");              \
    f.field -= 1;                             \
    gpu_check_budget(&f, VK_API_VERSION_1_1); \
    CHECK(!f.info.usable);                    \
    CHECK_HAS(f.info.why, text)
    LESS(limits.maxPushConstantsSize, "127 bytes of push constants, colm needs 128");
    LESS(limits.maxPerStageDescriptorStorageBuffers, "7 storage buffers");
    LESS(limits.maxPerStageDescriptorSampledImages, "7 texel buffers");
    LESS(limits.maxTexelBufferElements, "65535 texels");
    LESS(limits.maxComputeWorkGroupCount[0], "65534 workgroups in x");
    LESS(limits.maxComputeWorkGroupCount[1], "65534 workgroups in y");
    LESS(limits.maxComputeWorkGroupCount[2], "65534 workgroups in z");
    LESS(limits.maxComputeWorkGroupInvocations, "255 invocations per workgroup");
    LESS(limits.maxComputeWorkGroupSize[0], "255 invocations in x");
    LESS(limits.maxComputeSharedMemorySize, "16383 bytes of shared memory");
    LESS(limits.maxStorageBufferRange, "134217727 bytes per storage binding");
    LESS(family, "0 compute queues"); /* 0 - 1: none */
    f = invented(0, "old", "");
    gpu_check_budget(&f, VK_API_VERSION_1_0);
    CHECK_HAS(f.info.why, "colm needs 1.1");
    f = invented(0, "coarse", "");
    f.info.offset_align = 512;
    gpu_check_budget(&f, VK_API_VERSION_1_1);
    CHECK_HAS(f.info.why, "multiples of 512");
}

static gpu_found list[4];
static void fill(void) {
    list[0] = invented(0, "Radeon 780M", "aaaaaaaa000000000000000000000001");
    list[1] = invented(1, "GeForce RTX 4090", "bbbbbbbb000000000000000000000002");
    list[2] = invented(2, "GeForce RTX 4090 D", "bbbbbbbb000000000000000000000003");
    list[3] = invented(3, "llvmpipe (LLVM 15)", "cccccccc000000000000000000000004");
}
/* Index chosen; 100 + status when refused. */
static size_t choose(const char *wish, colm_err *err) {
    size_t at = 99;
    colm_status s = gpu_choose(list, 4, wish, &at, err);
    CHECK((s == COLM_OK) == (at != 99)); /* written on success only */
    return s ? 100 + (size_t)s : at;
}

static void wishes_are_understood(void) {
    colm_err err = {0};
    fill();
    CHECK(choose(NULL, &err) == 0);
    CHECK(choose("", &err) == 0);
    CHECK(choose("1", &err) == 1);
    CHECK(choose("radeon", &err) == 0);
    CHECK(choose("GEFORCE RTX 4090", &err) == 1); /* a whole name before a part of one */
    CHECK(choose("4090 d", &err) == 2);
    CHECK(choose("pipe", &err) == 3);
    CHECK(choose("CCCCCCCC", &err) == 3);
    CHECK(choose("bbbbbbbb-0000-0000-0000-000000000003", &err) == 2);
    list[0].info.usable = false;
    CHECK(choose(NULL, &err) == 1);
}

static void wrong_wishes_list_what_there_is(void) {
    colm_err err = {0};
    const size_t refused = 100 + COLM_E_NO_DEVICE;
    fill();
    CHECK(choose("rtx", &err) == refused);
    CHECK_HAS(err.text, "more than one device is called rtx");
    CHECK_HAS(err.text, "1: GeForce RTX 4090, UUID bbbbbbbb000000000000000000000002; 2: GeForce RTX 4090 D");
    CHECK(choose("bbbbbbbb", &err) == refused);
    CHECK(choose("4", &err) == refused); /* an index, never a part of "4090" */
    CHECK_HAS(err.text, "no device is called 4; there is 0: Radeon 780M");
    CHECK(choose("bbbbbbb", &err) == refused); /* 7 digits */
    CHECK(choose("voodoo", &err) == refused);
    list[3].info.usable = false;
    snprintf(list[3].info.why, sizeof list[3].info.why, "7 storage buffers");
    CHECK(choose("llvm", &err) == refused);
    CHECK_STR(err.text, "device 3 (llvmpipe (LLVM 15)) cannot be used: 7 storage buffers");
    for (int i = 0; i < 4; i++) list[i].info.usable = false;
    CHECK(choose(NULL, &err) == refused);
    CHECK_HAS(err.text, "no device meets what colm needs; there is 0: Radeon 780M");
    CHECK_HAS(err.text, "(not usable: 7 storage buffers)");
    CHECK(!strchr(err.text, '\n'));
}

int main(void) {
    TEST(the_least_is_enough);
    TEST(less_is_refused_by_name);
    TEST(wishes_are_understood);
    TEST(wrong_wishes_list_what_there_is);
    return test_end();
}
