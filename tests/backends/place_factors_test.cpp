// Factors for each place before a padded convolution whose window has as many places: OpenVINO multiplied the weights
// by them, as if the window stood still, where another operator is between or they are those of a normalisation.
#include <algorithm>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct PlaceFactors {
    std::string name;
    std::string before; ///< makes %m of %x
    std::string convolution = "const %w: float32[2, 3, 1, 2] = {1, 2, 3, -4, 5, 6, -7, 0.5, 1, 2, 3, 4}\n"
                              "%y = Conv(%m, %w) {pads = [0, 1, 0, 1]}\noutput %y: float32[2, 2, 2, 3]\n";
    int opset = 17;
};
std::ostream& operator<<(std::ostream& stream, const PlaceFactors& factors) { return stream << factors.name; }

const PlaceFactors place_factors[] = {
    {"Mul", "%m = Mul(%x, %p)\n"},
    {"Div", "%m = Div(%x, %p)\n"},
    {"BehindAShift", "%a = Add(%x, %q)\n%m = Mul(%a, %p)\n"},
    {"Identity", "%a = Mul(%x, %p)\n%m = Identity(%a)\n"},
    {"SameSizes", "const %n: int64[4] = {0, 3, 2, 2}\n%a = Mul(%x, %p)\n%m = Reshape(%a, %n)\n"},
    {"ZeroAdded", "const %n: float32[] = {0}\n%a = Mul(%x, %p)\n%m = Add(%a, %n)\n"},
    {"AnotherFactor", "const %n: float32[] = {2}\n%a = Mul(%x, %p)\n%m = Mul(%a, %n)\n"},
    {"FactorByChannel", "const %n: float32[3, 1, 1] = {1, 2, 3}\n%a = Mul(%x, %p)\n%m = Mul(%a, %n)\n"},
    {"Neg", "%a = Mul(%x, %p)\n%m = Neg(%a)\n"},
    {"BatchNormalization",
     "const %g: float32[3] = {1, 2, 3}\nconst %o: float32[3] = {0, 0, 0}\nconst %v: float32[3] = {1, 1, 1}\n"
     "%a = Mul(%x, %p)\n%m = BatchNormalization(%a, %g, %o, %o, %v)\n"},
    {"LayerNormalization", "%m = LayerNormalization(%x, %p) {axis = -1}\n"},
    {"LayerNormalizationAndZeros", "const %o: float32[2] = {0, 0}\n%m = LayerNormalization(%x, %p, %o) {axis = -1}\n"},
    {"Groups", "%m = LayerNormalization(%x, %p) {axis = -1}\n",
     "const %w: float32[3, 1, 1, 2] = {1, 2, 3, -4, 5, 6}\n%y = Conv(%m, %w) {pads = [0, 1, 0, 1], group = 3}\n"
     "output %y: float32[2, 3, 2, 3]\n"},
    {.name = "RMSNormalization", .before = "%m = RMSNormalization(%x, %p) {axis = -1}\n", .opset = 23},
    {"SizesBySame", "%m = LayerNormalization(%x, %p) {axis = -1}\n",
     "const %w: float32[2, 3, 1, 2] = {1, 2, 3, -4, 5, 6, -7, 0.5, 1, 2, 3, 4}\n"
     "%y = Conv(%m, %w) {auto_pad = \"SAME_UPPER\"}\noutput %y: float32[2, 2, 2, 2]\n"},
};

class FactorsOfPlaces : public testing::TestWithParam<PlaceFactors> {};

TEST_P(FactorsOfPlaces, StayWhereTheyAre) {
    const PlaceFactors& factors = GetParam();
    const std::string opset = "opset " + std::to_string(factors.opset) + "\n", size = ": float32[2, 3, 2, 2]\n";
    HostTensor x("x", DataType::float32, {2, 3, 2, 2});
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    const std::string before = opset + "input %x" + size +
                               "const %p: float32[2] = {0.5, 2}\nconst %q: float32[2] = {3, -1}\n" + factors.before;
    auto between = outputs_of(before + "output %m" + size, {x});
    ASSERT_EQ(between.size(), 1U);
    between[0].name = "m";
    const auto wanted = first_output(opset + "input %m" + size + factors.convolution, {between[0]});
    const auto found = first_output(before + factors.convolution, {x});
    ASSERT_FALSE(wanted.empty());
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], 1e-4) << i;
}

INSTANTIATE_TEST_SUITE_P(Table, FactorsOfPlaces, testing::ValuesIn(place_factors),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
