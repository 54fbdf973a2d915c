/* Switches for honesty: features masked, memory watched, faults injected. Users reach them through one
 * variable, COLM_DEBUG="name=value,name", read once when a device opens; tests fill the structure.
 * engine/ops/SWITCHES.md says what each is good for. All zero: nothing is switched. */
#ifndef COLM_GPU_SWITCHES_H
#define COLM_GPU_SWITCHES_H

#include <stdint.h>

#include "engine/base/err.h"

typedef struct {
    bool no_texels, no_subgroups, no_matrices, no_timestamps; /* the device says that it has none */
    uint64_t subgroup;  /* lanes that it reports; shuffles too are gone unless it has that many */
    uint64_t alloc_cap; /* bytes that all buffers together may take, and the memory it reports */
    bool guard;         /* words before and behind every buffer, looked at after every recording */
    bool poison;        /* what rounding adds behind a buffer's bytes holds NaN, not zero */
    bool non_coherent;  /* mapped memory shows and sees nothing before it is flushed or invalidated */
    uint64_t alloc_fail, device_lost; /* at the so-manieth buffer, submission; from 1 */
    uint64_t nan_grad;                /* a NaN in a gradient of the so-manieth step; from 1 */
    bool hazards;          /* every recording is looked through for calls that lack a barrier (ops/hazard.h) */
    uint64_t drop_barrier; /* the so-manieth barrier of every recording is left out; from 1 */
} gpu_switches;

/* From "name=value,name"; NULL and "" are none. What is not understood is COLM_E_USAGE with what there is. */
COLM_MUST_USE colm_status gpu_switches_parse(const char *text, gpu_switches *ret, colm_err *err);
/* The given ones, or with NULL those of COLM_DEBUG. */
COLM_MUST_USE colm_status gpu_switches_get(const gpu_switches *given, gpu_switches *ret, colm_err *err);
/* The name of the first one that is set and acts on Vulkan devices alone, or NULL. */
const char *gpu_switches_of_devices(const gpu_switches *s);

#endif
