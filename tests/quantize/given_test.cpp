// Ranges of other tools on a graph: what matches, what does not, and what becomes of what is missing.

#include "quantize/given.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

using test::graph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// input -> first -> Relu -> second -> Relu -> flatten -> head
Model ranged_network() {
    std::string text = "opset 18\nir 8\nname \"m\"\ninput %input: float32[1, 16, 4, 4]\n";
    for (const char* name : {"w1", "w2"})
        text += test::weight(name, "16, 16, 1, 1", 256);
    return graph(text + test::weight("w3", "256, 16", 4096) +
                 "%c1 = Conv(%input, %w1) {name = \"first\"}\n%/relu1/out:0 = Relu(%c1) {name = \"relu1\"}\n"
                 "%c2 = Conv(%/relu1/out:0, %w2) {name = \"second\"}\n%r2 = Relu(%c2) {name = \"relu2\"}\n"
                 "%flat = Flatten(%r2) {name = \"flatten\"}\n%y = MatMul(%flat, %w3) {name = \"head\"}\n"
                 "output %y: float32[1, 16]\n");
}

GivenRanges cache_of(const std::string& lines) {
    auto read = parse_tensorrt_cache("TRT-8601-EntropyCalibration2\n" + lines, "test.cache");
    if (!read) {
        ADD_FAILURE() << read.error().describe();
        return {};
    }
    return *std::move(read);
}

QuantizeOutcome quantized(const MatchedRanges& matched, Target target, const QuantizeOptions& more = {}) {
    QuantizeOptions options = more;
    options.target = target;
    auto outcome = quantize_model(ranged_network(), matched.ranges, options);
    if (!outcome) {
        ADD_FAILURE() << outcome.error().describe();
        return {};
    }
    return *std::move(outcome);
}

constexpr const char* whole =
    "input: 3c010a14\nc1: 3d1f3b64\n/relu1/out:0: 3cc4a6e2\nc2: 3d1f3b64\nr2: 3c8b4396\n"
    "flat: 3c8b4396\ny: 3da3d70a\n(Unnamed Layer* 8) [Constant]_output: 3c010a14\nw3: 3c010a14\n";

TEST(Given, ACacheGivesItsScalesToTheBit) {
    const auto matched = match_given(ranged_network(), cache_of(whole));
    ASSERT_TRUE(matched) << matched.error().describe();
    EXPECT_EQ(matched->match.matched, 8U);
    EXPECT_EQ(matched->match.internal, 1U);
    EXPECT_TRUE(matched->match.unknown.empty());
    const QuantizeOutcome outcome = quantized(*matched, Target::tensorrt);
    EXPECT_EQ(outcome.plan.quantized_nodes, 3U);
    EXPECT_TRUE(outcome.missing.empty());
    for (const auto& [tensor, bits] :
         {std::pair{"input", 0x3c010a14U}, std::pair{"/relu1/out:0", 0x3cc4a6e2U}, std::pair{"r2", 0x3c8b4396U}}) {
        const Tensor* scale = outcome.model.graph.initializer(std::string(tensor) + "_scale");
        ASSERT_NE(scale, nullptr) << tensor;
        EXPECT_EQ(std::bit_cast<std::uint32_t>(scale->to_floats().at(0)), bits) << tensor;
        const Tensor* zero = outcome.model.graph.initializer(std::string(tensor) + "_zero_point");
        ASSERT_NE(zero, nullptr);
        EXPECT_EQ(zero->type(), DataType::int8);
    }
    const Tensor* channels = outcome.model.graph.initializer("w2_scale");
    ASSERT_NE(channels, nullptr);
    EXPECT_EQ(channels->shape(), Shape{16}); // weights by channel, from their own values
    EXPECT_THAT(*outcome.model.find_metadata("lathe.quantization"), HasSubstr("TRT-8601-EntropyCalibration2"));
    EXPECT_EQ(outcome.document.at("method"), "given");
}

TEST(Given, WhatLacksARangeStaysInFloat) {
    const auto matched = match_given(ranged_network(), cache_of("input: 3c010a14\nr2: 3c8b4396\n"));
    ASSERT_TRUE(matched);
    const QuantizeOutcome outcome = quantized(*matched, Target::tensorrt);
    EXPECT_EQ(outcome.plan.quantized_nodes, 2U);
    ASSERT_EQ(outcome.missing.size(), 1U);
    EXPECT_EQ(outcome.missing[0].tensor, "/relu1/out:0");
    EXPECT_THAT(outcome.missing[0].nodes, ElementsAre("second"));
    EXPECT_EQ(test::reasons(outcome.plan)["second/0"], "range_missing");
    // A range by hand stands in.
    QuantizeOptions options;
    options.overrides["/relu1/out:0"] = {0.0F, 2.54F};
    const QuantizeOutcome by_hand = quantized(*matched, Target::tensorrt, options);
    EXPECT_EQ(by_hand.plan.quantized_nodes, 3U);
    EXPECT_TRUE(by_hand.missing.empty());
    EXPECT_FLOAT_EQ(by_hand.model.graph.initializer("/relu1/out:0_scale")->to_floats().at(0), 0.02F);
}

TEST(Given, UnknownNamesAreToldWithNearOnes) {
    const auto matched = match_given(ranged_network(), cache_of("input: 3c010a14\nRELU1/out: 3cc4a6e2\nr3: 3c8b4396\n"
                                                                "something else: 3c8b4396\n"));
    ASSERT_TRUE(matched);
    const auto& unknown = matched->match.unknown;
    ASSERT_EQ(unknown.size(), 3U);
    EXPECT_EQ(unknown[0].nearest, "/relu1/out:0");
    EXPECT_EQ(unknown[0].line, 3U);
    EXPECT_EQ(unknown[1].nearest, "r2");
    EXPECT_EQ(unknown[2].nearest, "");
}

TEST(Given, NoNameInCommonIsAnError) {
    const auto matched = match_given(ranged_network(), cache_of("Input: 3c010a14\nzz: 3c8b4396\n"));
    ASSERT_FALSE(matched);
    EXPECT_EQ(matched.error().code, ErrorCode::mismatch);
    EXPECT_THAT(matched.error().describe(), HasSubstr("Input (the model has input)"));
}

TEST(Given, UnsignedTargetsKnowWhatARelWrites) {
    const auto matched = match_given(ranged_network(), cache_of(whole));
    ASSERT_TRUE(matched);
    const QuantizeOutcome outcome = quantized(*matched, Target::openvino);
    const float magnitude = 127.0F * std::bit_cast<float>(0x3cc4a6e2U);
    EXPECT_FLOAT_EQ(outcome.model.graph.initializer("/relu1/out:0_scale")->to_floats().at(0), magnitude / 255.0F);
    const float of_input = 127.0F * std::bit_cast<float>(0x3c010a14U);
    EXPECT_FLOAT_EQ(outcome.model.graph.initializer("input_scale")->to_floats().at(0), 2.0F * of_input / 255.0F);
}

TEST(Given, AMethodNeedsHistograms) {
    const auto matched = match_given(ranged_network(), cache_of(whole));
    ASSERT_TRUE(matched);
    QuantizeOptions options;
    options.method = Method::entropy;
    EXPECT_EQ(quantize_model(ranged_network(), matched->ranges, options).error().code, ErrorCode::invalid_argument);
}

TEST(Given, FloatActivationsAreAllThatDependOnTheInput) {
    EXPECT_THAT(float_activations(ranged_network()),
                ElementsAre("input", "c1", "/relu1/out:0", "c2", "r2", "flat", "y"));
}

} // namespace
} // namespace lathe
