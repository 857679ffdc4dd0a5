#include "quantize/insert.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

using test::graph;
using test::plan;
using test::same_ranges;
using test::weight;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string quantized_text(const Model& model, Target target, Range range) {
    const auto planned = plan(model, target);
    auto result = insert_quantization(model, planned, same_ranges(planned, range));
    if (!result) return result.error().describe();
    const auto checked = check_onnx(*result);
    EXPECT_TRUE(checked) << checked.error().describe();
    result->metadata.clear();
    return print(*result, {.full_constants = true});
}

const char* const matmul = "opset 18\n"
                           "ir 8\n"
                           "input %x: float32[1, 2]\n"
                           "const %b: float32[2] = {1.0, 2.0}\n"
                           "const %w: float32[2, 2] = {127.0, -2.0, -63.4, 1.0}\n"
                           "%y = Gemm(%x, %w, %b) {name = \"gemm\"}\n"
                           "output %y: float32[1, 2]\n";

TEST(Insert, OpenvinoText) {
    EXPECT_EQ(quantized_text(graph(matmul), Target::openvino, {-1.0F, 1.55F}),
              "opset 18\n"
              "ir 8\n"
              "name \"main_graph\"\n"
              "input %x: float32[1, 2]\n"
              "const %b: float32[2] = {1.0, 2.0}\n"
              "const %w_q: int8[2, 2] = {127, -127, -63, 64}\n"
              "const %w_scale: float32[2] = {1.0, 0.015748031}\n"
              "const %w_zero_point: int8[2] = {0, 0}\n"
              "const %x_scale: float32[] = {0.01}\n"
              "const %x_zero_point: uint8[] = {100}\n"
              "%x_q = QuantizeLinear(%x, %x_scale, %x_zero_point) {name = \"x_QuantizeLinear\"}\n"
              "%x_dq = DequantizeLinear(%x_q, %x_scale, %x_zero_point) {name = \"x_DequantizeLinear\"}\n"
              "%w_dq = DequantizeLinear(%w_q, %w_scale, %w_zero_point) {name = \"w_DequantizeLinear\", axis = 1}\n"
              "%y = Gemm(%x_dq, %w_dq, %b) {name = \"gemm\"}\n"
              "output %y: float32[1, 2]\n");
}

TEST(Insert, SymmetricTargetHasInt8AndZeroPointZero) {
    const Model model = graph("opset 18\nir 8\ninput %x: float32[1, 16]\n" + weight("w", "16, 16", 256) +
                              "%y = MatMul(%x, %w) {name = \"n\"}\noutput %y: float32[1, 16]\n");
    const std::string text = quantized_text(model, Target::tensorrt, {-1.27F, 0.5F});
    EXPECT_THAT(text, HasSubstr("const %x_scale: float32[] = {0.01}\nconst %x_zero_point: int8[] = {0}\n"));
}

TEST(Insert, FloatReadersKeepTheOriginalAndNamesNeverClash) {
    const Model model = graph("opset 18\nir 8\ninput %x: float32[1, 2]\ninput %x_q: float32[1, 2]\n"
                              "const %w: float32[2, 2] = {1.0, 1.0, 1.0, 1.0}\n"
                              "%y = MatMul(%x, %w) {name = \"n\"}\n"
                              "%e = Exp(%x)\n"
                              "%z = Add(%e, %x_q)\n"
                              "%u = Add(%z, %w)\n"
                              "output %y: float32[1, 2]\noutput %u: float32[2, 2]\n");
    const std::string text = quantized_text(model, Target::openvino, {0.0F, 255.0F});
    EXPECT_THAT(text, HasSubstr("%x_q_1 = QuantizeLinear(%x, %x_scale, %x_zero_point)"));
    EXPECT_THAT(text, HasSubstr("%e = Exp(%x)\n"));
    EXPECT_THAT(text, HasSubstr("%u = Add(%z, %w)\n")) << "the float weight has another reader and stays";
    EXPECT_THAT(text, HasSubstr("const %x_zero_point: uint8[] = {0}\n"));
}

