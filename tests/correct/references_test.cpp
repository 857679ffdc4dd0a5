// Corrections against plain loops in double over the same numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "correct/equalize.hpp"
#include "correct/equalize_noise.hpp"
#include "correct/layers.hpp"
#include "correct/quantized_layer.hpp"
#include "networks.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

using Matrix = std::vector<std::vector<double>>; // [rows][columns]

// Bias correction of two layers.

constexpr std::size_t row_count = 512;
constexpr std::size_t inputs = 6;
constexpr std::size_t middles = 8;
constexpr std::size_t outputs = 5;

/// x -> first -> h -> Gemm second -> y. As a MatMul the first layer has no bias to correct.
Model two_layers(bool first_has_bias) {
    Model model = test::model_from_text(
        "opset 17\ninput %x: float32[512, 6]\ninput %w1: float32[6, 8]\ninput %b1: float32[8]\n"
        "input %w2: float32[8, 5]\ninput %b2: float32[5]\n" +
        std::string(first_has_bias ? "%h = Gemm(%x, %w1, %b1)" : "%h = MatMul(%x, %w1)") +
        " {name = \"first\"}\n%y = Gemm(%h, %w2, %b2) {name = \"second\"}\noutput %y: float32[512, 5]\n");
    model.graph.inputs.resize(1);
    test::add_weights(model, "w1", {6, 8}, 1);
    if (first_has_bias) test::add_weights(model, "b1", {8}, 2);
    test::add_weights(model, "w2", {8, 5}, 3);
    test::add_weights(model, "b2", {5}, 4);
    return model;
}

/// Noise around 0.5: what a weight errs does not cancel.
std::map<std::string, Batches> shifted_samples() {
    auto samples = test::noise_samples("x", {512, 6}, 1, 31);
    for (float& value : samples["x"][0].as<float>())
        value += 0.5F;
    return samples;
}

/// Quantised, the first layer's weights four steps too large.
Model erring(const Model& model, const std::map<std::string, Batches>& samples) {
    auto quantized = quantize_model(model, test::ranges_on(model, samples, Method::minmax), {});
    if (!quantized) {
        ADD_FAILURE() << quantized.error().describe();
        return {};
    }
    for (const QuantizedLayer& layer : quantized_layers(quantized->model)) {
        if (layer.label != "first") continue;
        std::vector<std::int8_t> steps = layer.steps;
        for (std::int8_t& step : steps)
            step = static_cast<std::int8_t>(std::min(127, step + 4));
        quantized->model.graph.initializers.insert_or_assign(
            layer.weight, Tensor::of<std::int8_t>(layer.weight, DataType::int8, layer.shape, steps));
    }
    return std::move(quantized->model);
}

Matrix matrix(std::span<const float> values, std::size_t columns) {
    Matrix result(values.size() / columns, std::vector<double>(columns));
    for (std::size_t i = 0; i < values.size(); ++i)
        result[i / columns][i % columns] = static_cast<double>(values[i]);
    return result;
}

Matrix product(const Matrix& x, const Matrix& w, const std::vector<double>& bias) {
    Matrix y(x.size(), bias);
    for (std::size_t n = 0; n < x.size(); ++n) {
        for (std::size_t m = 0; m < bias.size(); ++m) {
            for (std::size_t k = 0; k < w.size(); ++k)
                y[n][m] += x[n][k] * w[k][m];
        }
    }
    return y;
}

Matrix rounded(Matrix x, const Quantizer& grid) {
    const auto scale = static_cast<double>(grid.scale);
    const auto zero = static_cast<double>(grid.zero_point);
    for (auto& row : x) {
        for (double& value : row) {
            const double step = std::nearbyint(value / scale) + zero;
            value =
                (std::clamp(step, static_cast<double>(grid.lowest), static_cast<double>(grid.highest)) - zero) * scale;
        }
    }
    return x;
}

std::vector<double> mean_difference(const Matrix& wanted, const Matrix& given) {
    std::vector<double> mean(wanted[0].size(), 0.0);
    for (std::size_t n = 0; n < wanted.size(); ++n) {
        for (std::size_t m = 0; m < mean.size(); ++m)
            mean[m] += (wanted[n][m] - given[n][m]) / static_cast<double>(wanted.size());
    }
    return mean;
}

/// By how much each layer's bias ought to be moved.
struct Shifts {
    std::vector<double> first, second;
};

