// Scales by channel or one for all, zero points or none, in place of the target's own.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/model_key.hpp"
#include "graphs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/lint.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

using test::graph;
using test::plan;
using test::same_ranges;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PlacementOptions formats(std::optional<WeightGranularity> weights, std::optional<ActivationScheme> activations) {
    PlacementOptions options;
    options.weights = weights;
    options.activations = activations;
    return options;
}

/// A convolution, a depthwise one, a Gemm and a MatMul, with weights of very different channels.
Model network() {
    Model model = graph("opset 18\nir 8\ninput %x: float32[1, 16, 6, 6]\n"
                        "input %a: float32[16, 16, 3, 3]\ninput %b: float32[16, 1, 3, 3]\n"
                        "input %c: float32[16, 32]\ninput %d: float32[32, 16]\n"
                        "%ca = Conv(%x, %a) {name = \"conv\", pads = [1, 1, 1, 1]}\n%ra = Relu(%ca)\n"
                        "%cb = Conv(%ra, %b) {name = \"depthwise\", group = 16, pads = [1, 1, 1, 1]}\n%rb = Relu(%cb)\n"
                        "%p = GlobalAveragePool(%rb)\n%f = Flatten(%p)\n"
                        "%g = Gemm(%f, %c) {name = \"gemm\"}\n%rg = Relu(%g)\n"
                        "%y = MatMul(%rg, %d) {name = \"matmul\"}\noutput %y: float32[1, 16]\n");
    model.graph.inputs.resize(1);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const auto& [name, shape] :
         std::map<std::string, Shape>{{"a", {16, 16, 3, 3}}, {"b", {16, 1, 3, 3}}, {"c", {16, 32}}, {"d", {32, 16}}}) {
        std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
        const std::size_t channels = name == "c" ? 32 : 16;
        const std::size_t inner = name == "c" || name == "d" ? 1 : values.size() / channels;
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = normal(random) * static_cast<float>(1 + i / inner % channels);
        model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, shape, values));
    }
    if (auto done = infer_shapes(model); !done) ADD_FAILURE() << done.error().describe();
    return model;
}

/// One scale, absmax / 127; to the nearest step, but the steps with the largest errors one way or the other that make a
/// channel's errors add up to less than half a step.
std::vector<std::int64_t> reference(const std::vector<float>& values, std::size_t channels, std::size_t inner,
                                    float& scale) {
    float largest = 0.0F;
    for (const float value : values)
        largest = std::max(largest, std::abs(value));
    scale = largest / 127.0F;
    std::vector<std::int64_t> steps(values.size());
    for (std::size_t channel = 0; channel < channels; ++channel) {
        std::vector<std::size_t> own;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (i / inner % channels == channel) own.push_back(i);
        }
        double sum = 0.0;
        const auto error = [&](std::size_t i) { return static_cast<float>(steps[i]) - values[i] / scale; };
        for (const std::size_t i : own) {
            steps[i] = static_cast<std::int64_t>(std::nearbyint(values[i] / scale));
            sum += static_cast<double>(error(i));
        }
        const std::int64_t down = sum > 0.0 ? 1 : -1;
        std::ranges::sort(own, [&](std::size_t i, std::size_t j) {
            return static_cast<float>(down) * error(i) > static_cast<float>(down) * error(j);
        });
        for (std::size_t i = 0; i < static_cast<std::size_t>(std::nearbyint(std::abs(sum))); ++i)
            steps[own[i]] = std::clamp<std::int64_t>(steps[own[i]] - down, -127, 127);
    }
    return steps;
}

TEST(Formats, OneScaleAWeightEqualsAPlainReference) {
    const Model model = network();
    for (const Target target : {Target::openvino, Target::onnxruntime, Target::tensorrt, Target::cuda}) {
        const auto planned = plan(model, target, formats(WeightGranularity::per_tensor, {}));
        EXPECT_EQ(planned.granularity, WeightGranularity::per_tensor);
        const auto written = insert_quantization(model, planned, same_ranges(planned, {-1.0F, 1.0F}));
        ASSERT_TRUE(written) << written.error().describe();
        const Graph& result = written->graph;
        ASSERT_EQ(planned.weights.size(), 4U) << to_string(target);
        for (const QuantizedWeight& weight : planned.weights) {
            const auto values = model.graph.initializer(weight.value)->to_floats();
            const std::size_t channels = weight.value == "c" ? 32 : 16;
            float scale = 0.0F;
            const std::size_t inner = weight.value == "c" || weight.value == "d" ? 1 : values.size() / channels;
            const std::vector<std::int64_t> steps = reference(values, channels, inner, scale);
            const Tensor& scales = *result.initializer(weight.value + "_scale");
            EXPECT_THAT(scales.shape(), IsEmpty()) << weight.value;
            EXPECT_THAT(scales.to_floats(), ElementsAre(scale));
            EXPECT_THAT(result.initializer(weight.value + "_zero_point")->to_int64s(), ElementsAre(0));
            EXPECT_EQ(result.initializer(weight.value + "_q")->to_int64s(), steps) << weight.value;
        }
        for (const auto& node : result.nodes)
            EXPECT_TRUE(!node->is("DequantizeLinear") || node->attribute("axis") == nullptr) << node->label();
        if (auto valid = check_onnx(*written); !valid) ADD_FAILURE() << valid.error().describe();
        // All 8 bits, whatever this CPU makes of them.
        const bool clips = range_for_this_cpu(profile_of(target)) != WeightRange::full;
        for (const LintFinding& each : lint_quantization(*written, profile_of(target)))
            EXPECT_TRUE(clips && std::string_view(each.rule) == "weights_overflow") << each.rule << to_string(target);
        const auto metadata = parse_json(*written->find_metadata("lathe.quantization"), "metadata");
        ASSERT_TRUE(metadata);
        EXPECT_EQ(metadata->at("weight_granularity"), "per-tensor");
    }
}

