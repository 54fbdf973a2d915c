/* Operations: one table, one call format, two machines that run it.
 *
 * An operation is a row of the table: a contract (which tensors it reads and writes, its push constants in
 * shaders/abi.h), a reference in double on the CPU, and shader variants per kernel class. A model is a flat
 * list of ops_call. A machine holds buffers and runs lists: the reference machine in double, the gpu machine
 * through Vulkan in float, and the plan machine, which only counts bytes, so that what a plan prints is what is
 * allocated.
 *
 * Bitwise rule: an output's order of summation depends only on its own chain's input width. So the choice of a
 * variant is a function of (operation, dtype, kernel class, that chain's N and K), never of rows, batch or
 * total width; and a kernel's loop over K starts at 0 and takes fixed steps. */
#ifndef COLM_OPS_OPS_H
#define COLM_OPS_OPS_H

#include "engine/base/log.h"
#include "engine/gpu/gpu.h"
#include "shaders/abi.h"

/* clang-format off */
/* Tensors per operation, in this order (r read, w written, m read and written; u uint32, h a float of any storage, else
 * float32):
 *   embed         token:ru table:r X:m              embed_grad    list:ru start:ru order:ru X:r table:m
 *   norm          X:r gain:r Y:wh stat:w            norm_dx       X:r gain:r stat:r dY:rh dX:m (adds)
 *                                                   norm_dg       X:r stat:r dY:rh dgain:m (adds)
 *   head_norm     X:rh gain:r Y:wh stat:w           head_norm_dx  X:rh gain:r stat:r dY:rh dX:wh
 *                                                   head_norm_dg  X:rh stat:r dY:rh dgain:m (adds)
 *   linear        X:rh W:rh R:rh Y:wh               linear_dx     dY:rh W:rh R:rh dX:wh
 *                                                   linear_dw     dY:rh X:rh R:r dW:w
 *   linears, linears_dx, linears_dw: the same and plan:r, for what ops_fuse makes of several
 *   bias          Y:mh b:r                          bias_grad     dY:rh db:m (adds)
 *   rope          X:mh table:r
 *   attn          Q:rh K:rh V:rh first:ru O:wh      attn_delta    O:rh dO:rh stat:m
 *                 stat:m                            attn_dq       Q:rh K:rh V:rh dO:rh stat:r first:ru dQ:wh
 *                                                   attn_dkv      Q:rh K:rh V:rh dO:rh stat:r first:ru dK:mh dV:mh
 *   swiglu        A:rh B:rh Z:wh                    swiglu_grad   A:mh B:mh dZ:rh (A, B become dA, dB; dZ at lda, ao)
 *   add           A:rh B:rh Z:wh                    cast          X:r Y:wh
 *   xent          logits:r target:ru nll:w top:wu   xent_grad     logits:m target:ru nll:w
 *   sumsq         X:r partial:w                     clip          partial:r out:w
 *   adamw         P:m G:r M:m V:m out:r             zero          X:wh
 * In the norms' gradients dY is at (ldy, yo) and X, dX share (ldx, xo), in matrices of their own. In attn_delta O and dO
 * share (ldo, oo) and O covers the same chains as dO. In the attention gradients dO is at (ldo, oo), dQ laid out as Q, dK
 * and dV as K. attn writes the part lse of stat, the natural logarithm of the sum of exp(score), attn_delta the part
 * delta. first has ops_rows(rows) elements. top is 1 where the target is the first maximum, else 0. */
/* clang-format on */
typedef enum {
    OP_EMBED,
    OP_EMBED_GRAD,
    OP_NORM,
    OP_NORM_DX,
    OP_NORM_DG,
    OP_LINEAR,
    OP_LINEAR_DX,
    OP_LINEAR_DW,
    OP_ROPE,
    OP_ATTN,
    OP_ATTN_DELTA,
    OP_ATTN_DQ,
    OP_ATTN_DKV,
    OP_SWIGLU,
    OP_SWIGLU_GRAD,
    OP_XENT,
    OP_XENT_GRAD,
    OP_SUMSQ,
    OP_CLIP,
    OP_ADAMW,
    OP_ZERO,
    OP_HEAD_NORM,
    OP_HEAD_NORM_DX,
    OP_HEAD_NORM_DG,
    OP_BIAS,
    OP_BIAS_GRAD,
    OP_ADD,
    OP_LINEARS,
    OP_LINEARS_DX,
    OP_LINEARS_DW,
    OP_CAST,
    OP_COUNT
} ops_id;

