#include "autocast/facts.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "autocast/reduction.hpp"
#include "graphs.hpp"

namespace lathe {
namespace {

TEST(HalfFormats, AreWhatTheirRoundingDoes) {
    for (const HalfFormat& format : {fp16, bf16}) {
        const auto largest = static_cast<float>(format.largest);
        EXPECT_EQ(rounded_to(format, largest), largest) << format.name;
        EXPECT_TRUE(
            std::isinf(rounded_to(format, std::nextafter(largest * (1 + 2 * static_cast<float>(format.unit_roundoff)),
                                                         std::numeric_limits<float>::infinity()))));
        const auto least = static_cast<float>(format.smallest_subnormal);
        EXPECT_EQ(rounded_to(format, least), least) << format.name;
        EXPECT_EQ(rounded_to(format, least / 4), 0.0F) << format.name;
        // Halfway between 1 and the next number: the largest relative error there is.
        const auto half_step = static_cast<float>(1 + format.unit_roundoff);
        EXPECT_EQ(rounded_to(format, half_step), 1.0F) << format.name;
        EXPECT_GT(rounded_to(format, half_step * 1.0001F), 1.0F) << format.name;
    }
    EXPECT_FALSE(half_format_from_name("fp8"));
}

TEST(Facts, OfAConstantAreCountedOneByOne) {
    const std::vector<float> values{
        1.0F, 70000.0F, 65504.0F, 1e-5F, -3e-8F, 1e-8F, 0.0F, -1e-4F, std::numeric_limits<float>::infinity(), -2e-8F};
    const TensorFacts facts = facts_of(Tensor::of_floats("w", {10}, values), fp16);
    EXPECT_EQ(facts.values, 10U);
    EXPECT_EQ(facts.nonfinite, 1U);
    EXPECT_DOUBLE_EQ(facts.absmax, 70000.0);
    EXPECT_EQ(facts.over, (CountBounds{1, 1}));
    EXPECT_EQ(facts.subnormal, (CountBounds{4, 4})); // 1e-5, -3e-8, 1e-8, -2e-8
    EXPECT_EQ(facts.flushed, (CountBounds{2, 2}));   // half of 2^-24 is 2.98e-8: 1e-8 and -2e-8 become 0
    EXPECT_EQ(facts_of(Tensor::of_floats("w", {10}, values), bf16).over.most, 0U);
}

TEST(Facts, AConstantThatVanishesLosesAllOfItself) {
    const std::vector<float> tiny(16, 1e-8F);
    EXPECT_DOUBLE_EQ(facts_of(Tensor::of_floats("w", {16}, tiny), fp16).relative_error, 1.0);
    EXPECT_LT(facts_of(Tensor::of_floats("w", {16}, tiny), bf16).relative_error, bf16.unit_roundoff);
    const std::vector<float> usual(16, 0.1F);
    EXPECT_LT(facts_of(Tensor::of_floats("w", {16}, usual), fp16).relative_error, fp16.unit_roundoff);
}

/// Against counting the very values that the histogram saw.
TEST(Facts, BoundsFromAHistogramHoldTheTrueCounts) {
    std::mt19937 random(7);
    for (const double spread : {-9.0, -6.0, -4.0, 0.0, 4.0}) {
        std::uniform_real_distribution<double> exponent(spread - 3, spread + 3);
        std::vector<float> values;
        for (int i = 0; i < 5000; ++i)
            values.push_back(static_cast<float>((i % 2 == 0 ? 1 : -1) * std::pow(10.0, exponent(random))));
        Histogram histogram;
        histogram.observe(values);
        const TensorFacts bounds = facts_of("x", histogram, fp16);
        const TensorFacts exact = facts_of(Tensor::of_floats("x", {5000}, values), fp16);
        SCOPED_TRACE("10^" + std::to_string(spread));
        for (const auto& [bound, truth] : {std::pair{bounds.over, exact.over.least},
                                           {bounds.subnormal, exact.subnormal.least},
                                           {bounds.flushed, exact.flushed.least}}) {
            EXPECT_LE(bound.least, truth);
            EXPECT_GE(bound.most, truth);
        }
        EXPECT_NEAR(bounds.absmax, exact.absmax, exact.absmax * 1e-6);
        EXPECT_NEAR(bounds.mean_square, exact.mean_square, exact.mean_square * 0.01);
    }
}

TEST(Facts, UnderflowOfATensorIsMeasuredByWhatItIsWorth) {
    Histogram small;
    small.observe(std::vector<float>{1e-7F, -1e-7F, 2e-7F});
    EXPECT_GT(facts_of("x", small, fp16).relative_error, 0.01);
    Histogram mixed; // small values beside large ones, as behind a Softmax
    mixed.observe(std::vector<float>{0.9F, 0.1F, 1e-7F, 1e-8F});
    EXPECT_LT(facts_of("x", mixed, fp16).relative_error, 1e-6);
}

TEST(Reductions, DepthIsTheNumberOfTermsOfASum) {
    const Model model = test::cast_graph(R"(opset 18
input %x: float32[N, 8, 6, 5]
input %t: float32[N, S, 32]
input %w: float32[4, 4, 3, 3]
input %u: float32[8, 4, 2, 2]
input %m: float32[32, 7]
const %axes: int64[2] = {2, 3}
%conv = Conv(%x, %w) {group = 2}
%up = ConvTranspose(%x, %u) {group = 2}
%mean = ReduceMean(%x, %axes)
%pool = GlobalAveragePool(%x)
%avg = AveragePool(%x) {kernel_shape = [3, 2]}
%soft = Softmax(%t) {axis = 1}
%prod = MatMul(%t, %m)
%relu = Relu(%x)
output %conv: float32
)");
    const std::map<std::string, std::pair<std::int64_t, bool>> expected{
        {"conv", {36, true}}, {"up", {16, true}},    {"mean", {30, false}}, {"pool", {30, false}},
        {"avg", {6, false}},  {"soft", {99, false}}, {"prod", {32, true}}};
    for (const auto& node : model.graph.nodes) {
        const auto reduction = reduction_of(model.graph, *node, 18, 99, Accumulators::fp32);
        const auto wanted = expected.find(node->output(0));
        ASSERT_EQ(reduction.has_value(), wanted != expected.end()) << node->label();
        if (!reduction) continue;
        EXPECT_EQ(reduction->depth, wanted->second.first) << node->label();
        EXPECT_EQ(reduction->wide, wanted->second.second) << node->label();
        EXPECT_EQ(reduction->assumed, node->is("Softmax")) << node->label();
    }
}

/// The bound against sums that are rounded after every step, as a 16-bit accumulator does.
TEST(Reductions, TheBoundHoldsForSumsInTheFormat) {
    std::mt19937 random(11);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (const HalfFormat& format : {fp16, bf16}) {
        for (const int depth : {4, 64, 512}) {
            Reduction reduction;
            reduction.depth = depth;
            const double bound = error_bound(reduction, format);
            int over = 0;
            for (int trial = 0; trial < 200; ++trial) {
                float sum = 0;
                double exact = 0;
                double magnitude = 0;
                for (int i = 0; i < depth; ++i) {
                    const float term = rounded_to(format, uniform(random));
                    sum = rounded_to(format, sum + term);
                    exact += static_cast<double>(term);
                    magnitude += std::abs(static_cast<double>(term));
                }
                over += std::abs(static_cast<double>(sum) - exact) > bound * magnitude ? 1 : 0;
            }
            EXPECT_LE(over, 2) << format.name << ", " << depth << " terms";
        }
    }
}

} // namespace
} // namespace lathe
