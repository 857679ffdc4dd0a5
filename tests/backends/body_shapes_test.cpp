// Bodies of Scan and Loop that say nothing of their inputs' shapes, with operators that OpenVINO wants the number of
// dimensions for.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct Turns {
    std::string name;
    std::string nodes;  ///< make %y of %x, which is float32[3, 1, 2, 3]; "(shape)" stands for that of one part
    std::string output; ///< the shape of %y
};
std::ostream& operator<<(std::ostream& stream, const Turns& turns) { return stream << turns.name; }

const std::string steps =
    "const %w: float32[2, 2, 1] = {0.5, -1, 2, 0.25}\nconst %rounds: int64[] = {3}\n"
    "const %go: bool[] = {true}\nconst %h: float32[1, 2, 3] = {0.1, 0.2, 0.3, -0.1, -0.2, -0.3}\n";
const Turns turns_cases[] = {
    {"ScanWithAConvolution",
     "%last, %y = Scan(%h, %x) {num_scan_inputs = 1, body = graph {\n    input %s: float32(shape)\n"
     "    input %r: float32(shape)\n    %a = Add(%s, %r)\n    %c = Conv(%a, %w)\n    %t = Tanh(%c)\n"
     "    %u = Softmax(%t) {axis = -1}\n    output %t: float32(shape)\n    output %u: float32(shape)\n}}\n",
     "[3, 1, 2, 3]"},
    {"LoopWithAConvolution",
     "%y = Loop(%rounds, %go, %h) {body = graph {\n    input %i: int64[]\n    input %g: bool[]\n"
     "    input %s: float32(shape)\n    %e = Identity(%g)\n    %c = Conv(%s, %w)\n    %t = Tanh(%c)\n"
     "    output %e: bool[]\n    output %t: float32(shape)\n}}\n",
     "[1, 2, 3]"},
    {"LoopInAScan",
     "%last, %y = Scan(%h, %x) {num_scan_inputs = 1, body = graph {\n    input %s: float32(shape)\n"
     "    input %r: float32(shape)\n    %a = Add(%s, %r)\n"
     "    %t = Loop(%rounds, %go, %a) {body = graph {\n        input %i: int64[]\n        input %g: bool[]\n"
     "        input %v: float32(shape)\n        %e = Identity(%g)\n        %c = Conv(%v, %w)\n        %b = Tanh(%c)\n"
     "        output %e: bool[]\n        output %b: float32(shape)\n    }}\n    %u = Neg(%t)\n"
     "    output %t: float32(shape)\n    output %u: float32(shape)\n}}\n",
     "[3, 1, 2, 3]"},
    {"AxesAroundTheBody",
     "const %axes: int64[1] = {2}\n%last, %y = Scan(%h, %x) {num_scan_inputs = 1, body = graph {\n"
     "    input %s: float32(shape)\n    input %r: float32(shape)\n    %a = Add(%s, %r)\n"
     "    %t = Loop(%rounds, %go, %a) {body = graph {\n        input %i: int64[]\n        input %g: bool[]\n"
     "        input %v: float32(shape)\n        %e = Identity(%g)\n        %m = ReduceMean(%v, %axes)\n"
     "        %c = Conv(%m, %w)\n        %b = Mul(%v, %c)\n        output %e: bool[]\n"
     "        output %b: float32(shape)\n    }}\n    %u = ReduceMax(%t, %axes)\n    %k = Mul(%u, %t)\n"
     "    output %t: float32(shape)\n    output %k: float32(shape)\n}}\n",
     "[3, 1, 2, 3]"},
};

class BodiesWithoutShapes : public testing::TestWithParam<Turns> {};

TEST_P(BodiesWithoutShapes, ComputeWhatTheyDoWithShapes) {
    HostTensor x("x", DataType::float32, {3, 1, 2, 3});
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    const auto with = [&](const std::string& shape) {
        std::string nodes = GetParam().nodes;
        for (auto at = nodes.find("(shape)"); at != std::string::npos; at = nodes.find("(shape)", at))
            nodes.replace(at, 7, shape);
        return first_output("opset 18\ninput %x: float32[3, 1, 2, 3]\n" + steps + nodes + "output %y: float32" +
                                GetParam().output + "\n",
                            {x});
    };
    const auto wanted = with("[1, 2, 3]"), found = with("");
    ASSERT_FALSE(wanted.empty());
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], 1e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(Table, BodiesWithoutShapes, testing::ValuesIn(turns_cases),
                         [](const auto& info) { return info.param.name; });

// Sizes that a body does not give back are not those of what comes in.
TEST(BodyWithoutShapes, MayGrow) {
    HostTensor x("x", DataType::float32, {1, 2});
    std::ranges::copy(std::vector<float>{1, -2}, x.as<float>().begin());
    const auto found = first_output(
        "opset 18\ninput %x: float32[1, 2]\nconst %rounds: int64[] = {3}\nconst %go: bool[] = {true}\n"
        "%l = Loop(%rounds, %go, %x) {body = graph {\n    input %i: int64[]\n    input %g: bool[]\n"
        "    input %s: float32\n    %e = Identity(%g)\n    %t = Concat(%s, %x) {axis = 0}\n    output %e: bool[]\n"
        "    output %t: float32\n}}\n%y = Relu(%l)\noutput %y: float32[N, 2]\n",
        {x});
    EXPECT_EQ(found, (std::vector<float>{1, 0, 1, 0, 1, 0, 1, 0}));
}

} // namespace
} // namespace lathe::test
