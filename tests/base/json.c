#include "engine/base/json.h"

#include <float.h>
#include <locale.h>

#include "engine/base/mem.h"
#include "tests/base/folder.h"
#include "tests/test.h"

static json_doc *doc;
static colm_err err;

static bool open_text(const char *text) {
    json_close(&doc);
    return CHECK_OK(json_open_text("exp.json", text, strlen(text), &doc, &err), err);
}
// Refused, with just this error.
static void refused_bytes(const char *text, size_t n, const char *message) {
    json_close(&doc);
    CHECK(json_open_text("exp.json", text, n, &doc, &err) == COLM_E_INPUT);
    CHECK(doc == NULL);
    CHECK_STR(err.text, message);
}
static void refused(const char *text, const char *message) {
    refused_bytes(text, strlen(text), message);
}

static json_value at(const char *key) {
    return json_get(json_root(doc), key);
}

static void refuses_what_is_no_json(void) {
    refused("", "exp.json:1:1: expected a value, found the end of the text");
    refused(" \n ", "exp.json:2:2: expected a value, found the end of the text");
    refused("{\"a\":1,}", "exp.json:1:7: trailing comma before }");
    refused("[1,\n2,\n]", "exp.json:3:1: trailing comma on the line before ]");
    refused("[,1]", "exp.json:1:2: expected a value, found , (there is one comma too many)");
    refused("[1 2]", "exp.json:1:4: expected ',' or ']' after a value, found 2");
    refused("[1", "exp.json:1:3: expected ',' or ']' after a value, found the end of the text");
    refused("[1}", "exp.json:1:3: expected ',' or ']' after a value, found }");
    refused("{\"a\":1 \"b\":2}", "exp.json:1:8: expected ',' or '}' after a value, found \"");
    refused("{\"a\"}", "exp.json:1:5: expected ':' after the key, found }");
    refused("{\"a\":}", "exp.json:1:6: expected a value, found }");
    refused("{a:1}", "exp.json:1:2: expected a key in double quotes, found a");
    refused("{'a':1}",
            "exp.json:1:2: expected a key in double quotes, found ' (texts and keys take double quotes)");
    refused("{1:1}", "exp.json:1:2: expected a key in double quotes, found 1");
    refused("{} {}", "exp.json:1:4: expected nothing after the value, found {");
    refused("1 // one", "exp.json:1:3: expected nothing after the value, found / (JSON has no comments)");
    refused("# one\n1", "exp.json:1:1: expected a value, found # (JSON has no comments)");
    refused("True", "exp.json:1:1: expected a value, found True (write true)");
    refused("[None]", "exp.json:1:2: expected a value, found None (write null)");
    refused("[truer]", "exp.json:1:2: expected a value, found truer");
    refused("[nul]", "exp.json:1:2: expected a value, found nul");
    refused("\xC3\xA9", "exp.json:1:1: expected a value, found \xC3\xA9");
    refused("[\"\xC3\xA9\", x]", "exp.json:1:7: expected a value, found x"); // columns are characters
    refused_bytes("[1]\0", 4, "exp.json:1:4: expected nothing after the value, found byte 0x00");
    refused_bytes("[\0]", 3, "exp.json:1:2: expected a value, found byte 0x00");
    refused("\xEF\xBB\xBF{}", "exp.json:1:1: begins with a byte order mark; save it as UTF-8 without one");
    refused("\xFF\xFE{", "exp.json:1:1: is UTF-16; save it as UTF-8");
}

