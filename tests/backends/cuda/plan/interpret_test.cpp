#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "backends/cuda/plan/audit.hpp"
#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

struct NetworkCase {
    std::string name, text;
    std::vector<Shape> shapes;
};

/// GoogleTest names a parameter by this.
void PrintTo(const NetworkCase& c, std::ostream* out) { *out << c.name; }

class FloatNetworks : public testing::TestWithParam<NetworkCase> {};

std::vector<NetworkCase> float_networks() {
    return {{"Residual", residual_network(), {{2, 3, 32, 32}}},
            {"Depthwise", depthwise_network(), {{2, 3, 24, 24}}},
            {"Gated", gated_network(), {{2, 8, 10, 10}}},
            {"Normalised", normalised_network(), {{2, 8, 10, 10}, {2, 30, 24}}},
            {"Decoder", decoder_network(HeadProducts::three), {{3, 6, 40}, {3, 6}}},
            {"BiasedDecoder", decoder_network(HeadProducts::biased), {{3, 6, 40}, {3, 6}}},
            {"MergedDecoder", decoder_network(HeadProducts::one), {{3, 6, 40}, {3, 6}}},
            {"Windowed", windowed_network(), {{2, 3, 8, 40}}},
            {"PixelAttention", pixel_attention_network(), {{2, 16, 6, 6}}},
            {"AreaAttention", area_attention_network(), {{2, 16, 6, 6}}},
            {"WideValues", wide_values_network(), {{2, 9, 24}}},
            {"Branched", branched_network(), {{2, 6, 8, 8}}},
            {"Moved", moved_network(), {{2, 6, 8, 6}}},
            {"Parted", parted_network(), {{2, 3, 16, 16}}},
            {"Encoder", encoder(false), {{3, 8}, {3, 8}}},
            {"EncoderSplitScale", encoder(true), {{2, 16}, {2, 16}}}};
}
INSTANTIATE_TEST_SUITE_P(All, FloatNetworks, testing::ValuesIn(float_networks()),
                         [](const auto& info) { return info.param.name; });

TEST_P(FloatNetworks, FusionChangesNothing) {
    const Model model = network(GetParam().text);
    auto inputs = random_inputs(model, GetParam().shapes);
    const auto expected = run_on_cpu(model, inputs);
    // In every storage type: without rounding the same network remains. Weights alone are rounded.
    for (const auto& [precision, limit] :
         {std::pair{Precision::float32, 1e-5}, {Precision::float16, 3e-3}, {Precision::bfloat16, 2e-2}}) {
        const auto plan = plan_of(model, precision, GetParam().shapes);
        const auto actual = interpreted(plan, inputs, false);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i)
            EXPECT_LE(relative_difference(expected[i], actual[i]), limit) << to_string(precision) << " output " << i;
    }
}

TEST_P(FloatNetworks, RoundingStaysSmall) {
    const Model model = network(GetParam().text);
    auto inputs = random_inputs(model, GetParam().shapes);
    const auto expected = run_on_cpu(model, inputs);
    for (const auto& [precision, limit] :
         {std::pair{Precision::float32, 1e-5}, {Precision::float16, 1e-2}, {Precision::bfloat16, 5e-2}}) {
        const auto actual = interpreted(plan_of(model, precision, GetParam().shapes), inputs, true);
        for (std::size_t i = 0; i < actual.size(); ++i)
            EXPECT_LE(relative_difference(expected[i], actual[i]), limit) << to_string(precision) << " output " << i;
    }
}

// FP16 at the borders of a float32 network, as a decoder's states are given, costs no pass over memory.
TEST(Casts, BetweenTypesThatAreStoredAlikeAreNothing) {
    const Model model = network("opset 18\ninput %x: float16[2, 8]\n%f = Cast(%x) {to = 1}\n%r = Relu(%f)\n"
                                "%s = Sqrt(%r)\n%y = Cast(%s) {to = 10}\n%z = Cast(%r) {to = 10}\n"
                                "output %y: float16[2, 8]\noutput %z: float16[2, 8]\n");
    const auto plan = plan_of(model, Precision::float16, {{2, 8}});
    EXPECT_EQ(plan.ops.size(), 2U) << print(plan);
    ASSERT_EQ(plan.outputs.size(), 2U);
    EXPECT_EQ(plan.values[plan.outputs[0]].name, "y");
    EXPECT_EQ(plan.values[plan.outputs[1]].name, "z");
    // In FP32 they round.
    EXPECT_GT(plan_of(model, Precision::float32, {{2, 8}}).ops.size(), 2U);
}

