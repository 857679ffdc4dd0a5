// Networks that are quantised where OpenVINO gave something else, or refused, found by random networks: the CPU
// engine's answer lies within the quantisation's own error of the same network's without it.
#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct Neighbours {
    std::string name;
    Shape shape;         ///< of the input x
    std::string before;  ///< makes %v of %x
    std::string after;   ///< makes the output %y of %d, which is %v quantised and dequantised, or %v
    std::string output;  ///< its type
    double most = 0.032; ///< of one value of the output; the step is 0.03
};
std::ostream& operator<<(std::ostream& stream, const Neighbours& neighbours) { return stream << neighbours.name; }

const std::string step_of_three_hundredths = "const %s: float32[] = {0.03}\nconst %z: uint8[] = {121}\n"
                                             "%q = QuantizeLinear(%v, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n";

std::string neighbour_text(const Neighbours& neighbours, bool quantised) {
    std::string sizes;
    for (const std::int64_t size : neighbours.shape)
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    return "opset 13\ninput %x: float32[" + sizes + "]\n" + neighbours.before +
           (quantised ? step_of_three_hundredths : "%d = Identity(%v)\n") + neighbours.after +
           "output %y: " + neighbours.output + "\n";
}

std::vector<Neighbours> neighbour_cases() {
    const std::string rows =
        "const %w: int8[3, 5] = {100, -50, 25, 80, -120, 60, 90, -70, 30, 20, -10, 110, 55, -95, 75}\n"
        "const %ws: float32[5] = {0.01, 0.005, 0.002, 0.008, 0.004}\n"
        "const %wz: int8[5] = {0, 0, 0, 0, 0}\n%f = DequantizeLinear(%w, %ws, %wz) {axis = 1}\n";
    const std::string line = // %p, of 5 channels
        "const %w: int8[5, 3, 1] = {100, -50, 25, 80, -120, 60, 90, -70, 30, 20, -10, 110, 55, -95, 75}\n"
        "const %ws: float32[5] = {0.01, 0.005, 0.002, 0.008, 0.004}\n"
        "const %wz: int8[5] = {0, 0, 0, 0, 0}\n%f = DequantizeLinear(%w, %ws, %wz) {axis = 0}\n%p = Conv(%d, %f)\n";
    const std::string factors = "const %c: float32[1, 3, 1] = {0.5, 1.5, -0.75}\n";
    const std::string columns = "const %c: float32[6] = {0.5, 1.5, -0.75, 1, 2, -0.25}\n";
    const std::string three = // of a normalisation
        "const %g: float32[3] = {0.5, 1.5, -0.75}\nconst %b: float32[3] = {0.25, -0.5, 1}\n"
        "const %m: float32[3] = {0.1, -0.2, 0.3}\nconst %u: float32[3] = {0.5, 1, 2}\n";
    const std::string five = "const %g: float32[5] = {0.5, 1.5, 0.75, 1.25, -1}\n"
                             "const %b: float32[5] = {0.25, -0.5, 1, 0, 2}\n"
                             "const %m: float32[5] = {0.1, -0.2, 0.3, 0, 0.5}\n"
                             "const %u: float32[5] = {0.5, 1, 2, 1.5, 0.25}\n";
    const std::string mean = "%y = ReduceMean(%n) {axes = [-1]}\n";
    return {
        {"LargestOfAnImage",
         {2, 8, 4, 4},
         "%v = ReduceMax(%x) {axes = [2, 3]}\n",
         "%y = Identity(%d)\n",
         "float32[2, 8, 1, 1]"},
        {"LeastOfRows", {2, 9, 5}, "%v = ReduceMin(%x) {axes = [1]}\n", "%y = Identity(%d)\n", "float32[2, 1, 5]"},
        {"LargestOfAnImageShifted",
         {2, 8, 4, 4},
         "const %c: float32[] = {0.3}\n%m = GlobalMaxPool(%x)\n%v = Sub(%m, %c)\n",
         "%y = Identity(%d)\n",
         "float32[2, 8, 1, 1]"},
        {"MeansOfColumnsOfAProduct",
         {2, 2, 3, 1},
         "%v = Identity(%x)\n",
         rows + "const %flat: int64[3] = {2, 2, 3}\n%r = Reshape(%d, %flat)\n%p = MatMul(%r, %f)\n"
                "%y = AveragePool(%p) {kernel_shape = [2], pads = [1, 1], strides = [2], count_include_pad = 1}\n",
         "float32[2, 2, 3]",
         0.1},
        {"MeansWithPaddingOfWhatWasMoved",
         {1, 8, 4},
         "%v = Identity(%x)\n",
         "const %n: int64[2] = {6, 2}\n%a, %b = Split(%d, %n) {axis = 1}\n%j = Concat(%b, %a) {axis = 1}\n"
         "%y = AveragePool(%j) {kernel_shape = [2], pads = [1, 1], strides = [3], count_include_pad = 1}\n",
         "float32[1, 8, 2]"},
        {"PartsThatAreTiledForAProduct",
         {2, 4, 3},
         "const %p: int64[2] = {3, 1}\n%a, %b = Split(%x, %p) {axis = 1}\n%v = Concat(%b, %a) {axis = 1}\n",
         rows + "const %n: int64[3] = {1, 1, 1}\n%t = Tile(%d, %n)\n%y = MatMul(%t, %f)\n",
         "float32[2, 4, 5]",
         0.1},
        {"PaddedByANumberAlongOneAxis",
         {2, 3, 5, 5},
         "%v = Identity(%x)\n",
         "const %w: int8[2, 3, 1, 1] = {100, -50, 25, 80, -120, 60}\nconst %ws: float32[] = {0.01}\n"
         "const %wz: int8[] = {0}\n%f = DequantizeLinear(%w, %ws, %wz)\n"
         "const %p: int64[8] = {0, 0, 1, 0, 0, 0, 2, 0}\nconst %n: float32[] = {0.5}\n%e = Pad(%d, %p, %n)\n"
         "%y = Conv(%e, %f)\n",
         "float32[2, 2, 8, 5]",
         0.1},
        {"AnAxisOfOneIsPadded",
         {2, 1, 5, 5},
         "%v = Identity(%x)\n",
         "const %p: int64[8] = {0, 1, 0, 0, 0, 2, 0, 0}\n%y = Pad(%d, %p)\n",
         "float32[2, 4, 5, 5]"},
        {"PartsThatAreScaledForAProduct",
         {1, 4, 4, 4, 3},
         "const %c: float32[1, 1, 1] = {0.975}\n%a = ReduceMean(%x) {axes = [1]}\n%b = Softmax(%x) {axis = -1}\n"
         "%j = Concat(%a, %b) {axis = 1}\n%v = Mul(%j, %c)\n",
         rows + "%y = MatMul(%d, %f)\n",
         "float32[1, 5, 4, 4, 5]",
         0.1},
        {"RowsInTwoScalesForAProduct",
         {2, 4, 3},
         "%v = Relu(%x)\n",
         rows + "const %t: float32[] = {0.02}\nconst %o: uint8[] = {121}\n%j = QuantizeLinear(%x, %t, %o)\n"
                "%e = DequantizeLinear(%j, %t, %o)\n%r = Concat(%d, %e) {axis = 1}\n%y = MatMul(%r, %f)\n",
         "float32[2, 8, 5]",
         0.1},
        {"PartOfRowsInTwoScalesForAProduct",
         {2, 4, 3},
         "%v = Relu(%x)\n",
         rows + "const %t: float32[] = {0.02}\nconst %o: uint8[] = {128}\n%j = QuantizeLinear(%x, %t, %o)\n"
                "%e = DequantizeLinear(%j, %t, %o)\nconst %i: int64[1] = {1}\nconst %k: int64[1] = {4}\n"
                "%g = Slice(%d, %i, %k, %i)\n%r = Concat(%g, %e) {axis = 1}\n%y = MatMul(%r, %f)\n",
         "float32[2, 7, 5]",
         0.1},
        {"OneRowOfAProduct",
         {2, 4, 3},
         "%v = Identity(%x)\n",
         rows + "const %i: int64[] = {1}\n%p = MatMul(%d, %f)\n%y = Gather(%p, %i) {axis = 1}\n",
         "float32[2, 5]",
         0.1},
        {"MeanOverImagesOfOneRow",
         {4, 3, 3},
         "%v = Identity(%x)\n",
         rows + "const %i: int64[] = {0}\nconst %n: int64[3] = {1, 4, 5}\n%p = MatMul(%d, %f)\n"
                "%g = Gather(%p, %i) {axis = 1}\n%r = Reshape(%g, %n)\n%y = ReduceMean(%r) {axes = [1]}\n",
         "float32[1, 1, 5]",
         0.1},
        {"OnePlaceOfALine",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "const %i: int64[] = {-2}\n%y = Gather(%p, %i) {axis = -1}\n",
         "float32[2, 5]",
         0.1},
        {"ATableOfPlacesOfALine",
         {1, 3, 6},
         "%v = Identity(%x)\n",
         line + "const %i: int64[3, 2] = {0, 1, 2, 1, 5, 0}\n%y = Gather(%p, %i) {axis = 2}\n",
         "float32[1, 5, 3, 2]",
         0.1},
        // As many rows of the table as channels: another result.
        {"ATableOfAsManyRowsAsChannels",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "const %i: int64[5, 2] = {0, 1, 2, 1, 5, 0, 3, 3, 4, 2}\n%y = Gather(%p, %i) {axis = 2}\n",
         "float32[2, 5, 5, 2]",
         0.1},
        {"ChannelsThatAreScaledAndGathered",
         {2, 4, 5},
         "%v = Identity(%x)\n",
         "const %c: float32[1, 4, 1] = {0.5, 1.5, 0.75, 1.25}\nconst %i: int64[2] = {1, 3}\n%m = Mul(%d, %c)\n"
         "%y = Gather(%m, %i) {axis = 2}\n",
         "float32[2, 4, 2]"},
        // As many rows as columns: another result.
        {"AnAxisBehindColumns",
         {2, 5, 3},
         "%v = Identity(%x)\n",
         rows + "const %i: int64[1] = {3}\n%p = MatMul(%d, %f)\n%y = Unsqueeze(%p, %i)\n",
         "float32[2, 5, 5, 1]",
         0.1},
        {"AxesBehindColumns",
         {2, 4, 3},
         "%v = Identity(%x)\n",
         rows + "const %n: int64[5] = {0, 0, -1, 1, 1}\n%p = MatMul(%d, %f)\n%y = Reshape(%p, %n)\n",
         "float32[2, 4, 5, 1, 1]",
         0.1},
        {"OneTokenOfOneHead",
         {2, 1, 3},
         "%v = Identity(%x)\n",
         rows + "const %n: int64[4] = {0, 1, 1, 5}\n%p = MatMul(%d, %f)\n%h = Reshape(%p, %n)\n"
                "%t = Transpose(%h) {perm = [0, 2, 1, 3]}\n%y = Transpose(%t) {perm = [0, 1, 3, 2]}\n",
         "float32[2, 1, 5, 1]",
         0.1},
        {"MeanOfALine",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "%y = ReduceMean(%p) {axes = [2]}\n",
         "float32[2, 5, 1]",
         0.1},
        {"LargestOfALine",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "%y = ReduceMax(%p) {axes = [2], keepdims = 0}\n",
         "float32[2, 5]",
         0.1},
        {"MeanOfALineByPool",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "%y = GlobalAveragePool(%p)\n",
         "float32[2, 5, 1]",
         0.1},
        {"SumOfALineByEinsum",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "%y = Einsum(%p) {equation = \"abc -> ba\"}\n",
         "float32[5, 2]",
         0.3},
        {"SumOverImagesByEinsum",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "%y = Einsum(%p) {equation = \"abc->bc\"}\n",
         "float32[5, 6]",
         0.1},
        {"SumOfALineBeforeAProductByEinsum",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "const %e: float32[5, 2] = {0.5, -0.25, 1, 0.75, -0.5, 0.25, 0.125, -1, 0.5, 0.5}\n"
                "%y = Einsum(%p, %e) {equation = \"abc,be->ae\"}\n",
         "float32[2, 2]",
         0.5},
        {"MeanOfALineThatIsNormalisedBehindAStride",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + five +
             "%h = Conv(%d, %f) {pads = [0, 2], strides = [2]}\n"
             "%n = BatchNormalization(%h, %g, %b, %m, %u)\n" +
             mean,
         "float32[2, 5, 1]",
         0.1},
        {"MeanOfALineThatIsNormalisedByInstance",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + five + "%n = InstanceNormalization(%p, %g, %b)\n" + mean,
         "float32[2, 5, 1]",
         0.1},
        {"MeanOfANegatedLine",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         line + "%n = Neg(%p)\n" + mean,
         "float32[2, 5, 1]",
         0.1},
        {"MeanOfALineOfFactors",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         factors + "%n = Mul(%d, %c)\n" + mean,
         "float32[2, 3, 1]",
         0.1},
        {"MeanOfALineOfShifts",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         factors + "%n = Sub(%d, %c)\n" + mean,
         "float32[2, 3, 1]",
         0.1},
        {"MeanOfALineOfFactorsAndShifts",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         factors + "%k = Div(%d, %c)\n%n = Sub(%c, %k)\n" + mean,
         "float32[2, 3, 1]",
         0.1},
        {"MeanByPoolOfALineThatIsNormalised",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         three + "%n = BatchNormalization(%d, %g, %b, %m, %u)\n%y = GlobalAveragePool(%n)\n",
         "float32[2, 3, 1]",
         0.1},
        {"MeanOverImagesOfFactors",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         factors + "%n = Mul(%d, %c)\n%y = ReduceMean(%n) {axes = [0]}\n",
         "float32[1, 3, 6]",
         0.1},
        {"MeanOverRows", {2, 3, 6}, "%v = Identity(%x)\n", "%y = ReduceMean(%d) {axes = [1]}\n", "float32[2, 1, 6]"},
        {"MeanOverRowsOfFactors",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         columns + "%n = Mul(%d, %c)\n%y = ReduceMean(%n) {axes = [1], keepdims = 0}\n",
         "float32[2, 6]",
         0.1},
        {"MeanOverRowsBeforeFactors",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         columns + "%n = ReduceMean(%d) {axes = [1]}\n%y = Mul(%n, %c)\n",
         "float32[2, 1, 6]",
         0.1},
        {"SumOverRowsAndColumns",
         {2, 3, 6},
         "%v = Identity(%x)\n",
         "const %a: int64[2] = {1, 2}\n%y = ReduceSum(%d, %a)\n",
         "float32[2, 1, 1]",
         0.3},
        {"ChannelsThatAreScaledAndGatheredByElements",
         {2, 4, 5},
         "%v = Identity(%x)\n",
         "const %c: float32[1, 4, 1] = {0.5, 1.5, 0.75, 1.25}\nconst %i: int64[1, 3, 2] = {1, 4, 0, 2, 3, 3}\n"
         "%m = Mul(%d, %c)\n%y = GatherElements(%m, %i) {axis = 2}\n",
         "float32[1, 3, 2]"},
    };
}

