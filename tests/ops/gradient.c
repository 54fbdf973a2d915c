/* Every backward operation of the reference against finite differences of its forward one, in double.
 *
 * The scalar is the sum of the outputs times fixed random weights, so the weights are the outputs' gradient.
 * Differences over four points with a step of 1e-4 err by about 1e-13 / 1e-4; a wrong term errs by far more
 * than 1e-7. */
#include "engine/base/rng.h"
#include "engine/ops/ops.h"
#include "tests/test.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))
#define STEP 1e-4
#define LIMIT 1e-7

/* A buffer used as a matrix; `used` columns from o at stride ld. */
typedef struct {
    ops_buf buf;
    uint32_t rows, used, ld, o;
} matrix;

typedef struct {
    const char *name;
    matrix value, grad;
} variable;

typedef struct {
    ops_machine *m;
    ops_list forward, backward;
    variable var[4];
    size_t n_vars;
    matrix out, dout;
    /* values that operations change in place are copied from their source first */
    matrix forward_copy[2], backward_copy[2][2];
    size_t n_forward_copies, n_backward_copies;
    bool ok;
} problem;

static colm_err err;

static problem start(void) {
    problem q = {.ok = true};
    q.ok = CHECK_OK(ops_open_ref(&q.m, &err), err);
    return q;
}

/* Zeros, or random in the used columns with the padding (and all around) zero. */
static matrix make(problem *q, uint32_t rows, uint32_t used, uint32_t ld, uint32_t o, double scale) {
    static uint64_t counter;
    matrix a = {0, rows, used, ld, o};
    if (!q->ok ||
        !(q->ok = CHECK_OK(ops_buffer(q->m, "test", OPS_F32, (size_t)ops_rows(rows) * ld, &a.buf, &err), err)))
        return a;
    rng_stream s = rng_open(++counter, "gradient");
    double *d = ops_doubles(q->m, a.buf);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < used; c++)
            d[(size_t)r * ld + o + c] = scale * rng_normal(&s, (uint64_t)r * used + c);
    return a;
}

static matrix like(problem *q, matrix a, double scale) {
    return make(q, a.rows, a.used, a.ld, a.o, scale);
}

static ops_view view(const problem *q, matrix a) {
    return (ops_view){a.buf, 0, ops_buffer_len(q->m, a.buf)};
}

static ops_view numbers(problem *q, const uint32_t *v, size_t n) {
    ops_view w = {.len = n};
    q->ok = q->ok && CHECK_OK(ops_buffer(q->m, "test", OPS_U32, n, &w.buf, &err), err) &&
            CHECK_OK(ops_write(q->m, w.buf, 0, v, n, &err), err);
    return w;
}

/* The variable's gradient buffer starts at zero. */
static void vary(problem *q, const char *name, matrix value, matrix grad) {
    q->var[q->n_vars++] = (variable){name, value, grad};
}

static void add(problem *q, ops_list *l, ops_call c) {
    q->ok = q->ok && CHECK_OK(ops_add(l, &c, &err), err);
}

static void copy(const problem *q, matrix from, matrix to) {
    memcpy(ops_doubles(q->m, to.buf), ops_doubles(q->m, from.buf),
           ops_buffer_len(q->m, to.buf) * sizeof(double));
}

static double scalar(problem *q) {
    const ops_list *l[] = {&q->forward};
    for (size_t i = 0; i < q->n_forward_copies; i++) copy(q, q->forward_copy[0], q->forward_copy[1]);
    if (ops_run(q->m, l, 1, &err)) return NAN;
    double sum = 0, *o = ops_doubles(q->m, q->out.buf), *w = ops_doubles(q->m, q->dout.buf);
    for (uint32_t r = 0; r < q->out.rows; r++)
        for (uint32_t c = 0; c < q->out.used; c++)
            sum += o[(size_t)r * q->out.ld + q->out.o + c] * w[(size_t)r * q->dout.ld + q->dout.o + c];
    return sum;
}

/* Distance of the analytic gradient from the numeric one over the latter's size; NaN for a gradient of zeros.
 */
