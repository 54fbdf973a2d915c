/* From a device's name to a machine that owns it. */
#include <string.h>

#include "engine/ops/internal.h"

colm_status ops_open(const ops_open_params *p, ops_machine **ret, colm_err *err) {
    if (p->device && strcmp(p->device, "reference") == 0) return ops_open_ref(ret, err);
    gpu_device *d = NULL;
    ops_machine *m = NULL;
    gpu_params g = {
        .device = p->device, .validate = p->validate, .submit_flops = p->submit_flops, .log = p->log};
    ops_machine_params mp = {.kernels = p->kernels, .sync = p->sync, .log = p->log};
    colm_status st = gpu_open(&g, &d, err);
    if (!st) st = ops_open_gpu(d, &mp, &m, err);
    if (st) {
        gpu_close(&d);
        return st;
    }
    m->owned = d;
    *ret = m;
    return COLM_OK;
}

unsigned ops_validation_messages(const ops_machine *m) {
    return m->owned ? gpu_validation_messages(m->owned) : 0;
}
