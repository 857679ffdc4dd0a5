// Images of one dimension run as images of one row.

#include <map>

#include <gtest/gtest.h>

#include "backends/cuda/plan/cut.hpp"
#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

struct LineCase {
    const char* name;
    std::string graph; ///< of %c, what a convolution makes of the input, to %d, what another reads
    std::map<std::string, int> kinds;
    std::string last = "[16, 32, 1]"; ///< filters of the second convolution
};

/// Without conversions of inputs and outputs.
std::map<std::string, int> counts_of(const cuda::Plan& plan) {
    std::map<std::string, int> found;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        const bool ends = i == 0 || i + 1 == plan.ops.size();
        if (!ends || !std::holds_alternative<cuda::Reformat>(plan.ops[i].detail)) ++found[cuda::kind_of(plan.ops[i])];
    }
    return found;
}

const std::vector<LineCase>& line_cases() {
    static const std::vector<LineCase> list{
        {"group norm",
         "const %ones: float32[4] = {1, 1, 1, 1}\nconst %zeros: float32[4] = {0, 0, 0, 0}\n"
         "const %groups: int64[3] = {0, 4, -1}\nconst %whole: int64[3] = {2, 32, 40}\n"
         "input %w_g: float32[32, 1]\ninput %b_g: float32[32, 1]\n%r = Reshape(%c, %groups)\n"
         "%i = InstanceNormalization(%r, %ones, %zeros)\n%b = Reshape(%i, %whole)\n%m = Mul(%b, %w_g)\n"
         "%a = Add(%m, %b_g)\n%d = Relu(%a)\n",
         {{"conv", 2}, {"group_factors", 1}, {"pointwise", 1}}},
        {"instance norm",
         "input %w_g: float32[32]\ninput %b_g: float32[32]\n%i = InstanceNormalization(%c, %w_g, %b_g)\n%d = "
         "Relu(%i)\n",
         {{"conv", 2}, {"group_factors", 1}, {"pointwise", 1}}},
        {"gated halves",
         "const %axis: int64[1] = {1}\nconst %zero: int64[1] = {0}\nconst %half: int64[1] = {16}\n"
         "const %all: int64[1] = {32}\n%a = Slice(%c, %zero, %half, %axis)\n%b = Slice(%c, %half, %all, %axis)\n"
         "%t = Tanh(%a)\n%s = Sigmoid(%b)\n%d = Mul(%t, %s)\n",
         {{"conv", 2}, {"pointwise", 1}},
         "[16, 16, 1]"},
        {"a part through a convolution",
         "input %w_h: float32[16, 16, 3]\n%a, %b = Split(%c) {axis = 1, num_outputs = 2}\n"
         "%e = Conv(%b, %w_h) {pads = [1, 1]}\n%d = Concat(%a, %e) {axis = 1}\n",
         {{"conv", 3}, {"concat", 1}}},
        {"a gate of means",
         "const %axis: int64[1] = {-1}\ninput %w_h: float32[32, 32, 1]\n%m = ReduceMean(%c, %axis)\n"
         "%e = Conv(%m, %w_h)\n%s = Sigmoid(%e)\n%d = Mul(%c, %s)\n",
         {{"conv", 3}, {"global_pool", 1}, {"pointwise", 1}}},
        {"sums of residuals",
         "input %w_h: float32[32, 32, 3]\n%e = Conv(%c, %w_h) {pads = [1, 1]}\n%d = Add(%e, %c)\n",
         {{"conv", 3}}},
        {"padding at one end",
         "const %pads: int64[6] = {0, 0, 3, 0, 0, 0}\nconst %axis: int64[1] = {2}\nconst %from: int64[1] = {3}\n"
         "const %to: int64[1] = {100}\n%p = Pad(%c, %pads)\n%d = Slice(%p, %from, %to, %axis)\n",
         {{"conv", 2}, {"indexed", 1}, {"slice", 1}}},
        {"pools and factors by channel",
         "input %w_f: float32[1, 32, 1]\n%p = MaxPool(%c) {kernel_shape = [2], strides = [2]}\n%m = Mul(%p, %w_f)\n"
         "%d = Relu(%m)\n",
         {{"conv", 2}, {"pool", 1}, {"pointwise", 1}}},
        {"a transposed convolution",
         "input %w_t: float32[32, 32, 4]\n%e = ConvTranspose(%c, %w_t) {strides = [2], pads = [1, 1]}\n"
         "%d = LeakyRelu(%e) {alpha = 0.1}\n",
         {{"conv", 3}, {"transpose", 1}}},
    };
    return list;
}

std::string text_of(const LineCase& given) {
    return "opset 18\ninput %x: float32[2, 8, 40]\ninput %w_c: float32[32, 8, 3]\ninput %w_d: float32" + given.last +
           "\n%c = Conv(%x, %w_c) {pads = [1, 1], kernel_shape = [3]}\n" + given.graph +
           "%y = Conv(%d, %w_d)\noutput %y: float32[2, 16, l]\n";
}

class Lines : public testing::TestWithParam<LineCase> {};

TEST_P(Lines, RunAsImagesOfOneRow) {
    const Model model = network(text_of(GetParam()));
    const std::vector<Shape> shapes{{2, 8, 40}};
    auto inputs = random_inputs(model, shapes);
    const cuda::Plan plan = plan_of(model, Precision::float16, shapes);
    EXPECT_EQ(counts_of(plan), GetParam().kinds) << cuda::print(plan);
    const auto expected = run_on_cpu(model, inputs);
    EXPECT_LT(relative_difference(expected[0], interpreted(plan, inputs, false)[0]), 1e-3) << cuda::print(plan);
    const cuda::Plan exact = plan_of(model, Precision::float32, shapes);
    EXPECT_LT(relative_difference(expected[0], interpreted(exact, inputs, true)[0]), 1e-5) << cuda::print(exact);
}

