// Results of convolutions of bytes that several read, where sizes are open (OpenVINO scaled some of them twice): what
// is computed of them is what it is of the same numbers as an input.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct SharedScales {
    std::string name;
    std::string after; ///< makes the outputs of %p; C are its channels
    Shape weights{5, 3, 1, 1};
    std::string scales = "float32[5] = {0.01, 0.005, 0.002, 0.008, 0.004}";
    std::string attributes = "";
    double most = 1e-5;
    std::string height = "4";
};
std::ostream& operator<<(std::ostream& stream, const SharedScales& shared) { return stream << shared.name; }

std::vector<SharedScales> shared_cases() {
    const std::string image = ": float32[N, C, h, 6]\n", y = "output %y" + image, z = "output %z" + image,
                      relu = "%y = Relu(%p)\n", tanh = "%z = Tanh(%p)\n";
    const auto behind = [&](const std::string& made) { return made + "%y = Relu(%m)\n%z = Tanh(%m)\n" + y + z; };
    return {
        {"Relu", relu + tanh + y + z},
        {"ReluAndAnOutput", relu + "%z = Identity(%p)\n" + y + z},
        {"ReluThatIsAdded", "%r = Relu(%p)\n%y = Add(%p, %r)\n" + y},
        {"ExcitedChannels", "%g = GlobalAveragePool(%p)\n%e = Sigmoid(%g)\n%y = Mul(%p, %e)\n" + y},
        {"LargestOfWindows", tanh + z + "%y = MaxPool(%p) {kernel_shape = [2, 2]}\noutput %y: float32[N, C, j, 5]\n"},
        {"Rows", tanh + z + "%y = Flatten(%p)\noutput %y: float32[N, R]\n"},
        {"OtherScales",
         "const %c: float32[] = {2}\nconst %e: float32[] = {0.5}\n%y = Mul(%p, %c)\n%z = Mul(%p, %e)\n" + y + z},
        {.name = "Bytes",
         .after = "const %ps: float32[] = {0.03}\nconst %pz: uint8[] = {121}\n%b = QuantizeLinear(%p, %ps, %pz)\n"
                  "%y = DequantizeLinear(%b, %ps, %pz)\n" +
                  tanh + y + z,
         .most = 0.0301}, // one step
        {"TimesItself", "%m = Mul(%p, %p)\n%y = Relu(%m)\n" + y},
        // What OpenVINO leaves out, or has in the scales, before it looks who reads them.
        {"BehindAFactor", behind("const %c: float32[5, 1, 1] = {2, 1, 0.5, 1.5, 3}\n%m = Mul(%p, %c)\n")},
        {"BehindABiasOfZeros", behind("const %c: float32[5, 1, 1] = {0, 0, 0, 0, 0}\n%m = Add(%p, %c)\n")},
        {"BehindTheSameSizes", behind("const %c: int64[4] = {0, 5, 4, 6}\n%m = Reshape(%p, %c)\n")},
        {"OneChannel", relu + tanh + y + z, {1, 3, 1, 1}, "float32[1] = {0.01}"},
        {"OneScale", relu + tanh + y + z, {5, 3, 1, 1}, "float32[] = {0.006}"},
        {"ChannelsOfTheirOwn", relu + tanh + y + z, {3, 1, 1, 1}, "float32[3] = {0.01, 0.005, 0.002}", " {group = 3}"},
        {.name = "ImagesOfOpenSizes", .after = relu + tanh + y + z, .height = "H"},
    };
}

/// Up to the convolution's result.
std::string convolution_text(const SharedScales& shared) {
    static const std::vector<int> numbers{100, -50, 25, 80, -120, 60, 90, -70, 30, 20, -10, 110, 55, -95, 75};
    std::string sizes, weights;
    for (const std::int64_t size : shared.weights)
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    for (std::int64_t i = 0; i < element_count(shared.weights); ++i)
        weights += (i == 0 ? "" : ", ") + std::to_string(numbers[static_cast<std::size_t>(i)]);
    return "opset 13\ninput %x: float32[N, 3, " + shared.height +
           ", 6]\nconst %s: float32[] = {0.03}\nconst %n: uint8[] = {121}\n"
           "%q = QuantizeLinear(%x, %s, %n)\n%d = DequantizeLinear(%q, %s, %n)\nconst %w: int8[" +
           sizes + "] = {" + weights + "}\nconst %ws: " + shared.scales +
           "\n%f = DequantizeLinear(%w, %ws) {axis = 0}\n%p = Conv(%d, %f)" + shared.attributes + "\n";
}

