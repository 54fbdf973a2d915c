/* Operations that work row by row or element by element, of every kernel class, against the reference in
 * double. */
#include "tests/ops/sweep.h"

/* Embedding. */

static scene make_embed(uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t cols = ops_pad(width), vocab = 11 + i, o = offset(i), ld = stride(o, width, i + 1);
    scene s = scene_new(OP_EMBED);
    s.call.p.embed = (struct abi_embed){rows, cols, cols + 8 * (i % 2), ld, o, .scale = 1};
    tensor *token = scene_tensor(&s, rows), *E = scene_tensor(&s, (size_t)vocab * s.call.p.embed.lde);
    scene_tensor(&s, (size_t)rows * ld);
    for (uint32_t r = 0; r < rows; r++) wholes(token)[r] = r * 7 % vocab;
    put(E, vocab, cols, width, s.call.p.embed.lde, 0, 1);
    return s;
}
static void embed(void) {
    sweep(make_embed, (double[]){EXACT});
}

/* `runs` tokens share the rows; the first of them takes what the others leave of `rows`. */
static scene make_embed_grad_runs(uint32_t rows, uint32_t width, uint32_t i, uint32_t runs) {
    uint32_t cols = ops_pad(width), o = offset(i), ldx = stride(o, width, i), lde = cols + 8 * (i % 2);
    scene s = scene_new(OP_EMBED_GRAD);
    s.call.p.embed_grad = (struct abi_embed_grad){runs, cols, lde, ldx, o, i % 2, .scale = 1};
    tensor *list = scene_tensor(&s, runs), *start = scene_tensor(&s, runs + 1), *order = scene_tensor(&s, rows);
    tensor *X = scene_tensor(&s, (size_t)rows * ldx), *E = scene_tensor(&s, (size_t)(2 * runs + 1) * lde);
    for (uint32_t u = 0; u <= runs; u++) wholes(start)[u] = u ? rows - (runs - u) * (rows / (2 * runs)) : 0;
    for (uint32_t u = 0; u < runs; u++) wholes(list)[u] = 2 * u + 1;
    for (uint32_t r = 0; r < rows; r++) wholes(order)[r] = rows - 1 - r;
    put(X, rows, cols, width, ldx, o, 1);
    for (uint32_t u = 0; u < runs && s.call.p.embed_grad.acc; u++) {
        tensor row = *E;
        row.bits += wholes(list)[u] * lde;
        put(&row, 1, cols, width, lde, 0, 1);
    }
    return s;
}
static scene make_embed_grad(uint32_t rows, uint32_t width, uint32_t i) {
    return make_embed_grad_runs(rows, width, i, 1 + rows / 3);
}
static void embed_grad(void) {
    sweep(make_embed_grad, (double[]){1e-12});
}

/* RMS norm. */

static struct abi_norm norm_layout(uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t xo = offset(i), yo = offset(i + 2);
    return (struct abi_norm){rows, width, ops_pad(width), stride(xo, width, i), xo, stride(yo, width, i + 1),
                             yo,   i % 3, 1e-5f};
}

static scene make_norm(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_NORM);
    struct abi_norm p = s.call.p.norm = norm_layout(rows, width, i);
    put(scene_tensor(&s, (size_t)rows * p.ldx), rows, p.cols, width, p.ldx, p.xo, 3);
    put(scene_tensor(&s, p.cols), 1, p.cols, width, p.cols, 0, 1);
    scene_tensor(&s, (size_t)rows * p.ldy);
    scene_tensor(&s, p.so + rows);
    return s;
}
static void norm(void) {
    sweep(make_norm, (double[]){1e-11, 1e-11});
}

