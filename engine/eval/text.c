#include "engine/eval/internal.h"

// White space as Python's str.strip knows it: the reference's prompts are cut by it.
static bool is_space(uint32_t c) {
    static const struct {
        uint16_t from, to;
    } ranges[] = {{0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                  {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].from && c <= ranges[i].to) return true;
    return false;
}

static uint32_t code_point(const char *bytes, size_t len) {
    static const unsigned char first[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = (unsigned char)bytes[0] & first[len];
    for (size_t i = 1; i < len; i++) c = c << 6 | ((unsigned char)bytes[i] & 0x3F);
    return c;
}

size_t text_trailing_space(span t) {
    size_t end = t.n;
    while (end) {
        size_t at = end - 1;
        while (at && end - at < 4 && ((unsigned char)t.bytes[at] & 0xC0) == 0x80) at--;
        size_t len = str_utf8(t.bytes + at, end - at);
        if (len == 0 || at + len != end || !is_space(code_point(t.bytes + at, len))) break;
        end = at;
    }
    return t.n - end;
}

size_t text_chars(span t) {
    size_t chars = 0;
    for (size_t at = 0; at < t.n; chars++) {
        size_t len = str_utf8(t.bytes + at, t.n - at);
        at += len ? len : 1;
    }
    return chars;
}
