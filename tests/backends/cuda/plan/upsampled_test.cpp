// Convolutions of doubled pixels: the phases' results are parts of one image, against the CPU engine.
#include <algorithm>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lathe::cuda {
namespace {

TEST(Upsampled, ConvolutionsReadThePixelsOnce) {
    const Model model = lathe::test::network(
        "opset 18\ninput %x: float32[2, 32, 5, 7]\ninput %w_f: float32[40, 32, 3, 3]\ninput %b_c: float32[40]\n"
        "const %scales: float32[4] = {1.0, 1.0, 2.0, 2.0}\n%u = Resize(%x, , %scales) {mode = \"nearest\"}\n"
        "%c = Conv(%u, %w_f, %b_c) {pads = [1, 1, 1, 1]}\n%y = Relu(%c)\noutput %y: undefined\n");
    const std::vector<Shape> shapes{{2, 32, 5, 7}};
    const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
    const auto valid = verify(plan);
    ASSERT_TRUE(valid) << valid.error().describe();
    const auto count = [&]<class Detail>(std::type_identity<Detail>) {
        return std::ranges::count_if(plan.ops,
                                     [](const FusedOp& op) { return std::holds_alternative<Detail>(op.detail); });
    };
    EXPECT_EQ(count(std::type_identity<Conv>()), 4) << print(plan);
    EXPECT_EQ(count(std::type_identity<Resize>()) + count(std::type_identity<Concat>()), 0) << print(plan);
    EXPECT_LE(plan.ops.size(), 7U) << print(plan);
    auto inputs = lathe::test::random_inputs(model, shapes);
    EXPECT_LE(lathe::test::relative_difference(lathe::test::run_on_cpu(model, inputs)[0],
                                               lathe::test::interpreted(plan, inputs, false).at(0)),
              1e-5);
}

// A U-Net's: the sum of two convolutions would be a pass over memory more.
TEST(Upsampled, JoinedImagesHaveOneConvolution) {
    const Model model = lathe::test::network(
        "opset 18\ninput %x: float32[1, 32, 4, 4]\ninput %s: float32[1, 32, 8, 8]\ninput %w_f: float32[40, 64, 3, 3]\n"
        "const %scales: float32[4] = {1.0, 1.0, 2.0, 2.0}\n%u = Resize(%x, , %scales) {mode = \"nearest\"}\n"
        "%j = Concat(%u, %s) {axis = 1}\n%y = Conv(%j, %w_f) {pads = [1, 1, 1, 1]}\noutput %y: undefined\n");
    const std::vector<Shape> shapes{{1, 32, 4, 4}, {1, 32, 8, 8}};
    const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
    EXPECT_EQ(
        std::ranges::count_if(plan.ops, [](const FusedOp& op) { return std::holds_alternative<Conv>(op.detail); }), 1)
        << print(plan);
}

} // namespace
} // namespace lathe::cuda