static double distance(problem *q, const variable *v) {
    double *x = ops_doubles(q->m, v->value.buf), *g = ops_doubles(q->m, v->grad.buf), off = 0, size = 0;
    for (uint32_t r = 0; r < v->value.rows; r++)
        for (uint32_t c = 0; c < v->value.used; c++) {
            double *p = &x[(size_t)r * v->value.ld + v->value.o + c], old = *p, f[4];
            static const double at[] = {-2, -1, 1, 2};
            for (int k = 0; k < 4; k++) {
                *p = old + at[k] * STEP;
                f[k] = scalar(q);
            }
            *p = old;
            double numeric = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * STEP);
            double d = g[(size_t)r * v->grad.ld + v->grad.o + c] - numeric;
            off += d * d;
            size += numeric * numeric;
        }
    return sqrt(off / size);
}

static void finish(problem *q) {
    const ops_list *l[] = {&q->backward};
    q->ok = q->ok && CHECK_OK(ops_prepare(q->m, &q->forward, &err), err) &&
            CHECK_OK(ops_prepare(q->m, &q->backward, &err), err);
    if (q->ok) {
        CHECK(isfinite(scalar(q)));
        for (size_t i = 0; i < q->n_backward_copies; i++)
            copy(q, q->backward_copy[i][0], q->backward_copy[i][1]);
        q->ok = CHECK_OK(ops_run(q->m, l, 1, &err), err);
    }
    for (size_t i = 0; i < q->n_vars && q->ok; i++) {
        double d = distance(q, &q->var[i]);
        if (!CHECK(d <= LIMIT)) printf("# gradient of %s: off by %g\n", q->var[i].name, d);
    }
    ops_unprepare(q->m, &q->forward);
    ops_unprepare(q->m, &q->backward);
    ops_list_done(&q->forward);
    ops_list_done(&q->backward);
    ops_close(&q->m);
}

/* The table in two windows, the second of rows 2 .. 4; row 2 has no token. */
static void embed(void) {
    static const uint32_t token[] = {3, 1, 3, 3, 0}, list[] = {0, 1, 3}, first[] = {0, 1, 2, 5},
                          order[] = {4, 1, 0, 2, 3};
    problem q = start();
    matrix E = make(&q, 5, 7, 32, 0, 1), dE = like(&q, E, 0);
    q.out = make(&q, 5, 7, 24, 8, 0);
    q.dout = like(&q, q.out, 1);
    ops_view tokens = numbers(&q, token, 5), lists = numbers(&q, list, 3), firsts = numbers(&q, first, 4),
             orders = numbers(&q, order, 5);
    for (uint32_t w = 0; w < 2; w++) {
        ops_view e = {E.buf, 64 * w, 5 * 32 - 64 * w}, de = {dE.buf, e.off, e.len};
        add(&q, &q.forward,
            (ops_call){.op = OP_EMBED,
                       .t = {tokens, e, view(&q, q.out)},
                       .p.embed = {5, 8, 32, 24, 8, 1.5f, 0, 2 * w, 2 + w}});
        add(&q, &q.backward,
            (ops_call){.op = OP_EMBED_GRAD,
                       .t = {lists, firsts, orders, view(&q, q.dout), de},
                       .p.embed_grad = {3, 8, 32, 24, 8, w, 1.5f, 2 * w, 2 + w}});
    }
    vary(&q, "table", E, dE);
    finish(&q);
}

static void norm_of_kind(uint32_t kind) {
    problem q = start();
    struct abi_norm p = {4, 13, 16, 24, 8, 40, 16, 3, 1e-5f, kind, 9};
    matrix X = make(&q, 4, 13, 24, 8, 2), g = make(&q, 1, 13, 16, 0, 1), stat = make(&q, 1, 0, 16, 0, 0);
    matrix dX = like(&q, X, 0), dg = like(&q, g, 0);
    q.out = make(&q, 4, 13, 40, 16, 0);
    q.dout = like(&q, q.out, 1);
    add(&q, &q.forward,
        (ops_call){
            .op = OP_NORM, .t = {view(&q, X), view(&q, g), view(&q, q.out), view(&q, stat)}, .p.norm = p});
    add(&q, &q.backward,
        (ops_call){.op = OP_NORM_DX,
                   .t = {view(&q, X), view(&q, g), view(&q, stat), view(&q, q.dout), view(&q, dX)},
                   .p.norm = p});
    add(&q, &q.backward,
        (ops_call){
            .op = OP_NORM_DG, .t = {view(&q, X), view(&q, stat), view(&q, q.dout), view(&q, dg)}, .p.norm = p});
    vary(&q, "x", X, dX);
    vary(&q, "gain", g, dg);
    finish(&q);
}
static void norm(void) {
    for (uint32_t kind = ABI_NORM_RMS; kind <= ABI_NORM_LAYER; kind++) norm_of_kind(kind);
}

