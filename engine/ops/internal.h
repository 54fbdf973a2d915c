/* Private to engine/ops: the references, the variant lists and the machine's insides. */
#ifndef COLM_OPS_INTERNAL_H
#define COLM_OPS_INTERNAL_H

#include "engine/ops/ops.h"

/* References in double (ref_*.c). t[i] is the call's tensor i at its view's start. */
#define OPS_REF(name) void ref_##name(const ops_push *push, void *const t[OPS_MAX_TENSORS])
OPS_REF(embed);
OPS_REF(embed_grad);
OPS_REF(norm);
OPS_REF(norm_dx);
OPS_REF(norm_dg);
OPS_REF(linear);
OPS_REF(linear_dx);
OPS_REF(linear_dw);
OPS_REF(rope);
OPS_REF(attn);
OPS_REF(attn_delta);
OPS_REF(attn_dq);
OPS_REF(attn_dkv);
OPS_REF(swiglu);
OPS_REF(swiglu_grad);
OPS_REF(xent);
OPS_REF(xent_grad);
OPS_REF(sumsq);
OPS_REF(clip);
OPS_REF(adamw);
OPS_REF(zero);
OPS_REF(head_norm);
OPS_REF(head_norm_dx);
OPS_REF(head_norm_dg);
OPS_REF(bias);
OPS_REF(bias_grad);
OPS_REF(add);
OPS_REF(linears);
OPS_REF(linears_dx);
OPS_REF(linears_dw);
OPS_REF(cast);

/* Shader variants per operation, best first (variants_linear.c, variants_attn.c, variants_row.c). */
#define OPS_VARIANTS(name)                      \
    extern const ops_variant variants_##name[]; \
    extern const size_t n_variants_##name
OPS_VARIANTS(embed);
OPS_VARIANTS(embed_grad);
OPS_VARIANTS(norm);
OPS_VARIANTS(norm_dx);
OPS_VARIANTS(norm_dg);
OPS_VARIANTS(linear);
OPS_VARIANTS(linear_dx);
OPS_VARIANTS(linear_dw);
OPS_VARIANTS(rope);
OPS_VARIANTS(attn);
OPS_VARIANTS(attn_delta);
OPS_VARIANTS(attn_dq);
OPS_VARIANTS(attn_dkv);
OPS_VARIANTS(swiglu);
OPS_VARIANTS(swiglu_grad);
OPS_VARIANTS(xent);
OPS_VARIANTS(xent_grad);
OPS_VARIANTS(sumsq);
OPS_VARIANTS(clip);
OPS_VARIANTS(adamw);
OPS_VARIANTS(zero);
OPS_VARIANTS(head_norm);
OPS_VARIANTS(head_norm_dx);
OPS_VARIANTS(head_norm_dg);
OPS_VARIANTS(bias);
OPS_VARIANTS(bias_grad);
OPS_VARIANTS(add);
OPS_VARIANTS(linears);
OPS_VARIANTS(linears_dx);
OPS_VARIANTS(linears_dw);
OPS_VARIANTS(cast);

/* What a call moves and looks like (cost.c): elements per operation, words per kind of push constants. */
#define OPS_ELEMENTS(name) void elements_##name(const ops_call *c, uint64_t n[OPS_MAX_TENSORS])
OPS_ELEMENTS(embed);
OPS_ELEMENTS(embed_grad);
OPS_ELEMENTS(norm);
OPS_ELEMENTS(norm_dx);
OPS_ELEMENTS(norm_dg);
OPS_ELEMENTS(linear);
OPS_ELEMENTS(linear_dx);
OPS_ELEMENTS(linear_dw);
OPS_ELEMENTS(rope);
OPS_ELEMENTS(attn);
OPS_ELEMENTS(attn_delta);
OPS_ELEMENTS(attn_dq);
OPS_ELEMENTS(attn_dkv);
OPS_ELEMENTS(swiglu);
OPS_ELEMENTS(swiglu_grad);
OPS_ELEMENTS(xent);
OPS_ELEMENTS(xent_grad);
OPS_ELEMENTS(sumsq);
OPS_ELEMENTS(clip);
OPS_ELEMENTS(adamw);
OPS_ELEMENTS(zero);
OPS_ELEMENTS(head_norm);
OPS_ELEMENTS(head_norm_dx);
OPS_ELEMENTS(head_norm_dg);
OPS_ELEMENTS(bias);
OPS_ELEMENTS(bias_grad);
OPS_ELEMENTS(add);
OPS_ELEMENTS(cast);
OPS_ELEMENTS(linears);
OPS_ELEMENTS(linears_dx);
OPS_ELEMENTS(linears_dw);
#define OPS_SHAPE_OF(member) void shape_##member(const ops_push *p, char *buf, size_t size)
OPS_SHAPE_OF(embed);
OPS_SHAPE_OF(embed_grad);
OPS_SHAPE_OF(norm);
OPS_SHAPE_OF(linear);
OPS_SHAPE_OF(linears);
OPS_SHAPE_OF(rope);
OPS_SHAPE_OF(attn);
OPS_SHAPE_OF(ew);
OPS_SHAPE_OF(xent);
OPS_SHAPE_OF(sumsq);
OPS_SHAPE_OF(clip);
OPS_SHAPE_OF(adamw);
OPS_SHAPE_OF(zero);
OPS_SHAPE_OF(head_norm);
OPS_SHAPE_OF(bias);
OPS_SHAPE_OF(cast);

