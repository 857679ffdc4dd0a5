// DFT and STFT as products, against the CPU engine and against each other.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lathe::cuda {
namespace {

/// What ONNX says: sums over the axis in double. x [before, n, behind, parts] to [before, results, behind, 2].
struct Spectrum {
    std::int64_t before = 1, n = 1, behind = 1, parts = 1, length = 1, results = 1;
    bool inverse = false;

    std::vector<float> of(std::span<const float> x) const {
        std::vector<float> y(static_cast<std::size_t>(before * results * behind * 2));
        for (std::int64_t b = 0; b < before; ++b)
            for (std::int64_t k = 0; k < results; ++k)
                for (std::int64_t i = 0; i < behind; ++i) {
                    double re = 0, im = 0;
                    for (std::int64_t t = 0; t < std::min(n, length); ++t) {
                        const auto at = static_cast<std::size_t>(((b * n + t) * behind + i) * parts);
                        const double a = static_cast<double>(x[at]);
                        const double c = parts == 2 ? static_cast<double>(x[at + 1]) : 0;
                        const double angle = (inverse ? 2 : -2) * std::numbers::pi *
                                             static_cast<double>(k * t % length) / static_cast<double>(length);
                        re += a * std::cos(angle) - c * std::sin(angle);
                        im += a * std::sin(angle) + c * std::cos(angle);
                    }
                    const double factor = inverse ? 1 / static_cast<double>(length) : 1;
                    const auto to = static_cast<std::size_t>(((b * results + k) * behind + i) * 2);
                    y[to] = static_cast<float>(factor * re);
                    y[to + 1] = static_cast<float>(factor * im);
                }
        return y;
    }
};

std::vector<HostTensor> found_of(const Model& model, const std::vector<Shape>& shapes,
                                 std::vector<HostTensor>& inputs) {
    const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
    const auto valid = verify(plan);
    EXPECT_TRUE(valid);
    const auto products =
        std::ranges::count_if(plan.ops, [](const FusedOp& op) { return std::holds_alternative<Gemm>(op.detail); });
    EXPECT_GE(products, 1) << print(plan);
    return lathe::test::interpreted(plan, inputs, false);
}

void expect_near(std::span<const float> found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
}

TEST(Fourier, TransformsAlongAnyAxis) {
    struct Case {
        std::string text;
        Shape x;
        Spectrum spectrum;
    };
    const std::vector<Case> cases{
        {"opset 17\ninput %x: float32[2, 6, 3, 1]\n%y = DFT(%x)", {2, 6, 3, 1}, {2, 6, 3, 1, 6, 6}},
        {"opset 17\ninput %x: float32[2, 3, 8, 1]\n%y = DFT(%x) {axis = 2, onesided = 1}",
         {2, 3, 8, 1},
         {6, 8, 1, 1, 8, 5}},
        {"opset 17\ninput %x: float32[2, 7, 2]\nconst %n: int64[] = {5}\n%y = DFT(%x, %n) {axis = 1}",
         {2, 7, 2},
         {2, 7, 1, 2, 5, 5}},
        {"opset 17\ninput %x: float32[2, 4, 3, 2]\nconst %n: int64[] = {7}\n%y = DFT(%x, %n) {inverse = 1}",
         {2, 4, 3, 2},
         {2, 4, 3, 2, 7, 7, true}},
        {"opset 20\ninput %x: float32[2, 3, 5, 1]\n%y = DFT(%x)", {2, 3, 5, 1}, {6, 5, 1, 1, 5, 5}},
        {"opset 20\ninput %x: float32[2, 3, 5, 2]\nconst %a: int64[] = {-3}\n%y = DFT(%x, , %a)",
         {2, 3, 5, 2},
         {2, 3, 5, 2, 3, 3}},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.text);
        const Model model = lathe::test::network(c.text + "\noutput %y: undefined\n");
        auto inputs = lathe::test::random_inputs(model, {c.x});
        const auto found = found_of(model, {c.x}, inputs);
        expect_near(found[0].as<float>(), c.spectrum.of(inputs[0].as<float>()));
    }
}

// Half of a spectrum and back.
TEST(Fourier, OfRealNumbersIsUndone) {
    for (const std::int64_t n : {8, 9}) {
        const std::string size = std::to_string(n);
        const Model model =
            lathe::test::network("opset 17\ninput %x: float32[3, " + size + ", 1]\nconst %n: int64[] = {" + size +
                                 "}\n%s = DFT(%x) {axis = 1, onesided = 1}\n" +
                                 "%t = Mul(%s, %s)\n%u = DFT(%s, %n) {axis = 1, onesided = 1, inverse = 1}\n"
                                 "output %u: undefined\noutput %t: undefined\n");
        auto inputs = lathe::test::random_inputs(model, {{3, n, 1}});
        const auto found = found_of(model, {{3, n, 1}}, inputs);
        const auto x = inputs[0].as<float>();
        EXPECT_EQ(found[0].shape, (Shape{3, n, 1}));
        expect_near(found[0].as<float>(), {x.begin(), x.end()});
    }
}

TEST(Fourier, OfFramesIsASpectrogram) {
    const std::string window = "const %n: int64[] = {8}\nconst %step: int64[] = {3}\n";
    const std::vector<std::pair<std::string, Shape>> cases{
        {"input %x: float32[2, 29, 1]\n%w = HannWindow(%n)\n%y = STFT(%x, %step, %w)", {2, 29, 1}},
        {"input %x: float32[2, 29]\n%w = HammingWindow(%n) {periodic = 0}\n%y = STFT(%x, %step, %w) {onesided = 0}",
         {2, 29}},
        {"input %x: float32[1, 29, 1]\n%y = STFT(%x, %step, , %n)", {1, 29, 1}},
    };
    for (const auto& [text, shape] : cases) {
        SCOPED_TRACE(text);
        const Model model = lathe::test::network("opset 17\n" + window + text + "\noutput %y: undefined\n");
        auto inputs = lathe::test::random_inputs(model, {shape});
        const auto found = found_of(model, {shape}, inputs);
        const bool half = text.find("onesided") == std::string::npos;
        const std::int64_t bins = half ? 5 : 8, frames = (29 - 8) / 3 + 1;
        ASSERT_EQ(found[0].shape, (Shape{shape[0], frames, bins, 2}));
        std::vector<float> framed;
        const auto x = inputs[0].as<float>();
        for (std::int64_t b = 0; b < shape[0]; ++b)
            for (std::int64_t f = 0; f < frames; ++f)
                for (std::int64_t t = 0; t < 8; ++t) {
                    const double at = 2 * std::numbers::pi * static_cast<double>(t);
                    const double factor = text.find("Hann") != std::string::npos ? 0.5 - 0.5 * std::cos(at / 8)
                                          : text.find("Hamm") != std::string::npos
                                              ? 25.0 / 46 - 21.0 / 46 * std::cos(at / 7)
                                              : 1;
                    framed.push_back(static_cast<float>(factor) * x[static_cast<std::size_t>(b * 29 + f * 3 + t)]);
                }
        expect_near(found[0].as<float>(), Spectrum{shape[0] * frames, 8, 1, 1, 8, bins}.of(framed));
    }
}

} // namespace
} // namespace lathe::cuda