class QuantisedNeighbours : public testing::TestWithParam<Neighbours> {};

TEST_P(QuantisedNeighbours, AnswerWithinTheStep) {
    HostTensor x("x", DataType::float32, GetParam().shape);
    const auto values = noise(x.as<float>().size(), 5);
    std::copy(values.begin(), values.end(), x.as<float>().begin());
    const auto wanted = outputs_of(neighbour_text(GetParam(), false), {x});
    const auto found = outputs_of(neighbour_text(GetParam(), true), {x});
    ASSERT_FALSE(wanted.empty());
    ASSERT_FALSE(found.empty());
    ASSERT_EQ(found[0].shape, wanted[0].shape);
    for (std::size_t i = 0; i < wanted[0].as<float>().size(); ++i)
        EXPECT_NEAR(found[0].as<float>()[i], wanted[0].as<float>()[i], GetParam().most) << i;
}

// What was learned as rows, and goes through layers as they are or repeated for each sample, is what it is as an input.
TEST(QuantisedConstants, GoThroughLayersAsInputsDo) {
    const std::string numbers = "{0.7, -1.1, 0.32, 1.9, -0.41, 0.08}";
    const std::string layers =
        "const %s: float32[] = {0.03}\nconst %z: uint8[] = {121}\nconst %u: uint8[] = {0}\n"
        "const %w: int8[3, 4] = {100, -50, 25, 80, -120, 60, 90, -70, 30, 20, -10, 110}\n"
        "const %ws: float32[4] = {0.01, 0.02, 0.003, 0.005}\nconst %b: float32[4] = {0.5, -1, 0.25, 2}\n"
        "const %v: int8[4, 2] = {127, -30, 64, -99, 45, 10, 3, 77}\nconst %vs: float32[2] = {0.01, 0.006}\n"
        "const %a: float32[2] = {-0.5, 1}\n%q = QuantizeLinear(%r, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n"
        "%f = DequantizeLinear(%w, %ws) {axis = 1}\n%m = MatMul(%d, %f)\n%p = Add(%m, %b)\n%t = Relu(%p)\n"
        "%tq = QuantizeLinear(%t, %s, %u)\n%td = DequantizeLinear(%tq, %s, %u)\n"
        "%g = DequantizeLinear(%v, %vs) {axis = 1}\n%n = MatMul(%td, %g)\n%o = Add(%n, %a)\n"
        "%oq = QuantizeLinear(%o, %s, %z)\n%od = DequantizeLinear(%oq, %s, %z)\n";
    HostTensor rows("r", DataType::float32, {1, 2, 3}), x("x", DataType::float32, {2, 2, 2});
    std::ranges::copy(std::vector<float>{0.7F, -1.1F, 0.32F, 1.9F, -0.41F, 0.08F}, rows.as<float>().begin());
    std::ranges::copy(noise(8, 5), x.as<float>().begin());
    const auto wanted =
        first_output("opset 17\ninput %r: float32[1, 2, 3]\n" + layers + "output %od: float32[1, 2, 2]\n", {rows});
    ASSERT_EQ(wanted.size(), 4U);
    const std::string repeated = "const %c: float32[1, 2, 3] = " + numbers +
                                 "\nconst %k: int64[3] = {2, 2, 3}\n%r = Expand(%c, %k)\n",
                      as_it_is = "const %r: float32[1, 2, 3] = " + numbers + "\n";
    for (const std::string& given : {as_it_is, repeated}) {
        const auto found = first_output("opset 17\ninput %x: float32[2, 2, 2]\n" + given + layers +
                                            "%y = Add(%x, %od)\noutput %y: float32[2, 2, 2]\n",
                                        {x});
        ASSERT_EQ(found.size(), 8U);
        for (std::size_t i = 0; i < found.size(); ++i)
            EXPECT_NEAR(found[i], x.as<float>()[i] + wanted[i % 4], 0.0301) << i; // a step
    }
}