static void refuses_numbers(void) {
    static const char advice[] =
        "is not a JSON number (no leading zeros, no '+', digits on both sides of a point)";
    static const char *const wrong[] = {"01",  "-01",  "+1",    ".5",  "5.",    "1.e5", "1e",
                                        "1e+", "0x10", "1_000", "-.5", "1.2.3", "1f"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[64], message[200];
        snprintf(text, sizeof text, "[%s]", wrong[i]);
        snprintf(message, sizeof message, "exp.json:1:2: %s %s", wrong[i], advice);
        refused(text, message);
    }
    refused("[NaN]", "exp.json:1:2: expected a value, found NaN (JSON has no NaN)");
    refused("[-Infinity]", "exp.json:1:2: expected a value, found -Infinity (JSON has no infinity)");
    refused("[-]", "exp.json:1:2: expected a value, found -");
    refused("[1,5]x", "exp.json:1:6: expected nothing after the value, found x");
    refused("[1e400]", "exp.json:1:2: 1e400 is outside the range of a double");
    refused("[-1e400]", "exp.json:1:2: -1e400 is outside the range of a double");
    refused("[1e-400]", "exp.json:1:2: 1e-400 is outside the range of a double");
    refused("[1e99999999999999999999]",
            "exp.json:1:2: 1e99999999999999999999 is outside the range of a double");
    char digits[1200];
    memset(digits, '1', sizeof digits);
    refused_bytes(digits, 1001, "exp.json:1:1: a number of 1001 characters; 1000 is the most");
    refused_bytes(digits, 400,
                  "exp.json:1:1: 1111111111111111111111111111111111111111 is outside the range of a double");
}

static void refuses_texts(void) {
    refused("[\"abc]", "exp.json:1:2: the text that begins here is not closed on its line");
    refused("[\"abc\n\"]", "exp.json:1:2: the text that begins here is not closed on its line");
    refused("[\"abc\\", "exp.json:1:6: unknown escape in a text; a backslash itself is written \\\\");
    refused("[\"C:\\data\"]", "exp.json:1:5: unknown escape in a text; a backslash itself is written \\\\");
    refused("[\"\\u12g4\"]", "exp.json:1:3: \\u needs four hex digits");
    refused("[\"\\u12", "exp.json:1:3: \\u needs four hex digits");
    refused("[\"\\u0000\"]", "exp.json:1:3: \\u0000 is not allowed in a text");
    refused("[\"\\ud800\"]", "exp.json:1:3: \\ud800 is half of a surrogate pair");
    refused("[\"\\udc00\\ud800\"]", "exp.json:1:3: \\udc00 is half of a surrogate pair");
    refused("[\"\\ud800\\u0041\"]", "exp.json:1:3: \\ud800 is half of a surrogate pair");
    refused("[\"\t\"]", "exp.json:1:3: control byte 0x09 in a text; write it as \\u0009");
    refused("[\"\xC3(\"]", "exp.json:1:3: invalid UTF-8 byte 0xc3 in a text");
    refused("[\"\xED\xA0\x80\"]", "exp.json:1:3: invalid UTF-8 byte 0xed in a text");
    refused_bytes("\"a\0b\"", 5, "exp.json:1:3: control byte 0x00 in a text; write it as \\u0000");
}

static void refuses_duplicates(void) {
    refused("{\"a\":1,\n\"b\":2,\n\"a\":3}", "exp.json:3: a: duplicate key, first given on line 1");
    refused("{\"m\":[{\"a\":1,\"\\u0061\":2}]}", "exp.json:1: m[0].a: duplicate key, first given on line 1");
    refused("{\"\":1,\"\":2}", "exp.json:1: [\"\"]: duplicate key, first given on line 1");
    if (open_text("{\"a\":{\"a\":1},\"b\":{\"a\":1},\"A\":1}")) CHECK(json_count(json_root(doc)) == 3);
}

static void refuses_depth(void) {
    char text[400];
    for (size_t depth = 64; depth <= 65; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        json_close(&doc);
        colm_status s = json_open_text("exp.json", text, 2 * depth, &doc, &err);
        CHECK(s == (depth == 64 ? COLM_OK : COLM_E_INPUT));
    }
    CHECK_STR(err.text, "exp.json:1:65: nested deeper than 64");
}

