/* What model families need beyond the first one, row by row: windows and sums of embeddings, kinds of norm,
 * norms of heads, biases, activations, capped logits. Every kernel class against the reference in double. */
#include "tests/ops/sweep.h"

/* Embedding: a window of the table, scaled, added to what is there. */

static scene make_embed_window(uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t cols = ops_pad(width), vocab = 11 + i, o = offset(i), ld = stride(o, width, i + 1);
    uint32_t acc = i % 2, first = i % 3 * 2, count = i % 5 ? vocab - first - i % 4 : 0;
    scene s = scene_new(OP_EMBED);
    s.call.p.embed = (struct abi_embed){rows, cols, cols, ld, o, 1.7f, acc, count ? first : 0, count};
    tensor *token = scene_tensor(&s, rows), *E = scene_tensor(&s, (size_t)(count ? count : vocab) * cols);
    tensor *X = scene_tensor(&s, (size_t)rows * ld);
    for (uint32_t r = 0; r < rows; r++) wholes(token)[r] = r * 7 % vocab;
    put(E, count ? count : vocab, cols, width, cols, 0, 1);
    if (acc) put(X, rows, cols, width, ld, o, 1);
    return s;
}
static void embed_window(void) {
    sweep(make_embed_window, (double[]){1e-13});
}

/* Of the tokens 1, 3, 5, ... those of the window have a row. */
static scene make_embed_grad_window(uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t cols = ops_pad(width), o = offset(i), ldx = stride(o, width, i), runs = 1 + rows / 3, acc = i % 2;
    uint32_t first = rows == 1 ? i % 2 : i % 3 * 2, count = rows == 1 ? 1 : runs;
    scene s = scene_new(OP_EMBED_GRAD);
    s.call.p.embed_grad = (struct abi_embed_grad){runs, cols, cols, ldx, o, acc, 1.7f, first, count};
    tensor *list = scene_tensor(&s, runs), *start = scene_tensor(&s, runs + 1), *order = scene_tensor(&s, rows);
    tensor *X = scene_tensor(&s, (size_t)rows * ldx), *E = scene_tensor(&s, (size_t)count * cols);
    for (uint32_t u = 0; u <= runs; u++) wholes(start)[u] = u ? rows - (runs - u) * (rows / (2 * runs)) : 0;
    for (uint32_t u = 0; u < runs; u++) wholes(list)[u] = 2 * u + 1;
    for (uint32_t r = 0; r < rows; r++) wholes(order)[r] = rows - 1 - r;
    put(X, rows, cols, width, ldx, o, 1);
    if (acc) put(E, count, cols, width, cols, 0, 1);
    return s;
}
static void embed_grad_window(void) {
    sweep(make_embed_grad_window, (double[]){1e-12});
}

/* Norms: with 1 + g for the gain, and layer norm. */

static struct abi_norm norm_layout(uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t xo = offset(i), yo = offset(i + 2), so = i % 3, kind = 1 + i % 2;
    return (struct abi_norm){
        rows, width, ops_pad(width), stride(xo, width, i), xo, stride(yo, width, i + 1), yo,
        so,   1e-5f, kind,           so + rows + i % 2};
}
/* The mean of row r as the forward norm leaves it, in a float; numbers have a mean of their own. */
static void put_row(tensor *X, struct abi_norm p) {
    put(X, p.rows, p.cols, p.width, p.ldx, p.xo, 3);
    for (uint32_t r = 0; r < p.rows; r++)
        for (uint32_t c = 0; c < p.width; c++) floats(X)[(size_t)r * p.ldx + p.xo + c] += (float)(r % 5);
}
static tensor *put_stat(scene *s, const tensor *X, struct abi_norm p) {
    tensor *S = scene_tensor(s, p.mo + p.rows);
    for (uint32_t r = 0; r < p.rows; r++) {
        const float *x = floats(X) + (size_t)r * p.ldx + p.xo;
        double mean = 0, sum = 0;
        for (uint32_t c = 0; c < p.width && p.kind == ABI_NORM_LAYER; c++) mean += x[c] / (double)p.width;
        for (uint32_t c = 0; c < p.width; c++) sum += (x[c] - mean) * (x[c] - mean);
        floats(S)[p.so + r] = (float)(1 / sqrt(sum / p.width + p.eps));
        if (p.kind == ABI_NORM_LAYER) floats(S)[p.mo + r] = (float)mean;
    }
    return S;
}

