#include "correct/equalize.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "correct/equalize_noise.hpp"
#include "correct/scaled_inputs.hpp"
#include "networks.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

using test::conv_network;

EqualizeOutcome equalized(const Model& model, const std::map<std::string, Batches>& samples,
                          const EqualizeOptions& options = {true, true, 1, {}, {}}) {
    auto outcome = equalize(model, samples, options, no_progress());
    if (!outcome) {
        ADD_FAILURE() << outcome.error().describe();
        return {};
    }
    return *std::move(outcome);
}

/// Error of the model quantised with minmax ranges, executed as written.
double quantization_error(const Model& model, const std::map<std::string, Batches>& samples, const Batches& expected,
                          WeightGranularity weights = WeightGranularity::per_channel) {
    const RangesFile ranges = test::ranges_on(model, samples, Method::minmax);
    QuantizeOptions options;
    options.placement.weights = weights;
    const auto quantized = quantize_model(model, ranges, options);
    if (!quantized) {
        ADD_FAILURE() << quantized.error().describe();
        return 0.0;
    }
    return test::distance(expected, test::values_of(quantized->model, {"y"}, samples)[0]);
}

// Channels of which some are 1/100 of the others: as they are, 8 bits leave them two steps.
Model uneven(const std::string& middle, bool depthwise) {
    Model model = conv_network(middle, depthwise);
    for (std::size_t channel = 0; channel < 16; channel += 2)
        test::scale_channel(model, "w1", "b1", channel, 0.01F);
    const Tensor reader = *model.graph.initializer("w2");
    auto values = reader.to_floats();
    const std::size_t inputs = depthwise ? 1 : 16;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t channel = depthwise ? i / 9 : i / 9 % inputs;
        if (channel % 2 == 0) values[i] *= 100.0F;
    }
    model.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", reader.shape(), values));
    return model;
}

struct Shaped {
    const char* name;
    const char* middle;
    bool depthwise;
};
class Equalize : public ::testing::TestWithParam<Shaped> {};

TEST_P(Equalize, KeepsTheFunctionAndTakesTheQuantizationError) {
    const Model model = uneven(GetParam().middle, GetParam().depthwise);
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 4, 11);
    const Batches expected = test::values_of(model, {"y"}, samples)[0];
    const EqualizeOutcome outcome = equalized(model, samples);
    EXPECT_GE(outcome.fired, 1U);
    EXPECT_LT(outcome.noise_after, 0.1 * outcome.noise_before);
    EXPECT_LT(test::distance(expected, test::values_of(outcome.model, {"y"}, samples)[0]), 1e-4);
    const double before = quantization_error(model, samples, expected);
    const double after = quantization_error(outcome.model, samples, expected);
    EXPECT_LT(after, 0.5 * before) << before;
}

INSTANTIATE_TEST_SUITE_P(Networks, Equalize,
                         ::testing::Values(Shaped{"pair", "Relu(%a)", false},
                                           Shaped{"depthwise_triple", "Relu(%a)", true},
                                           Shaped{"relu6", "Clip(%a, %low, %six)", true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(EqualizeNot, WhereChannelsAreAlike) {
    Model model = conv_network();
    for (const char* name : {"w1", "b1", "w2"}) {
        const Tensor tensor = *model.graph.initializer(name);
        auto values = tensor.to_floats();
        std::ranges::fill(values, 0.5F);
        model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, tensor.shape(), values));
    }
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 2, 11);
    const auto outcome = equalized(model, samples, {true, false, 1, {}, {}});
    EXPECT_GE(outcome.classes, 1U);
    // conv1 to conv2; the head's input may be scaled for its own weights.
    EXPECT_EQ(outcome.model.graph.initializer("w1")->to_floats(), model.graph.initializer("w1")->to_floats());
}

TEST(EqualizeNot, ThroughWhatIsNotHomogeneous) {
    const Model model = uneven("Sigmoid(%a)", false);
    const auto classes = channel_classes(model);
    EXPECT_TRUE(std::ranges::none_of(classes, [&](const ChannelClass& each) {
        return std::ranges::any_of(each.writers, [](const auto& writer) { return writer.node == 0; });
    }));
}