Shifts reference(const Model& real, const Model& quantized, const std::map<std::string, Batches>& samples,
                 LayerInputs kind, bool first_has_bias) {
    const auto constant = [&](const char* name, std::size_t columns) {
        return matrix(real.graph.initializer(name)->to_floats(), columns);
    };
    const std::vector<double> none(middles, 0.0);
    const std::vector<double> b1 = first_has_bias ? constant("b1", middles)[0] : none;
    const std::vector<double> b2 = constant("b2", outputs)[0];
    std::array<Matrix, 2> weights;
    std::array<Quantizer, 2> grids;
    for (const QuantizedLayer& layer : quantized_layers(quantized)) {
        const std::size_t at = layer.label == "first" ? 0 : 1;
        grids[at] = layer.input.value();
        const std::size_t columns = at == 0 ? middles : outputs;
        weights[at].assign(layer.steps.size() / columns, std::vector<double>(columns));
        for (std::size_t i = 0; i < layer.steps.size(); ++i)
            weights[at][i / columns][i % columns] =
                static_cast<double>(layer.steps[i]) * static_cast<double>(layer.scale_of(i % columns));
    }
    const Matrix x = matrix(samples.at("x")[0].as<float>(), inputs);
    const Matrix h = product(x, constant("w1", middles), b1);
    const Matrix y = product(h, constant("w2", outputs), b2);
    Shifts shifts;
    const Matrix erring_h = product(rounded(x, grids[0]), weights[0], b1);
    shifts.first = first_has_bias ? mean_difference(h, erring_h) : none;
    Matrix given = h;
    if (kind == LayerInputs::network_error) {
        given = erring_h;
        for (auto& row : given) {
            for (std::size_t m = 0; m < middles; ++m)
                row[m] += shifts.first[m];
        }
    }
    shifts.second = mean_difference(y, product(rounded(given, grids[1]), weights[1], b2));
    return shifts;
}

/// The second layer's bias less the float one.
std::vector<double> moved(const Model& real, const Model& corrected, const char* layer, const char* bias) {
    const std::vector<float> old = real.graph.initializer(bias)->to_floats();
    std::vector<double> shifts;
    for (const auto& node : corrected.graph.nodes) {
        if (node->label() != layer) continue;
        const std::vector<float> now = corrected.graph.constant(node->input(2))->to_floats();
        for (std::size_t m = 0; m < now.size(); ++m)
            shifts.push_back(static_cast<double>(now[m]) - static_cast<double>(old[m]));
    }
    return shifts;
}

double size_of(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += (a[i] - b.at(i)) * (a[i] - b.at(i));
    return std::sqrt(sum);
}

class BiasOfTwoLayers : public testing::TestWithParam<bool> {};

TEST_P(BiasOfTwoLayers, EqualsPlainLoops) {
    const bool first_has_bias = GetParam();
    const Model real = two_layers(first_has_bias);
    const auto samples = shifted_samples();
    const Model quantized = erring(real, samples);
    std::array<std::vector<double>, 2> found;
    for (const LayerInputs kind : {LayerInputs::own_error, LayerInputs::network_error}) {
        const bool fast = kind == LayerInputs::own_error;
        SCOPED_TRACE(fast ? "fast" : "exact");
        Model corrected = quantized;
        LayerCorrection how;
        how.bias = true;
        how.inputs = kind;
        how.threads = 1;
        const auto told = correct_layers(real, corrected, Target::openvino, samples, how, no_progress());
        ASSERT_TRUE(told) << told.error().describe();
        const Shifts wanted = reference(real, quantized, samples, kind, first_has_bias);
        found[fast ? 0 : 1] = moved(real, corrected, "second", "b2");
        ASSERT_EQ(found[fast ? 0 : 1].size(), outputs);
        EXPECT_LT(size_of(found[fast ? 0 : 1], wanted.second), 1e-3);
        if (!first_has_bias) continue;
        const auto first = moved(real, corrected, "first", "b1");
        ASSERT_EQ(first.size(), middles);
        EXPECT_LT(size_of(first, wanted.first), 1e-3);
        EXPECT_GT(size_of(first, std::vector<double>(middles, 0.0)), 0.05) << "it errs";
    }
    // What the first layer errs reaches the second only in the network, and only where the first is not corrected.
    if (first_has_bias) {
        EXPECT_LT(size_of(found[0], found[1]), 0.02);
    } else {
        EXPECT_GT(size_of(found[0], found[1]), 0.1);
    }
}