TEST(Insert, ReshapedConstantsBecomeOneInt8Constant) {
    const Model model = graph("opset 18\nir 8\ninput %x: float32[1, 2]\n"
                              "const %w: float32[3, 2] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}\n"
                              "%t = Transpose(%w)\n"
                              "%y = MatMul(%x, %t) {name = \"n\"}\noutput %y: float32[1, 3]\n");
    const std::string text = quantized_text(model, Target::openvino, {0.0F, 1.0F});
    EXPECT_THAT(text, HasSubstr("const %t_q: int8[2, 3] = {64, 95, 106, 127, 127, 127}\n"));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("Transpose")));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("const %w:")));
}

TEST(Insert, KeepsAndAddsMetadata) {
    Model model = graph(matmul);
    model.set_metadata("lathe.preprocess", "{}");
    const auto planned = plan(model, Target::openvino);
    const auto result =
        insert_quantization(model, planned, same_ranges(planned, {0.0F, 1.0F}), {.provenance = {{"method", "mse"}}});
    ASSERT_TRUE(result);
    EXPECT_EQ(*result->find_metadata("lathe.preprocess"), "{}");
    const auto json = parse_json(*result->find_metadata("lathe.quantization"), "metadata");
    ASSERT_TRUE(json);
    EXPECT_EQ(json->at("target"), "openvino");
    EXPECT_EQ(json->at("method"), "mse");
    EXPECT_EQ(json->at("quantized_nodes"), 1);
}

TEST(Insert, HostileRangesAreErrorsThatNameTheTensor) {
    const Model model = graph(matmul);
    const auto planned = plan(model, Target::openvino);
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    struct Case {
        std::map<std::string, Range> ranges;
        ErrorCode code;
    };
    const Case cases[] = {
        {{}, ErrorCode::not_found},
        {{{"y", {0, 1}}}, ErrorCode::not_found},
        {{{"x", {0, infinity}}}, ErrorCode::out_of_range},
        {{{"x", {-infinity, 0}}}, ErrorCode::out_of_range},
        {{{"x", {nan, 1}}}, ErrorCode::out_of_range},
        {{{"x", {0, nan}}}, ErrorCode::out_of_range},
        {{{"x", {1, 2}}}, ErrorCode::out_of_range},
    };
    for (const Case& each : cases) {
        const auto result = insert_quantization(model, planned, each.ranges);
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, each.code);
        EXPECT_EQ(result.error().where, "x");
        EXPECT_FALSE(result.error().hint.empty());
    }
}

TEST(Insert, OldOpsetIsAnErrorWithItsCure) {
    Model model = graph(matmul);
    model.opsets[""] = 11;
    const auto planned = plan(model, Target::openvino);
    const auto result = insert_quantization(model, planned, same_ranges(planned, {0, 1}));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::unsupported);
    EXPECT_THAT(result.error().hint, HasSubstr("--opset"));
}

TEST(Parameters, Table) {
    const float least = std::numeric_limits<float>::min();
    const float most = std::numeric_limits<float>::max();
    struct Case {
        Range range;
        NumberFormat format;
        QuantizationParameters expected;
    };
    const Case cases[] = {
        {{0, 0}, NumberFormat::uint8(), {1.0F, 0}},      {{0, 0}, NumberFormat::int8(), {1.0F, 0}},
        {{0, 255}, NumberFormat::uint8(), {1.0F, 0}},    {{-255, 0}, NumberFormat::uint8(), {1.0F, 255}},
        {{-1, 254}, NumberFormat::uint8(), {1.0F, 1}},   {{-127, 3}, NumberFormat::int8(), {1.0F, 0}},
        {{0, 254}, NumberFormat::int8(), {2.0F, 0}},     {{0, 1e-45F}, NumberFormat::uint8(), {least, 0}},
        {{0, 1e-45F}, NumberFormat::int8(), {least, 0}},
    };
    for (const Case& each : cases) {
        const auto got = parameters_of(each.range, each.format);
        EXPECT_EQ(got, each.expected) << each.range.low << " " << each.range.high << " gave " << got.scale << " "
                                      << got.zero_point;
    }
    const auto widest = parameters_of({-most, most}, NumberFormat::uint8());
    EXPECT_TRUE(std::isfinite(widest.scale));
    EXPECT_NEAR(static_cast<double>(widest.zero_point), 127.5, 0.6);
}

