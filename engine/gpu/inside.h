/* What the files of this room share. Nobody outside includes it but the room's own tests, which put failing
 * functions into `vk` and change `found` to stand in for devices that are not at hand. */
#ifndef COLM_GPU_INSIDE_H
#define COLM_GPU_INSIDE_H

#define VK_NO_PROTOTYPES
#include <shaderc/shaderc.h>
#include <volk.h>

#include "engine/base/hash.h"
#include "engine/gpu/gpu.h"

#define GPU_TENSORS 8             /* storage bindings 0..7; texel views of the same tensors at 8..15 */
#define GPU_ALIGN 256             /* offsets and sizes of buffers */
#define GPU_PUSH 128              /* push constants, bytes */
#define GPU_RING 4                /* submissions under way at once */
#define GPU_STAGING (16ull << 20) /* bytes copied at a time where memory cannot be mapped */
#define GPU_MARK 0x7fc5c01au      /* word of guards and poison: NaN to a float, far outside to an index */
#define GPU_TEXEL 16              /* bytes of an RGBA32F texel ... */
#define GPU_TEXEL_PAIRS 8         /* ... and of an RG32UI one */

/* Where the validation layer reports to. */
typedef struct {
    log_sink log;
    unsigned count;
} gpu_watch;

typedef struct {
    VkInstance handle;
    VkDebugUtilsMessengerEXT messenger;
} gpu_instance;

/* A physical device and what only this room asks of it. */
typedef struct {
    gpu_info info;
    VkPhysicalDevice handle;
    VkPhysicalDeviceLimits limits;
    uint32_t family;                     /* queue family that computes; UINT32_MAX: none */
    uint32_t stamp_bits;                 /* meaningful bits of its timestamps; 0: it has none */
    uint32_t subgroup_ops;               /* VkSubgroupFeatureFlags usable in compute */
    bool size_control;                   /* a required subgroup size may be asked for in compute ... */
    bool full_subgroups;                 /* ... with full subgroups ... */
    uint32_t subgroup_min, subgroup_max; /* ... from here to there */
    bool size_control_ext, portability;  /* device extensions to enable */
    bool matrix_bf16;                    /* some of info.matrix is of bfloat16 */
} gpu_found;

/* What a SPIR-V module asks for, read from its words. Bit t of a mask is tensor t. */
typedef struct {
    uint32_t storage, texel; /* masks of bindings t and 8+t */
    uint32_t pairs;          /* those of texel that are a usamplerBuffer: RG32UI, not RGBA32F */
    uint32_t push_bytes;
    uint32_t shared_bytes; /* workgroup memory, at least */
    uint32_t local[3];
    bool int64;
    uint32_t subgroup_ops; /* VkSubgroupFeatureFlags */
    bool matrices;         /* works with cooperative matrices */
} gpu_face;

typedef struct {
    VkCommandBuffer cmd;
    VkFence fence;
    bool pending;     /* submitted, fence not yet waited for */
    double submitted; /* clock_seconds */
} gpu_slot;

/* Descriptor pools are never destroyed before the device: sets return to the pool they came from. */
typedef struct gpu_pool gpu_pool;
struct gpu_pool {
    gpu_pool *next;
    VkDescriptorPool handle;
    uint32_t used;
};

struct gpu_buffer {
    gpu_device *device;
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t bytes;
    uint64_t base, used; /* first byte behind the guard in front (0: no guards); bytes asked for, in words */
    gpu_buffer *prev, *next; /* of the device's list; the staging buffer is not in it */
    unsigned char *map;      /* NULL: staged */
    unsigned char *real;     /* with non_coherent: the mapping that `map` is a copy of */
    bool coherent;           /* mapped memory needs no flush */
    uint32_t heap;
    uint64_t reserved; /* bytes of the allocation */
    char purpose[64];
};

struct gpu_kernel {
    char *key;  /* file, defines and switches, a line each: the order of the table */
    char *name; /* for messages: "linear.comp [N=1 K=2]" */
    uint32_t *words;
    size_t n_words;
    char digest[HASH_TEXT]; /* of the SPIR-V */
    gpu_face face;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
};

struct gpu_set {
    gpu_set *prev, *next;
    gpu_kernel *kernel;
    gpu_pool *pool;
    VkDescriptorSet handle;
    VkBufferView views[GPU_TENSORS];
};

struct gpu_device {
    gpu_watch watch;
    gpu_instance instance;
    gpu_found found;
    VkPhysicalDeviceMemoryProperties memory;
    VkDevice handle;
    VkQueue queue;
    struct VolkDeviceTable vk;
    bool lost;
    gpu_switches switches;
    uint64_t creations, tries; /* buffers and submissions asked for, while a switch counts them */
    char broken[64];           /* purpose of a buffer that was freed with a broken guard */

    uint64_t allocated; /* by gpu_buffer_create */
    uint64_t heap_used[VK_MAX_MEMORY_HEAPS];
    size_t n_buffers;
    gpu_buffer *staging, *buffers;

