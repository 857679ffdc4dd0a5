// Convolutions behind a Pad, some of whose windows lie in the padding alone: OpenVINO lost the stride of 1x1 windows.
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct Padded {
    std::string name;
    Shape input;
    std::string network; ///< reads %r and makes %y
    std::vector<float> expected;
};
std::ostream& operator<<(std::ostream& stream, const Padded& padded) { return stream << padded.name; }

const Padded padded_cases[] = {
    {"Lines",
     {1, 1, 4},
     "const %pads: int64[6] = {0, 0, 1, 0, 0, 2}\nconst %w: float32[1, 1, 1] = {2}\n%t = Pad(%r, %pads)\n"
     "%y = Conv(%t, %w) {strides = [2]}\noutput %y: float32[1, 1, 4]\n",
     {0, 4, 8, 0}},
    {"Images",
     {1, 1, 2, 2},
     "const %pads: int64[8] = {0, 0, 0, 1, 0, 0, 0, 1}\nconst %w: float32[1, 1, 1, 1] = {2}\n%t = Pad(%r, %pads)\n"
     "%y = Conv(%t, %w) {strides = [1, 2]}\noutput %y: float32[1, 1, 2, 2]\n",
     {0, 4, 0, 8}},
    {"Groups",
     {1, 2, 3},
     "const %pads: int64[6] = {0, 0, 2, 0, 0, 0}\nconst %w: float32[2, 1, 1] = {2, 3}\n%t = Pad(%r, %pads)\n"
     "%y = Conv(%t, %w) {strides = [2], group = 2}\noutput %y: float32[1, 2, 3]\n",
     {0, 2, 6, 0, 12, 18}},
    {"OwnPadding",
     {1, 1, 3},
     "const %pads: int64[6] = {0, 0, 1, 0, 0, 1}\nconst %w: float32[1, 1, 2] = {2, 1}\n%t = Pad(%r, %pads)\n"
     "%y = Conv(%t, %w) {strides = [2], pads = [1, 1]}\noutput %y: float32[1, 1, 3]\n",
     {0, 4, 6}},
    {"AllInPadding",
     {1, 1, 1},
     "const %w: float32[1, 1, 1] = {2}\nconst %b: float32[1] = {3}\n"
     "%y = Conv(%r, %w, %b) {strides = [2], pads = [1, 2]}\noutput %y: float32[1, 1, 2]\n",
     {3, 3}},
    {"BytesAllInPadding",
     {1, 1, 1},
     "const %s: float32[] = {0.5}\nconst %z: uint8[] = {3}\nconst %i: int8[1, 1, 1] = {4}\n"
     "const %b: float32[1] = {3}\n%w = DequantizeLinear(%i, %s)\n%q = QuantizeLinear(%r, %s, %z)\n"
     "%d = DequantizeLinear(%q, %s, %z)\n%y = Conv(%d, %w, %b) {strides = [2], pads = [1, 2]}\n"
     "output %y: float32[1, 1, 2]\n",
     {3, 3}},
    {"Bytes",
     {1, 1, 4},
     "const %pads: int64[6] = {0, 0, 1, 0, 0, 2}\nconst %s: float32[] = {0.5}\nconst %z: uint8[] = {3}\n"
     "const %b: int8[1, 1, 1] = {4}\n%w = DequantizeLinear(%b, %s)\n%q = QuantizeLinear(%r, %s, %z)\n"
     "%d = DequantizeLinear(%q, %s, %z)\n%t = Pad(%d, %pads)\n"
     "%y = Conv(%t, %w) {strides = [2]}\noutput %y: float32[1, 1, 4]\n",
     {0, 4, 8, 0}},
};

class ConvolutionsBehindPads : public testing::TestWithParam<Padded> {};

TEST_P(ConvolutionsBehindPads, KeepTheirStride) {
    std::string sizes;
    for (const auto size : GetParam().input)
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    HostTensor x("x", DataType::float32, GetParam().input);
    const auto numbers = x.as<float>();
    std::iota(numbers.begin(), numbers.end(), 1.0F);
    const auto found =
        first_output("opset 18\ninput %x: float32[" + sizes + "]\n%r = Relu(%x)\n" + GetParam().network, {x});
    EXPECT_EQ(found, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(All, ConvolutionsBehindPads, testing::ValuesIn(padded_cases),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
