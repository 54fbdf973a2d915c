// How contexts and continuations become tokens.
#include "engine/data/tokenizer_kind.h"
#include "engine/eval/internal.h"
#include "tests/test.h"

// Bytes, but "bc" is the one token 300 and eos is 1. Some variants add a beginning-of-sequence token.
static colm_status encode_pairs(const tokenizer *t, const char *bytes, size_t n, token_list *io,
                                colm_err *err) {
    (void)t;
    colm_status s = COLM_OK;
    for (size_t i = 0; i < n && !s; i++) {
        bool pair = i + 1 < n && bytes[i] == 'b' && bytes[i + 1] == 'c';
        s = token_list_add(io, pair ? 300 : (unsigned char)bytes[i], err);
        i += pair;
    }
    return s;
}
static const tokenizer_kind plain = {"pairs", "", 301, 1, false, encode_pairs, NULL};
static const tokenizer_kind with_bos = {"pairs with bos", "", 301, 1, true, encode_pairs, NULL};

typedef struct {
    const char *context, *continuation;
    bool bos;
    uint32_t n_context, n_cont, backoffs;
    uint32_t token[8];
} row;

static const row rows[] = {
    {"ab", " x", false, 2, 2, 0, {'a', 'b', ' ', 'x'}},
    {"ab  ", "x", false, 2, 3, 0, {'a', 'b', ' ', ' ', 'x'}},           // white space moves
    {"a\xC2\xA0\n", "x", false, 1, 4, 0, {'a', 0xC2, 0xA0, '\n', 'x'}}, // that of Unicode, too
    {"a\xA0", "x", false, 2, 1, 0, {'a', 0xA0, 'x'}},                   // a stray byte is none
    {"a\xE3\x80\x80", "x", false, 1, 4, 0, {'a', 0xE3, 0x80, 0x80, 'x'}},
    {"", " x", false, 1, 2, 0, {1, ' ', 'x'}},       // eos stands for nothing
    {"  ", "x", false, 1, 3, 0, {1, ' ', ' ', 'x'}}, // nothing but white space: likewise
    {"", "\1x", false, 1, 1, 0, {1, 'x'}},           // and is not doubled
    {"", "\1", false, 1, 1, 1, {1, 1}},
    {"ab", "c", false, 1, 1, 1, {'a', 300}},       // a token across the join: one back
    {"ab", "cd", false, 2, 1, 0, {'a', 300, 'd'}}, // something is left: as the rule says
    {"b", "c", false, 1, 1, 1, {1, 300}},          // and never without a context
    {"ab", " x", true, 3, 2, 0, {1, 'a', 'b', ' ', 'x'}},
    {"\1ab", " x", true, 3, 2, 0, {1, 'a', 'b', ' ', 'x'}}, // bos never twice
    {"", " x", true, 1, 2, 0, {1, ' ', 'x'}},
    {"", "\1x", true, 1, 1, 0, {1, 'x'}},
    {"b", "c", true, 1, 1, 1, {1, 300}},
};

static span text_of(const char *s) {
    return (span){s, strlen(s)};
}

static void splits(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *w = &rows[i];
        colm_err err;
        const tokenizer tok = {.kind = w->bos ? &with_bos : &plain};
        eval_task task = {0};
        task_builder b = {.task = &task, .tok = &tok, .hash = hash_open()};
        if (CHECK_OK(task_add_choice(&b, text_of(w->context), text_of(w->continuation), text_of("bare"), &err),
                     err)) {
            const task_request *r = task.request;
            bool ok =
                r->n_context == w->n_context && r->n_cont == w->n_cont && task.backoffs == w->backoffs &&
                memcmp(task.tokens.id + r->token, w->token, (w->n_context + w->n_cont) * sizeof(uint32_t)) == 0;
            if (!CHECK(ok))
                printf("# row %zu: %u + %u tokens, %zu back-offs, first %u\n", i, r->n_context, r->n_cont,
                       task.backoffs, task.tokens.id[r->token]);
            CHECK(task.tokens.n == r->token + w->n_context + w->n_cont);
        }
        hash_close(&b.hash, NULL);
        str_done(&b.joined);
        token_list_done(&task.tokens);
        free(task.request);
    }
}

static void counts_characters(void) {
    CHECK(text_chars(text_of("")) == 0);
    CHECK(text_chars(text_of("h\xC3\xA9llo \xE2\x82\xAC \xF0\x9F\x98\x80")) == 9);
    CHECK(text_chars(text_of("a\xFF\xC3")) == 3); // bytes that are no UTF-8: one each
    CHECK(text_chars((span){"a\0b", 3}) == 3);
    CHECK(text_trailing_space(text_of(" a \t\n")) == 3);
    CHECK(text_trailing_space(text_of("\xE2\x80\x83\x1F")) == 4);
    CHECK(text_trailing_space(text_of("\xE2\x80\x8B")) == 0); // the zero-width space is no white space
    CHECK(text_trailing_space(text_of("")) == 0);
}

int main(void) {
    TEST(splits);
    TEST(counts_characters);
    return test_end();
}
