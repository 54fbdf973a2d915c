/* From a device's name to a machine that owns it. */
#include <string.h>

#include "engine/ops/internal.h"

static colm_status open_reference(const gpu_switches *s, ops_machine **ret, colm_err *err) {
    const char *other = gpu_switches_of_devices(s);
    if (other)
        return err_set(err, COLM_E_USAGE, "COLM_DEBUG: %s acts on Vulkan devices, not on the reference", other);
    colm_status st = ops_open_ref(ret, err);
    if (!st) (*ret)->switches = *s;
    return st;
}

colm_status ops_open(const ops_open_params *p, ops_machine **ret, colm_err *err) {
    gpu_switches switches;
    colm_status st = gpu_switches_get(p->switches, &switches, err);
    if (st) return st;
    if (p->device && strcmp(p->device, "reference") == 0) return open_reference(&switches, ret, err);
    gpu_device *d = NULL;
    ops_machine *m = NULL;
    gpu_params g = {.device = p->device,
                    .validate = p->validate,
                    .submit_flops = p->submit_flops,
                    .switches = &switches,
                    .log = p->log};
    ops_machine_params mp = {.kernels = p->kernels, .sync = p->sync, .log = p->log};
    st = gpu_open(&g, &d, err);
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