/* X, gain and statistics as the forward norm leaves them; the gradients read these. */
static void put_norm_inputs(scene *s, bool gain) {
    struct abi_norm p = s->call.p.norm;
    tensor *X = scene_tensor(s, (size_t)p.rows * p.ldx);
    put(X, p.rows, p.cols, p.width, p.ldx, p.xo, 3);
    if (gain) put(scene_tensor(s, p.cols), 1, p.cols, p.width, p.cols, 0, 1);
    tensor *S = scene_tensor(s, p.so + p.rows);
    for (uint32_t r = 0; r < p.rows; r++) {
        double sum = 0;
        for (uint32_t c = 0; c < p.width; c++) sum += pow(floats(X)[(size_t)r * p.ldx + p.xo + c], 2);
        floats(S)[p.so + r] = (float)(1 / sqrt(sum / p.width + p.eps));
    }
    put(scene_tensor(s, (size_t)p.rows * p.ldy), p.rows, p.cols, p.width, p.ldy, p.yo, 1);
}

static scene make_norm_dx(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_NORM_DX);
    struct abi_norm p = s.call.p.norm = norm_layout(rows, width, i);
    put_norm_inputs(&s, true);
    put(scene_tensor(&s, (size_t)rows * p.ldx), rows, p.cols, width, p.ldx, p.xo, 1);
    return s;
}
static void norm_dx(void) {
    sweep_from(1, make_norm_dx, (double[]){1e-11});
}
/* Of a single column the gradient is the difference of two equal terms: what is left is their rounding. */
static void norm_dx_of_one_column(void) {
    if (!machines()) return;
    scene s = make_norm_dx(129, 1, 1);
    scene_check(&s, "width 1", (double[]){1e-9});
    scene_done(&s);
}

static scene make_norm_dg(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_NORM_DG);
    s.call.p.norm = norm_layout(rows, width, i);
    put_norm_inputs(&s, false);
    put(scene_tensor(&s, ops_pad(width)), 1, ops_pad(width), width, 0, 0, 1);
    return s;
}
static void norm_dg(void) {
    sweep(make_norm_dg, (double[]){1e-11});
}

/* SwiGLU. */

static scene make_ew(ops_id op, uint32_t rows, uint32_t width, uint32_t i, double scale) {
    uint32_t cols = ops_pad(width), ao = offset(i), zo = offset(i + 2);
    scene s = scene_new(op);
    struct abi_ew p = s.call.p.ew =
        (struct abi_ew){rows, cols, stride(ao, width, i), ao, stride(zo, width, i + 1), zo};
    put(scene_tensor(&s, (size_t)rows * p.lda), rows, cols, width, p.lda, ao, scale);
    put(scene_tensor(&s, (size_t)rows * p.lda), rows, cols, width, p.lda, ao, 1);
    if (op == OP_SWIGLU)
        scene_tensor(&s, (size_t)rows * p.ldz);
    else
        put(scene_tensor(&s, (size_t)rows * p.lda), rows, cols, width, p.lda, ao, 1);
    return s;
}
static scene make_swiglu(uint32_t rows, uint32_t width, uint32_t i) {
    return make_ew(OP_SWIGLU, rows, width, i, 4);
}
static scene make_swiglu_grad(uint32_t rows, uint32_t width, uint32_t i) {
    return make_ew(OP_SWIGLU_GRAD, rows, width, i, 4);
}
static void swiglu(void) {
    sweep(make_swiglu, (double[]){1e-11});
}
static void swiglu_grad(void) {
    sweep(make_swiglu_grad, (double[]){1e-11, 1e-11});
}

static void swiglu_of_large_numbers(void) {
    static const float a[] = {-1e4f, 1e4f, -100, 100, -88, 88, -1e30f, 1e30f};
    if (!machines()) return;
    for (int grad = 0; grad < 2; grad++) {
        scene s = make_ew(grad ? OP_SWIGLU_GRAD : OP_SWIGLU, 1, 8, 0, 1);
        for (uint32_t c = 0; c < 8; c++) floats(&s.t[0])[c] = a[c];
        outcome got[OPS_MAX_TENSORS];
        EACH_GPU(m)
        if (scene_run(m, &s, got)) {
            for (uint32_t c = 0; c < 8; c++) {
                float b = floats(&s.t[1])[c], dz = grad ? floats(&s.t[2])[c] : 1;
                float z = ((float *)(void *)got[grad ? 1 : 2].bits)[FRAME + c];
                float da = grad ? ((float *)(void *)got[0].bits)[FRAME + c] : 0;
                float want = a[c] > 0 ? a[c] * (grad ? dz : b) : 0; /* z, or db */
                CHECK_NEAR(z, want, fabsf(want) * 1e-6 + 1e-30);
                CHECK_NEAR(da, grad && a[c] > 0 ? dz * b : 0, 1e-5);
            }
            outcome_done(got);
        }
        scene_done(&s);
    }
}