static void takes_what_is_json(void) {
    const char *text = "\t{ \"text\" : \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\xC3\xA9 \x7f\" ,\r\n"
                       "\"list\":[ ] , \"none\":null,\"yes\":true,\"no\":false,\"obj\":{},\"n\":-0.0e-0}\n ";
    if (!open_text(text)) return;
    json_value root = json_root(doc);
    const char *s = NULL;
    bool yes = false, no = true;
    CHECK(json_kind_of(root) == JSON_OBJECT && json_count(root) == 7);
    CHECK_OK(json_read_string(at("text"), &s, &err), err);
    CHECK_STR(s, "\"\\/\b\f\n\r\t\xC3\xA9\xF0\x9F\x98\x80\xC3\xA9 \x7f");
    CHECK(json_kind_of(at("none")) == JSON_NULL && json_kind_of(at("list")) == JSON_ARRAY &&
          json_kind_of(at("obj")) == JSON_OBJECT);
    CHECK_OK(json_read_bool(at("yes"), &yes, &err), err);
    CHECK_OK(json_read_bool(at("no"), &no, &err), err);
    CHECK(yes && !no);
    CHECK(json_line(at("text")) == 1 && json_line(at("list")) == 2);
    CHECK_STR(json_key_at(root, 1), "list");
    CHECK(json_key_at(root, 7) == NULL && json_kind_of(json_value_at(root, 7)) == JSON_ABSENT);
    CHECK_OK(json_finish(at("obj"), &err), err);
    if (open_text(" 5 ")) CHECK(json_kind_of(json_root(doc)) == JSON_NUMBER);
    if (open_text("\"\"")) CHECK_OK(json_read_string(json_root(doc), &s, &err), err);
    CHECK_STR(s, "");
}

static void absent_values_are_harmless(void) {
    json_value none = {0};
    char buf[64] = "x";
    uint64_t u = 5;
    double d = 5;
    const char *s = "kept";
    bool b = true;
    char *canonical = NULL;
    size_t word = 9;
    CHECK(json_kind_of(none) == JSON_ABSENT && json_count(none) == 0 && json_line(none) == 0);
    CHECK(json_item(none, 0).doc == NULL && json_value_at(none, 0).doc == NULL &&
          json_get(none, "a").doc == NULL);
    CHECK(json_key_at(none, 0) == NULL && !json_has(none, "a"));
    CHECK_STR(json_where(none, buf, sizeof buf), "");
    CHECK(json_read_object(none, &err) == COLM_E_INPUT && json_read_array(none, 0, 9, &err) == COLM_E_INPUT);
    CHECK(json_read_u64(none, 0, 9, &u, &err) == COLM_E_INPUT &&
          json_read_double(none, 0, 9, &d, &err) == COLM_E_INPUT);
    CHECK(json_read_string(none, &s, &err) == COLM_E_INPUT && json_read_bool(none, &b, &err) == COLM_E_INPUT);
    CHECK(json_read_word(none, &s, 1, &word, &err) == COLM_E_INPUT && json_finish(none, &err) == COLM_E_INPUT);
    CHECK(json_opt_u64(none, "a", 0, 9, &u, &err) == COLM_E_INPUT);
    CHECK(json_canonical(none, &canonical, &err) == COLM_E_INPUT);
    CHECK(json_fail(none, &err, "why %d", 1) == COLM_E_INPUT);
    CHECK_STR(err.text, "why 1");
    CHECK(u == 5 && d == 5 && b && word == 9 && !canonical);
    CHECK_STR(s, "kept");
    json_doc *closed = NULL;
    json_close(&closed);
}