INSTANTIATE_TEST_SUITE_P(FirstLayer, BiasOfTwoLayers, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "corrected" : "without_bias"); });

// Equalisation: noise that is really made, and factors found one by one.

/// Readers of channels that are zero or noise up to a level, as behind a Relu.
struct Readers {
    std::vector<std::vector<float>> weights; ///< [outputs * channels], or [channels] if depthwise
    std::vector<bool> depthwise;
    std::vector<float> levels;

    std::size_t channels() const { return levels.size(); }
    std::size_t outputs_of(std::size_t r) const { return depthwise[r] ? channels() : weights[r].size() / channels(); }
    /// 0 where a depthwise output does not read the channel.
    double weight(std::size_t r, std::size_t m, std::size_t c) const {
        if (depthwise[r]) return m == c ? static_cast<double>(weights[r][c]) : 0.0;
        return static_cast<double>(weights[r][m * channels() + c]);
    }
};

/// A quarter of the values is not zero, evenly up to the level: E[x^2] = level^2 / 12.
ChannelStatistics statistics_of(const Readers& readers) {
    ChannelStatistics statistics;
    statistics.level = readers.levels;
    for (const float level : readers.levels) {
        statistics.power.push_back(static_cast<double>(level) * static_cast<double>(level) / 12.0);
        statistics.nonzero.push_back(0.25);
    }
    return statistics;
}

ClassWeights as_given(const Readers& readers, const ChannelStatistics& statistics) {
    ClassWeights given;
    for (std::size_t r = 0; r < readers.weights.size(); ++r) {
        ReaderWeights each;
        each.depthwise = readers.depthwise[r];
        each.outputs = each.depthwise ? 1 : readers.outputs_of(r);
        each.power.assign(readers.channels(), 0.0);
        for (std::size_t m = 0; m < readers.outputs_of(r); ++m) {
            for (std::size_t c = 0; c < readers.channels(); ++c) {
                each.power[c] += readers.weight(r, m, c) * readers.weight(r, m, c);
                if (!each.depthwise) each.absmax.push_back(static_cast<float>(std::abs(readers.weight(r, m, c))));
            }
        }
        each.input = &statistics;
        given.readers.push_back(std::move(each));
    }
    return given;
}

/// Noise to signal of the readers when rows, their channels scaled, go through 8 bits, and so do the weights. The
/// signal is that of channels which do not depend on one another, sum |w_c|^2 E[x_c^2].
double made_noise(const Readers& readers, const std::vector<float>& factors, std::size_t count) {
    const std::size_t channels = readers.channels();
    const ChannelStatistics statistics = statistics_of(readers);
    const std::vector<float> values = test::noise(count * channels, 77);
    double range = 0.0;
    for (std::size_t c = 0; c < channels; ++c)
        range = std::max(range, static_cast<double>(factors[c]) * static_cast<double>(readers.levels[c]));
    const double step = range / 255.0;
    double sum = 0.0;
    for (std::size_t r = 0; r < readers.weights.size(); ++r) {
        const std::size_t outputs_here = readers.outputs_of(r);
        std::vector<double> weights(outputs_here * channels);
        std::vector<double> grid(outputs_here * channels); ///< as 8 bits hold them
        double signal = 0.0;
        for (std::size_t m = 0; m < outputs_here; ++m) {
            double largest = 0.0;
            for (std::size_t c = 0; c < channels; ++c) {
                signal += readers.weight(r, m, c) * readers.weight(r, m, c) * statistics.power[c];
                weights[m * channels + c] = readers.weight(r, m, c) / static_cast<double>(factors[c]);
                largest = std::max(largest, std::abs(weights[m * channels + c]));
            }
            for (std::size_t i = m * channels; i < (m + 1) * channels; ++i)
                grid[i] = std::nearbyint(weights[i] / (largest / 127.0)) * (largest / 127.0);
        }
        std::vector<double> row(channels);
        std::vector<double> stepped(channels);
        double noise = 0.0;
        for (std::size_t n = 0; n < count; ++n) {
            for (std::size_t c = 0; c < channels; ++c) {
                const double from = std::max(0.0, 2.0 * static_cast<double>(values[n * channels + c]) - 1.0);
                row[c] = from * static_cast<double>(readers.levels[c]) * static_cast<double>(factors[c]);
                stepped[c] = std::nearbyint(row[c] / step) * step;
            }
            for (std::size_t m = 0; m < outputs_here; ++m) {
                double error = 0.0;
                const std::size_t first = readers.depthwise[r] ? m : 0;
                const std::size_t last = readers.depthwise[r] ? m + 1 : channels;
                for (std::size_t c = first; c < last; ++c)
                    error += weights[m * channels + c] * row[c] - grid[m * channels + c] * stepped[c];
                noise += error * error;
            }
        }
        sum += noise / static_cast<double>(count) / signal;
    }
    return sum;
}

