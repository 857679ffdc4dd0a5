#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/audit.hpp"
#include "backends/cuda/plan/networks.hpp"
#include "graph/graph.hpp"
#include "onnx/onnx.hpp"
#include "quantize/insert.hpp"
#include "quantize/placement.hpp"

namespace lathe::test {
namespace {

/// The encoder as `lathe quantize --target cuda` writes it, every activation within -4..4.
Model quantised_encoder(bool split_scale) {
    Model model = network(encoder(split_scale));
    if (auto inferred = infer_shapes(model); !inferred) throw std::runtime_error(inferred.error().describe());
    const auto plan = plan_quantization(model, profile_of(Target::cuda));
    if (!plan) throw std::runtime_error(plan.error().describe());
    std::map<std::string, Range> ranges;
    for (const ScaleGroup& group : plan->groups) {
        for (const std::string& name : group.ranges)
            ranges[name] = {-4.0F, 4.0F};
    }
    auto quantised = insert_quantization(model, *plan, ranges, {});
    if (!quantised) throw std::runtime_error(quantised.error().describe());
    return std::move(*quantised);
}

/// What each op of the kind computes in and gives, as "int8>fp16", in order.
std::vector<std::string> types_of(const cuda::Plan& plan, const std::string& kind) {
    std::vector<std::string> types;
    for (const cuda::FusedOp& op : plan.ops) {
        if (cuda::kind_of(op) != kind) continue;
        types.push_back(std::string(cuda::to_string(op.compute)) + ">" +
                        cuda::to_string(plan.values[op.outputs[0]].type));
    }
    return types;
}

class QuantisedEncoder : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(BothExports, QuantisedEncoder, testing::Bool());

TEST_P(QuantisedEncoder, RunsItsProductsInInt8WithNothingBetween) {
    const auto plan = plan_of(quantised_encoder(GetParam()), Precision::int8, {{2, 8}, {2, 8}});
    // Merged query, key and value; output of attention; GELU to int8; back to the residual stream.
    EXPECT_THAT(types_of(plan, "gemm"), testing::ElementsAre("int8>fp16", "int8>fp16", "int8>int8", "int8>fp16"));
    EXPECT_THAT(types_of(plan, "attention"), testing::ElementsAre("fp16>int8"));
    EXPECT_EQ(types_of(plan, "layer_norm").size(), 3);
    EXPECT_EQ(types_of(plan, "reformat").size(), 2) << print(plan); // the two outputs
    std::size_t quantised_norms = 0;
    for (const cuda::FusedOp& op : plan.ops) {
        if (const auto* norm = std::get_if<cuda::LayerNorm>(&op.detail)) quantised_norms += norm->quantized_output;
        if (const auto* gemm = std::get_if<cuda::Gemm>(&op.detail)) {
            EXPECT_NE(gemm->epilogue.scale, cuda::none);
            EXPECT_NE(gemm->epilogue.bias, cuda::none);
        }
    }
    EXPECT_EQ(quantised_norms, 2); // the last gives the model's output alone
}

TEST_P(QuantisedEncoder, ComputesWhatTheGraphSays) {
    const Model model = quantised_encoder(GetParam());
    const std::vector<Shape> shapes{{3, 8}, {3, 8}};
    auto inputs = random_inputs(model, shapes);
    const auto expected = run_on_cpu(model, inputs);
    for (const auto& [precision, limit] : {std::pair{Precision::float32, 5e-3}, {Precision::int8, 2e-2}}) {
        const auto actual = interpreted(plan_of(model, precision, shapes), inputs, true);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i)
            EXPECT_LE(relative_difference(expected[i], actual[i]), limit) << to_string(precision) << " output " << i;
    }
}

TEST(AttentionInInt8, QuantisesBehindTheReshapeToo) {
    std::string text = encoder(false);
    const std::string before = "%o4 = MatMul(%o3, %w_o)";
    text.replace(text.find(before), before.size(),
                 "%o3q = QuantizeLinear(%o3, %s_a, %z_a)\n%o3d = DequantizeLinear(%o3q, %s_a, %z_a)\n"
                 "%o4 = MatMul(%o3d, %w_o)");
    text.insert(text.find("const"), "input %s_a: float32[]\ninput %z_a: int8[]\n");
    const Model model = network(text);
    const std::vector<Shape> shapes{{2, 16}, {2, 16}};
    const auto plan = plan_of(model, Precision::int8, shapes);
    EXPECT_THAT(types_of(plan, "attention"), testing::ElementsAre("fp16>int8"));
    auto inputs = random_inputs(model, shapes);
    const auto expected = run_on_cpu(model, inputs);
    const auto actual = interpreted(plan, inputs, true);
    for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_LE(relative_difference(expected[i], actual[i]), 2e-2) << i;
}

TEST(GatherInInt8, TakesRowsWithoutDequantising) {
    // The first token, and a constant choice of tokens, before a product.
    const Model model = network("opset 18\ninput %x: float32[N, 6, 32]\ninput %s_a: float32[]\ninput %z_a: int8[]\n"
                                "input %q_w: int8[32, 16]\ninput %s_w: float32[16]\ninput %z_w: int8[16]\n"
                                "const %first: int64[] = {0}\nconst %some: int64[3] = {5, 0, 2}\n"
                                "%q = QuantizeLinear(%x, %s_a, %z_a)\n%d = DequantizeLinear(%q, %s_a, %z_a)\n"
                                "%w = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 1}\n"
                                "%a = Gather(%d, %first) {axis = 1}\n%y = MatMul(%a, %w)\n"
                                "%b = Gather(%d, %some) {axis = 1}\n%z = MatMul(%b, %w)\n"
                                "output %y: float32[N, 16]\noutput %z: float32[N, 3, 16]\n");
    const auto plan = plan_of(model, Precision::int8, {{2, 6, 32}});
    EXPECT_THAT(types_of(plan, "gemm"), testing::ElementsAre("int8>fp32", "int8>fp32")) << print(plan);
    auto inputs = random_inputs(model, {{2, 6, 32}});
    const auto expected = run_on_cpu(model, inputs);
    const auto actual = interpreted(plan, inputs, true);
    for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_LE(relative_difference(expected[i], actual[i]), 1e-5) << i;
}

TEST(Audit, LeavesAttentionAsideUnderInt8) {
    const Model model = quantised_encoder(false);
    // At this length attention is most of the multiplications.
    const auto audit = cuda::audit(plan_of(model, Precision::int8, {{1, 24}, {1, 24}}), Precision::int8);
    EXPECT_LT(audit.share("int8"), 0.9);
    EXPECT_NEAR(audit.share("int8") + audit.share("fp16"), 1, 1e-12);
    EXPECT_TRUE(cuda::check(audit, Precision::int8, false));
    // The float model is refused all the same, and in FP16 attention counts.
    const auto floats =
        cuda::audit(plan_of(network(encoder(false)), Precision::int8, {{1, 24}, {1, 24}}), Precision::int8);
    EXPECT_FALSE(cuda::check(floats, Precision::int8, false));
    EXPECT_FALSE(cuda::check(cuda::audit(plan_of(model, Precision::int8, {{1, 24}, {1, 24}}), Precision::float16),
                             Precision::float16, false));
}

} // namespace
} // namespace lathe::test
