#include "engine/tensor/safetensors.h"

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "tests/base/folder.h"
#include "tests/test.h"

static colm_err err;
static safetensors *file;

// A file of a header and n bytes of data, as they are.
static const char *put(const char *header, size_t n) {
    static char bytes[1 << 16];
    size_t len = strlen(header);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(len >> (8 * i) & 0xFF);
    memcpy(bytes + 8, header, len);
    for (size_t i = 0; i < n; i++) bytes[8 + len + i] = (char)i;
    return folder_put("x.safetensors", bytes, 8 + len + n);
}
static bool opened(const char *header, size_t n) {
    safetensors_close(&file);
    return CHECK_OK(safetensors_open(put(header, n), &file, &err), err);
}
static void refused(const char *header, size_t n, const char *message) {
    safetensors_close(&file);
    CHECK(safetensors_open(put(header, n), &file, &err) == COLM_E_INPUT);
    CHECK(file == NULL);
    CHECK_HAS(err.text, "x.safetensors");
    CHECK_HAS(err.text, message);
}

static void reads(void) {
    // Any length of header, __metadata__ last, tensors out of the order of their data, a scalar, an empty one.
    if (!opened("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[2,10]},"
                "\"a\":{\"shape\":[],\"dtype\":\"BF16\",\"data_offsets\":[0,2]},"
                "\"none\":{\"data_offsets\":[2,2],\"dtype\":\"I64\",\"shape\":[0,3]},"
                "\"__metadata__\":{\"format\":\"pt\",\"\":\"empty\"}}",
                10)) {
        return;
    }
    CHECK(safetensors_count(file) == 3);
    static const char *const order[] = {"a", "none", "b"};
    for (size_t i = 0; i < 3; i++) CHECK_STR(safetensors_at(file, i)->name, order[i]);
    CHECK(safetensors_at(file, 3) == NULL);
    const safetensors_entry *b = safetensors_find(file, "b"), *a = safetensors_find(file, "a"),
                            *none = safetensors_find(file, "none");
    if (!CHECK(a && b && none)) return;
    CHECK(b->dtype == TENSOR_F32 && b->shape.n == 2 && b->shape.dim[0] == 2 && b->shape.dim[1] == 1 &&
          b->bytes == 8);
    CHECK(memcmp(b->data, "\2\3\4\5\6\7\10\11", 8) == 0);
    CHECK(a->dtype == TENSOR_BF16 && a->shape.n == 0 && a->bytes == 2 && memcmp(a->data, "\0\1", 2) == 0);
    CHECK(none->dtype == TENSOR_I64 && none->shape.n == 2 && none->bytes == 0 && none->data != NULL);
    CHECK(safetensors_find(file, "__metadata__") == NULL && safetensors_find(file, "c") == NULL);
    CHECK_STR(safetensors_meta(file, "format"), "pt");
    CHECK_STR(safetensors_meta(file, ""), "empty");
    CHECK(safetensors_meta(file, "a") == NULL);
    if (opened("{}", 0)) CHECK(safetensors_count(file) == 0 && safetensors_find(file, "a") == NULL);
    if (opened("{\"__metadata__\":{}}     ", 0))
        CHECK(safetensors_count(file) == 0 && safetensors_meta(file, "a") == NULL);
    if (opened("{\"\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1],\"data_offsets\":[0,1]}}", 1))
        CHECK(safetensors_find(file, "") != NULL);
}

#define ONE(fields) "{\"t\":{" fields "}}"

