#include "quantize/quantize.hpp"

#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/model_key.hpp"
#include "graphs.hpp"

namespace lathe {
namespace {

using test::graph;
using ::testing::HasSubstr;

const char* const text = "opset 18\nir 8\nname \"m\"\ninput %x: float32[1, 2]\n"
                         "const %w: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}\n"
                         "%y = MatMul(%x, %w) {name = \"n\"}\n"
                         "output %y: float32[1, 2]\n";

RangesFile ranges_of(const Model& model, const std::string& tensor, std::vector<float> values) {
    ActivationStatistics statistics;
    statistics.samples = 1;
    statistics.tensors.emplace_back();
    statistics.tensors.back().name = tensor;
    statistics.tensors.back().histogram.observe(values);
    RangesKey key;
    key.model = calibration_key(model);
    return make_ranges(std::move(statistics), key, Method::minmax, {}, 1);
}

TEST(QuantizeModel, EndToEnd) {
    const Model model = graph(text);
    const auto outcome = quantize_model(model, ranges_of(model, "x", {-1.0F, 1.55F}), {});
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_EQ(outcome->document.at("quantized_nodes"), 1);
    EXPECT_EQ(outcome->document.at("method"), "minmax");
    EXPECT_FLOAT_EQ(outcome->model.graph.initializer("x_scale")->to_floats().at(0), 0.01F);
    const auto metadata = parse_json(*outcome->model.find_metadata("lathe.quantization"), "metadata");
    ASSERT_TRUE(metadata);
    EXPECT_EQ(metadata->at("ranges_digest").get<std::string>().size(), 32U);
}

TEST(QuantizeModel, MethodOverride) {
    const Model model = graph(text);
    std::vector<float> values(100000, 1.0F);
    values.push_back(100.0F);
    QuantizeOptions options;
    options.method = Method::percentile;
    options.estimate.percentile = 99.9;
    const auto outcome = quantize_model(model, ranges_of(model, "x", values), options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_LT(outcome->model.graph.initializer("x_scale")->to_floats().at(0), 1.1F / 255.0F);
}

TEST(QuantizeModel, RangeByHand) {
    const Model model = graph(text);
    const RangesFile ranges = ranges_of(model, "x", {-1.0F, 1.55F});
    QuantizeOptions options;
    options.overrides["x"] = {0.0F, 5.1F};
    const auto outcome = quantize_model(model, ranges, options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_FLOAT_EQ(outcome->model.graph.initializer("x_scale")->to_floats().at(0), 0.02F);
    options.overrides = {{"nothing", {-1.0F, 1.0F}}};
    EXPECT_EQ(quantize_model(model, ranges, options).error().code, ErrorCode::not_found);
    options.overrides = {{"x", {0.5F, 1.0F}}};
    EXPECT_EQ(quantize_model(model, ranges, options).error().code, ErrorCode::invalid_argument);
}

// What the corrections chose for one plan serves another that has fewer tensors; a range by hand stands above it.
TEST(QuantizeModel, ChosenRangesServeWhereTheyCan) {
    const Model model = graph(text);
    const RangesFile ranges = ranges_of(model, "x", {-1.0F, 1.55F});
    QuantizeOptions options;
    options.chosen = {{"x", {0.0F, 5.1F}}, {"nothing", {-1.0F, 1.0F}}};
    const auto outcome = quantize_model(model, ranges, options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_FLOAT_EQ(outcome->model.graph.initializer("x_scale")->to_floats().at(0), 0.02F);
    options.overrides["x"] = {0.0F, 2.55F};
    const auto by_hand = quantize_model(model, ranges, options);
    ASSERT_TRUE(by_hand) << by_hand.error().describe();
    EXPECT_FLOAT_EQ(by_hand->model.graph.initializer("x_scale")->to_floats().at(0), 0.01F);
}

// Calibration does not watch what quantisation commutes with; where one reader stays float, that is quantised itself.
TEST(QuantizeModel, APooledTensorHasTheRangeOfWhatWasPooled) {
    std::string text = "opset 18\nir 8\nname \"m\"\ninput %x: float32[1, 16, 4, 4]\n";
    for (const char* name : {"a", "b", "c"})
        text += test::weight(name, "16, 16, 1, 1", 256);
    const Model model = graph(text + "%p = Conv(%x, %a) {name = \"first\"}\n%q = Relu(%p)\n"
                                     "%m = MaxPool(%q) {kernel_shape = [2, 2]}\n"
                                     "%y = Conv(%m, %b) {name = \"left\"}\n%z = Conv(%m, %c) {name = \"right\"}\n"
                                     "output %y: float32[1, 16, 3, 3]\noutput %z: float32[1, 16, 3, 3]\n");
    ActivationStatistics statistics;
    statistics.samples = 1;
    for (const char* name : {"x", "q"}) {
        statistics.tensors.emplace_back();
        statistics.tensors.back().name = name;
        statistics.tensors.back().histogram.observe(std::vector<float>{0.0F, 2.55F});
    }
    RangesKey key;
    key.model = calibration_key(model);
    QuantizeOptions options;
    options.placement.exclude = {"left"};
    const auto outcome = quantize_model(model, make_ranges(std::move(statistics), key, Method::minmax, {}, 1), options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    ASSERT_NE(outcome->model.graph.initializer("m_scale"), nullptr);
    EXPECT_FLOAT_EQ(outcome->model.graph.initializer("m_scale")->to_floats().at(0), 0.01F);
}

// A clipped term would be missing from the residual stream for good, so these keep all that was seen; what a Conv
// reads is clipped as the method says.
TEST(QuantizeModel, TermsOfAResidualSumKeepTheirWholeRange) {
    std::string text = "opset 18\nir 8\nname \"m\"\ninput %x: float32[1, 16, 4, 4]\n";
    for (const char* name : {"a", "b", "c"})
        text += test::weight(name, "16, 16, 1, 1", 256);
    const Model model = graph(text + "%p = Conv(%x, %a) {name = \"first\"}\n"
                                     "%q = Relu(%p) {name = \"relu1\"}\n"
                                     "%r = Conv(%q, %b) {name = \"second\"}\n"
                                     "%s = Add(%r, %q) {name = \"add\"}\n"
                                     "%t = Relu(%s) {name = \"relu2\"}\n"
                                     "%y = Conv(%t, %c) {name = \"third\"}\n"
                                     "output %y: float32[1, 16, 4, 4]\n");
    std::vector<float> values(100000, 1.0F);
    values.push_back(100.0F);
    ActivationStatistics statistics;
    statistics.samples = 1;
    for (const char* name : {"x", "q", "r", "t"}) {
        statistics.tensors.emplace_back();
        statistics.tensors.back().name = name;
        statistics.tensors.back().histogram.observe(values);
    }
    RangesKey key;
    key.model = calibration_key(model);
    EstimateOptions estimate;
    estimate.percentile = 99.9;
    const RangesFile ranges = make_ranges(std::move(statistics), key, Method::percentile, estimate, 1);
    // Both where the method is the file's and where it is given.
    for (const bool given : {false, true}) {
        QuantizeOptions options;
        if (given) options.method = Method::percentile;
        options.estimate = estimate;
        const auto outcome = quantize_model(model, ranges, options);
        ASSERT_TRUE(outcome) << outcome.error().describe();
        const auto& constants = outcome->model.graph;
        EXPECT_GT(constants.initializer("r_scale")->to_floats().at(0), 99.0F / 255.0F);
        for (const char* clipped : {"x_scale", "q_scale", "t_scale"})
            EXPECT_LT(constants.initializer(clipped)->to_floats().at(0), 2.0F / 255.0F) << clipped;
        std::size_t whole = 0;
        for (const Json& decision : outcome->document["decisions"]) {
            EXPECT_FALSE(decision["explanation"].get<std::string>().empty());
            EXPECT_EQ(decision["whole_range"], decision["tensor"] == "r") << decision.dump();
            if (decision["whole_range"]) ++whole;
        }
        EXPECT_EQ(whole, 1U);
    }
}

TEST(QuantizeModel, LiftsTheOpset) {
    Model model = graph(text);
    model.opsets[""] = 11;
    model.ir_version = 6;
    const auto outcome = quantize_model(model, ranges_of(model, "x", {1.0F}), {});
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_EQ(outcome->converted_from, 11);
    EXPECT_GE(outcome->model.opset(), 13);
}

// What converting puts between a Softmax and its reader has no range of its own.
TEST(QuantizeModel, LiftsASoftmaxOverAnotherAxis) {
    Model model = graph("input %x: float32[2, 3, 4]\n"
                        "const %w: float32[4, 2] = {0.5, -1.0, 0.25, 1.0, 0.5, -1.0, 0.25, 1.0}\n"
                        "%s = Softmax(%x) {axis = 1}\n"
                        "%y = MatMul(%s, %w)\n"
                        "output %y: float32[2, 3, 2]\n");
    model.opsets[""] = 11;
    model.ir_version = 6;
    const auto outcome = quantize_model(model, ranges_of(model, "s", {1.0F}), {});
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_EQ(outcome->plan.quantized_nodes, 1U);
}

TEST(QuantizeModel, ReducedRange) {
    const Model model = graph(text);
    QuantizeOptions options;
    options.weight_range = WeightRange::seven_bits;
    const auto outcome = quantize_model(model, ranges_of(model, "x", {1.0F}), options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    for (const std::int64_t value : outcome->model.graph.initializer("w_q")->to_int64s())
        EXPECT_LE(value, 64);
}

TEST(QuantizeModel, HostileRanges) {
    const Model model = graph(text);
    // Of another model.
    Model other = graph(text);
    other.graph.initializers.at("w") = Tensor::of_floats("w", {2, 2}, std::array{9.0F, 2.0F, 3.0F, 4.0F});
    auto refused = quantize_model(model, ranges_of(other, "x", {1.0F}), {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::mismatch);
    // The tensor that is needed is missing.
    refused = quantize_model(model, ranges_of(model, "y", {1.0F}), {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::not_found);
    EXPECT_THAT(refused.error().describe(), HasSubstr("x"));
    // NaN or infinity was seen in it.
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        refused = quantize_model(model, ranges_of(model, "x", {1.0F, bad}), {});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
    }
    // Nothing but zeros: a scale all the same.
    const auto zeros = quantize_model(model, ranges_of(model, "x", {0.0F, -0.0F}), {});
    ASSERT_TRUE(zeros) << zeros.error().describe();
    EXPECT_EQ(zeros->model.graph.initializer("x_scale")->to_floats().at(0), 1.0F);
}

TEST(QuantizeModel, WeightsThatAreNotNumbers) {
    Model model = graph(text);
    const std::array broken{1.0F, std::numeric_limits<float>::quiet_NaN(), 3.0F, 4.0F};
    model.graph.initializers.at("w") = Tensor::of_floats("w", {2, 2}, broken);
    const auto refused = quantize_model(model, ranges_of(model, "x", {1.0F}), {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
    EXPECT_EQ(refused.error().where, "w");
}

} // namespace
} // namespace lathe
