// Inputs whose values decide shapes: found in the graph, given in the model's metadata, a plan for each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"
#include "backends/cuda/plan/values.hpp"

namespace lathe::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model resized() {
    return network("opset 18\ninput %x: float32[1, 2, 4, 5]\ninput %scales: float32[4]\ninput %p: int64[1]\n"
                   "%y = Resize(%x, , %scales) {mode = \"nearest\"}\n%f = Cast(%p) {to = 1}\n"
                   "%z = Add(%y, %f)\noutput %z: float32[1, 2, h, w]\n");
}

Result<cuda::Plan> lowered(const Model& model, const cuda::InputValues& values, const std::vector<Shape>& shapes) {
    Model given = model;
    cuda::set_values(given, values);
    LATHE_TRY(auto prepared, cuda::prepare(given, Precision::float32));
    return cuda::lower(prepared, shapes);
}

TEST(DecidingInputs, AreThoseThatSettleShapesOrBranches) {
    EXPECT_THAT(cuda::deciding_inputs(resized().graph), ElementsAre("scales"));
    const Model computed =
        network("opset 18\ninput %x: float32[2, 6]\ninput %n: int64[]\ninput %ids: int64[6]\ninput %c: bool[]\n"
                "const %one: int64[1] = {1}\nconst %zero: int64[1] = {0}\n%m = Unsqueeze(%n, %zero)\n"
                "%k = Add(%m, %one)\n%y = Slice(%x, %zero, %k, %one)\n%g = Gather(%y, %ids) {axis = 0}\n"
                "%z = If(%c) {then_branch = graph {\n    %t = Relu(%g)\n    output %t: float32[6, w]\n"
                "}, else_branch = graph {\n    %e = Neg(%g)\n    output %e: float32[6, w]\n}}\n"
                "output %z: float32[6, w]\n");
    EXPECT_THAT(cuda::deciding_inputs(computed.graph), ElementsAre("n", "c"));
    const Model by_shape =
        network("opset 18\ninput %x: float32[N, 6]\ninput %i: int64[3]\n%s = Shape(%i)\n"
                "%y = ConstantOfShape(%s)\n%z = Cast(%i) {to = 1}\n%w = Add(%y, %z)\noutput %w: float32[3]\n");
    EXPECT_TRUE(cuda::deciding_inputs(by_shape.graph).empty());
}

TEST(DecidingInputs, APlanIsForTheirValues) {
    const Model model = resized();
    const std::vector<Shape> shapes{{1, 2, 4, 5}, {4}, {1}};
    const auto twice = lowered(model, {{"scales", "1,1,2,2"}}, shapes);
    ASSERT_TRUE(twice) << twice.error().describe();
    EXPECT_EQ(twice->values[twice->outputs[0]].dims, (Shape{1, 2, 8, 10}));
    const auto wide = lowered(model, {{"scales", "1,1,1,3"}}, shapes);
    ASSERT_TRUE(wide) << wide.error().describe();
    EXPECT_EQ(wide->values[wide->outputs[0]].dims, (Shape{1, 2, 4, 15}));
    // The input stays one of the plan's, so that requests are what the model says.
    EXPECT_EQ(wide->inputs.size(), 3U);
    auto inputs = random_inputs(model, shapes);
    const std::vector<float> scales{1, 1, 1, 3};
    std::copy(scales.begin(), scales.end(), inputs[1].as<float>().begin());
    const auto expected = run_on_cpu(model, inputs);
    const auto found = interpreted(*wide, inputs, true);
    EXPECT_LT(relative_difference(expected[0], found[0]), 1e-5);
}

TEST(DecidingInputs, ARefusalNamesThemAndWhatIsWrongWithTheirValue) {
    const Model model = resized();
    const std::vector<Shape> shapes{{1, 2, 4, 5}, {4}, {1}};
    const auto without = lowered(model, {}, shapes);
    ASSERT_FALSE(without);
    EXPECT_THAT(without.error().message, HasSubstr("the value of scales decides shapes"));
    for (const char* wrong : {"1,1,2", "1,1,2,x", "", "1,1,2,2,"}) {
        const auto refused = lowered(model, {{"scales", wrong}}, shapes);
        ASSERT_FALSE(refused) << wrong;
        EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument) << refused.error().describe();
        EXPECT_THAT(refused.error().describe(), HasSubstr("scales"));
    }
}

TEST(DecidingInputs, TextHoldsEveryNumber) {
    const std::vector<float> floats{0.1F, 1.0F / 3, 1e-30F, 16777217.0F};
    EXPECT_EQ(cuda::value_text(Tensor::of_floats("", {4}, floats)), "0.100000001,0.333333343,1e-30,16777216");
    const std::vector<std::int64_t> integers{-9223372036854775807LL, 0, 5};
    EXPECT_EQ(cuda::value_text(Tensor::of_int64s("", {3}, integers)), "-9223372036854775807,0,5");
}

} // namespace
} // namespace lathe::test
