// Transpositions that PyTorch writes around attention's products, and what of them is left in a plan.

#include <map>

#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

/// Of a plan without conversions of inputs and outputs.
void expect_plan(const std::string& text, const std::vector<Shape>& shapes, const std::map<std::string, int>& kinds) {
    const Model model = network("opset 18\n" + text);
    auto inputs = random_inputs(model, shapes);
    const cuda::Plan plan = plan_of(model, Precision::float16, shapes);
    EXPECT_EQ(operations_of(plan), kinds) << cuda::print(plan);
    const auto expected = run_on_cpu(model, inputs);
    EXPECT_LT(relative_difference(expected[0], interpreted(plan, inputs, false)[0]), 1e-3) << cuda::print(plan);
    const cuda::Plan exact = plan_of(model, Precision::float32, shapes);
    EXPECT_LT(relative_difference(expected[0], interpreted(exact, inputs, true)[0]), 1e-5) << cuda::print(exact);
}

/// Heads of `value`, [L, N, E], as MultiheadAttention cuts them: [N, H, L, d], in 3 samples of 7 rows and 2 heads of 8.
std::string in_heads(const std::string& to, const std::string& value) {
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
            in_heads("q", "qi") + in_heads("k", "ki") + in_heads("v", "vi") + scores + outputs +
            "output %y: float32[N, 7, 16]\n",
        {{3, 7, 16}}, {{"gemm", 2}, {"attention", 1}, {"pointwise", 1}});
}