static void positions_read_like_paths(void) {
    if (!open_text("{\"arms\": {\"expand\": {\"stages\": [{}, {\n \"grow\": {\"add\": [100, [7]], \"a.b\": 1, "
                   "\"\": 2}\n}]}}}"))
        return;
    json_value grow = json_get(json_item(json_get(json_get(at("arms"), "expand"), "stages"), 1), "grow");
    json_value add = json_get(grow, "add");
    char buf[200], small[12];
    CHECK_STR(json_where(json_item(add, 0), buf, sizeof buf), "exp.json:2: arms.expand.stages[1].grow.add[0]");
    CHECK_STR(json_where(json_item(json_item(add, 1), 0), buf, sizeof buf),
              "exp.json:2: arms.expand.stages[1].grow.add[1][0]");
    CHECK_STR(json_where(json_get(grow, "a.b"), buf, sizeof buf),
              "exp.json:2: arms.expand.stages[1].grow[\"a.b\"]");
    CHECK_STR(json_where(json_get(grow, ""), buf, sizeof buf), "exp.json:2: arms.expand.stages[1].grow[\"\"]");
    CHECK_STR(json_where(json_root(doc), buf, sizeof buf), "exp.json:1");
    CHECK_STR(json_where(json_item(add, 0), small, sizeof small), "exp.json:2:");
    CHECK(json_fail(json_item(add, 0), &err, "no %s", "good") == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:2: arms.expand.stages[1].grow.add[0]: no good");
    if (open_text("[[5]]"))
        CHECK_STR(json_where(json_item(json_item(json_root(doc), 0), 0), buf, sizeof buf),
                  "exp.json:1: [0][0]");
}

static void whole_numbers_are_exact(void) {
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0}, {"9007199254740993", 9007199254740993}, {"18446744073709551615", UINT64_MAX}};
    uint64_t v = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!open_text(good[i].text)) continue;
        CHECK_OK(json_read_u64(json_root(doc), 0, UINT64_MAX, &v, &err), err);
        CHECK(v == good[i].value);
    }
    static const char *const wrong[][2] = {
        {"18446744073709551616", "exp.json:1: 18446744073709551616 is not a whole number"},
        {"99999999999999999999999", "exp.json:1: 99999999999999999999999 is not a whole number"},
        {"-1", "exp.json:1: -1 is not a whole number"},
        {"-0", "exp.json:1: -0 is not a whole number"},
        {"1.0", "exp.json:1: 1.0 is not a whole number written with digits alone"},
        {"1e3", "exp.json:1: 1e3 is not a whole number written with digits alone"},
        {"\"7\"", "exp.json:1: \"7\" is a string; write it without quotes (expected a whole number)"},
        {"\"x\"", "exp.json:1: \"x\" is not a whole number"},
        {"null", "exp.json:1: null is not a whole number"},
        {"true", "exp.json:1: true is not a whole number"},
        {"[1]", "exp.json:1: an array is not a whole number"},
        {"{}", "exp.json:1: an object is not a whole number"},
    };
    v = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (!open_text(wrong[i][0])) continue;
        CHECK(json_read_u64(json_root(doc), 0, UINT64_MAX, &v, &err) == COLM_E_INPUT);
        CHECK_STR(err.text, wrong[i][1]);
    }
    CHECK(v == 77);
    if (!open_text("100")) return;
    CHECK(json_read_u64(json_root(doc), 1, 64, &v, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: 100 is not a whole number from 1 to 64");
    CHECK(json_read_u64(json_root(doc), 101, UINT64_MAX, &v, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: 100 is not a whole number of at least 101");
    CHECK_OK(json_read_u64(json_root(doc), 100, 100, &v, &err), err);
    CHECK(v == 100);
}

static void doubles_are_nearest(void) {
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0.1", 0.1},
        {"-2.5e-3", -2.5e-3},
        {"1E+2", 100},
        {"123.456e-2", 123.456e-2},
        {"1.7976931348623157e308", DBL_MAX},
        {"4.9e-324", 4.9406564584124654e-324},
        {"0.000e999999999", 0},
        {"9007199254740993", 9007199254740992.0},
        {"0.1000000000000000055511151231257827021181583404541015625000000000000000000000000001", 0.1},
        {"100000000000000000000000000000000000000000000000000000000000000000000000000000000e-80", 1},
    };
    double v = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!open_text(good[i].text)) continue;
        CHECK_OK(json_read_double(json_root(doc), -INFINITY, INFINITY, &v, &err), err);
        CHECK(v == good[i].value);
    }
    if (open_text("-0.0")) {
        CHECK_OK(json_read_double(json_root(doc), -1, 1, &v, &err), err);
        CHECK(v == 0 && signbit(v));
    }
    v = 77;
    if (open_text("{\"a\":1.5,\"b\":\"1e-5\",\"c\":\"fast\"}")) {
        CHECK(json_read_double(at("a"), 0, 1, &v, &err) == COLM_E_INPUT);
        CHECK_STR(err.text, "exp.json:1: a: 1.5 is not a number from 0 to 1");
        CHECK(json_read_double(at("a"), 2.25, INFINITY, &v, &err) == COLM_E_INPUT);
        CHECK_STR(err.text, "exp.json:1: a: 1.5 is not a number of at least 2.25");
        CHECK(json_read_double(at("a"), -INFINITY, -0.1, &v, &err) == COLM_E_INPUT);
        CHECK_STR(err.text, "exp.json:1: a: 1.5 is not a number of at most -0.1");
        CHECK(json_read_double(at("a"), NAN, NAN, &v, &err) == COLM_E_INPUT);
        CHECK(json_read_double(at("b"), 0, 1, &v, &err) == COLM_E_INPUT);
        CHECK_STR(
            err.text,
            "exp.json:1: b: \"1e-5\" is a string; write it without quotes (expected a number from 0 to 1)");
        CHECK(json_read_double(at("c"), -INFINITY, INFINITY, &v, &err) == COLM_E_INPUT);
        CHECK_STR(err.text, "exp.json:1: c: \"fast\" is not a number");
    }
    CHECK(v == 77);
}