static scene make_norm_kind(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_NORM);
    struct abi_norm p = s.call.p.norm = norm_layout(rows, width, i);
    put_row(scene_tensor(&s, (size_t)rows * p.ldx), p);
    put(scene_tensor(&s, p.cols), 1, p.cols, width, p.cols, 0, 1);
    scene_tensor(&s, (size_t)rows * p.ldy);
    scene_tensor(&s, p.mo + rows);
    return s;
}
static void norm_kind(void) {
    sweep_from(1, make_norm_kind, (double[]){1e-11, 1e-11});
}
/* A single column is its own mean: nothing is left. */
static void layer_norm_of_one_column(void) {
    if (!machines()) return;
    scene s = make_norm_kind(129, 1, 1);
    scene_check(&s, "width 1", (double[]){EXACT, 1e-11});
    scene_done(&s);
}

static scene make_norm_kind_dx(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_NORM_DX);
    struct abi_norm p = s.call.p.norm = norm_layout(rows, width, i);
    tensor *X = scene_tensor(&s, (size_t)rows * p.ldx);
    put_row(X, p);
    put(scene_tensor(&s, p.cols), 1, p.cols, width, p.cols, 0, 1);
    put_stat(&s, X, p);
    put(scene_tensor(&s, (size_t)rows * p.ldy), rows, p.cols, width, p.ldy, p.yo, 1);
    put(scene_tensor(&s, (size_t)rows * p.ldx), rows, p.cols, width, p.ldx, p.xo, 1);
    return s;
}
static void norm_kind_dx(void) {
    sweep_from(1, make_norm_kind_dx, (double[]){1e-11});
}

static scene make_norm_kind_dg(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_NORM_DG);
    struct abi_norm p = s.call.p.norm = norm_layout(rows, width, i);
    tensor *X = scene_tensor(&s, (size_t)rows * p.ldx);
    put_row(X, p);
    put_stat(&s, X, p);
    put(scene_tensor(&s, (size_t)rows * p.ldy), rows, p.cols, width, p.ldy, p.yo, 1);
    put(scene_tensor(&s, p.cols), 1, p.cols, width, 0, 0, 1);
    return s;
}
static void norm_kind_dg(void) {
    sweep_from(1, make_norm_kind_dg, (double[]){1e-11});
}

/* Norm of heads. */

static const uint32_t head_sizes[] = {1, 2, 3, 4, 6, 8, 12, 32, 36, 64, 128, 160};
static const uint32_t head_counts[] = {1, 2, 3, 5};

static scene make_head_norm(ops_id op, uint32_t rows, uint32_t heads, uint32_t hd, uint32_t i) {
    scene s = scene_new(op);
    uint32_t width = heads * hd, xo = offset(i), yo = offset(i + 2), ldx = stride(xo, width, i);
    uint32_t ldy = stride(yo, width, i + 1), so = i % 3, forward = op == OP_HEAD_NORM,
             dx = op == OP_HEAD_NORM_DX;
    s.call.p.head_norm = (struct abi_head_norm){rows, heads, hd, ldx, xo, ldy, yo, so, i / 2 % 2, 1e-6f};
    tensor *X = scene_tensor(&s, (size_t)rows * ldx);
    put(X, rows, width, width, ldx, xo, 3);
    if (forward || dx) put(scene_tensor(&s, hd), 1, hd, hd, hd, 0, 1);
    if (forward) scene_tensor(&s, (size_t)rows * ldy);
    tensor *S = scene_tensor(&s, so + (size_t)heads * rows);
    if (forward) return s;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t h = 0; h < heads; h++) {
            double sum = 0;
            for (uint32_t d = 0; d < hd; d++) sum += pow(floats(X)[(size_t)r * ldx + xo + h * hd + d], 2);
            floats(S)[so + h * rows + r] = (float)(1 / sqrt(sum / hd + 1e-6));
        }
    put(scene_tensor(&s, (size_t)rows * ldy), rows, width, width, ldy, yo, 1);
    tensor *out = scene_tensor(&s, dx ? (size_t)rows * ldx : hd);
    if (!dx) put(out, 1, hd, hd, hd, 0, 1);
    return s;
}