Readers dense_readers(std::size_t channels, std::size_t outputs_each) {
    Readers readers;
    readers.weights.push_back(test::noise(channels * outputs_each, 5));
    readers.depthwise.push_back(false);
    for (std::size_t c = 0; c < channels; ++c)
        readers.levels.push_back(std::pow(2.0F, -static_cast<float>(c % 4)));
    return readers;
}

TEST(PredictedNoise, IsThatOfRowsReallyQuantized) {
    constexpr std::size_t channels = 32;
    Readers both = dense_readers(channels, 64);
    both.weights.push_back(test::noise(channels, 9));
    both.depthwise.push_back(true);
    const ChannelStatistics statistics = statistics_of(both);
    std::vector<float> half(channels);
    std::ranges::transform(both.levels, half.begin(), [](float level) { return 1.0F / std::sqrt(level); });
    for (const auto& factors : {std::vector<float>(channels, 1.0F), half}) {
        const double predicted = predicted_noise(as_given(both, statistics), factors);
        EXPECT_NEAR(predicted / made_noise(both, factors, 100000), 1.0, 0.1);
    }
}

/// Factors of three channels, the first at 1, the others at every quarter of an octave up to 2^7 either way.
double least_of_grid(const ClassWeights& readers) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = -28; i <= 28; ++i) {
        for (int k = -28; k <= 28; ++k) {
            const std::vector<float> factors{1.0F, std::exp2(static_cast<float>(i) / 4.0F),
                                             std::exp2(static_cast<float>(k) / 4.0F)};
            least = std::min(least, predicted_noise(readers, factors));
        }
    }
    return least;
}

/// Three channels of these levels; with `compensated` the weights are the larger, the smaller the level is.
Readers three_channels(std::vector<float> levels, bool compensated, bool depthwise, bool dense) {
    Readers readers;
    readers.levels = std::move(levels);
    for (const bool each : {true, false}) {
        if (each ? !depthwise : !dense) continue;
        std::vector<float> weights = test::noise(each ? 3 : 12, 13);
        for (std::size_t i = 0; compensated && i < weights.size(); ++i)
            weights[i] /= readers.levels[i % 3];
        readers.weights.push_back(std::move(weights));
        readers.depthwise.push_back(each);
    }
    return readers;
}

