// Equalisation where a weight has one scale: M. Nagel et al., 2019 (arXiv:1906.04721), section 4.1.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "correct/equalize.hpp"
#include "correct/equalize_noise.hpp"
#include "networks.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

constexpr std::size_t channels = 16;
constexpr std::size_t inputs = 32;
constexpr std::size_t outputs = 64;

/// y = W2 W1 x, a pair of layers with channels of very different sizes between, and what is known of it.
struct Pair {
    std::vector<float> first;   ///< [channels, inputs]
    std::vector<float> second;  ///< [outputs, channels]
    std::vector<float> samples; ///< [count, inputs]
    ChannelStatistics between;
    ClassWeights layers;
    std::vector<float> r1 = std::vector<float>(channels, 0.0F); ///< largest |w1| of a channel
    std::vector<float> r2 = std::vector<float>(channels, 0.0F);

    Pair(const std::vector<float>& sizes1, const std::vector<float>& sizes2)
        : first(test::noise(channels * inputs, 1)), second(test::noise(outputs * channels, 2)),
          samples(test::noise(512 * inputs, 3)) {
        for (std::size_t i = 0; i < first.size(); ++i) {
            first[i] *= sizes1[i / inputs];
            r1[i / inputs] = std::max(r1[i / inputs], std::abs(first[i]));
        }
        for (std::size_t i = 0; i < second.size(); ++i) {
            second[i] *= sizes2[i % channels];
            r2[i % channels] = std::max(r2[i % channels], std::abs(second[i]));
        }
        between.level.assign(channels, 0.0F);
        between.power.assign(channels, 0.0);
        between.nonzero.assign(channels, 1.0);
        between.absmax.assign(channels, 0.0F);
        ReaderWeights reader;
        reader.outputs = outputs;
        reader.absmax = r2;
        reader.power.assign(channels, 0.0);
        for (std::size_t i = 0; i < second.size(); ++i)
            reader.power[i % channels] += square(second[i]);
        reader.input = &between;
        reader.one_scale = true;
        WriterWeights writer;
        writer.absmax = r1;
        writer.input_power.assign(channels, 0.0);
        const std::vector<double> values = product(samples, first, inputs, channels);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::size_t c = i % channels;
            between.level[c] = std::max(between.level[c], static_cast<float>(std::abs(values[i])));
            between.power[c] += values[i] * values[i] / static_cast<double>(values.size() / channels);
        }
        double power = 0.0;
        for (const float x : samples)
            power += square(x) / static_cast<double>(samples.size() / inputs);
        std::ranges::fill(writer.input_power, power);
        layers.readers.push_back(reader);
        layers.writers.push_back(writer);
    }
    Pair(const Pair&) = delete; // the reader points to `between`
    Pair& operator=(const Pair&) = delete;

    static double square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

    /// [count, depth] times [rows, depth] transposed.
    template <class Value>
    static std::vector<double> product(const std::vector<Value>& left, const std::vector<float>& right,
                                       std::size_t depth, std::size_t rows) {
        std::vector<double> result(left.size() / depth * rows, 0.0);
        for (std::size_t i = 0; i < result.size(); ++i) {
            for (std::size_t k = 0; k < depth; ++k)
                result[i] +=
                    static_cast<double>(left[i / rows * depth + k]) * static_cast<double>(right[i % rows * depth + k]);
        }
        return result;
    }

    /// Noise to signal of y when both weights are rounded to one scale each, by doing it.
    double measured_noise(const std::vector<float>& factors) const {
        std::vector<float> one = first;
        for (std::size_t i = 0; i < one.size(); ++i)
            one[i] *= factors[i / inputs];
        std::vector<float> two = second;
        for (std::size_t i = 0; i < two.size(); ++i)
            two[i] /= factors[i % channels];
        round(one);
        round(two);
        const auto expected = product(product(samples, first, inputs, channels), second, channels, outputs);
        const auto got = product(product(samples, one, inputs, channels), two, channels, outputs);
        double signal = 0.0;
        double noise = 0.0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            signal += expected[i] * expected[i];
            noise += (got[i] - expected[i]) * (got[i] - expected[i]);
        }
        return noise / signal;
    }

    static void round(std::vector<float>& weights) {
        float largest = 0.0F;
        for (const float w : weights)
            largest = std::max(largest, std::abs(w));
        for (float& w : weights)
            w = std::nearbyint(w * 127.0F / largest) * largest / 127.0F;
    }
};

