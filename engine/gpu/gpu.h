/* Vulkan compute through volk: devices, memory, kernels, recording. Knows bytes and kernels, not layers.
 *
 * Order: gpu_list to look, gpu_open, gpu_buffer_create and gpu_kernel_get, gpu_bind once per kernel and set
 * of ranges, then per step gpu_begin, gpu_dispatch..., gpu_end. gpu_close last, after everything made from the
 * device. The loader is opened by the first call that needs it, so programs that never call here never load
 * Vulkan. One thread at a time per device. A lost device fails every later call with COLM_E_DEVICE. */
#ifndef COLM_GPU_GPU_H
#define COLM_GPU_GPU_H

#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/gpu/switches.h"

typedef enum {
    GPU_DISCRETE,
    GPU_INTEGRATED,
    GPU_VIRTUAL,
    GPU_OTHER,
    GPU_CPU
} gpu_kind; /* in order of preference */

/* A product that a subgroup makes together, (m x k) times (k x n), of float16 or bfloat16 with sums in float32.
 */
#define GPU_MATRICES 16
typedef struct {
    uint32_t m, n, k;
    bool bf16;
} gpu_matrix;

/* What a device is and can, as far as the rest of colm asks. Sizes in bytes. */
typedef struct {
    uint32_t index; /* place in gpu_list's order: by kind, then as the driver lists them; CPU types last */
    char name[256];
    char uuid[33];    /* 32 hex digits */
    char driver[256]; /* "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)" */
    char api[16];     /* "1.3.230" */
    gpu_kind kind;
    bool usable; /* meets colm's budget (see gpu_open); else `why` says what is missing */
    char why[160];
    uint64_t memory;       /* largest device-local heap */
    uint64_t max_alloc;    /* one allocation */
    uint64_t max_range;    /* one storage binding */
    uint64_t max_texels;   /* elements of one texel buffer view (RGBA32F: 16 bytes each, RG32UI: 8) */
    uint64_t offset_align; /* of bindings: the larger of storage and texel alignment */
    uint32_t max_groups[3];
    uint32_t max_invocations; /* per workgroup */
    uint32_t shared_memory;
    uint32_t push_bytes;
    uint32_t subgroup;     /* lanes reported */
    bool subgroup_shuffle; /* in compute */
    bool subgroup_fixed;   /* a required size of `subgroup` with full subgroups can be asked for */
    bool int64;            /* integers of 64 bits in shaders */
    uint32_t n_matrices; /* cooperative matrices, the largest first; without the extension, or where the headers
                            of the build know none, 0 */
    gpu_matrix matrix[GPU_MATRICES];
    bool host_visible; /* device memory can be mapped (CPU devices, integrated GPUs) */
} gpu_info;

/* All devices of all drivers. *ret is one block: free() it. No loader or driver: COLM_E_NO_DEVICE with what to
 * install. */
COLM_MUST_USE colm_status gpu_list(gpu_info **ret, size_t *ret_n, colm_err *err);

typedef struct {
    const char *device; /* NULL: first usable. Else an index, a UUID (or its start, 8 digits or more), or part
                           of the name, case-insensitive; ambiguous or no match fails and lists the devices. */
    const char *cache_dir; /* compiled SPIR-V; NULL: $XDG_CACHE_HOME/colm or ~/.cache/colm; "" : no cache */
    const char
        *shader_dir; /* where kernel sources lie; NULL: $COLM_SHADERS, else the path fixed at build time */
    bool validate; /* Khronos validation layer with synchronisation checks; messages go to the sink as warnings
                      and count */
    uint64_t submit_flops; /* most work per submission by the callers' estimates; 0: 200e9 on GPUs, no limit on
                              CPUs */
    const gpu_switches *switches; /* NULL: those of COLM_DEBUG */
    const log_sink *log;          /* may be NULL */
} gpu_params;

typedef struct gpu_device gpu_device;
COLM_MUST_USE colm_status gpu_open(const gpu_params *p, gpu_device **ret, colm_err *err);
void gpu_close(gpu_device **d);
const gpu_info *gpu_get_info(const gpu_device *d);
unsigned gpu_validation_messages(const gpu_device *d);
const gpu_switches *gpu_get_switches(const gpu_device *d);

/* Device memory, zero-filled on creation. Usable as storage, uniform texel (RGBA32F, RG32UI) and transfer; size
 * is rounded up to a multiple of 256 bytes. Not to be created or freed between gpu_begin and gpu_end: creation
 * is COLM_E_BUG then, and freeing drops what was recorded, which gpu_end reports. `purpose` names it in errors.
 * With the switch `guard` whoever wrote beyond the bytes asked for makes gpu_end fail with COLM_E_DEVICE, by
 * purpose. */
typedef struct gpu_buffer gpu_buffer;
COLM_MUST_USE colm_status gpu_buffer_create(gpu_device *d, size_t bytes, const char *purpose, gpu_buffer **ret,
                                            colm_err *err);
void gpu_buffer_free(gpu_buffer **b);
size_t gpu_buffer_bytes(const gpu_buffer *b);
uint64_t gpu_bytes_allocated(const gpu_device *d); /* by gpu_buffer_create, now */
/* Blocking copies; must not be called between gpu_begin and gpu_end. Through a mapping where there is one, else
 * staged in pieces. Out of range is COLM_E_BUG. */