/* Rotary positions. */

static scene make_rope(uint32_t T, uint32_t hd, uint32_t i) {
    uint32_t heads = 1 + i % 5, rows = T * (1 + i % 3), width = heads * hd, o = offset(i),
             ld = stride(o, width, i);
    scene s = scene_new(OP_ROPE);
    s.call.p.rope = (struct abi_rope){rows, T, heads, hd, ld, o, i % 2 ? -1.0f : 1.0f};
    put(scene_tensor(&s, (size_t)rows * ld), rows, width, width, ld, o, 1);
    tensor *table = scene_tensor(&s, (size_t)T * hd);
    for (uint32_t t = 0; t < T; t++)
        for (uint32_t d = 0; d < hd / 2; d++) {
            double angle = t * pow(1e4, -2.0 * d / hd);
            floats(table)[t * hd + d] = (float)cos(angle);
            floats(table)[t * hd + hd / 2 + d] = (float)sin(angle);
        }
    return s;
}
static void rope_of(const uint32_t *sizes, size_t n_sizes, bool (*check)(scene *s, const char *what)) {
    static const uint32_t lengths[] = {1, 2, 7, 33};
    if (!machines()) return;
    for (uint32_t i = 0; i < n_sizes * COUNT_OF(lengths); i++) {
        uint32_t hd = sizes[i / COUNT_OF(lengths)], T = lengths[i % COUNT_OF(lengths)];
        char what[64];
        scene s = make_rope(T, hd, i);
        snprintf(what, sizeof what, "heads of %u, T %u", hd, T);
        check(&s, what);
        scene_done(&s);
    }
}
static bool check_rope(scene *s, const char *what) {
    return scene_check(s, what, (double[]){1e-13});
}
static bool check_rope_stored(scene *s, const char *what) {
    return scene_check_stored(s, what, (double[]){1e-13});
}
static void rope(void) {
    static const uint32_t sizes[] = {2, 4, 6, 8, 16, 32, 64};
    rope_of(sizes, COUNT_OF(sizes), check_rope);
}

/* Cross-entropy. */

static const uint32_t vocabularies[] = {1, 2, 3, 5, 8, 31, 32, 33, 64, 257, 1000};

/* Targets of every kind: none, the maximum, the last column. Padding columns and rows in memory stay the NaN
 * pattern. */
static scene make_xent(ops_id op, uint32_t rows, uint32_t vocab, uint32_t i) {
    uint32_t ld = ops_stride(ops_pad(vocab));
    scene s = scene_new(op);
    s.call.p.xent = (struct abi_xent){rows, vocab, ld, 1.0f / (float)(rows + i)};
    tensor *L = scene_tensor(&s, (size_t)ops_rows(rows) * ld), *target = scene_tensor(&s, rows);
    scene_tensor(&s, rows);
    if (op == OP_XENT) scene_tensor(&s, rows);
    put(L, rows, vocab, vocab, ld, 0, 3);
    for (uint32_t r = 0; r < rows; r++) {
        const float *l = floats(L) + (size_t)r * ld;
        uint32_t best = 0;
        for (uint32_t c = 1; c < vocab; c++) best = l[c] > l[best] ? c : best;
        uint32_t kinds[] = {best, r * 13 % vocab, vocab - 1, ABI_NO_TARGET, best};
        wholes(target)[r] = kinds[(r + i) % COUNT_OF(kinds)];
    }
    return s;
}