// Between the windows is the bias of the channel.
TEST(QuantisedConvTranspose, OfWindowsSmallerThanTheirStride) {
    HostTensor x("x", DataType::uint8, {1, 1, 2, 2});
    std::ranges::copy(std::vector<std::uint8_t>{100, 50, 200, 0}, x.as<std::uint8_t>().begin());
    const auto found =
        first_output("opset 17\ninput %x: uint8[1, 1, 2, 2]\nconst %s: float32[] = {0.01}\nconst %z: uint8[] = {0}\n"
                     "const %n: uint8[] = {100}\nconst %w: int8[1, 3, 1, 1] = {100, 50, -100}\n"
                     "const %ws: float32[3] = {0.01, 0.02, 0.005}\nconst %b: float32[3] = {0.25, -0.5, 0.75}\n"
                     "%d = DequantizeLinear(%x, %s, %z)\n%f = DequantizeLinear(%w, %ws) {axis = 1}\n"
                     "%c = ConvTranspose(%d, %f, %b) {strides = [2, 2]}\n%q = QuantizeLinear(%c, %s, %n)\n"
                     "%y = DequantizeLinear(%q, %s, %n)\noutput %y: float32[1, 3, 3, 3]\n",
                     {x});
    ASSERT_EQ(found.size(), 27U);
    const std::vector<float> weights{1, 1, -0.5F}, bias{0.25F, -0.5F, 0.75F}, corners{1, 0.5F, 2, 0};
    for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t channel = i / 9, row = i % 9 / 3, column = i % 3;
        const bool corner = row % 2 == 0 && column % 2 == 0;
        const float product = corner ? corners[row + column / 2] * weights[channel] : 0;
        EXPECT_NEAR(found[i], std::clamp(bias[channel] + product, -1.0F, 1.55F), 0.0101) << i;
    }
}

