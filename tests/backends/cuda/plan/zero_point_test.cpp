#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"
#include "graph/graph.hpp"
#include "onnx/onnx.hpp"
#include "quantize/insert.hpp"
#include "quantize/placement.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// Residual blocks with a padded 3x3, a skip, a downsampling block of strided 1x1 convolutions, a branch read by a
/// padded and an unpadded convolution, and a perceptron.
std::string float_network() {
    std::string text = "opset 18\ninput %x: float32[N, 32, 9, 9]\nconst %low: float32[] = {0.0}\n"
                       "const %high: float32[] = {2.0}\n";
    const auto weight = [&](const std::string& name, const std::string& shape, const std::string& channels) {
        text += "input %w_" + name + ": float32[" + shape + "]\ninput %b_" + name + ": float32[" + channels + "]\n";
    };
    weight("a", "16, 32, 1, 1", "16");
    weight("b", "16, 16, 3, 3", "16");
    weight("c", "32, 16, 1, 1", "32");
    weight("e", "24, 32, 1, 1", "24");
    weight("f", "32, 24, 1, 1", "32");
    weight("d", "40, 32, 1, 1", "40");
    weight("g", "40, 32, 1, 1", "40");
    weight("h", "40, 1, 3, 3", "40");
    weight("i", "40, 40, 1, 1", "40");
    weight("j", "40, 40, 3, 3", "40");
    weight("k", "40, 40, 1, 1", "40");
    weight("up", "40, 32", "32");
    weight("down", "16, 32", "16");
    return text + "%a = Conv(%x, %w_a, %b_a)\n%a_r = Relu(%a)\n"
                  "%b = Conv(%a_r, %w_b, %b_b) {pads = [1, 1, 1, 1]}\n%b_r = Relu(%b)\n"
                  "%c = Conv(%b_r, %w_c, %b_c)\n%sum = Add(%c, %x)\n%sum_r = Relu(%sum)\n"
                  "%e = Conv(%sum_r, %w_e, %b_e)\n%e_k = Clip(%e, %low, %high)\n"
                  "%f = Conv(%e_k, %w_f, %b_f)\n%sum2 = Add(%sum_r, %f)\n%sum2_r = Relu(%sum2)\n"
                  "%d = Conv(%sum2_r, %w_d, %b_d) {strides = [2, 2]}\n"
                  "%g = Conv(%sum2_r, %w_g, %b_g) {strides = [2, 2]}\n%g_r = Relu(%g)\n"
                  "%h = Conv(%g_r, %w_h, %b_h) {pads = [1, 1, 1, 1], group = 40}\n%h_r = Relu(%h)\n"
                  "%i = Conv(%h_r, %w_i, %b_i)\n%sum3 = Add(%i, %d)\n%sum3_r = Relu(%sum3)\n"
                  "%j = Conv(%sum3_r, %w_j, %b_j) {pads = [1, 1, 1, 1]}\n"
                  "%k = Conv(%sum3_r, %w_k, %b_k)\n%sum4 = Add(%k, %j)\n%sum4_r = Relu(%sum4)\n"
                  "%p = GlobalAveragePool(%sum4_r)\n%flat = Flatten(%p)\n"
                  "%up = MatMul(%flat, %w_up)\n%up_b = Add(%up, %b_up)\n%up_r = Relu(%up_b)\n"
                  "%y = Gemm(%up_r, %w_down, %b_down) {transB = 1}\noutput %y: float32[N, 16]\n";
}

Model quantised(const std::string& text, float high) {
    Model model = network(text);
    if (auto inferred = infer_shapes(model); !inferred) throw std::runtime_error(inferred.error().describe());
    const auto plan = plan_quantization(model, profile_of(Target::cuda));
    if (!plan) throw std::runtime_error(plan.error().describe());
    std::map<std::string, Range> ranges;
    for (const ScaleGroup& group : plan->groups) {
        for (const std::string& name : group.ranges)
            ranges[name] = {-high, high};
    }
    auto made = insert_quantization(model, *plan, ranges, {});
    if (!made) throw std::runtime_error(made.error().describe());
    return std::move(*made);
}

std::map<std::string, std::int32_t> zero_points(const cuda::Plan& plan) {
    std::map<std::string, std::int32_t> found;
    for (const cuda::Value& value : plan.values) {
        const bool stored = value.alias_of == cuda::none && !value.name.ends_with("_dq");
        if (stored && value.type == cuda::ElementType::s8) found[value.name] = value.zero_point;
    }
    return found;
}

void expect_like_the_graph(const Model& model, const std::vector<Shape>& shapes, double limit) {
    auto inputs = random_inputs(model, shapes);
    const auto expected = run_on_cpu(model, inputs);
    const auto actual = interpreted(plan_of(model, Precision::float32, shapes), inputs, true);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_LE(relative_difference(expected[i], actual[i]), limit) << "output " << i;
}