#define OPS_MAX_TENSORS 8

/* Padded size of a chain's columns, and row stride of a matrix of so many (padded) columns. Strides that are a
 * multiple of 64 floats get 8 more: rows at power-of-two distances fall into the same few cache sets. */
static inline uint32_t ops_pad(uint32_t cols) {
    return (cols + 7u) & ~7u;
}
static inline uint32_t ops_stride(uint32_t padded) {
    return padded % 64u ? padded : padded + 8u;
}
/* Rows allocated for n rows: kernels work on tiles of 16 and may read, and for matrix results write, the rows
 * up to here. Rows beyond n hold zeros or finite values and never reach a result. */
static inline uint32_t ops_rows(uint32_t n) {
    return (n + 15u) & ~15u;
}

typedef uint32_t ops_buf; /* a buffer of a machine, 1-based; 0 is none */

/* Part of a buffer, in elements; off is a multiple of 256 bytes: of 64 elements, or 128 of 16 bits. */
typedef struct {
    ops_buf buf;
    uint64_t off, len;
} ops_view;

typedef union {
    struct abi_embed embed;
    struct abi_embed_grad embed_grad;
    struct abi_norm norm;
    struct abi_linear linear;
    struct abi_linears linears;
    struct abi_rope rope;
    struct abi_attn attn;
    struct abi_ew ew;
    struct abi_xent xent;
    struct abi_sumsq sumsq;
    struct abi_clip clip;
    struct abi_adamw adamw;
    struct abi_zero zero;
    struct abi_head_norm head_norm;
    struct abi_bias bias;
    struct abi_cast cast;
} ops_push;

typedef struct ops_bound ops_bound; /* what a machine prepared for a call */
typedef struct {
    ops_id op;
    ops_view t[OPS_MAX_TENSORS];
    ops_push p; /* may change between runs, except what a variant's fits or defines read (hd, N, K, offsets,
                   strides) */
    ops_bound *bound;
} ops_call;

/* A list of calls, grown by ops_add; `call` is owned by the list. */
typedef struct {
    ops_call *call;
    size_t n, cap;
} ops_list;
COLM_MUST_USE colm_status ops_add(ops_list *l, const ops_call *c, colm_err *err);
void ops_list_done(ops_list *l);

/* One kernel for an operation. Of a class's variants that a device and a call allow, the first that suits the
 * call is taken, or where none does the first. */
typedef struct {
    const char *name;    /* the kernel class, one of ops_classes; --kernels forces one */
    const char *kind;    /* tells variants of one class apart, as "64x32"; NULL: has no name */
    const char *file;    /* in shaders/ */
    const char *defines; /* "A=1 B=2", or NULL */
    bool optimize;       /* shaderc's optimiser */
    uint32_t subgroup;   /* lanes it is written for, 0: any */
    bool whole;          /* wants to be sure that its workgroups are made of whole subgroups */
    bool texels;         /* reads through texel buffers */
    bool matrices;       /* cooperative matrices of the 16-bit type that tensors 0 and 1 share */
    uint32_t shared;     /* bytes of shared memory, where more than the 16384 that every device has */
    bool (*fits)(const ops_push *p);                        /* NULL: always */
    bool (*suits)(const ops_push *p);                       /* fits, and is worth it; NULL: always */
    void (*define)(const ops_push *p, char *buf, size_t n); /* more "A=1 B=2" from the call; NULL: none */
    void (*groups)(const ops_push *p, uint32_t groups[3]);
    uint32_t tile[2]; /* rows and columns of the result that a workgroup makes, and ... */
    void (*tiles)(const ops_push *p, const uint32_t tile[2], uint32_t groups[3]); /* ... in place of groups */
} ops_variant;

