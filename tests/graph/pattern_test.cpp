#include "graph/pattern.hpp"

#include <string>

#include <gtest/gtest.h>

#include "graph/parsed.hpp"
#include "graph/text.hpp"

namespace lathe {
namespace {

std::optional<Match> match_last(const Pattern& pattern, Model& model) {
    const Uses uses(model.graph);
    return pattern.match(*model.graph.nodes.back(), model.graph, uses);
}

Model with_input(const std::string& text) { return test::parsed("opset 18\ninput %x: float32[2, 2]\n" + text); }

Pattern linear() {
    return Pattern::op("Add", {Pattern::op("MatMul", {Pattern::any("a"), Pattern::constant("b")}, "mul").used_once(),
                               Pattern::constant("bias")})
        .any_order();
}

TEST(Pattern, MatchesInEitherOrderAndCaptures) {
    for (const char* add : {"%y = Add(%m, %k)", "%y = Add(%k, %m)"}) {
        Model model =
            with_input("const %w: float32[2, 1] = {1.0, 2.0}\nconst %k: float32[1] = {3.0}\n%m = MatMul(%x, %w)\n" +
                       std::string(add) + "\noutput %y: float32[2, 1]\n");
        const auto match = match_last(linear(), model);
        ASSERT_TRUE(match) << add;
        EXPECT_EQ(match->value("a"), "x");
        EXPECT_EQ(match->value("b"), "w");
        EXPECT_EQ(match->constant("bias").to_floats(), std::vector<float>{3.0F});
        EXPECT_EQ(match->node("mul").op_type, "MatMul");
        EXPECT_EQ(match->matched.size(), 2U);
    }
}

TEST(Pattern, MustNotMatch) {
    const std::string constants = "const %w: float32[2, 1] = {1.0, 2.0}\nconst %k: float32[1] = {3.0}\n";
    const std::string cases[] = {
        // read by another node too
        constants + "%m = MatMul(%x, %w)\n%o = Relu(%m)\n%y = Add(%m, %k)\noutput %y: float32[2, 1]\n",
        // a graph output
        constants + "%m = MatMul(%x, %w)\n%y = Add(%m, %k)\noutput %y: float32[2, 1]\noutput %m: float32[2, 1]\n",
        // an input with a default is no constant
        constants + "input %k: float32[1]\n%m = MatMul(%x, %w)\n%y = Add(%m, %k)\noutput %y: float32[2, 1]\n",
        // another domain
        "opset \"com.example\" 1\n" + constants + "%m = com.example::MatMul(%x, %w)\n%y = Add(%m, %k)\n",
        // read by a subgraph as well
        constants +
            "%m = MatMul(%x, %w)\n%i = If(%x) {then_branch = graph {\n%t = Relu(%m)\noutput %t: float32[1]\n}}\n"
            "%y = Add(%m, %k)\n",
    };
    for (const std::string& text : cases) {
        Model model = with_input(text);
        EXPECT_FALSE(match_last(linear(), model)) << text;
    }
}

TEST(Pattern, ACaptureThatOccursTwiceIsOneValue) {
    const Pattern swish =
        Pattern::op("Mul", {Pattern::any("x"), Pattern::op("Sigmoid", {Pattern::any("x")})}).any_order();
    Model same = with_input("%s = Sigmoid(%x)\n%y = Mul(%s, %x)\noutput %y: float32[2, 2]\n");
    EXPECT_TRUE(match_last(swish, same));
    Model other = with_input("input %z: float32[2, 2]\n%s = Sigmoid(%x)\n%y = Mul(%s, %z)\noutput %y: float32[2, 2]\n");
    EXPECT_FALSE(match_last(swish, other));
}

TEST(Pattern, AlternativesAndConditions) {
    Model model = with_input("%y = Max(%x, %x) {axis = 3}\noutput %y: float32[2, 2]\n");
    EXPECT_TRUE(match_last(Pattern::op("Min|Max"), model));
    EXPECT_FALSE(match_last(Pattern::op("Min|Sum"), model));
    EXPECT_TRUE(match_last(Pattern::op("Max").where([](const Node& n) { return n.int_or("axis", 0) == 3; }), model));
    EXPECT_FALSE(match_last(Pattern::op("Max").where([](const Node& n) { return n.int_or("axis", 0) == 4; }), model));
    EXPECT_FALSE(match_last(Pattern::op("Max", {Pattern::any(), Pattern::any(), Pattern::any()}), model));
    EXPECT_FALSE(match_last(Pattern::any(), model)) << "a pattern's root is an operation";
}

TEST(Pattern, OtherOutputsAreNotTheFirst) {
    Model model = with_input("%a, %b = Split(%x)\n%y = Relu(%b)\noutput %y: float32[2, 2]\n");
    EXPECT_FALSE(match_last(Pattern::op("Relu", {Pattern::op("Split")}), model));
}

} // namespace
} // namespace lathe