static void xent_sweep(ops_id op, const double *limits) {
    if (!machines()) return;
    for (uint32_t r = 0, i = 0; r < COUNT_OF(rows_that_hurt); r++)
        for (uint32_t v = 0; v < COUNT_OF(vocabularies); v++, i++) {
            char what[64];
            scene s = make_xent(op, rows_that_hurt[r], vocabularies[v], i);
            snprintf(what, sizeof what, "%u rows, vocabulary %u", rows_that_hurt[r], vocabularies[v]);
            scene_check(&s, what, limits);
            scene_done(&s);
        }
}
static void xent(void) {
    xent_sweep(OP_XENT, (double[]){1e-11, EXACT});
}
static void xent_grad(void) {
    xent_sweep(OP_XENT_GRAD, (double[]){1e-11, 1e-11});
}

/* Of equal maxima only the first is the answer; logits far apart and far from 0 do not overflow. */
static void xent_of_ties_and_large_numbers(void) {
    if (!machines()) return;
    for (uint32_t first = 0; first < 70; first += 23) {
        scene s = make_xent(OP_XENT, 5, 70, 0);
        for (uint32_t r = 0; r < 5; r++) {
            float *l = floats(&s.t[0]) + r * s.call.p.xent.ld;
            for (uint32_t c = 0; c < 70; c++) l[c] = c >= first && (c - first) % 3 == 0 ? 1e4f : -1e4f;
            wholes(&s.t[1])[r] = (first + (r == 0 ? 0 : r)) % 70;
        }
        outcome got[OPS_MAX_TENSORS];
        scene_check(&s, "ties", (double[]){1e-11, EXACT});
        EACH_GPU(m)
        if (scene_run(m, &s, got)) {
            for (uint32_t r = 0; r < 5; r++) CHECK(got[3].bits[FRAME + r] == (r == 0));
            outcome_done(got);
        }
        scene_done(&s);
    }
}

/* The optimiser. */

static const uint32_t lengths_that_hurt[] = {1, 3, 4, 7, 64, 1000, 4099, 8191, 8192, 8193, 30001};

static void sumsq(void) {
    if (!machines()) return;
    for (uint32_t i = 0; i < COUNT_OF(lengths_that_hurt); i++) {
        uint32_t n = lengths_that_hurt[i];
        scene s = scene_new(OP_SUMSQ);
        s.call.p.sumsq = (struct abi_sumsq){n, i};
        put(scene_tensor(&s, n), 1, n, n, n, 0, 1);
        scene_tensor(&s, i + n / ABI_SUMSQ_CHUNK + 1);
        scene_check(&s, "sumsq", (double[]){1e-12});
        scene_done(&s);
    }
}

static void clip(void) {
    static const uint32_t counts[] = {1, 2, 5, 31, 33, 257, 100003};
    static const float limits[] = {0, 1, 1e6f}, unscale[] = {1, 0x1p-16f};
    if (!machines()) return;
    for (uint32_t i = 0; i < COUNT_OF(counts) * COUNT_OF(limits); i++) {
        uint32_t n = counts[i / COUNT_OF(limits)];
        scene s = scene_new(OP_CLIP);
        s.call.p.clip = (struct abi_clip){n, limits[i % COUNT_OF(limits)], unscale[i % 2]};
        tensor *partial = scene_tensor(&s, n);
        put(partial, 1, n, n, n, 0, 3);
        for (uint32_t k = 0; k < n; k++) floats(partial)[k] = fabsf(floats(partial)[k]);
        scene_tensor(&s, 3);
        scene_check(&s, "clip", (double[]){1e-12});
        scene_done(&s);
    }
}

