// If, Loop and Scan that shapes decide are written out: plans against the CPU engine, and what is refused and why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

struct FlowCase {
    const char* name;
    const char* text;
    std::vector<Shape> shapes;
};
void PrintTo(const FlowCase& value, std::ostream* out) { *out << value.name; }

const std::vector<FlowCase>& flow_cases() {
    static const std::vector<FlowCase> all{
        {"IfOfAConstant",
         "opset 18\ninput %x: float32[2, 3]\nconst %c: bool[] = {false}\n%a = Relu(%x)\n"
         "%y = If(%c) {then_branch = graph {\n    %t = Add(%a, %x)\n    output %t: float32[2, 3]\n"
         "}, else_branch = graph {\n    %e = Mul(%a, %x)\n    output %e: float32[2, 3]\n}}\n"
         "output %y: float32[2, 3]\n",
         {{2, 3}}},
        {"IfByASize",
         "opset 18\ninput %x: float32[N, 3]\nconst %zero: int64[] = {0}\nconst %four: int64[] = {4}\n"
         "%s = Shape(%x)\n%n = Gather(%s, %zero)\n%c = Less(%n, %four)\n"
         "%y = If(%c) {then_branch = graph {\n    %t = Neg(%x)\n    output %t: float32[N, 3]\n"
         "}, else_branch = graph {\n    %e = Relu(%x)\n    output %e: float32[N, 3]\n}}\n"
         "output %y: float32[N, 3]\n",
         {{5, 3}}},
        {"IfOfWhatIsComputed",
         "opset 18\ninput %x: float32[2, 3]\nconst %zero: float32[] = {0.0}\n"
         "%m = ReduceMax(%x) {keepdims = 0}\n%c = Greater(%m, %zero)\n"
         "%y = If(%c) {then_branch = graph {\n    %t = Neg(%x)\n    output %t: float32[2, 3]\n"
         "}, else_branch = graph {\n    %e = Relu(%x)\n    output %e: float32[2, 3]\n}}\n"
         "output %y: float32[2, 3]\n",
         {{2, 3}}},
        {"Loop",
         "opset 18\ninput %x: float32[2, 3]\nconst %rounds: int64[] = {3}\nconst %go: bool[] = {true}\n"
         "%last, %all = Loop(%rounds, %go, %x) {body = graph {\n"
         "    input %i: int64[]\n    input %c: bool[]\n    input %s: float32[2, 3]\n"
         "    const %half: float32[] = {0.5}\n    %d = Identity(%c)\n    %f = Cast(%i) {to = 1}\n"
         "    %t = Add(%s, %f)\n    %u = Mul(%t, %x)\n    %v = Mul(%u, %half)\n"
         "    output %d: bool[]\n    output %t: float32[2, 3]\n    output %v: float32[2, 3]\n}}\n"
         "output %last: float32[2, 3]\noutput %all: float32[3, 2, 3]\n",
         {{2, 3}}},
        {"LoopWithIfInside",
         "opset 18\ninput %x: float32[2, 3]\nconst %rounds: int64[] = {4}\nconst %two: int64[] = {2}\n"
         "%last = Loop(%rounds, , %x) {body = graph {\n"
         "    input %i: int64[]\n    input %c: bool[]\n    input %s: float32[2, 3]\n"
         "    const %true: bool[] = {true}\n    %d = Identity(%true)\n    %e = Less(%i, %two)\n"
         "    %t = If(%e) {then_branch = graph {\n        %a = Add(%s, %x)\n        output %a: float32[2, 3]\n"
         "    }, else_branch = graph {\n        %b = Mul(%s, %x)\n        output %b: float32[2, 3]\n    }}\n"
         "    output %d: bool[]\n    output %t: float32[2, 3]\n}}\n"
         "output %last: float32[2, 3]\n",
         {{2, 3}}},
        {"Scan",
         "opset 18\ninput %x: float32[2, 4, 3]\ninput %h: float32[2, 3]\n"
         "%last, %all = Scan(%h, %x) {num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], "
         "body = graph {\n    input %s: float32[2, 3]\n    input %r: float32[2, 3]\n"
         "    %t = Mul(%s, %r)\n    %u = Add(%t, %r)\n    %v = Neg(%u)\n"
         "    output %u: float32[2, 3]\n    output %v: float32[2, 3]\n}}\n"
         "output %last: float32[2, 3]\noutput %all: float32[2, 4, 3]\n",
         {{2, 4, 3}, {2, 3}}},
        {"ScanBackwards",
         "opset 18\ninput %x: float32[4, 2, 3]\ninput %h: float32[2, 3]\n"
         "%last, %all = Scan(%h, %x) {num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], "
         "body = graph {\n    input %s: float32[2, 3]\n    input %r: float32[2, 3]\n"
         "    %t = Sub(%s, %r)\n    %u = Identity(%t)\n"
         "    output %t: float32[2, 3]\n    output %u: float32[2, 3]\n}}\n"
         "output %last: float32[2, 3]\noutput %all: float32[4, 2, 3]\n",
         {{4, 2, 3}, {2, 3}}},
        {"ProductsInBranches",
         "opset 18\ninput %x: float32[2, 3]\nconst %zero: float32[] = {0.0}\n"
         "const %turn: float32[3, 3] = {0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0}\n"
         "%m = ReduceMax(%x) {keepdims = 0}\n%c = Greater(%m, %zero)\n"
         "%y = If(%c) {then_branch = graph {\n    %t = MatMul(%x, %turn)\n    output %t: float32[2, 3]\n"
         "}, else_branch = graph {\n    %e = Relu(%x)\n    output %e: float32[2, 3]\n}}\noutput %y: float32[2, 3]\n",
         {{2, 3}}},
        // Operators that are some others, behind others' bodies.
        {"NormalizationInAScan",
         "opset 18\ninput %x: float32[4, 2, 3]\ninput %h: float32[2, 3]\n"
         "%last, %all = Scan(%h, %x) {num_scan_inputs = 1, body = graph {\n    input %s: float32[2, 3]\n"
         "    input %r: float32[2, 3]\n    %u = Add(%s, %r)\n    %t = LpNormalization(%u) {axis = 1}\n"
         "    %v = Identity(%t)\n    output %t: float32[2, 3]\n    output %v: float32[2, 3]\n}}\n"
         "output %last: float32[2, 3]\noutput %all: float32[4, 2, 3]\n",
         {{4, 2, 3}, {2, 3}}},
    };
    return all;
}

