/* What a selftest found, kept beside the compiled kernels: one file per device, driver and class of kernels,
 * the newest verdict in it. Where there is no cache folder nothing is kept. */
#ifndef COLM_GPU_VERDICT_H
#define COLM_GPU_VERDICT_H

#include "engine/gpu/gpu.h"

/* failed: names of what failed, parted by ' '; NULL or "": all passed. Nothing that happens here fails a run.
 */
void gpu_verdict_keep(const gpu_device *d, const char *kernels, const char *failed);
/* Whether the newest verdict is a failure, and of what, cut to n bytes. No verdict is none. */
bool gpu_verdict_failed(const gpu_device *d, const char *kernels, char *ret, size_t n);

/* What a search for the fastest kernels found, in lines of the caller's; found again only by the same device,
 * driver and class. Nothing that happens here fails a run. */
void gpu_tuning_keep(const gpu_device *d, const char *kernels, const char *lines);
/* The newest lines, for free(), or NULL: there are none, or they are damaged, which is a warning. */
char *gpu_tuning_load(const gpu_device *d, const char *kernels);

#endif
