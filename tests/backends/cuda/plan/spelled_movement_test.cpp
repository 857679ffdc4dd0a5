// Transpositions that PyTorch writes around attention's products, and what of them is left in a plan.

#include <map>

#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

/// Of a plan without conversions of inputs and outputs.
std::map<std::string, int> kinds_of(const cuda::Plan& plan) {
    std::map<std::string, int> found;
    for (const cuda::FusedOp& op : plan.ops)
        if (!std::holds_alternative<cuda::Reformat>(op.detail)) ++found[cuda::kind_of(op)];
    return found;
}

void expect_plan(const std::string& text, const std::vector<Shape>& shapes, const std::map<std::string, int>& kinds) {
    const Model model = network("opset 18\n" + text);
    auto inputs = random_inputs(model, shapes);
    const cuda::Plan plan = plan_of(model, Precision::float16, shapes);
    EXPECT_EQ(kinds_of(plan), kinds) << cuda::print(plan);
    const auto expected = run_on_cpu(model, inputs);
    EXPECT_LT(relative_difference(expected[0], interpreted(plan, inputs, false)[0]), 1e-3) << cuda::print(plan);
    const cuda::Plan exact = plan_of(model, Precision::float32, shapes);
    EXPECT_LT(relative_difference(expected[0], interpreted(exact, inputs, true)[0]), 1e-5) << cuda::print(exact);
}

/// Heads of `value`, [L, N, E], as MultiheadAttention cuts them: [N, H, L, d], in 3 samples of 7 rows and 2 heads of 8.
std::string heads(const std::string& to, const std::string& value) {
    return "%" + to + "1 = Reshape(%" + value + ", %flat)\n%" + to + "2 = Transpose(%" + to +
           "1) {perm = [1, 0, 2]}\n%" + to + " = Reshape(%" + to + "2, %heads)\n";
}
const std::string sizes = "const %flat: int64[3] = {7, 6, 8}\nconst %heads: int64[4] = {3, 2, 7, 8}\n"
                          "const %rows: int64[2] = {21, 16}\nconst %back: int64[3] = {7, 3, 16}\n";
const std::string scores = "%kt = Transpose(%k) {perm = [0, 1, 3, 2]}\n%s = MatMul(%q, %kt)\n%p = Softmax(%s)\n"
                           "%c = MatMul(%p, %v)\n";
const std::string outputs = "%t = Transpose(%c) {perm = [2, 0, 1, 3]}\n%r = Reshape(%t, %rows)\n"
                            "%g = Gemm(%r, %w_o, %b_o) {transB = 1}\n%z = Reshape(%g, %back)\n"
                            "%o = Transpose(%z) {perm = [1, 0, 2]}\n%y = Add(%x, %o)\n";

// nn.MultiheadAttention with batch_first: one product, cut by Gather in front.
TEST(SpelledMovement, IsNoneAroundAttentionOfBatchesFirst) {
    expect_plan(
        "input %x: float32[N, 7, 16]\ninput %w_qkv: float32[16, 48]\ninput %b_qkv: float32[48]\n"
        "input %w_o: float32[16, 16]\ninput %b_o: float32[16]\n" +
            sizes +
            "const %parts: int64[4] = {7, 3, 3, 16}\nconst %first: int64[1] = {0}\n"
            "const %fourth: int64[1] = {3}\n"
            "const %zero: int64[] = {0}\nconst %one: int64[] = {1}\nconst %two: int64[] = {2}\n"
            "%a = Transpose(%x) {perm = [1, 0, 2]}\n%m = MatMul(%a, %w_qkv)\n%b = Add(%m, %b_qkv)\n"
            "%f = Reshape(%b, %parts)\n%u = Unsqueeze(%f, %first)\n%ut = Transpose(%u) {perm = [3, 1, 2, 0, 4]}\n"
            "%i = Squeeze(%ut, %fourth)\n%qi = Gather(%i, %zero)\n%ki = Gather(%i, %one)\n"
            "%vi = Gather(%i, %two)\n" +
            heads("q", "qi") + heads("k", "ki") + heads("v", "vi") + scores + outputs +
            "output %y: float32[N, 7, 16]\n",
        {{3, 7, 16}}, {{"gemm", 2}, {"attention", 1}, {"pointwise", 1}});
}