// A pair's reader is dense, a depthwise triple's first class is read by channel, a stream's by both.
TEST(BestFactors, AreAsGoodAsAnyOfAGrid) {
    for (const auto& [depthwise, dense] : {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
        for (const std::vector<float>& levels :
             {std::vector{1.0F, 0.1F, 0.02F}, std::vector{1.0F, 0.5F, 0.05F}, std::vector{0.2F, 1.0F, 1.0F}}) {
            for (const bool compensated : {false, true}) {
                SCOPED_TRACE(testing::Message()
                             << "depthwise " << depthwise << ", dense " << dense << ", levels " << levels[0] << " "
                             << levels[1] << " " << levels[2] << ", compensated " << compensated);
                const Readers readers = three_channels(levels, compensated, depthwise, dense);
                const ChannelStatistics statistics = statistics_of(readers);
                const auto given = as_given(readers, statistics);
                const double found = predicted_noise(given, best_factors(given, 3, {}));
                EXPECT_LE(found, 1.05 * least_of_grid(given));
                EXPECT_LE(found, predicted_noise(given, {1.0F, 1.0F, 1.0F}));
            }
        }
    }
}

// SmoothQuant, section 4: s_j = max|X_j|^alpha / max|W_j|^(1 - alpha), X is divided by it. Ours are the inverse, and
// the exponents may differ from alpha and 1 - alpha.
TEST(BestFactors, FollowTheFormulaOfSmoothQuant) {
    constexpr std::size_t channels = 8;
    int of_the_paper = 0;
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        Readers readers;
        readers.depthwise = {false};
        readers.weights = {test::noise(channels * 6, seed)};
        for (const float each : test::noise(channels, seed + 500))
            readers.levels.push_back(std::exp2(3.0F * each));
        std::array<double, channels> seen{};
        std::array<double, channels> weight{};
        for (std::size_t c = 0; c < channels; ++c) {
            seen[c] = static_cast<double>(readers.levels[c]);
            readers.weights[0][seed % 6 * channels + c] *= 4.0F;
            for (std::size_t m = 0; m < 6; ++m)
                weight[c] = std::max(weight[c], std::abs(readers.weight(0, m, c)));
        }
        const ChannelStatistics statistics = statistics_of(readers);
        const auto given = as_given(readers, statistics);
        std::vector<std::pair<double, std::pair<int, int>>> tried;
        const auto factor = [&](std::size_t c, int a, int b) {
            return std::pow(weight[c], 0.25 * b) / std::pow(seen[c], 0.25 * a);
        };
        for (int a = 1; a <= 4; ++a) {
            for (int b = 0; b <= 3; ++b) {
                std::vector<float> factors(channels);
                for (std::size_t c = 0; c < channels; ++c)
                    factors[c] = static_cast<float>(factor(c, a, b));
                tried.emplace_back(predicted_noise(given, factors), std::pair{a, b});
            }
        }
        std::ranges::sort(tried);
        if (tried[1].first < 1.0001 * tried[0].first) continue; // which one it takes does not matter
        const auto [a, b] = tried[0].second;
        const std::vector<float> found = best_factors(given, channels, {});
        if (tried[0].first >= 0.99 * predicted_noise(given, std::vector<float>(channels, 1.0F))) {
            EXPECT_EQ(found, std::vector<float>(channels, 1.0F)) << "not worth touching the network";
            continue;
        }
        for (std::size_t c = 1; c < channels; ++c) {
            const double wanted = factor(c, a, b) / factor(0, a, b);
            EXPECT_NEAR(static_cast<double>(found[c] / found[0]), wanted, 1e-4 * wanted) << "channel " << c;
        }
        of_the_paper += a + b == 4 ? 1 : 0;
    }
    EXPECT_GT(of_the_paper, 0);
}

// Every channel sees the same values, one row shifted against the next, and its weights are as large as any.
TEST(SmoothNot, WhereNoChannelStandsOut) {
    Model model = test::model_from_text("opset 17\ninput %x: float32[8, 8]\ninput %g: float32[8]\n"
                                        "input %h: float32[8]\ninput %w: float32[8, 6]\n"
                                        "%n = LayerNormalization(%x, %g, %h) {axis = -1}\n"
                                        "%m = MatMul(%n, %w) {name = \"product\"}\n"
                                        "%y = Neg(%m)\noutput %y: float32[8, 6]\n");
    model.graph.inputs.resize(1);
    const auto set = [&](const std::string& name, const Shape& shape, const std::vector<float>& values) {
        model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, shape, values));
    };
    set("g", {8}, std::vector<float>(8, 1.0F));
    set("h", {8}, std::vector<float>(8, 0.0F));
    std::vector<float> signs = test::noise(48, 3);
    for (float& sign : signs)
        sign = sign < 0.0F ? -0.5F : 0.5F;
    set("w", {8, 6}, signs);
    std::map<std::string, Batches> samples;
    for (std::uint32_t batch = 0; batch < 20; ++batch) {
        const std::vector<float> row = test::noise(8, batch + 1);
        std::vector<float> values(64);
        for (std::size_t i = 0; i < 64; ++i)
            values[i] = row[(i / 8 + i) % 8];
        samples["x"].push_back(test::tensor_of("x", {8, 8}, values));
    }
    const EqualizeOptions smooth{false, true, 1, {}, {}};
    const auto outcome = equalize(model, samples, smooth, no_progress());
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_EQ(outcome->classes, 1U);
    EXPECT_EQ(outcome->fired, 0U);
    EXPECT_EQ(outcome->model.graph.initializer("w")->to_floats(), signs);
    // One channel sixteen times as large, its weights as much smaller: it fires.
    std::vector<float> gains(8, 1.0F);
    gains[3] = 16.0F;
    set("g", {8}, gains);
    for (std::size_t i = 18; i < 24; ++i)
        signs[i] /= 16.0F;
    set("w", {8, 6}, signs);
    const auto fired = equalize(model, samples, smooth, no_progress());
    ASSERT_TRUE(fired) << fired.error().describe();
    EXPECT_EQ(fired->fired, 1U);
}

} // namespace
} // namespace lathe
