// What OpenVINO lacks or gets wrong and is written with other operators, beside sums worked out here.
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

HostTensor waves(Shape shape) {
    HostTensor x("x", DataType::float32, std::move(shape));
    for (std::size_t i = 0; i < x.as<float>().size(); ++i)
        x.as<float>()[i] = std::sin(0.9F * static_cast<float>(i)) + 0.3F;
    return x;
}

TEST(MissingOperators, PadsThatGoRoundAreJoinedFromPieces) {
    HostTensor x = waves({2, 4, 3});
    const auto got = first_output("opset 19\ninput %x: float32[2, 4, 3]\nconst %pads: int64[4] = {1, 3, 2, 0}\n"
                                  "const %axes: int64[2] = {1, -1}\n%y = Pad(%x, %pads, , %axes) {mode = \"wrap\"}\n"
                                  "output %y: float32[2, 7, 6]\n",
                                  {x});
    std::vector<float> expected;
    for (std::size_t n = 0; n < 2; ++n)
        for (std::size_t i = 0; i < 7; ++i)
            for (std::size_t j = 0; j < 6; ++j)
                expected.push_back(x.as<float>()[n * 12 + (i + 3) % 4 * 3 + j % 3]);
    EXPECT_THAT(got, Pointwise(FloatNear(0), expected));
}

TEST(MissingOperators, PadsThatGoRoundTwiceAreRefused) {
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    const auto compiled =
        (*backend)->compile(model_from_text("opset 19\ninput %x: float32[1, 2]\nconst %pads: int64[4] = {0, 3, 0, 0}\n"
                                            "%y = Pad(%x, %pads) {mode = \"wrap\"}\noutput %y: float32[1, 5]\n"),
                            {});
    ASSERT_FALSE(compiled);
    EXPECT_THAT(compiled.error().describe(), HasSubstr("wrap"));
}

// Half as large, antialiased: triangles twice as wide, at the ends of which the last number stands.
TEST(MissingOperators, ResizesWithAntialiasAreProducts) {
    const auto backend = backend_for_device("cpu");
    ASSERT_TRUE(backend);
    CompileOptions options;
    options.shapes["x"] = {{1, 1, 1, 4}, {2, 1, 1, 4}, {3, 1, 1, 4}};
    const auto compiled = (*backend)->compile(
        model_from_text("opset 18\ninput %x: float32[N, 1, 1, 4]\nconst %s: float32[4] = {1, 1, 1, 0.5}\n"
                        "%y = Resize(%x, , %s) {mode = \"linear\", antialias = 1}\noutput %y: float32[N, 1, 1, 2]\n"),
        options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    HostTensor x("x", DataType::float32, {2, 1, 1, 4});
    std::ranges::copy(std::vector<float>{8, 16, 32, 64, 0, 8, 0, 0}, x.as<float>().begin());
    const auto outputs = outputs_of(**compiled, {x});
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_THAT(outputs[0].as<float>(), testing::ElementsAre(14, 46, 3, 1));
}

/// Sums over axis 1 of [2, length, 3] for `count` frequencies, [2, count, 3, 2].
std::vector<float> transform(const HostTensor& x, std::size_t length, std::size_t count) {
    std::vector<float> sums;
    const auto values = x.as<float>();
    for (std::size_t n = 0; n < 2; ++n) {
        for (std::size_t k = 0; k < count; ++k) {
            for (std::size_t c = 0; c < 3; ++c) {
                std::complex<double> sum = 0;
                for (std::size_t t = 0; t < length; ++t) {
                    const double angle =
                        -2 * std::numbers::pi * static_cast<double>(k * t) / static_cast<double>(length);
                    sum += std::polar(static_cast<double>(values[(n * length + t) * 3 + c]), angle);
                }
                sums.push_back(static_cast<float>(sum.real()));
                sums.push_back(static_cast<float>(sum.imag()));
            }
        }
    }
    return sums;
}

// The axis was taken for 1 whatever the input said, from opset 20 on; here it is 1, and then 2 behind a Transpose.
TEST(MissingOperators, TransformsOfOneSideOrAlongAGivenAxis) {
    for (const std::size_t length : {7U, 8U}) {
        const std::string n = std::to_string(length), half = std::to_string(length / 2 + 1);
        const auto size = static_cast<std::int64_t>(length);
        HostTensor x = waves({2, size, 3, 1});
        const auto text = [&](const std::string& opset, const std::string& call, const std::string& sizes) {
            return "opset " + opset + "\ninput %x: float32[2, " + n + ", 3, 1]\nconst %one: int64[] = {1}\n" + call +
                   "output %y: float32[2, " + sizes + ", 2]\n";
        };
        const auto one_side = transform(x, length, length / 2 + 1), both = transform(x, length, length);
        EXPECT_THAT(first_output(text("17", "%y = DFT(%x) {axis = 1, onesided = 1}\n", half + ", 3"), {x}),
                    Pointwise(FloatNear(1e-4F), one_side));
        EXPECT_THAT(first_output(text("20", "%y = DFT(%x, , %one) {onesided = 1}\n", half + ", 3"), {x}),
                    Pointwise(FloatNear(1e-4F), one_side));
        EXPECT_THAT(first_output(text("20", "%y = DFT(%x, , %one)\n", n + ", 3"), {x}),
                    Pointwise(FloatNear(1e-4F), both));
        // By default along the last but one.
        const std::string turned = "%t = Transpose(%x) {perm = [0, 2, 1, 3]}\n%d = DFT(%t)\n"
                                   "%y = Transpose(%d) {perm = [0, 2, 1, 3]}\n";
        EXPECT_THAT(first_output(text("20", turned, n + ", 3"), {x}), Pointwise(FloatNear(1e-4F), both));
    }
}

TEST(MissingOperators, InverseTransformsOfOneSideGiveBackWhatWasTransformed) {
    for (const std::size_t length : {1U, 2U, 7U, 8U}) {
        const std::string n = std::to_string(length);
        HostTensor x = waves({2, static_cast<std::int64_t>(length), 3, 1});
        const auto got = first_output("opset 20\ninput %x: float32[2, " + n +
                                          ", 3, 1]\nconst %one: int64[] = {1}\nconst %n: int64[] = {" + n + "}" +
                                          "\n%d = DFT(%x, , %one) {onesided = 1}\n"
                                          "%y = DFT(%d, %n, %one) {onesided = 1, inverse = 1}\noutput %y: float32[2, " +
                                          n + ", 3, 1]\n",
                                      {x});
        const std::vector<float> expected(x.as<float>().begin(), x.as<float>().end());
        EXPECT_THAT(got, Pointwise(FloatNear(1e-5F), expected)) << length;
    }
}

} // namespace
} // namespace lathe::test