static void refuses_headers(void) {
    safetensors_close(&file);
    CHECK(safetensors_open(folder_at("absent"), &file, &err) == COLM_E_IO);
    CHECK(safetensors_open(folder_put("x.safetensors", "", 0), &file, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "x.safetensors: 0 bytes are too few for a safetensors file");
    CHECK(safetensors_open(folder_put("x.safetensors", "1234567", 7), &file, &err) == COLM_E_INPUT);
    static const char lies[][11] = {"\3\0\0\0\0\0\0\0{}", "\377\377\377\377\377\377\377\377{}",
                                    "\0\0\0\0\0\0\0\200{}"};
    for (size_t i = 0; i < 3; i++) {
        CHECK(safetensors_open(folder_put("x.safetensors", lies[i], 10), &file, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, "x.safetensors: claims a header of ");
    }
    CHECK(safetensors_open(folder_put("x.safetensors", "\2\0\0\0\0\0\0\0{", 9), &file, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "claims a header of 2 bytes, the file has 1");
    CHECK(safetensors_open(folder_put("x.safetensors", "\0\0\0\0\0\0\0\0{}", 10), &file, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "does not begin with {");
    refused(" {}", 0, "does not begin with {");
    refused("[]", 0, "does not begin with {");
    refused("{", 0, "(header):1:2: expected a key");
    refused("{}x", 0, "(header):1:3: expected nothing after the value");
    refused("{\"__metadata__\":[]}", 0, "__metadata__: an array is not an object");
    refused("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__.a: 1 is not a string");
    refused("{\"t\":5}", 0, "t: 5 is not an object");
    refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__: duplicate key");
    refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"t\":{\"dtype\":\"U8\",\"shape\":["
            "0],\"data_offsets\":[0,0]}}",
            0, "t: duplicate key");
}

static void limits_the_header(void) {
    // A sparse file: a header longer than the limit, within the file.
    const char *path = folder_put("x.safetensors", "\1\341\365\5\0\0\0\0{", 9); // 100,000,001
    CHECK(truncate(path, 100000100) == 0);
    CHECK(safetensors_open(path, &file, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "claims a header of 100000001 bytes, the limit is 100000000");
}

static void refuses_tensors(void) {
    refused(ONE("\"shape\":[1],\"data_offsets\":[0,1]"), 1, "t: key \"dtype\" is missing");
    refused(ONE("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, "t: key \"shape\" is missing");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1]"), 1, "t: key \"data_offsets\" is missing");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"shap\":1"), 1,
            "t: unknown key \"shap\"");
    refused(ONE("\"dtype\":\"F8_E5M2\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
            "t.dtype: dtype \"F8_E5M2\" is not supported");
    refused(ONE("\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]"), 1, "t.dtype: 7 is not a string");
    refused(ONE("\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]"), 1, "t.shape: 1 is not an array");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,1]"), 1,
            "t.shape: has 5 items, expected 0 to 4");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1,
            "t.shape[0]: -1 is not a whole number");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]"), 1,
            "t.shape[0]: 1.0 is not a whole number");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,1]"), 1,
            "t.shape: more elements");
    refused(ONE("\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,1]"), 1,
            "t.shape: more elements"); // 2^61 * 8
    refused(ONE("\"dtype\":\"U8\",\"shape\":[18446744073709551615],\"data_offsets\":[0,1]"), 1,
            "t.shape: more elements");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]"), 0,
            "t.shape: more elements");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]"), 1,
            "t.data_offsets: has 1 item, expected 2");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]"), 1,
            "t.data_offsets[1]: 0 is not a whole number from 1 to 1");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]"), 1,
            "t.data_offsets[1]: 2 is not a whole number from 0 to 1");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]"), 1, "t.data_offsets[0]: 2 is not");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]"), 1, "t.data_offsets[0]: -1 is not");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4,
            "t.data_offsets: hold 4 bytes, but its shape and dtype F32 make 8");
    refused(ONE("\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,1]"), 1, "t.data_offsets: hold 1 bytes");
}

