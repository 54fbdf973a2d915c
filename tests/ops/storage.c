/* Tensors of 16 bits, bit by bit: what a store makes of every kind of float and a load of all 65,536 numbers,
 * on every class, held against engine/tensor/half.h; and what is refused. */
#include "engine/tensor/half.h"
#include "tests/ops/scene.h"

typedef struct {
    ops_dtype t;
    uint16_t (*to)(float v);
    float (*from)(uint16_t bits);
    uint32_t infinity;
} format;
static const format formats[] = {{OPS_BF16, tensor_to_bf16, tensor_from_bf16, 0x7f80},
                                 {OPS_F16, tensor_to_f16, tensor_from_f16, 0x7c00}};
#define EACH_FORMAT(f) for (const format *f = formats; f < formats + COUNT_OF(formats); f++)

static uint32_t bits_of(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static bool is_nan(uint32_t u) {
    return (u & 0x7fffffffu) > 0x7f800000u;
}
static bool is_subnormal(uint32_t u) {
    return (u & 0x7f800000u) == 0 && (u & 0x7fffffu);
}

/* Vulkan lets a device take a subnormal float32 for zero. Which NaN it is does not matter, but it is a quiet
 * one. */
static bool same(uint32_t want, uint32_t got, uint32_t from) {
    if (is_nan(want)) return is_nan(got) && (got & 0x400000u);
    return got == want || ((is_subnormal(from) || is_subnormal(want)) && got == (want & 0x80000000u));
}

/* Numbers of the format and the middles between neighbours, the floats around those, NaNs, and any bits. */
static uint32_t put_floats(const format *f, uint32_t *ret) {
    uint32_t n = 0;
    rng_stream r = rng_open(1, "floats");
    for (uint32_t h = 0; h < f->infinity; h++) {
        const uint32_t low = bits_of(f->from((uint16_t)h)), high = bits_of(f->from((uint16_t)(h + 1)));
        const uint32_t middle = bits_of((float)(((double)f->from((uint16_t)h) +
                                                 (h + 1 == f->infinity ? ldexp(1, f->t == OPS_F16 ? 16 : 128)
                                                                       : (double)f->from((uint16_t)(h + 1)))) /
                                                2));
        const uint32_t all[] = {low, low + 1, high - 1, middle, middle - 1, middle + 1};
        for (size_t k = 0; k < COUNT_OF(all); k++) ret[n] = all[k] | (n % 2) << 31, n++;
    }
    for (uint32_t i = 0; i < 3000; i++) ret[n++] = (uint32_t)rng_u64(&r, i);
    for (uint32_t i = 0; i < 3000; i++) ret[n++] = 0x7f800000u + i * 2797 + (i % 2 << 31);
    for (uint32_t i = 0; i < 3000; i++) ret[n++] = i * 2797 + (i % 2 << 31); /* subnormal, all of them */
    return n;
}

static void stores_round_to_nearest_even(void) {
    if (!machines()) return;
    EACH_FORMAT(f) {
        uint32_t *v = malloc(6 * 32768 * sizeof *v + 9000 * sizeof *v), n = put_floats(f, v);
        scene s = scene_new(OP_CAST);
        s.call.p.cast = (struct abi_cast){n};
        memcpy(scene_tensor(&s, n)->bits + FRAME, v, n * sizeof *v);
        scene_tensor(&s, n);
        scene_store(&s, &f->t, 1);
        for (size_t c = 0; c <= COUNT_OF(scene_gpu); c++) {
            ops_machine *m = c < COUNT_OF(scene_gpu) ? scene_gpu[c] : scene_ref;
            outcome got[OPS_MAX_TENSORS];
            size_t wrong = 0;
            if (!m || !scene_run(m, &s, got)) continue;
            for (uint32_t i = 0; i < n; i++) {
                float x;
                memcpy(&x, &v[i], sizeof x);
                const uint32_t want = bits_of(f->from(f->to(x))), is = got[1].bits[FRAME + i];
                if (!same(want, is, v[i]) && !wrong++)
                    printf("# %s of %08x: %08x, not %08x, %s\n", ops_dtype_name(f->t), v[i], is, want,
                           ops_machine_name(m));
            }
            CHECK(n > 100000 && !wrong);
            outcome_done(got);
        }
        scene_done(&s);
        free(v);
    }
}

/* Runs the scene everywhere and holds n results of tensor k against the numbers of the format in order. */
static void check_all(const scene *s, const format *f, uint32_t k, uint32_t first, bool finite) {
    for (size_t c = 0; c <= COUNT_OF(scene_gpu); c++) {
        ops_machine *m = c < COUNT_OF(scene_gpu) ? scene_gpu[c] : scene_ref;
        outcome got[OPS_MAX_TENSORS];
        size_t wrong = 0;
        if (!m || !scene_run(m, s, got)) continue;
        for (uint32_t h = 0; h < 65536; h++) {
            uint32_t want = bits_of(f->from((uint16_t)h)), is = got[k].bits[FRAME + first + h];
            if (finite && (h & 0x7fff) >= f->infinity) continue;
            if (is_nan(want)) want |= 0x400000u;
            if (!(want << 1) && !(is << 1)) continue; /* zeros of either sign */
            if (!same(want, is, want) && !wrong++)
                printf("# %s, %s %04x: %08x, not %08x, %s\n", ops_get(s->call.op)->name, ops_dtype_name(f->t),
                       h, is, want, ops_machine_name(m));
        }
        CHECK(!wrong);
        outcome_done(got);
    }
}

static void put_all(tensor *t, const format *f) {
    for (uint32_t h = 0; h < 65536; h++) floats(t)[h] = f->from((uint16_t)h);
}

/* Four at a time: x + 0 in float32. One at a time: x * 1 + 0, and in place x * 1 - y * 0. */
static void loads_are_exact(void) {
    if (!machines()) return;
    EACH_FORMAT(f) {
        const ops_dtype types[] = {f->t, OPS_F32, OPS_F32};
        scene add = scene_new(OP_ADD), dot = scene_new(OP_ATTN_DELTA), turn = scene_new(OP_ROPE);
        add.call.p.ew = (struct abi_ew){64, 1024, 1024, 0, 1024, 0};
        put_all(scene_tensor(&add, 65536), f);
        put(scene_tensor(&add, 65536), 64, 1024, 0, 1024, 0, 0);
        scene_tensor(&add, 65536);
        dot.call.p.attn =
            (struct abi_attn){.rows = 65536, .T = 1, .heads = 1, .kv_heads = 1, .hd = 1, .ldo = 1};
        put_all(scene_tensor(&dot, 65536), f);
        tensor *one = scene_tensor(&dot, 65536);
        for (uint32_t i = 0; i < 65536; i++) floats(one)[i] = 1;
        scene_tensor(&dot, 65536);
        turn.call.p.rope = (struct abi_rope){64, 1, 512, 2, 1024, 0, 1};
        put_all(scene_tensor(&turn, 65536), f);
        memcpy(floats(scene_tensor(&turn, 2)), (float[]){1, 0}, 2 * sizeof(float));
        scene *all[] = {&add, &dot, &turn};
        static const uint32_t result[] = {2, 2, 0};
        for (size_t k = 0; k < COUNT_OF(all); k++) {
            scene_store(all[k], types, 3);
            check_all(all[k], f, result[k], 0, k == 2);
            scene_done(all[k]);
        }
    }
}

/* What a machine holds is what was written, and it counts as two bytes. */
static void sixteen_bits_are_kept(void) {
    if (!machines()) return;
    for (size_t c = 0; c <= COUNT_OF(scene_gpu); c++) {
        ops_machine *m = c < COUNT_OF(scene_gpu) ? scene_gpu[c] : scene_ref;
        EACH_FORMAT(f) {
            static uint16_t in[65536], out[65536];
            colm_err err = {0};
            ops_buf b = 0;
            size_t wrong = 0;
            const uint64_t before = m ? ops_bytes(m, "kept") : 0;
            for (uint32_t h = 0; h < 65536; h++) in[h] = (uint16_t)h;
            if (!m || !CHECK_OK(ops_buffer(m, "kept", f->t, 65537, &b, &err), err)) continue;
            CHECK(ops_bytes(m, "kept") - before == 2 * 65537);
            CHECK_OK(ops_write(m, b, 1, in, 65536, &err), err);
            CHECK_OK(ops_read(m, b, 1, out, 65536, &err), err);
            for (uint32_t h = 0; h < 65536; h++)
                wrong += in[h] != out[h] && (h & 0x7fff) <= f->infinity; /* the reference makes NaNs quiet */
            CHECK(!wrong);
            CHECK((ops_doubles(m, b) != NULL) == (m == scene_ref));
            ops_buffer_free(m, &b);
            CHECK(ops_bytes(m, "kept") == before);
        }
    }
}

static void what_cannot_be_stored_so_is_refused(void) {
    static const struct {
        uint32_t tensor;
        ops_dtype t;
        uint64_t off;
        const char *says;
    } cases[] = {{1, OPS_BF16, 0, "norm: tensor 1 is stored as bf16"},
                 {0, OPS_F16, 0, "norm: tensor 0 is stored as f16"},
                 {2, OPS_U32, 0, "norm: tensor 2 is stored as u32"},
                 {2, OPS_BF16, 64, "multiple of 256 bytes"}};
    if (!machines()) return;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (size_t c = 0; c <= COUNT_OF(scene_gpu); c++) {
            ops_machine *m = c < COUNT_OF(scene_gpu) ? scene_gpu[c] : scene_ref;
            colm_err err = {0};
            ops_buf b = 0, other = 0;
            ops_list list = {0};
            if (!m || !CHECK_OK(ops_buffer(m, "test", OPS_F32, 1024, &b, &err), err) ||
                !CHECK_OK(ops_buffer(m, "test", cases[i].t, 1024, &other, &err), err))
                continue;
            ops_call call = {.op = OP_NORM, .p.norm = {.rows = 1, .width = 8, .cols = 8, .ldx = 8, .ldy = 8}};
            for (uint32_t k = 0; k < 4; k++) call.t[k] = (ops_view){b, 64 * k, 64};
            call.t[cases[i].tensor] = (ops_view){other, cases[i].off, 64};
            CHECK_OK(ops_add(&list, &call, &err), err);
            CHECK(ops_prepare(m, &list, &err) == COLM_E_BUG);
            CHECK_HAS(err.text, cases[i].says);
            ops_unprepare(m, &list);
            ops_list_done(&list);
            ops_buffer_free(m, &b);
            ops_buffer_free(m, &other);
        }
}

int main(void) {
    TEST(stores_round_to_nearest_even);
    TEST(loads_are_exact);
    TEST(sixteen_bits_are_kept);
    TEST(what_cannot_be_stored_so_is_refused);
    machines_done();
    return end_with_device();
}
