// Two products of few rows with bytes, and what may be between the first and the quantisation before the second:
// OpenVINO gathered them in one kernel, whose numbers were some millions where nothing, a factor or a shift was there.
#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct Between {
    std::string name;
    std::string nodes; ///< makes %o of %m
};
std::ostream& operator<<(std::ostream& stream, const Between& between) { return stream << between.name; }

const Between between_products[] = {
    {"Nothing", "%o = Identity(%m)\n"},
    {"Bias", "%o = Add(%m, %u)\n"},
    {"BiasOfZeros", "const %n: float32[5] = {-0.0, 0, 0, 0, 0}\n%o = Add(%m, %n)\n"},
    {"Number", "%o = Add(%m, %h)\n"},
    {"NumberLess", "%o = Sub(%m, %h)\n"},
    {"Factor", "%o = Mul(%m, %h)\n"},
    {"Factors", "%o = Mul(%m, %v)\n"},
    {"Divisors", "%o = Div(%m, %v)\n"},
    {"FactorsAndBias", "%a = Mul(%m, %v)\n%o = Add(%a, %u)\n"},
    {"BiasAndFactors", "%a = Add(%m, %u)\n%o = Mul(%a, %v)\n"},
    {"BiasAndNegative", "%a = Add(%m, %u)\n%o = Neg(%a)\n"},
    {"SameSizes", "const %n: int64[2] = {4, 5}\n%o = Reshape(%m, %n)\n"},
    {"Relu", "%o = Relu(%m)\n"},
    {"ReluAndFactors", "%a = Relu(%m)\n%o = Mul(%a, %v)\n"},
    {"ReluAndBias", "%a = Relu(%m)\n%o = Add(%a, %u)\n"},
    {"BiasReluAndFactors", "%a = Add(%m, %u)\n%r = Relu(%a)\n%o = Mul(%r, %v)\n"},
    {"FactorsBiasAndRelu", "%a = Mul(%m, %v)\n%b = Add(%a, %u)\n%o = Relu(%b)\n"},
};

class ProductsOfFewRows : public testing::TestWithParam<Between> {};

TEST_P(ProductsOfFewRows, AreTheirOwn) {
    HostTensor x("x", DataType::float32, {4, 6});
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    const std::string scale = "const %s: float32[] = {0.03}\nconst %z: uint8[] = {121}\n";
    const std::string first =
        "opset 20\ninput %x: float32[4, 6]\n" + scale +
        "const %w: int8[6, 5] = {100, -50, 25, 80, -120, 60, 90, -70, 30, 20, -10, 110, 55, -95, 75, 12, -34, 56, -78, "
        "90, 11, 22, -33, -44, 55, 66, -77, 88, 99, -101}\n"
        "const %ws: float32[5] = {0.01, 0.02, 0.003, 0.005, 0.004}\nconst %h: float32[] = {0.5}\n"
        "const %v: float32[5] = {1.9, 0.5, 1.1, 0.7, 1.4}\nconst %u: float32[5] = {0.5, -1, 0.25, 2, -0.75}\n"
        "%q = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n%f = DequantizeLinear(%w, %ws) {axis = "
        "1}\n"
        "%m = MatMul(%d, %f)\n" +
        GetParam().nodes;
    const std::string second =
        "const %w2: int8[5, 3] = {127, -30, 64, -99, 45, 10, 3, 77, -60, 88, -127, 5, 40, 50, 60}\n"
        "const %ws2: float32[3] = {0.01, 0.006, 0.008}\n%q2 = QuantizeLinear(%o, %s, %z)\n"
        "%d2 = DequantizeLinear(%q2, %s, %z)\n%f2 = DequantizeLinear(%w2, %ws2) {axis = 1}\n"
        "%y = MatMul(%d2, %f2)\noutput %y: float32[4, 3]\n";
    auto between = outputs_of(first + "output %o: float32[4, 5]\n", {x});
    ASSERT_EQ(between.size(), 1U);
    between[0].name = "o";
    const auto wanted = first_output("opset 20\ninput %o: float32[4, 5]\n" + scale + second, {between[0]});
    const auto found = first_output(first + second, {x});
    ASSERT_EQ(wanted.size(), 12U);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], 0.04) << i; // a step of one number between
}

INSTANTIATE_TEST_SUITE_P(Table, ProductsOfFewRows, testing::ValuesIn(between_products),
                         [](const auto& info) { return info.param.name; });

struct OneNumber {
    std::string name;
    std::string nodes; ///< makes %y of %x, the rows 1, -2, 3, 4
    std::vector<float> wanted;
};
std::ostream& operator<<(std::ostream& stream, const OneNumber& one) { return stream << one.name; }

const OneNumber products_of_one_number[] = {
    {"First", "%m = MatMul(%x, %w)\n%r = Relu(%m)\n%y = MatMul(%r, %u)\n", {0, 0, 1, 3, 0, 0, 0, 0}},
    {"FirstAndBias",
     "%m = MatMul(%x, %w)\n%a = Add(%m, %b)\n%r = Relu(%a)\n%y = MatMul(%r, %u)\n",
     {0, 0, 1.25, 3.75, 0, 0, 0, 0}},
    {"Last",
     "%m = MatMul(%x, %u)\n%r = Relu(%m)\n%s = MatMul(%r, %v)\n%t = Relu(%s)\n%y = MatMul(%t, %w)\n",
     {-2, 0, -6, -8}},
    {"ByGemm", "%m = Gemm(%x, %w, %b)\n%r = Relu(%m)\n%y = Gemm(%r, %u)\n", {0, 0, 1.25, 3.75, 0, 0, 0, 0}},
};

class ProductsOfOneNumber : public testing::TestWithParam<OneNumber> {};

TEST_P(ProductsOfOneNumber, AreComputed) {
    HostTensor x("x", DataType::float32, {4, 1});
    std::ranges::copy(std::vector<float>{1, -2, 3, 4}, x.as<float>().begin());
    const OneNumber& one = GetParam();
    const auto found =
        first_output("opset 20\ninput %x: float32[4, 1]\nconst %w: float32[1, 1] = {-0.5}\n"
                     "const %u: float32[1, 2] = {1, 3}\nconst %v: float32[2, 1] = {1, 1}\n"
                     "const %b: float32[1] = {0.25}\n" +
                         one.nodes + "output %y: float32[4, " + std::to_string(one.wanted.size() / 4) + "]\n",
                     {x});
    ASSERT_EQ(found.size(), one.wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], one.wanted[i], 1e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(Table, ProductsOfOneNumber, testing::ValuesIn(products_of_one_number),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