/* Kernel classes: "cpu" for CPU devices with subgroups of 8, "gpu" for GPUs, which any device runs, and
 * "portable", to which both fall back call by call. */
typedef enum { OPS_CLASS_CPU, OPS_CLASS_GPU, OPS_CLASS_PORTABLE, OPS_CLASSES } ops_class_id;
extern const char *const ops_classes[OPS_CLASSES];

typedef struct {
    const char *name;
    const char *access; /* per tensor: r, w, m */
    const char *dtypes; /* per tensor: f float32, h float32 or a float of 16 bits, u uint32 */
    size_t push_bytes;
    void (*ref)(const ops_push *p,
                void *const t[OPS_MAX_TENSORS]); /* float tensors as double *, others uint32_t * */
    uint64_t (*flops)(const ops_push *p);        /* estimate, multiply-add = 2 */
    void (*elements)(const ops_call *c, uint64_t n[OPS_MAX_TENSORS]); /* of each tensor: read plus written */
    void (*shape)(const ops_push *p, char *buf, size_t n); /* in words: "N=64 K=256"; at most OPS_SHAPE bytes */
    const ops_variant *variants;                           /* best first */
    const size_t *n_variants;
} ops_row;
#define OPS_SHAPE 64
const ops_row *ops_get(ops_id op);

/* Machines. */

/* How a buffer's elements are stored. Kernels widen the floats of 16 bits when they load them, work in float32
 * and round to nearest even when they store (engine/tensor/half.h); the tensors of one call may be stored in
 * different ways wherever the table says h. */
typedef enum { OPS_F32, OPS_U32, OPS_BF16, OPS_F16 } ops_dtype;
/* Bytes of an element; "f32", "u32", "bf16", "f16". */
size_t ops_dtype_size(ops_dtype t);
const char *ops_dtype_name(ops_dtype t);
/* n floats to what ops_write takes, rounded, and back from what ops_read gives, exactly. Of OPS_F32 and OPS_U32
 * plain copies. `from` and `to` may be the same only of those. */
void ops_pack(ops_dtype t, const void *from, void *to, size_t n);
void ops_unpack(ops_dtype t, const void *from, void *to, size_t n);
typedef struct ops_machine ops_machine;

typedef struct {
    const char *kernels; /* NULL or "auto": best that fits per call; else this one of ops_classes */
    bool sync;           /* wait after every call: to find a fault */
    bool tune; /* ops_prepare measures the variants of every linear it has not seen yet, and the fastest
                  are kept for the device (engine/ops/tune.h); what buffers hold stays */
    const log_sink *log;
} ops_machine_params;

COLM_MUST_USE colm_status ops_open_ref(ops_machine **ret, colm_err *err);
COLM_MUST_USE colm_status ops_open_plan(ops_machine **ret, colm_err *err);
/* The device stays the caller's and must outlive the machine. */
COLM_MUST_USE colm_status ops_open_gpu(gpu_device *d, const ops_machine_params *p, ops_machine **ret,
                                       colm_err *err);

/* A machine by the device's name: "reference", or what gpu_params.device takes; the machine owns the device it
 * opens. */
typedef struct {
    const char *device, *kernels;
    bool validate, sync;
    uint64_t submit_flops;
    const log_sink *log;
    const gpu_switches *switches; /* NULL: those of COLM_DEBUG */
    bool unsafe; /* also a device on which the newest selftest failed (engine/ops/selftest.h) */
    bool tune;   /* as in ops_machine_params */
} ops_open_params;
COLM_MUST_USE colm_status ops_open(const ops_open_params *p, ops_machine **ret, colm_err *err);
/* Messages of the validation layer so far; 0 for machines without one. */
unsigned ops_validation_messages(const ops_machine *m);
void ops_close(ops_machine **m);
/* "reference", "plan", or the kernel class in use with the device, for records: "cpu llvmpipe ...". */
const char *ops_machine_name(const ops_machine *m);
bool ops_machine_is_plan(const ops_machine *m);
/* What is switched for honesty (engine/ops/SWITCHES.md). */
const gpu_switches *ops_switches(const ops_machine *m);

