// What is added to the result of an attention without a projection, or of a group normalisation: OpenVINO gathers these
// in kernels of their own, and read through a null pointer where a kernel of elementwise operators was to take such a
// result.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

const std::string attention =
    "const %c: float32[] = {0.5}\n%k = Transpose(%x) {perm = [0, 2, 1]}\n%s = MatMul(%x, %k)\n"
    "%m = Mul(%s, %c)\n%w = Softmax(%m) {axis = -1}\n%a = MatMul(%w, %x)\n";
const std::string group_norm = "const %g: float32[8] = {1, 2, 0.5, -1, 1, 3, 1, 0.1}\n"
                               "const %b: float32[8] = {0, 1, 0, -1, 0.5, 0, 2, 0}\n"
                               "%a = GroupNormalization(%x, %g, %b) {num_groups = 4}\n";

struct Residual {
    std::string name;
    std::string before; ///< makes %a of %x
    std::string after;  ///< makes %y, %v and what they need of %a and %z
    std::string batch = "N";
};
std::ostream& operator<<(std::ostream& stream, const Residual& residual) { return stream << residual.name; }

std::vector<Residual> residual_cases() {
    const std::string two = "%y = Relu(%o)\n%v = Tanh(%o)\n", other = "%e = Exp(%z)\n%t = Tanh(%e)\n";
    const std::string sum = "%o = Add(%a, %t)\n";
    return {
        {"SumReadTwice", attention, other + sum + two},
        {"SumReadTwiceOfAFixedBatch", attention, other + sum + two, "3"},
        {"BehindAnActivation", attention, other + "%r = Relu(%a)\n%o = Add(%r, %t)\n" + two},
        {"BehindAnotherSum", attention,
         other + "%f = Sigmoid(%z)\n%r = Add(%a, %f)\n%q = Mul(%r, %t)\n%o = Add(%q, %e)\n" + two},
        {"Chosen", attention,
         other + "const %h: float32[] = {0.5}\n%i = Greater(%t, %h)\n%o = Where(%i, %a, %e)\n" + two},
        {"Quantised", attention,
         other + "const %ps: float32[] = {0.03}\nconst %pz: uint8[] = {121}\n" + sum +
             "%u = QuantizeLinear(%o, %ps, %pz)\n%d = DequantizeLinear(%u, %ps, %pz)\n%y = Relu(%d)\n%v = Exp(%o)\n"},
        {"GroupsAndSum", group_norm, other + sum + two},
        {"GroupsAndSumOfAFixedBatch", group_norm, other + sum + two, "3"},
        {"GroupsAndSumReadOnce", group_norm, other + sum + "%y = Relu(%o)\n%v = Tanh(%z)\n"},
        {"GroupsAndAGate", group_norm,
         other + "%r = Sigmoid(%a)\n%p = Mul(%a, %r)\n%o = Mul(%a, %t)\n%y = Add(%o, %p)\n%v = Relu(%o)\n"},
    };
}

class ResidualOfAKernel : public testing::TestWithParam<Residual> {};

TEST_P(ResidualOfAKernel, IsWhatItIsOfAnInput) {
    const Residual& residual = GetParam();
    const auto size = [&](const std::string& value) { return value + ": float32[" + residual.batch + ", 8, 5]\n"; };
    const auto run = [&](const std::string& text, std::vector<HostTensor> inputs) {
        CompileOptions options;
        options.batch_plan = BatchPlan::whole;
        for (const HostTensor& input : inputs)
            if (residual.batch == "N") options.shapes[input.name] = {{1, 8, 5}, {2, 8, 5}, {4, 8, 5}};
        const auto compiled = cpu().compile(model_from_text("opset 21\n" + text), options);
        EXPECT_TRUE(compiled) << compiled.error().describe();
        return compiled ? outputs_of(**compiled, std::move(inputs)) : std::vector<HostTensor>{};
    };
    HostTensor x("x", DataType::float32, {3, 8, 5}), z = x;
    z.name = "z";
    std::ranges::copy(noise(x.as<float>().size(), 5), x.as<float>().begin());
    std::ranges::copy(noise(z.as<float>().size(), 6), z.as<float>().begin());
    auto alone = run("input " + size("%x") + residual.before + "output " + size("%a"), {x});
    ASSERT_EQ(alone.size(), 1U);
    const std::string outputs = residual.after + "output " + size("%y") + "output " + size("%v");
    const auto wanted = run("input " + size("%a") + "input " + size("%z") + outputs, {alone[0], z});
    const auto found = run("input " + size("%x") + "input " + size("%z") + residual.before + outputs, {x, z});
    ASSERT_EQ(wanted.size(), 2U);
    ASSERT_EQ(found.size(), 2U);
    const float most = residual.name == "Quantised" ? 0.0301F : 1e-5F; // one step
    for (std::size_t output = 0; output < wanted.size(); ++output)
        for (std::size_t i = 0; i < wanted[output].as<float>().size(); ++i)
            ASSERT_NEAR(found[output].as<float>()[i], wanted[output].as<float>()[i], most) << output << " " << i;
}

INSTANTIATE_TEST_SUITE_P(Table, ResidualOfAKernel, testing::ValuesIn(residual_cases()),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
