#include "engine/data/tokenizer.h"

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "tests/test.h"

static void bytes_are_ids(void) {
    colm_err err;
    tokenizer *t = NULL;
    token_list l = {0};
    if (!CHECK_OK(tokenizer_open("bytes", &t, &err), err)) return;
    CHECK(tokenizer_vocab(t) == 257 && tokenizer_eos(t) == 256 && !tokenizer_adds_bos(t));
    CHECK_STR(tokenizer_name(t), "bytes");
    CHECK(strlen(tokenizer_digest(t)) == 32);
    CHECK_OK(tokenizer_encode(t, "A\0\xff", 3, &l, &err), err);
    CHECK_OK(tokenizer_encode(t, "b", 1, &l, &err), err); // appends
    CHECK(l.n == 4 && l.id[0] == 'A' && l.id[1] == 0 && l.id[2] == 255 && l.id[3] == 'b');
    CHECK_OK(tokenizer_encode(t, NULL, 0, &l, &err), err);
    CHECK(l.n == 4);
    token_list_done(&l);
    CHECK(l.id == NULL && l.n == 0);
    tokenizer_close(&t);
    CHECK(t == NULL);
    tokenizer_close(&t);
}

static void round_trip(void) {
    colm_err err;
    tokenizer *t = NULL;
    rng_stream r = rng_open(1, "round trip");
    char text[1000];
    if (!CHECK_OK(tokenizer_open("bytes", &t, &err), err)) return;
    for (size_t n = 0; n < sizeof text; n = n * 2 + 1) {
        token_list l = {0};
        char *back = NULL;
        size_t back_n = 99;
        for (size_t i = 0; i < n; i++) text[i] = (char)rng_below(&r, n * 1000 + i, 256);
        CHECK_OK(tokenizer_encode(t, text, n, &l, &err), err);
        if (CHECK_OK(tokenizer_decode(t, l.id, l.n, &back, &back_n, &err), err))
            CHECK(back_n == n && memcmp(back, text, n) == 0 && back[n] == 0);
        free(back);
        token_list_done(&l);
    }
    tokenizer_close(&t);
}

static void decode_refuses_and_skips(void) {
    colm_err err;
    tokenizer *t = NULL;
    char *back = NULL;
    size_t n;
    if (!CHECK_OK(tokenizer_open("bytes", &t, &err), err)) return;
    CHECK_OK(tokenizer_decode(t, (uint32_t[]){'h', 256, 'i'}, 3, &back, &n, &err), err);
    CHECK(n == 2);
    CHECK_STR(back, "hi");
    free(back);
    CHECK(tokenizer_decode(t, (uint32_t[]){'h', 257}, 2, &back, &n, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "257");
    CHECK_HAS(err.text, "token 1 of 2");
    tokenizer_close(&t);
}

static void unknown_name(void) {
    colm_err err;
    tokenizer *t = NULL;
    CHECK(tokenizer_open("byte", &t, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "\"byte\"");
    CHECK_HAS(err.text, "did you mean \"bytes\"");
    CHECK(tokenizer_open("", &t, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "known: \"bytes\"");
    CHECK(t == NULL);
}

static void no_memory(void) {
    colm_err err;
    tokenizer *t = NULL;
    token_list l = {0};
    mem_fail_after(0);
    CHECK(tokenizer_open("bytes", &t, &err) == COLM_E_MEMORY);
    CHECK(token_list_add(&l, 1, &err) == COLM_E_MEMORY);
    mem_fail_after(-1);
    CHECK(t == NULL && l.id == NULL);
}

int main(void) {
    TEST(bytes_are_ids);
    TEST(round_trip);
    TEST(decode_refuses_and_skips);
    TEST(unknown_name);
    TEST(no_memory);
    return test_end();
}