COLM_MUST_USE colm_status gpu_write(gpu_buffer *b, size_t offset, const void *src, size_t bytes, colm_err *err);
COLM_MUST_USE colm_status gpu_read(gpu_buffer *b, size_t offset, void *dst, size_t bytes, colm_err *err);

/* A compute kernel: one GLSL file of the shader folder, compiled with "NAME=value" macros. The interface (which
 * bindings are storage or texel buffers, push-constant bytes, local size) is read from the SPIR-V, not
 * repeated. Convention: descriptor set 0; tensor t is storage buffer binding t (t < 8) and, where the kernel
 * reads it through texels, also uniform samplerBuffer (RGBA32F) or usamplerBuffer (RG32UI) binding 8+t.
 * `#include "x"` names files of the shader folder. */
typedef struct {
    const char *file;           /* "linear.comp" */
    const char *const *defines; /* n_defines texts "NAME=value" */
    size_t n_defines;
    bool optimize;     /* shaderc performance optimisation; off keeps the source's order of work */
    uint32_t subgroup; /* required subgroup size, 0: any. Asked for where the device lets one ask, checked
                          otherwise */
} gpu_kernel_params;
typedef struct gpu_kernel gpu_kernel;
/* Compiled (or taken from the checked cache) and made into a pipeline. Owned by the device; equal parameters
 * give the same kernel. A compile error is COLM_E_BUG with the compiler's first message. */
COLM_MUST_USE colm_status gpu_kernel_get(gpu_device *d, const gpu_kernel_params *p, gpu_kernel **ret,
                                         colm_err *err);
/* The largest cooperative matrix of float16, or bfloat16, that device and shader compiler know; NULL: none. The
 * first call for either may have to compile a few lines. */
const gpu_matrix *gpu_matrix_of(gpu_device *d, bool bf16);
/* Digest of all SPIR-V of kernels made so far, in order of their file and defines: the identity of the
 * numerics. */
void gpu_kernels_digest(const gpu_device *d, char ret[33]);

typedef struct {
    gpu_buffer *buffer;
    size_t offset, bytes; /* offset a multiple of 256; 0 < bytes <= max_range */
} gpu_range;
/* A descriptor set for the kernel's bindings: ranges[t] is tensor t; entries the kernel does not use are
 * ignored. A tensor read through texels is at most max_texels of them. Ranges that do not fit are COLM_E_BUG
 * with the numbers. Owned by the device, freed with gpu_unbind or gpu_close; unbind before freeing the buffers.
 */
typedef struct gpu_set gpu_set;
COLM_MUST_USE colm_status gpu_bind(gpu_device *d, gpu_kernel *k, const gpu_range *ranges, size_t n,
                                   gpu_set **ret, colm_err *err);
void gpu_unbind(gpu_device *d, gpu_set **s);

/* Recording. Between gpu_begin and gpu_end: dispatches and barriers in order; gpu_end waits for the device. A
 * submission that reaches the work budget is sent off at once and recording goes on; results do not depend on
 * it. After a failed gpu_dispatch call gpu_end too. Neither dispatch nor barrier allocates host memory. */
COLM_MUST_USE colm_status gpu_begin(gpu_device *d, colm_err *err);
/* groups over the device's limit per axis are COLM_E_BUG (split over axes before); no groups, no work. push:
 * the kernel's push constants; push_bytes may exceed what it declares by less than 16 (padding of a C
 * structure). */
COLM_MUST_USE colm_status gpu_dispatch(gpu_device *d, gpu_kernel *k, gpu_set *s, const void *push,
                                       size_t push_bytes, const uint32_t groups[3], uint64_t flops,
                                       colm_err *err);
/* Orders all earlier shader work before all later shader work (read after write, write after read, write after
 * write). */
void gpu_barrier(gpu_device *d);
COLM_MUST_USE colm_status gpu_end(gpu_device *d, colm_err *err);
/* Stamps of the device's own clock between dispatches, where its queue keeps one. A stamp marks the moment when
 * all work recorded before it is done; so the differences of neighbouring stamps add up to the whole, and work
 * that ran at the same time as what stands before it counts only from that one's end. */
bool gpu_has_clock(const gpu_device *d);
typedef struct gpu_clock gpu_clock;
/* For at most n stamps in one recording. The caller frees it, before gpu_close and not within a recording;
 * COLM_E_BUG without gpu_has_clock. */
COLM_MUST_USE colm_status gpu_clock_create(gpu_device *d, uint32_t n, gpu_clock **ret, colm_err *err);
void gpu_clock_free(gpu_device *d, gpu_clock **c);
/* Between gpu_begin and gpu_end; a recording's first one starts the count anew. Allocates no host memory. */
COLM_MUST_USE colm_status gpu_clock_stamp(gpu_device *d, gpu_clock *c, colm_err *err);
/* After gpu_end: the first n stamps of the newest recording with any, in seconds since its first. */
COLM_MUST_USE colm_status gpu_clock_read(gpu_device *d, gpu_clock *c, double *ret, uint32_t n, colm_err *err);
/* Whether n stamps, in seconds since the first, can be true of a recording that took `wall` seconds on the
 * host: they never run back, come to something, to no more than the host saw, and to a good part of it where
 * waiting is a trifle. */
bool gpu_clock_credible(const double *at, size_t n, double wall);

/* Submissions so far and the longest one in seconds. */
void gpu_submit_stats(const gpu_device *d, uint64_t *ret_count, double *ret_longest);

#endif
