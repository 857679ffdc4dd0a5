#include "quantize/pairs.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"

namespace lathe {
namespace {

using test::graph;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The one layer in `line`, reading %w of this shape.
std::optional<std::int64_t> axis_of(const std::string& line, const Shape& shape, Target target = Target::openvino) {
    const Model model = graph("opset 18\nir 8\ninput %x: float32[1, 4]\ninput %w: float32[4, 4]\n%y = " + line +
                              "\noutput %y: float32[1, 4]\n");
    return input_axis(*model.graph.nodes[0], shape, profile_of(target));
}

TEST(Pairs, AxisOfTheInputChannels) {
    EXPECT_EQ(axis_of("Conv(%x, %w)", {8, 6, 3, 3}), 1);
    EXPECT_EQ(axis_of("Conv(%x, %w) {group = 2}", {8, 3, 3, 3}), 1);
    EXPECT_EQ(axis_of("ConvTranspose(%x, %w)", {6, 8, 2, 2}), 0);
    EXPECT_EQ(axis_of("ConvTranspose(%x, %w) {group = 2}", {6, 4, 2, 2}), std::nullopt);
    EXPECT_EQ(axis_of("Gemm(%x, %w)", {6, 8}), 0);
    EXPECT_EQ(axis_of("Gemm(%x, %w) {transB = 1}", {8, 6}), 1);
    EXPECT_EQ(axis_of("MatMul(%x, %w)", {6, 8}), 0);
    EXPECT_EQ(axis_of("MatMul(%x, %w)", {3, 6, 8}), 1);
    EXPECT_EQ(axis_of("MatMul(%x, %w)", {6}), std::nullopt);
    // ONNX Runtime pairs the last channel of one position with the first of the next.
    EXPECT_EQ(axis_of("Conv(%x, %w)", {8, 3, 3, 3}, Target::onnxruntime), std::nullopt);
    EXPECT_EQ(axis_of("Conv(%x, %w)", {8, 3, 1, 1}, Target::onnxruntime), 1);
    EXPECT_EQ(axis_of("Conv(%x, %w)", {8, 1, 3, 3}, Target::onnxruntime), 1);
    EXPECT_EQ(axis_of("Conv(%x, %w)", {8, 4, 3, 3}, Target::onnxruntime), 1);
}

TEST(Pairs, AreTheChannels2iAnd2iPlus1AtOnePosition) {
    const WeightPairs pairs({2, 3, 2}, 1); // [O, I, K]: channel 2 of 0, 1, 2 is alone
    std::vector<int> others;
    for (std::size_t i = 0; i < 12; ++i) {
        const auto other = pairs.other(i);
        others.push_back(other ? static_cast<int>(*other) : -1);
    }
    EXPECT_THAT(others, ElementsAre(2, 3, 0, 1, -1, -1, 8, 9, 6, 7, -1, -1));
    EXPECT_EQ(WeightPairs().other(3), std::nullopt);
}

TEST(Pairs, OfTwoSignsAreFree) {
    const std::vector<std::int8_t> steps{127, -127, 100, 28, 100, 29};
    EXPECT_TRUE(WeightPairs({1, 4}, 1).fit(std::span(steps).first(4)));
    EXPECT_FALSE(WeightPairs({1, 6}, 1).fit(steps));
    EXPECT_FALSE(WeightPairs({3, 2}, 1).fit(steps));
    EXPECT_TRUE(WeightPairs({2, 1}, 1).fit(std::span(steps).subspan(4, 2))) << "one channel each";
    EXPECT_TRUE(WeightPairs().fit(steps));
    const WeightPairs odd({1, 3, 3}, 1);
    EXPECT_EQ(odd.other(5), 2U);
    EXPECT_EQ(odd.other(7), std::nullopt) << "the third channel is alone";
}

TEST(Pairs, LayersThatOverflow) {
    const auto found = [](const std::string& weight, const std::string& layer) {
        const Model model = graph("opset 18\nir 8\ninput %x: float32[1, 2]\nconst %s: float32[] = {0.1}\n"
                                  "const %z: int8[] = {0}\nconst %w: int8[2, 2] = " +
                                  weight + "\n%wd = DequantizeLinear(%w, %s, %z)\n" + layer +
                                  " {name = \"layer\"}\noutput %y: float32[1, 2]\n");
        return layers_that_overflow(model.graph, profile_of(Target::openvino));
    };
    // The pairs of MatMul are down the columns.
    EXPECT_THAT(found("{64, 64, 65, 1}", "%y = MatMul(%x, %wd)"), ElementsAre("layer"));
    EXPECT_THAT(found("{64, 64, 64, 1}", "%y = MatMul(%x, %wd)"), IsEmpty());
    EXPECT_THAT(found("{127, 127, -127, 1}", "%y = MatMul(%x, %wd)"), IsEmpty()) << "of opposite signs";
    EXPECT_THAT(found("{-100, 127, -29, 1}", "%y = MatMul(%x, %wd)"), ElementsAre("layer"));
    EXPECT_THAT(found("{127, 127, 1, 1}", "%y = Relu(%wd)"), IsEmpty());
}

} // namespace
} // namespace lathe