static void head_norm_sweep(ops_id op, const double *limits) {
    if (!machines()) return;
    for (uint32_t k = 0, i = 0; k < COUNT_OF(head_sizes); k++)
        for (uint32_t h = 0; h < COUNT_OF(head_counts); h++, i++) {
            /* Of a single number the input gradient is the rounding of two equal terms. */
            if (op == OP_HEAD_NORM_DX && head_sizes[k] == 1) continue;
            uint32_t rows = rows_that_hurt[i % COUNT_OF(rows_that_hurt)];
            scene s = make_head_norm(op, rows, head_counts[h], head_sizes[k], i);
            char what[64];
            snprintf(what, sizeof what, "%u rows, %u heads of %u", rows, head_counts[h], head_sizes[k]);
            scene_check(&s, what, limits);
            scene_done(&s);
        }
}
static void head_norm(void) {
    head_norm_sweep(OP_HEAD_NORM, (double[]){1e-11, 1e-11});
}
static void head_norm_dx(void) {
    head_norm_sweep(OP_HEAD_NORM_DX, (double[]){1e-11});
}
static void head_norm_dg(void) {
    head_norm_sweep(OP_HEAD_NORM_DG, (double[]){1e-11});
}

/* Biases and sums. */

static scene make_bias(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_BIAS);
    uint32_t cols = ops_pad(width), o = offset(i), ld = stride(o, width, i);
    s.call.p.bias = (struct abi_bias){rows, cols, ld, o};
    put(scene_tensor(&s, (size_t)rows * ld), rows, cols, width, ld, o, 1);
    put(scene_tensor(&s, cols), 1, cols, width, cols, 0, 1);
    return s;
}
static void bias(void) {
    sweep(make_bias, (double[]){1e-13});
}

static scene make_bias_grad(uint32_t rows, uint32_t width, uint32_t i) {
    scene s = scene_new(OP_BIAS_GRAD);
    uint32_t cols = ops_pad(width), o = offset(i), ld = stride(o, width, i);
    s.call.p.bias = (struct abi_bias){rows, cols, ld, o};
    put(scene_tensor(&s, (size_t)rows * ld), rows, cols, width, ld, o, 1);
    put(scene_tensor(&s, cols), 1, cols, width, cols, 0, 1);
    return s;
}
static void bias_grad(void) {
    sweep(make_bias_grad, (double[]){1e-11});
}

static scene make_ew(ops_id op, uint32_t rows, uint32_t width, uint32_t i) {
    uint32_t cols = ops_pad(width), ao = offset(i), zo = offset(i + 2);
    scene s = scene_new(op);
    struct abi_ew p = s.call.p.ew =
        (struct abi_ew){rows, cols, stride(ao, width, i), ao, stride(zo, width, i + 1), zo};
    put(scene_tensor(&s, (size_t)rows * p.lda), rows, cols, width, p.lda, ao, 2);
    put(scene_tensor(&s, (size_t)rows * p.lda), rows, cols, width, p.lda, ao, 1);
    scene_tensor(&s, (size_t)rows * p.ldz);
    return s;
}
static scene make_add(uint32_t rows, uint32_t width, uint32_t i) {
    return make_ew(OP_ADD, rows, width, i);
}
static void add(void) {
    sweep(make_add, (double[]){1e-13});
}