TEST(ZeroPoint, QuantisedNetworkLowersToProductsAlone) {
    const auto plan = plan_of(quantised(float_network(), 3.0F), Precision::int8, {{2, 32, 9, 9}});
    const std::map<std::string, std::int32_t> expected{
        {"x_q", 0},         {"a_r_q", 0},    {"b_r_q", -128}, {"sum_r_q", -128}, {"e_k_q", -128},
        {"sum2_r_q", -128}, {"d_q", 0},      {"g_r_q", -128}, {"h_r_q", -128},   {"sum3_r_q", 0},
        {"j_q", 0},         {"sum4_r_q", 0}, {"p_q", 0},      {"up_r_q", -128}};
    EXPECT_EQ(zero_points(plan), expected) << print(plan);
    for (const cuda::FusedOp& op : plan.ops) {
        // The input and the pooled values change their layout; nothing with a zero point does.
        if (std::holds_alternative<cuda::Reformat>(op.detail)) {
            EXPECT_EQ(plan.values[op.inputs[0]].zero_point, 0) << op.name;
        }
        if (op.detail.index() < 3) { // Conv, Depthwise, Gemm
            EXPECT_EQ(op.compute, cuda::ElementType::s8) << op.name;
        }
        // Where the result starts at -128, saturation is the Relu; Clip at 2 of 3 stays, at 2 / (3 / 255) - 128.
        const auto* conv = std::get_if<cuda::Conv>(&op.detail);
        if (conv == nullptr) continue;
        const cuda::Value& out = plan.values[op.outputs[0]];
        const cuda::Epilogue& e = conv->epilogue;
        if (out.name == "e_k_q") {
            EXPECT_EQ(e.act, cuda::Activation::clip);
            EXPECT_EQ(e.low, -128.0F);
            EXPECT_EQ(e.high, 42.0F);
        } else if (out.zero_point != 0) {
            EXPECT_EQ(e.act, cuda::Activation::none) << out.name;
        }
    }
}

TEST(ZeroPoint, QuantisedNetworkComputesWhatTheGraphSays) {
    // Within the ranges, and with much of it cut off.
    for (const float high : {6.0F, 1.0F})
        expect_like_the_graph(quantised(float_network(), high), {{2, 32, 9, 9}}, 5e-3);
}

TEST(ZeroPoint, ClipThatFillsTheGridIsLeftToSaturation) {
    const auto plan = plan_of(quantised(float_network(), 2.0F), Precision::int8, {{1, 32, 9, 9}});
    for (const cuda::FusedOp& op : plan.ops) {
        const auto* conv = std::get_if<cuda::Conv>(&op.detail);
        if (conv == nullptr || plan.values[op.outputs[0]].name != "e_k_q") continue;
        EXPECT_EQ(conv->epilogue.act, cuda::Activation::none);
    }
}

/// YOLO's block: one half of a convolution's SiLU goes through others, is added behind the activation, and is joined.
std::string split_block() {
    return "opset 18\ninput %x: float32[N, 16, 8, 8]\ninput %w_e: float32[32, 16, 1, 1]\ninput %b_e: float32[32]\n"
           "input %w_i: float32[16, 16, 3, 3]\ninput %b_i: float32[16]\ninput %w_l: float32[24, 48, 1, 1]\n"
           "input %b_l: float32[24]\nconst %zero: int64[1] = {0}\nconst %half: int64[1] = {16}\n"
           "const %end: int64[1] = {32}\nconst %axis: int64[1] = {1}\n"
           "%p = Conv(%x, %w_e, %b_e)\n%g = Sigmoid(%p)\n%e = Mul(%p, %g)\n"
           "%low = Slice(%e, %zero, %half, %axis)\n%high = Slice(%e, %half, %end, %axis)\n"
           "%q = Conv(%high, %w_i, %b_i) {pads = [1, 1, 1, 1]}\n%k = Sigmoid(%q)\n%m = Mul(%q, %k)\n"
           "%sum = Add(%high, %m)\n%joined = Concat(%low, %high, %sum) {axis = 1}\n"
           "%y = Conv(%joined, %w_l, %b_l)\noutput %y: float32[N, 24, 8, 8]\n";
}