/// From 1 to `ratio` in equal steps of the logarithm; `mirrored`: the other way round.
std::vector<float> sizes(float ratio, bool mirrored) {
    std::vector<float> result(channels);
    for (std::size_t c = 0; c < channels; ++c)
        result[mirrored ? channels - 1 - c : c] = std::pow(ratio, static_cast<float>(c) / (channels - 1));
    return result;
}

// The prediction against rounding both weights, for factors that make the writer's share small, large and in between.
TEST(OneScale, PredictedNoiseIsWhatRoundingCosts) {
    Pair pair(sizes(0.2F, false), sizes(0.2F, true));
    pair.layers.activation_steps = 1e9; // weights alone
    for (const float exponent : {-0.4F, -0.2F, 0.0F, 0.2F, 0.4F}) {
        std::vector<float> factors(channels);
        for (std::size_t c = 0; c < channels; ++c)
            factors[c] = std::pow(pair.r2[c] / pair.r1[c], exponent);
        const double measured = pair.measured_noise(factors);
        const double predicted = predicted_noise(pair.layers, factors);
        EXPECT_NEAR(predicted / measured, 1.0, 0.3) << "exponent " << exponent << ", measured " << measured;
    }
    // Factors that suit the reader alone: nearly all of the noise is the writer's.
    Pair aligned(sizes(0.1F, false), sizes(0.1F, false));
    aligned.layers.activation_steps = 1e9;
    ClassWeights reader_alone = aligned.layers;
    reader_alone.writers.clear();
    EXPECT_LT(predicted_noise(reader_alone, aligned.r2), 0.3 * predicted_noise(aligned.layers, aligned.r2));
    EXPECT_NEAR(predicted_noise(aligned.layers, aligned.r2) / aligned.measured_noise(aligned.r2), 1.0, 0.3);
}

// Where only weights are rounded and a channel's mean squares follow its largest weight, sqrt(r2 / r1) cannot be
// beaten: max(u)^2 sum(v^2) + max(v)^2 sum(u^2) >= 2 max(u v) sum(u v), and there u = v.
TEST(OneScale, EqualsNagelsFactorsWhereWeightsAloneMatter) {
    Pair pair(sizes(0.02F, false), sizes(0.2F, true));
    pair.layers.activation_steps = 1e9;
    ReaderWeights& reader = pair.layers.readers.front();
    std::vector<float> nagel(channels);
    for (std::size_t c = 0; c < channels; ++c) {
        reader.power[c] = Pair::square(pair.r2[c]) * outputs / 3.0;
        pair.between.power[c] = Pair::square(pair.r1[c]) * inputs / 9.0;
        nagel[c] = std::sqrt(pair.r2[c] / pair.r1[c]);
    }
    const std::vector<float> best = best_factors(pair.layers, channels, std::nullopt);
    const double least = predicted_noise(pair.layers, nagel);
    EXPECT_LT(least, 0.5 * predicted_noise(pair.layers, std::vector<float>(channels, 1.0F)));
    EXPECT_NEAR(predicted_noise(pair.layers, best), least, 1e-3 * least);
    const float common = best[0] / nagel[0];
    for (std::size_t c = 0; c < channels; ++c)
        EXPECT_NEAR(best[c] / nagel[c], common, 0.02F * common) << "channel " << c;
    EXPECT_LT(pair.measured_noise(best), 0.5 * pair.measured_noise(std::vector<float>(channels, 1.0F)));
}

// A channel that the network never uses sets the writer's step all the same.
TEST(OneScale, DeadChannelsAreMovedOutOfTheWay) {
    std::vector<float> ones(channels, 1.0F);
    std::vector<float> one_large = ones;
    one_large[5] = 20.0F;
    Pair pair(one_large, ones);
    pair.between.level[5] = 0.0F;
    pair.between.power[5] = 0.0;
    pair.between.nonzero[5] = 0.0;
    const std::vector<float> best = best_factors(pair.layers, channels, std::nullopt);
    EXPECT_LT(best[5], 0.5F * best[0]);
    EXPECT_LT(predicted_noise(pair.layers, best), 0.25 * predicted_noise(pair.layers, ones));
}

