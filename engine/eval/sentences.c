#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eval/cloze.h"

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
static bool is_letter(char c) {
    return is_upper(c) || is_lower(c) || (unsigned char)c >= 0x80;
}
static bool is_stop(char c) {
    return c == '.' || c == '!' || c == '?';
}

// Length of the closing quote or bracket, or further stop, at the position; 0 when there is none.
static size_t closing(span t, size_t at) {
    static const char *const marks[] = {
        ".", "!", "?", "\"", "'", ")", "]", "\xE2\x80\x99", "\xE2\x80\x9D", "\xC2\xBB"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = strlen(marks[i]);
        if (n <= t.n - at && memcmp(t.bytes + at, marks[i], n) == 0) return n;
    }
    return 0;
}

// Whether the stop at the position ends a short capitalised word, as in "Mr." or "J.".
static bool is_abbreviation(span t, size_t begin, size_t at) {
    size_t word = at;
    while (word > begin && is_letter(t.bytes[word - 1])) word--;
    return t.bytes[at] == '.' && at > word && at - word <= 3 && is_upper(t.bytes[word]);
}

// Behind the stop at the position and all stops, quotes and brackets that follow it at once.
static size_t behind_stop(span t, size_t at) {
    for (size_t n = 1; n; n = at < t.n ? closing(t, at) : 0) at += n;
    return at;
}

// Whether a sentence that began at `begin`, with its stop at `at`, ends before `end`.
static bool is_end(span t, size_t begin, size_t at, size_t end) {
    if (end < t.n && !is_space(t.bytes[end])) return false;
    if (is_abbreviation(t, begin, at)) return false;
    while (end < t.n && is_space(t.bytes[end])) end++;
    return end == t.n || !is_lower(t.bytes[end]);
}

// Whether a blank line begins with the line end at the position.
static bool is_blank_line(span t, size_t at) {
    if (t.bytes[at] != '\n') return false;
    do at++;
    while (at < t.n && t.bytes[at] != '\n' && is_space(t.bytes[at]));
    return at < t.n && t.bytes[at] == '\n';
}

static colm_status push(sentences *s, span t, size_t doc, colm_err *err) {
    const size_t begin = s->bytes.len;
    bool letter = false;
    for (size_t i = 0; i < t.n; i++) {
        if (!is_space(t.bytes[i])) {
            str_addn(&s->bytes, t.bytes + i, 1);
            letter = letter || is_letter(t.bytes[i]);
        } else if (s->bytes.len > begin && !is_space(t.bytes[i - 1])) {
            str_addn(&s->bytes, " ", 1);
        }
    }
    if (s->bytes.len > begin && s->bytes.text[s->bytes.len - 1] == ' ') s->bytes.len--;
    if (s->bytes.failed) return err_nomem(err, t.n, "sentences");
    const size_t n = s->bytes.len - begin;
    if (n == 0) return COLM_OK; // nothing stood there, so nothing is left out
    const span clean = {s->bytes.text + begin, n};
    const size_t chars = text_chars(clean);
    if (!letter || chars < SENTENCE_MIN || chars > SENTENCE_MAX) {
        s->bytes.len = begin;
        s->runs++;
        return COLM_OK;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 1024;
        sentence_at *more = mem_grow(s->at, cap, sizeof *more);
        if (!more) return err_nomem(err, cap * sizeof *more, "sentences");
        s->at = more;
        s->cap = cap;
    }
    s->at[s->n++] = (sentence_at){begin, n, hash_u64(clean.bytes, n), doc, s->runs};
    return COLM_OK;
}

colm_status sentences_add(sentences *s, span doc, size_t doc_number, colm_err *err) {
    size_t begin = 0;
    s->runs++;
    for (size_t at = 0, next; at < doc.n; at = next) {
        const bool stop = is_stop(doc.bytes[at]);
        next = stop ? behind_stop(doc, at) : at + 1;
        if (stop ? !is_end(doc, begin, at, next) : !is_blank_line(doc, at)) continue;
        colm_status st = push(s, (span){doc.bytes + begin, next - begin}, doc_number, err);
        if (st) return st;
        begin = next;
    }
    return push(s, (span){doc.bytes + begin, doc.n - begin}, doc_number, err);
}

void sentences_done(sentences *s) {
    str_done(&s->bytes);
    free(s->at);
    *s = (sentences){0};
}
