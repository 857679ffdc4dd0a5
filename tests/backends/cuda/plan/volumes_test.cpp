// Volumes (videos, scans): plans against the CPU engine, and what they are made of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

struct VolumeCase {
    const char* name;
    const char* text;
    std::vector<Shape> shapes;
    const char* holds; ///< what the plan holds
};
void PrintTo(const VolumeCase& value, std::ostream* out) { *out << value.name; }

const std::vector<VolumeCase>& volume_cases() {
    static const std::vector<VolumeCase> all{
        {"Convolution",
         "opset 18\ninput %x: float32[2, 5, 6, 7, 8]\ninput %w_f: float32[9, 5, 3, 3, 3]\ninput %b_b: float32[9]\n"
         "%c = Conv(%x, %w_f, %b_b) {pads = [1, 1, 1, 1, 1, 1]}\n%y = Relu(%c)\noutput %y: float32[2, 9, 6, 7, 8]\n",
         {{2, 5, 6, 7, 8}},
         "depth_taps"},
        {"StridedDilated",
         "opset 18\ninput %x: float32[1, 4, 9, 9, 11]\ninput %w_f: float32[8, 4, 3, 2, 3]\n"
         "%y = Conv(%x, %w_f) {strides = [2, 2, 1], dilations = [2, 1, 2], pads = [2, 1, 0, 1, 0, 2]}\n"
         "output %y: float32[1, 8, 4, 5, 9]\n",
         {{1, 4, 9, 9, 11}},
         "depth_taps"},
        {"OfOneDepth",
         "opset 18\ninput %x: float32[2, 5, 4, 7, 8]\ninput %w_f: float32[6, 5, 1, 3, 3]\n"
         "%y = Conv(%x, %w_f) {pads = [0, 1, 1, 0, 1, 1]}\noutput %y: float32[2, 6, 4, 7, 8]\n",
         {{2, 5, 4, 7, 8}},
         "conv"},
        {"OfOnePixel",
         "opset 18\ninput %x: float32[2, 5, 6, 7, 8]\ninput %w_f: float32[6, 5, 3, 1, 1]\n"
         "%y = Conv(%x, %w_f) {pads = [1, 0, 0, 1, 0, 0], strides = [2, 1, 1]}\noutput %y: float32[2, 6, 3, 7, 8]\n",
         {{2, 5, 6, 7, 8}},
         "conv"},
        {"Depthwise",
         "opset 18\ninput %x: float32[2, 6, 5, 7, 8]\ninput %w_f: float32[6, 1, 3, 3, 3]\ninput %b_b: float32[6]\n"
         "%c = Conv(%x, %w_f, %b_b) {pads = [1, 1, 1, 1, 1, 1], group = 6}\n%y = Relu(%c)\n"
         "output %y: float32[2, 6, 5, 7, 8]\n",
         {{2, 6, 5, 7, 8}},
         "depthwise"},
        {"Groups",
         "opset 18\ninput %x: float32[2, 8, 5, 7, 8]\ninput %w_f: float32[12, 2, 3, 3, 3]\ninput %b_b: float32[12]\n"
         "%y = Conv(%x, %w_f, %b_b) {pads = [1, 1, 1, 1, 1, 1], group = 4, strides = [2, 1, 1]}\n"
         "output %y: float32[2, 12, 3, 7, 8]\n",
         {{2, 8, 5, 7, 8}},
         "depth_taps"},
        {"Residual",
         "opset 18\ninput %x: float32[1, 8, 4, 6, 6]\ninput %w_f: float32[8, 8, 3, 3, 3]\ninput %w_g: float32[8, 8, 3, "
         "3, "
         "3]\n%a = Conv(%x, %w_f) {pads = [1, 1, 1, 1, 1, 1]}\n%b = Relu(%a)\n"
         "%c = Conv(%b, %w_g) {pads = [1, 1, 1, 1, 1, 1]}\n%d = Add(%c, %x)\n%y = Relu(%d)\n"
         "output %y: float32[1, 8, 4, 6, 6]\n",
         {{1, 8, 4, 6, 6}},
         "residual=%"},
        {"Transposed",
         "opset 18\ninput %x: float32[2, 8, 3, 4, 5]\ninput %w_f: float32[8, 8, 2, 2, 2]\ninput %b_b: float32[8]\n"
         "%y = ConvTranspose(%x, %w_f, %b_b) {strides = [2, 2, 2]}\noutput %y: float32[2, 8, 6, 8, 10]\n",
         {{2, 8, 3, 4, 5}},
         "transpose"},
        {"TransposedOverlapping",
         "opset 18\ninput %x: float32[1, 3, 4, 5, 4]\ninput %w_f: float32[3, 5, 4, 3, 3]\n"
         "%y = ConvTranspose(%x, %w_f) {strides = [2, 2, 1], pads = [1, 1, 1, 1, 0, 1], output_padding = [0, 1, 0]}\n"
         "output %y: float32[1, 5, 8, 11, 4]\n",
         {{1, 3, 4, 5, 4}},
         "depth_taps"},
        {"MaxPool",
         "opset 18\ninput %x: float32[2, 5, 7, 8, 9]\n"
         "%y = MaxPool(%x) {kernel_shape = [3, 2, 3], strides = [2, 2, 1], pads = [1, 0, 1, 1, 0, 1]}\n"
         "output %y: float32[2, 5, 4, 4, 9]\n",
         {{2, 5, 7, 8, 9}},
         "pool"},
        {"AveragePool",
         "opset 18\ninput %x: float32[2, 5, 7, 8, 9]\n"
         "%y = AveragePool(%x) {kernel_shape = [3, 2, 3], strides = [2, 2, 1], pads = [1, 0, 1, 1, 0, 1]}\n"
         "output %y: float32[2, 5, 4, 4, 9]\n",
         {{2, 5, 7, 8, 9}},
         "pool"},
        {"AverageOfPadding",
         "opset 18\ninput %x: float32[2, 5, 7, 8, 9]\n%y = AveragePool(%x) {kernel_shape = [3, 2, 3], "
         "count_include_pad = 1, pads = [1, 0, 1, 1, 1, 1]}\noutput %y: float32[2, 5, 7, 8, 9]\n",
         {{2, 5, 7, 8, 9}},
         "pool"},
        {"GlobalPool",
         "opset 18\ninput %x: float32[2, 5, 3, 4, 5]\ninput %w_f: float32[4, 5, 3, 3, 3]\n%c = Conv(%x, %w_f)\n"
         "%y = GlobalAveragePool(%c)\noutput %y: float32[2, 4, 1, 1, 1]\n",
         {{2, 5, 3, 4, 5}},
         "global"},
        {"ResizeLinear",
         "opset 18\ninput %x: float32[1, 3, 4, 5, 6]\ninput %w_f: float32[4, 3, 1, 1, 1]\ninput %sizes: int64[5]\n"
         "%c = Conv(%x, %w_f)\n%y = Resize(%c, , , %sizes) {mode = \"linear\", coordinate_transformation_mode = "
         "\"half_pixel\"}\noutput %y: float32[1, 4, 8, 10, 9]\n",
         {{1, 3, 4, 5, 6}},
         "resize"},
        {"ResizeNearest",
         "opset 18\ninput %x: float32[2, 3, 4, 5, 6]\ninput %sizes: int64[5]\n"
         "%y = Resize(%x, , , %sizes) {mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", "
         "nearest_mode = \"floor\"}\noutput %y: float32[2, 3, 8, 10, 9]\n",
         {{2, 3, 4, 5, 6}},
         "resize"},
        {"Joined",
         "opset 18\ninput %x: float32[1, 4, 4, 5, 6]\ninput %w_f: float32[8, 4, 3, 3, 3]\ninput %w_g: float32[8, 12, "
         "1, "
         "1, 1]\n%a = Conv(%x, %w_f) {pads = [1, 1, 1, 1, 1, 1]}\n%s = Sigmoid(%a)\n%m = Mul(%a, %s)\n"
         "%j = Concat(%m, %x) {axis = 1}\n%y = Conv(%j, %w_g)\noutput %y: float32[1, 8, 4, 5, 6]\n",
         {{1, 4, 4, 5, 6}},
         "concat"},
        {"InstanceNorm",
         "opset 18\ninput %x: float32[2, 5, 4, 5, 6]\ninput %w_f: float32[8, 5, 3, 3, 3]\ninput %b_s: float32[8]\n"
         "input %b_t: float32[8]\n%c = Conv(%x, %w_f)\n%n = InstanceNormalization(%c, %b_s, %b_t)\n"
         "%y = LeakyRelu(%n)\noutput %y: float32[2, 8, 2, 3, 4]\n",
         {{2, 5, 4, 5, 6}},
         "group_factors"},
        {"Padded",
         "opset 18\ninput %x: float32[1, 8, 4, 5, 6]\ninput %w_f: float32[8, 8, 1, 1, 1]\ninput %pads: int64[10]\n"
         "%c = Conv(%x, %w_f)\n%p = Pad(%c, %pads) {mode = \"reflect\"}\n%y = Relu(%p)\n"
         "output %y: float32[1, 8, 6, 6, 6]\n",
         {{1, 8, 4, 5, 6}},
         "pad"},
    };
    return all;
}