// What leaves the network must stay as it is, and so must what a Clip from below zero cuts.
TEST(EqualizeNot, OutputsAndOtherClips) {
    Model model = uneven("Relu(%a)", false);
    ValueInfo info;
    info.name = "r";
    info.type = DataType::float32;
    model.graph.outputs.push_back(info);
    const auto writes_first = [](const ChannelClass& each) {
        return std::ranges::any_of(each.writers, [](const auto& writer) { return writer.node == 0; });
    };
    EXPECT_TRUE(std::ranges::none_of(channel_classes(model), writes_first));
    model = uneven("Clip(%a, %six, %six)", false);
    EXPECT_TRUE(std::ranges::none_of(channel_classes(model), writes_first));
}

double grid_error(const std::vector<float>& values, double level) {
    double sum = 0.0;
    for (const float each : values) {
        const double x = std::abs(static_cast<double>(each));
        if (x > level) sum += (x - level) * (x - level);
        if (x > 0.0) sum += level * level / (12.0 * 255.0 * 255.0);
    }
    return sum;
}

// Against all levels tried one by one on the values themselves: a channel with rare large values, one without, one of
// few values and one that is zero.
TEST(ChannelStatisticsTest, LevelsErrLeast) {
    constexpr std::size_t count = 4096;
    auto values = test::noise(4 * count, 3);
    for (std::size_t i = 0; i < count; ++i) {
        values[count + i] = std::max(0.0F, values[count + i]);
        if (i % 1024 == 0) values[i] *= 3.0F;
        values[2 * count + i] = i < 3 ? 1.0F + static_cast<float>(i) : 0.0F;
        values[3 * count + i] = 0.0F;
    }
    Batches batches;
    batches.push_back(test::tensor_of("x", {1, 4, 64, 64}, values));
    const ChannelStatistics statistics = channel_statistics(batches, 1, 4, 1);
    for (std::size_t c = 0; c < 3; ++c) {
        const std::vector<float> own(values.begin() + static_cast<std::ptrdiff_t>(c * count),
                                     values.begin() + static_cast<std::ptrdiff_t>((c + 1) * count));
        double absmax = 0.0;
        for (const float x : own)
            absmax = std::max(absmax, std::abs(static_cast<double>(x)));
        double best = grid_error(own, absmax);
        for (int percent = 10; percent < 100; ++percent)
            best = std::min(best, grid_error(own, absmax * percent / 100));
        EXPECT_LE(grid_error(own, static_cast<double>(statistics.level[c])), 1.02 * best) << "channel " << c;
    }
    EXPECT_LT(statistics.level[0], 2.0F) << "rare values are clipped";
    EXPECT_GT(statistics.level[1], 0.95F) << "values that fill their range are not";
    EXPECT_EQ(statistics.level[3], 0.0F);
}

// Under a cap no channel gets smaller, and what a channel uses stays below it.
TEST(BestFactors, KeepTheCap) {
    const ChannelStatistics input{{6.0F, 0.5F, 0.0F}, {4.0, 0.05, 0.0}, {1.0, 1.0, 0.0}};
    ReaderWeights reader;
    reader.depthwise = true;
    reader.outputs = 1;
    reader.power = {1.0, 1.0, 1.0};
    reader.taps = 9;
    reader.input = &input;
    const auto factors = best_factors(ClassWeights{{reader}}, 3, 6.0F);
    EXPECT_EQ(factors[0], 1.0F);
    EXPECT_FLOAT_EQ(factors[1], 12.0F);
    EXPECT_EQ(factors[2], 1.0F) << "a dead channel";
}

Model normalized(const std::string& tail) {
    Model model =
        test::model_from_text("opset 17\ninput %x: float32[2, 5, 8]\ninput %g: float32[8]\ninput %h: float32[8]\n"
                              "input %w: float32[8, 6]\n"
                              "%n = LayerNormalization(%x, %g, %h) {axis = -1}\n"
                              "%m = MatMul(%n, %w) {name = \"product\"}\n" +
                              tail);
    model.graph.inputs.resize(1);
    test::add_weights(model, "g", {8}, 1);
    test::add_weights(model, "h", {8}, 2);
    test::add_weights(model, "w", {8, 6}, 3);
    auto gains = model.graph.initializer("g")->to_floats();
    gains[3] = 60.0F; // the outlier channel of transformers
    model.graph.initializers.insert_or_assign("g", Tensor::of_floats("g", {8}, gains));
    auto weights = model.graph.initializer("w")->to_floats();
    for (std::size_t i = 0; i < 6; ++i)
        weights[3 * 6 + i] /= 60.0F;
    model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {8, 6}, weights));
    return model;
}

