/* Causal attention and its gradients, of every kernel class, against the reference in double; and what bits may
 * not depend on: the sequence's length beyond the query, the batch, the place in it. */
#include "tests/ops/attn_scene.h"

static void sweep(ops_id op) {
    static const uint32_t sizes[] = {1, 2, 4, 6, 8, 16, 32, 64, 72},
                          lengths[] = {1, 2, 7, 8, 9, 31, 33, 64, 65};
    static const uint32_t heads[][2] = {{1, 1}, {2, 1}, {3, 3}, {3, 1}, {4, 1}, {4, 2}, {8, 2}};
    if (!machines()) return;
    uint32_t i = 0;
    for (uint32_t h = 0; h < COUNT_OF(sizes); h++)
        for (uint32_t t = 0; t < COUNT_OF(lengths); t++, i++) {
            const uint32_t *n = heads[i % COUNT_OF(heads)];
            if (!check_shape(op, (shape){1 + i % 3, lengths[t], n[0], n[1], sizes[h], i})) return;
        }
    for (uint32_t g = 0; g < COUNT_OF(heads); g++)
        if (!check_shape(op, (shape){2, 19, heads[g][0], heads[g][1], 16, g})) return;
    check_shape(op, (shape){40, 1, 2, 1, 8, 0});
}

static void attn(void) {
    sweep(OP_ATTN);
}
static void attn_delta(void) {
    sweep(OP_ATTN_DELTA);
}
static void attn_dq(void) {
    sweep(OP_ATTN_DQ);
}
static void attn_dkv(void) {
    sweep(OP_ATTN_DKV);
}

/* The largest head that each class takes. */
static void wide_heads(void) {
    static const ops_id ops[] = {OP_ATTN, OP_ATTN_DELTA, OP_ATTN_DQ, OP_ATTN_DKV};
    if (!machines()) return;
    for (size_t k = 0; k < COUNT_OF(ops); k++) {
        check_shape(ops[k], (shape){1, 18, 1, 1, 128, 0});
        check_shape(ops[k], (shape){1, 18, 1, 1, 251, 0});
    }
}

/* In 16 bits; heads of 5 share words with their neighbours, and their numbers are written from different
 * groups. */
static void stored_in_16_bits(void) {
    static const ops_id ops[] = {OP_ATTN, OP_ATTN_DELTA, OP_ATTN_DQ, OP_ATTN_DKV};
    if (!machines()) return;
    for (size_t k = 0; k < COUNT_OF(ops); k++) {
        check_shape_as(ops[k], (shape){2, 17, 3, 1, 5, 0}, true);
        check_shape_as(ops[k], (shape){1, 33, 4, 2, 16, 1}, true);
        check_shape_as(ops[k], (shape){2, 19, 5, 3, 8, 3, DOCUMENTS, 5, 1, 1, ops[k] == OP_ATTN_DKV}, true);
    }
}

/* Scores far apart: exp must not overflow, and a query that sees one key alone gives that key's value. */
static void large_scores(void) {
    if (!machines()) return;
    scene s = make_attn((shape){1, 33, 1, 1, 16, 0});
    for (uint32_t i = 0; i < s.t[0].len; i++) floats(&s.t[0])[i] *= 300;
    scene_check(&s, "large scores", (double[]){1e-6, 1e-10}); /* scores of 1e4 are rounded by 1e-3 */
    scene_done(&s);
}

/* A scene of one sequence made of the first T rows of sequence b. */
static scene cut_sequence(const scene *s, uint32_t b, uint32_t T) {
    scene c = scene_new(s->call.op);
    struct abi_attn p = s->call.p.attn, *q = &c.call.p.attn;
    *q = p;
    q->rows = q->T = T;
    const char *access = ops_get(s->call.op)->access;
    for (uint32_t k = 0; k < s->n; k++) {
        bool stat = k == (s->call.op == OP_ATTN ? 5 : 4);
        uint32_t ld = s->t[k].len / p.rows, first = b * p.T * ld;
        if (stat) {
            tensor *t = scene_tensor(&c, size_stat(q));
            for (uint32_t h = 0; h < p.heads; h++) {
                memcpy(wholes(t) + q->so + h * T, wholes(&s->t[k]) + p.so + h * p.rows + b * p.T,
                       T * sizeof(float));
                memcpy(wholes(t) + q->dlo + h * T, wholes(&s->t[k]) + p.dlo + h * p.rows + b * p.T,
                       T * sizeof(float));
            }
        } else {
            tensor *t = scene_tensor(&c, (size_t)T * ld);
            if (access[k] == 'r')
                memcpy(t->bits + FRAME, s->t[k].bits + FRAME + first, (size_t)T * ld * sizeof(float));
        }
    }
    return c;
}

