#include "correct/ranges.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "calibrate/guard.hpp"
#include "networks.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

struct Chosen {
    RangeChoices choices;
    double before = 0.0, after = 0.0; ///< error of the product
    Model model;
    RangesFile ranges;
    std::map<std::string, Batches> samples;
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
    chosen.model = model;
    chosen.ranges = ranges;
    chosen.samples = std::move(samples);
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

/// sum |W (x - q(x))|^2 / sum |W x|^2 over all rows, q with 255 steps from low to high.
double product_error(const Chosen& chosen, const Range& range) {
    const std::vector<float> weights = chosen.model.graph.initializer("w")->to_floats();
    const double step = (static_cast<double>(range.high) - static_cast<double>(range.low)) / 255.0;
    const double zero = std::nearbyint(-static_cast<double>(range.low) / step);
    double signal = 0.0;
    double noise = 0.0;
    for (const HostTensor& batch : chosen.samples.at("x")) {
        const auto x = batch.as<float>();
        for (std::size_t row = 0; row < 64; ++row) {
            for (std::size_t m = 0; m < 4; ++m) {
                double wanted = 0.0;
                double given = 0.0;
                for (std::size_t k = 0; k < 32; ++k) {
                    const auto value = static_cast<double>(x[row * 32 + k]);
                    const double stepped = (std::clamp(std::nearbyint(value / step) + zero, 0.0, 255.0) - zero) * step;
                    wanted += static_cast<double>(weights[k * 4 + m]) * value;
                    given += static_cast<double>(weights[k * 4 + m]) * stepped;
                }
                signal += wanted * wanted;
                noise += (wanted - given) * (wanted - given);
            }
        }
    }
    return noise / signal;
}

// All candidates in plain loops: what is told of the choice, and that no other one is better or as good and wider.
TEST(ChooseRanges, TakesTheLeastOfAllCandidates) {
    for (const float weight_of_rare : {0.0F, 0.02F, 0.1F, 0.5F, 5.0F}) {
        for (const Method method : {Method::minmax, Method::mse, Method::entropy, Method::percentile}) {
            SCOPED_TRACE(testing::Message() << to_string(method) << ", rare values' weight " << weight_of_rare);
            const Chosen chosen = choose(weight_of_rare, method);
            const TensorRange* x = chosen.ranges.find("x");
            ASSERT_NE(x, nullptr);
            const NumberFormat format = NumberFormat::uint8();
            const Range present = chosen.ranges.range(*x, format);
            std::map<std::string, Range> candidates{{to_string(method), present}};
            for (const Method other : {Method::minmax, Method::mse, Method::entropy, Method::percentile})
                candidates.try_emplace(to_string(other), guarded_range(x->histogram, other, format, {}));
            const Range whole = estimate(x->histogram, Method::minmax, format);
            for (const float share : {0.9F, 0.8F, 0.7F, 0.6F, 0.5F}) {
                candidates.try_emplace(std::to_string(std::lround(100.0F * share)) + " %",
                                       Range{share * whole.low, share * whole.high});
            }
            std::map<std::string, double> errors;
            double least = std::numeric_limits<double>::infinity();
            for (const auto& [name, range] : candidates) {
                errors[name] = product_error(chosen, range);
                least = std::min(least, errors[name]);
            }
            const auto width = [](const Range& range) { return range.high - range.low; };
            std::string best; // the widest of those that err next to least
            for (const auto& [name, range] : candidates) {
                if (errors[name] <= 1.02 * least && (best.empty() || width(range) > width(candidates[best]))) {
                    best = name;
                }
            }
            if (candidates[best] == present) {
                EXPECT_TRUE(chosen.choices.changed.empty()) << chosen.choices.changed[0].method;
                continue;
            }
            ASSERT_EQ(chosen.choices.changed.size(), 1U) << best;
            const RangeChoice& told = chosen.choices.changed[0];
            EXPECT_EQ(chosen.choices.ranges.at("x"), candidates[best]) << told.method << " in place of " << best;
            EXPECT_NEAR(told.before / errors[to_string(method)], 1.0, 1e-2);
            EXPECT_NEAR(told.after / errors[best], 1.0, 1e-2);
        }
    }
}

} // namespace
} // namespace lathe