// With products of their own the three become one.
TEST(SpelledMovement, LetsProductsOfOneInputJoin) {
    std::string text = "input %x: float32[N, 7, 16]\ninput %w_o: float32[16, 16]\ninput %b_o: float32[16]\n";
    for (const char* each : {"q", "k", "v"}) {
        const std::string name = each;
        text += "input %w_" + name + ": float32[16, 16]\ninput %b_" + name + ": float32[16]\n";
    }
    text += sizes + "%a = Transpose(%x) {perm = [1, 0, 2]}\n";
    for (const char* each : {"q", "k", "v"}) {
        const std::string name = each;
        text += "%m" + name + " = MatMul(%a, %w_" + name + ")\n%i" + name + " = Add(%m" + name + ", %b_" + name + ")\n";
        text += heads(name, "i" + name);
    }
    expect_plan(text + scores + outputs + "output %y: float32[N, 7, 16]\n", {{3, 7, 16}},
                {{"gemm", 2}, {"attention", 1}, {"pointwise", 1}});
}

// Rows that others than attention read stay where the model has them.
TEST(SpelledMovement, StaysBeforeProductsThatOthersRead) {
    expect_plan("input %x: float32[3, 7, 16]\ninput %w_a: float32[16, 48]\n%a = Transpose(%x) {perm = [1, 0, 2]}\n"
                "%m = MatMul(%a, %w_a)\n%y = Softmax(%m)\noutput %y: float32[7, 3, 48]\n",
                {{3, 7, 16}}, {{"transpose", 1}, {"gemm", 1}, {"softmax", 1}});
}

TEST(SpelledMovement, OfOneChainIsOneTransposition) {
    const std::string begin = "input %x: float32[2, 3, 20]\nconst %parts: int64[4] = {3, 2, 4, 5}\n"
                              "const %whole: int64[3] = {2, 60, 1}\n%r = Softmax(%x)\n"
                              "%a = Transpose(%r) {perm = [1, 0, 2]}\n%b = Reshape(%a, %parts)\n";
    expect_plan(begin + "%c = Transpose(%b) {perm = [1, 3, 0, 2]}\n%d = Reshape(%c, %whole)\n%y = Relu(%d)\n"
                        "output %y: float32[2, 60, 1]\n",
                {{2, 3, 20}}, {{"softmax", 1}, {"transpose", 1}, {"pointwise", 1}});
    expect_plan(begin + "%c = Transpose(%b) {perm = [1, 0, 2, 3]}\n%d = Reshape(%c, %whole)\n%y = Relu(%d)\n"
                        "output %y: float32[2, 60, 1]\n",
                {{2, 3, 20}}, {{"softmax", 1}, {"pointwise", 1}});
}

// Axes that do not divide one another: both transpositions stay.
TEST(SpelledMovement, OfAxesThatDoNotFitStays) {
    expect_plan("input %x: float32[4, 6, 5]\nconst %tall: int64[3] = {3, 8, 5}\n"
                "%r = Softmax(%x)\n%a = Transpose(%r) {perm = [1, 0, 2]}\n%b = Reshape(%a, %tall)\n"
                "%c = Transpose(%b) {perm = [1, 0, 2]}\n%y = Softmax(%c)\noutput %y: float32[8, 3, 5]\n",
                {{4, 6, 5}}, {{"softmax", 2}, {"transpose", 1}});
    expect_plan("input %x: float32[6, 10, 4]\nconst %odd: int64[3] = {4, 15, 4}\n"
                "%r = Softmax(%x)\n%a = Transpose(%r) {perm = [1, 0, 2]}\n%b = Reshape(%a, %odd)\n"
                "%c = Transpose(%b) {perm = [1, 0, 2]}\n%y = Softmax(%c)\noutput %y: float32[15, 4, 4]\n",
                {{6, 10, 4}}, {{"softmax", 2}, {"transpose", 2}});
}

} // namespace
} // namespace lathe::test
