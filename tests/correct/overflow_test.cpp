// The kernels of this CPU give what the Q/DQ graph says, on inputs and weights as large as they get. Without VNNI they
// do so only because weights leave room for a neighbour.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "correct/run.hpp"
#include "float_weights.hpp"
#include "networks.hpp"
#include "quantize/insert.hpp"
#include "quantize/pairs.hpp"

namespace lathe {
namespace {

struct Layer {
    const char* name;
    const char* line;
    Shape input, weight;
    std::int64_t axis; ///< of the output channels
};

/// Weights that are all near the largest of their channel.
Tensor large_weight(const Shape& shape) {
    std::vector<float> values = test::noise(static_cast<std::size_t>(element_count(shape)), 5);
    for (float& value : values)
        value = 1.0F + 0.02F * value;
    return Tensor::of_floats("w", shape, values);
}

/// uint8 steps of 1 times the layer's int8 weights.
Model quantized(const Layer& layer, WeightRange range) {
    Model model = test::model_from_text("opset 18\nir 8\nconst %s: float32[] = {1}\nconst %u: uint8[] = {0}\n"
                                        "%q = QuantizeLinear(%x, %s, %u)\n%d = DequantizeLinear(%q, %s, %u)\n%y = " +
                                        std::string(layer.line) + "\noutput %y: float32\n");
    const auto layer_node = std::ranges::find_if(
        model.graph.nodes, [](const auto& node) { return std::ranges::find(node->inputs, "w") != node->inputs.end(); });
    WeightForm form{.axis = layer.axis, .range = range};
    form.inputs = input_axis(**layer_node, layer.weight, profile_of(Target::openvino));
    const auto data = quantize_weight(large_weight(layer.weight), form);
    EXPECT_TRUE(data) << data.error().describe();
    const std::vector<std::int8_t> zeros(data->scales.size(), 0);
    const Shape channels{static_cast<std::int64_t>(zeros.size())};
    model.graph.initializers.insert_or_assign("w_q", data->values.renamed("w_q"));
    model.graph.initializers.insert_or_assign("w_s", Tensor::of_floats("w_s", channels, data->scales));
    model.graph.initializers.insert_or_assign("w_z", Tensor::of<std::int8_t>("w_z", DataType::int8, channels, zeros));
    Node node;
    node.op_type = "DequantizeLinear";
    node.name = "w";
    node.inputs = {"w_q", "w_s", "w_z"};
    node.outputs = {"w"};
    node.set("axis", layer.axis);
    model.graph.insert(0, std::move(node));
    return model;
}

class Overflow : public ::testing::TestWithParam<Layer> {};

TEST_P(Overflow, OfSixteenBitSumsIsKeptOff) {
    const Layer& layer = GetParam();
    const auto count = static_cast<std::size_t>(element_count(layer.input));
    const std::vector<float> inputs(count, 255.0F);
    const auto run = [&](Model model, Precision precision) {
        const std::vector<Given> given{Given("x", layer.input, inputs)};
        auto found = run_batches(std::move(model), given, {.threads = 1, .precision = precision});
        EXPECT_TRUE(found) << found.error().describe();
        const auto values = (*found)[0][0].as<float>();
        return std::vector<float>(values.begin(), values.end());
    };
    const Model model = quantized(layer, range_for_this_cpu(profile_of(Target::openvino)));
    const std::vector<float> found = run(model, Precision::int8);
    const std::vector<float> expected = run(test::with_float_weights(model), Precision::float32);
    ASSERT_EQ(expected.size(), found.size());
    for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-3F * std::abs(expected[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Layers, Overflow,
    ::testing::Values(
        Layer{"conv3x3", "Conv(%d, %w) {pads = [1, 1, 1, 1]}", {1, 16, 9, 9}, {32, 16, 3, 3}, 0},
        Layer{"conv1x1", "Conv(%d, %w)", {1, 16, 9, 9}, {32, 16, 1, 1}, 0},
        Layer{"stem", "Conv(%d, %w) {pads = [1, 1, 1, 1], strides = [2, 2]}", {1, 3, 31, 31}, {32, 3, 3, 3}, 0},
        Layer{"grouped", "Conv(%d, %w) {pads = [1, 1, 1, 1], group = 2}", {1, 16, 9, 9}, {32, 8, 3, 3}, 0},
        Layer{"depthwise", "Conv(%d, %w) {pads = [1, 1, 1, 1], group = 32}", {1, 32, 9, 9}, {32, 1, 3, 3}, 0},
        Layer{"dilated", "Conv(%d, %w) {pads = [2, 2, 2, 2], dilations = [2, 2]}", {1, 5, 15, 15}, {32, 5, 3, 3}, 0},
        Layer{"transposed", "ConvTranspose(%d, %w) {strides = [2, 2]}", {1, 16, 6, 6}, {16, 32, 2, 2}, 1},
        Layer{"matmul", "MatMul(%d, %w)", {1, 7, 24}, {24, 64}, 1},
        Layer{"odd_matmul", "MatMul(%d, %w)", {1, 7, 21}, {21, 64}, 1},
        Layer{"gemm", "Gemm(%d, %w) {transB = 1}", {3, 24}, {64, 24}, 0}),
    [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace lathe
