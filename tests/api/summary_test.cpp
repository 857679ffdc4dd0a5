#include "api/summary.hpp"

#include <gtest/gtest.h>

#include "onnx/models.hpp"

namespace lathe {
namespace {

/// A convolution whose padding the file computes from its input's size, as exporters write "same" padding: to shape
/// inference alone, the size after the Pad is open even where the batch is not.
Model same_padded(const std::string& batch) {
    Model model = test::model_from("agraph (float[" + batch + R"(,3,7,7] x) => (float[B,C,H,W] y) {
        shape = Shape(x)
        two = Constant <value = int64[1] {2}> ()
        size = Gather(shape, two)
        six = Constant <value = int64[1] {6}> ()
        total = Sub(size, six)
        zeros = Constant <value = int64[2] {0, 0}> ()
        pads = Concat <axis = 0> (zeros, total, total, zeros, total, total)
        padded = Pad(x, pads)
        a = Conv(padded, w)
        y = Relu(a)
    })");
    test::add_initializer(model, test::ramp("w", {8, 3, 3, 3}));
    return model;
}
constexpr std::int64_t macs = 8 * 49 * 27; // 7x7 positions out of 9x9 padded ones

TEST(ResolvedSummary, FreeBatchAndComputedPadding) {
    const Model model = same_padded("N");
    ASSERT_LT(summarize(model).macs, macs) << "the case no longer needs what it tests";
    const ModelSummary summary = summarize_resolved(model);
    EXPECT_EQ(summary.macs, macs);
    EXPECT_TRUE(summary.assumed_dimensions);
    EXPECT_EQ(summary.unknown_layers, 0U);
    EXPECT_EQ(summary.inputs[0].dims->front().symbol, "N") << "the file's own shapes are shown";
    EXPECT_GE(summary.activation_bytes, std::int64_t{4} * (3 * 81 + 2 * 8 * 49));
    std::int64_t sum = 0;
    for (const LayerSummary& layer : summary.layers)
        sum += layer.macs;
    EXPECT_EQ(sum, macs);
}

TEST(ResolvedSummary, FixedBatchAssumesNothing) {
    const ModelSummary summary = summarize_resolved(same_padded("2"));
    EXPECT_EQ(summary.macs, 2 * macs);
    EXPECT_FALSE(summary.assumed_dimensions);
}

/// Sizes that depend on the data stay open, and are said to be.
TEST(ResolvedSummary, DataDependentSizes) {
    Model model = test::model_from(R"(agraph (float[4] x) => (float[] y) {
        found = NonZero(x)
        turned = Transpose <perm = [1, 0]> (found)
        rows = Cast <to = 1> (turned)
        y = MatMul(rows, w)
    })");
    test::add_initializer(model, test::ramp("w", {1, 5}));
    const ModelSummary summary = summarize_resolved(model);
    EXPECT_EQ(summary.macs, 5);
    EXPECT_TRUE(summary.assumed_dimensions);
}

} // namespace
} // namespace lathe
