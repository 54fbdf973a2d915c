/* What a compute module asks for, read from its words: bindings, push constants, local size, shared memory,
 * subgroup operations. Every index is checked, so damaged words end in an error. */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/gpu/inside.h"

/* Numbers of the SPIR-V specification. */
enum { MAGIC = 0x07230203, HEADER = 5, MAX_IDS = 4194303 };
enum {
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_TYPE_BOOL = 20,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_MATRIX = 24,
    OP_TYPE_IMAGE = 25,
    OP_TYPE_SAMPLED_IMAGE = 27,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_RUNTIME_ARRAY = 29,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT = 43,
    OP_SPEC_CONSTANT = 50,
    OP_VARIABLE = 59,
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72
};
enum { MODE_LOCAL_SIZE = 17 };
enum {
    DECO_BLOCK = 2,
    DECO_BUFFER_BLOCK = 3,
    DECO_ARRAY_STRIDE = 6,
    DECO_BINDING = 33,
    DECO_SET = 34,
    DECO_OFFSET = 35
};
enum { CLASS_CONSTANT = 0, CLASS_UNIFORM = 2, CLASS_WORKGROUP = 4, CLASS_PUSH = 9, CLASS_STORAGE = 12 };
enum { DIM_BUFFER = 5 };
enum {
    CAP_MATRIX = 0,
    CAP_SHADER = 1,
    CAP_FLOAT16 = 9,
    CAP_INT64 = 11,
    CAP_SAMPLED_BUFFER = 46,
    CAP_IMAGE_QUERY = 50,
    CAP_SUBGROUP = 61,
    CAP_SUBGROUP_END = 69,
    CAP_BF16 = 5116,
    CAP_BF16_MATRIX = 5118,
    CAP_MEMORY_MODEL = 5345,
    CAP_COOPERATIVE_MATRIX = 6022
};

typedef struct {
    const uint32_t *at; /* the instruction that makes it: at[0] = length << 16 | opcode; NULL: none */
    uint32_t binding, set, stride;
    uint32_t last_offset, last_member; /* of a structure with offsets: the member that begins last */
    bool has_binding, has_offsets, buffer_block;
} id;

typedef struct {
    id *ids;
    uint32_t n;
} module;

static uint32_t op(const id *i) {
    return i->at ? i->at[0] & 0xffff : 0;
}
static uint32_t length(const id *i) {
    return i->at ? i->at[0] >> 16 : 0;
}
/* Operand w of the instruction that makes i, 0 when it is not there. */
static uint32_t word(const id *i, uint32_t w) {
    return w < length(i) ? i->at[w] : 0;
}
static const id *get(const module *m, uint32_t n) {
    return &m->ids[n < m->n ? n : 0];
}

/* Bytes of a type as laid out; without offsets and strides (shared memory) packed, so at least. 0: has no size.
 */
static uint64_t type_bytes(const module *m, const id *t, int depth) {
    if (depth > 16) return 0;
    switch (op(t)) {
    case OP_TYPE_BOOL:
        return 4;
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
        return word(t, 2) / 8;
    case OP_TYPE_VECTOR:
        return type_bytes(m, get(m, word(t, 2)), depth + 1) * word(t, 3);
    case OP_TYPE_MATRIX: { /* columns of three are as wide as columns of four */
        const id *column = get(m, word(t, 2));
        const uint64_t bytes = type_bytes(m, column, depth + 1);
        return (word(column, 3) == 3 ? bytes / 3 * 4 : bytes) * word(t, 3);
    }
    case OP_TYPE_ARRAY: {
        const id *n = get(m, word(t, 3));
        const uint64_t each = t->stride ? t->stride : type_bytes(m, get(m, word(t, 2)), depth + 1);
        return op(n) == OP_CONSTANT || op(n) == OP_SPEC_CONSTANT ? (each & UINT32_MAX) * word(n, 3) : 0;
    }
    case OP_TYPE_STRUCT: {
        if (t->has_offsets)
            return t->last_offset + type_bytes(m, get(m, word(t, 2 + t->last_member)), depth + 1);
        uint64_t sum = 0;
        for (uint32_t w = 2; w < length(t) && sum <= UINT32_MAX; w++)
            sum += type_bytes(m, get(m, word(t, w)), depth + 1);
        return sum;
    }
    default:
        return 0;
    }
}

static colm_status read_capability(uint32_t c, gpu_face *face, colm_err *err) {
    if (c >= CAP_SUBGROUP && c < CAP_SUBGROUP_END)
        face->subgroup_ops |= 1u << (c - CAP_SUBGROUP);
    else if (c == CAP_FLOAT16 || c == CAP_BF16 || c == CAP_BF16_MATRIX || c == CAP_MEMORY_MODEL ||
             c == CAP_COOPERATIVE_MATRIX)
        face->matrices = true;
    else if (c == CAP_INT64)
        face->int64 = true;
    else if (c != CAP_MATRIX && c != CAP_SHADER && c != CAP_SAMPLED_BUFFER && c != CAP_IMAGE_QUERY)
        return err_set(err, COLM_E_BUG, "SPIR-V capability %u is not among those that colm switches on", c);
    return COLM_OK;
}

static void read_decoration(module *m, const uint32_t *w, uint32_t len) {
    id *target = w[1] < m->n ? &m->ids[w[1]] : NULL;
    if (!target || len < 3) return;
    const uint32_t value = len > 3 ? w[3] : 0;
    switch (w[2]) {
    case DECO_BUFFER_BLOCK:
        target->buffer_block = true;
        break;
    case DECO_ARRAY_STRIDE:
        target->stride = value;
        break;
    case DECO_BINDING:
        target->binding = value, target->has_binding = true;
        break;
    case DECO_SET:
        target->set = value;
        break;
    default:
        break;
    }
}

