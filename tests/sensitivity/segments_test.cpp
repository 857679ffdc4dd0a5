#include "sensitivity/segments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "onnx/onnx.hpp"

namespace lathe::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// Three residual blocks of two convolutions each, then a classifier, with a layer so wide in front of it.
Model residual_network(std::int64_t wide = 0) {
    const std::string last_width = std::to_string(wide > 0 ? wide : 4);
    std::string text = "opset 18\ninput %x: float32[2, 4, 8, 8]\ninput %w: float32[4, " + last_width +
                       "]\ninput %f: float32[" + last_width + ", 3]\n";
    std::string body;
    std::string last = "x";
    for (const std::string n : {"1", "2", "3"}) {
        text += "input %a" + n + ": float32[4, 4, 3, 3]\ninput %b" + n + ": float32[4, 4, 3, 3]\n";
        body += "%p" + n + " = Conv(%" + last + ", %a" + n + ") {name = \"a" + n + "\", pads = [1, 1, 1, 1]}\n";
        body += "%r" + n + " = Relu(%p" + n + ")\n";
        body += "%q" + n + " = Conv(%r" + n + ", %b" + n + ") {name = \"b" + n + "\", pads = [1, 1, 1, 1]}\n";
        body += "%s" + n + " = Add(%q" + n + ", %" + last + ")\n%o" + n + " = Relu(%s" + n + ")\n";
        last = "o" + n;
    }
    text += body + "%g = GlobalAveragePool(%o3)\n%v = Flatten(%g)\n";
    if (wide > 0) text += "%h = MatMul(%v, %w) {name = \"wide\"}\n";
    text +=
        std::string("%y = MatMul(%") + (wide > 0 ? "h" : "v") + ", %f) {name = \"head\"}\noutput %y: float32[2, 3]\n";
    Model model = model_from_text(text);
    model.graph.inputs.resize(1);
    std::uint32_t seed = 1;
    for (const std::string n : {"1", "2", "3"}) {
        add_weights(model, "a" + n, {4, 4, 3, 3}, seed++);
        add_weights(model, "b" + n, {4, 4, 3, 3}, seed++);
    }
    add_weights(model, "w", {4, wide > 0 ? wide : 4}, seed++);
    add_weights(model, "f", {wide > 0 ? wide : 4, 3}, seed);
    EXPECT_TRUE(infer_shapes(model));
    return model;
}

std::vector<std::size_t> layers_of(const Model& model) {
    std::vector<std::size_t> layers;
    for (std::size_t i = 0; i < model.graph.nodes.size(); ++i) {
        if (model.graph.nodes[i]->is("Conv") || model.graph.nodes[i]->is("MatMul")) layers.push_back(i);
    }
    return layers;
}

TEST(Segments, NoCutsWhereWeightsAreFew) {
    const Model model = residual_network();
    const Division division = divide(model, layers_of(model));
    EXPECT_THAT(division.rests, IsEmpty());
    ASSERT_EQ(division.layers.size(), 7U);
    for (const Division::Layer& layer : division.layers) {
        EXPECT_THAT(layer.own.outputs, ElementsAre("y"));
        EXPECT_FALSE(layer.rest);
    }
    EXPECT_THAT(division.layers[0].own.inputs, ElementsAre("x"));
    EXPECT_THAT(division.layers[2].own.inputs, ElementsAre("o1"));
    EXPECT_THAT(division.layers[3].own.inputs, UnorderedElementsAre("r2", "o1")) << "the skip crosses";
}

TEST(Segments, CutsInFrontOfManyWeightsWhereLeastCrosses) {
    const Model model = residual_network(4096);
    const Division division = divide(model, layers_of(model));
    ASSERT_EQ(division.rests.size(), 1U);
    EXPECT_THAT(division.rests[0].inputs, ElementsAre("v")) << "not o3: pooled it is a sixteenth";
    EXPECT_THAT(division.rests[0].outputs, ElementsAre("y"));
    ASSERT_EQ(division.layers.size(), 8U);
    for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_THAT(division.layers[i].own.outputs, ElementsAre("v"));
        EXPECT_EQ(division.layers[i].rest, 0U);
    }
    EXPECT_THAT(division.layers[6].own.inputs, ElementsAre("v"));
    EXPECT_THAT(division.layers[7].own.inputs, ElementsAre("h"));
    EXPECT_FALSE(division.layers[6].rest || division.layers[7].rest);
}

TEST(Segments, FewLayersInFrontAreNotWorthACut) {
    const Model model = residual_network(4096);
    const std::vector<std::size_t> all = layers_of(model);
    EXPECT_THAT(divide(model, {all[5], all[7]}).rests, IsEmpty());
}

TEST(Segments, WholeWhereSizesAreOpen) {
    Model model = residual_network(4096);
    model.graph.value_infos.clear(); // nothing is known of what would cross
    const Division division = divide(model, layers_of(model));
    EXPECT_THAT(division.rests, IsEmpty());
    ASSERT_EQ(division.layers.size(), 8U);
    for (const Division::Layer& layer : division.layers)
        EXPECT_THAT(layer.own.inputs, ElementsAre("x"));
}

TEST(Segments, ExtractTakesWhatIsNeededAndNoMore) {
    const Model model = residual_network();
    const Model piece = extract(model, {"o1"}, {"o2"});
    EXPECT_TRUE(verify(piece));
    EXPECT_EQ(piece.graph.nodes.size(), 5U);
    EXPECT_EQ(piece.graph.initializers.size(), 2U);
    EXPECT_EQ(piece.graph.inputs.at(0).shape(), (Shape{2, 4, 8, 8}));
    EXPECT_THAT(extract(model, {"o1"}, {"o1"}).graph.nodes, IsEmpty());
    EXPECT_FALSE(verify(extract(model, {"o2"}, {"o2", "r2"}))) << "x is not given";
}

} // namespace
} // namespace lathe::test
