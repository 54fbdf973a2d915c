/* From a device's name to a machine that owns it. */
#include <string.h>

#include "engine/gpu/verdict.h"
#include "engine/ops/internal.h"

static colm_status open_reference(const gpu_switches *s, ops_machine **ret, colm_err *err) {
    const char *other = gpu_switches_of_devices(s);
    if (other)
        return err_set(err, COLM_E_USAGE, "COLM_DEBUG: %s acts on Vulkan devices, not on the reference", other);
    colm_status st = ops_open_ref(ret, err);
    if (!st) (*ret)->switches = *s;
    return st;
}

/* A class falls back on the portable one, so both must be sound. */
static colm_status check_verdict(const gpu_device *d, const char *kernels, colm_err *err) {
    const char *const both[] = {kernels, "portable"};
    char failed[256];
    for (size_t i = 0; i < 2; i++)
        if (gpu_verdict_failed(d, both[i], failed, sizeof failed))
            return err_set(
                err, COLM_E_DEVICE,
                "%s, %s: the last `colm selftest` found wrong results with class %s in: %s; run it again "
                "after an update, choose another device or --kernels, or trust it with --unsafe-device",
                gpu_get_info(d)->name, gpu_get_info(d)->driver, both[i], failed);
    return COLM_OK;
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
    ops_machine_params mp = {.kernels = p->kernels, .sync = p->sync, .tune = p->tune, .log = p->log};
    st = gpu_open(&g, &d, err);
    if (!st) st = ops_open_gpu(d, &mp, &m, err);
    if (!st && !p->unsafe) st = check_verdict(d, ops_machine_class(m), err);
    if (st) {
        ops_close(&m);
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
