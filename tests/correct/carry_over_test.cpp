#include "correct/carry_over.hpp"

#include <gtest/gtest.h>

#include "correct/layers.hpp"
#include "correct/quantized_layer.hpp"
#include "networks.hpp"
#include "quantize/quantize.hpp"
#include "support/progress.hpp"

namespace lathe {
namespace {

const QuantizedLayer* find(const std::vector<QuantizedLayer>& layers, const std::string& output) {
    for (const QuantizedLayer& layer : layers) {
        if (layer.output == output) return &layer;
    }
    return nullptr;
}

class CarryOver : public ::testing::Test {
protected:
    void SetUp() override {
        ranges_ = test::ranges_on(real_, samples_, Method::mse);
        const auto whole = quantize_model(real_, ranges_, {});
        ASSERT_TRUE(whole) << whole.error().describe();
        corrected_ = whole->model;
        LayerCorrection how;
        how.bias = true;
        how.rounding = true;
        how.threads = 1;
        const auto told = correct_layers(real_, corrected_, Target::openvino, samples_, how, no_progress());
        ASSERT_TRUE(told) << told.error().describe();
    }

    const Model real_ = test::conv_network();
    const std::map<std::string, Batches> samples_ = test::noise_samples("x", {4, 3, 8, 8}, 40, 21);
    RangesFile ranges_;
    Model corrected_;
};

TEST_F(CarryOver, GivesLayersTheirCorrectedWeightsAndBiases) {
    auto again = quantize_model(real_, ranges_, {});
    ASSERT_TRUE(again);
    const std::vector<QuantizedLayer> before = quantized_layers(again->model);
    const std::size_t taken = carry_over_corrections(corrected_, again->model);
    EXPECT_GT(taken, 0U);
    const std::vector<QuantizedLayer> layers = quantized_layers(again->model);
    std::size_t changed = 0;
    for (const QuantizedLayer& wanted : quantized_layers(corrected_)) {
        const QuantizedLayer* got = find(layers, wanted.output);
        ASSERT_NE(got, nullptr) << wanted.label;
        EXPECT_EQ(got->steps, wanted.steps) << wanted.label;
        ASSERT_EQ(got->bias.has_value(), wanted.bias.has_value()) << wanted.label;
        if (wanted.bias) {
            EXPECT_EQ(got->bias->values, wanted.bias->values) << wanted.label;
            changed += find(before, wanted.output)->bias->values != wanted.bias->values ? 1U : 0U;
        }
    }
    EXPECT_GT(changed, 0U) << "else this proves nothing";
    EXPECT_EQ(test::distance(test::values_of(corrected_, {"y"}, samples_)[0],
                             test::values_of(again->model, {"y"}, samples_)[0]),
              0.0);
}

TEST_F(CarryOver, LeavesLayersInFloatAlone) {
    QuantizeOptions partly;
    partly.placement.exclude = {quantized_layers(corrected_).front().label};
    auto mixed = quantize_model(real_, ranges_, partly);
    ASSERT_TRUE(mixed) << mixed.error().describe();
    const std::size_t layers = quantized_layers(mixed->model).size();
    ASSERT_LT(layers, quantized_layers(corrected_).size());
    EXPECT_LE(carry_over_corrections(corrected_, mixed->model), layers);
    EXPECT_EQ(quantized_layers(mixed->model).size(), layers);
}

TEST_F(CarryOver, DoesNotFireWhereNothingWasCorrected) {
    auto plain = quantize_model(real_, ranges_, {});
    ASSERT_TRUE(plain);
    EXPECT_EQ(carry_over_corrections(plain->model, plain->model), 0U);
}

TEST_F(CarryOver, LeavesWeightsOfOtherScalesAlone) {
    Model other = real_;
    std::vector<float> weights = other.graph.initializer("w2")->to_floats();
    for (float& weight : weights)
        weight *= 3.0F;
    other.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", {16, 16, 3, 3}, weights));
    auto quantized = quantize_model(other, test::ranges_on(other, samples_, Method::mse), {});
    ASSERT_TRUE(quantized);
    const std::vector<QuantizedLayer> before = quantized_layers(quantized->model);
    carry_over_corrections(corrected_, quantized->model);
    const std::vector<QuantizedLayer> after = quantized_layers(quantized->model);
    std::size_t compared = 0;
    for (const QuantizedLayer& layer : quantized_layers(corrected_)) {
        const QuantizedLayer* mine = find(before, layer.output);
        if (mine == nullptr || mine->scales == layer.scales) continue;
        EXPECT_EQ(find(after, layer.output)->steps, mine->steps);
        ++compared;
    }
    EXPECT_EQ(compared, 1U);
}

} // namespace
} // namespace lathe