// Windows are samples: a product, attention that reads heads where they lie in it, and a product.
TEST(Movement, IsNoneAroundAttentionInWindows) {
    const auto plan = plan_of(network(windowed_network()), Precision::float16, {{2, 3, 8, 40}});
    std::size_t attentions = 0, products = 0;
    for (const cuda::FusedOp& op : plan.ops) {
        attentions += std::holds_alternative<cuda::Attention>(op.detail) ? 1 : 0;
        products += std::holds_alternative<cuda::Gemm>(op.detail) ? 1 : 0;
        const std::string kind = cuda::kind_of(op);
        EXPECT_TRUE(kind != "transpose" && kind != "slice" && kind != "batched_gemm") << print(plan);
    }
    EXPECT_EQ(attentions, 1U) << print(plan);
    EXPECT_EQ(products, 2U) << print(plan);
}

// Heads are read where a convolution or product leaves them, and the result is the next one's input.
TEST(Movement, IsNoneAroundAttentionOverPixels) {
    const std::vector<std::pair<std::string, std::vector<Shape>>> networks{{pixel_attention_network(), {{2, 16, 6, 6}}},
                                                                           {area_attention_network(), {{2, 16, 6, 6}}},
                                                                           {wide_values_network(), {{2, 9, 24}}}};
    for (const auto& [text, shapes] : networks) {
        for (const Precision precision : {Precision::float16, Precision::bfloat16}) {
            const auto plan = plan_of(network(text), precision, shapes);
            std::size_t attentions = 0;
            for (const cuda::FusedOp& op : plan.ops) {
                attentions += std::holds_alternative<cuda::Attention>(op.detail) ? 1 : 0;
                const std::string kind = cuda::kind_of(op);
                EXPECT_TRUE(kind != "transpose" && kind != "slice" && kind != "batched_gemm" && kind != "softmax")
                    << print(plan);
            }
            EXPECT_EQ(attentions, 1U) << print(plan);
        }
    }
}

// Of the network's seven transpositions and reshapes none moves a byte, and the shuffle is part of the Concat.
TEST(Movement, ThatNeedNotHappenDoesNot) {
    const auto plan = plan_of(network(moved_network()), Precision::float16, {{2, 6, 8, 6}});
    for (const cuda::FusedOp& op : plan.ops)
        EXPECT_NE(std::string(cuda::kind_of(op)), "transpose") << print(plan);
    const auto joined = std::find_if(plan.ops.begin(), plan.ops.end(), [](const cuda::FusedOp& op) {
        return std::holds_alternative<cuda::Concat>(op.detail);
    });
    ASSERT_NE(joined, plan.ops.end()) << print(plan);
    const auto& concat = std::get<cuda::Concat>(joined->detail);
    EXPECT_TRUE(concat.interleaved) << print(plan);
    EXPECT_FALSE(concat.program.code.empty()) << print(plan); // the Relu
}

/// Two images joined, normalised, gated by SiLU and rounded, as networks do that normalise before they convolve.
std::string normalised_first(const std::string& activation) {
    return "opset 18\ninput %x: float32[1, 16, 4, 4]\ninput %z: float32[1, 16, 4, 4]\n"
           "input %b_g: float32[32]\ninput %b_b: float32[32]\ninput %b_m: float32[32]\ninput %s_v: float32[32]\n"
           "input %s_a: float32[]\ninput %z_a: int8[]\ninput %q_w: int8[8, 32, 1, 1]\n"
           "%p = MaxPool(%x) {kernel_shape = [1, 1]}\n%q = MaxPool(%z) {kernel_shape = [1, 1]}\n"
           "%c = Concat(%p, %q) {axis = 1}\n%n = BatchNormalization(%c, %b_g, %b_b, %b_m, %s_v)\n" +
           activation +
           "%r = QuantizeLinear(%a, %s_a, %z_a)\n%d = DequantizeLinear(%r, %s_a, %z_a)\n%f = DequantizeLinear(%q_w, "
           "%s_a, %z_a)\n"
           "%y = Conv(%d, %f)\noutput %y: float32[1, 8, 4, 4]\n";
}

