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

#endif