TEST(Weights, ByChannelOfAnyAxis) {
    const std::vector<float> values{1, -2, 4, 8, 16, -32};
    const Tensor tensor = Tensor::of_floats("w", {2, 3}, values);
    const auto rows = quantize_weight(tensor, {.axis = 0});
    ASSERT_TRUE(rows);
    EXPECT_THAT(rows->scales, ElementsAre(4.0F / 127, 32.0F / 127));
    const auto columns = quantize_weight(tensor, {.axis = 1});
    ASSERT_TRUE(columns);
    EXPECT_THAT(columns->scales, ElementsAre(8.0F / 127, 16.0F / 127, 32.0F / 127));
    const auto whole = quantize_weight(tensor, {.range = WeightRange::seven_bits});
    ASSERT_TRUE(whole);
    EXPECT_THAT(whole->scales, ElementsAre(0.5F));
    EXPECT_THAT(whole->values.to_int64s(), ElementsAre(2, -4, 8, 16, 32, -64));
}

TEST(Weights, DegenerateChannels) {
    const std::vector<float> values{0, 0, 1e-45F, -1e-45F, 3e38F, -3e38F};
    const auto result = quantize_weight(Tensor::of_floats("w", {3, 2}, values), {.axis = 0});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->scales[0], 1.0F);
    EXPECT_GE(result->scales[1], std::numeric_limits<float>::min());
    EXPECT_TRUE(std::isfinite(result->scales[2]));
    EXPECT_THAT(result->values.to_int64s(), ElementsAre(0, 0, 0, 0, 127, -127));
    EXPECT_TRUE(quantize_weight(Tensor::of_floats("none", {0, 2}, {}), {.axis = 0}));
    EXPECT_TRUE(quantize_weight(Tensor::of_floats("none", {2, 0}, {}), {.axis = 0}));

    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        const std::vector<float> broken{1.0F, bad};
        const auto refused = quantize_weight(Tensor::of_floats("broken", {2}, broken), {.axis = 0});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
        EXPECT_EQ(refused.error().where, "broken");
    }
}

// |w - q(w)| <= one step, and the errors of a channel add up to at most half a step, for random weights on any axis.
TEST(Weights, ErrorsAreSmallAndBalanced) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(8 * 37);
    for (float& value : values)
        value = normal(random);
    for (const WeightRange range : {WeightRange::full, WeightRange::pairs, WeightRange::seven_bits}) {
        for (const std::int64_t axis : {0, 1}) {
            const auto result = quantize_weight(Tensor::of_floats("w", {8, 37}, values),
                                                {.axis = axis, .range = range, .inputs = 1 - axis});
            ASSERT_TRUE(result);
            const auto steps = result->values.values<std::int8_t>();
            std::vector<double> sums(result->scales.size(), 0.0);
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t channel = axis == 0 ? i / 37 : i % 37;
                const double error = steps[i] - static_cast<double>(values[i]) / result->scales[channel];
                EXPECT_LE(std::abs(error), 1.0001);
                EXPECT_LE(std::abs(steps[i]), range == WeightRange::seven_bits ? 64 : 127);
                sums[channel] += error;
            }
            for (const double sum : sums)
                EXPECT_LE(std::abs(sum), 0.501);
        }
    }
}

/// The most that two steps of one sign add up to, of the input channels 2i and 2i + 1 at one position: [O, I, H, W].
int largest_pair(const Tensor& steps) {
    const Shape& shape = steps.shape();
    const auto inputs = static_cast<std::size_t>(shape[1]);
    const auto positions = static_cast<std::size_t>(shape[2] * shape[3]);
    const auto values = steps.values<std::int8_t>();
    int most = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t channel = i / positions % inputs;
        if (channel % 2 == 1 || channel + 1 == inputs) continue;
        most = std::max(most, std::abs(values[i] + values[i + positions]));
    }
    return most;
}