Model model_of(const VolumeCase& test) {
    Model model = network(test.text);
    const auto fix = [&](const char* name, const std::vector<std::int64_t>& numbers) {
        if (model.graph.find_input(name) == nullptr) return;
        const Shape shape{static_cast<std::int64_t>(numbers.size())};
        model.graph.initializers.insert_or_assign(name, Tensor::of_int64s(name, shape, numbers));
        std::erase_if(model.graph.inputs, [&](const ValueInfo& input) { return input.name == name; });
    };
    const ValueInfo& output = model.graph.outputs[0];
    fix("sizes", output.shape().value_or(Shape{}));
    fix("pads", {0, 0, 1, 0, 0, 0, 0, 1, 1, 0});
    return model;
}

class Volumes : public testing::TestWithParam<VolumeCase> {};

TEST_P(Volumes, GiveWhatTheCpuGives) {
    const VolumeCase& test = GetParam();
    const Model model = model_of(test);
    auto inputs = random_inputs(model, test.shapes);
    const auto expected = run_on_cpu(model, inputs);
    for (const Precision precision : {Precision::float32, Precision::float16}) {
        const cuda::Plan plan = plan_of(model, precision, test.shapes);
        EXPECT_THAT(cuda::print(plan), HasSubstr(test.holds));
        const auto found = interpreted(plan, inputs, true);
        EXPECT_LT(relative_difference(expected[0], found[0]), precision == Precision::float32 ? 1e-5 : 6e-3)
            << cuda::print(plan);
    }
}
INSTANTIATE_TEST_SUITE_P(All, Volumes, testing::ValuesIn(volume_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

/// From convolution to convolution a volume stays as it lies: one change of layout in, one out.
TEST(CudaVolumes, StayInOneLayoutFromEndToEnd) {
    const Model model =
        network("opset 18\ninput %x: float32[1, 8, 4, 6, 6]\ninput %w_f: float32[16, 8, 3, 3, 3]\ninput %w_g: "
                "float32[8, 16, 3, "
                "3, 3]\n%a = Conv(%x, %w_f) {pads = [1, 1, 1, 1, 1, 1]}\n%b = Relu(%a)\n"
                "%p = MaxPool(%b) {kernel_shape = [2, 2, 2], strides = [2, 2, 2]}\n"
                "%c = Conv(%p, %w_g) {pads = [1, 1, 1, 1, 1, 1]}\n%y = Relu(%c)\noutput %y: float32[1, 8, 2, 3, 3]\n");
    const cuda::Plan plan = plan_of(model, Precision::float16, {{1, 8, 4, 6, 6}});
    const auto moves = std::count_if(plan.ops.begin(), plan.ops.end(), [](const cuda::FusedOp& op) {
        return std::holds_alternative<cuda::Reformat>(op.detail) || std::holds_alternative<cuda::Transpose>(op.detail);
    });
    EXPECT_EQ(moves, 2) << cuda::print(plan);
    const auto products = std::count_if(plan.ops.begin(), plan.ops.end(), [](const cuda::FusedOp& op) {
        return std::holds_alternative<cuda::Conv>(op.detail);
    });
    EXPECT_EQ(products, 2) << cuda::print(plan);
}

} // namespace
} // namespace lathe::test