// Normalisation, whatever stands behind it, the rounding and the joining are one pass over memory.
TEST(Normalisation, BeforeAConvolutionIsOnePass) {
    for (const char* activation : {"%a = Relu(%n)\n", "%t = Sigmoid(%n)\n%a = Mul(%n, %t)\n"}) {
        const Model model = network(normalised_first(activation));
        const std::vector<Shape> shapes{{1, 16, 4, 4}, {1, 16, 4, 4}};
        const auto plan = plan_of(model, Precision::int8, shapes);
        std::size_t passes = 0;
        for (const cuda::FusedOp& op : plan.ops) {
            EXPECT_FALSE(std::holds_alternative<cuda::Pointwise>(op.detail)) << print(plan);
            const auto* concat = std::get_if<cuda::Concat>(&op.detail);
            if (concat == nullptr) continue;
            ++passes;
            ASSERT_LT(concat->joined, plan.values.size()) << print(plan);
            EXPECT_EQ(plan.values[concat->joined].dims, (Shape{1, 32, 4, 4})) << print(plan);
            EXPECT_EQ(plan.values[concat->joined].type, cuda::ElementType::f16) << print(plan);
            EXPECT_EQ(plan.values[op.outputs[0]].type, cuda::ElementType::s8);
        }
        EXPECT_EQ(passes, 1U) << print(plan);
        auto inputs = random_inputs(model, shapes);
        EXPECT_LE(relative_difference(run_on_cpu(model, inputs)[0], interpreted(plan, inputs, true)[0]), 2e-2);
    }
}

// torch.onnx's dynamo exporter writes causal masks as constants of -3.4e38, which 16 bits do not hold.
TEST(Masks, OfTheLowestFloatAreClamped) {
    Model model = network("opset 18\ninput %x: float32[2, 4, 8]\ninput %w_q: float32[8, 8]\n"
                          "const %mask: float32[4, 4] = {0, -3.4028235e38, -3.4028235e38, -3.4028235e38, "
                          "0, 0, -3.4028235e38, -3.4028235e38, 0, 0, 0, -3.4028235e38, 0, 0, 0, 0}\n"
                          "%q = MatMul(%x, %w_q)\n%k = Transpose(%x) {perm = [0, 2, 1]}\n%s = MatMul(%q, %k)\n"
                          "%m = Add(%s, %mask)\n%p = Softmax(%m)\n%y = MatMul(%p, %x)\noutput %y: float32[2, 4, 8]\n");
    auto inputs = random_inputs(model, {{2, 4, 8}});
    const auto expected = run_on_cpu(model, inputs);
    for (const auto& [precision, limit] :
         {std::pair{Precision::float32, 1e-5}, {Precision::float16, 1e-2}, {Precision::bfloat16, 5e-2}}) {
        const auto plan = plan_of(model, precision, {{2, 4, 8}});
        const auto actual = interpreted(plan, inputs, true);
        EXPECT_LE(relative_difference(expected[0], actual[0]), limit) << to_string(precision);
    }
}

// A constant that is read in 16 bits is clamped when it is stored, and told.
TEST(Masks, ThatAreStoredIn16BitsAreTold) {
    const Model model = network("opset 18\ninput %x: float32[4, 4]\n"
                                "const %mask: float32[4, 4] = {0, -3.4028235e38, -3.4028235e38, -3.4028235e38, "
                                "0, 0, -3.4028235e38, -3.4028235e38, 0, 0, 0, -3.4028235e38, 0, 0, 0, 0}\n"
                                "%r = Relu(%x)\n%c = Concat(%r, %mask) {axis = 0}\n%y = Softmax(%c)\n"
                                "output %y: float32[8, 4]\n");
    const std::vector<Shape> shapes{{4, 4}};
    for (const Precision precision : {Precision::float32, Precision::float16, Precision::bfloat16}) {
        const auto plan = plan_of(model, precision, shapes);
        const auto& clamped = plan.weights->clamped;
        if (precision == Precision::float32) {
            EXPECT_TRUE(clamped.empty());
            continue;
        }
        ASSERT_TRUE(clamped.contains("mask")) << to_string(precision) << "\n" << print(plan);
        EXPECT_EQ(clamped.at("mask").elements, 6U);
        EXPECT_LT(clamped.at("mask").from, -3.4e38);
        EXPECT_EQ(clamped.at("mask").to, -30000);
        EXPECT_EQ(clamped.at("mask").type, precision == Precision::float16 ? "float16" : "bfloat16");
    }
}