TEST(Int8Parts, OfABlockAreWrittenByItsConvolutions) {
    const Model model = quantised(split_block(), 3.0F);
    const auto plan = plan_of(model, Precision::int8, {{2, 16, 8, 8}});
    std::size_t convolutions = 0, parts = 0;
    for (const cuda::FusedOp& op : plan.ops) {
        const cuda::Value& out = plan.values[op.outputs[0]];
        if (const auto* conv = std::get_if<cuda::Conv>(&op.detail)) {
            ++convolutions;
            parts += out.part ? 1 : 0;
            EXPECT_EQ(op.compute, cuda::ElementType::s8) << print(plan);
            EXPECT_EQ(conv->epilogue.residual_last, conv->epilogue.residual != cuda::none);
        } else {
            EXPECT_TRUE(std::holds_alternative<cuda::Reformat>(op.detail)) << print(plan);
        }
    }
    EXPECT_EQ(convolutions, 3U);
    EXPECT_EQ(parts, 2U) << print(plan);
    EXPECT_LE(plan.ops.size(), 7U) << "input and output change their layout\n" << print(plan);
    for (const float high : {4.0F, 0.7F})
        expect_like_the_graph(quantised(split_block(), high), {{2, 16, 8, 8}}, 5e-3);
}

// What is added behind an activation finds no bias that could take its zero point out: refused, not forgotten.
TEST(Int8Parts, AForeignSkipBehindAnActivationGetsASymmetricScale) {
    const auto weights = [](const std::string& name) {
        return "input %q_" + name + ": int8[16, 16, 1, 1]\ninput %s_" + name + ": float32[16]\ninput %z_" + name +
               ": int8[16]\n";
    };
    const Model model =
        network("opset 18\ninput %x: float32[N, 16, 8, 8]\n" + weights("v") + weights("w") +
                "const %s: float32[] = {0.03}\nconst %zero: int8[] = {0}\nconst %z: int8[] = {-40}\n"
                "%x_q = QuantizeLinear(%x, %s, %zero)\n%x_dq = DequantizeLinear(%x_q, %s, %zero)\n"
                "%v = DequantizeLinear(%q_v, %s_v, %z_v) {axis = 0}\n%h = Conv(%x_dq, %v)\n"
                "%a_q = QuantizeLinear(%h, %s, %z)\n%a = DequantizeLinear(%a_q, %s, %z)\n"
                "%w = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 0}\n%c = Conv(%a, %w)\n%g = Sigmoid(%c)\n"
                "%m = Mul(%c, %g)\n%y = Add(%a, %m)\noutput %y: float32[N, 16, 8, 8]\n");
    const auto plan = plan_of(model, Precision::int8, {{2, 16, 8, 8}});
    EXPECT_EQ(zero_points(plan).at("a_q"), 0) << print(plan);
    expect_like_the_graph(model, {{2, 16, 8, 8}}, 0.05);
}

/// Any zero points, as other tools write them: a depthwise convolution without padding, a clip away from 0, a residual,
/// a product without activation.
const std::string foreign =
    "opset 18\ninput %x: float32[N, 3, 12, 12]\ninput %w_s: float32[24, 3, 3, 3]\ninput %b_s: float32[24]\n"
    "input %q_d: int8[24, 1, 3, 3]\ninput %s_d: float32[24]\ninput %z_d: int8[24]\n"
    "input %q_a: int8[32, 24, 1, 1]\ninput %s_a: float32[32]\ninput %z_a: int8[32]\ninput %b_a: float32[32]\n"
    "input %q_b: int8[32, 32, 1, 1]\ninput %s_b: float32[32]\ninput %z_b: int8[32]\n"
    "input %q_c: int8[16, 8, 3, 3]\ninput %s_c: float32[16]\ninput %z_c: int8[16]\n"
    "const %s1: float32[] = {0.02}\nconst %p1: int8[] = {-20}\nconst %s2: float32[] = {0.013}\n"
    "const %p2: int8[] = {17}\nconst %p3: int8[] = {5}\nconst %p4: int8[] = {-128}\n"
    "const %low: float32[] = {0.25}\nconst %high: float32[] = {1.0}\n"
    "%s = Conv(%x, %w_s, %b_s) {pads = [1, 1, 1, 1]}\n%sr = Relu(%s)\n"
    "%sq = QuantizeLinear(%sr, %s1, %p1)\n%sd = DequantizeLinear(%sq, %s1, %p1)\n"
    "%wd = DequantizeLinear(%q_d, %s_d, %z_d) {axis = 0}\n%d = Conv(%sd, %wd) {group = 24}\n"
    "%dk = Clip(%d, %low, %high)\n"
    "%dq = QuantizeLinear(%dk, %s2, %p2)\n%dd = DequantizeLinear(%dq, %s2, %p2)\n"
    "%wa = DequantizeLinear(%q_a, %s_a, %z_a) {axis = 0}\n%a = Conv(%dd, %wa, %b_a)\n"
    "%aq = QuantizeLinear(%a, %s1, %p3)\n%ad = DequantizeLinear(%aq, %s1, %p3)\n"
    "%wb = DequantizeLinear(%q_b, %s_b, %z_b) {axis = 0}\n%b = Conv(%ad, %wb)\n%bs = Add(%ad, %b)\n%br = Relu(%bs)\n"
    "%bq = QuantizeLinear(%br, %s2, %p4)\n%bd = DequantizeLinear(%bq, %s2, %p4)\n"
    "%wc = DequantizeLinear(%q_c, %s_c, %z_c) {axis = 0}\n"
    "%y = Conv(%bd, %wc) {group = 4, strides = [2, 2]}\noutput %y: float32[N, 16, 4, 4]\n";