TEST(Smooth, MovesAnOutlierChannelIntoTheWeights) {
    const Model model = normalized("%y = Neg(%m)\noutput %y: float32[2, 5, 6]\n");
    const auto samples = test::noise_samples("x", {2, 5, 8}, 4, 5);
    const Batches expected = test::values_of(model, {"y"}, samples)[0];
    const auto outcome = equalized(model, samples, {false, true, 1, {}, {}});
    EXPECT_EQ(outcome.fired, 1U);
    EXPECT_LT(test::distance(expected, test::values_of(outcome.model, {"y"}, samples)[0]), 1e-5);
    EXPECT_LT(quantization_error(outcome.model, samples, expected), 0.5 * quantization_error(model, samples, expected));
    EXPECT_EQ(equalized(model, samples, {true, false, 1, {}, {}}).classes, 0U)
        << "that is not cross-layer equalisation";
}

// Post-norm: the residual sum reads the same values, and no weight there takes the factors back.
TEST(Smooth, NotWhereASumReadsTheNormalizedValues) {
    const Model model = normalized("%y = Add(%n, %x)\noutput %y: float32[2, 5, 8]\noutput %m: float32[2, 5, 6]\n");
    EXPECT_EQ(channel_classes(model).size(), 0U);
}

/// normalized(), whose sum with x reads %n too; `front` stands between them and the product.
Model after_norm(const std::string& front = "") {
    const std::string tail = "%y = Add(%n, %x)\noutput %y: float32[2, 5, 8]\noutput %m: float32[2, 5, 6]\n";
    Model model = normalized(tail);
    if (front.empty()) return model;
    Node node;
    node.op_type = front;
    node.inputs = {"n"};
    node.outputs = {"front"};
    model.graph.insert(1, std::move(node));
    model.graph.nodes[2]->inputs[0] = "front";
    return model;
}

EqualizeOptions in_front() {
    EqualizeOptions options{false, true, 1};
    options.scaled_in_front = {"m"};
    return options;
}

/// Of the product, quantised with minmax ranges and executed as written.
double product_error(const Model& model, const std::map<std::string, Batches>& samples, const Batches& expected) {
    const auto quantized = quantize_model(model, test::ranges_on(model, samples, Method::minmax), {});
    if (!quantized) {
        ADD_FAILURE() << quantized.error().describe();
        return 0.0;
    }
    return test::distance(expected, test::values_of(quantized->model, {"m"}, samples)[0]);
}

// Nothing that writes the values can take the factors: a sum reads them as they are, or a Softplus bends them.
TEST(Smooth, ScalesByAMulWhereNoWeightCan) {
    for (const char* front : {"", "Softplus"}) {
        const Model model = after_norm(front);
        const auto samples = test::noise_samples("x", {2, 5, 8}, 4, 5);
        const auto expected = test::values_of(model, {"m", "y"}, samples);
        const auto outcome = equalized(model, samples, in_front());
        EXPECT_EQ(outcome.fired, 1U);
        EXPECT_EQ(outcome.in_front, 1U);
        EXPECT_EQ(outcome.model.graph.nodes.size(), model.graph.nodes.size() + 1);
        EXPECT_EQ(outcome.model.graph.nodes.back()->input(0), "n") << "the sum reads the value as it is";
        const auto found = test::values_of(outcome.model, {"m", "y"}, samples);
        EXPECT_LT(test::distance(expected[0], found[0]), 1e-5);
        EXPECT_LT(test::distance(expected[1], found[1]), 1e-6);
        EXPECT_LT(outcome.noise_after, 0.9 * outcome.noise_before);
        EXPECT_LT(product_error(outcome.model, samples, expected[0]), 0.5 * product_error(model, samples, expected[0]))
            << front;
    }
}

