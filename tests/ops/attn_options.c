/* What attention can do beyond plain causal sequences: masks by a first visible key, capped scores, uneven and
 * tiled key heads, gradients that go on from what is there; and what bits may not depend on there. */
#include "tests/ops/attn_scene.h"

static const ops_id ops[] = {OP_ATTN, OP_ATTN_DQ, OP_ATTN_DKV};

/* Every mask with and without a cap, heads of every relation under both maps. */
static void sweep(ops_id op) {
    static const uint32_t heads[][2] = {{1, 1}, {5, 3}, {4, 2}, {2, 3}, {7, 2}};
    static const struct {
        uint32_t hd, T;
    } sizes[] = {{6, 9}, {6, 33}, {12, 2}, {12, 33}, {16, 1}, {16, 9}, {16, 65}};
    if (!machines()) return;
    uint32_t i = 0;
    for (uint32_t k = 0; k < COUNT_OF(sizes); k++)
        for (sight sees = OPEN; sees < SIGHTS; sees++, i++) {
            const uint32_t *n = heads[i % COUNT_OF(heads)];
            shape z = {1 + i % 2, sizes[k].T, n[0], n[1], sizes[k].hd, i, sees};
            z.cap = i / 2 % 3 == 0 ? 0 : i / 2 % 3 == 1 ? 0.8f : 25;
            z.map = i % 4 < 2, z.h0 = i % 7, z.acc = op == OP_ATTN_DKV && i % 8 < 4;
            if (!check_shape(op, z)) return;
        }
    check_shape(op, (shape){1, 18, 3, 2, 72, 1, DOCUMENTS, 0.8f, 1, 1, op == OP_ATTN_DKV});
}
static void attn(void) {
    sweep(OP_ATTN);
}
static void attn_dq(void) {
    sweep(OP_ATTN_DQ);
}
static void attn_dkv(void) {
    sweep(OP_ATTN_DKV);
}

/* Far beyond the cap and in a corner of float. */
static void large_scores(void) {
    if (!machines()) return;
    for (sight sees = OPEN; sees < SIGHTS; sees++) {
        scene s = make_attn((shape){1, 33, 1, 1, 16, 0, sees, 50});
        for (uint32_t i = 0; i < s.t[0].len; i++) floats(&s.t[0])[i] *= 300;
        scene_check(&s, "large scores", (double[]){1e-6, 1e-10});
        scene_done(&s);
    }
}

/* A query that is no number gives none, whatever is done to its scores; its neighbours are whole. */
static void nan_stays_nan(void) {
    if (!machines()) return;
    for (uint32_t k = 0; k < 4; k++) {
        scene s = make_attn((shape){1, 19, 1, 1, 16, 0, k % 2 ? WINDOW : OPEN, k < 2 ? 0 : 5});
        struct abi_attn p = s.call.p.attn;
        outcome got[OPS_MAX_TENSORS];
        floats(&s.t[0])[7 * p.ldq + p.qo + 3] = NAN;
        EACH_GPU(m) {
            if (!scene_run(m, &s, got)) continue;
            for (uint32_t r = 0; r < p.rows; r++) {
                float f = ((float *)(void *)got[4].bits)[FRAME + r * p.ldo + p.oo];
                if (!CHECK(isnan(f) == (r == 7)))
                    printf("# row %u: %g, case %u, class %s\n", r, f, k, test_classes[class_]);
            }
            outcome_done(got);
        }
        scene_done(&s);
    }
}

/* The result of a scene: which tensor, and its layout. */
typedef struct {
    uint32_t t, ld, o, cols;
} result;
static result result_of(const scene *s) {
    struct abi_attn p = s->call.p.attn;
    switch (s->call.op) {
    case OP_ATTN:
        return (result){4, p.ldo, p.oo, p.heads * p.hd};
    case OP_ATTN_DQ:
        return (result){6, p.ldq, p.qo, p.heads * p.hd};
    default:
        return (result){6, p.ldk, p.ko, p.kv_heads * p.hd};
    }
}

/* Runs both and compares the given row of their results (and of dV), or all rows before `end`. */
static void same_result(const scene *a, const scene *b, uint32_t row, uint32_t end, const char *what) {
    outcome x[OPS_MAX_TENSORS], y[OPS_MAX_TENSORS];
    result r = result_of(a);
    EACH_GPU(m) {
        if (scene_run(m, a, x) && scene_run(m, b, y))
            for (uint32_t t = r.t; t <= (a->call.op == OP_ATTN_DKV ? 7 : r.t); t++) {
                uint32_t *u = x[t].bits + row * r.ld, *v = y[t].bits + row * r.ld;
                outcome one = {u, NULL}, two = {v, NULL};
                if (!CHECK(same_rows(&one, &two, end - row, 0, r.ld, r.o, r.cols)))
                    printf("# %s, tensor %u, %s, rows %u.., class %s\n", ops_get(a->call.op)->name, t, what,
                           row, test_classes[class_]);
            }
        outcome_done(x);
        outcome_done(y);
    }
}

/* Other rows of a tile look elsewhere: blocks come or go that this row sees nothing of. The rows watched see
 * values of -0 alone (their sum, begun at 0, is +0) and negative ones are hidden from them, so that what a
 * hidden block left behind, though it be a zero, would show. */