// As a scalar, of which no constant is stored; what no 16-bit type lacks is not told.
TEST(Masks, ThatAreScalarsAreTold) {
    const Model model = network("opset 18\ninput %x: float32[2, 4, 8]\ninput %keep: bool[2, 4, 8]\n"
                                "const %low: float32[] = {-3.4028235e38}\nconst %small: float32[] = {-60000}\n"
                                "%m = Where(%keep, %x, %low)\n%n = Max(%m, %small)\noutput %n: float32[2, 4, 8]\n");
    const cuda::Plan plan = plan_of(model, Precision::float16, {{2, 4, 8}, {2, 4, 8}});
    ASSERT_EQ(plan.weights->clamped.size(), 1U);
    EXPECT_EQ(plan.weights->clamped.at("low").elements, 1U);
    EXPECT_EQ(plan.weights->clamped.at("low").to, -30000);
}

/// Rows of this table that are read by position mask scores, in one head and in two.
std::vector<NetworkCase> networks_with_mask_tables() {
    const std::string table = "const %table: float32[2, 8] = {0, -3.4028235e38, -3.4028235e38, -3.4028235e38, "
                              "-3.4028235e38, -3.4028235e38, -3.4028235e38, -3.4028235e38, "
                              "0, 0, -3.4028235e38, 0, 0, 0, -3.4028235e38, 0}\n";
    const std::string plain = "opset 18\ninput %x: float32[2, 8, 8]\ninput %mask_ids: int64[2, 8]\n" + table +
                              "%k = Transpose(%x) {perm = [0, 2, 1]}\n%s = MatMul(%x, %k)\n"
                              "%g = Gather(%table, %mask_ids)\n%m = Add(%s, %g)\n%p = Softmax(%m)\n"
                              "%y = MatMul(%p, %x)\noutput %y: float32[2, 8, 8]\n";
    const std::string heads = "opset 18\ninput %x: float32[2, 8, 8]\ninput %mask_ids: int64[8]\n" + table +
                              "const %split: int64[4] = {2, 8, 2, 4}\nconst %axes: int64[2] = {0, 1}\n"
                              "const %joined: int64[3] = {2, 8, 8}\nconst %root: float32[] = {0.5}\n"
                              "%h = Reshape(%x, %split)\n%q = Transpose(%h) {perm = [0, 2, 1, 3]}\n"
                              "%k = Transpose(%h) {perm = [0, 2, 3, 1]}\n%v = Transpose(%h) {perm = [0, 2, 1, 3]}\n"
                              "%s = MatMul(%q, %k)\n%c = Mul(%s, %root)\n%g = Gather(%table, %mask_ids)\n"
                              "%u = Unsqueeze(%g, %axes)\n%m = Add(%c, %u)\n%p = Softmax(%m)\n%o = MatMul(%p, %v)\n"
                              "%t = Transpose(%o) {perm = [0, 2, 1, 3]}\n%y = Reshape(%t, %joined)\n"
                              "output %y: float32[2, 8, 8]\n";
    return {{"OneHead", plain, {{2, 8, 8}, {2, 8}}}, {"TwoHeads", heads, {{2, 8, 8}, {8}}}};
}