/* A gradient that is not a number must reach the host as one, and the update is called off. */
static void clip_shows_what_is_not_a_number(void) {
    static const float bad[] = {NAN, INFINITY};
    if (!machines()) return;
    for (int i = 0; i < 2; i++) {
        scene s = scene_new(OP_CLIP);
        s.call.p.clip = (struct abi_clip){40, 1, 1};
        put(scene_tensor(&s, 40), 1, 40, 40, 40, 0, 0);
        floats(&s.t[0])[17] = bad[i];
        scene_tensor(&s, 3);
        outcome got[OPS_MAX_TENSORS];
        for (size_t c = 0; c <= COUNT_OF(scene_gpu); c++) {
            ops_machine *m = c < COUNT_OF(scene_gpu) ? scene_gpu[c] : scene_ref;
            if (!m || !scene_run(m, &s, got)) continue;
            const float *out = (float *)(void *)got[1].bits + FRAME;
            CHECK(i ? isinf(out[0]) : isnan(out[0]));
            CHECK(out[1] == 0 && out[2] == 1);
            outcome_done(got);
        }
        scene_done(&s);
    }
}

static void adamw(void) {
    if (!machines()) return;
    for (uint32_t i = 0; i < COUNT_OF(lengths_that_hurt); i++) {
        uint32_t n = lengths_that_hurt[i];
        scene s = scene_new(OP_ADAMW);
        s.call.p.adamw = (struct abi_adamw){n, 1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.9f, 3.7f};
        for (uint32_t k = 0; k < 4; k++) put(scene_tensor(&s, n), 1, n, n, n, 0, k == 2 ? 0.1 : 1);
        for (uint32_t k = 0; k < n; k++) floats(&s.t[3])[k] = fabsf(floats(&s.t[3])[k]);
        tensor *out = scene_tensor(&s, 3);
        floats(out)[1] = 0.37f, floats(out)[2] = 0;
        scene_check(&s, "adamw", (double[]){1e-13, 1e-13, 1e-13});
        scene_done(&s);
    }
}

/* Gradients that are no numbers change nothing, not even the moments' decay. */
static void adamw_that_is_called_off(void) {
    if (!machines()) return;
    scene s = scene_new(OP_ADAMW);
    s.call.p.adamw = (struct abi_adamw){1000, 1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.9f, 3.7f};
    for (uint32_t k = 0; k < 4; k++) put(scene_tensor(&s, 1000), 1, 1000, 1000, 1000, 0, 1);
    floats(&s.t[1])[3] = NAN, floats(&s.t[1])[4] = INFINITY;
    tensor *out = scene_tensor(&s, 3);
    floats(out)[0] = NAN, floats(out)[1] = 0, floats(out)[2] = 1;
    outcome got[OPS_MAX_TENSORS];
    for (size_t c = 0; c <= COUNT_OF(scene_gpu); c++) {
        ops_machine *m = c < COUNT_OF(scene_gpu) ? scene_gpu[c] : scene_ref;
        if (!m || !scene_run(m, &s, got)) continue;
        for (uint32_t k = 0; k < 4; k++) CHECK(same_bits(s.t[k].bits + FRAME, got[k].bits + FRAME, 1000));
        outcome_done(got);
    }
    scene_done(&s);
}

static void zero(void) {
    if (!machines()) return;
    for (uint32_t i = 0; i < COUNT_OF(lengths_that_hurt); i++) {
        scene s = scene_new(OP_ZERO);
        s.call.p.zero = (struct abi_zero){lengths_that_hurt[i]};
        scene_tensor(&s, lengths_that_hurt[i] + 5);
        scene_check(&s, "zero", (double[]){EXACT});
        scene_done(&s);
    }
}

/* In 16 bits: floats are widened when they are loaded and rounded when they are stored, halves of words are
 * written alone. */
