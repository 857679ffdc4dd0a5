#include "quantize/placement.hpp"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/tensor_range.hpp"

namespace lathe {
namespace {

using test::graph;
using test::pairs;
using test::plan;
using test::reasons;
using test::weight;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// 16 channels: above every target's minimum.
std::string conv_weights(const std::string& names) {
    std::string text;
    for (const char name : names)
        text += weight(std::string(1, name), "16, 16, 1, 1", 256);
    return text;
}

Model residual_block() {
    return graph("opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("abc") +
                 "%p = Conv(%x, %a) {name = \"first\"}\n"
                 "%q = Relu(%p) {name = \"relu1\"}\n"
                 "%r = Conv(%q, %b) {name = \"second\"}\n"
                 "%s = Add(%r, %q) {name = \"add\"}\n"
                 "%t = Relu(%s) {name = \"relu2\"}\n"
                 "%y = Conv(%t, %c) {name = \"third\"}\n"
                 "output %y: float32[1, 16, 4, 4]\n");
}

TEST(Placement, ResidualAddByTarget) {
    const Model model = residual_block();
    EXPECT_THAT(pairs(model, plan(model, Target::openvino)),
                ElementsAre("q -> second add", "r -> add", "t -> third", "x -> first"));
    EXPECT_THAT(pairs(model, plan(model, Target::tensorrt)),
                ElementsAre("q -> second add", "t -> third", "x -> first"));
    EXPECT_THAT(pairs(model, plan(model, Target::cuda)), ElementsAre("q -> second add", "t -> third", "x -> first"));
    EXPECT_EQ(reasons(plan(model, Target::tensorrt)).at("add/0"), "fused_output");
    EXPECT_EQ(reasons(plan(model, Target::openvino)).at("add/0"), "residual_input");
    EXPECT_EQ(reasons(plan(model, Target::openvino)).at("relu1/0"), "fused_output");
}

TEST(Placement, DownsamplingBlockQuantisesTheEarlierBranchForTensorrt) {
    const Model model = graph("opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("abc") +
                              "%d = Conv(%x, %a) {name = \"down\"}\n"
                              "%m = Conv(%x, %b) {name = \"main\"}\n"
                              "%s = Add(%m, %d) {name = \"add\"}\n"
                              "%y = Conv(%s, %c) {name = \"next\"}\n"
                              "output %y: float32[1, 16, 4, 4]\n");
    EXPECT_THAT(pairs(model, plan(model, Target::tensorrt)), ElementsAre("d -> add", "s -> next", "x -> down main"));
}

TEST(Placement, GatesStayInFloatForCuda) {
    const auto gated = [](const char* last) {
        Model model =
            graph("opset 18\ninput %x: float32[N, 16, 4, 4]\n" + conv_weights("abcd") +
                  "%p = Conv(%x, %a) {name = \"first\"}\n%m = GlobalAveragePool(%p)\n"
                  "%q = Conv(%m, %b) {name = \"narrow\"}\n%r = Relu(%q)\n"
                  "%s = Conv(%r, %c) {name = \"wide\"}\n%t = Sigmoid(%s)\n%u = Mul(" +
                  std::string(last) + ", %t)\n%y = Conv(%u, %d) {name = \"last\"}\noutput %y: float32[N, 16, H, W]\n");
        if (auto done = infer_shapes(model); !done) ADD_FAILURE() << done.error().describe();
        return model;
    };
    const Model gate = gated("%p");
    EXPECT_THAT(pairs(gate, plan(gate, Target::cuda)), ElementsAre("u -> last", "x -> first"));
    EXPECT_THAT(pairs(gate, plan(gate, Target::openvino)), testing::Contains("r -> wide"));
    // Must not fire: what is scaled is one pixel too, a classifier's head.
    const Model head = gated("%m");
    EXPECT_THAT(pairs(head, plan(head, Target::cuda)), testing::Contains("r -> wide"));
}

TEST(Placement, TermsOfAResidualSumAreNotClipped) {
    const Model model = residual_block();
    const auto planned = plan(model, Target::openvino);
    for (const QuantizedTensor& tensor : planned.tensors)
        EXPECT_EQ(planned.groups[tensor.group].whole_range, tensor.name == "r") << tensor.name;
}

// Must not fire: the sum goes on in float, so int8 inputs would only lose accuracy.
TEST(Placement, AddIntoLayerNormStaysFloat) {
    const Model model =
        graph("opset 18\ninput %x: float32[4, 16]\n" + weight("w", "16, 16", 256) + weight("g", "16", 16) +
              "%h = MatMul(%x, %w) {name = \"dense\"}\n"
              "%s = Add(%h, %x) {name = \"add\"}\n"
              "%n = LayerNormalization(%s, %g) {name = \"norm\"}\n"
              "%y = MatMul(%n, %w) {name = \"out\"}\n"
              "output %y: float32[4, 16]\n");
    for (const TargetProfile& profile : target_profiles()) {
        const auto planned = plan(model, profile.target);
        EXPECT_EQ(reasons(planned).at("norm/0"), "op_stays_float") << profile.name;
        if (profile.quantize_outputs) continue;
        EXPECT_EQ(reasons(planned).at("add/0"), "output_stays_float") << profile.name;
        EXPECT_EQ(reasons(planned).at("add/1"), "output_stays_float") << profile.name;
        EXPECT_THAT(pairs(model, planned), ElementsAre("n -> out", "x -> dense")) << profile.name;
    }
}

TEST(Placement, OneWeightOfTwoReadersIsQuantisedOnce) {
    const Model model = graph("opset 18\ninput %x: float32[4, 16]\n" + weight("w", "16, 16", 256) +
                              "%h = MatMul(%x, %w) {name = \"a\"}\n"
                              "%i = Relu(%h)\n"
                              "%j = MatMul(%i, %w) {name = \"b\"}\n"
                              "%y = Gemm(%j, %w) {name = \"c\", transB = 1}\n"
                              "output %y: float32[4, 16]\n");
    const auto planned = plan(model, Target::openvino);
    ASSERT_EQ(planned.weights.size(), 2U); // axis 1 for the MatMuls, axis 0 for the transposed Gemm
    EXPECT_EQ(planned.weights[0].axis, 1);
    EXPECT_EQ(planned.weights[0].readers.size(), 2U);
    EXPECT_EQ(planned.weights[1].axis, 0);
}

TEST(Placement, MaxPoolCommutesUnlessAFloatReaderNeedsIt) {
    const std::string head = "opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("ab") +
                             "%p = Conv(%x, %a) {name = \"first\"}\n"
                             "%q = MaxPool(%p) {name = \"pool\", kernel_shape = [2, 2]}\n"
                             "%y = Conv(%q, %b) {name = \"second\"}\n";
    const Model moved = graph(head + "output %y: float32[1, 16, 3, 3]\n");
    EXPECT_THAT(pairs(moved, plan(moved, Target::openvino)), ElementsAre("p -> pool", "x -> first"));
    EXPECT_EQ(reasons(plan(moved, Target::openvino)).at("pool/0"), "moved_before");

    const auto both_sides = plan(moved, Target::onnxruntime);
    EXPECT_THAT(pairs(moved, both_sides), ElementsAre("p -> pool", "q -> second", "x -> first"));
    EXPECT_EQ(both_sides.tensors[1].group, both_sides.tensors[2].group);

    const Model kept = graph(head + "%z = Exp(%q) {name = \"exp\"}\noutput %y: float32[1, 16, 3, 3]\n"
                                    "output %z: float32[1, 16, 3, 3]\n");
    EXPECT_THAT(pairs(kept, plan(kept, Target::openvino)), ElementsAre("q -> second", "x -> first"));
    EXPECT_EQ(reasons(plan(kept, Target::openvino)).at("exp/0"), "reads_original");
}

TEST(Placement, ConcatSharesOneScaleWithTheRangeOfItsOutput) {
    const Model model =
        graph("opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("ab") + weight("c", "16, 32, 1, 1", 512) +
              "%p = Conv(%x, %a)\n%q = Conv(%x, %b)\n"
              "%s = Concat(%p, %q) {name = \"concat\", axis = 1}\n"
              "%y = Conv(%s, %c) {name = \"last\"}\n"
              "output %y: float32[1, 16, 4, 4]\n");
    const auto planned = plan(model, Target::openvino);
    ASSERT_EQ(planned.tensors.size(), 3U);
    EXPECT_EQ(planned.tensors[1].group, planned.tensors[2].group);
    EXPECT_THAT(planned.groups[planned.tensors[1].group].ranges, ElementsAre("s"));
    EXPECT_EQ(reasons(planned).at("concat/1"), "concat_shared");
}

/// A block of YOLO: SiLU behind each convolution, one half goes through another one, is added and joined.
Model split_block() {
    return graph("opset 18\ninput %x: float32[1, 16, 4, 4]\n" + weight("a", "32, 16, 1, 1", 512) + conv_weights("b") +
                 weight("c", "16, 48, 1, 1", 768) +
                 "const %zero: int64[1] = {0}\nconst %half: int64[1] = {16}\nconst %end: int64[1] = {32}\n"
                 "const %axis: int64[1] = {1}\n"
                 "%p = Conv(%x, %a) {name = \"enter\"}\n%g = Sigmoid(%p)\n%e = Mul(%p, %g) {name = \"silu1\"}\n"
                 "%l = Slice(%e, %zero, %half, %axis) {name = \"low\"}\n"
                 "%h = Slice(%e, %half, %end, %axis) {name = \"high\"}\n"
                 "%q = Conv(%h, %b) {name = \"inner\"}\n%k = Sigmoid(%q)\n%m = Mul(%q, %k) {name = \"silu2\"}\n"
                 "%s = Add(%h, %m) {name = \"add\"}\n%j = Concat(%l, %h, %s) {name = \"concat\", axis = 1}\n"
                 "%y = Conv(%j, %c) {name = \"leave\"}\noutput %y: float32[1, 16, 4, 4]\n");
}

TEST(Placement, WhatAKernelGatesAndAddsIsJoinedInOneScale) {
    const Model model = split_block();
    const auto planned = plan(model, Target::cuda);
    EXPECT_THAT(pairs(model, planned), ElementsAre("e -> low high", "s -> concat", "x -> enter"));
    EXPECT_EQ(planned.groups.size(), 2U);
    EXPECT_EQ(reasons(planned).at("add/0"), "residual_input");
    EXPECT_EQ(reasons(planned).at("add/1"), "fused_output");
    // OpenVINO's kernels do neither: what follows the Concat is rounded for its convolution alone.
    EXPECT_THAT(pairs(model, plan(model, Target::openvino)), ElementsAre("h -> inner", "j -> leave", "x -> enter"));
}

TEST(Placement, AGateThatAnotherReadsIsNoActivation) {
    Model model =
        graph("opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("a") + weight("c", "16, 32, 1, 1", 512) +
              "%p = Conv(%x, %a)\n%g = Sigmoid(%p)\n%m = Mul(%p, %g)\n%n = Mul(%x, %g)\n"
              "%j = Concat(%m, %n) {name = \"concat\", axis = 1}\n%y = Conv(%j, %c) {name = \"last\"}\n"
              "output %y: float32[1, 16, 4, 4]\n");
    EXPECT_EQ(reasons(plan(model, Target::cuda)).at("concat/0"), "producer_stays_float");
}

// A U-Net's skip: what the Concat reads is read by a convolution too. Whatever stays in float, what is left in int8 has
// its range among those that are calibrated.
TEST(Placement, CalibratedRangesSufficeWhateverStaysFloat) {
    const Model model =
        graph("opset 18\ninput %x: float32[1, 16, 8, 8]\n" + conv_weights("abc") + weight("d", "16, 32, 1, 1", 512) +
              "%p = Conv(%x, %a) {name = \"down\"}\n%r = Relu(%p) {name = \"relu\"}\n"
              "%m = MaxPool(%r) {name = \"pool\", kernel_shape = [1, 1]}\n"
              "%q = Conv(%m, %b) {name = \"deep\"}\n%u = Conv(%q, %c) {name = \"up\"}\n"
              "%s = Concat(%u, %r) {name = \"concat\", axis = 1}\n"
              "%y = Conv(%s, %d) {name = \"last\"}\n"
              "output %y: float32[1, 16, 8, 8]\n");
    const std::vector<std::string> calibrated = quantizable_tensors(model);
    RangesFile ranges;
    for (const std::string& name : calibrated)
        ranges.tensors.push_back({name, {}, {}, {}});
    EXPECT_THAT(pairs(model, plan(model, Target::openvino)), Contains("r -> pool concat"));
    for (const TargetProfile& profile : target_profiles()) {
        for (unsigned kept = 0; kept < 32; ++kept) {
            PlacementOptions options;
            for (const auto& [bit, name] :
                 {std::pair{1U, "down"}, {2U, "deep"}, {4U, "up"}, {8U, "last"}, {16U, "concat"}}) {
                if ((kept & bit) != 0) options.exclude.emplace_back(name);
            }
            const QuantizationPlan partly = plan(model, profile.target, options);
            for (const ScaleGroup& group : partly.groups) {
                for (const std::string& name : group.ranges)
                    EXPECT_NE(range_behind(model.graph, ranges, name), nullptr) << name << ", in float: " << kept;
            }
        }
    }
}

TEST(Placement, AveragePoolBetweenInt8Only) {
    const Model model = graph("opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("ab") +
                              "%p = Conv(%x, %a) {name = \"first\"}\n"
                              "%q = GlobalAveragePool(%p) {name = \"pool\"}\n"
                              "%y = Conv(%q, %b) {name = \"second\"}\n"
                              "output %y: float32[1, 16, 1, 1]\n");
    EXPECT_EQ(reasons(plan(model, Target::openvino)).at("pool/0"), "pool_input");
    EXPECT_EQ(reasons(plan(model, Target::openvino, {{"first"}})).at("pool/0"), "producer_stays_float");
    EXPECT_EQ(reasons(plan(model, Target::openvino, {{"second"}})).at("pool/0"), "output_stays_float");
}

TEST(Placement, ChannelsMatricesAndWeightsThatStayFloat) {
    struct Case {
        const char* name;
        std::string text;
        Target target;
        const char* reason;
    };
    const std::string image = "opset 18\ninput %x: float32[1, 3, 8, 8]\n";
    const std::vector<Case> cases{
        {"stem for openvino", image + weight("w", "16, 3, 1, 1", 48) + "%y = Conv(%x, %w) {name = \"n\"}\n",
         Target::openvino, "heavy_input"},
        {"stem for tensorrt", image + weight("w", "16, 3, 1, 1", 48) + "%y = Conv(%x, %w) {name = \"n\"}\n",
         Target::tensorrt, "heavy_input"},
        {"stem for cuda", image + weight("w", "16, 3, 1, 1", 48) + "%y = Conv(%x, %w) {name = \"n\"}\n", Target::cuda,
         "too_few_channels"},
        {"few outputs", image + weight("w", "2, 3, 1, 1", 6) + "%y = Conv(%x, %w) {name = \"n\"}\n", Target::tensorrt,
         "too_few_channels"},
        {"one column",
         "opset 18\ninput %x: float32[4, 8]\n" + weight("w", "8, 1", 8) + "%y = MatMul(%x, %w) {name = \"n\"}\n",
         Target::openvino, "single_row_or_column"},
        {"small matrix",
         "opset 18\ninput %x: float32[4, 8]\n" + weight("w", "8, 8", 64) + "%y = MatMul(%x, %w) {name = \"n\"}\n",
         Target::tensorrt, "too_small_matmul"},
        {"computed weight", image + "input %w: float32[16, 3, 1, 1]\n%y = Conv(%x, %w) {name = \"n\"}\n",
         Target::openvino, "weight_not_constant"},
        {"overridable weight",
         image + "input %w: float32[2, 3, 1, 1]\n" + weight("w", "2, 3, 1, 1", 6) +
             "%y = Conv(%x, %w) {name = \"n\"}\n",
         Target::openvino, "weight_overridable"},
        {"left constant",
         "opset 18\ninput %x: float32[8, 8]\n" + weight("w", "8, 8", 64) + "%y = MatMul(%w, %x) {name = \"n\"}\n",
         Target::openvino, "weight_on_left"},
        {"half precision",
         "opset 18\ninput %x: float16[4, 8]\nconst %w: float16[8, 2] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, "
         "1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}\n%y = MatMul(%x, %w) {name = \"n\"}\n",
         Target::openvino, "not_float32"},
        {"attention",
         "opset 18\ninput %x: float32[8, 8]\ninput %w: float32[8, 8]\n%y = MatMul(%x, %w) {name = \"n\"}\n",
         Target::onnxruntime, "activation_matmul"},
        {"attention for openvino",
         "opset 18\ninput %x: float32[8, 8]\ninput %w: float32[8, 8]\n%y = MatMul(%x, %w) {name = \"n\"}\n",
         Target::openvino, "activation_matmul"},
        {"attention in int8",
         "opset 18\ninput %x: float32[8, 8]\ninput %w: float32[8, 8]\n%y = MatMul(%x, %w) {name = \"n\"}\n",
         Target::tensorrt, "heavy_input"},
    };
    for (const Case& each : cases) {
        const Model model = graph(each.text + "output %y: undefined\n");
        EXPECT_EQ(reasons(plan(model, each.target)).at("n/0"), each.reason) << each.name;
    }
}

TEST(Placement, WeightsBehindReshapingOfConstants) {
    const Model model = graph("opset 18\ninput %x: float32[4, 8]\n" + weight("w", "2, 8", 16) +
                              "%t = Transpose(%w) {perm = [1, 0]}\n%i = Identity(%t)\n"
                              "%y = MatMul(%x, %i) {name = \"n\"}\noutput %y: float32[4, 2]\n");
    const auto planned = plan(model, Target::openvino);
    ASSERT_EQ(planned.weights.size(), 1U);
    EXPECT_EQ(planned.weights[0].value, "i");
    EXPECT_EQ(planned.weights[0].axis, 1);
}

TEST(Placement, GroupedTransposedConvolutionHasOneScale) {
    const std::string head = "opset 18\ninput %x: float32[1, 16, 4, 4]\n" + weight("w", "16, 8, 1, 1", 128);
    const Model grouped = graph(head + "%y = ConvTranspose(%x, %w) {name = \"n\", group = 2}\noutput %y: undefined\n");
    EXPECT_EQ(plan(grouped, Target::openvino).weights.at(0).axis, std::nullopt);
    const Model plain = graph(head + "%y = ConvTranspose(%x, %w) {name = \"n\"}\noutput %y: undefined\n");
    EXPECT_EQ(plan(plain, Target::openvino).weights.at(0).axis, 1);
}

TEST(Placement, OnnxRuntimeNeedsQuantisedOutputsButKeepsLogitsFloat) {
    const Model model =
        graph("opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("a") + weight("w", "16, 4", 64) +
              "%p = Conv(%x, %a) {name = \"conv\"}\n"
              "%q = Relu(%p) {name = \"relu\"}\n"
              "%e = Exp(%q) {name = \"exp\"}\n"
              "%g = GlobalAveragePool(%q) {name = \"pool\"}\n"
              "%f = Flatten(%g) {name = \"flat\"}\n"
              "%y = Gemm(%f, %w) {name = \"gemm\"}\n"
              "output %y: float32[1, 4]\noutput %e: float32[1, 16, 4, 4]\n");
    const auto planned = plan(model, Target::onnxruntime);
    EXPECT_EQ(reasons(planned).at("exp/0"), "output_for_fusion");
    EXPECT_THAT(pairs(model, planned), UnorderedElementsAre("x -> conv", "q -> exp pool", "g -> flat", "f -> gemm"));
    EXPECT_EQ(reasons(plan(model, Target::openvino)).at("exp/0"), "reads_original");
}

TEST(Placement, ExcludeByNameTypeAndExpression) {
    const Model model = residual_block();
    EXPECT_EQ(plan(model, Target::openvino, {{"second"}}).quantized_nodes, 2U);
    EXPECT_EQ(plan(model, Target::openvino, {{"Conv"}}).quantized_nodes, 0U);
    EXPECT_EQ(plan(model, Target::openvino, {{"(first|third)"}}).quantized_nodes, 1U);
    EXPECT_EQ(plan(model, Target::openvino, {{"second", "third"}}).quantized_nodes, 1U);
    EXPECT_EQ(reasons(plan(model, Target::openvino, {{"second"}})).at("second/0"), "excluded_by_user");

    const auto none = plan_quantization(model, profile_of(Target::openvino), {{"sec"}});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::not_found);
    const auto malformed = plan_quantization(model, profile_of(Target::openvino), {{"(["}});
    ASSERT_FALSE(malformed);
    EXPECT_EQ(malformed.error().code, ErrorCode::invalid_argument);
}

TEST(Placement, EveryFloatEdgeHasADecision) {
    const Model model = residual_block();
    for (const TargetProfile& profile : target_profiles()) {
        const auto planned = plan(model, profile.target);
        std::size_t edges = 0;
        for (const auto& node : model.graph.nodes)
            edges += node->inputs.size();
        EXPECT_EQ(planned.decisions.size(), edges) << profile.name;
        for (const EdgeDecision& each : planned.decisions)
            EXPECT_FALSE(std::string(explain(each.reason)).empty());
    }
}

TEST(Placement, ConvolutionsInsideSubgraphsAreNamed) {
    const Model model = graph("opset 18\ninput %c: bool[]\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("a") +
                              "%y = If(%c) {name = \"if\", then_branch = graph {\n"
                              "    %t = Conv(%x, %a) {name = \"inner\"}\n"
                              "    output %t: float32[1, 16, 4, 4]\n"
                              "}, else_branch = graph {\n"
                              "    %e = Identity(%x)\n"
                              "    output %e: float32[1, 16, 4, 4]\n"
                              "}}\noutput %y: float32[1, 16, 4, 4]\n");
    const auto planned = plan(model, Target::openvino);
    EXPECT_EQ(planned.quantized_nodes, 0U);
    EXPECT_EQ(planned.heavy_nodes, 1U);
    EXPECT_EQ(reasons(planned).at("inner/0"), "inside_subgraph");
}

TEST(Placement, RefusesAQuantisedModelAndAcceptsAnEmptyOne) {
    const Model quantized =
        graph("opset 18\ninput %x: float32[4]\nconst %s: float32[] = {1.0}\n"
              "%q = QuantizeLinear(%x, %s)\n%y = DequantizeLinear(%q, %s)\noutput %y: float32[4]\n");
    const auto planned = plan_quantization(quantized, profile_of(Target::openvino));
    ASSERT_FALSE(planned);
    EXPECT_THAT(planned.error().hint, HasSubstr("--lint"));

    const auto empty =
        plan(graph("opset 18\ninput %x: float32[4]\n%y = Exp(%x)\noutput %y: float32[4]\n"), Target::openvino);
    EXPECT_THAT(empty.tensors, IsEmpty());
    EXPECT_FALSE(empty.remarks.empty());
}

TEST(Placement, QuantizableTensorsCoverEveryTarget) {
    const Model model = residual_block();
    const auto all = quantizable_tensors(model);
    EXPECT_THAT(all, ElementsAre("x", "q", "r", "t"));
    for (const TargetProfile& profile : target_profiles()) {
        for (const std::string& name : quantizable_tensors(model, profile))
            EXPECT_THAT(all, Contains(name)) << profile.name;
    }
}

// A chain as long as a deep network: no recursion over its length.
TEST(Placement, LongChains) {
    std::string text = "opset 18\ninput %x: float32[1, 16, 4, 4]\n" + conv_weights("a") + "%v0 = Conv(%x, %a)\n";
    constexpr int length = 3000;
    for (int i = 1; i <= length; ++i) {
        text += "%v" + std::to_string(i) + " = Add(%v" + std::to_string(i - 1) + ", %v" + std::to_string(i - 1) + ")\n";
    }
    text += "%y = Conv(%v" + std::to_string(length) + ", %a)\noutput %y: undefined\n";
    EXPECT_EQ(plan(graph(text), Target::openvino).quantized_nodes, 2U);
}

} // namespace
} // namespace lathe
