/* The retention certificate: silent when nothing changed, and loud at one bit of one frozen tensor. */
#include "engine/eval/retention.h"

#include "engine/base/json.h"
#include "tests/model/models.h"

static const char *const machines[] = {"reference", "cpu", "portable"};
static const model_chain chains[] = {{12, 2, 1, 20}, {1, 1, 1, 3}, {9, 3, 1, 17}};

/* The first n chains; scales and tensors to certify. */
static model_weights *weights(uint32_t n) {
    colm_err err = {0};
    model_config c = test_config(n, chains);
    model_weights *w = NULL;
    if (CHECK_OK(model_weights_create(&c, &w, &err), err)) test_shake(w, 5);
    return w;
}

static retention_witness witness(ops_machine *m, const model_weights *w, uint32_t frozen) {
    colm_err err = {0};
    retention_witness r = {0};
    CHECK_OK(retention_witness_take(m, w, PRECISION_F32, frozen, &r, &err), err);
    CHECK(ops_bytes(m, NULL) == 0);
    return r;
}

/* Certifies and looks at the certificate: valid JSON, with these verdicts; full < 0: none must be there. */
static void certify(const retention_witness *a, const retention_witness *b, bool grown, colm_status want,
                    const char *text, bool tensors, unsigned equal_scales, int full) {
    colm_err err = {0};
    str json = {0};
    json_doc *doc = NULL;
    bool yes = false;
    colm_status st = retention_certify(a, b, grown, &json, &err);
    CHECK(st == want);
    if (want) CHECK_HAS(err.text, text);
    if (!CHECK(json.text) || !CHECK_OK(json_open_text("certificate", json.text, json.len, &doc, &err), err))
        goto out;
    json_value root = json_root(doc), v, scales;
    CHECK_OK(json_need(root, "tensors_equal", &v, &err), err);
    CHECK_OK(json_read_bool(v, &yes, &err), err);
    CHECK(yes == tensors);
    CHECK_OK(json_need(root, "scales", &scales, &err), err);
    CHECK(json_count(scales) == a->scales);
    for (uint32_t i = 0; i < a->scales; i++) {
        CHECK_OK(json_need(json_item(scales, i), "equal", &v, &err), err);
        CHECK_OK(json_read_bool(v, &yes, &err), err);
        CHECK(yes == (equal_scales >> i & 1));
    }
    CHECK((json_need(root, "full_logits_equal", &v, &err) == COLM_OK) == (full >= 0));
    if (full >= 0) {
        CHECK_OK(json_read_bool(v, &yes, &err), err);
        CHECK(yes == (full > 0));
    }
out:
    json_close(&doc);
    str_done(&json);
}

static void nothing_changed_nothing_said(void) {
    for (size_t k = 0; k < 3; k++) {
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        model_weights *w = weights(3);
        for (uint32_t frozen = 0; frozen <= 3; frozen++) {
            colm_err err = {0};
            str a = {0}, b = {0};
            retention_witness one = witness(m, w, frozen), two = witness(m, w, frozen);
            certify(&one, &two, true, COLM_OK, NULL, true, (1u << frozen) - 1, 1);
            certify(&one, &two, false, COLM_OK, NULL, true, (1u << frozen) - 1, -1);
            CHECK_OK(retention_certify(&one, &two, true, &a, &err), err);
            CHECK_OK(retention_certify(&two, &one, true, &b, &err), err);
            CHECK_STR(a.text, b.text);
            CHECK(one.n_tensors == frozen * w->n_tensors / 3 && one.scales == frozen);
            CHECK(frozen == 0 || strcmp(one.logits[frozen], one.full) != 0 || frozen == 3);
            str_done(&a), str_done(&b);
        }
        model_weights_free(&w);
        ops_close(&m);
    }
}

/* One bit of every tensor in turn: frozen ones fail by their bytes even where no logit moves; trained ones
 * pass. */
static void one_bit_of_a_frozen_tensor_fails(void) {
    for (size_t k = 0; k < 3; k++) {
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        model_weights *w = weights(3);
        retention_witness before = witness(m, w, 2);
        for (size_t i = 0; i < w->n_tensors; i += k ? 5 : 1) {
            const model_tensor *t = &w->tensor[i];
            float *x = w->data + t->off + t->rows * t->cols / 2;
            uint32_t bits;
            memcpy(&bits, x, 4);
            bits ^= 1;
            memcpy(x, &bits, 4);
            retention_witness after = witness(m, w, 2);
            colm_err err = {0};
            str json = {0};
            colm_status st = retention_certify(&before, &after, false, &json, &err);
            if (!CHECK(st == (t->chain < 2 ? COLM_E_CHECK : COLM_OK))) printf("#   %s\n", t->name);
            if (st) CHECK_HAS(err.text, "tensors of frozen chains changed");
            str_done(&json);
            bits ^= 1;
            memcpy(x, &bits, 4);
        }
        /* A frozen tensor of chain 2: scale 1's logits stay. */
        w->data[model_weights_at(w, PARAM_W2, 1, 1)->off] += 1;
        retention_witness after = witness(m, w, 2);
        certify(&before, &after, false, COLM_E_CHECK, "tensors", false, 1, -1);
        /* Logits that differ with equal tensors: what a broken kernel would do. */
        after = before;
        after.logits[2][0] ^= 1;
        certify(&before, &after, false, COLM_E_CHECK, "scale 2", true, 1, -1);
        model_weights_free(&w);
        ops_close(&m);
    }
}

/* 128 rows of so many logits would be more than the 128 MiB that many devices bind. */
static void a_large_vocabulary_fits(void) {
    colm_err err = {0};
    ops_machine *m = test_machine("cpu");
    if (!m) return;
    model_config c = test_config(2, (model_chain[]){{8, 1, 1, 8}, {8, 1, 1, 8}});
    c.vocab = 262144, c.layers = 1, c.context = 2048;
    model_weights *w = NULL;
    if (CHECK_OK(model_weights_init(&c, 3, &w, &err), err)) {
        retention_witness a = witness(m, w, 1);
        CHECK(strlen(a.logits[1]) == HASH_TEXT - 1 && strcmp(a.logits[1], a.full) != 0);
    }
    model_weights_free(&w);
    ops_close(&m);
}

static void growing_keeps_the_full_logits(void) {
    for (size_t k = 0; k < 3; k++) {
        colm_err err = {0};
        ops_machine *m = test_machine(machines[k]);
        if (!m) return;
        model_weights *old = weights(2), *all = weights(3), *big = NULL;
        CHECK_OK(model_weights_grow(old, &all->config, 9, &big, &err), err);
        retention_witness before = witness(m, old, 2), after = witness(m, big, 2);
        certify(&before, &after, true, COLM_OK, NULL, true, 3, 1);
        big->data[model_weights_at(big, PARAM_HEAD, 0, 2)->off + 4] = 1e-3f;
        after = witness(m, big, 2);
        certify(&before, &after, true, COLM_E_CHECK, "growing changed", true, 3, 0);
        certify(&before, &after, false, COLM_OK, NULL, true, 3, -1); /* trained afterwards: as it should be */
        model_weights_free(&old), model_weights_free(&all), model_weights_free(&big);
        ops_close(&m);
    }
}

int main(void) {
    TEST(nothing_changed_nothing_said);
    TEST(one_bit_of_a_frozen_tensor_fails);
    TEST(growing_keeps_the_full_logits);
    TEST(a_large_vocabulary_fits);
    return test_end();
}