/* A zeroed buffer of n elements. `purpose` groups bytes in plans ("parameters", "activations", ...). */
COLM_MUST_USE colm_status ops_buffer(ops_machine *m, const char *purpose, ops_dtype t, uint64_t n, ops_buf *ret,
                                     colm_err *err);
void ops_buffer_free(ops_machine *m, ops_buf *b);
uint64_t ops_buffer_len(const ops_machine *m, ops_buf b);
/* Bytes now allocated for a purpose (NULL: all), counted as a device would. */
uint64_t ops_bytes(const ops_machine *m, const char *purpose);
/* Most elements that one view may have (the device's binding and texel limits). Tests lower it to see windows
 * at work. */
uint64_t ops_window(const ops_machine *m);
void ops_limit_window(ops_machine *m, uint64_t elements);
/* Bytes that buffers can take in all: the device's largest heap, or the machine's memory where the CPU is the
 * device. */
uint64_t ops_memory(const ops_machine *m);
/* Copies in the buffer's own type (float, uint32_t, or uint16_t: the bits of a bf16 or f16); blocking. On the
 * plan machine they do nothing. */
COLM_MUST_USE colm_status ops_write(ops_machine *m, ops_buf b, uint64_t off, const void *src, uint64_t n,
                                    colm_err *err);
COLM_MUST_USE colm_status ops_read(ops_machine *m, ops_buf b, uint64_t off, void *dst, uint64_t n,
                                   colm_err *err);
/* The reference machine's own doubles, for finite differences; NULL on other machines and uint32 buffers. Of
 * 16-bit floats, too: there they are rounded by every call that writes them, as a device would (double to
 * float32, then to 16 bits). */
double *ops_doubles(ops_machine *m, ops_buf b);

/* Joins neighbouring linears of one kind into one call each, where they share M and buffers and none reads what
 * another makes but to go on with its sum, and where the machine gains by it; results have the same bits. The
 * tables for that lie in a new buffer (purpose "step data"), *ret, which lives as long as the lists; it is as
 * large where nothing is joined, and 0 where nothing could be. Before ops_prepare; calls change their places.
 */
COLM_MUST_USE colm_status ops_fuse(ops_machine *m, ops_list *const *lists, size_t n, ops_buf *ret,
                                   colm_err *err);
/* Makes kernels and descriptors for every call of the list. Once; the list must not move or grow afterwards. */
COLM_MUST_USE colm_status ops_prepare(ops_machine *m, ops_list *l, colm_err *err);
void ops_unprepare(ops_machine *m, ops_list *l); /* before the machine closes or a viewed buffer goes */
/* Runs the lists in order as one recording and waits. Barriers come from the calls' reads and writes. */
COLM_MUST_USE colm_status ops_run(ops_machine *m, const ops_list *const *lists, size_t n, colm_err *err);
/* Bytes that a call must move: each of its tensors once, as far as it is used, at the size of its storage type.
 */
uint64_t ops_call_bytes(const ops_machine *m, const ops_call *c);

/* How ops_run_timed came by its seconds. */
typedef enum {
    OPS_TIMED_BY_STAMPS,          /* one recording with the device's own timestamps between its calls */
    OPS_TIMED_BY_WAITING,         /* each call run and waited for alone: no timestamps there */
    OPS_TIMED_BY_WAITING_DISTRUST /* likewise: the device's timestamps contradicted the host's clock */
} ops_timing;
const char *ops_timing_text(ops_timing t);
/* As ops_run, and writes the seconds of each call: seconds[0 .. calls of all lists - 1], in order. With
 * timestamps a call's time is from the end of what came before it to its own end, so that they add up. The
 * first run on a machine may be done twice, before timestamps that cannot be right are given up. */
COLM_MUST_USE colm_status ops_run_timed(ops_machine *m, const ops_list *const *lists, size_t n, double *seconds,
                                        ops_timing *ret, colm_err *err);
/* Identity of the numerics: machine name and, on a device, the digest of the kernels used. */
void ops_identity(const ops_machine *m, char *buf, size_t n);

#endif
