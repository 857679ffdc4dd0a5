#include "graph/graph.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "graph/parsed.hpp"
#include "graph/text.hpp"

namespace lathe {
namespace {

const char* const with_capture = R"(opset 18
input %c: bool[]
input %x: float32[1]
%a = Relu(%x)
%y = If(%c) {then_branch = graph {
    %t = Add(%a, %x)
    output %t: float32[1]
}, else_branch = graph {
    %a = Neg(%x)
    output %a: float32[1]
}}
output %y: float32[1]
output %a: float32[1]
)";

TEST(Uses, CountsCapturesAndOutputs) {
    const Model model = test::parsed(with_capture);
    const Uses uses(model.graph);
    ASSERT_NE(uses.producer("a"), nullptr);
    EXPECT_EQ(uses.producer("a")->op_type, "Relu");
    EXPECT_EQ(uses.producer("x"), nullptr);
    ASSERT_EQ(uses.consumers("a").size(), 1U); // the else branch shadows it
    EXPECT_EQ(uses.consumers("a")[0]->op_type, "If");
    EXPECT_EQ(uses.use_count("a"), 2U);
    EXPECT_EQ(uses.consumers("x").size(), 2U);
    EXPECT_EQ(uses.use_count("nobody"), 0U);
}

TEST(Uses, ANodeThatReadsTwiceCountsOnce) {
    const Model model = test::parsed("opset 18\ninput %x: float32[1]\n%y = Add(%x, %x)\noutput %y: float32[1]\n");
    EXPECT_EQ(Uses(model.graph).use_count("x"), 1U);
}

TEST(Graph, ReplaceUsesFollowsCapturesAndRespectsShadowing) {
    Model model = test::parsed(with_capture);
    model.graph.replace_uses("a", "x");
    const std::string text = print(model);
    EXPECT_NE(text.find("%t = Add(%x, %x)"), std::string::npos) << text;
    EXPECT_NE(text.find("%a = Neg(%x)"), std::string::npos) << text;
    EXPECT_NE(text.find("output %a: float32[1]\n}}"), std::string::npos) << text;
    EXPECT_NE(text.find("output %y: float32[1]\noutput %a: float32[1]"), std::string::npos) << text;
}

TEST(Graph, UniqueNamesAvoidAllNames) {
    Model model = test::parsed(with_capture);
    std::set<std::string> taken{"c", "x", "a", "y", "t"};
    for (const char* stem : {"a", "t", "new", "new", "y", "a"}) {
        const std::string name = model.graph.unique_name(stem);
        EXPECT_TRUE(name.starts_with(stem));
        EXPECT_TRUE(taken.insert(name).second) << name;
    }
    Node added;
    added.op_type = "Relu";
    added.inputs = {"x"};
    added.outputs = {"fresh"};
    model.graph.add(added);
    EXPECT_NE(model.graph.unique_name("fresh"), "fresh");
    added.outputs = {"pushed"};
    model.graph.nodes.push_back(std::make_unique<Node>(added));
    EXPECT_NE(model.graph.unique_name("pushed"), "pushed");
    const float one = 1;
    model.graph.initializers.emplace("k", Tensor::of_floats("k", {1}, std::span(&one, 1)));
    EXPECT_NE(model.graph.unique_name("k"), "k");
}

TEST(Graph, UniqueNamesOfASubgraphAvoidTheOuterGraph) {
    const Model model = test::parsed(with_capture);
    const auto& inner = std::get<GraphBox>(model.graph.nodes[1]->attribute("then_branch")->value);
    inner->share_names(model.graph);
    EXPECT_NE(inner->unique_name("c"), "c");
    EXPECT_EQ(inner->unique_name("free"), "free");
    EXPECT_NE(model.graph.unique_name("free"), "free");
}

TEST(Graph, UniqueNamesAreNotQuadratic) {
    Graph graph;
    std::set<std::string> names;
    for (int i = 0; i < 50000; ++i) {
        Node node;
        node.op_type = "Relu";
        node.outputs = {graph.unique_name("x")};
        names.insert(node.outputs[0]);
        graph.add(std::move(node));
    }
    EXPECT_EQ(names.size(), 50000U);
}

TEST(Graph, CopyingCopiesSubgraphs) {
    const Model model = test::parsed(with_capture);
    const std::string before = print(model);
    Model copy = model;
    copy.graph.replace_uses("x", "c");
    EXPECT_EQ(print(model), before);
    EXPECT_NE(print(copy), before);
}

TEST(Graph, SortsTopologicallyAndStably) {
    Model model = test::parsed(R"(opset 18
input %x: float32[1]
%y = If(%x) {then_branch = graph {
    %t = Relu(%b)
    output %t: float32[1]
}}
%b = Relu(%a)
%a = Relu(%x)
%q = Relu(%x)
output %y: float32[1]
)");
    ASSERT_FALSE(verify(model.graph));
    ASSERT_TRUE(model.graph.sort_topologically());
    EXPECT_TRUE(verify(model.graph));
    std::string order;
    for (const auto& node : model.graph.nodes)
        order += node->outputs[0];
    EXPECT_EQ(order, "abyq");
}

TEST(Graph, SortingRefusesACycle) {
    Model model = test::parsed("opset 18\n%a = Relu(%b)\n%b = Relu(%a)\n");
    const auto sorted = model.graph.sort_topologically();
    ASSERT_FALSE(sorted);
    EXPECT_NE(sorted.error().where.find("Relu -> a"), std::string::npos);
}

TEST(Graph, InfoAndConstants) {
    const Model model = test::parsed(R"(opset 18
input %x: float32[N, 3]
input %w: float32[1]
const %w: float32[1] = {1.0}
const %k: int64[2] = {1, 2}
value %v: float16
output %y: float32[1]
)");
    EXPECT_EQ(model.graph.info("x")->shape(), (Shape{-1, 3}));
    EXPECT_EQ(model.graph.info("k")->shape(), (Shape{2}));
    EXPECT_EQ(model.graph.info("v")->shape(), std::nullopt);
    EXPECT_FALSE(model.graph.info("none").has_value());
    EXPECT_NE(model.graph.constant("k"), nullptr);
    EXPECT_EQ(model.graph.constant("w"), nullptr) << "an input's default can be overridden";
    EXPECT_NE(model.graph.initializer("w"), nullptr);
}

TEST(Verify, AcceptsSoundAndNamesBrokenGraphs) {
    const struct {
        const char* text;
        const char* expected; ///< in the error; nullptr: sound
    } cases[] = {
        {with_capture, nullptr},
        {"opset 18\ninput %x: float32[1]\n%y = Relu(%x)\noutput %y: float32[1]", nullptr},
        {"opset 18\ninput %x: float32[1]\noutput %x: float32[1]", nullptr},
        {"opset 18\ninput %w: float32[1]\nconst %w: float32[1] = {1.0}\noutput %w: float32[1]", nullptr},
        {"opset 18\n%y = Relu(%x)\noutput %y: float32[1]", "nothing computes it (node Relu -> y)"},
        {"opset 18\ninput %x: float32[1]\n%z = Relu(%y)\n%y = Relu(%x)\noutput %z: float32[1]", "read before"},
        {"opset 18\ninput %x: float32[1]\n%y = Relu(%x)\n%y = Relu(%x)\noutput %y: float32[1]", "computed twice"},
        {"opset 18\ninput %x: float32[1]\n%x = Relu(%x)\noutput %x: float32[1]", "computed twice"},
        {"opset 18\ninput %x: float32[1]\n%y = Relu(%x) {a = 1, a = 2}\noutput %y: float32[1]", "given twice"},
        {"opset 18\noutput %y: float32[1]", "nothing computes a graph output (value y)"},
        {"opset 18\ninput %x: float32[1]\ninput %x: float32[1]\n", "same name"},
        {"opset 18\ninput %w: float32[1]\nconst %w: int64[1] = {1}\n", "declared float32 but its default is int64"},
        {"opset 18\ninput %x: float32[1]\n%y = other::Op(%x)\noutput %y: float32[1]", "operator set \"other\""},
        {"opset 18\ninput %c: bool[]\n%y = If(%c) {then_branch = graph {\n%t = Relu(%q)\noutput %t: float32[1]\n}}",
         "node If -> y, node Relu -> t"},
    };
    for (const auto& each : cases) {
        const auto verified = verify(test::parsed(each.text));
        if (each.expected == nullptr) {
            EXPECT_TRUE(verified) << verified.error().describe();
        } else {
            ASSERT_FALSE(verified) << each.text;
            EXPECT_NE(verified.error().describe().find(each.expected), std::string::npos)
                << verified.error().describe();
        }
    }
}

TEST(Verify, RefusesAConstantOfTheWrongSize) {
    Model model = test::parsed("opset 18\n");
    const float one = 1;
    model.graph.initializers.emplace("w", Tensor("w", DataType::float32, {2}, std::as_bytes(std::span(&one, 1))));
    EXPECT_FALSE(verify(model));
    model.graph.initializers.clear();
    model.graph.initializers.emplace("w", Tensor("w", DataType::float32, {std::int64_t{1} << 59}, {}));
    EXPECT_FALSE(verify(model)) << "the byte count must not overflow to zero";
}

TEST(Node, AttributesByKind) {
    Node node;
    node.set("axis", std::int64_t{1});
    node.set("axis", std::int64_t{2});
    node.set("alpha", 0.5F);
    EXPECT_EQ(node.attributes.size(), 2U);
    EXPECT_EQ(node.int_or("axis", 0), 2);
    EXPECT_EQ(node.int_or("alpha", 7), 7) << "another kind";
    EXPECT_EQ(node.float_or("alpha", 0), 0.5F);
    EXPECT_EQ(node.string_or("mode", "constant"), "constant");
    node.erase_attribute("axis");
    EXPECT_EQ(node.attribute("axis"), nullptr);
    EXPECT_EQ(node.input(3), "");
}

} // namespace
} // namespace lathe
