#include "correct/ranges.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

struct Chosen {
    RangeChoices choices;
    double before = 0.0, after = 0.0; ///< error of the product
};

/// One MatMul whose input is noise in its first features, and large and rare in the last, which its weight reads with
/// `weight_of_rare`.
Chosen choose(float weight_of_rare, Method method) {
    Model model = test::model_from_text("opset 17\ninput %x: float32[64, 32]\ninput %w: float32[32, 4]\n"
                                        "%y = MatMul(%x, %w) {name = \"product\"}\noutput %y: float32[64, 4]\n");
    model.graph.inputs.resize(1);
    auto weights = test::noise(32 * 4, 3);
    for (std::size_t i = 31 * 4; i < 32 * 4; ++i)
        weights[i] = weight_of_rare;
    model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {32, 4}, weights));
    auto samples = test::noise_samples("x", {64, 32}, 4, 5);
    for (HostTensor& batch : samples["x"]) {
        const auto values = batch.as<float>();
        for (std::size_t row = 0; row < 64; ++row)
            values[row * 32 + 31] = row % 32 == 0 ? 20.0F : 0.0F;
    }
    const RangesFile ranges = test::ranges_on(model, samples, method);
    const auto quantized = quantize_model(model, ranges, {});
    EXPECT_TRUE(quantized);
    Chosen chosen;
    auto found = choose_ranges(model, quantized->model, quantized->plan, ranges, samples, {4096, 1}, no_progress());
    if (!found) {
        ADD_FAILURE() << found.error().describe();
        return chosen;
    }
    chosen.choices = *std::move(found);
    const Batches expected = test::values_of(model, {"y"}, samples)[0];
    chosen.before = test::distance(expected, test::values_of(quantized->model, {"y"}, samples)[0]);
    QuantizeOptions options;
    options.overrides = chosen.choices.ranges;
    const auto again = quantize_model(model, ranges, options);
    EXPECT_TRUE(again);
    chosen.after = test::distance(expected, test::values_of(again->model, {"y"}, samples)[0]);
    return chosen;
}

// Nobody needs the large values: the histogram's least error keeps them, the readers' gives the steps to the others.
TEST(ChooseRanges, GivesTheStepsToWhatIsRead) {
    const Chosen chosen = choose(0.0F, Method::minmax);
    ASSERT_EQ(chosen.choices.changed.size(), 1U);
    EXPECT_EQ(chosen.choices.changed[0].tensor, "x");
    EXPECT_LT(chosen.choices.changed[0].after, chosen.choices.changed[0].before);
    EXPECT_LT(chosen.after, 0.7 * chosen.before);
}

TEST(ChooseRanges, KeepsWhatIsBestAlready) {
    const Chosen chosen = choose(5.0F, Method::minmax);
    EXPECT_TRUE(chosen.choices.changed.empty());
    EXPECT_EQ(chosen.choices.looked_at, 1U);
    EXPECT_EQ(chosen.after, chosen.before);
}

} // namespace
} // namespace lathe