static void head_norm_of_kind(uint32_t kind) {
    problem q = start();
    struct abi_head_norm p = {4, 3, 5, 24, 8, 40, 16, 3, kind, 1e-5f};
    matrix X = make(&q, 4, 15, 24, 8, 2), g = make(&q, 1, 5, 8, 0, 1), stat = make(&q, 1, 0, 16, 0, 0);
    matrix dX = like(&q, X, 0), dg = like(&q, g, 0);
    q.out = make(&q, 4, 15, 40, 16, 0);
    q.dout = like(&q, q.out, 1);
    add(&q, &q.forward,
        (ops_call){.op = OP_HEAD_NORM,
                   .t = {view(&q, X), view(&q, g), view(&q, q.out), view(&q, stat)},
                   .p.head_norm = p});
    add(&q, &q.backward,
        (ops_call){.op = OP_HEAD_NORM_DX,
                   .t = {view(&q, X), view(&q, g), view(&q, stat), view(&q, q.dout), view(&q, dX)},
                   .p.head_norm = p});
    add(&q, &q.backward,
        (ops_call){.op = OP_HEAD_NORM_DG,
                   .t = {view(&q, X), view(&q, stat), view(&q, q.dout), view(&q, dg)},
                   .p.head_norm = p});
    vary(&q, "x", X, dX);
    vary(&q, "gain", g, dg);
    finish(&q);
}
static void head_norm(void) {
    head_norm_of_kind(ABI_NORM_RMS);
    head_norm_of_kind(ABI_NORM_RMS_PLUS);
}

/* y = a + b, then y += bias: of a and b the gradient is that of y. */
static void bias_of_a_sum(void) {
    problem q = start();
    struct abi_bias p = {5, 16, 40, 16};
    matrix A = make(&q, 5, 13, 24, 8, 1), B = like(&q, A, 1), b = make(&q, 1, 13, 16, 0, 1),
           db = like(&q, b, 0);
    q.out = make(&q, 5, 13, 40, 16, 0);
    q.dout = like(&q, q.out, 1);
    add(&q, &q.forward,
        (ops_call){
            .op = OP_ADD, .t = {view(&q, A), view(&q, B), view(&q, q.out)}, .p.ew = {5, 16, 24, 8, 40, 16}});
    add(&q, &q.forward, (ops_call){.op = OP_BIAS, .t = {view(&q, q.out), view(&q, b)}, .p.bias = p});
    add(&q, &q.backward, (ops_call){.op = OP_BIAS_GRAD, .t = {view(&q, q.dout), view(&q, db)}, .p.bias = p});
    vary(&q, "a", A, q.dout);
    vary(&q, "b", B, q.dout);
    vary(&q, "bias", b, db);
    finish(&q);
}

static void linear(void) {
    problem q = start();
    struct abi_linear p = {5, 16, 24, 32, 8, 40, 8, 24, 0, 1};
    matrix X = make(&q, 5, 24, 32, 8, 1), W = make(&q, 16, 24, 40, 8, 1), R = make(&q, 5, 16, 24, 0, 1);
    matrix dX = like(&q, X, 0), dW = like(&q, W, 0);
    q.out = make(&q, 5, 16, 24, 0, 0);
    q.dout = like(&q, q.out, 1);
    ops_view x = view(&q, X), w = view(&q, W), dy = view(&q, q.dout), dx = view(&q, dX), dw = view(&q, dW);
    add(&q, &q.forward, (ops_call){.op = OP_LINEAR, .t = {x, w, view(&q, R), view(&q, q.out)}, .p.linear = p});
    p.init = 0;
    add(&q, &q.backward, (ops_call){.op = OP_LINEAR_DX, .t = {dy, w, dx, dx}, .p.linear = p});
    add(&q, &q.backward, (ops_call){.op = OP_LINEAR_DW, .t = {dy, x, dw, dw}, .p.linear = p});
    vary(&q, "x", X, dX);
    vary(&q, "w", W, dW);
    vary(&q, "start", R, q.dout);
    finish(&q);
}

