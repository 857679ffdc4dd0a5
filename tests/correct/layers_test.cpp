#include "correct/layers.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "correct/quantized_layer.hpp"
#include "networks.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

Model quantized_of(const Model& model, const std::map<std::string, Batches>& samples) {
    auto quantized = quantize_model(model, test::ranges_on(model, samples, Method::minmax), {});
    if (!quantized) {
        ADD_FAILURE() << quantized.error().describe();
        return {};
    }
    return std::move(quantized->model);
}

std::map<std::string, CorrectedLayer> corrected(const Model& real, Model& quantized,
                                                const std::map<std::string, Batches>& samples,
                                                const LayerCorrection& options) {
    const auto told = correct_layers(real, quantized, Target::openvino, samples, options, no_progress());
    if (!told) {
        ADD_FAILURE() << told.error().describe();
        return {};
    }
    std::map<std::string, CorrectedLayer> by_name;
    for (const CorrectedLayer& each : *told)
        by_name[each.node] = each;
    return by_name;
}

/// x -> conv1 -> Relu r -> conv2 c; c + `term` -> Relu -> y.
Model residual(const std::string& term) {
    Model model = test::model_from_text("opset 17\ninput %x: float32[4, 3, 8, 8]\n"
                                        "input %w1: float32[8, 3, 3, 3]\ninput %b1: float32[8]\n"
                                        "input %w2: float32[8, 8, 3, 3]\ninput %b2: float32[8]\n"
                                        "input %w3: float32[8, 8, 1, 1]\ninput %b3: float32[8]\n"
                                        "%a = Conv(%x, %w1, %b1) {name = \"conv1\", pads = [1, 1, 1, 1]}\n"
                                        "%r = Relu(%a)\n"
                                        "%c = Conv(%r, %w2, %b2) {name = \"conv2\", pads = [1, 1, 1, 1]}\n"
                                        "%d = Conv(%r, %w3, %b3) {name = \"side\"}\n%g = GlobalAveragePool(%r)\n"
                                        "%s = Add(%c, " +
                                        term + ")\n%y = Relu(%s)\n%z = Relu(%d)\noutput %y: float32[4, 8, 8, 8]\n" +
                                        "output %z: float32[4, 8, 8, 8]\n");
    model.graph.inputs.resize(1);
    test::add_weights(model, "w1", {8, 3, 3, 3}, 1);
    test::add_weights(model, "b1", {8}, 2);
    test::add_weights(model, "w2", {8, 8, 3, 3}, 3);
    test::add_weights(model, "b2", {8}, 4);
    test::add_weights(model, "w3", {8, 8, 1, 1}, 5);
    test::add_weights(model, "b3", {8}, 6);
    return model;
}

LayerCorrection biases() {
    LayerCorrection options;
    options.bias = true;
    options.threads = 1;
    return options;
}

/// Error of y, conv2's bias moved by `shift`.
double error_with(Model quantized, float shift, const std::map<std::string, Batches>& samples, const Batches& wanted) {
    for (const auto& node : quantized.graph.nodes) {
        if (node->label() != "conv2") continue;
        const Tensor bias = *quantized.graph.constant(node->input(2));
        auto values = bias.to_floats();
        for (float& value : values)
            value += shift;
        quantized.graph.initializers.insert_or_assign(bias.name, Tensor::of_floats(bias.name, bias.shape(), values));
    }
    return test::distance(wanted, test::values_of(std::move(quantized), {"y"}, samples)[0]);
}

// Weights that are all a few steps too large raise the outputs, of which many are clamped behind the sum. The bias
// takes that back as well as any does.
TEST(CorrectLayers, FindTheBiasOfAClampedSum) {
    const Model model = residual("%r");
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 6, 31);
    Model quantized = quantized_of(model, samples);
    for (const QuantizedLayer& layer : quantized_layers(quantized)) {
        if (layer.label != "conv2") continue;
        std::vector<std::int8_t> steps = layer.steps;
        for (std::int8_t& step : steps)
            step = static_cast<std::int8_t>(std::min(127, step + 4));
        quantized.graph.initializers.insert_or_assign(
            layer.weight, Tensor::of<std::int8_t>(layer.weight, DataType::int8, layer.shape, steps));
    }
    const Batches wanted = test::values_of(model, {"y"}, samples)[0];
    const double before = error_with(quantized, 0.0F, samples, wanted);
    const auto told = corrected(model, quantized, samples, biases());
    EXPECT_TRUE(told.at("conv2").bias);
    const double after = error_with(quantized, 0.0F, samples, wanted);
    EXPECT_LT(after, 0.8 * before);
    for (const float shift : {-0.05F, -0.02F, 0.02F, 0.05F})
        EXPECT_LT(after, error_with(quantized, shift, samples, wanted)) << shift;
}