static void bits_are_not_changed_by_what_neighbours_see(void) {
    if (!machines()) return;
    for (uint32_t k = 0; k < 2 * 2 * 2; k++)
        for (sight other = ALL; other < SIGHTS; other++) {
            scene s = make(ops[k / 4], (shape){1, 65, 2, 1, k % 2 ? 16 : 6, k, DOCUMENTS}), c;
            struct abi_attn p = s.call.p.attn;
            uint32_t of_first = s.call.op == OP_ATTN ? 3 : 5;
            for (uint32_t e = 0; e < s.t[2].len && k / 2 % 2; e++) {
                uint32_t pos = e / p.ldk, watched = pos / 13 * 13 + 12;
                bool seen = wholes(&s.t[of_first])[watched] <= pos;
                floats(&s.t[2])[e] = seen ? -0.0f : -fabsf(floats(&s.t[2])[e]);
            }
            c = scene_copy(&s);
            for (uint32_t r = 0; r < 65; r++)
                if (r % 13 != 12) wholes(&c.t[of_first])[r] = first_seen(other, r, r);
            for (uint32_t r = 12; r < 65; r += 13) same_result(&s, &c, r, r + 1, "others see other keys");
            scene_done(&c);
            scene_done(&s);
        }
}

/* Weights at the end of float: through scores far apart, or in a gradient through a larger lse, where products
 * with a small dO then round to zeros of either sign. */
static void vanish(scene *s) {
    struct abi_attn p = s->call.p.attn;
    if (s->call.op == OP_ATTN) {
        for (uint32_t i = 0; i < s->t[0].len; i++) floats(&s->t[0])[i] *= 100;
        return;
    }
    for (uint32_t i = 0; i < p.heads * p.rows; i++) floats(&s->t[4])[p.so + i] += 80;
    for (uint32_t i = 0; i < s->t[3].len; i++) floats(&s->t[3])[i] *= 1e-12f;
}

/* Nothing in one of two documents changes a bit of the other, not even the sign of a zero where weights vanish
 * and next to no row of the other is in the tile. */
static void bits_are_not_changed_by_another_document(void) {
    enum { T = 65 };
    if (!machines()) return;
    for (uint32_t k = 0; k < 3 * 2 * 2; k++) {
        scene s = make(ops[k / 4], (shape){1, T, 1, 1, k % 2 ? 16 : 6, k, OPEN}), c;
        bool forward = s.call.op == OP_ATTN, small = k / 2 % 2;
        uint32_t cut = small ? 62 : 37;
        s.call.p.attn.masked = 1;
        for (uint32_t r = 0; r < T; r++) wholes(&s.t[forward ? 3 : 5])[r] = r < cut ? 0 : cut;
        if (small) vanish(&s);
        c = scene_copy(&s);
        /* keys and values of the first document, which the second's queries do not see; or queries of the
         * second */
        struct abi_attn p = s.call.p.attn;
        bool keys = s.call.op != OP_ATTN_DKV;
        static const uint32_t of_keys[] = {1, 2}, of_queries[] = {0, 3};
        for (uint32_t i = 0; i < 2; i++) {
            tensor *t = &c.t[keys ? of_keys[i] : of_queries[i]];
            uint32_t ld = keys ? p.ldk : i ? p.ldo : p.ldq, from = keys ? 0 : cut, to = keys ? cut : T;
            for (uint32_t e = from * ld; e < to * ld; e++) floats(t)[e] *= -3;
        }
        if (!keys)
            for (uint32_t r = cut; r < T; r++) wholes(&c.t[5])[r] = cut + (r - cut) / 2;
        same_result(&s, &c, keys ? cut : 0, keys ? T : cut, small ? "tiny weights" : "documents");
        scene_done(&c);
        scene_done(&s);
    }
}

/* A mask that hides nothing changes no bit. */
static void bits_of_an_open_mask(void) {
    if (!machines()) return;
    for (uint32_t k = 0; k < 3 * 2; k++) {
        scene s = make(ops[k / 2], (shape){1, 65, 2, 1, k % 2 ? 16 : 6, k, ALL}), c = scene_copy(&s);
        c.call.p.attn.masked = 0;
        same_result(&s, &c, 0, 65, "an open mask");
        scene_done(&c);
        scene_done(&s);
    }
}

/* Key gradients of four tiled heads at once, and of two and then two that go on from there. */
static void bits_of_sums_that_go_on(void) {
    if (!machines()) return;
    for (uint32_t k = 0; k < 2; k++) {
        scene all = make(OP_ATTN_DKV, (shape){1, 33, 4, 2, k ? 16 : 24, k, WINDOW, 0, 1}),
              part = scene_copy(&all);
        outcome whole[OPS_MAX_TENSORS], got[OPS_MAX_TENSORS];
        EACH_GPU(m) {
            struct abi_attn p = all.call.p.attn, *q = &part.call.p.attn;
            *q = p;
            q->heads = 2;
            scene rest = scene_copy(&part), *second = &rest;
            q = &second->call.p.attn;
            q->h0 = 2, q->acc = 1;
            q->qo += 2 * p.hd, q->oo += 2 * p.hd, q->so += 2 * p.rows, q->dlo += 2 * p.rows;
            if (scene_run(m, &all, whole) && scene_run(m, &part, got)) {
                for (int t = 6; t < 8; t++) copy_outcome(&rest.t[t], &got[t]);
                outcome_done(got);
                if (scene_run(m, &rest, got))
                    for (int t = 6; t < 8; t++)
                        CHECK(same_bits(whole[t].bits, got[t].bits, all.t[t].len + 2 * FRAME));
            }
            outcome_done(whole);
            outcome_done(got);
            scene_done(&rest);
        }
        scene_done(&all);
        scene_done(&part);
    }
}

int main(void) {
    TEST(attn);
    TEST(attn_dq);
    TEST(attn_dkv);
    TEST(large_scores);
    TEST(nan_stays_nan);
    TEST(bits_are_not_changed_by_what_neighbours_see);
    TEST(bits_are_not_changed_by_another_document);
    TEST(bits_of_an_open_mask);
    TEST(bits_of_sums_that_go_on);
    machines_done();
    return end_with_device();
}