/* Of three sequences of 65, each alone and cut short gives the bits it has among the others. */
static void bits_depend_on_the_own_past_alone(void) {
    static const uint32_t cuts[] = {65, 64, 33, 16, 9, 1}, sizes[] = {6, 16, 64};
    static const ops_id ops[] = {OP_ATTN, OP_ATTN_DQ, OP_ATTN_DKV};
    if (!machines()) return;
    for (uint32_t k = 0; k < COUNT_OF(ops) * COUNT_OF(sizes); k++) {
        ops_id op = ops[k / COUNT_OF(sizes)];
        scene s = make(op, (shape){3, 65, 4, 2, sizes[k % COUNT_OF(sizes)], k});
        struct abi_attn p = s.call.p.attn;
        uint32_t result = op == OP_ATTN ? 4 : 6, ld = s.t[result].len / p.rows;
        uint32_t o = op == OP_ATTN ? p.oo : op == OP_ATTN_DQ ? p.qo : p.ko;
        uint32_t cols = (op == OP_ATTN_DKV ? p.kv_heads : p.heads) * p.hd;
        outcome all[OPS_MAX_TENSORS], one[OPS_MAX_TENSORS];
        EACH_GPU(m) {
            bool ran = scene_run(m, &s, all);
            /* a key's gradient comes from all later queries: for dkv only whole sequences */
            for (uint32_t c = 0; c < (op == OP_ATTN_DKV ? 1 : COUNT_OF(cuts)) && ran; c++)
                for (uint32_t b = 0; b < 3; b++) {
                    scene part = cut_sequence(&s, b, cuts[c]);
                    if (scene_run(m, &part, one) &&
                        !CHECK(same_rows(&one[result], &all[result], cuts[c], b * p.T, ld, o, cols)))
                        printf("# %s, head size %u, T %u, sequence %u, class %s\n", ops_get(op)->name, p.hd,
                               cuts[c], b, test_classes[class_]);
                    outcome_done(one);
                    scene_done(&part);
                }
            outcome_done(all);
        }
        scene_done(&s);
    }
}

/* 70,000 sequences of one token: more tiles than an axis holds. There attention gives V itself, and dq and dk
 * are 0 but for rounding. The portable gradients, slow on a CPU, fold their groups as the portable attention
 * does. */
static void seventy_thousand_sequences(void) {
    static const ops_id ops[] = {OP_ATTN, OP_ATTN_DELTA, OP_ATTN_DQ, OP_ATTN_DKV};
    if (!machines()) return;
    for (size_t k = 0; k < COUNT_OF(ops); k++) {
        scene s = make(ops[k], (shape){70000, 1, 1, 1, 4, 0});
        struct abi_attn p = s.call.p.attn;
        uint32_t ld = ops[k] == OP_ATTN_DQ ? p.ldq : p.ldk, o = ops[k] == OP_ATTN_DQ ? p.qo : p.ko;
        outcome got[OPS_MAX_TENSORS];
        if (k < 2) {
            scene_check(&s, "70,000 sequences", (double[]){1e-10, 1e-10});
        } else if (scene_gpu[0] && scene_run(scene_gpu[0], &s, got)) {
            double worst = 0;
            for (uint32_t r = 0; r < p.rows; r++)
                for (uint32_t d = 0; d < p.hd; d++) {
                    float f = ((float *)(void *)got[6].bits)[FRAME + r * ld + o + d];
                    worst = !(fabs(f) <= worst) ? fabs(f) : worst;
                }
            CHECK_NEAR(worst, 0, 1e-4);
            outcome_done(got);
        }
        scene_done(&s);
    }
}

int main(void) {
    TEST(attn);
    TEST(attn_delta);
    TEST(attn_dq);
    TEST(attn_dkv);
    TEST(wide_heads);
    TEST(stored_in_16_bits);
    TEST(large_scores);
    TEST(bits_depend_on_the_own_past_alone);
    TEST(seventy_thousand_sequences);
    machines_done();
    return end_with_device();
}