#define A "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}"
static void refuses_layouts(void) {
    refused("{" A "}", 3, "1 bytes of data follow the last tensor");
    refused("{}", 1, "1 bytes of data follow the last tensor");
    refused("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
            "tensor \"b\": begins at byte 1 of the data, inside");
    refused("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "they overlap");
    refused("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}", 5,
            "tensor \"b\": begins at byte 3 of the data, after a hole");
    refused("{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}", 5, "after a hole");
    refused("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}}", 2,
            "tensor \"b\": begins at byte 1 of the data, inside");
    if (opened("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}", 2))
        CHECK(safetensors_count(file) == 2);
    if (opened("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 2))
        CHECK(safetensors_count(file) == 2);
}

static const safetensors_decl decls[] = {
    {"blocks.0.w", TENSOR_F32, {2, {2, 3}}},
    {"empty", TENSOR_F32, {1, {0}}},
    {"b\"\\\xC3\xA9", TENSOR_U8, {1, {3}}},
    {"scalar", TENSOR_F64, {0, {0}}},
};
static const safetensors_pair pairs[] = {{"z", "last \"first\"\n"}, {"a", ""}};

static colm_status save(const char *path, size_t chunk) {
    safetensors_writer *w = NULL;
    colm_status s = safetensors_writer_open(path, decls, 4, pairs, 2, &w, &err);
    char bytes[35];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i + 1);
    for (size_t at = 0; at < sizeof bytes && !s; at += chunk) {
        s = safetensors_writer_data(w, bytes + at, chunk < sizeof bytes - at ? chunk : sizeof bytes - at, &err);
    }
    if (!s) s = safetensors_writer_commit(&w, &err);
    safetensors_writer_abandon(&w);
    return s;
}

static void writes_what_it_reads(void) {
    static const char header[] =
        "{\"__metadata__\":{\"z\":\"last \\\"first\\\"\\n\",\"a\":\"\"},"
        "\"blocks.0.w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"empty\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[24,24]},"
        "\"b\\\"\\\\\xC3\xA9\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]},"
        "\"scalar\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[27,35]}}";
    static const size_t chunks[] = {1, 35, 8};
    size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    for (size_t k = 0; k < 3; k++) {
        char *bytes = NULL;
        size_t n = 0;
        if (!CHECK_OK(save(folder_at("w.safetensors"), chunks[k]), err)) return;
        if (!CHECK_OK(file_read(folder_at("w.safetensors"), 0, &bytes, &n, &err), err)) return;
        CHECK(n == 8 + padded + 35 && (unsigned char)bytes[0] == padded % 256 &&
              (unsigned char)bytes[1] == padded / 256);
        CHECK(memcmp(bytes + 8, header, sizeof header - 1) == 0);
        for (size_t i = sizeof header - 1; i < padded; i++) CHECK(bytes[8 + i] == ' ');
        for (size_t i = 0; i < 35; i++) CHECK(bytes[8 + padded + i] == (char)(i + 1));
        free(bytes);
    }
    safetensors_close(&file);
    if (!CHECK_OK(safetensors_open(folder_at("w.safetensors"), &file, &err), err)) return;
    CHECK(safetensors_count(file) == 4);
    for (size_t i = 0; i < 4; i++) {
        const safetensors_entry *e = safetensors_at(file, i);
        CHECK_STR(e->name, decls[i].name);
        CHECK(e->dtype == decls[i].dtype && memcmp(&e->shape, &decls[i].shape, sizeof e->shape) == 0);
        CHECK(safetensors_find(file, e->name) == e);
    }
    CHECK_STR(safetensors_meta(file, "z"), pairs[0].value);
    CHECK_STR(safetensors_meta(file, "a"), "");
}

static void writer_wants_every_byte(void) {
    safetensors_writer *w = NULL;
    char bytes[40] = {0};
    const char *path = folder_put("kept.safetensors", "old", 3);
    size_t before = folder_count(folder_path);
    if (!CHECK_OK(safetensors_writer_open(path, decls, 4, NULL, 0, &w, &err), err)) return;
    CHECK_OK(safetensors_writer_data(w, bytes, 24, &err), err);
    CHECK(safetensors_writer_commit(&w, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "kept.safetensors: not saved, the data of tensor \"b");
    CHECK(w == NULL);
    if (!CHECK_OK(safetensors_writer_open(path, decls, 4, NULL, 0, &w, &err), err)) return;
    CHECK_OK(safetensors_writer_data(w, bytes, 30, &err), err);
    CHECK(safetensors_writer_data(w, bytes, 6, &err) == COLM_E_BUG);
    CHECK_HAS(err.text, "6 bytes given, but only 5 are left");
    safetensors_writer_abandon(&w);
    CHECK(w == NULL && folder_count(folder_path) == before);
    char *old = NULL;
    size_t n = 0;
    if (CHECK_OK(file_read(path, 0, &old, &n, &err), err)) CHECK_STR(old, "old");
    free(old);
    CHECK(safetensors_writer_commit(&w, &err) == COLM_E_BUG);
}

static void writer_refuses(void) {
    static const struct {
        safetensors_decl decl[2];
        const char *message;
    } wrong[] = {
        {{{"a", TENSOR_U8, {0, {0}}}, {"a", TENSOR_F32, {0, {0}}}},
         "\"a\" is given twice as the name of a tensor"},
        {{{"a", TENSOR_U8, {0, {0}}}, {"__metadata__", TENSOR_F32, {0, {0}}}},
         "\"__metadata__\" cannot be the name of a tensor"},
        {{{"a", TENSOR_U8, {0, {0}}}, {"\xFF", TENSOR_F32, {0, {0}}}}, "cannot be the name of a tensor"},
        {{{"a", TENSOR_U8, {0, {0}}}, {"b", (tensor_dtype)50, {0, {0}}}}, "tensor \"b\": no such dtype"},
        {{{"a", TENSOR_U8, {0, {0}}}, {"b", TENSOR_F32, {5, {1, 1, 1, 1}}}},
         "tensor \"b\": no such dtype, or too large a shape"},
        {{{"a", TENSOR_U8, {0, {0}}}, {"b", TENSOR_F32, {1, {1ull << 62}}}},
         "tensor \"b\": no such dtype, or too large a shape"},
        {{{"a", TENSOR_U8, {1, {UINT64_MAX - 1}}}, {"b", TENSOR_F32, {1, {1}}}},
         "tensor \"b\": no such dtype, or too large a shape"},
    };
    safetensors_writer *w = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(safetensors_writer_open(folder_at("never"), wrong[i].decl, 2, NULL, 0, &w, &err) == COLM_E_INPUT);
        CHECK_HAS(err.text, wrong[i].message);
    }
    static const safetensors_pair twice[] = {{"k", "1"}, {"k", "2"}}, broken[] = {{"k", "\xC0\x80"}};
    CHECK(safetensors_writer_open(folder_at("never"), decls, 1, twice, 2, &w, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "\"k\" is given twice");
    CHECK(safetensors_writer_open(folder_at("never"), decls, 1, broken, 1, &w, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "the value of \"k\" is not UTF-8");
    CHECK(safetensors_writer_open(folder_at("no/folder"), decls, 1, NULL, 0, &w, &err) == COLM_E_IO);
    CHECK(w == NULL && !file_exists(folder_at("never")));
    CHECK_OK(safetensors_writer_open(folder_at("void"), NULL, 0, NULL, 0, &w, &err), err);
    CHECK_OK(safetensors_writer_commit(&w, &err), err);
    safetensors_close(&file);
    if (CHECK_OK(safetensors_open(folder_at("void"), &file, &err), err)) CHECK(safetensors_count(file) == 0);
}

static void failing_memory(void) {
    long k = 0;
    colm_status s = COLM_E_MEMORY;
    for (; k < 200 && s; k++) {
        mem_fail_after(k);
        s = save(folder_at("w.safetensors"), 35);
        mem_fail_after(-1);
        CHECK(s == COLM_OK || s == COLM_E_MEMORY);
    }
    CHECK(s == COLM_OK && k > 5);
    safetensors_close(&file);
    for (k = 0, s = COLM_E_MEMORY; k < 200 && s; k++) {
        mem_fail_after(k);
        s = safetensors_open(folder_at("w.safetensors"), &file, &err);
        mem_fail_after(-1);
        // A lost hint is no failure: what does succeed is whole.
        CHECK(s == COLM_E_MEMORY ? file == NULL : s == COLM_OK && safetensors_count(file) == 4);
    }
    CHECK(s == COLM_OK && k > 10);
}

int main(void) {
    folder_make();
    TEST(reads);
    TEST(refuses_headers);
    TEST(limits_the_header);
    TEST(refuses_tensors);
    TEST(refuses_layouts);
    TEST(writes_what_it_reads);
    TEST(writer_wants_every_byte);
    TEST(writer_refuses);
    TEST(failing_memory);
    safetensors_close(&file);
    folder_remove();
    return test_end();
}
