/* How the elements of buffers are stored. */
#include <string.h>

#include "engine/ops/internal.h"
#include "engine/tensor/half.h"

const ops_storage *storage_of(ops_dtype t) {
    static const ops_storage table[] = {[OPS_F32] = {4, "f32"},
                                        [OPS_U32] = {4, "u32"},
                                        [OPS_BF16] = {2, "bf16", tensor_to_bf16, tensor_from_bf16},
                                        [OPS_F16] = {2, "f16", tensor_to_f16, tensor_from_f16}};
    return &table[t];
}

size_t ops_dtype_size(ops_dtype t) {
    return storage_of(t)->size;
}
const char *ops_dtype_name(ops_dtype t) {
    return storage_of(t)->name;
}

void ops_pack(ops_dtype t, const void *from, void *to, size_t n) {
    const ops_storage *s = storage_of(t);
    if (!s->narrow) {
        memmove(to, from, n * s->size);
        return;
    }
    const float *f = from;
    uint16_t *h = to;
    for (size_t i = 0; i < n; i++) h[i] = s->narrow(f[i]);
}

void ops_unpack(ops_dtype t, const void *from, void *to, size_t n) {
    const ops_storage *s = storage_of(t);
    if (!s->narrow) {
        memmove(to, from, n * s->size);
        return;
    }
    const uint16_t *h = from;
    float *f = to;
    for (size_t i = 0; i < n; i++) f[i] = s->widen(h[i]);
}