// What overflows is a pair of one sign; a large weight beside a small one, or one of the other sign, keeps its 8 bits.
TEST(Weights, PairsMakeAtMost128) {
    std::vector<float> values(16 * 6 * 3 * 3);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& value : values)
        value = normal(random);
    const Tensor weight = Tensor::of_floats("w", {16, 6, 3, 3}, values);
    const auto full = quantize_weight(weight, {.axis = 0});
    const auto pairs = quantize_weight(weight, {.axis = 0, .range = WeightRange::pairs, .inputs = 1});
    const auto seven = quantize_weight(weight, {.axis = 0, .range = WeightRange::seven_bits});
    ASSERT_TRUE(full && pairs && seven);
    EXPECT_GT(largest_pair(full->values), 128) << "else this shows nothing";
    EXPECT_LE(largest_pair(pairs->values), 128);
    EXPECT_LE(largest_pair(seven->values), 128);
    // Seven bits double the scale; with pairs it grows by what the largest pair needs.
    double of_full = 0.0;
    double of_pairs = 0.0;
    for (std::size_t c = 0; c < 16; ++c) {
        EXPECT_GE(pairs->scales[c], full->scales[c]);
        EXPECT_LE(pairs->scales[c], 1.01F * seven->scales[c]);
        of_full += static_cast<double>(full->scales[c]);
        of_pairs += static_cast<double>(pairs->scales[c]);
    }
    EXPECT_LT(of_pairs, 1.6 * of_full);
    const Tensor apart = Tensor::of_floats("w", {1, 4, 1, 1}, std::array{1.0F, -1.0F, 0.0F, 1.0F});
    const auto kept = quantize_weight(apart, {.axis = 0, .range = WeightRange::pairs, .inputs = 1});
    ASSERT_TRUE(kept);
    EXPECT_THAT(kept->values.to_int64s(), ElementsAre(127, -127, 0, 127));
    const Tensor together = Tensor::of_floats("w", {1, 3, 1, 1}, std::array{1.0F, 1.0F, 1.0F});
    const auto halved = quantize_weight(together, {.axis = 0, .range = WeightRange::pairs, .inputs = 1});
    ASSERT_TRUE(halved);
    EXPECT_LE(largest_pair(halved->values), 128);
    EXPECT_GE(largest_pair(halved->values), 126);
}

// Products of the smallest ones vanish, and a sum of the largest is no float.
TEST(Weights, PairsOfTheSmallestAndLargestFloats) {
    for (const float value : {1e-30F, 3e38F}) {
        const Tensor weight = Tensor::of_floats("w", {1, 2, 1, 1}, std::array{value, value});
        const auto result = quantize_weight(weight, {.axis = 0, .range = WeightRange::pairs, .inputs = 1});
        ASSERT_TRUE(result);
        EXPECT_LE(largest_pair(result->values), 128) << value;
        EXPECT_GE(largest_pair(result->values), 126) << value;
    }
}

TEST(Weights, SevenBitsWherePairsAreNotKnown) {
    const Tensor weight = Tensor::of_floats("w", {1, 2}, std::array{1.0F, -1.0F});
    const auto result = quantize_weight(weight, {.axis = 0, .range = WeightRange::pairs});
    ASSERT_TRUE(result);
    EXPECT_THAT(result->values.to_int64s(), ElementsAre(64, -64));
}

// Nearest rounding would give 3 x 0: the mean of the channel, and so of its output, would be lost.
TEST(Weights, KeepTheSumOfAChannel) {
    const std::vector<float> values{127.0F, 0.4F, 0.4F, 0.4F, -127.0F};
    const auto result = quantize_weight(Tensor::of_floats("w", {1, 5}, values), {.axis = 0});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->values.to_int64s()[1] + result->values.to_int64s()[2] + result->values.to_int64s()[3], 1);
}

} // namespace
} // namespace lathe
