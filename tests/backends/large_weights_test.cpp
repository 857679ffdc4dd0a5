// Models past protobuf's 2 GB reach OpenVINO without their large weights in the ONNX text; here with small limits.

#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "backends/openvino/core.hpp"

namespace lathe::test {
namespace {

std::vector<float> run(const std::shared_ptr<ov::Model>& model, HostTensor& input) {
    auto request = openvino::core().compile_model(model, "CPU").create_infer_request();
    request.set_input_tensor(
        ov::Tensor(ov::element::f32, ov::Shape(input.shape.begin(), input.shape.end()), input.bytes.data()));
    request.infer();
    const ov::Tensor output = request.get_output_tensor();
    return {output.data<float>(), output.data<float>() + output.get_size()};
}

TEST(LargeWeights, TheSameModelWithoutThemInTheText) {
    const Model model = small_network();
    const auto whole = openvino::to_openvino(model);
    ASSERT_TRUE(whole) << whole.error().describe();
    const auto apart = openvino::to_openvino(model, {.most_serialized = 0, .least_taken = 1});
    ASSERT_TRUE(apart) << apart.error().describe();
    EXPECT_EQ((*apart)->inputs().size(), 1U) << "weights must not stay inputs";
    HostTensor input = small_input(2, 7);
    EXPECT_EQ(run(*whole, input), run(*apart, input));
    EXPECT_EQ(model.graph.inputs.size(), 1U) << "the caller's model must stay as it is";
}

TEST(LargeWeights, SmallOnesStayInTheText) {
    const Model model = small_network();
    const auto read = openvino::to_openvino(model, {.most_serialized = 0, .least_taken = 1U << 30});
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_EQ((*read)->inputs().size(), 1U);
}

} // namespace
} // namespace lathe::test