/* A way to store elements; of 16-bit floats also to there and back, else NULL. */
typedef struct {
    size_t size;
    const char *name;
    uint16_t (*narrow)(float v);
    float (*widen)(uint16_t bits);
} ops_storage;
const ops_storage *storage_of(ops_dtype t);

static inline bool ops_overlap(ops_view a, ops_view b) {
    return a.buf == b.buf && a.off < b.off + b.len && b.off < a.off + a.len;
}

#define OPS_MAX_PURPOSES 16

/* One buffer; a machine kind keeps its memory in `host` (reference) or `device`. */
typedef struct {
    ops_dtype dtype;
    uint64_t n;
    uint32_t purpose;
    void *host;
    gpu_buffer *device;
    bool live;
} ops_slot;

/* What differs between machines. */
typedef struct {
    colm_status (*buffer)(ops_machine *m, ops_slot *s, const char *purpose, colm_err *err);
    void (*buffer_free)(ops_machine *m, ops_slot *s);
    colm_status (*write)(ops_machine *m, ops_slot *s, uint64_t off, const void *src, uint64_t n, colm_err *err);
    colm_status (*read)(ops_machine *m, ops_slot *s, uint64_t off, void *dst, uint64_t n, colm_err *err);
    colm_status (*prepare)(ops_machine *m, ops_call *c, colm_err *err);
    void (*unprepare)(ops_machine *m, ops_call *c);
    colm_status (*run)(ops_machine *m, const ops_list *const *lists, size_t n, colm_err *err);
    /* ops_run_timed by the machine's own clock; OPS_TIMED_BY_WAITING where it has none, with nothing done or
     * all done. NULL: it never has one. */
    colm_status (*run_timed)(ops_machine *m, const ops_list *const *lists, size_t n, double *seconds,
                             ops_timing *ret, colm_err *err);
    void (*identity)(const ops_machine *m, char *buf, size_t n);
    void (*close)(ops_machine *m);
} ops_vtable;

struct ops_machine {
    const ops_vtable *vt;
    char name[320];
    ops_slot *slot; /* buffer b is slot[b-1] */
    size_t n_slots, cap_slots;
    char purpose[OPS_MAX_PURPOSES][32];
    uint64_t purpose_bytes[OPS_MAX_PURPOSES];
    size_t n_purposes;
    gpu_switches switches;
    uint64_t window;   /* most elements of a view */
    uint64_t memory;   /* bytes for buffers */
    bool fuses;        /* has kernels for joined linears, and gains by them */
    void *own;         /* the machine kind's state */
    gpu_device *owned; /* closed with the machine; NULL when the device is the caller's */
};

/* Of the machine that runs on a device (machine_gpu.c): the kernel that a prepared call has, whether a
 * device takes a class, and the class that a machine prefers. */
const ops_variant *ops_call_variant(const ops_call *c);
struct tune_table *ops_tuned(ops_machine *m); /* its tuned choices, for tests to set (tune.h) */
bool ops_class_runs(const gpu_info *g, const char *kernels);
const char *ops_machine_class(const ops_machine *m);
/* NULL: the machine is no device. */
gpu_device *ops_machine_device(const ops_machine *m);

/* A machine with its table entry and name filled in; NULL on lack of memory. */
ops_machine *machine_new(const ops_vtable *vt, const char *name);
static inline ops_slot *machine_slot(const ops_machine *m, ops_buf b) {
    return &m->slot[b - 1];
}

#endif