static void numbers_ignore_the_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *got = NULL;
    double v = 0;
    for (size_t i = 0; i < 4 && !got; i++) got = setlocale(LC_NUMERIC, names[i]);
    if (!got) {
        test_skip("no locale with a decimal comma is installed");
        return;
    }
    if (open_text("2.5")) CHECK_OK(json_read_double(json_root(doc), 0, 9, &v, &err), err);
    CHECK(v == 2.5);
    CHECK(json_read_double(json_root(doc), 0, 1.5, &v, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: 2.5 is not a number from 0 to 1.5");
    setlocale(LC_NUMERIC, "C");
}

static void other_types(void) {
    if (!open_text("{\"n\":5,\"t\":\"true\",\"o\":{},\"l\":[1,2,3],\"w\":\"adamv\",\"long\":"
                   "\"0123456789012345678901234567890123456789\"}"))
        return;
    const char *s = "kept";
    bool b = true;
    size_t word = 9;
    static const char *const words[] = {"adamw", "sgd"};
    CHECK(json_read_string(at("n"), &s, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: n: 5 is not a string; write it in quotes");
    CHECK(json_read_string(at("o"), &s, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: o: an object is not a string");
    CHECK(json_read_bool(at("t"), &b, &err) == COLM_E_INPUT);
    CHECK_STR(err.text,
              "exp.json:1: t: \"true\" is a string; write it without quotes (expected true or false)");
    CHECK(json_read_bool(at("n"), &b, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: n: 5 is not true or false");
    CHECK(json_read_object(at("l"), &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: l: an array is not an object");
    CHECK(json_read_array(at("o"), 0, 9, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: o: an object is not an array");
    CHECK(json_read_array(at("l"), 1, 2, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: l: has 3 items, expected 1 to 2");
    CHECK(json_read_array(at("l"), 4, SIZE_MAX, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: l: has 3 items, expected at least 4");
    CHECK(json_read_array(at("l"), 2, 2, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: l: has 3 items, expected 2");
    CHECK_OK(json_read_array(at("l"), 3, 3, &err), err);
    CHECK(json_read_word(at("w"), words, 2, &word, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: w: \"adamv\" is not one of \"adamw\", \"sgd\"; did you mean \"adamw\"?");
    CHECK(json_read_word(at("n"), words, 2, &word, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: n: 5 is not one of \"adamw\", \"sgd\"");
    CHECK(json_read_bool(at("long"), &b, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: long: \"012345678901234567890123456789012345678... is not true or false");
    CHECK(b && word == 9);
    CHECK_STR(s, "kept");
    if (open_text("\"sgd\"")) CHECK_OK(json_read_word(json_root(doc), words, 2, &word, &err), err);
    CHECK(word == 1);
}

static void defaults_stay_unless_given(void) {
    if (!open_text("{\"u\":3,\"d\":0.5,\"b\":true,\"s\":\"x\",\"bad\":[],\"big\":4294967296,\"none\":null}"))
        return;
    json_value o = json_root(doc);
    uint64_t u = 7;
    uint32_t u32 = 7;
    double d = 7;
    bool b = false;
    const char *s = "default";
    json_value v = {0};
    CHECK_OK(json_opt_u64(o, "missing", 0, 1, &u, &err), err);
    CHECK_OK(json_opt_u32(o, "missing", 0, 1, &u32, &err), err);
    CHECK_OK(json_opt_double(o, "missing", 0, 1, &d, &err), err);
    CHECK_OK(json_opt_bool(o, "missing", &b, &err), err);
    CHECK_OK(json_opt_string(o, "missing", &s, &err), err);
    CHECK(json_opt_u64(o, "bad", 0, 9, &u, &err) == COLM_E_INPUT &&
          json_opt_u32(o, "bad", 0, 9, &u32, &err) == COLM_E_INPUT);
    CHECK(json_opt_double(o, "bad", 0, 9, &d, &err) == COLM_E_INPUT &&
          json_opt_bool(o, "bad", &b, &err) == COLM_E_INPUT);
    CHECK(json_opt_string(o, "bad", &s, &err) == COLM_E_INPUT &&
          json_opt_u64(o, "none", 0, 9, &u, &err) == COLM_E_INPUT);
    CHECK(json_opt_u32(o, "big", 0, UINT32_MAX, &u32, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: big: 4294967296 is not a whole number from 0 to 4294967295");
    CHECK(json_opt_u64(at("bad"), "u", 0, 9, &u, &err) == COLM_E_INPUT); // not an object
    CHECK(u == 7 && u32 == 7 && d == 7 && !b);
    CHECK_STR(s, "default");
    CHECK_OK(json_opt_u64(o, "u", 0, 9, &u, &err), err);
    CHECK_OK(json_opt_u32(o, "u", 0, 9, &u32, &err), err);
    CHECK_OK(json_opt_double(o, "d", 0, 9, &d, &err), err);
    CHECK_OK(json_opt_bool(o, "b", &b, &err), err);
    CHECK_OK(json_opt_string(o, "s", &s, &err), err);
    CHECK(u == 3 && u32 == 3 && d == 0.5 && b);
    CHECK_STR(s, "x");
    CHECK(json_need(o, "absent", &v, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: key \"absent\" is missing");
    CHECK(v.doc == NULL);
    CHECK_OK(json_need(o, "u", &v, &err), err);
    CHECK(json_kind_of(v) == JSON_NUMBER);
}

static void unknown_keys_are_named(void) {
    if (!open_text("{\"model\": {\n\"steps\": 1,\n\"chain\": 3}}")) return;
    json_value model = at("model");
    uint64_t v = 1;
    CHECK_OK(json_finish(json_root(doc), &err), err);
    CHECK(json_finish(model, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:2: model: unknown key \"steps\"");
    CHECK(json_has(model, "steps")); // does not make it known
    CHECK(json_finish(model, &err) == COLM_E_INPUT);
    CHECK_OK(json_opt_u64(model, "steps", 0, 9, &v, &err), err);
    CHECK(json_finish(model, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:3: model: unknown key \"chain\"; known keys: steps");
    CHECK_OK(json_opt_u64(model, "chains", 0, 9, &v, &err), err);
    CHECK_OK(json_opt_u64(model, "chains", 0, 9, &v, &err), err);
    CHECK(json_finish(model, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:3: model: unknown key \"chain\"; did you mean \"chains\"?");
    CHECK_OK(json_opt_u64(model, "chain", 0, 9, &v, &err), err);
    CHECK_OK(json_finish(model, &err), err);
    if (!open_text("{\"seed\":1,\"sed\":2}")) return;
    json_get(json_root(doc), "seed");
    CHECK(json_finish(json_root(doc), &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: unknown key \"sed\"; did you mean \"seed\"?");
    // A key that is there already is not what was meant, if another is near.
    if (!open_text("{\"seed\":1,\"sed\":2}")) return;
    json_get(json_root(doc), "seed");
    json_get(json_root(doc), "step");
    json_get(json_root(doc), "send");
    CHECK(json_finish(json_root(doc), &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: unknown key \"sed\"; did you mean \"send\"?");
}

static void canonical_text(const char *in, const char *out) {
    char *text = NULL;
    if (!open_text(in)) return;
    CHECK_OK(json_canonical(json_root(doc), &text, &err), err);
    CHECK_STR(text, out);
    free(text);
}
static void canonical_texts(void) {
    canonical_text(" { \"b\" : [ 1.0 , 1e3, {} ] , \"a\" : \"\\u0041\\/\" , \"B\" : [ ] } ",
                   "{\"B\":[],\"a\":\"A/\",\"b\":[1.0,1e3,{}]}");
    canonical_text("null", "null");
    canonical_text("[true,false,9007199254740993]", "[true,false,9007199254740993]");
    canonical_text("{\"\\u00e9\":1,\"z\":2}", "{\"z\":2,\"\xC3\xA9\":1}");
}

static void many_keys(void) {
    size_t cap = 1 << 20, n = 0, bad = 0;
    char *text = malloc(cap), key[32];
    n += (size_t)snprintf(text + n, cap - n, "{");
    for (int i = 0; i < 20000; i++)
        n += (size_t)snprintf(text + n, cap - n, "%s\"k%d\":%d", i ? "," : "", i * 7919 % 20000, i);
    n += (size_t)snprintf(text + n, cap - n, "}");
    json_close(&doc);
    if (CHECK_OK(json_open_text("exp.json", text, n, &doc, &err), err)) {
        for (int i = 0; i < 20000; i++) {
            uint64_t v = 0;
            snprintf(key, sizeof key, "k%d", i * 7919 % 20000);
            bad += !json_has(json_root(doc), key);
            bad +=
                json_read_u64(json_value_at(json_root(doc), (size_t)i), 0, 20000, &v, &err) || v != (uint64_t)i;
        }
        CHECK(bad == 0);
    }
    json_close(&doc);
    memcpy(text + n - 1, ",\"k5\":0}", 9);
    CHECK(json_open_text("exp.json", text, n + 7, &doc, &err) == COLM_E_INPUT);
    CHECK_STR(err.text, "exp.json:1: k5: duplicate key, first given on line 1");
    free(text);
}

static void files_and_failing_memory(void) {
    static const char text[] = "{\"a\":[1,{\"b\":\"c\"}],\"d\":null}";
    json_close(&doc);
    if (CHECK_OK(json_open_file(folder_put("exp.json", text, sizeof text - 1), &doc, &err), err)) {
        char buf[2048];
        CHECK_HAS(json_where(at("d"), buf, sizeof buf), "/exp.json:1: d");
    }
    json_close(&doc);
    CHECK(json_open_file(folder_at("absent.json"), &doc, &err) == COLM_E_IO);
    CHECK(json_open_file(folder_put("bad.json", "{", 1), &doc, &err) == COLM_E_INPUT);
    CHECK_HAS(err.text, "/bad.json:1:2: expected a key in double quotes");
    for (long k = 0; k < 100; k++) { // every allocation refused in turn
        mem_fail_after(k);
        colm_status s = json_open_file(folder_at("exp.json"), &doc, &err);
        mem_fail_after(-1);
        if (s == COLM_OK) {
            CHECK(k > 5);
            mem_fail_after(0); // a lookup needs no memory, only its hint does
            CHECK(json_kind_of(at("d")) == JSON_NULL && at("x").doc == NULL);
            char *canonical = NULL;
            CHECK(json_canonical(json_root(doc), &canonical, &err) == COLM_E_MEMORY);
            mem_fail_after(-1);
            return;
        }
        CHECK(s == COLM_E_MEMORY && doc == NULL);
    }
    CHECK(!"it never succeeded");
}

int main(void) {
    folder_make();
    TEST(refuses_what_is_no_json);
    TEST(refuses_numbers);
    TEST(refuses_texts);
    TEST(refuses_duplicates);
    TEST(refuses_depth);
    TEST(takes_what_is_json);
    TEST(absent_values_are_harmless);
    TEST(positions_read_like_paths);
    TEST(whole_numbers_are_exact);
    TEST(doubles_are_nearest);
    TEST(numbers_ignore_the_locale);
    TEST(other_types);
    TEST(defaults_stay_unless_given);
    TEST(unknown_keys_are_named);
    TEST(canonical_texts);
    TEST(many_keys);
    TEST(files_and_failing_memory);
    json_close(&doc);
    folder_remove();
    return test_end();
}
