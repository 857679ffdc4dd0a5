// Operators on quantised tensors, written out and run by the CPU engine: within half a step of what they say.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/models.hpp"
#include "onnx/onnx.hpp"

namespace lathe::test {
namespace {

using Numbers = std::vector<double>;

/// What x, [1, 4, 3, 3] in steps of 0.25 with zero point 100, is after quantising.
Numbers steps_of_x() {
    Numbers x(36);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = 0.25 * (static_cast<double>(i * 29 % 61) - 30);
    return x;
}

double filter(std::size_t i) { return static_cast<double>(i * 37 % 201) - 100; }

/// `count` of them as text.
std::string filters(std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i)
        list += (i == 0 ? "" : ", ") + std::to_string(static_cast<int>(filter(i)));
    return list;
}

Numbers each(const Numbers& x, const std::function<double(double)>& f) {
    Numbers y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), f);
    return y;
}

/// Products of the four channels with filters in per-channel scales, [2, 3, 3], and a bias of 8 and -16 steps.
Numbers convolved(const Numbers& x) {
    Numbers y(18, 0);
    for (std::size_t o = 0; o < 2; ++o) {
        const double scale = o == 0 ? 0.0078125 : 0.015625;
        for (std::size_t p = 0; p < 9; ++p) {
            double& sum = y[o * 9 + p];
            for (std::size_t c = 0; c < 4; ++c)
                sum += x[c * 9 + p] * filter(o * 4 + c) * scale;
            sum += (o == 0 ? 800.0 : -1600.0) * 0.25 * scale;
        }
    }
    return y;
}

/// x as [12, 3] times filters [3, 2] in 0.0078125.
Numbers multiplied(const Numbers& x, double bias) {
    Numbers y(24, bias);
    for (std::size_t i = 0; i < 24; ++i) {
        for (std::size_t k = 0; k < 3; ++k)
            y[i] += x[i / 2 * 3 + k] * filter(k * 2 + i % 2) * 0.0078125;
    }
    return y;
}

struct Case {
    const char* name;
    std::string nodes; ///< give %yq in %t, %tz, or %y in floats
    std::function<Numbers(const Numbers&)> expected;
    double step = 0; ///< of the result
    int opset = 13;
};

std::string quantised(const std::string& node, const std::string& grid = "%t, %tz") {
    return node + "\n%y = DequantizeLinear(%yq, " + grid + ")\n";
}

std::vector<Case> cases() {
    const auto pooled = [](const Numbers& x) {
        Numbers y(4);
        for (std::size_t c = 0; c < 4; ++c)
            y[c] = std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(c * 9),
                                   x.begin() + static_cast<std::ptrdiff_t>(c * 9 + 9), 0.0) /
                   9;
        return y;
    };
    const std::string x = "%q, %s, %z", ms = "\"com.microsoft\"::";
    const std::string to = "%t, %tz";
    const std::string conv = "const %w: int8[2, 4, 1, 1] = {" + filters(8) +
                             "}\nconst %ws: float32[2] = {0.0078125, 0.015625}\nconst %wz: int8[2] = {0, 0}\n"
                             "const %b: int32[2] = {800, -1600}\n";
    const std::string matrix = "const %w: int8[3, 2] = {" + filters(6) +
                               "}\nconst %ws: float32[1] = {0.0078125}\nconst %wz: int8[1] = {0}\n"
                               "const %rows: int64[2] = {12, 3}\n%qr = Reshape(%q, %rows)\n%xr = Reshape(%x, %rows)\n";
    return {
        {"Add", quantised("%yq = " + ms + "QLinearAdd(" + x + ", " + x + ", " + to + ")"),
         [](const Numbers& v) { return each(v, [](double n) { return n + n; }); }, 0.5},
        {"Mul", quantised("%yq = " + ms + "QLinearMul(" + x + ", " + x + ", " + to + ")"),
         [](const Numbers& v) { return each(v, [](double n) { return n * n; }); }, 0.5},
        {"Sigmoid", quantised("%yq = " + ms + "QLinearSigmoid(" + x + ", " + to + ")"),
         [](const Numbers& v) { return each(v, [](double n) { return 1 / (1 + std::exp(-n)); }); }, 0.5},
        {"LeakyRelu", quantised("%yq = " + ms + "QLinearLeakyRelu(" + x + ", " + to + ") {alpha = 0.5}"),
         [](const Numbers& v) { return each(v, [](double n) { return n < 0 ? n / 2 : n; }); }, 0.5},
        {"SoftmaxBeforeOpset13",
         quantised("%yq = " + ms + "QLinearSoftmax(" + x + ", %s64, %u0) {opset = 13}", "%s64, %u0"),
         [](const Numbers& v) {
             Numbers y = each(v, [](double n) { return std::exp(n); });
             for (std::size_t row = 0; row < y.size(); row += 3) {
                 const double sum = y[row] + y[row + 1] + y[row + 2];
                 for (std::size_t i = row; i < row + 3; ++i)
                     y[i] /= sum;
             }
             return y;
         },
         0.015625, 11},
        {"GlobalAveragePool", quantised("%yq = " + ms + "QLinearGlobalAveragePool(" + x + ", " + to + ")"), pooled,
         0.5},
        {"AveragePool", quantised("%yq = " + ms + "QLinearAveragePool(" + x + ", " + to + ") {kernel_shape = [3, 3]}"),
         pooled, 0.5},
        {"ReduceMean", quantised("%yq = " + ms + "QLinearReduceMean(" + x + ", " + to + ") {axes = [2, 3]}"), pooled,
         0.5},
        {"Concat", quantised("%yq = " + ms + "QLinearConcat(" + to + ", " + x + ", " + x + ") {axis = 1}"),
         [](Numbers v) {
             const Numbers once = v;
             v.insert(v.end(), once.begin(), once.end());
             return v;
         },
         0.5},
        {"Conv", conv + quantised("%yq = QLinearConv(" + x + ", %w, %ws, %wz, " + to + ", %b)"), convolved, 0.5},
        {"ConvBeforeOpset13", conv + quantised("%yq = QLinearConv(" + x + ", %w, %ws, %wz, " + to + ", %b)"), convolved,
         0.5, 10},
        {"MatMul", matrix + quantised("%yq = QLinearMatMul(%qr, %s, %z, %w, %ws, %wz, " + to + ")"),
         [](const Numbers& v) { return multiplied(v, 0); }, 0.5},
        {"Gemm", matrix + "const %c: int32[1] = {512}\n%y = " + ms + "QGemm(%qr, %s, %z, %w, %ws, %wz, %c)\n",
         [](const Numbers& v) { return multiplied(v, 512 * 0.25 * 0.0078125); }},
        {"MatMulIntegerToFloat",
         matrix + "const %c: float32[2] = {1.5, 1.5}\n%y = " + ms +
             "MatMulIntegerToFloat(%qr, %w, %s, %ws, %z, %wz, %c)\n",
         [](const Numbers& v) { return multiplied(v, 1.5); }},
        // The input's own scale is (7.5 + 7.5) / 255: an error of half of it an element.
        {"DynamicQuantizeMatMul", matrix + "%y = " + ms + "DynamicQuantizeMatMul(%xr, %w, %ws, %wz)\n",
         [](const Numbers& v) { return multiplied(v, 0); }, 0.15},
    };
}

