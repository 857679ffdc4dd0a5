// What other tools quantised: uint8, zero points, integer biases and quantising as it comes, in the engine's int8.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"
#include "onnx/onnx.hpp"
#include "passes/symmetric_int8.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

struct Foreign {
    const char* name;
    const char* text;
    double limit;       ///< of the relative difference from what the CPU engine makes of the graph
    const char* notice; ///< part of it; "" for none
};

/// x quantised to uint8 with zero point 128, weights of int8.
constexpr const char* head = "opset 18\ninput %x: float32[2, 16, 6, 6]\nconst %s: float32[] = {0.0078125}\n"
                             "const %z: uint8[] = {128}\nconst %r: float32[] = {0.02}\nconst %zero: uint8[] = {0}\n"
                             "input %q_w: int8[16, 16, 3, 3]\ninput %s_w: float32[16]\ninput %z_w: int8[16]\n"
                             "%xq = QuantizeLinear(%x, %s, %z)\n%xd = DequantizeLinear(%xq, %s, %z)\n"
                             "%w = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 0}\n";

class ForeignInt8 : public testing::TestWithParam<Foreign> {};
INSTANTIATE_TEST_SUITE_P(
    Graphs, ForeignInt8,
    testing::Values(
        Foreign{"ShiftedExactly", "%y = Conv(%xd, %w) {pads = [1, 1, 1, 1]}\n", 1e-3, ""},
        // ONNX Runtime's quantizer leaves a Relu out: the saturation at zero is all that is left of it.
        Foreign{"ReluLeftToSaturation",
                "%c = Conv(%xd, %w) {pads = [1, 1, 1, 1]}\n%q = QuantizeLinear(%c, %r, %zero)\n"
                "%d = DequantizeLinear(%q, %r, %zero)\n%y = Conv(%d, %w) {pads = [1, 1, 1, 1]}\n",
                0.03, "activations in the symmetric scale of their range: 1"},
        Foreign{"IntegerBias",
                "const %bi: int32[16] = {0, 9, -9, 40, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, -90, 100}\n"
                "const %bs: float32[] = {0.01}\nconst %bz: int32[] = {0}\n%b = DequantizeLinear(%bi, %bs, %bz)\n"
                "%y = Conv(%xd, %w, %b)\n",
                1e-3, ""},
        Foreign{"MovedBetween",
                "%m = MaxPool(%xq) {kernel_shape = [3, 3]}\n%t = Transpose(%m) {perm = [0, 1, 3, 2]}\n"
                "%d = DequantizeLinear(%t, %s, %z)\n%y = Conv(%d, %w) {pads = [1, 1, 1, 1]}\n",
                1e-3, ""},
        Foreign{"ReadAsIntegers", "%c = Cast(%xq) {to = 1}\n%y = Sub(%c, %xd)\n", 1e-3, ""},
        Foreign{
            "AScaleForEachChannel",
            "const %cs: float32[16] = {0.01, 0.02, 0.01, 0.02, 0.01, 0.02, 0.01, 0.02, 0.01, 0.02, 0.01, 0.02, 0.01, "
            "0.02, 0.01, 0.02}\nconst %cz: uint8[16] = {128, 100, 128, 100, 128, 100, 128, 100, 128, 100, 128, 100, "
            "128, 100, 128, 100}\n%q = QuantizeLinear(%x, %cs, %cz) {axis = 1}\n"
            "%d = DequantizeLinear(%q, %cs, %cz) {axis = 1}\n%y = Conv(%d, %w)\n",
            1e-2, ""},
        Foreign{"UnsignedWeights",
                "const %u: uint8[4, 16, 1, 1] = {0, 255, 3, 100, 128, 200, 1, 17, 90, 40, 60, 70, 80, 250, 254, 130, "
                "0, 255, 3, 100, 128, 200, 1, 17, 90, 40, 60, 70, 80, 250, 254, 130, 100, 155, 103, 100, 128, 200, "
                "101, 117, 90, 140, 160, 170, 180, 150, 154, 130, 0, 255, 3, 100, 128, 200, 1, 17, 90, 40, 60, 70, 80, "
                "250, 254, 130}\nconst %us: float32[] = {0.01}\nconst %uz: uint8[] = {110}\n"
                "%f = DequantizeLinear(%u, %us, %uz)\n%y = Conv(%xd, %f)\n",
                5e-3, "their zero point: 1"},
        Foreign{"FactorsOfANorm",
                "const %g: uint8[6] = {10, 20, 30, 40, 50, 60}\nconst %gs: float32[] = {0.02}\n"
                "const %gz: uint8[] = {5}\n%f = DequantizeLinear(%g, %gs, %gz)\n%y = LayerNormalization(%xd, %f)\n",
                1e-3, ""},
        Foreign{
            "AsItComes",
            "const %u: uint8[6, 4] = {0, 255, 3, 100, 128, 200, 1, 17, 90, 40, 60, 70, 80, 250, 254, 130, 100, 155, "
            "103, 100, 128, 200, 101, 117}\nconst %us: float32[] = {0.01}\nconst %uz: uint8[] = {110}\n"
            "%q, %qs, %qz = DynamicQuantizeLinear(%x)\n%i = MatMulInteger(%q, %u, %qz, %uz)\n"
            "%c = Cast(%i) {to = 1}\n%f = Mul(%qs, %us)\n%y = Mul(%c, %f)\n",
            0.02, "as it comes: 1"},
        Foreign{
            "AsItComesConvolved",
            "const %u: int8[2, 16, 1, 1] = {0, 55, 3, 100, 12, 20, 1, 17, 90, 40, 60, 70, 80, 25, 4, 13, 0, -55, 3, "
            "-100, 12, 20, 1, 17, -90, 40, 60, 70, 80, 25, 4, 13}\nconst %us: float32[2, 1, 1] = {0.01, 0.02}\n"
            "const %uz: int8[2] = {0, 0}\n%q, %qs, %qz = DynamicQuantizeLinear(%x)\n"
            "%i = ConvInteger(%q, %u, %qz, %uz)\n%c = Cast(%i) {to = 1}\n%f = Mul(%qs, %us)\n%y = Mul(%c, %f)\n",
            0.02, "as it comes: 1"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(ForeignInt8, ComputesWhatTheGraphSays) {
    const Model model = network(std::string(head) + GetParam().text + "output %y: float32\n");
    const std::vector<Shape> shapes{{2, 16, 6, 6}};
    auto inputs = random_inputs(model, shapes);
    const auto expected = run_on_cpu(model, inputs);
    const auto actual = interpreted(plan_of(model, Precision::float32, shapes), inputs, true);
    ASSERT_EQ(actual.size(), 1U);
    EXPECT_LE(relative_difference(expected[0], actual[0]), GetParam().limit);

    Model rewritten = model;
    ASSERT_TRUE(infer_shapes(rewritten));
    const SymmetricInt8 done = write_symmetric_int8(rewritten.graph, 18, ZeroPoints::between_products);
    EXPECT_TRUE(done.changed());
    ASSERT_TRUE(verify(rewritten));
    if (*GetParam().notice == '\0') {
        EXPECT_EQ(done.notice(), "");
    } else {
        EXPECT_THAT(done.notice(), HasSubstr(GetParam().notice));
    }
}

TEST(ForeignInt8, OwnInt8StaysAsItIs) {
    Model model = network("opset 18\ninput %x: float32[2, 16, 6, 6]\nconst %s: float32[] = {0.0078125}\n"
                          "const %z: int8[] = {0}\ninput %q_w: int8[16, 16, 3, 3]\ninput %s_w: float32[16]\n"
                          "input %z_w: int8[16]\n%xq = QuantizeLinear(%x, %s, %z)\n"
                          "%xd = DequantizeLinear(%xq, %s, %z)\n%w = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 0}\n"
                          "%y = Conv(%xd, %w)\noutput %y: float32\n");
    ASSERT_TRUE(infer_shapes(model));
    EXPECT_FALSE(write_symmetric_int8(model.graph, 18, ZeroPoints::between_products).changed());
}

} // namespace
} // namespace lathe::test
