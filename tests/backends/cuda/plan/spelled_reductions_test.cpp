// Reductions and normalisations in other forms than the plan's, beside sums in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lathe::cuda {
namespace {

std::vector<HostTensor> results_of(const std::string& text, std::vector<HostTensor>& inputs) {
    const Model model = lathe::test::network(text);
    std::vector<Shape> shapes;
    for (const HostTensor& input : inputs)
        shapes.push_back(input.shape);
    const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
    const auto valid = verify(plan);
    EXPECT_TRUE(valid);
    return lathe::test::interpreted(plan, inputs, false);
}

HostTensor waves(Shape shape, double step) {
    HostTensor x("x", DataType::float32, std::move(shape));
    for (std::size_t i = 0; i < x.as<float>().size(); ++i)
        x.as<float>()[i] = static_cast<float>(2 * std::sin(step * static_cast<double>(i)) + 0.2);
    return x;
}

void expect_near(std::span<const float> found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
}

/// Of x [2, 3, 4] over the middle axis.
template <class Value, class End>
std::vector<double> over_middle(const HostTensor& x, Value value, End end) {
    std::vector<double> results;
    for (std::size_t a = 0; a < 2; ++a)
        for (std::size_t c = 0; c < 4; ++c) {
            double sum = 0;
            for (std::size_t b = 0; b < 3; ++b)
                sum += value(static_cast<double>(x.as<float>()[(a * 3 + b) * 4 + c]));
            results.push_back(end(sum));
        }
    return results;
}

// Up to opset 17 ONNX defines these by themselves, and their axes are an attribute.
TEST(SpelledReductions, AreSumsOfFunctions) {
    std::vector<HostTensor> inputs{waves({2, 3, 4}, 0.7)};
    const auto same = [](double x) { return x; };
    const auto text = [](const std::string& op, const std::string& keep, const std::string& out) {
        return "opset 13\ninput %x: float32[2, 3, 4]\n%y = " + op + "(%x) {axes = [-2], keepdims = " + keep +
               "}\noutput %y: float32[" + out + "]\n";
    };
    for (const auto& [keep, out] : {std::pair{"0", "2, 4"}, std::pair{"1", "2, 1, 4"}}) {
        SCOPED_TRACE(out);
        expect_near(results_of(text("ReduceL1", keep, out), inputs)[0].as<float>(),
                    over_middle(
                        inputs[0], [](double x) { return std::abs(x); }, same));
        expect_near(results_of(text("ReduceSumSquare", keep, out), inputs)[0].as<float>(),
                    over_middle(
                        inputs[0], [](double x) { return x * x; }, same));
        expect_near(results_of(text("ReduceLogSumExp", keep, out), inputs)[0].as<float>(),
                    over_middle(
                        inputs[0], [](double x) { return std::exp(x); }, [](double sum) { return std::log(sum); }));
    }
    for (float& x : inputs[0].as<float>())
        x = std::abs(x) + 0.1F;
    expect_near(results_of(text("ReduceLogSum", "0", "2, 4"), inputs)[0].as<float>(),
                over_middle(inputs[0], same, [](double sum) { return std::log(sum); }));
}

TEST(SpelledReductions, ExponentialsNeitherOverflowNorVanish) {
    HostTensor x("x", DataType::float32, {4, 2});
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::ranges::copy(std::vector<float>{1000, 999, -2000, -2000, -infinity, -infinity, infinity, 0},
                      x.as<float>().begin());
    std::vector<HostTensor> inputs{std::move(x)};
    const auto found = results_of("opset 18\ninput %x: float32[4, 2]\nconst %a: int64[1] = {1}\n"
                                  "%y = ReduceLogSumExp(%x, %a) {keepdims = 0}\noutput %y: float32[4]\n",
                                  inputs);
    EXPECT_NEAR(found[0].as<float>()[0], 1000 + std::log1p(std::exp(-1.0)), 1e-3);
    EXPECT_NEAR(found[0].as<float>()[1], -2000 + std::log(2.0), 1e-3);
    EXPECT_EQ(found[0].as<float>()[2], -infinity);
    EXPECT_EQ(found[0].as<float>()[3], infinity);
}

// nn.LayerNorm([4, 5]); factors that are inputs or broadcast; means and deviations asked for.
TEST(SpelledReductions, NormsAreOverSeveralAxesByAnyFactors) {
    const HostTensor x = waves({3, 4, 5}, 0.9), scale = waves({4, 5}, 0.31), shift = waves({4, 5}, 1.7),
                     short_scale = waves({5}, 0.31);
    const auto expected = [&](const HostTensor& by, bool shifted) {
        std::vector<double> y;
        for (std::size_t row = 0; row < 3; ++row) {
            double sum = 0, squares = 0;
            for (std::size_t i = 0; i < 20; ++i)
                sum += static_cast<double>(x.as<float>()[row * 20 + i]);
            for (std::size_t i = 0; i < 20; ++i)
                squares += std::pow(static_cast<double>(x.as<float>()[row * 20 + i]) - sum / 20, 2);
            for (std::size_t i = 0; i < 20; ++i) {
                const double normal =
                    (static_cast<double>(x.as<float>()[row * 20 + i]) - sum / 20) / std::sqrt(squares / 20 + 1e-5);
                y.push_back(normal * static_cast<double>(by.as<float>()[i % by.as<float>().size()]) +
                            (shifted ? static_cast<double>(shift.as<float>()[i]) : 0));
            }
        }
        return y;
    };
    const auto constant = [](const std::string& name, const std::string& shape, const HostTensor& values) {
        std::string text = "const %" + name + ": float32[" + shape + "] = {";
        for (const float value : values.as<float>())
            text += (text.back() == '{' ? "" : ", ") + std::to_string(value);
        return text + "}\n";
    };
    const std::string head = "opset 17\ninput %x: float32[3, 4, 5]\n", tail = "output %y: float32[3, 4, 5]\n";
    std::vector<HostTensor> one{x};
    expect_near(results_of(head + constant("s", "4, 5", scale) + constant("b", "4, 5", shift) +
                               "%y = LayerNormalization(%x, %s, %b) {axis = 1}\n" + tail,
                           one)[0]
                    .as<float>(),
                expected(scale, true));
    expect_near(
        results_of(head + constant("s", "5", short_scale) + "%y = LayerNormalization(%x, %s) {axis = -2}\n" + tail,
                   one)[0]
            .as<float>(),
        expected(short_scale, false));
    std::vector<HostTensor> three{x, scale, shift};
    three[1].name = "s";
    three[2].name = "b";
    const auto found = results_of(head +
                                      "input %s: float32[4, 5]\ninput %b: float32[4, 5]\n"
                                      "%y, %m, %d = LayerNormalization(%x, %s, %b) {axis = 1}\n" +
                                      tail + "output %m: float32[3, 1, 1]\noutput %d: float32[3, 1, 1]\n",
                                  three);
    expect_near(found[0].as<float>(), expected(scale, true));
    for (std::size_t row = 0; row < 3; ++row) {
        double sum = 0, squares = 0;
        for (std::size_t i = 0; i < 20; ++i)
            sum += static_cast<double>(x.as<float>()[row * 20 + i]) / 20;
        for (std::size_t i = 0; i < 20; ++i)
            squares += std::pow(static_cast<double>(x.as<float>()[row * 20 + i]) - sum, 2) / 20;
        EXPECT_NEAR(found[1].as<float>()[row], sum, 1e-5);
        EXPECT_NEAR(found[2].as<float>()[row], 1 / std::sqrt(squares + 1e-5), 1e-5);
    }
}

} // namespace
} // namespace lathe::cuda
