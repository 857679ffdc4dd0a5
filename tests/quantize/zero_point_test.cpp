#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/lint.hpp"

namespace lathe {
namespace {

using test::graph;
using test::plan;
using test::same_ranges;
using test::weight;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Model inferred(const std::string& text) {
    Model model = graph(text);
    if (auto done = infer_shapes(model); !done) ADD_FAILURE() << done.error().describe();
    return model;
}

std::vector<std::string> from_zero(const QuantizationPlan& plan) {
    std::vector<std::string> names;
    for (const QuantizedTensor& tensor : plan.tensors) {
        if (plan.groups[tensor.group].from_zero) names.push_back(tensor.name);
    }
    std::ranges::sort(names);
    return names;
}

std::string filters(const std::string& names, const std::string& shape, int count) {
    std::string text;
    for (const char name : names)
        text += weight(std::string(1, name), shape, count);
    return text;
}

/// Residual blocks, a branch into a padded and an unpadded convolution, a Concat, pools, products; last letters tell
/// activations: `r` Relu, `k` Clip at 0.
Model many_places() {
    return inferred("opset 18\nir 8\ninput %x: float32[1, 16, 8, 8]\n" + filters("acdefho", "16, 16, 1, 1", 256) +
                    filters("bg", "16, 16, 3, 3", 2304) + filters("nm", "16, 32, 1, 1", 512) +
                    filters("uv", "16, 16", 256) + weight("bias", "16", 16) +
                    "const %low: float32[] = {0.0}\nconst %high: float32[] = {6.0}\nconst %below: float32[] = {-1.0}\n"
                    // A block: 1x1, padded 3x3, 1x1 with the skip.
                    "%pa = Conv(%x, %a)\n%a_r = Relu(%pa)\n"
                    "%pb = Conv(%a_r, %b) {pads = [1, 1, 1, 1]}\n%b_r = Relu(%pb)\n"
                    "%pc = Conv(%b_r, %c)\n%sum = Add(%pc, %x)\n%sum_r = Relu(%sum)\n"
                    // Its result goes into a downsampling block.
                    "%pd = Conv(%sum_r, %d) {strides = [2, 2]}\n"
                    "%pe = Conv(%sum_r, %e) {strides = [2, 2]}\n%e_k = Clip(%pe, %low, %high)\n"
                    "%pf = Conv(%e_k, %f)\n%sum2 = Add(%pf, %pd)\n%sum2_r = Relu(%sum2)\n"
                    // A padded and an unpadded reader, then a Concat.
                    "%pg = Conv(%sum2_r, %g) {pads = [1, 1, 1, 1]}\n%g_r = Relu(%pg)\n"
                    "%ph = Conv(%sum2_r, %h)\n%h_r = Relu(%ph)\n"
                    "%cat = Concat(%g_r, %h_r) {axis = 1}\n%pn = Conv(%cat, %n)\n"
                    // Not from zero up.
                    "%n_k = Clip(%pn, %below, %high)\n%po = Conv(%n_k, %o)\n%o_r = Relu(%po)\n"
                    // Global pool; two products, one with its bias beside it.
                    "%pool = GlobalAveragePool(%o_r)\n%flat = Flatten(%pool)\n"
                    "%pu = MatMul(%flat, %u)\n%pu_b = Add(%pu, %bias)\n%u_r = Relu(%pu_b)\n"
                    "%y = Gemm(%u_r, %v)\noutput %y: float32[1, 16]\n");
}

TEST(ZeroPoint, TensorsFromZeroUpThatOnlyProductsAndSumsRead) {
    const Model model = many_places();
    EXPECT_THAT(from_zero(plan(model, Target::cuda)), ElementsAre("b_r", "e_k", "sum_r", "u_r"));
    for (const Target other : {Target::tensorrt, Target::openvino, Target::onnxruntime})
        EXPECT_THAT(from_zero(plan(model, other)), IsEmpty()) << to_string(other);
}

TEST(ZeroPoint, FloatReadersOutputsAndLateSkipsKeepItSymmetric) {
    const std::string head = "opset 18\ninput %x: float32[1, 16, 4, 4]\n" + filters("abc", "16, 16, 1, 1", 256);
    // Read in float too; and the model's output.
    EXPECT_THAT(from_zero(plan(inferred(head + "%p = Conv(%x, %a)\n%q = Relu(%p)\n%r = Conv(%q, %b)\n%e = Exp(%q)\n"
                                               "output %r: float32[1, 16, 4, 4]\noutput %e: float32[1, 16, 4, 4]\n"),
                               Target::cuda)),
                IsEmpty());
    EXPECT_THAT(from_zero(plan(inferred(head + "%p = Conv(%x, %a)\n%q = Relu(%p)\n%r = Conv(%q, %b)\n"
                                               "output %r: float32[1, 16, 4, 4]\noutput %q: float32[1, 16, 4, 4]\n"),
                               Target::cuda)),
                IsEmpty());
    // Two readers of what the Relu reads: nothing is fused.
    EXPECT_THAT(from_zero(plan(inferred(head + "%p = Conv(%x, %a)\n%q = Relu(%p)\n%r = Conv(%q, %b)\n%e = Exp(%p)\n"
                                               "output %r: float32[1, 16, 4, 4]\noutput %e: float32[1, 16, 4, 4]\n"),
                               Target::cuda)),
                IsEmpty());
    // The skip is computed after the convolution that would add it.
    const std::string late = "%p = Conv(%x, %a)\n%l = Conv(%x, %b)\n%q = Relu(%l)\n%s = Add(%p, %q)\n%t = Relu(%s)\n";
    const std::string early = "%l = Conv(%x, %b)\n%q = Relu(%l)\n%p = Conv(%x, %a)\n%s = Add(%p, %q)\n%t = Relu(%s)\n";
    const std::string end = "%y = Conv(%t, %c)\noutput %y: float32[1, 16, 4, 4]\n";
    EXPECT_THAT(from_zero(plan(inferred(head + late + end), Target::cuda)), IsEmpty());
    EXPECT_THAT(from_zero(plan(inferred(head + early + end), Target::cuda)), ElementsAre("q", "t"));
}

TEST(ZeroPoint, SameUpperPadsNothingAroundOnePixelOnly) {
    const std::string head = "opset 18\ninput %x: float32[1, 16, 4, 4]\n" + filters("ab", "16, 16, 1, 1", 256) +
                             filters("c", "16, 16, 3, 3", 2304) + "%p = Conv(%x, %a)\n%q = Relu(%p)\n";
    const std::string end = "output %y: float32[N, 16, H, W]\n";
    const auto chosen = [&](const std::string& reader) {
        return from_zero(plan(inferred(head + reader + end), Target::cuda));
    };
    EXPECT_THAT(chosen("%y = Conv(%q, %b) {auto_pad = \"SAME_UPPER\"}\n"), ElementsAre("q"));
    EXPECT_THAT(chosen("%y = Conv(%q, %c) {auto_pad = \"SAME_UPPER\"}\n"), IsEmpty());
    EXPECT_THAT(chosen("%y = Conv(%q, %c) {auto_pad = \"VALID\"}\n"), ElementsAre("q"));
    EXPECT_THAT(chosen("%y = Conv(%q, %b) {pads = [0, 1, 0, 0]}\n"), IsEmpty());
}

TEST(ZeroPoint, DepthwiseConvolutionsPadWithIt) {
    const std::string head = "opset 18\nir 8\ninput %x: float32[1, 16, 4, 4]\n" + filters("a", "16, 16, 1, 1", 256) +
                             filters("o", "16, 1, 3, 3", 144) + filters("t", "16, 2, 3, 3", 288) +
                             "%p = Conv(%x, %a)\n%q = Relu(%p)\n";
    const std::string end = "output %y: float32[1, 16, 4, 4]\n";
    EXPECT_THAT(
        from_zero(plan(inferred(head + "%y = Conv(%q, %o) {group = 16, pads = [1, 1, 1, 1]}\n" + end), Target::cuda)),
        ElementsAre("q"));
    EXPECT_THAT(
        from_zero(plan(inferred(head + "%y = Conv(%q, %t) {group = 8, pads = [1, 1, 1, 1]}\n" + end), Target::cuda)),
        IsEmpty());
}

TEST(ZeroPoint, IsWrittenAsMinus128WithAllOfInt8) {
    const Model model = many_places();
    const auto planned = plan(model, Target::cuda);
    auto result = insert_quantization(model, planned, same_ranges(planned, {-1.27F, 2.55F}));
    ASSERT_TRUE(result) << result.error().describe();
    const auto checked = check_onnx(*result);
    EXPECT_TRUE(checked) << checked.error().describe();
    const std::string text = print(*result, {.full_constants = true});
    EXPECT_THAT(text, HasSubstr("const %sum_r_scale: float32[] = {0.01}\nconst %sum_r_zero_point: int8[] = {-128}\n"));
    EXPECT_THAT(text, HasSubstr("const %a_r_zero_point: int8[] = {0}\n"));
    EXPECT_THAT(text, HasSubstr("const %sum2_r_zero_point: int8[] = {0}\n"));
    EXPECT_THAT(text, HasSubstr("const %pd_zero_point: int8[] = {0}\n"));
    const auto faults = [&](Target target) {
        return std::ranges::count_if(lint_quantization(*result, profile_of(target)), [](const LintFinding& each) {
            return std::string(each.rule) == "asymmetric_zero_point";
        });
    };
    EXPECT_EQ(faults(Target::cuda), 0);
    EXPECT_EQ(faults(Target::tensorrt), 8); // both nodes of four pairs
    EXPECT_EQ(parameters_from_zero({0.0F, 0.0F}), (QuantizationParameters{1.0F, -128}));
}

TEST(ZeroPoint, LintNamesAReaderThatCannotTakeIt) {
    const std::string head = "opset 18\nir 8\ninput %x: float32[1, 16, 4, 4]\n" + filters("a", "16, 16, 1, 1", 256) +
                             "const %s: float32[] = {0.1}\nconst %z: int8[] = {-128}\n%p = Conv(%x, %a)\n"
                             "%q = QuantizeLinear(%p, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n";
    const std::string end = "output %y: float32[N, 16, H, W]\n";
    const auto faults = [&](const std::string& reader) {
        std::vector<std::string> whys;
        for (const LintFinding& each : lint_quantization(graph(head + reader + end), profile_of(Target::cuda))) {
            if (std::string(each.rule) == "asymmetric_zero_point") whys.push_back(each.why);
        }
        return whys;
    };
    EXPECT_THAT(faults("%y = Conv(%d, %a)\n"), IsEmpty());
    EXPECT_THAT(faults("%y = Conv(%d, %a) {name = \"wide\", pads = [1, 1, 1, 1]}\n"), ElementsAre(HasSubstr("wide")));
    const std::string own = filters("o", "16, 1, 3, 3", 144);
    EXPECT_THAT(faults(own + "%y = Conv(%d, %o) {group = 16, pads = [1, 1, 1, 1]}\n"), IsEmpty());
    std::string steps = "1";
    for (int i = 1; i < 144; ++i)
        steps += ", 1";
    const std::string quantized = "const %w: int8[16, 1, 3, 3] = {" + steps + "}\n%o = DequantizeLinear(%w, %s)\n";
    EXPECT_THAT(faults(quantized + "%y = Conv(%d, %o) {group = 16, pads = [1, 1, 1, 1]}\n"), IsEmpty())
        << "its filters in int8, as lathe quantize writes them";
    EXPECT_THAT(faults("%y = MaxPool(%d) {name = \"pool\", kernel_shape = [2, 2]}\n"), ElementsAre(HasSubstr("pool")));
}

} // namespace
} // namespace lathe
