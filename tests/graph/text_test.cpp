#include "graph/text.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lathe {
namespace {

std::string round_trip(const std::string& text) {
    const auto model = parse_graph_text(text);
    if (!model) return model.error().describe();
    return print(*model, {.full_constants = true, .value_infos = true});
}

TEST(Text, PrintsWhatItReads) {
    const std::string cases[] = {
        "opset 18\n"
        "input %x: float32[N, 3, 224, 224]\n"
        "const %w: float32[1] = {2.0}\n"
        "%y = Mul(%x, %w)\n"
        "%z = Clip(%y, , %w) {name = \"relu6\", axis = 1, ints = [1, -2], s = \"text\", alpha = 0.5}\n"
        "output %z: float32[N, 3, 224, 224]\n",
        // Domains, several and omitted outputs, odd names, unknown ranks and dimensions, model fields.
        "opset 18\n"
        "opset \"com.example\" 1\n"
        "ir 8\n"
        "meta \"lathe.labels\" = \"[\\\"cat\\\"]\"\n"
        "name \"main graph\"\n"
        "input %\"my value\": float32[?, \"2*N\", \"3d\"]\n"
        "input %12: int64[]\n"
        "input %u: undefined\n"
        "value %a: float16\n"
        "%a, , %c = com.example::Halves(%\"my value\", %12)\n"
        "= com.example::Sink(%/model/layer.0/Add_output_0, %u)\n"
        "output %c: bfloat16[2]\n",
        // Constants of every kind of element.
        "opset 18\n"
        "const %bf: bfloat16[2] = {1.5, -inf}\n"
        "const %bool: bool[2] = {true, false}\n"
        "const %d: float64[1] = {0.1}\n"
        "const %e: float32[0] = {}\n"
        "const %f: float32[2, 2] = {1e-45, nan, 3.4028235e+38, -0.0}\n"
        "const %f8: float8e4m3fn[2] = {0x7e01}\n"
        "const %h: float16[2] = {65504.0, 5.9604645e-08}\n"
        "const %i4: int4[3] = {-8, 7, -1}\n"
        "const %i8: int8[2] = {-128, 127}\n"
        "const %s: string[2] = {\"a\\\"b\\n\", \"\\x00\"}\n"
        "const %u2: uint2[5] = {0, 1, 2, 3, 1}\n"
        "const %u64: uint64[1] = {18446744073709551615}\n"
        "const %z: int64[] = {-9223372036854775808}\n",
        // Attributes of every kind.
        "opset 18\n"
        "input %c: bool[]\n"
        "%x = Op() {\"name\" = 1, f = nan, g = -inf, l = [1.0, inf], e = [], fe = floats [], se = strings [], t = "
        "float32[2] {1.0, 2.0}, ts = tensors [int64[] {1}, string[1] {\"q\"}], o = opaque \"\\x01\", r = ref \"p\" 2}\n"
        "%y = If(%c) {name = \"if\", then_branch = graph {\n"
        "    const %k: float32[1] = {1.0}\n"
        "    %t = Add(%x, %k)\n"
        "    output %t: float32[1]\n"
        "}, gs = graphs [graph {\n"
        "    output %x: float32[1]\n"
        "}]}\n"
        "output %y: float32[1]\n",
    };
    for (const std::string& text : cases)
        EXPECT_EQ(round_trip(text), text);
}

TEST(Text, LargeConstantsAreDigests) {
    const std::string text = "opset 18\nconst %w: float32[3] = {1.0, 2.0, 3.0}\n";
    const auto model = parse_graph_text(text);
    ASSERT_TRUE(model) << model.error().describe();
    const std::string shortened = print(*model, {.small_constant = 2});
    EXPECT_NE(shortened.find("digest \""), std::string::npos) << shortened;
    const auto again = parse_graph_text(shortened);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message.find("digest"), std::string::npos);
}

TEST(Text, NumbersMayBeRepeated) {
    EXPECT_EQ(round_trip("const %w: float32[2, 3] = {1.0, -2.0, ...}\n"),
              "const %w: float32[2, 3] = {1.0, -2.0, 1.0, -2.0, 1.0, -2.0}\n");
}

TEST(Text, CommentsAndBlankLinesAreSkipped) {
    EXPECT_EQ(round_trip("# heading\nopset 18 # why\n\n  input %x : float32[ 1 , N ]\n"),
              "opset 18\ninput %x: float32[1, N]\n");
}

TEST(Text, RefusesBrokenText) {
    const struct {
        const char* text;
        const char* message;
        const char* where;
    } cases[] = {
        {"opset", "expected a number", "line 1, column 6"},
        {"opset 18\ninput x: float32", "expected '%'", "line 2, column 7"},
        {"input %x: float31[1]", "unknown element type 'float31'", "line 1"},
        {"const %w: float32[2] = {1.0}", "has 1 elements, its shape says 2", "line 1"},
        {"const %w: float32[3] = {1.0, 2.0, ...}", "a multiple of theirs", "line 1"},
        {"const %w: float32[3] = {...}", "a multiple of theirs", "line 1"},
        {"const %w: float32[100000000] = {1.0, ...}", "at most", "line 1"},
        {"const %w: float32[4] = {1.0, 2.0, ... 3.0}", "expected '}'", "line 1"},
        {"const %w: float32[-2] = {1.0}", "not negative", "line 1"},
        {"const %w: int8[1] = {128}", "expected a number", "line 1"},
        {"const %w: int4[1] = {8}", "does not fit", "line 1"},
        {"const %w: float32[1] = {0xff}", "elements", "line 1"},
        {"const %w: int64[1] = {1}\nconst %w: int64[1] = {1}", "given twice", "line 2"},
        {"%y = Relu(%x", "expected ','", "line 1"},
        {"%y = Relu(%x) {a = }", "expected a name", "line 1"},
        {"%y = Relu(%x) {a = \"}", "does not end", "line 1"},
        {"%y = If(%x) {a = graph { opset 3 }}", "expected input", "line 1"},
        {"}", "'}' without", "line 1"},
        {"nonsense", "expected opset", "line 1"},
    };
    for (const auto& each : cases) {
        const auto model = parse_graph_text(each.text);
        ASSERT_FALSE(model) << each.text;
        EXPECT_EQ(model.error().code, ErrorCode::parse_error);
        EXPECT_NE(model.error().message.find(each.message), std::string::npos) << model.error().describe();
        EXPECT_NE(model.error().where.find(each.where), std::string::npos) << model.error().describe();
    }
}

TEST(Text, RefusesDeepNesting) {
    std::string text;
    for (int i = 0; i < 1000; ++i)
        text += "= If() {b = graph {";
    const auto model = parse_graph_text(text);
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find("too deep"), std::string::npos);
}

} // namespace
} // namespace lathe