/* In 16 bits, also heads whose numbers share a word with the next one's. */
static scene make_heads(uint32_t rows, uint32_t width, uint32_t i) {
    static const ops_id ops[] = {OP_HEAD_NORM, OP_HEAD_NORM_DX, OP_HEAD_NORM_DG};
    return make_head_norm(ops[i % 3], rows, 2 + i % 2, width, i);
}
static void stored_in_16_bits(void) {
    static const uint32_t sizes[] = {3, 5, 6, 16, 36};
    if (!machines()) return;
    for (uint32_t i = 0; i < 3 * COUNT_OF(sizes); i++) {
        scene s = make_heads(17, sizes[i / 3], i);
        scene_check_stored(&s, "17 rows of heads", (double[]){1e-11, 1e-11});
        scene_done(&s);
    }
    sweep_stored(make_norm_kind, (double[]){1e-11, 1e-11});
    sweep_stored(make_bias, (double[]){1e-13});
    sweep_stored(make_bias_grad, (double[]){1e-11});
    sweep_stored(make_add, (double[]){1e-13});
}

/* Activations: of each kind, gated and plain. */

/* The same buffer twice: what is plain has no second tensor, so it stays as it was. */
static scene make_act_of(ops_id op, uint32_t rows, uint32_t width, uint32_t i, double scale) {
    uint32_t cols = ops_pad(width), ao = offset(i), zo = offset(i + 2);
    scene s = scene_new(op);
    struct abi_ew p = s.call.p.ew =
        (struct abi_ew){rows, cols, stride(ao, width, i), ao, stride(zo, width, i + 1), zo, i % 3, i / 3 % 2};
    put(scene_tensor(&s, (size_t)rows * p.lda), rows, cols, width, p.lda, ao, scale);
    tensor *B = scene_tensor(&s, (size_t)rows * p.lda);
    if (!p.plain) put(B, rows, cols, width, p.lda, ao, 1);
    tensor *Z = scene_tensor(&s, (size_t)rows * (op == OP_SWIGLU ? p.ldz : p.lda));
    if (op == OP_SWIGLU_GRAD) put(Z, rows, cols, width, p.lda, ao, 1);
    return s;
}
static scene make_act(uint32_t rows, uint32_t width, uint32_t i) {
    return make_act_of(OP_SWIGLU, rows, width, i, 2);
}
static scene make_act_grad(uint32_t rows, uint32_t width, uint32_t i) {
    return make_act_of(OP_SWIGLU_GRAD, rows, width, i, 2);
}
static void act(void) {
    sweep(make_act, (double[]){1e-12});
}
static void act_grad(void) {
    sweep(make_act_grad, (double[]){1e-12, 1e-12});
}

/* Every activation and slope over the line, each number against the reference: how far off floats may be, as a
 * part of the number or of 1, and no NaN anywhere. */
static void act_on_a_line(void) {
    enum { N = 4096 };
    if (!machines()) return;
    for (uint32_t i = 0; i < 6; i++) {
        ops_id op = i < 3 ? OP_SWIGLU : OP_SWIGLU_GRAD;
        scene s = make_act_of(op, 1, N, 3 + i % 3, 1);
        struct abi_ew p = s.call.p.ew;
        for (uint32_t c = 0; c < N; c++) {
            double x = ((double)c - N / 2) / (N / 2); /* fine near 0, up to 1e4, then far beyond */
            floats(&s.t[0])[p.ao + c] = c % 1024 == 7 ? (c < N / 2 ? -1e30f : 1e30f) : (float)(1e4 * pow(x, 7));
            if (op == OP_SWIGLU_GRAD) floats(&s.t[2])[p.ao + c] = 1;
        }
        outcome ref[OPS_MAX_TENSORS], got[OPS_MAX_TENSORS];
        uint32_t k = op == OP_SWIGLU ? 2 : 0, at = FRAME + (op == OP_SWIGLU ? p.zo : p.ao);
        if (!CHECK(scene_run(scene_ref, &s, ref))) return;
        EACH_GPU(m) {
            double worst = 0;
            bool fine = scene_run(m, &s, got);
            for (uint32_t c = 0; c < N && fine; c++) {
                double want = ref[k].d[at + c], value = ((float *)(void *)got[k].bits)[at + c];
                if (!isfinite(want))
                    want = want > 0 || floats(&s.t[0])[p.ao + c] > 0 ? 1 : 0; /* overflow of a^3 */
                double size = op == OP_SWIGLU ? fabs(floats(&s.t[0])[p.ao + c]) + 1e-30 : 1;
                double e = fabs(value - want) / fmax(fabs(want), size);
                if (e > worst || isnan(e)) worst = e;
                fine = fine && isfinite(value);
            }
            if (!CHECK(fine && worst <= 5e-7) || getenv("COLM_TEST_SHOW"))
                printf("# %s %u, class %s: off by %.3g\n", ops_get(op)->name, p.act, test_classes[class_],
                       worst);
            outcome_done(got);
        }
        outcome_done(ref);
        scene_done(&s);
    }
}