// What the walk leaves beside its own model: the weights as they were, and biases for these.
TEST(CorrectLayers, GiveBiasesForTheWeightsAsTheyWereToo) {
    const Model model = residual("%r");
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 40, 31);
    Model quantized = quantized_of(model, samples);
    const Model plain = quantized;
    Model nearest = quantized;
    LayerCorrection how = biases();
    how.rounding = true;
    const auto told = correct_layers(model, quantized, Target::openvino, samples, how, no_progress(), &nearest);
    ASSERT_TRUE(told) << told.error().describe();
    const auto before = quantized_layers(plain);
    const auto rounded = quantized_layers(quantized);
    const auto left = quantized_layers(nearest);
    ASSERT_EQ(left.size(), before.size());
    std::size_t changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(left[i].steps, before[i].steps);
        EXPECT_NE(left[i].bias->values, before[i].bias->values) << before[i].label;
        EXPECT_EQ(rounded[i].steps != before[i].steps, (*told)[i].rounded);
        EXPECT_EQ(left[i].bias->values != rounded[i].bias->values, (*told)[i].rounded) << before[i].label;
        changed += (*told)[i].rounded ? 1U : 0U;
    }
    EXPECT_GT(changed, 0U);
    EXPECT_EQ(left.size(), told->size());
    const Batches wanted = test::values_of(model, {"y"}, samples)[0];
    const double error = error_with(plain, 0.0F, samples, wanted);
    EXPECT_LT(error_with(nearest, 0.0F, samples, wanted), error);
    EXPECT_LT(error_with(quantized, 0.0F, samples, wanted), error);
}

// Of two layers in one sum the first cannot know what the second will give.
TEST(CorrectLayers, LeaveTheFirstTermOfASum) {
    Model model = residual("%d");
    model.graph.outputs.resize(1); // the side layer's output is read by the sum alone
    model.graph.remove_nodes([](const Node& node) { return node.output(0) == "z"; });
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 6, 31);
    Model quantized = quantized_of(model, samples);
    const auto told = corrected(model, quantized, samples, biases());
    EXPECT_FALSE(told.at("conv2").bias);
    EXPECT_EQ(told.at("conv2").skipped, "its sum with another layer decides");
    EXPECT_TRUE(told.at("side").bias);
}

TEST(CorrectLayers, LeaveASumWithWhatIsSpreadOverThePositions) {
    const Model model = residual("%g");
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 6, 31);
    Model quantized = quantized_of(model, samples);
    const auto told = corrected(model, quantized, samples, biases());
    EXPECT_FALSE(told.at("conv2").bias);
}

/// Two rows of weights with errors of -0.4 steps where x is (t, t, ...), and as many of +0.4 where it is zero.
Model product() {
    Model model = test::model_from_text("opset 17\ninput %x: float32[4, 5]\ninput %w: float32[5, 2]\n"
                                        "input %b: float32[2]\n"
                                        "%y = Gemm(%x, %w, %b) {name = \"product\"}\noutput %y: float32[4, 2]\n");
    model.graph.inputs.resize(1);
    const std::vector<float> weights{0.104F, 0.104F, 0.204F, 0.304F, 0.096F, 0.096F, 0.196F, 0.196F, 1.27F, 1.27F};
    model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {5, 2}, weights));
    model.graph.initializers.insert_or_assign("b", Tensor::of_floats("b", {2}, std::vector<float>(2, 0.0F)));
    return model;
}

/// Rows (t, t) where they are fitted, (t, `sign` * t) in every fourth sample.
std::map<std::string, Batches> rows(float sign, std::size_t batches) {
    std::map<std::string, Batches> samples;
    const std::vector<float> t = test::noise(batches * 4, 9);
    for (std::size_t i = 0; i < batches; ++i) {
        std::vector<float> values(20, 0.0F);
        for (std::size_t row = 0; row < 4; ++row) {
            values[row * 5] = t[i * 4 + row];
            values[row * 5 + 1] = row == 3 ? sign * t[i * 4 + row] : t[i * 4 + row];
        }
        samples["x"].push_back(test::tensor_of("x", {4, 5}, values));
    }
    return samples;
}

TEST(CorrectLayers, KeepARoundingThatSamplesKeptApartGainFrom) {
    const auto samples = rows(1.0F, 40);
    Model quantized = quantized_of(product(), samples);
    LayerCorrection options = biases();
    options.rounding = true;
    const auto told = corrected(product(), quantized, samples, options).at("product");
    EXPECT_TRUE(told.rounded) << told.check_fall;
    EXPECT_GT(told.check_fall, 0.5);
}

TEST(CorrectLayers, UndoARoundingThatTheyDoNotGainFrom) {
    const auto samples = rows(-1.0F, 40);
    Model quantized = quantized_of(product(), samples);
    const Model before = quantized;
    LayerCorrection options = biases();
    options.rounding = true;
    const auto told = corrected(product(), quantized, samples, options).at("product");
    EXPECT_FALSE(told.rounded);
    EXPECT_GT(told.moved, 0.0) << "it was tried";
    EXPECT_LT(told.check_fall, 0.0);
    for (const auto& [name, tensor] : before.graph.initializers) {
        if (tensor.type() != DataType::int8) continue;
        const auto old = tensor.values<std::int8_t>();
        const auto now = quantized.graph.initializer(name)->values<std::int8_t>();
        EXPECT_TRUE(std::ranges::equal(old, now)) << name;
    }
}

TEST(CorrectLayers, DoNotRoundWithFewPositions) {
    const auto samples = rows(1.0F, 8); // 24 positions for 5 elements
    Model quantized = quantized_of(product(), samples);
    LayerCorrection options = biases();
    options.rounding = true;
    const auto told = corrected(product(), quantized, samples, options).at("product");
    EXPECT_FALSE(told.rounded);
    EXPECT_EQ(told.moved, 0.0);
}

} // namespace
} // namespace lathe