static void read_member(module *m, const uint32_t *w, uint32_t len) {
    id *target = w[1] < m->n ? &m->ids[w[1]] : NULL;
    if (!target || len < 5 || w[3] != DECO_OFFSET) return;
    if (!target->has_offsets || w[4] >= target->last_offset)
        target->last_offset = w[4], target->last_member = w[2];
    target->has_offsets = true;
}

/* The word of an instruction that holds the id it makes; 0: not one we look at. */
static uint32_t result_word(uint32_t opcode) {
    if (opcode == OP_CONSTANT || opcode == OP_SPEC_CONSTANT || opcode == OP_VARIABLE) return 2;
    return opcode >= OP_TYPE_BOOL && opcode <= OP_TYPE_POINTER ? 1 : 0;
}

static colm_status read_all(module *m, const uint32_t *words, size_t n, gpu_face *face, colm_err *err) {
    for (size_t at = HEADER; at < n;) {
        const uint32_t *w = words + at, len = w[0] >> 16, opcode = w[0] & 0xffff, result = result_word(opcode);
        if (!len || len > n - at) return err_set(err, COLM_E_BUG, "SPIR-V is damaged at word %zu", at);
        colm_status s = COLM_OK;
        if (opcode == OP_CAPABILITY && len > 1) s = read_capability(w[1], face, err);
        if (opcode == OP_EXECUTION_MODE && len > 5 && w[2] == MODE_LOCAL_SIZE)
            for (int i = 0; i < 3; i++) face->local[i] = w[3 + i];
        if (opcode == OP_DECORATE && len > 2) read_decoration(m, w, len);
        if (opcode == OP_MEMBER_DECORATE && len > 4) read_member(m, w, len);
        if (result && result < len && w[result] < m->n) m->ids[w[result]].at = w;
        if (s) return s;
        at += len;
    }
    return COLM_OK;
}

static colm_status bind_texels(const module *m, const id *type, uint32_t binding, gpu_face *face,
                               colm_err *err) {
    const id *image = op(type) == OP_TYPE_SAMPLED_IMAGE ? get(m, word(type, 2)) : type;
    const id *sample = get(m, word(image, 2));
    const bool pairs = op(sample) == OP_TYPE_INT && !word(sample, 3); /* unsigned */
    if (op(image) != OP_TYPE_IMAGE || word(image, 3) != DIM_BUFFER || (op(sample) != OP_TYPE_FLOAT && !pairs) ||
        binding < GPU_TENSORS || binding >= 2 * GPU_TENSORS)
        return err_set(err, COLM_E_BUG,
                       "binding %u: only samplerBuffer and usamplerBuffer are known here, at bindings %d to %d",
                       binding, GPU_TENSORS, 2 * GPU_TENSORS - 1);
    face->texel |= 1u << (binding - GPU_TENSORS);
    if (pairs) face->pairs |= 1u << (binding - GPU_TENSORS);
    return COLM_OK;
}

static colm_status read_variable(const module *m, const id *v, gpu_face *face, colm_err *err) {
    const id *pointer = get(m, word(v, 1)), *type = get(m, word(pointer, 3));
    switch (word(v, 3)) {
    case CLASS_PUSH: {
        const uint64_t bytes = type_bytes(m, type, 0);
        if (!bytes || bytes > GPU_PUSH)
            return err_set(err, COLM_E_BUG, "%llu bytes of push constants, expected 1 to %d",
                           (unsigned long long)bytes, GPU_PUSH);
        face->push_bytes = (uint32_t)bytes;
        return COLM_OK;
    }
    case CLASS_WORKGROUP: {
        const uint64_t bytes = face->shared_bytes + type_bytes(m, type, 0);
        face->shared_bytes = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
        return COLM_OK;
    }
    case CLASS_CONSTANT:
    case CLASS_UNIFORM:
    case CLASS_STORAGE:
        break;
    default:
        return COLM_OK; /* private, function, built-in */
    }
    if (v->set || !v->has_binding)
        return err_set(err, COLM_E_BUG, "set %u binding %u: every resource must have a binding in set 0",
                       v->set, v->binding);
    if (word(v, 3) == CLASS_CONSTANT) return bind_texels(m, type, v->binding, face, err);
    if (op(type) != OP_TYPE_STRUCT || (word(v, 3) == CLASS_UNIFORM && !type->buffer_block) ||
        v->binding >= GPU_TENSORS)
        return err_set(err, COLM_E_BUG, "binding %u: only storage buffers are known here, at bindings 0 to %d",
                       v->binding, GPU_TENSORS - 1);
    face->storage |= 1u << v->binding;
    return COLM_OK;
}

colm_status gpu_reflect(const uint32_t *words, size_t n, gpu_face *ret, colm_err *err) {
    if (n < HEADER || words[0] != MAGIC || !words[3] || words[3] > MAX_IDS)
        return err_set(err, COLM_E_BUG, "not SPIR-V: %zu words", n);
    module m = {.ids = mem_alloc(words[3], sizeof *m.ids), .n = words[3]};
    if (!m.ids) return err_nomem(err, words[3] * sizeof *m.ids, "the ids of a SPIR-V module");
    gpu_face face = {0};
    colm_status s = read_all(&m, words, n, &face, err);
    for (uint32_t i = 1; i < m.n && !s; i++)
        if (op(&m.ids[i]) == OP_VARIABLE) s = read_variable(&m, &m.ids[i], &face, err);
    if (!s && (!face.local[0] || !face.local[1] || !face.local[2]))
        s = err_set(err, COLM_E_BUG, "it declares no fixed local size");
    free(m.ids);
    if (!s) *ret = face;
    return s;
}