TEST(Smooth, PutsNoMulWhereChannelsAreAlikeOrLayersAreFloat) {
    Model model = after_norm();
    const auto samples = test::noise_samples("x", {2, 5, 8}, 4, 5);
    EqualizeOptions none = in_front();
    none.scaled_in_front = {"another"};
    EXPECT_EQ(equalized(model, samples, none).classes, 0U);
    for (const char* name : {"g", "h", "w"}) {
        const Tensor tensor = *model.graph.initializer(name);
        const std::vector<float> values(tensor.count(), *name == 'h' ? 0.0F : 0.5F);
        model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, tensor.shape(), values));
    }
    const auto outcome = equalized(model, samples, in_front());
    EXPECT_EQ(outcome.classes, 1U);
    EXPECT_EQ(outcome.fired, 0U);
    EXPECT_EQ(outcome.model.graph.nodes.size(), model.graph.nodes.size());
}

// A convolutional network's classifier reads two dimensions, and stays as it is.
TEST(Smooth, PutsNoMulInFrontOfAClassifier) {
    Model model = test::model_from_text("opset 17\ninput %x: float32[4, 8]\ninput %w: float32[8, 6]\n"
                                        "%r = Softplus(%x)\n%m = MatMul(%r, %w)\noutput %m: float32[4, 6]\n");
    model.graph.inputs.resize(1);
    test::add_weights(model, "w", {8, 6}, 3);
    EXPECT_TRUE(scaled_inputs(model, {}, {"m"}).empty());
    EXPECT_EQ(equalized(model, test::noise_samples("x", {4, 8}, 2, 5), in_front()).classes, 0U);
}

// The formula against quantising for real: values of both signs and of many sizes, and weights by output.
TEST(PredictedNoise, IsWhatQuantisingCosts) {
    constexpr std::size_t rows = 2000;
    constexpr std::size_t channels = 8;
    constexpr std::size_t outputs = 6;
    auto x = test::noise(rows * channels, 9);
    const auto w = test::noise(outputs * channels, 10);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] *= std::pow(1.7F, static_cast<float>(i % channels)) * (i % channels == 7 ? 0.8F : 1.0F);
    Batches batches;
    batches.push_back(test::tensor_of("x", {1, rows, channels}, x));
    const ChannelStatistics statistics = channel_statistics(batches, -1, channels, 1);
    ReaderWeights reader;
    reader.outputs = outputs;
    reader.both_signs = true;
    reader.absmax.resize(outputs * channels);
    reader.power.assign(channels, 0.0);
    reader.input = &statistics;
    for (std::size_t i = 0; i < w.size(); ++i) {
        reader.absmax[i] = std::abs(w[i]);
        reader.power[i % channels] += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    }
    for (const float exponent : {0.0F, -0.5F, -1.0F}) {
        std::vector<float> factors(channels);
        for (std::size_t c = 0; c < channels; ++c)
            factors[c] = std::pow(statistics.level[c], exponent);
        double low = 0.0;
        double high = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            low = std::min(low, static_cast<double>(factors[i % channels]) * static_cast<double>(x[i]));
            high = std::max(high, static_cast<double>(factors[i % channels]) * static_cast<double>(x[i]));
        }
        const double step = (high - low) / 255;
        std::vector<double> quantized(w.size());
        for (std::size_t m = 0; m < outputs; ++m) {
            double largest = 0.0;
            for (std::size_t c = 0; c < channels; ++c)
                largest = std::max(largest, std::abs(static_cast<double>(w[m * channels + c] / factors[c])));
            for (std::size_t c = 0; c < channels; ++c) {
                const double own = static_cast<double>(w[m * channels + c] / factors[c]) * 127 / largest;
                quantized[m * channels + c] = std::nearbyint(own) * largest / 127;
            }
        }
        double signal = 0.0;
        double noise = 0.0;
        for (std::size_t n = 0; n < rows; ++n) {
            for (std::size_t m = 0; m < outputs; ++m) {
                double wanted = 0.0;
                double given = 0.0;
                for (std::size_t c = 0; c < channels; ++c) {
                    const auto value = static_cast<double>(x[n * channels + c]);
                    wanted += value * static_cast<double>(w[m * channels + c]);
                    given += std::nearbyint(value * static_cast<double>(factors[c]) / step) * step *
                             quantized[m * channels + c];
                }
                signal += wanted * wanted;
                noise += (wanted - given) * (wanted - given);
            }
        }
        EXPECT_NEAR(predicted_noise(ClassWeights{{reader}}, factors) / (noise / signal), 1.0, 0.35) << exponent;
    }
}

} // namespace
} // namespace lathe
