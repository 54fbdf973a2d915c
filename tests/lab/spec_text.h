/* What the tests of experiment files share: a small sound file, and ways to change and read it. */
#ifndef COLM_TESTS_LAB_SPEC_TEXT_H
#define COLM_TESTS_LAB_SPEC_TEXT_H

#include "engine/base/mem.h"
#include "engine/lab/spec.h"
#include "tests/test.h"

static colm_err err;

/* A small file that every wrong one below differs from in one place. */
static const char good[] = //
    "{\n"
    "  \"colm\": 1, \"name\": \"small\", \"seeds\": [1, 9223372036854775807],\n"
    "  \"data\": {\n"
    "    \"bible\": {\"text\": [\"data/bible\"], \"heldout\": 0.1},\n"
    "    \"perl\": {\"text\": \"data/perl\", \"split_on\": \"^=head1\", \"max_bytes\": 5000, \"seed\": 3}\n"
    "  },\n"
    "  \"model\": {\"layers\": 4, \"width\": 64, \"ffn\": 176, \"chains\": [4], \"kv_heads\": 2, \"context\": "
    "128},\n"
    "  \"train\": {\"batch\": 8, \"lr\": 2e-3},\n"
    "  \"tasks\": {\n"
    "    \"cloze\": {\"cloze\": \"bible\"},\n"
    "    \"bpb\": {\"bits_per_byte\": \"perl\", \"max_bytes\": 20000},\n"
    "    \"quiz\": {\"choice\": \"quiz.jsonl\"}\n"
    "  },\n"
    "  \"arms\": {\n"
    "    \"expand\": {\"from\": \"base\", \"stages\": [\n"
    "      {\"grow\": {\"add\": [2]}},\n"
    "      {\"train\": {\"on\": {\"perl\": 3, \"bible\": 1}, \"tokens\": 6000, \"context\": 64}},\n"
    "      {\"train\": {\"on\": [\"bible\", \"perl\"], \"tokens\": 10, \"freeze\": 0}},\n"
    "      {\"eval\": {\"tasks\": [\"bpb\"]}}\n"
    "    ]},\n"
    "    \"base\": {\"stages\": [{\"train\": {\"on\": \"bible\", \"tokens\": 5000}}, {\"eval\": {}}]},\n"
    "    \"late\": {\"from\": \"expand\", \"stages\": [{\"train\": {\"on\": \"bible\", \"tokens\": 1}}]},\n"
    "    \"scratch\": {\"model\": {\"chains\": [4, 2], \"width\": 96, \"ffn\": 264, \"kv_heads\": 3}, "
    "\"stages\": [{\"eval\": {}}]}\n"
    "  }\n"
    "}\n";

/* The file with its first `from` replaced; free it. */
static inline char *edit(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    if (!at || !out) {
        CHECK(!"the text to replace is there");
        printf("#   %s\n", from);
        if (out) strcpy(out, text);
        return out;
    }
    sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}
static inline spec *read(const char *text) {
    spec *s = NULL;
    CHECK_OK(spec_parse("dir/small.json", text, strlen(text), &s, &err), err);
    return s;
}
static inline spec *read_edited(const char *from, const char *to) {
    char *text = edit(good, from, to);
    spec *s = read(text);
    free(text);
    return s;
}
static inline const spec_arm *arm(const spec *s, const char *name) {
    int i = s ? spec_arm_index(s, name) : -1;
    return CHECK(i >= 0) ? &s->arm[i] : NULL;
}

/* Every allocation refused in turn: each time the one error, until none is refused. */
static inline void fails_at_every_allocation(const char *text) {
    spec *s = NULL;
    long n = 0;
    for (; n < 20000; n++) {
        mem_fail_after(n);
        colm_status status = spec_parse("f", text, strlen(text), &s, &err);
        mem_fail_after(-1);
        if (!status) break;
        if (!CHECK(status == COLM_E_MEMORY && err.code == status))
            printf("#   %ld: %d %s\n", n, status, err.text);
    }
    CHECK(n > 20 && n < 20000);
    spec_free(&s);
}

#endif