class MaskTables : public testing::TestWithParam<NetworkCase> {};
INSTANTIATE_TEST_SUITE_P(All, MaskTables, testing::ValuesIn(networks_with_mask_tables()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MaskTables, ReadByGatherAreClamped) {
    const Model model = network(GetParam().text);
    auto inputs = random_inputs(model, GetParam().shapes);
    const auto expected = run_on_cpu(model, inputs);
    for (const auto& [precision, limit] :
         {std::pair{Precision::float32, 1e-5}, {Precision::float16, 1e-2}, {Precision::bfloat16, 5e-2}}) {
        SCOPED_TRACE(to_string(precision));
        const auto plan = plan_of(model, precision, GetParam().shapes);
        const auto actual = interpreted(plan, inputs, true);
        EXPECT_LE(relative_difference(expected[0], actual[0]), limit) << print(plan);
        const auto& clamped = plan.weights->clamped;
        ASSERT_EQ(clamped.contains("table"), precision != Precision::float32) << print(plan);
        if (precision == Precision::float32) continue;
        EXPECT_EQ(clamped.at("table").elements, 9U);
        EXPECT_EQ(clamped.at("table").to, -30000);
    }
}

// Elsewhere such numbers mean what they say: the build is refused, as before.
TEST(MaskTable, ThatIsNotAddedToScoresIsRefused) {
    const std::string head = "opset 18\ninput %x: float32[2, 4]\ninput %mask_ids: int64[2]\n"
                             "const %table: float32[2, 4] = {0, -3.4028235e38, 1, 2, 0, 0, 0, 0}\n"
                             "%g = Gather(%table, %mask_ids)\n%m = Add(%x, %g)\n";
    for (const std::string tail : {"%y = Relu(%m)\noutput %y: float32[2, 4]\n",
                                   "%y = Softmax(%m)\noutput %y: float32[2, 4]\noutput %m: float32[2, 4]\n",
                                   "%y = Softmax(%m)\n%z = Mul(%m, %x)\noutput %y: float32[2, 4]\n"
                                   "output %z: float32[2, 4]\n"}) {
        auto prepared = cuda::prepare(network(head + tail), Precision::float16);
        ASSERT_TRUE(prepared) << prepared.error().describe();
        const auto plan = cuda::lower(*prepared, {{2, 4}, {2}});
        ASSERT_FALSE(plan) << tail;
        EXPECT_NE(plan.error().describe().find("does not fit FP16"), std::string::npos) << plan.error().describe();
    }
}

TEST(QuantisedNetwork, ComputesWhatTheGraphSays) {
    const Model model = network(quantised_network());
    auto inputs = random_inputs(model, {{2, 3, 32, 32}});
    const auto expected = run_on_cpu(model, inputs);
    const auto plan = plan_of(model, Precision::int8, {{2, 3, 32, 32}});
    const auto actual = interpreted(plan, inputs, true);
    // The stem is rounded to FP16 here, so that a few values fall on the other side of a step of int8.
    EXPECT_LE(relative_difference(expected[0], actual[0]), 0.03);
    // With an FP32 stem only sums in another order differ.
    const auto exact = interpreted(plan_of(model, Precision::float32, {{2, 3, 32, 32}}), inputs, true);
    EXPECT_LE(relative_difference(expected[0], exact[0]), 2e-3);
}

TEST(QuantisedPerceptron, ComputesWhatTheGraphSays) {
    const Model model = network(quantised_perceptron());
    auto inputs = random_inputs(model, {{2, 6, 32}});
    const auto expected = run_on_cpu(model, inputs);
    const auto exact = interpreted(plan_of(model, Precision::float32, {{2, 6, 32}}), inputs, true);
    EXPECT_LE(relative_difference(expected[0], exact[0]), 5e-3);
    const auto rounded = interpreted(plan_of(model, Precision::int8, {{2, 6, 32}}), inputs, true);
    EXPECT_LE(relative_difference(expected[0], rounded[0]), 2e-2);
}

TEST(Audit, CountsMultiplicationsByTheirPrecision) {
    const auto plan = plan_of(network(quantised_network()), Precision::int8, {{1, 3, 32, 32}});
    const auto audit = cuda::audit(plan, Precision::int8);
    ASSERT_EQ(audit.rows.size(), 6);
    EXPECT_EQ(audit.rows[0].precision, "fp16");
    EXPECT_EQ(audit.rows[0].macs, 16 * 16 * 16 * 3 * 49);
    EXPECT_NEAR(audit.share("int8") + audit.share("fp16"), 1, 1e-12);
    // The stem is most of this small network.
    const auto refused = cuda::check(audit, Precision::int8, false);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().describe().find("stem"), std::string::npos);
    EXPECT_TRUE(cuda::check(audit, Precision::int8, true));
    EXPECT_TRUE(cuda::check(
        cuda::audit(plan_of(network(residual_network()), Precision::float16, {{1, 3, 32, 32}}), Precision::float16),
        Precision::float16, false));
}

} // namespace
} // namespace lathe::test