class QuantizedOperators : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, QuantizedOperators, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(QuantizedOperators, ComputeWhatTheySay) {
    const Case& param = GetParam();
    Model model = model_from_text("opset " + std::to_string(param.opset) +
                                  "\nopset \"com.microsoft\" 1\ninput %x: float32[1, 4, 3, 3]\n"
                                  "const %s: float32[] = {0.25}\nconst %z: uint8[] = {100}\n"
                                  "const %s64: float32[] = {0.015625}\nconst %u0: uint8[] = {0}\n"
                                  "const %t: float32[] = {0.5}\nconst %tz: uint8[1] = {128}\n"
                                  "%q = QuantizeLinear(%x, %s, %z)\n" +
                                  param.nodes + "output %y: float32\n");
    const auto written = write_out_quantized_operators(model);
    ASSERT_TRUE(written) << written.error().describe();
    EXPECT_EQ(*written, 1U);
    ASSERT_TRUE(infer_shapes(model));
    const auto compiled = (*backend_for_device("cpu"))->compile(model, {});
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto session = *(*compiled)->make_session();
    HostTensor x("x", DataType::float32, {1, 4, 3, 3});
    const Numbers values = steps_of_x();
    std::transform(values.begin(), values.end(), x.as<float>().begin(), [](double v) { return static_cast<float>(v); });
    ASSERT_TRUE(session->set_input(0, x.view()));
    ASSERT_TRUE(session->run());
    const auto output = *session->output(0);
    const auto got = output.as<float>();
    const Numbers expected = param.expected(values);
    ASSERT_EQ(got.size(), expected.size());
    const bool in_steps = param.nodes.find("%yq") != std::string::npos;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double want = in_steps ? std::clamp(expected[i], -64.0, 63.5) : expected[i];
        EXPECT_NEAR(static_cast<double>(got[i]), want, param.step / 2 + 1e-4) << i;
    }
}

TEST(QuantizedOperators, WhatHasNoFormStays) {
    Model model = model_from_text("opset 13\nopset \"com.microsoft\" 1\ninput %x: uint8[1, 4, 3, 3]\n"
                                  "const %s: float32[] = {0.25}\nconst %z: uint8[] = {100}\n"
                                  "%y = \"com.microsoft\"::QLinearGlobalAveragePool(%x, %s, %z, %s, %z) "
                                  "{channels_last = 1}\noutput %y: uint8\n");
    const auto written = write_out_quantized_operators(model);
    ASSERT_TRUE(written);
    EXPECT_EQ(*written, 0U);
    EXPECT_EQ(model.graph.nodes[0]->op_type, "QLinearGlobalAveragePool");
}

} // namespace
} // namespace lathe::test
