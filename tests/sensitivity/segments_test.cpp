#include "sensitivity/segments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "onnx/onnx.hpp"

namespace lathe::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Three residual blocks of two convolutions each, then a classifier.
Model residual_network() {
    std::string text = "opset 18\ninput %x: float32[2, 4, 8, 8]\ninput %f: float32[4, 3]\n";
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
    text += body + "%g = GlobalAveragePool(%o3)\n%v = Flatten(%g)\n%y = MatMul(%v, %f) {name = \"head\"}\n"
                   "output %y: float32[2, 3]\n";
    Model model = model_from_text(text);
    model.graph.inputs.resize(1);
    std::uint32_t seed = 1;
    for (const std::string n : {"1", "2", "3"}) {
        add_weights(model, "a" + n, {4, 4, 3, 3}, seed++);
        add_weights(model, "b" + n, {4, 4, 3, 3}, seed++);
    }
    add_weights(model, "f", {4, 3}, seed);
    EXPECT_TRUE(infer_shapes(model));
    return model;
}

std::vector<double> same_work(const Model& model) {
    std::vector<double> macs;
    for (const auto& node : model.graph.nodes)
        macs.push_back(node->is("Conv") || node->is("MatMul") ? 1.0 : 0.0);
    return macs;
}

TEST(Segments, CutBetweenResidualBlocks) {
    const Model model = residual_network();
    const auto segments = cut_into_segments(model, same_work(model), 0.45);
    ASSERT_EQ(segments.size(), 3U);
    EXPECT_THAT(segments[0].inputs, ElementsAre("x"));
    EXPECT_THAT(segments[0].outputs, ElementsAre("o1")); // behind the Relu, and nothing else crosses
    EXPECT_THAT(segments[1].inputs, ElementsAre("o1"));
    EXPECT_THAT(segments[1].outputs, ElementsAre("o2"));
    EXPECT_THAT(segments[2].outputs, ElementsAre("y"));
    std::size_t layers = 0;
    for (const Segment& segment : segments)
        layers += segment.layers.size();
    EXPECT_EQ(layers, 7U);
}

TEST(Segments, SmallShareCutsInsideBlocksToo) {
    const Model model = residual_network();
    const auto segments = cut_into_segments(model, same_work(model), 0.01);
    ASSERT_EQ(segments.size(), 7U);
    for (const Segment& segment : segments)
        EXPECT_EQ(segment.layers.size(), 1U);
    EXPECT_THAT(segments[1].inputs, testing::UnorderedElementsAre("r1", "x")); // the skip crosses
}

TEST(Segments, OneSegmentWhereSizesAreOpen) {
    Model model = residual_network();
    model.graph.value_infos.clear(); // nothing is known of what would cross
    const auto segments = cut_into_segments(model, same_work(model), 0.01);
    ASSERT_EQ(segments.size(), 1U);
    EXPECT_EQ(segments[0].layers.size(), 7U);
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