INSTANTIATE_TEST_SUITE_P(Cases, Lines, testing::ValuesIn(line_cases()), [](const auto& info) {
    std::string name = info.param.name;
    for (char& c : name)
        if (c == ' ') c = '_';
    return name;
});

// A mean that drops its axis, and the linear layer behind it.
TEST(Lines, MeansLeaveTheRow) {
    const Model model = network("opset 18\ninput %x: float32[2, 8, 40]\ninput %w_c: float32[32, 8, 3]\n"
                                "input %w_d: float32[32, 16]\nconst %axis: int64[1] = {2}\n%c = Conv(%x, %w_c)\n"
                                "%m = ReduceMax(%c, %axis) {keepdims = 0}\n%y = MatMul(%m, %w_d)\n"
                                "output %y: float32[2, 16]\n");
    const std::vector<Shape> shapes{{2, 8, 40}};
    auto inputs = random_inputs(model, shapes);
    const cuda::Plan plan = plan_of(model, Precision::float16, shapes);
    EXPECT_EQ(counts_of(plan), (std::map<std::string, int>{{"conv", 1}, {"global_pool", 1}, {"gemm", 1}}))
        << cuda::print(plan);
    EXPECT_LT(relative_difference(run_on_cpu(model, inputs)[0], interpreted(plan, inputs, false)[0]), 1e-3);
}

// int8 by Q/DQ, a residual in the epilogue.
TEST(Lines, MultiplyInt8) {
    std::string text = "opset 18\ninput %x: float32[2, 16, 40]\ninput %s_x: float32[]\ninput %z_x: int8[]\n"
                       "input %b_a: float32[16]\ninput %b_b: float32[16]\n%xq = QuantizeLinear(%x, %s_x, %z_x)\n"
                       "%xd = DequantizeLinear(%xq, %s_x, %z_x)\n";
    for (const char* each : {"a", "b"}) {
        const std::string n = each;
        text += "input %q_" + n + ": int8[16, 16, 3]\ninput %s_" + n + ": float32[16]\ninput %z_" + n +
                ": int8[16]\n%f" + n + " = DequantizeLinear(%q_" + n + ", %s_" + n + ", %z_" + n + ") {axis = 0}\n";
    }
    text += "%a = Conv(%xd, %fa, %b_a) {pads = [1, 1]}\n%r = Relu(%a)\n%rq = QuantizeLinear(%r, %s_x, %z_x)\n"
            "%rd = DequantizeLinear(%rq, %s_x, %z_x)\n%b = Conv(%rd, %fb, %b_b) {pads = [1, 1]}\n%y = Add(%b, %xd)\n"
            "output %y: float32[2, 16, 40]\n";
    const Model model = network(text);
    const std::vector<Shape> shapes{{2, 16, 40}};
    auto inputs = random_inputs(model, shapes);
    const cuda::Plan plan = plan_of(model, Precision::int8, shapes);
    int int8 = 0;
    for (const cuda::FusedOp& op : plan.ops)
        int8 += std::holds_alternative<cuda::Conv>(op.detail) && op.compute == cuda::ElementType::s8 ? 1 : 0;
    EXPECT_EQ(int8, 2) << cuda::print(plan);
    EXPECT_EQ(counts_of(plan), (std::map<std::string, int>{{"reformat", 1}, {"conv", 2}})) << cuda::print(plan);
    EXPECT_LT(relative_difference(run_on_cpu(model, inputs)[0], interpreted(plan, inputs, true)[0]), 1e-2);
}

// What is refused of images goes to the CPU alone: here bounds that are computed.
TEST(Lines, LeaveWhatIsRefusedToTheCpuAlone) {
    const Model model = network("opset 18\ninput %x: float32[2, 16, 40]\ninput %low: float32[]\n"
                                "input %w_a: float32[16, 16, 3]\ninput %w_b: float32[16, 16, 3]\n"
                                "%a = Conv(%x, %w_a) {pads = [1, 1]}\n%r = Relu(%a)\n%p = Clip(%r, %low)\n"
                                "%t = Tanh(%p)\n%y = Conv(%t, %w_b)\noutput %y: float32[2, 16, l]\n");
    const auto cut = must(cuda::cut(model, {{2, 16, 40}, {}}, Precision::float16));
    ASSERT_EQ(cut.parts.size(), 3U);
    EXPECT_TRUE(cut.parts[0].gpu);
    EXPECT_FALSE(cut.parts[1].gpu);
    EXPECT_TRUE(cut.parts[2].gpu);
    std::vector<std::string> kinds;
    for (const auto& node : cut.parts[1].model.graph.nodes)
        kinds.push_back(node->op_type);
    EXPECT_EQ(kinds, std::vector<std::string>{"Clip"});
}

// Without a convolution there is no image.
TEST(Lines, OfTokensStayRows) {
    const Model model =
        network("opset 18\ninput %x: float32[2, 8, 40]\ninput %w_d: float32[40, 16]\n"
                "%s = Softmax(%x)\n%t = Tanh(%s)\n%y = MatMul(%t, %w_d)\noutput %y: float32[2, 8, 16]\n");
    const std::vector<Shape> shapes{{2, 8, 40}};
    EXPECT_EQ(counts_of(plan_of(model, Precision::float16, shapes)),
              (std::map<std::string, int>{{"softmax", 1}, {"pointwise", 1}, {"gemm", 1}}));
}

} // namespace
} // namespace lathe::test