static void stored_in_16_bits(void) {
    static const uint32_t sizes[] = {2, 6, 16};
    sweep_stored(make_norm, (double[]){1e-11, 1e-11});
    sweep_stored(make_norm_dx, (double[]){1e-11});
    sweep_stored(make_norm_dg, (double[]){1e-11});
    sweep_stored(make_swiglu, (double[]){1e-11});
    sweep_stored(make_swiglu_grad, (double[]){1e-11, 1e-11});
    rope_of(sizes, COUNT_OF(sizes), check_rope_stored);
    for (uint32_t i = 0; i < COUNT_OF(lengths_that_hurt); i++) {
        uint32_t n = lengths_that_hurt[i];
        scene z = scene_new(OP_ZERO), c = scene_new(OP_CAST);
        z.call.p.zero = (struct abi_zero){n}, c.call.p.cast = (struct abi_cast){n};
        scene_tensor(&z, n + 5);
        put(scene_tensor(&c, n), 1, n, n, n, 0, 1);
        scene_tensor(&c, n + 5);
        scene_check(&c, "cast", (double[]){EXACT});
        scene_check_stored(&z, "zero", (double[]){EXACT});
        scene_check_stored(&c, "cast", (double[]){EXACT});
        scene_done(&z);
        scene_done(&c);
    }
}

/* 70,000 rows: more groups than an axis holds, more turns than some drivers' loops survive. */
static void seventy_thousand_rows(void) {
    const uint32_t n = 70000;
    if (!machines()) return;
    scene all[] = {make_embed(n, 5, 0),
                   make_norm(n, 5, 0),
                   make_norm_dx(n, 5, 0),
                   make_norm_dg(n, 5, 0),
                   make_swiglu(n, 5, 0),
                   make_swiglu_grad(n, 5, 0),
                   make_xent(OP_XENT, n, 5, 0),
                   make_xent(OP_XENT_GRAD, n, 5, 0),
                   make_embed_grad_runs(n, 5, 0, 1)};
    static const double limits[COUNT_OF(all)][2] = {{EXACT},        {1e-11, 1e-11}, {1e-11},
                                                    {1e-10},        {1e-11},        {1e-11, 1e-11},
                                                    {1e-11, EXACT}, {1e-11, 1e-11}, {1e-10}};
    for (size_t k = 0; k < COUNT_OF(all); k++) {
        scene_check(&all[k], "70,000 rows", limits[k]);
        scene_done(&all[k]);
    }
}

/* Rows do not know how many there are: of 129 rows, the first 17 are those of a run of 17. */
static void rows_do_not_know_each_other(void) {
    if (!machines()) return;
    scene all[] = {make_norm(129, 344, 3), make_norm_dx(129, 344, 3), make_swiglu(129, 344, 3),
                   make_xent(OP_XENT, 129, 257, 3), make_xent(OP_XENT_GRAD, 129, 257, 3)};
    static const uint32_t result[] = {2, 4, 2, 2, 0};
    for (size_t k = 0; k < COUNT_OF(all); k++) {
        outcome many[OPS_MAX_TENSORS], few[OPS_MAX_TENSORS];
        scene part = all[k];
        part.call.p.norm.rows = 17; /* `rows` comes first in all of them */
        uint32_t n = result[k] == 2 && k == 3 ? 17 : 17 * (all[k].t[result[k]].len / ops_rows(129));
        EACH_GPU(m) {
            if (scene_run(m, &all[k], many) && scene_run(m, &part, few))
                CHECK(same_bits(many[result[k]].bits, few[result[k]].bits, FRAME + n));
            outcome_done(many);
            outcome_done(few);
        }
        scene_done(&all[k]);
    }
}

int main(void) {
    TEST(embed);
    TEST(embed_grad);
    TEST(norm);
    TEST(norm_dx);
    TEST(norm_dx_of_one_column);
    TEST(norm_dg);
    TEST(swiglu);
    TEST(swiglu_grad);
    TEST(swiglu_of_large_numbers);
    TEST(rope);
    TEST(xent);
    TEST(xent_grad);
    TEST(xent_of_ties_and_large_numbers);
    TEST(sumsq);
    TEST(clip);
    TEST(clip_shows_what_is_not_a_number);
    TEST(adamw);
    TEST(adamw_that_is_called_off);
    TEST(zero);
    TEST(stored_in_16_bits);
    TEST(seventy_thousand_rows);
    TEST(rows_do_not_know_each_other);
    machines_done();
    return end_with_device();
}
