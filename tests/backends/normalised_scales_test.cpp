// Factors, and scales of convolutions of bytes, before a normalisation in a network of bytes: OpenVINO moved them
// behind it, and the epsilon was another number beside the variance.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct Normalised {
    std::string name;
    std::string before; ///< makes %m of %x or its bytes %d
    std::string normalisation = "%y = LayerNormalization(%m, %g) {axis = -1, epsilon = 0.001}\n";
};
std::ostream& operator<<(std::ostream& stream, const Normalised& normalised) { return stream << normalised.name; }

std::vector<Normalised> normalised_cases() {
    const std::string instances = "%y = InstanceNormalization(%m, %c, %o) {epsilon = 0.001}\n",
                      half = "%m = Mul(%x, %h)\n",
                      convolution =
                          "const %k: int8[3, 3, 1] = {1, 50, -3, 4, 100, 6, 7, -80, 9}\n"
                          "const %ks: float32[3] = {0.01, 0.02, 0.005}\n%kd = DequantizeLinear(%k, %ks) {axis "
                          "= 0}\n%p = Conv(%d, %kd)\n";
    return {
        {"Factor", half},
        {"Divisor", "const %n: float32[] = {3}\n%m = Div(%x, %n)\n"},
        {"FactorAndRelu", "%a = Mul(%x, %h)\n%m = Relu(%a)\n"},
        {"FactorAndWindows", "%a = Mul(%x, %h)\n%m = MaxPool(%a) {kernel_shape = [1]}\n"},
        {"PartOfAFactor", "%a = Mul(%x, %h)\n%b, %m = Split(%a) {axis = 2, num_outputs = 2}\n",
         "const %w: float32[2] = {1, 2}\n%y = LayerNormalization(%m, %w) {axis = -1, epsilon = 0.001}\n"},
        {"BytesAndFloats", "%m = Add(%d, %x)\n"},
        {"WrittenOut", half,
         "const %e: float32[] = {0.001}\n%r = ReduceMean(%m, %last)\n%f = Sub(%m, %r)\n%j = Mul(%f, %f)\n"
         "%v = ReduceMean(%j, %last)\n%i = Add(%v, %e)\n%t = Sqrt(%i)\n%y = Div(%f, %t)\n"},
        {"FactorOfInstances", half, instances},
        {"FactorsByChannel", "%m = Mul(%x, %b)\n", instances},
        {"FactorOfGroups", half, "%y = GroupNormalization(%m, %c, %o) {epsilon = 0.001, num_groups = 3}\n"},
        {"Convolution", convolution + "%m = Identity(%p)\n", instances},
        {"ConvolutionAndRelu", convolution + "%m = Relu(%p)\n", instances},
        {"ConvolutionAndClip",
         "const %low: float32[] = {-0.02}\nconst %high: float32[] = {0.03}\n"
         "const %k: int8[3, 3, 1] = {1, 50, -3, 4, 100, 6, 7, -80, 9}\nconst %ks: float32[] = {0.01}\n"
         "%kd = DequantizeLinear(%k, %ks)\n%p = Conv(%d, %kd)\n%m = Clip(%p, %low, %high)\n",
         instances},
        {"ConvolutionOfRows", convolution + "%m = Identity(%p)\n"},
    };
}

class ScalesOfNormalised : public testing::TestWithParam<Normalised> {};

TEST_P(ScalesOfNormalised, CountBesideTheEpsilon) {
    const Normalised& normalised = GetParam();
    const bool part = normalised.name == "PartOfAFactor";
    HostTensor x("x", DataType::float32, {2, 3, 4});
    std::ranges::transform(noise(x.as<float>().size(), 5), x.as<float>().begin(), [](float n) { return n * 0.05F; });
    const std::string constants = "const %g: float32[4] = {1, 2, 0.5, 1}\nconst %c: float32[3] = {1, 2, 3}\n"
                                  "const %o: float32[3] = {0, 0.1, 0}\nconst %last: int64[1] = {-1}\n";
    const std::string before =
        "opset 21\ninput %x: float32[2, 3, 4]\n" + constants +
        "const %h: float32[] = {0.5}\nconst %b: float32[3, 1] = {1, 0.5, 2}\nconst %s: float32[] = {0.002}\n"
        "const %z: uint8[] = {121}\nconst %q: int8[4, 2] = {1, 20, 30, -40, 5, 6, -70, 8}\n"
        "const %qs: float32[] = {0.01}\n%xq = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%xq, %s, %z)\n"
        "%qd = DequantizeLinear(%q, %qs)\n%u = MatMul(%d, %qd)\n" +
        normalised.before;
    const std::string size = part ? ": float32[2, 3, 2]\n" : ": float32[2, 3, 4]\n";
    const std::string rows = "output %u: float32[2, 3, 2]\n";
    auto between = outputs_of(before + "output %m" + size + rows, {x});
    ASSERT_EQ(between.size(), 2U);
    between[0].name = "m";
    const auto wanted = first_output(
        "opset 21\ninput %m" + size + constants + normalised.normalisation + "output %y" + size, {between[0]});
    const auto found = first_output(before + normalised.normalisation + "output %y" + size + rows, {x});
    ASSERT_FALSE(wanted.empty());
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], 1e-3) << i;
}

INSTANTIATE_TEST_SUITE_P(Table, ScalesOfNormalised, testing::ValuesIn(normalised_cases()),
                         [](const auto& info) { return info.param.name; });

// Steps of a sequence that a mask was put over, of which the first is nothing.
TEST(MasksOfSteps, AreNoScales) {
    const std::string given = "const %mask: float32[1, 3, 1] = {0, 1, 1}\n",
                      computed = "%sizes = Shape(%x)\n%n = Gather(%sizes, %one)\n%steps = Range(%zero, %n, %one)\n"
                                 "%late = Greater(%steps, %zero)\n%f = Cast(%late) {to = 1}\n"
                                 "const %axes: int64[2] = {0, 2}\n%mask = Unsqueeze(%f, %axes)\n";
    HostTensor x("x", DataType::float32, {2, 3, 4});
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    for (const std::string& mask : {given, computed}) {
        const auto outputs = outputs_of(
            "opset 21\ninput %x: float32[2, 3, 4]\nconst %zero: int64[] = {0}\nconst %one: int64[] = {1}\n" + mask +
                "const %s: float32[] = {0.02}\nconst %z: uint8[] = {121}\n"
                "const %q: int8[4, 2] = {1, 20, 30, -40, 5, 6, -70, 8}\nconst %qs: float32[] = {0.01}\n"
                "%xq = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%xq, %s, %z)\n"
                "%qd = DequantizeLinear(%q, %qs)\n%u = MatMul(%d, %qd)\n%t = Tanh(%x)\n%a = Mul(%t, %mask)\n"
                "%g = Gather(%a, %zero) {axis = 1}\n%e = Mul(%x, %mask)\n%h = Gather(%e, %one) {axis = 1}\n"
                "%y = Add(%g, %h)\noutput %y: float32[2, 4]\noutput %u: float32[2, 3, 2]\n",
            {x});
        ASSERT_EQ(outputs.size(), 2U);
        for (std::size_t i = 0; i < outputs[0].as<float>().size(); ++i)
            EXPECT_NEAR(outputs[0].as<float>()[i], x.as<float>()[i / 4 * 12 + 4 + i % 4], 1e-6) << i;
    }
}

} // namespace
} // namespace lathe::test