std::vector<HostTensor> open_outputs_of(const std::string& text, const HostTensor& input, const std::string& height) {
    CompileOptions options;
    options.batch_plan = BatchPlan::whole;
    const std::int64_t channels = input.shape[1], least = height == "4" ? 4 : 3, most = height == "4" ? 4 : 5;
    options.shapes = {{input.name, {{1, channels, least, 6}, {2, channels, least, 6}, {4, channels, most, 6}}}};
    const auto compiled = cpu().compile(model_from_text(text), options);
    EXPECT_TRUE(compiled) << compiled.error().describe();
    return compiled ? outputs_of(**compiled, {input}) : std::vector<HostTensor>{};
}

class SharedScalesOfBytes : public testing::TestWithParam<SharedScales> {};

TEST_P(SharedScalesOfBytes, AreUsedOnce) {
    HostTensor x("x", DataType::float32, {3, 3, 4, 6}); // sizes that have no form of their own
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    const std::string convolution = convolution_text(GetParam());
    auto alone = open_outputs_of(convolution + "output %p: float32[N, C, h, 6]\n", x, GetParam().height);
    ASSERT_EQ(alone.size(), 1U);
    alone[0].name = "p";
    const auto wanted = open_outputs_of("opset 13\ninput %p: float32[N, " + std::to_string(GetParam().weights[0]) +
                                            ", " + GetParam().height + ", 6]\n" + GetParam().after,
                                        alone[0], GetParam().height);
    const auto found = open_outputs_of(convolution + GetParam().after, x, GetParam().height);
    ASSERT_FALSE(wanted.empty());
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t output = 0; output < wanted.size(); ++output) {
        ASSERT_EQ(found[output].shape, wanted[output].shape);
        for (std::size_t i = 0; i < wanted[output].as<float>().size(); ++i)
            ASSERT_NEAR(found[output].as<float>()[i], wanted[output].as<float>()[i], GetParam().most) << output << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Table, SharedScalesOfBytes, testing::ValuesIn(shared_cases()),
                         [](const auto& info) { return info.param.name; });

// A chain so long that OpenVINO is not to gather it in a kernel; neither are the scales then.
TEST(SharedScalesOfALongChain, AreUsedOnce) {
    std::string chain = "const %c: float32[] = {0.01}\n%v0 = Relu(%p)\n";
    constexpr int steps = 420;
    for (int i = 0; i < steps; ++i) {
        const std::string from = "%v" + std::to_string(i), to = "%v" + std::to_string(i + 1);
        chain += to + (i % 2 == 0 ? " = Sin(" + from + ")\n" : " = Max(" + from + ", %c)\n");
    }
    const std::string last = "%v" + std::to_string(steps);
    const SharedScales shared{"", ""};
    const std::string fixed = [&] {
        std::string text = convolution_text(shared);
        text.replace(text.find("[N"), 2, "[2");
        return text;
    }();
    HostTensor x("x", DataType::float32, {2, 3, 4, 6});
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    auto alone = outputs_of(fixed + "output %p: float32[2, 5, 4, 6]\n", {x});
    ASSERT_EQ(alone.size(), 1U);
    const auto found = outputs_of(fixed + chain +
                                      "%z = Tanh(%p)\n%r = Relu(%p)\noutput %r: float32[2, 5, 4, 6]\n"
                                      "output %z: float32[2, 5, 4, 6]\noutput " +
                                      last + ": float32[2, 5, 4, 6]\n",
                                  {x});
    ASSERT_EQ(found.size(), 3U);
    for (std::size_t i = 0; i < alone[0].as<float>().size(); ++i)
        ASSERT_NEAR(found[0].as<float>()[i], std::max(0.0F, alone[0].as<float>()[i]), 1e-5) << i;
}

} // namespace
} // namespace lathe::test