static void rope(void) {
    problem q = start();
    struct abi_rope p = {6, 3, 2, 6, 24, 8, 1};
    matrix X = make(&q, 6, 12, 24, 8, 1), dX = like(&q, X, 0), table = make(&q, 3, 6, 6, 0, 0);
    q.out = like(&q, X, 0);
    q.dout = like(&q, X, 1);
    if (q.ok)
        for (int t = 0; t < 3; t++)
            for (int d = 0; d < 3; d++) {
                ops_doubles(q.m, table.buf)[t * 6 + d] = cos(0.7 * t / (1 + d));
                ops_doubles(q.m, table.buf)[t * 6 + 3 + d] = sin(0.7 * t / (1 + d));
            }
    add(&q, &q.forward, (ops_call){.op = OP_ROPE, .t = {view(&q, q.out), view(&q, table)}, .p.rope = p});
    p.sign = -1;
    add(&q, &q.backward, (ops_call){.op = OP_ROPE, .t = {view(&q, dX), view(&q, table)}, .p.rope = p});
    q.forward_copy[0] = X, q.forward_copy[1] = q.out, q.n_forward_copies = 1;
    q.backward_copy[0][0] = q.dout, q.backward_copy[0][1] = dX, q.n_backward_copies = 1;
    vary(&q, "x", X, dX);
    finish(&q);
}

/* Attention of `heads` heads in `parts` calls that add up to the same key and value gradients; first may be
 * NULL. */
static void attention_of(uint32_t B, uint32_t parts, struct abi_attn p, const uint32_t *first) {
    static const uint32_t open[64];
    problem q = start();
    uint32_t wq = p.heads * p.hd, wk = p.kv_heads * p.hd, n = p.heads / parts;
    p.rows = B * p.T, p.ldq = 48, p.qo = 8, p.ldk = 40, p.ko = 16, p.ldo = 56, p.scale = 0.6f;
    p.so = 5, p.dlo = 7 + p.heads * p.rows, p.masked = first != NULL;
    matrix Q = make(&q, p.rows, wq, p.ldq, p.qo, 1), K = make(&q, p.rows, wk, p.ldk, p.ko, 1),
           V = like(&q, K, 1);
    matrix dQ = like(&q, Q, 0), dK = like(&q, K, 0), dV = like(&q, K, 0);
    matrix stat = make(&q, 1, 0, p.dlo + p.heads * p.rows, 0, 0);
    q.out = make(&q, p.rows, wq, p.ldo, p.oo, 0);
    q.dout = like(&q, q.out, 1);
    ops_view vq = view(&q, Q), vk = view(&q, K), vv = view(&q, V), g = view(&q, q.dout), s = view(&q, stat),
             f = numbers(&q, first ? first : open, p.rows);
    p.heads = n;
    for (uint32_t i = 0; i < parts; i++) {
        add(&q, &q.forward, (ops_call){.op = OP_ATTN, .t = {vq, vk, vv, f, view(&q, q.out), s}, .p.attn = p});
        add(&q, &q.backward, (ops_call){.op = OP_ATTN_DELTA, .t = {view(&q, q.out), g, s}, .p.attn = p});
        add(&q, &q.backward,
            (ops_call){.op = OP_ATTN_DQ, .t = {vq, vk, vv, g, s, f, view(&q, dQ)}, .p.attn = p});
        add(&q, &q.backward,
            (ops_call){.op = OP_ATTN_DKV, .t = {vq, vk, vv, g, s, f, view(&q, dK), view(&q, dV)}, .p.attn = p});
        p.acc = 1;
        p.h0 += n, p.qo += n * p.hd, p.oo += n * p.hd, p.so += n * p.rows, p.dlo += n * p.rows;
    }
    vary(&q, "q", Q, dQ);
    vary(&q, "k", K, dK);
    vary(&q, "v", V, dV);
    finish(&q);
}
static void attention(void) {
    attention_of(2, 1, (struct abi_attn){.T = 5, .heads = 3, .kv_heads = 3, .hd = 4}, NULL);
}
static void attention_of_shared_keys(void) {
    attention_of(1, 1, (struct abi_attn){.T = 6, .heads = 4, .kv_heads = 2, .hd = 3}, NULL);
    attention_of(2, 1, (struct abi_attn){.T = 3, .heads = 3, .kv_heads = 1, .hd = 5}, NULL);
}
/* Groups of 2, 1 and 2 heads; tiled heads that begin in the middle; key heads that nobody reads. */
static void attention_of_uneven_heads(void) {
    attention_of(1, 1, (struct abi_attn){.T = 4, .heads = 5, .kv_heads = 3, .hd = 4}, NULL);
    attention_of(1, 1, (struct abi_attn){.T = 4, .heads = 4, .kv_heads = 3, .hd = 4, .map = 1, .h0 = 5}, NULL);
    attention_of(1, 1, (struct abi_attn){.T = 4, .heads = 2, .kv_heads = 3, .hd = 4}, NULL);
}
/* A sequence in windows of 3, one of two documents, the second of which looks about freely. */
static void attention_that_sees_a_part(void) {
    static const uint32_t first[] = {0, 0, 0, 1, 2, 3, 0, 0, 2, 2, 4, 3};
    attention_of(2, 1, (struct abi_attn){.T = 6, .heads = 2, .kv_heads = 1, .hd = 4}, first);
}
static void attention_with_a_cap(void) {
    static const uint32_t first[] = {0, 0, 1, 1, 3};
    attention_of(1, 1, (struct abi_attn){.T = 5, .heads = 2, .kv_heads = 2, .hd = 4, .cap = 0.7f}, NULL);
    attention_of(1, 1, (struct abi_attn){.T = 5, .heads = 2, .kv_heads = 1, .hd = 4, .cap = 2}, first);
}
static void attention_in_parts(void) {
    attention_of(1, 3, (struct abi_attn){.T = 4, .heads = 6, .kv_heads = 3, .hd = 4, .map = 1}, NULL);
}