TEST(Formats, ByChannelIsEveryTargetsOwn) {
    const Model model = network();
    for (const TargetProfile& profile : target_profiles()) {
        const auto planned = plan(model, profile.target);
        EXPECT_EQ(planned.granularity, WeightGranularity::per_channel);
        EXPECT_EQ(planned.activations, profile.activations);
        const auto written = insert_quantization(model, planned, same_ranges(planned, {-1.0F, 1.0F}));
        ASSERT_TRUE(written) << written.error().describe();
        EXPECT_THAT(written->graph.initializer("a_scale")->shape(), ElementsAre(16));
        EXPECT_THAT(written->graph.initializer("c_scale")->shape(), ElementsAre(32));
    }
}

TEST(Formats, SymmetricIsInt8AroundZeroAndAsymmetricAllOfUint8) {
    const Model model = network();
    for (const Target target : {Target::openvino, Target::onnxruntime}) {
        for (const ActivationScheme scheme : {ActivationScheme::symmetric, ActivationScheme::asymmetric}) {
            const bool symmetric = scheme == ActivationScheme::symmetric;
            const auto planned = plan(model, target, formats({}, scheme));
            const InsertOptions options{.weight_range = range_for_this_cpu(profile_of(target))};
            const auto written = insert_quantization(model, planned, same_ranges(planned, {-0.5F, 2.0F}), options);
            ASSERT_TRUE(written) << written.error().describe();
            const Tensor& zero = *written->graph.initializer("x_zero_point");
            EXPECT_EQ(zero.type(), symmetric ? DataType::int8 : DataType::uint8);
            EXPECT_THAT(zero.to_int64s(), ElementsAre(symmetric ? 0 : 51));
            EXPECT_THAT(written->graph.initializer("x_scale")->to_floats(),
                        ElementsAre(symmetric ? 2.0F / 127.0F : 2.5F / 255.0F));
            EXPECT_THAT(lint_quantization(*written, profile_of(target)), IsEmpty());
        }
    }
}

/// Calibrated so that every tensor that is asked for showed these values.
RangesFile ranges_of(const Model& model, const std::vector<float>& values) {
    ActivationStatistics statistics;
    statistics.samples = 1;
    for (const std::string& name : quantizable_tensors(model)) {
        statistics.tensors.push_back({name, {}});
        statistics.tensors.back().histogram.observe(values);
    }
    RangesKey key;
    key.model = calibration_key(model);
    return make_ranges(std::move(statistics), key, Method::minmax, {}, 1);
}

TEST(Formats, TheWholeStepUsesRangesOfItsFormatAndSaysIt) {
    const Model model = network();
    const RangesFile ranges = ranges_of(model, {-0.5F, 2.0F});
    QuantizeOptions options;
    options.placement = formats(WeightGranularity::per_tensor, ActivationScheme::symmetric);
    const auto outcome = quantize_model(model, ranges, options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_EQ(outcome->document.at("weight_granularity"), "per-tensor");
    EXPECT_EQ(outcome->document.at("activation_scheme"), "symmetric");
    EXPECT_FLOAT_EQ(outcome->model.graph.initializer("ra_scale")->to_floats().at(0), 2.0F / 127.0F);
    // Both are told, with the cause.
    EXPECT_THAT(outcome->plan.remarks, ElementsAre(HasSubstr("uint8 by int8"), HasSubstr("1 depthwise")));
    const auto own = quantize_model(model, ranges, {});
    ASSERT_TRUE(own);
    EXPECT_EQ(own->document.at("weight_granularity"), "per-channel");
    EXPECT_EQ(own->document.at("activation_scheme"), "asymmetric");
    EXPECT_THAT(own->plan.remarks, IsEmpty());
}

TEST(Formats, WhatATargetCannotRunIsRefusedWithTheCause) {
    const Model model = network();
    for (const Target target : {Target::tensorrt, Target::cuda}) {
        const auto refused = plan_quantization(model, profile_of(target), formats({}, ActivationScheme::asymmetric));
        ASSERT_FALSE(refused) << to_string(target);
        EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
        EXPECT_THAT(refused.error().message, HasSubstr(to_string(target)));
        EXPECT_THAT(refused.error().hint, HasSubstr("leave it out"));
        const auto symmetric = plan(model, target, formats({}, ActivationScheme::symmetric));
        EXPECT_TRUE(std::ranges::none_of(symmetric.groups, [](const ScaleGroup& each) { return each.from_zero; }));
        EXPECT_THAT(symmetric.remarks, IsEmpty()) << "it is what the target runs best";
    }
    const auto own = plan(model, Target::cuda);
    EXPECT_TRUE(std::ranges::any_of(own.groups, [](const ScaleGroup& each) { return each.from_zero; }))
        << "else the line above says nothing";
}

TEST(Formats, Names) {
    for (const WeightGranularity each : {WeightGranularity::per_channel, WeightGranularity::per_tensor})
        EXPECT_EQ(*weight_granularity_from_name(to_string(each)), each);
    for (const ActivationScheme each : {ActivationScheme::symmetric, ActivationScheme::asymmetric})
        EXPECT_EQ(*activation_scheme_from_name(to_string(each)), each);
    EXPECT_EQ(weight_granularity_from_name("tensor").error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(activation_scheme_from_name("").error().code, ErrorCode::invalid_argument);
}

} // namespace
} // namespace lathe
