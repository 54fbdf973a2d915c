/* What the reader and the writer of safetensors files share. */
#ifndef COLM_TENSOR_SAFETENSORS_FORMAT_H
#define COLM_TENSOR_SAFETENSORS_FORMAT_H

#define LENGTH_BYTES 8
#define HEADER_MAX ((size_t)100000000)
#define META_KEY "__metadata__"

#endif