// The same in int8: the pair of Q and DQ stands behind the first Transpose, and before the last product.
TEST(SpelledMovement, IsNoneAroundAttentionInInt8) {
    const Model model = network(
        "opset 18\ninput %x: float32[N, 7, 16]\ninput %q_w: int8[16, 48]\ninput %s_w: float32[48]\n"
        "input %z_w: int8[48]\ninput %q_o: int8[16, 16]\ninput %s_o: float32[16]\ninput %z_o: int8[16]\n"
        "input %b_qkv: float32[48]\ninput %s_x: float32[]\ninput %z_x: int8[]\n" +
        sizes +
        "const %from: int64[1] = {0}\nconst %second: int64[1] = {16}\nconst %third: int64[1] = {32}\n"
        "const %to: int64[1] = {48}\nconst %last: int64[1] = {2}\n"
        "%fw = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 1}\n%fo = DequantizeLinear(%q_o, %s_o, %z_o) {axis = 1}\n"
        "%a = Transpose(%x) {perm = [1, 0, 2]}\n%aq = QuantizeLinear(%a, %s_x, %z_x)\n"
        "%ad = DequantizeLinear(%aq, %s_x, %z_x)\n%m = MatMul(%ad, %fw)\n%b = Add(%m, %b_qkv)\n"
        "%qi = Slice(%b, %from, %second, %last)\n%ki = Slice(%b, %second, %third, %last)\n"
        "%vi = Slice(%b, %third, %to, %last)\n" +
        in_heads("q", "qi") + in_heads("k", "ki") + in_heads("v", "vi") + scores +
        "%t = Transpose(%c) {perm = [2, 0, 1, 3]}\n%r = Reshape(%t, %back)\n%rq = QuantizeLinear(%r, %s_x, %z_x)\n"
        "%rd = DequantizeLinear(%rq, %s_x, %z_x)\n%g = MatMul(%rd, %fo)\n%y = Transpose(%g) {perm = [1, 0, 2]}\n"
        "output %y: float32[N, 7, 16]\n");
    const std::vector<Shape> shapes{{3, 7, 16}};
    auto inputs = random_inputs(model, shapes);
    const cuda::Plan plan = plan_of(model, Precision::int8, shapes);
    EXPECT_EQ(operations_of(plan), (std::map<std::string, int>{{"gemm", 2}, {"attention", 1}})) << cuda::print(plan);
    EXPECT_LT(relative_difference(run_on_cpu(model, inputs)[0], interpreted(plan, inputs, true)[0]), 2e-2);
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
        text += in_heads(name, "i" + name);
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

/// Products [B*H, S, D] in 2 samples of 7 rows and 4 heads of 8, as older BART and OPT have them, with `scores` to
/// "%s".
std::string of_heads_as_samples(const std::string& scores) {
    std::string text = "input %x: float32[N, 7, 32]\ninput %w_o: float32[32, 32]\n";
    std::string products = "const %apart: int64[4] = {2, 7, 4, 8}\nconst %samples: int64[3] = {8, 7, 8}\n"
                           "const %eight: int64[3] = {8, 7, 7}\nconst %four: int64[4] = {2, 4, 7, 7}\n"
                           "const %heads: int64[4] = {2, 4, 7, 8}\nconst %rows: int64[3] = {2, 7, 32}\n"
                           "const %scale: float32[] = {0.5}\n";
    for (const char* each : {"q", "k", "v"}) {
        const std::string n = each;
        text += "input %w_" + n + ": float32[32, 32]\ninput %b_" + n + ": float32[32]\n";
        products += "%m" + n + " = MatMul(%x, %w_" + n + ")\n%a" + n + " = Add(%m" + n + ", %b_" + n + ")\n%i" + n +
                    (n == "q" ? " = Mul(%aq, %scale)\n" : " = Identity(%a" + n + ")\n") + "%r" + n + " = Reshape(%i" +
                    n + ", %apart)\n%t" + n + " = Transpose(%r" + n + ") {perm = [0, 2, 1, 3]}\n%" + n +
                    " = Reshape(%t" + n + ", %samples)\n";
    }
    return text + products + "%kt = Transpose(%k) {perm = [0, 2, 1]}\n%p = MatMul(%q, %kt)\n" + scores +
           "%f = Softmax(%s)\n%c = MatMul(%f, %v)\n%u = Reshape(%c, %heads)\n"
           "%ut = Transpose(%u) {perm = [0, 2, 1, 3]}\n%z = Reshape(%ut, %rows)\n%y = MatMul(%z, %w_o)\n"
           "output %y: float32[N, 7, 32]\n";
}

TEST(SpelledAttention, OfHeadsAsSamplesIsOneOperation) {
    const std::map<std::string, int> kinds{{"gemm", 2}, {"attention", 1}};
    expect_plan(of_heads_as_samples("%s = Identity(%p)\n"), {{2, 7, 32}}, kinds);
    const std::string masked = of_heads_as_samples("%g = Reshape(%p, %four)\n%h = Add(%g, %mask)\n"
                                                   "%s = Reshape(%h, %eight)\n");
    std::string text = masked;
    text.insert(text.find("input %w_o"), "input %mask: float32[2, 1, 7, 7]\n");
    expect_plan(text, {{2, 7, 32}, {2, 1, 7, 7}}, kinds);
    // A mask of samples and heads in three dimensions.
    text = of_heads_as_samples("%s = Add(%mask, %p)\n");
    text.insert(text.find("input %w_o"), "input %mask: float32[8, 1, 7]\n");
    expect_plan(text, {{2, 7, 32}, {8, 1, 7}}, kinds);
    // And one of all of them.
    text = of_heads_as_samples("%s = Add(%p, %w_mask)\n");
    text.insert(text.find("input %w_o"), "input %w_mask: float32[7, 7]\n");
    expect_plan(text, {{2, 7, 32}}, kinds);
}

// With one sample the exporter leaves out a Reshape that broadcasting stands for.
TEST(SpelledAttention, OfHeadsAsSamplesMayBeginInFourDimensions) {
    const std::string rest = "const %three: int64[3] = {4, 7, 9}\n%a = Add(%p, %mask)\n%s = Reshape(%a, %three)\n"
                             "%f = Softmax(%s)\n%y = MatMul(%f, %v)\noutput %y: float32[4, 7, 8]\n";
    const std::string inputs = "input %q: float32[1, 4, 7, 8]\ninput %v: float32[4, 9, 8]\n"
                               "input %mask: float32[1, 1, 7, 9]\n";
    expect_plan(inputs + "input %k: float32[4, 9, 8]\n%kt = Transpose(%k) {perm = [0, 2, 1]}\n%p = MatMul(%q, %kt)\n" +
                    rest,
                {{1, 4, 7, 8}, {4, 9, 8}, {1, 1, 7, 9}, {4, 9, 8}}, {{"attention", 1}});
    // Turned keys of heads that are samples are no image of one sample.
    expect_plan(inputs + "input %k: float32[4, 8, 9]\n%p = MatMul(%q, %k)\n" + rest,
                {{1, 4, 7, 8}, {4, 9, 8}, {1, 1, 7, 9}, {4, 8, 9}},
                {{"batched_gemm", 2}, {"pointwise", 1}, {"softmax", 1}});
}

// MultiheadAttention that returns its weights: nothing but its operands says how many heads there are.
TEST(SpelledAttention, OfHeadsAsSamplesFindsHeadsByTheirPlaces) {
    std::string text = "input %x: float32[N, 7, 16]\ninput %w_o: float32[16, 16]\ninput %b_o: float32[16]\n";
    std::string products = sizes + "%a = Transpose(%x) {perm = [1, 0, 2]}\n";
    for (const char* each : {"q", "k", "v"}) {
        const std::string n = each;
        text += "input %w_" + n + ": float32[16, 16]\n";
        products += "%m" + n + " = MatMul(%a, %w_" + n + ")\n%r" + n + " = Reshape(%m" + n + ", %flat)\n%" + n +
                    " = Transpose(%r" + n + ") {perm = " + (n == "k" ? "[1, 2, 0]" : "[1, 0, 2]") + "}\n";
    }
    expect_plan(text + products +
                    "%s = MatMul(%q, %k)\n%p = Softmax(%s)\n%c = MatMul(%p, %v)\n"
                    "%t = Transpose(%c) {perm = [1, 0, 2]}\n%r = Reshape(%t, %rows)\n"
                    "%g = Gemm(%r, %w_o, %b_o) {transB = 1}\n%z = Reshape(%g, %back)\n"
                    "%y = Transpose(%z) {perm = [1, 0, 2]}\noutput %y: float32[N, 7, 16]\n",
                {{3, 7, 16}}, {{"gemm", 2}, {"attention", 1}});
}

/// Heads of x and of c that attend together; with `queries` of both.
std::string joint_attention(bool queries) {
    std::string text = "input %x: float32[2, 5, 32]\ninput %c: float32[2, 3, 32]\n";
    std::string nodes = "const %hx: int64[4] = {2, 5, 4, 8}\nconst %hc: int64[4] = {2, 3, 4, 8}\n";
    // Not in the same order on both sides.
    for (const char* each : {"qx", "kx", "vx", "vc", "kc", "qc"}) {
        const std::string of = each, from = of.substr(1);
        if (of == "qc" && !queries) continue;
        text += "input %w_" + of + ": float32[32, 32]\n";
        nodes += "%m" + of + " = MatMul(%" + from + ", %w_" + of + ")\n%r" + of + " = Reshape(%m" + of + ", %h" + from +
                 ")\n%t" + of + " = Transpose(%r" + of + ") {perm = [0, 2, 1, 3]}\n";
    }
    nodes += queries ? "%q = Concat(%tqx, %tqc) {axis = 2}\n" : "%q = Identity(%tqx)\n";
    return text + nodes +
           "%k = Concat(%tkx, %tkc) {axis = 2}\n%v = Concat(%tvx, %tvc) {axis = 2}\n"
           "%kt = Transpose(%k) {perm = [0, 1, 3, 2]}\n%s = MatMul(%q, %kt)\n%p = Softmax(%s)\n"
           "%y = MatMul(%p, %v)\noutput %y: float32[2, 4, r, 8]\n";
}

// Text and image (Stable Diffusion 3): queries, keys and values are joined as they lie, and once.
TEST(SpelledMovement, OfWhatIsJoinedForAttentionIsNone) {
    expect_plan(joint_attention(true), {{2, 5, 32}, {2, 3, 32}}, {{"gemm", 2}, {"concat", 1}, {"attention", 1}});
    // Where not all three are joined the products stay apart, as their parts would have to be copied.
    expect_plan(joint_attention(false), {{2, 5, 32}, {2, 3, 32}}, {{"gemm", 5}, {"concat", 2}, {"attention", 1}});
}

// Transposed parts with other orders stay.
TEST(SpelledMovement, OfPartsInOtherOrdersStays) {
    expect_plan("input %a: float32[5, 2, 3, 8]\ninput %b: float32[2, 3, 5, 8]\n%r = Softmax(%a)\n%s = Softmax(%b)\n"
                "%t = Transpose(%r) {perm = [1, 2, 0, 3]}\n%u = Transpose(%s) {perm = [0, 1, 2, 3]}\n"
                "%y = Concat(%t, %u) {axis = 3}\noutput %y: float32[2, 3, 5, 16]\n",
                {{5, 2, 3, 8}, {2, 3, 5, 8}}, {{"softmax", 2}, {"transpose", 1}, {"concat", 1}});
}

// BiFPN: feature maps are stacked along a new last axis and summed.
TEST(SpelledMovement, OfStacksThatAreSummedIsNone) {
    const std::string begin =
        "input %x: float32[2, 8, 5, 6]\ninput %w_a: float32[16, 8, 1, 1]\n"
        "input %w_b: float32[16, 8, 1, 1]\nconst %end: int64[1] = {4}\nconst %w: float32[2] = {2, -3}\n"
        "const %first: int64[1] = {0}\n"
        "%a = Conv(%x, %w_a)\n%b = Conv(%x, %w_b)\n%p = Sigmoid(%a)\n";
    const std::vector<Shape> shapes{{2, 8, 5, 6}};
    const std::string end = "output %y: float32[2, 16, 5, 6]\n";
    const std::map<std::string, int> kinds{{"conv", 2}, {"pointwise", 1}};
    expect_plan(begin +
                    "%q = Unsqueeze(%p, %end)\n%r = Unsqueeze(%b, %end)\n%s = Concat(%q, %r) {axis = -1}\n"
                    "%t = Mul(%s, %w)\n%y = ReduceSum(%t, %end) {keepdims = 0}\n" +
                    end,
                shapes, kinds);
    expect_plan(begin +
                    "%q = Unsqueeze(%p, %first)\n%r = Unsqueeze(%b, %first)\n%s = Concat(%q, %r, %q) {axis = 0}\n"
                    "%t = ReduceMean(%s, %first) {keepdims = 0}\n%y = Relu(%t)\n" +
                    end,
                shapes, kinds);
    expect_plan(begin +
                    "%q = Unsqueeze(%p, %end)\n%r = Unsqueeze(%b, %end)\n%s = Concat(%q, %r) {axis = 4}\n"
                    "%y = ReduceMax(%s, %end) {keepdims = 0}\n" +
                    end,
                shapes, kinds);
}

// Parts that are longer than one are no stack.
TEST(SpelledMovement, OfSumsOverJoinedPartsStays) {
    expect_plan("input %x: float32[2, 4, 8]\ninput %z: float32[2, 3, 8]\nconst %one: int64[1] = {1}\n"
                "%a = Softmax(%x)\n%b = Softmax(%z)\n%s = Concat(%a, %b) {axis = 1}\n"
                "%y = ReduceSum(%s, %one) {keepdims = 0}\noutput %y: float32[2, 8]\n",
                {{2, 4, 8}, {2, 3, 8}}, {{"softmax", 2}, {"concat", 1}, {"reduce", 1}});
}

// Heads of detectors: channels to the end in one pass, also where they are padded.
TEST(SpelledMovement, OfPaddedChannelsIsOnePass) {
    expect_plan(
        "input %x: float32[2, 8, 5, 6]\ninput %w_a: float32[36, 8, 1, 1]\nconst %boxes: int64[3] = {2, 270, 4}\n"
        "%a = Conv(%x, %w_a)\n%t = Transpose(%a) {perm = [0, 2, 3, 1]}\n%b = Reshape(%t, %boxes)\n"
        "%y = Softmax(%b)\noutput %y: float32[2, 270, 4]\n",
        {{2, 8, 5, 6}}, {{"conv", 1}, {"transpose", 1}, {"softmax", 1}});
}

// And where they are part of an image.
TEST(SpelledMovement, OfPartsOfImagesReadsThemInPlace) {
    expect_plan("input %x: float32[2, 8, 5, 6]\ninput %w_a: float32[48, 8, 1, 1]\ninput %w_b: float32[8, 16, 1, 1]\n"
                "const %zero: int64[1] = {0}\nconst %some: int64[1] = {16}\nconst %from: int64[1] = {32}\n"
                "const %end: int64[1] = {48}\nconst %axis: int64[1] = {1}\nconst %rows: int64[3] = {2, 120, 4}\n"
                "const %flat: int64[3] = {2, 60, 4}\n"
                "%a = Conv(%x, %w_a)\n%p = Slice(%a, %zero, %some, %axis)\n%t = Transpose(%p) {perm = [0, 3, 2, 1]}\n"
                "%r = Reshape(%t, %rows)\n%s = Softmax(%r)\n%q = Slice(%a, %from, %end, %axis)\n"
                "%b = Conv(%q, %w_b)\n%u = Reshape(%b, %flat)\n%v = Softmax(%u)\n%y = Concat(%s, %v) {axis = 1}\n"
                "output %y: float32[2, 180, 4]\n",
                {{2, 8, 5, 6}}, {{"conv", 2}, {"transpose", 1}, {"softmax", 2}, {"concat", 1}});
}

// Pooled queries of MViT: samples beside heads in the convolution, apart behind it. An image with its channels last is
// rows already.
TEST(SpelledMovement, IsNoneBehindAnImageWhoseSamplesAreSamplesAndHeads) {
    expect_plan("input %x: float32[6, 16, 4, 5]\ninput %w_d: float32[16, 1, 3, 3]\ninput %w_k: float32[16, 16]\n"
                "const %heads: int64[4] = {3, 2, 16, 20}\n"
                "%i = Conv(%x, %w_d) {group = 16, pads = [1, 1, 1, 1]}\n%a = Reshape(%i, %heads)\n"
                "%r = Transpose(%a) {perm = [0, 1, 3, 2]}\n%y = MatMul(%r, %w_k)\noutput %y: float32[3, 2, 20, 16]\n",
                {{6, 16, 4, 5}}, {{"depthwise", 1}, {"gemm", 1}});
}

// MLP-Mixer's products over places: from the left, of the rows as they lie.
TEST(SpelledMovement, IsNoneAroundProductsOfColumns) {
    const std::string begin = "input %x: float32[2, 13, 16]\ninput %w_a: float32[13, 24]\ninput %w_b: float32[24, 13]\n"
                              "const %b: float32[24] = {1, -2, 3, ...}\nconst %half: float32[] = {0.5}\n%t = "
                              "Transpose(%x) {perm = [0, 2, 1]}\n";
    const std::string end =
        "%o = MatMul(%g, %w_b)\n%y = Transpose(%o) {perm = [0, 2, 1]}\noutput %y: float32[2, 13, 16]\n";
    expect_plan(begin + "%m = MatMul(%t, %w_a)\n%a = Add(%m, %b)\n%s = Mul(%half, %a)\n%g = Relu(%s)\n" + end,
                {{2, 13, 16}}, {{"batched_gemm", 2}, {"pointwise", 1}});
    // What two read is turned once.
    const std::string twice = "%m = MatMul(%t, %w_a)\n%g = Relu(%m)\n%o = MatMul(%g, %w_b)\n%p = Add(%o, %t)\n"
                              "%y = Transpose(%p) {perm = [0, 2, 1]}\noutput %y: float32[2, 13, 16]\n";
    expect_plan(begin + twice, {{2, 13, 16}}, {{"gemm", 2}, {"transpose", 2}});
}

// GPT-Neo: causal by Where, then a mask that is added.
TEST(SpelledAttention, TakesAMaskByWhereBeforeAnotherOne) {
    expect_plan("input %q: float32[2, 3, 6, 8]\ninput %k: float32[2, 3, 6, 8]\ninput %v: float32[2, 3, 6, 8]\n"
                "input %m: float32[2, 1, 1, 6]\nconst %low: float32[] = {-3.4028234663852886e38}\n"
                "const %keep: bool[1, 1, 6, 6] = {true, false, false, false, false, false, true, true, false, false, "
                "false, false, true, true, true, false, false, false, true, true, true, true, false, false, true, "
                "true, true, true, true, false, true, true, true, true, true, true}\n"
                "%kt = Transpose(%k) {perm = [0, 1, 3, 2]}\n%s = MatMul(%q, %kt)\n%w = Where(%keep, %s, %low)\n"
                "%a = Add(%w, %m)\n%p = Softmax(%a)\n%y = MatMul(%p, %v)\noutput %y: float32[2, 3, 6, 8]\n",
                {{2, 3, 6, 8}, {2, 3, 6, 8}, {2, 3, 6, 8}, {2, 1, 1, 6}}, {{"attention", 1}});
}

// Scores with rows and columns of their image apart, to which positions relative in each axis are added.
TEST(SpelledAttention, TakesPositionsOfEachAxisAsAMask) {
    expect_plan("input %q: float32[2, 3, 12, 8]\ninput %k: float32[2, 3, 6, 8]\ninput %v: float32[2, 3, 6, 8]\n"
                "input %h: float32[2, 3, 4, 3, 2, 1]\ninput %w: float32[2, 3, 4, 3, 1, 3]\n"
                "const %wide: int64[6] = {2, 3, 4, 3, 2, 3}\nconst %flat: int64[4] = {2, 3, 12, 6}\n"
                "%kt = Transpose(%k) {perm = [0, 1, 3, 2]}\n%s = MatMul(%q, %kt)\n%a = Reshape(%s, %wide)\n"
                "%b = Add(%a, %h)\n%c = Add(%b, %w)\n%d = Reshape(%c, %flat)\n%p = Softmax(%d)\n"
                "%y = MatMul(%p, %v)\noutput %y: float32[2, 3, 12, 8]\n",
                {{2, 3, 12, 8}, {2, 3, 6, 8}, {2, 3, 6, 8}, {2, 3, 4, 3, 2, 1}, {2, 3, 4, 3, 1, 3}},
                {{"attention", 1}, {"pointwise", 1}});
}

} // namespace
} // namespace lathe::test