    char *shader_dir, *cache_dir; /* cache_dir NULL: no cache */
    shaderc_compiler_t compiler;
    char compiler_id[HASH_TEXT];
    gpu_kernel **kernels; /* sorted by key */
    size_t n_kernels, cap_kernels;

    bool matrix_tried[2],
        matrix_compiles[2]; /* of float16, of bfloat16: the compiler was asked, and takes them */

    gpu_pool *pools;
    gpu_set *sets;

    VkCommandPool command_pool;
    gpu_slot ring[GPU_RING];
    uint32_t slot;  /* next to use, or being recorded when `open` */
    bool open;      /* ring[slot].cmd is being recorded */
    bool recording; /* between gpu_begin and gpu_end */
    bool barrier;   /* asked for, not yet recorded */
    bool dropped;   /* something was freed while recording */
    const gpu_kernel *bound;
    uint64_t budget, work; /* flops per submission, flops in the open command buffer */
    uint64_t submits, recordings;
    double longest, last_done; /* seconds */
};

/* instance.c */
COLM_MUST_USE colm_status gpu_instance_open(bool validate, gpu_watch *watch, gpu_instance *ret, colm_err *err);
void gpu_instance_close(gpu_instance *i);
const char *gpu_result_name(VkResult r);
/* One line for a failed call; a lost device is remembered. */
COLM_MUST_USE colm_status gpu_fail(gpu_device *d, VkResult r, const char *what, colm_err *err);
COLM_MUST_USE colm_status gpu_check_alive(const gpu_device *d, colm_err *err);

/* memory.c */
void gpu_staging_free(gpu_device *d);
/* n bytes at `at` of the whole allocation, guards included, to dst or from src; the other one is NULL. */
COLM_MUST_USE colm_status gpu_move(gpu_buffer *b, uint64_t at, unsigned char *dst, const unsigned char *src,
                                   uint64_t n, colm_err *err);
/* Makes host writes to a mapping reach the device, or the device's reach the host. */
COLM_MUST_USE colm_status gpu_sync_map(gpu_buffer *b, uint64_t at, uint64_t n, bool to_device, colm_err *err);

/* guard.c */
/* First contents: zeros, and what the switches want around them. */
COLM_MUST_USE colm_status gpu_guard_fill(gpu_buffer *b, colm_err *err);
COLM_MUST_USE colm_status gpu_guard_check(gpu_buffer *b, colm_err *err);
/* COLM_E_DEVICE when something wrote beyond a buffer, with its purpose. Nothing may be recording. */
COLM_MUST_USE colm_status gpu_check_guards(gpu_device *d, colm_err *err);

/* matrix.c */
/* Fills info.matrix. has: whether the list names a device extension. */
void gpu_matrix_find(gpu_found *f, bool (*has)(const void *list, const char *name), const void *list);
/* Device extensions that go with them, at most GPU_MATRIX_EXTENSIONS. */
#define GPU_MATRIX_EXTENSIONS 4
uint32_t gpu_matrix_extensions(const gpu_found *f, const char **names);
/* vkCreateDevice with the features that they need switched on. */
VkResult gpu_matrix_create_device(const gpu_found *f, VkDeviceCreateInfo *info, VkDevice *ret);

/* listing.c: free() the list. */
COLM_MUST_USE colm_status gpu_survey(VkInstance instance, gpu_found **ret, size_t *ret_n, colm_err *err);
COLM_MUST_USE colm_status gpu_choose(const gpu_found *list, size_t n, const char *wish, size_t *ret,
                                     colm_err *err);
/* Sets info.usable and info.why from the rest of *f. */
void gpu_check_budget(gpu_found *f, uint32_t api);

/* compile.c: words is free()d by the caller. */
COLM_MUST_USE colm_status gpu_compile(gpu_device *d, const gpu_kernel_params *p, uint32_t **ret_words,
                                      size_t *ret_n, colm_err *err);
char *gpu_path(const char *dir, const char *name); /* NULL on lack of memory; free() it */
/* cache.c, where there is a cache_dir: a miss and a damaged file are both false. */
bool gpu_cache_load(gpu_device *d, const char key[HASH_TEXT], uint32_t **ret_words, size_t *ret_n);
void gpu_cache_store(gpu_device *d, const char key[HASH_TEXT], const uint32_t *words, size_t n);

/* spirv.c */
COLM_MUST_USE colm_status gpu_reflect(const uint32_t *words, size_t n, gpu_face *ret, colm_err *err);

/* kernel.c */
void gpu_kernels_free(gpu_device *d);
/* bind.c */
void gpu_sets_free(gpu_device *d);

/* record.c */
COLM_MUST_USE colm_status gpu_ring_create(gpu_device *d, colm_err *err);
void gpu_ring_free(gpu_device *d);
/* The command buffer that is being recorded, opened if need be. */
COLM_MUST_USE colm_status gpu_record(gpu_device *d, VkCommandBuffer *ret, colm_err *err);
/* Sends off what was recorded (if anything) and waits for everything sent. */
COLM_MUST_USE colm_status gpu_flush(gpu_device *d, colm_err *err);
/* Nothing made from the device is in use when this returns, and what was being recorded is dropped. */
void gpu_settle(gpu_device *d);

#endif
