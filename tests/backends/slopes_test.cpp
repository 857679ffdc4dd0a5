// PRelu with a slope a channel behind convolutions of bytes that make several channels of each, on one thread: OpenVINO
// failed while it made the kernel of both, or wrote over other memory.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct Slopes {
    std::string name;
    std::string between = "%m = Identity(%p)\n"; ///< makes %m of %p
    std::string window = "pads = [1, 0], strides = [2]";
    std::string size = "2"; ///< of %y's lines
    std::string axis = "";  ///< of images
};
std::ostream& operator<<(std::ostream& stream, const Slopes& slopes) { return stream << slopes.name; }

const Slopes slopes_cases[] = {
    {"Convolution"},
    {"PaddingBehind", "%m = Identity(%p)\n", "pads = [0, 1], strides = [2]"},
    {"NoStride", "%m = Identity(%p)\n", "pads = [1, 0]", "3"},
    {"Images", "%m = Identity(%p)\n", "pads = [0, 1, 0, 0], strides = [1, 2]", "2", "1, "},
    {"Normalisation",
     "const %v: float32[8] = {1, 1.2, 0.9, 0.8, 1.1, 1, 0.7, 1.3}\n%m = BatchNormalization(%p, %b, %b, %b, %v)\n"},
    {"Factors", "%m = Mul(%p, %f)\n"},
    {"Relu", "%n = Relu(%p)\nconst %one: float32[] = {0.1}\n%m = Sub(%n, %one)\n"},
};

class SlopesBehindGroups : public testing::TestWithParam<Slopes> {};

TEST_P(SlopesBehindGroups, AreComputedOnOneThread) {
    const std::string axis = GetParam().axis;
    HostTensor x("x", DataType::float32, axis.empty() ? Shape{1, 4, 3} : Shape{1, 4, 1, 3});
    std::ranges::copy(noise(12, 3), x.as<float>().begin());
    const std::vector<float> slopes{0.1F, 0.9F, 0.5F, 0.3F, 0.2F, 0.7F, 0.4F, 0.6F};
    const std::string start = "opset 18\ninput %x: float32[1, 4, " + axis +
                              "3]\nconst %s: float32[] = {0.02}\nconst %z: uint8[] = {121}\n"
                              "const %w: int8[8, 1, " +
                              axis +
                              "2] = {127, -90, 90, 127, 100, 102, -36, 127, -127, -56, -71, 127, -127, -39, 120, -75}\n"
                              "const %ws: float32[8] = {0.005, 0.004, 0.008, 0.002, 0.009, 0.006, 0.007, 0.01}\n"
                              "const %f: float32[8, " +
                              axis +
                              "1] = {0.5, 1, 2, 1.5, 0.25, 3, 1, 0.75}\n"
                              "const %b: float32[8] = {0.2, -0.25, -0.1, 0.3, -0.2, -0.18, -0.16, -0.02}\n"
                              "%xq = QuantizeLinear(%x, %s, %z)\n%xd = DequantizeLinear(%xq, %s, %z)\n"
                              "%wd = DequantizeLinear(%w, %ws) {axis = 0}\n%p = Conv(%xd, %wd, %b) {group = 4, " +
                              GetParam().window + "}\n" + GetParam().between;
    const auto ending = [&](const std::string& output) {
        return "output " + output + ": float32[1, 8, " + axis + GetParam().size + "]\n";
    };
    const auto before = first_output(start + ending("%m"), {x});
    CompileOptions one_thread;
    one_thread.threads = 1;
    const auto compiled = cpu().compile(
        model_from_text(start + "const %a: float32[8, " + axis +
                        "1] = {0.1, 0.9, 0.5, 0.3, 0.2, 0.7, 0.4, 0.6}\n%y = PRelu(%m, %a)\n" + ending("%y")),
        one_thread);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    auto outputs = outputs_of(**compiled, {x});
    ASSERT_EQ(outputs.size(), 1U);
    const auto found = outputs[0].as<float>();
    ASSERT_EQ(found.size(), before.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        const float slope = slopes[i * slopes.size() / found.size()];
        EXPECT_NEAR(found[i], before[i] < 0 ? slope * before[i] : before[i], 1e-5) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Table, SlopesBehindGroups, testing::ValuesIn(slopes_cases),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