/* Cross-entropy of capped logits. */

static const uint32_t vocabularies[] = {1, 2, 3, 5, 8, 31, 32, 33, 64, 257, 1000};

/* Targets of every kind: the maximum, any, the last column, none. Logits of some hundredths, where tanh is a
 * straight line, of the cap's size and, where no gradient is asked for, far beyond it. */
static scene make_xent_capped(ops_id op, uint32_t rows, uint32_t vocab, uint32_t i) {
    static const float caps[] = {30, 0.5f, 1000, 2};
    uint32_t ld = ops_stride(ops_pad(vocab));
    scene s = scene_new(op);
    s.call.p.xent = (struct abi_xent){rows, vocab, ld, 1.0f / (float)(rows + i), caps[i / 2 % 4]};
    tensor *L = scene_tensor(&s, (size_t)ops_rows(rows) * ld), *target = scene_tensor(&s, rows);
    scene_tensor(&s, rows);
    if (op == OP_XENT) scene_tensor(&s, rows);
    put(L, rows, vocab, vocab, ld, 0, i % 2 == 0 ? 0.05 : i % 4 == 3 && op == OP_XENT ? 1e4 : 3);
    for (uint32_t r = 0; r < rows; r++) {
        const float *l = floats(L) + (size_t)r * ld;
        uint32_t best = 0;
        for (uint32_t c = 1; c < vocab; c++) best = l[c] > l[best] ? c : best;
        uint32_t kinds[] = {best, r * 13 % vocab, vocab - 1, ABI_NO_TARGET, best};
        wholes(target)[r] = kinds[(r + i) % COUNT_OF(kinds)];
    }
    return s;
}
static void xent_capped_sweep(ops_id op, const double *limits) {
    if (!machines()) return;
    for (uint32_t r = 0, i = 0; r < COUNT_OF(rows_that_hurt); r++)
        for (uint32_t v = 0; v < COUNT_OF(vocabularies); v++, i++) {
            char what[64];
            scene s = make_xent_capped(op, rows_that_hurt[r], vocabularies[v], i);
            snprintf(what, sizeof what, "%u rows, vocabulary %u", rows_that_hurt[r], vocabularies[v]);
            scene_check(&s, what, limits);
            scene_done(&s);
        }
}
static void xent_capped(void) {
    xent_capped_sweep(OP_XENT, (double[]){1e-11, EXACT});
}
static void xent_capped_grad(void) {
    xent_capped_sweep(OP_XENT_GRAD, (double[]){1e-11, 1e-11});
}