// Sizes that only running tells, of the line and of the table.
TEST(QuantisedGather, ATableOfOpenSizes) {
    const std::string line =
        "opset 17\ninput %x: float32[N, 3, L]\ninput %i: int64[R, 2]\n"
        "const %w: int8[5, 3, 1] = {100, -50, 25, 80, -120, 60, 90, -70, 30, 20, -10, 110, 55, -95, 75}\n"
        "const %ws: float32[5] = {0.01, 0.005, 0.002, 0.008, 0.004}\nconst %wz: int8[5] = {0, 0, 0, 0, 0}\n"
        "%f = DequantizeLinear(%w, %ws, %wz) {axis = 0}\nconst %s: float32[] = {0.03}\nconst %z: uint8[] = {121}\n"
        "%q = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n%p = Conv(%d, %f)\n";
    HostTensor x("x", DataType::float32, {3, 3, 6}), table("i", DataType::int64, {5, 2});
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    for (std::size_t i = 0; i < 10; ++i)
        table.as<std::int64_t>()[i] = static_cast<std::int64_t>(i * 5 % 6);
    const auto found_by = [&](const std::string& end) {
        CompileOptions options;
        options.shapes = {{"x", {{1, 3, 6}, {2, 3, 6}, {4, 3, 8}}}, {"i", {{1, 2}, {5, 2}, {7, 2}}}};
        const auto compiled = cpu().compile(model_from_text(line + end), options);
        EXPECT_TRUE(compiled) << compiled.error().describe();
        return compiled ? outputs_of(**compiled, {x, table}) : std::vector<HostTensor>{};
    };
    const auto whole = found_by("%n = Shape(%i)\noutput %p: float32[N, 5, L]\noutput %n: int64[2]\n");
    const auto found = found_by("%y = Gather(%p, %i) {axis = 2}\noutput %y: float32[N, 5, R, 2]\n");
    ASSERT_EQ(whole.size(), 2U);
    ASSERT_EQ(found.size(), 1U);
    ASSERT_EQ(found[0].shape, (Shape{3, 5, 5, 2}));
    for (std::size_t i = 0; i < found[0].as<float>().size(); ++i)
        EXPECT_NEAR(found[0].as<float>()[i], whole[0].as<float>()[i / 10 * 6 + i % 10 * 5 % 6], 1e-5) << i;
}

