#include "autocast/decide.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"

namespace lathe {
namespace {

using test::cast_graph;
using test::planned;
using test::reasons;
using test::seen;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const char* const chain = R"(opset 22
input %x: float32[N, 8]
const %w: float32[8, 8] = {0.5}
const %big: float32[1] = {1000.0}
%a = MatMul(%x, %w) {name = "a"}
%b = Mul(%a, %big) {name = "b"}
%c = Div(%b, %big) {name = "c"}
%y = MatMul(%c, %w) {name = "y"}
output %y: float32[N, 8]
)";

std::string with_weights(std::string text) {
    std::string numbers;
    for (int i = 0; i < 64; ++i)
        numbers += (i == 0 ? "" : ", ") + std::to_string(0.1 + 0.01 * i);
    const std::string mark = "{0.5}";
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
        text.replace(at, mark.size(), "{" + numbers + "}");
    return text;
}

TEST(Decide, APlainModelIsCastAsAWhole) {
    const Model model = cast_graph(with_weights(chain));
    for (const HalfFormat& format : {fp16, bf16}) {
        AutocastOptions options;
        options.format = format;
        EXPECT_THAT(reasons(planned(model, seen(model), options)), Each(Pair(testing::_, "cast"))) << format.name;
    }
}

TEST(Decide, ValuesOverTheLargestKeepTheirNodesInFp32) {
    const Model model = cast_graph(with_weights(chain));
    const RangesFile ranges = seen(model, {{"b", {1e5F, -3.0F}}});
    EXPECT_THAT(reasons(planned(model, ranges)), ElementsAre(Pair("a", "cast"), Pair("b", "activation_overflow"),
                                                             Pair("c", "activation_overflow"), Pair("y", "cast")));
    AutocastOptions options;
    options.format = bf16; // holds them
    EXPECT_THAT(reasons(planned(model, ranges, options)), Each(Pair(testing::_, "cast")));
}

TEST(Decide, HeadroomDecidesNearTheLargest) {
    const Model model = cast_graph(with_weights(chain));
    const RangesFile ranges = seen(model, {{"b", {4e4F}}});
    EXPECT_EQ(reasons(planned(model, ranges)).at("b"), "activation_overflow");
    AutocastOptions options;
    options.headroom = 1;
    EXPECT_EQ(reasons(planned(model, ranges, options)).at("b"), "cast");
    options.headroom = 0.5;
    EXPECT_EQ(plan_autocast(model, ranges, options).error().code, ErrorCode::invalid_argument);
}

TEST(Decide, ConstantsThatDoNotFit) {
    const Model model = cast_graph(R"(opset 22
input %x: float32[N, 4]
const %w: float32[4, 4] = {1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1}
const %huge: float32[1] = {-3.4e38}
const %epsilon: float32[1] = {1e-12}
%p = MatMul(%x, %w) {name = "p"}
%m = Max(%p, %huge) {name = "m"}
%e = Add(%p, %epsilon) {name = "e"}
%s = Mul(%m, %e) {name = "s"}
%y = MatMul(%s, %w) {name = "y"}
output %y: float32[N, 4]
)");
    AutocastOptions options;
    const auto found = reasons(planned(model, seen(model), options));
    EXPECT_EQ(found.at("m"), "weight_overflow");
    EXPECT_EQ(found.at("e"), "weight_underflow");
    EXPECT_EQ(found.at("p"), "cast");
    options.format = bf16; // holds 1e-12, and not float's lowest numbers
    const auto wider = reasons(planned(model, seen(model), options));
    EXPECT_EQ(wider.at("m"), "weight_overflow");
    EXPECT_EQ(wider.at("e"), "cast");
}

const char* const reductions = R"(opset 22
input %x: float32[N, 600, 4]
input %z: float32[N, 40, 4]
const %axis: int64[1] = {1}
const %w: float32[4, 4] = {1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1}
%p = MatMul(%x, %w) {name = "p"}
%q = MatMul(%z, %w) {name = "q"}
%deep = ReduceMean(%p, %axis) {name = "deep"}
%shallow = ReduceMean(%q, %axis) {name = "shallow"}
%sum = Add(%deep, %shallow) {name = "sum"}
%y = MatMul(%sum, %w) {name = "y"}
output %y: float32[N, 1, 4]
)";

TEST(Decide, DeepSumsStayInFp32) {
    const Model model = cast_graph(reductions);
    auto found = reasons(planned(model, seen(model)));
    EXPECT_EQ(found.at("deep"), "deep_reduction"); // sqrt(600) 2^-11 = 0.0120 > 0.01
    EXPECT_EQ(found.at("shallow"), "cast");        // sqrt(40) 2^-11 = 0.0031
    EXPECT_EQ(found.at("y"), "cast");
    AutocastOptions options;
    options.format = bf16;
    EXPECT_EQ(reasons(planned(model, seen(model), options)).at("shallow"), "deep_reduction");
    options.format = fp16;
    options.error_limit = 0.02;
    EXPECT_EQ(reasons(planned(model, seen(model), options)).at("deep"), "cast");
}

TEST(Decide, SumsThatMayOverflowStayInFp32) {
    const Model model = cast_graph(reductions);
    const RangesFile ranges = seen(model, {{"q", {2000.0F}}}); // 40 x 2,000 = 80,000
    EXPECT_EQ(reasons(planned(model, ranges)).at("shallow"), "sum_overflow");
    EXPECT_EQ(reasons(planned(model, ranges)).at("q"), "cast"); // its own sum is kept in FP32
}