class ControlFlow : public testing::TestWithParam<FlowCase> {};

TEST(ControlFlowBranches, ThatAreBothComputedAreTold) {
    for (const FlowCase& test : flow_cases()) {
        const std::string name = test.name;
        if (name != "IfByASize" && name != "IfOfWhatIsComputed") continue;
        auto prepared = must(cuda::prepare(network(test.text), Precision::float32));
        must(cuda::lower(prepared, test.shapes));
        EXPECT_EQ(prepared.weights->both_branches.empty(), name == "IfByASize") << prepared.weights->both_branches;
    }
}

TEST_P(ControlFlow, GivesWhatTheCpuGives) {
    const FlowCase& test = GetParam();
    const Model model = network(test.text);
    auto inputs = random_inputs(model, test.shapes);
    const cuda::Plan plan = plan_of(model, Precision::float32, test.shapes);
    const auto expected = run_on_cpu(model, inputs);
    const auto found = interpreted(plan, inputs, true);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].shape, expected[i].shape);
        EXPECT_LT(relative_difference(expected[i], found[i]), 1e-5) << cuda::print(plan);
    }
}
INSTANTIATE_TEST_SUITE_P(All, ControlFlow, testing::ValuesIn(flow_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

std::string refusal_of(const std::string& text, const std::vector<Shape>& shapes) {
    auto prepared = cuda::prepare(network(text), Precision::float32);
    if (!prepared) return prepared.error().describe();
    const auto plan = cuda::lower(*prepared, shapes);
    return plan ? "" : plan.error().describe();
}

std::string loop(const std::string& inputs, const std::string& operands, const std::string& condition) {
    return "opset 18\ninput %x: float32[2, 3]\n" + inputs + "%last = Loop(" + operands +
           ", %x) {body = graph {\n    input %i: int64[]\n    input %c: bool[]\n    input %s: float32[2, 3]\n" +
           condition + "    %t = Add(%s, %x)\n    output %d: bool[]\n    output %t: float32[2, 3]\n}}\n" +
           "output %last: float32[2, 3]\n";
}

TEST(ControlFlowRefusals, SayWhatIsNotKnown) {
    EXPECT_THAT(refusal_of(loop("input %m: int64[]\n", "%m, ", "    %d = Identity(%c)\n"), {{2, 3}, {}}),
                testing::HasSubstr("number of rounds m is known only once the model runs"));
    EXPECT_THAT(refusal_of(loop("const %m: int64[] = {9}\nconst %l: float32[] = {1.0}\n", "%m, ",
                                "    %q = ReduceMax(%s) {keepdims = 0}\n    %d = Less(%q, %l)\n"),
                           {{2, 3}}),
                testing::HasSubstr("may end early"));
    EXPECT_THAT(refusal_of(loop("const %m: int64[] = {100000}\n", "%m, ", "    %d = Identity(%c)\n"), {{2, 3}}),
                testing::HasSubstr("pass the limit of 8192 nodes"));
}

TEST(ControlFlowRefusals, BranchesOfOtherShapes) {
    const std::string text =
        "opset 18\ninput %x: float32[2, 3]\nconst %zero: float32[] = {0.0}\nconst %axes: int64[1] = {1}\n"
        "%m = ReduceMax(%x) {keepdims = 0}\n%c = Greater(%m, %zero)\n"
        "%y = If(%c) {then_branch = graph {\n    %t = ReduceSum(%x, %axes)\n    output %t: float32[2, 1]\n"
        "}, else_branch = graph {\n    %e = Relu(%x)\n    output %e: float32[2, 3]\n}}\noutput %y: float32[2, ?]\n";
    const std::string why = refusal_of(text, {{2, 3}});
    EXPECT_THAT(why, testing::HasSubstr("different or unknown shapes"));
    EXPECT_THAT(why, testing::HasSubstr("--allow-fallback"));
}

TEST(ControlFlow, LargeConstantsOfABranchLeaveTheModelAsOthersDo) {
    Model model =
        network("opset 18\ninput %x: float32[2, 200]\nconst %zero: int64[] = {0}\nconst %four: int64[] = {4}\n"
                "%s = Shape(%x)\n%n = Gather(%s, %zero)\n%c = Less(%n, %four)\n"
                "%y = If(%c) {then_branch = graph {\n    %t = MatMul(%x, %w_big)\n    output %t: float32[2, 200]\n"
                "}, else_branch = graph {\n    %e = Relu(%x)\n    output %e: float32[2, 200]\n}}\noutput %y: "
                "float32[2, 200]\n");
    const std::vector<float> weight(200 * 200, 0.01F);
    for (const auto& node : model.graph.nodes) {
        const Attribute* branch = node->attribute("then_branch");
        if (branch == nullptr) continue;
        Graph& body = *std::get<GraphBox>(branch->value);
        body.initializers.emplace("w_big", Tensor::of_floats("w_big", {200, 200}, weight));
    }
    auto prepared = cuda::prepare(model, Precision::float32);
    ASSERT_TRUE(prepared) << prepared.error().describe();
    ASSERT_EQ(prepared->large.size(), 1U);
    EXPECT_EQ(prepared->large.begin()->second.shape(), (Shape{200, 200}));
    const auto plan = cuda::lower(*prepared, {{2, 200}});
    ASSERT_TRUE(plan) << plan.error().describe();
    EXPECT_THAT(cuda::print(*plan), testing::HasSubstr("gemm"));
}

} // namespace
} // namespace lathe::test