// With a cap, channels that reached it stay at 1 or above, and none is lifted over it.
TEST(OneScale, KeepsTheCap) {
    Pair pair(sizes(0.05F, false), sizes(0.5F, true));
    pair.between.absmax = pair.between.level;
    const float cap = *std::ranges::max_element(pair.between.level);
    const std::vector<float> best = best_factors(pair.layers, channels, cap);
    EXPECT_NE(best, std::vector<float>(channels, 1.0F));
    for (std::size_t c = 0; c < channels; ++c) {
        EXPECT_LE(best[c] * pair.between.level[c], cap * 1.0001F);
        if (pair.between.absmax[c] >= cap) {
            EXPECT_EQ(best[c], 1.0F) << "channel " << c;
        }
    }
}

/// A depthwise network of which every other channel is 1/50 of the others after the first layer, and 50 times as
/// sensitive in the depthwise one: with one scale, those are two steps in the first and the others in the second.
Model uneven_depthwise() {
    Model model = test::conv_network("Relu(%a)", true);
    const Tensor reader = *model.graph.initializer("w2");
    auto values = reader.to_floats();
    for (std::size_t channel = 0; channel < 16; channel += 2) {
        test::scale_channel(model, "w1", "b1", channel, 0.02F);
        for (std::size_t i = channel * 9; i < (channel + 1) * 9; ++i)
            values[i] *= 50.0F;
    }
    model.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", reader.shape(), values));
    return model;
}

double error_with_one_scale(const Model& model, const std::map<std::string, Batches>& samples,
                            const Batches& expected) {
    QuantizeOptions options;
    options.placement.weights = WeightGranularity::per_tensor;
    const auto quantized = quantize_model(model, test::ranges_on(model, samples, Method::minmax), options);
    if (!quantized) {
        ADD_FAILURE() << quantized.error().describe();
        return 0.0;
    }
    return test::distance(expected, test::values_of(quantized->model, {"y"}, samples)[0]);
}

EqualizeOutcome equalized_together(const Model& model, const std::map<std::string, Batches>& samples) {
    EqualizeOptions options;
    options.threads = 1;
    options.weights = WeightGranularity::per_tensor;
    auto outcome = equalize(model, samples, options, no_progress());
    if (!outcome) {
        ADD_FAILURE() << outcome.error().describe();
        return {};
    }
    return *std::move(outcome);
}

TEST(OneScale, EqualizingHelpsADepthwiseNetwork) {
    const Model model = uneven_depthwise();
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 4, 11);
    const Batches expected = test::values_of(model, {"y"}, samples)[0];
    const EqualizeOutcome outcome = equalized_together(model, samples);
    EXPECT_GE(outcome.fired, 1U);
    EXPECT_LT(outcome.noise_after, 0.1 * outcome.noise_before);
    EXPECT_LT(test::distance(expected, test::values_of(outcome.model, {"y"}, samples)[0]), 1e-4);
    const double before = error_with_one_scale(model, samples, expected);
    EXPECT_LT(error_with_one_scale(outcome.model, samples, expected), 0.3 * before) << before;
}

TEST(OneScale, NothingIsDoneToABalancedNetwork) {
    Model model = test::conv_network("Relu(%a)", true);
    for (const char* name : {"w1", "b1", "w2", "b2", "w3", "b3"}) {
        const Tensor tensor = *model.graph.initializer(name);
        auto values = tensor.to_floats();
        std::ranges::fill(values, 0.5F);
        model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, tensor.shape(), values));
    }
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 2, 11);
    const EqualizeOutcome outcome = equalized_together(model, samples);
    EXPECT_GE(outcome.classes, 2U);
    EXPECT_EQ(outcome.fired, 0U);
    for (const char* name : {"w1", "w2", "w3"})
        EXPECT_EQ(outcome.model.graph.initializer(name)->to_floats(), model.graph.initializer(name)->to_floats());
}

} // namespace
} // namespace lathe