/* 70,000 rows: more groups than an axis holds, more turns than some drivers' loops survive. */
static void seventy_thousand_rows(void) {
    const uint32_t n = 70000;
    if (!machines()) return;
    scene all[] = {make_embed_window(n, 5, 1),
                   make_norm_kind(n, 5, 1),
                   make_norm_kind_dx(n, 5, 1),
                   make_norm_kind_dg(n, 5, 1),
                   make_head_norm(OP_HEAD_NORM, n, 2, 4, 0),
                   make_head_norm(OP_HEAD_NORM_DX, n, 2, 4, 0),
                   make_head_norm(OP_HEAD_NORM_DG, n, 2, 4, 0),
                   make_bias(n, 5, 0),
                   make_bias_grad(n, 5, 0),
                   make_add(n, 5, 0)};
    static const double limits[COUNT_OF(all)][2] = {{1e-13}, {1e-11, 1e-11}, {1e-11}, {1e-10}, {1e-11, 1e-11},
                                                    {1e-11}, {1e-10},        {1e-13}, {1e-10}, {1e-13}};
    for (size_t k = 0; k < COUNT_OF(all); k++) {
        scene_check(&all[k], "70,000 rows", limits[k]);
        scene_done(&all[k]);
    }
}

/* Rows do not know how many there are: of 129 rows, the first 17 are those of a run of 17. */
static void rows_do_not_know_each_other(void) {
    if (!machines()) return;
    scene all[] = {make_norm_kind(129, 344, 3),    make_norm_kind_dx(129, 344, 3),
                   make_embed_window(129, 344, 3), make_head_norm(OP_HEAD_NORM, 129, 3, 64, 0),
                   make_bias(129, 344, 3),         make_add(129, 344, 3)};
    static const uint32_t result[] = {2, 4, 2, 2, 0, 2};
    for (size_t k = 0; k < COUNT_OF(all); k++) {
        outcome many[OPS_MAX_TENSORS], few[OPS_MAX_TENSORS];
        scene part = all[k];
        part.call.p.norm.rows = 17; /* `rows` comes first in all of them */
        EACH_GPU(m) {
            if (scene_run(m, &all[k], many) && scene_run(m, &part, few))
                CHECK(same_bits(many[result[k]].bits, few[result[k]].bits,
                                FRAME + 17 * (all[k].t[result[k]].len / 129)));
            outcome_done(many);
            outcome_done(few);
        }
        scene_done(&all[k]);
    }
}

/* Heads do not know each other: the second of three is that of a chain with one head. */
static void heads_do_not_know_each_other(void) {
    if (!machines()) return;
    for (uint32_t grad = 0; grad < 2; grad++) {
        scene three = make_head_norm(grad ? OP_HEAD_NORM_DX : OP_HEAD_NORM, 17, 3, 64, 0), one = three;
        struct abi_head_norm *p = &one.call.p.head_norm;
        outcome all[OPS_MAX_TENSORS], single[OPS_MAX_TENSORS];
        p->heads = 1, p->xo += p->hd, p->yo += p->hd, p->so += p->rows;
        uint32_t k = grad ? 4 : 2, ld = grad ? p->ldx : p->ldy, o = grad ? p->xo : p->yo;
        EACH_GPU(m) {
            if (scene_run(m, &three, all) && scene_run(m, &one, single))
                for (uint32_t r = 0; r < 17; r++)
                    CHECK(same_bits(all[k].bits + FRAME + r * ld + o, single[k].bits + FRAME + r * ld + o, 64));
            outcome_done(all);
            outcome_done(single);
        }
        scene_done(&three);
    }
}

int main(void) {
    TEST(embed_window);
    TEST(embed_grad_window);
    TEST(norm_kind);
    TEST(layer_norm_of_one_column);
    TEST(norm_kind_dx);
    TEST(norm_kind_dg);
    TEST(head_norm);
    TEST(head_norm_dx);
    TEST(head_norm_dg);
    TEST(bias);
    TEST(bias_grad);
    TEST(add);
    TEST(stored_in_16_bits);
    TEST(act);
    TEST(act_grad);
    TEST(act_on_a_line);
    TEST(xent_capped);
    TEST(xent_capped_grad);
    TEST(seventy_thousand_rows);
    TEST(rows_do_not_know_each_other);
    TEST(heads_do_not_know_each_other);
    machines_done();
    return end_with_device();
}