TEST(Decide, SixteenBitAccumulatorsJudgeProductsToo) {
    const Model model = cast_graph(reductions);
    AutocastOptions options;
    options.accumulators = Accumulators::own;
    EXPECT_EQ(reasons(planned(model, seen(model), options)).at("p"), "cast");
    EXPECT_EQ(reasons(planned(model, seen(model, {{"x", {3e4F}}}), options)).at("p"), "sum_overflow");
    EXPECT_EQ(reasons(planned(model, seen(model, {{"x", {3e4F}}}))).at("p"), "cast");
    options.format = bf16; // 4 terms: sqrt(4) 2^-8 = 0.0078
    options.error_limit = 0.005;
    EXPECT_EQ(reasons(planned(model, seen(model), options)).at("p"), "deep_reduction");
}

TEST(Decide, SquaresInsideANormalisation) {
    const Model model = cast_graph(R"(opset 22
input %x: float32[2, 4, 3, 3]
const %one: float32[4] = {1.0, 1.0, 1.0, 1.0}
const %w: float32[4, 4, 1, 1] = {1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1}
%c = Conv(%x, %w) {name = "c"}
%n = InstanceNormalization(%c, %one, %one) {name = "n"}
%y = Conv(%n, %w) {name = "y"}
output %y: float32
)");
    EXPECT_EQ(reasons(planned(model, seen(model))).at("n"), "cast");
    EXPECT_EQ(reasons(planned(model, seen(model, {{"c", {300.0F}}}))).at("n"), "product_overflow");
}

TEST(Decide, AnglesPositionsAndIntegersKeepTheirBits) {
    const Model model = cast_graph(R"(opset 22
input %t: float32[N, 4]
const %w: float32[4, 4] = {1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1}
const %f: float32[4] = {1.0, 0.9, 0.8, 0.7}
%angle = Mul(%t, %f) {name = "angle"}
%wave = Sin(%angle) {name = "wave"}
%p = MatMul(%wave, %w) {name = "p"}
%scaled = Mul(%p, %f) {name = "scaled"}
%index = Cast(%scaled) {name = "index", to = 7}
output %p: float32[N, 4]
output %index: int64[N, 4]
)");
    const auto large = reasons(planned(model, seen(model, {{"t", {999.0F}}, {"angle", {999.0F}}})));
    EXPECT_EQ(large.at("angle"), "feeds_exact");
    EXPECT_EQ(large.at("wave"), "feeds_exact");
    EXPECT_EQ(large.at("scaled"), "feeds_exact");
    EXPECT_EQ(large.at("index"), "feeds_exact");
    EXPECT_EQ(large.at("p"), "cast");
    EXPECT_EQ(reasons(planned(model, seen(model))).at("wave"), "cast"); // angles up to 1 fit
}

TEST(Decide, WhatStandsBetweenFp32NodesJoinsThem) {
    const Model model = cast_graph(with_weights(R"(opset 22
input %x: float32[N, 8]
const %w: float32[8, 8] = {0.5}
%a = Exp(%x) {name = "a"}
%b = Relu(%a) {name = "b"}
%c = Exp(%b) {name = "c"}
%d = Relu(%c) {name = "d"}
%y = MatMul(%d, %w) {name = "y"}
output %y: float32[N, 8]
)"));
    AutocastOptions options;
    options.exclude = {"Exp"};
    const auto found = reasons(planned(model, seen(model), options));
    EXPECT_EQ(found.at("a"), "excluded_by_user");
    EXPECT_EQ(found.at("b"), "between_floats");
    EXPECT_EQ(found.at("d"), "cast"); // beside a product
}

TEST(Decide, TypesThatOnnxDoesNotDefine) {
    const std::string text = R"(input %x: float32[2, 4, 3, 3]
const %w: float32[4, 4, 1, 1] = {1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1, 1.0, 0.5, 0.2, 0.1}
%y = Conv(%x, %w) {name = "y"}
output %y: float32
)";
    AutocastOptions options;
    options.format = bf16;
    const Model old = cast_graph("opset 18\n" + text);
    EXPECT_EQ(reasons(planned(old, seen(old), options)).at("y"), "op_fixed_type");
    EXPECT_EQ(reasons(planned(old, seen(old))).at("y"), "cast");
    const Model recent = cast_graph("opset 22\n" + text);
    EXPECT_EQ(reasons(planned(recent, seen(recent), options)).at("y"), "cast");
}

TEST(Decide, WhatWasNotMeasuredStays) {
    const Model model = cast_graph(with_weights(chain));
    RangesFile ranges = seen(model);
    std::erase_if(ranges.tensors, [](const TensorRange& tensor) { return tensor.name == "b"; });
    const auto found = reasons(planned(model, ranges));
    EXPECT_EQ(found.at("b"), "not_measured");
    EXPECT_EQ(found.at("c"), "not_measured");
    EXPECT_EQ(found.at("y"), "cast");
}

TEST(Decide, AQuantisedModelIsRefused) {
    const Model model = cast_graph(R"(opset 22
input %x: float32[4]
const %s: float32[] = {0.5}
const %z: int8[] = {0}
%q = QuantizeLinear(%x, %s, %z)
%y = DequantizeLinear(%q, %s, %z)
output %y: float32[4]
)");
    EXPECT_EQ(plan_autocast(model, seen(model), {}).error().code, ErrorCode::invalid_argument);
}

} // namespace
} // namespace lathe