// 300^6 ways lead from the mean to the input: what looks for bytes there gives up, and does not look for years.
TEST(QuantisedMean, OfValuesThatAreReadOftenIsBuilt) {
    std::string text = "opset 13\ninput %x: float32[1, 3, 6]\nconst %s: float32[] = {0.03}\nconst %z: uint8[] = {121}\n"
                       "%q = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n%v0 = Relu(%x)\n";
    for (int i = 0; i < 6; ++i) {
        const std::string value = "%v" + std::to_string(i);
        text += "%v" + std::to_string(i + 1) + " = Max(" + value;
        for (int more = 1; more < 300; ++more)
            text += ", " + value;
        text += ")\n";
    }
    HostTensor x("x", DataType::float32, {1, 3, 6});
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    const auto found = outputs_of(text + "%y = ReduceMean(%v6) {axes = [1]}\noutput %y: float32[1, 1, 6]\n"
                                         "output %v0: float32[1, 3, 6]\noutput %d: float32[1, 3, 6]\n",
                                  {x});
    ASSERT_EQ(found.size(), 3U);
    const auto of = found[1].as<float>();
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_NEAR(found[0].as<float>()[i], (of[i] + of[i + 6] + of[i + 12]) / 3, 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(Table, QuantisedNeighbours, testing::ValuesIn(neighbour_cases()),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