static void swiglu_of(uint32_t act, uint32_t plain) {
    problem q = start();
    struct abi_ew p = {4, 16, 24, 8, 40, 16, act, plain};
    matrix A = make(&q, 4, 13, 24, 8, 2), B = like(&q, A, 1), dA = like(&q, A, 0), dB = like(&q, A, 0);
    q.out = make(&q, 4, 13, 40, 16, 0);
    q.dout = like(&q, A, 1);
    add(&q, &q.forward,
        (ops_call){.op = OP_SWIGLU, .t = {view(&q, A), view(&q, plain ? A : B), view(&q, q.out)}, .p.ew = p});
    add(&q, &q.backward,
        (ops_call){
            .op = OP_SWIGLU_GRAD, .t = {view(&q, dA), view(&q, plain ? dA : dB), view(&q, q.dout)}, .p.ew = p});
    q.backward_copy[0][0] = A, q.backward_copy[0][1] = dA;
    q.backward_copy[1][0] = B, q.backward_copy[1][1] = dB, q.n_backward_copies = 2;
    vary(&q, "a", A, dA);
    if (!plain) vary(&q, "b", B, dB);
    finish(&q);
}
static void swiglu(void) {
    for (uint32_t act = ABI_ACT_SILU; act <= ABI_ACT_GELU; act++)
        for (uint32_t plain = 0; plain < 2; plain++) swiglu_of(act, plain);
}

static void xent_of(float cap) {
    static const uint32_t target[] = {2, ABI_NO_TARGET, 10, 0};
    problem q = start();
    struct abi_xent p = {4, 11, 24, 0.25f, cap};
    matrix L = make(&q, 4, 11, 24, 0, 2), dL = like(&q, L, 0), again = make(&q, 1, 4, 8, 0, 0);
    uint32_t none[8] = {0};
    ops_view targets = numbers(&q, target, 4), top = numbers(&q, none, 8);
    q.out = make(&q, 1, 4, 8, 0, 0);
    q.dout = make(&q, 1, 4, 8, 0, 0);
    for (int i = 0; i < 4 && q.ok; i++) ops_doubles(q.m, q.dout.buf)[i] = p.weight;
    add(&q, &q.forward,
        (ops_call){.op = OP_XENT, .t = {view(&q, L), targets, view(&q, q.out), top}, .p.xent = p});
    add(&q, &q.backward,
        (ops_call){.op = OP_XENT_GRAD, .t = {view(&q, dL), targets, view(&q, again)}, .p.xent = p});
    q.backward_copy[0][0] = L, q.backward_copy[0][1] = dL, q.n_backward_copies = 1;
    vary(&q, "logits", L, dL);
    finish(&q);
}
static void xent(void) {
    xent_of(0);
    xent_of(1.5f);
}

int main(void) {
    TEST(embed);
    TEST(norm);
    TEST(head_norm);
    TEST(bias_of_a_sum);
    TEST(linear);
    TEST(rope);
    TEST(attention);
    TEST(attention_of_shared_keys);
    TEST(attention_of_uneven_heads);
    TEST(attention_that_sees_a_part);
    TEST(attention_with_a_cap);
    TEST(attention_in_parts);
    TEST(swiglu);
    TEST(xent);
    return test_end();
}