TEST(ZeroPoint, ForeignOnesComputeWhatTheGraphSays) {
    const Model model = network(foreign);
    const auto plan = plan_of(model, Precision::int8, {{2, 3, 12, 12}});
    const std::map<std::string, std::int32_t> expected{{"sq", -20}, {"dq", 17}, {"aq", 5}, {"bq", -128}};
    EXPECT_EQ(zero_points(plan), expected) << print(plan);
    expect_like_the_graph(model, {{2, 3, 12, 12}}, 5e-3);
}

TEST(ZeroPoint, ForeignProductsComputeWhatTheGraphSays) {
    for (const std::string product : {"%y = MatMul(%d, %w)\n", "%y = Gemm(%d, %w, %b_g) {alpha = 0.5, beta = 2.0}\n"}) {
        const Model model = network("opset 18\ninput %x: float32[N, 24]\ninput %w_f: float32[24, 32]\n"
                                    "input %q_w: int8[32, 48]\ninput %s_w: float32[48]\ninput %z_w: int8[48]\n"
                                    "input %b_g: float32[48]\n"
                                    "const %s: float32[] = {0.02}\nconst %p: int8[] = {-90}\n"
                                    "%f = MatMul(%x, %w_f)\n%r = Relu(%f)\n%q = QuantizeLinear(%r, %s, %p)\n"
                                    "%d = DequantizeLinear(%q, %s, %p)\n"
                                    "%w = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 1}\n" +
                                    product + "output %y: float32[N, 48]\n");
        expect_like_the_graph(model, {{5, 24}}, 5e-3);
    }
}

/// Where no kernel has zero points, the symmetric scale of the same range: 157 steps of 0.02 in 127.
class SymmetricInstead : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Places, SymmetricInstead,
    testing::Values("%y = Conv(%d, %w_c) {pads = [1, 1, 1, 1]}\n", "%y = Conv(%d, %wd) {pads = [1, 1, 1, 1]}\n",
                    "%m = MaxPool(%d) {kernel_shape = [3, 3]}\n%y = Conv(%m, %wd)\n",
                    "%m = GlobalAveragePool(%d)\n%y = Conv(%m, %w_c)\n",
                    "%m = Concat(%d, %d) {axis = 1}\n%y = Exp(%m)\n", "%y = Exp(%d)\n",
                    "%l = LeakyRelu(%f)\n%lq = QuantizeLinear(%l, %s, %p)\n%y = DequantizeLinear(%lq, %s, %p)\n",
                    "%xq = QuantizeLinear(%x, %s, %p)\n%xd = DequantizeLinear(%xq, %s, %p)\n%y = Conv(%xd, %wd)\n"));

TEST_P(SymmetricInstead, NearWhatTheGraphSays) {
    const Model model = network(
        std::string("opset 18\ninput %x: float32[1, 16, 6, 6]\ninput %w_f: float32[16, 16, 1, 1]\n"
                    "input %w_c: float32[16, 16, 1, 1]\ninput %q_w: int8[16, 16, 1, 1]\ninput %s_w: float32[16]\n"
                    "input %z_w: int8[16]\nconst %s: float32[] = {0.02}\nconst %p: int8[] = {-30}\n"
                    "%wd = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 0}\n"
                    "%f = Conv(%x, %w_f)\n") +
        (std::string(GetParam()).find("%f") == std::string::npos
             ? "%r = Relu(%f)\n%q = QuantizeLinear(%r, %s, %p)\n%d = DequantizeLinear(%q, %s, %p)\n"
             : "") +
        GetParam() + "output %y: float32[N, C, H, W]\n");
    const auto plan = plan_of(model, Precision::int8, {{1, 16, 6, 6}});
    for (const auto& [name, zero_point] : zero_points(plan))
        EXPECT_EQ(zero_point, 0) << name;
    expect_like_the_graph(model, {{1, 16, 6, 6}}, 0.03);
}

TEST(ZeroPoint, VerifyFindsAnOpThatCannotTakeIt) {
    auto plan = plan_of(network(foreign), Precision::int8, {{1, 3, 12, 12}});
    ASSERT_TRUE(verify(plan));
    for (cuda::FusedOp& op : plan.ops) {
        if (auto* conv = std::get_if<cuda::Conv>(&op.detail)) conv->window.pads = {1, 1, 1, 1};
    }
    EXPECT_FALSE(verify(plan));
}

} // namespace
} // namespace lathe::test
