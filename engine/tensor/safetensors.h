/* safetensors files (huggingface/safetensors format): an 8-byte little-endian header length, a JSON header
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {text: text}}, then the data.
 *
 * Reading is strict: length lies, begin > end, overlaps, holes, duplicate names, wrong sizes, trailing bytes,
 * unknown dtypes and shapes that overflow are COLM_E_INPUT with the file and the tensor's name. Header limit
 * 100 MB. */
#ifndef COLM_TENSOR_SAFETENSORS_H
#define COLM_TENSOR_SAFETENSORS_H

#include "engine/tensor/tensor.h"

typedef struct {
    const char *name;
    tensor_dtype dtype;
    tensor_shape shape;
    const void *data; /* into the memory map; alignment is not promised: read with memcpy */
    size_t bytes;
} safetensors_entry;

typedef struct safetensors safetensors;
COLM_MUST_USE colm_status safetensors_open(const char *path, safetensors **ret, colm_err *err);
void safetensors_close(safetensors **s);
size_t safetensors_count(const safetensors *s);
const safetensors_entry *safetensors_at(const safetensors *s, size_t i); /* in the order of their data */
const safetensors_entry *safetensors_find(const safetensors *s, const char *name);
const char *safetensors_meta(const safetensors *s, const char *key); /* NULL when absent */

/* Writing is atomic (file_out) and deterministic: __metadata__ first with its keys in the order given, tensors
 * in the order given, header padded with spaces to a multiple of 8. Nothing of time, host or path is written.
 * Order: writer_open, then the data of every tensor in the order declared, then writer_commit (checks that
 * every byte came). */
typedef struct {
    const char *name;
    tensor_dtype dtype;
    tensor_shape shape;
} safetensors_decl;
typedef struct {
    const char *key, *value;
} safetensors_pair;
typedef struct safetensors_writer safetensors_writer;
COLM_MUST_USE colm_status safetensors_writer_open(const char *path, const safetensors_decl *decl, size_t n,
                                                  const safetensors_pair *meta, size_t n_meta,
                                                  safetensors_writer **ret, colm_err *err);
COLM_MUST_USE colm_status safetensors_writer_data(safetensors_writer *w, const void *bytes, size_t n,
                                                  colm_err *err);
COLM_MUST_USE colm_status safetensors_writer_commit(safetensors_writer **w, colm_err *err);
void safetensors_writer_abandon(safetensors_writer **w);

#endif
