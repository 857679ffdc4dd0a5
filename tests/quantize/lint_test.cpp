#include "quantize/lint.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"

namespace lathe {
namespace {

using test::graph;
using test::plan;
using test::same_ranges;
using test::weight;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> rules(const Model& model, Target target) {
    std::vector<std::string> names;
    for (const LintFinding& each : lint_quantization(model, profile_of(target))) {
        EXPECT_FALSE(each.where.empty());
        EXPECT_FALSE(each.why.empty());
        EXPECT_FALSE(each.cure.empty());
        names.emplace_back(each.rule);
    }
    return names;
}

const std::string head = "opset 18\nir 8\ninput %x: float32[1, 2]\n"
                         "const %s: float32[] = {0.1}\nconst %z: int8[] = {0}\n"
                         "const %w: int8[2, 2] = {1, 2, 3, 4}\n";
const std::string pair_of_x = "%xq = QuantizeLinear(%x, %s, %z)\n%xd = DequantizeLinear(%xq, %s, %z)\n";
const std::string weights = "%wd = DequantizeLinear(%w, %s, %z)\n";
const std::string tail = "output %y: float32[1, 2]\n";

TEST(Lint, Rules) {
    struct Case {
        const char* rule;
        Target target;
        std::string text;
    };
    const std::vector<Case> cases{
        {"not_quantized", Target::openvino, "opset 18\ninput %x: float32[1, 2]\n%y = Exp(%x)\n" + tail},
        {"int32_bias", Target::tensorrt,
         head + "const %b: int32[2] = {1, 2}\n" + pair_of_x + weights +
             "%bd = DequantizeLinear(%b, %s)\n%y = Gemm(%xd, %wd, %bd)\n" + tail},
        {"asymmetric_zero_point", Target::tensorrt,
         head + "const %zz: int8[] = {3}\n" + weights +
             "%xq = QuantizeLinear(%x, %s, %zz)\n%xd = DequantizeLinear(%xq, %s, %zz)\n%y = Gemm(%xd, %wd)\n" + tail},
        {"unsigned_type", Target::cuda,
         head + "const %zz: uint8[] = {0}\n" + weights +
             "%xq = QuantizeLinear(%x, %s, %zz)\n%xd = DequantizeLinear(%xq, %s, %zz)\n%y = Gemm(%xd, %wd)\n" + tail},
        {"unsigned_type", Target::tensorrt,
         head + weights + "%xq = QuantizeLinear(%x, %s)\n%xd = DequantizeLinear(%xq, %s)\n%y = Gemm(%xd, %wd)\n" +
             tail},
        {"per_channel_activation", Target::openvino,
         head + "const %ss: float32[2] = {0.1, 0.2}\n" + weights +
             "%xq = QuantizeLinear(%x, %ss)\n%xd = DequantizeLinear(%xq, %ss)\n%y = Gemm(%xd, %wd)\n" + tail},
        {"bad_scale", Target::openvino,
         "opset 18\ninput %x: float32[1, 2]\nconst %s: float32[] = {0.0}\n%q = QuantizeLinear(%x, %s)\n"
         "%y = DequantizeLinear(%q, %s)\n" +
             tail},
        {"bad_scale", Target::openvino,
         "opset 18\ninput %x: float32[1, 2]\nconst %s: float32[] = {nan}\n%q = QuantizeLinear(%x, %s)\n"
         "%y = DequantizeLinear(%q, %s)\n" +
             tail},
        {"subnormal_scale", Target::openvino,
         "opset 18\ninput %x: float32[1, 2]\nconst %s: float32[] = {1e-40}\n%q = QuantizeLinear(%x, %s)\n"
         "%y = DequantizeLinear(%q, %s)\n" +
             tail},
        {"dynamic_scale", Target::tensorrt,
         "opset 18\ninput %x: float32[1, 2]\ninput %s: float32[]\n%q = QuantizeLinear(%x, %s)\n"
         "%y = DequantizeLinear(%q, %s)\n" +
             tail},
        {"dangling_quantize", Target::openvino, head + "%xq = QuantizeLinear(%x, %s, %z)\n%y = Exp(%x)\n" + tail},
        {"dangling_quantize", Target::openvino,
         head + "%xq = QuantizeLinear(%x, %s, %z)\n%c = Cast(%xq) {to = 1}\n%y = Exp(%c)\n" + tail},
        {"dangling_dequantize", Target::openvino,
         head + "%c = Cast(%x) {to = 3}\n%y = DequantizeLinear(%c, %s, %z)\n" + tail},
        {"pair_mismatch", Target::openvino,
         head + "const %t: float32[] = {0.2}\n%xq = QuantizeLinear(%x, %s, %z)\n%y = DequantizeLinear(%xq, %t, %z)\n" +
             tail},
        {"half_quantized", Target::openvino,
         head + pair_of_x +
             "const %f: float32[2, 2] = {1.0, 1.0, 1.0, 1.0}\n"
             "%y = Gemm(%xd, %f)\n" +
             tail},
        {"half_quantized", Target::openvino, head + weights + "%y = Gemm(%x, %wd)\n" + tail},
        {"float_layer", Target::openvino,
         head + pair_of_x + weights +
             "const %f: float32[2, 2] = {1.0, 1.0, 1.0, 1.0}\n%h = Gemm(%xd, %wd)\n"
             "%y = Gemm(%h, %f)\n" +
             tail},
        {"unsigned_weight", Target::openvino,
         head + pair_of_x +
             "const %u: uint8[2, 2] = {1, 2, 3, 4}\nconst %uz: uint8[] = {128}\n"
             "%ud = DequantizeLinear(%u, %s, %uz)\n%y = Gemm(%xd, %ud)\n" +
             tail},
        {"asymmetric_weight", Target::openvino,
         head + pair_of_x + "const %zz: int8[] = {5}\n%wd = DequantizeLinear(%w, %s, %zz)\n%y = Gemm(%xd, %wd)\n" +
             tail},
        {"weight_not_folded", Target::openvino,
         head + pair_of_x +
             "const %f: float32[2, 2] = {1.0, 1.0, 1.0, 1.0}\n%fq = QuantizeLinear(%f, %s, %z)\n"
             "%fd = DequantizeLinear(%fq, %s, %z)\n%y = Gemm(%xd, %fd)\n" +
             tail},
        {"breaks_fusion", Target::openvino,
         head + pair_of_x + weights +
             "%h = Gemm(%xd, %wd)\n%hq = QuantizeLinear(%h, %s, %z)\n"
             "%hd = DequantizeLinear(%hq, %s, %z)\n%y = Relu(%hd)\n" +
             tail},
        {"residual_in_float", Target::tensorrt,
         head + pair_of_x + weights +
             "%h = Gemm(%xd, %wd)\n%a = Add(%h, %x)\n%aq = QuantizeLinear(%a, %s, %z)\n"
             "%y = DequantizeLinear(%aq, %s, %z)\n" +
             tail},
        {"residual_half_quantized", Target::openvino,
         head + pair_of_x + weights +
             "%h = Gemm(%xd, %wd)\n%a = Add(%h, %xd)\n%aq = QuantizeLinear(%a, %s, %z)\n"
             "%y = DequantizeLinear(%aq, %s, %z)\n" +
             tail},
        {"concat_scales", Target::openvino,
         head + pair_of_x +
             "const %t: float32[] = {0.2}\n%vq = QuantizeLinear(%x, %t, %z)\n"
             "%vd = DequantizeLinear(%vq, %t, %z)\n%y = Concat(%xd, %vd) {axis = 0}\n" +
             tail},
    };
    for (const Case& each : cases) {
        EXPECT_THAT(rules(graph(each.text), each.target), Contains(each.rule)) << each.text;
    }
}

// Must not fire: what we write ourselves, for every target.
TEST(Lint, OurOwnOutputIsClean) {
    std::string text = "opset 18\nir 8\ninput %x: float32[1, 16, 4, 4]\n";
    for (const char* name : {"a", "b", "c", "e"})
        text += weight(name, "16, 16, 1, 1", 256);
    text += weight("bias", "16", 16) + weight("w", "32, 16", 512) +
            "%d = Conv(%x, %a)\n%m = Conv(%x, %b, %bias)\n%s = Add(%m, %d)\n%t = Relu(%s)\n"
            "%u = Conv(%t, %c)\n%v = Add(%u, %t)\n%o = Clip(%v)\n"
            "%l = Conv(%o, %e)\n%k = Relu(%l)\n%cat = Concat(%k, %o) {axis = 1}\n"
            "%p = MaxPool(%cat) {kernel_shape = [2, 2]}\n%g = GlobalAveragePool(%p)\n%f = Flatten(%g)\n"
            "%y = Gemm(%f, %w)\noutput %y: float32[1, 16]\n";
    const Model model = graph(text);
    for (const TargetProfile& profile : target_profiles()) {
        const auto planned = plan(model, profile.target);
        EXPECT_EQ(planned.quantized_nodes, 5U);
        const InsertOptions options{.weight_range = range_for_this_cpu(profile)};
        const auto result = insert_quantization(model, planned, same_ranges(planned, {-1.0F, 1.0F}), options);
        ASSERT_TRUE(result) << result.error().describe();
        EXPECT_THAT(rules(*result, profile.target), IsEmpty()) << profile.name;
    }
}

// Told where this CPU clips such sums, and nowhere else.
TEST(Lint, WeightsThatOverflow) {
    const Model model = graph("opset 18\nir 8\ninput %x: float32[1, 2]\nconst %s: float32[] = {0.1}\n"
                              "const %u: uint8[] = {0}\nconst %z: int8[] = {0}\n"
                              "const %w: int8[2, 2] = {100, 1, 100, 1}\n"
                              "%xq = QuantizeLinear(%x, %s, %u)\n%xd = DequantizeLinear(%xq, %s, %u)\n" +
                              weights + "%y = Gemm(%xd, %wd)\n" + tail);
    const bool clips = range_for_this_cpu(profile_of(Target::openvino)) != WeightRange::full;
    EXPECT_EQ(rules(model, Target::openvino),
              clips ? std::vector<std::string>{"weights_overflow"} : std::vector<std::string>{});
    EXPECT_THAT(rules(model, Target::cuda), Not(Contains("weights_overflow")));
}

TEST(Lint, ModelForOpenvinoIsRefusedForTensorrtOnly) {
    const Model model = graph(head + pair_of_x + weights + "%y = Gemm(%xd, %wd)\n" + tail);
    EXPECT_THAT(rules(model, Target::tensorrt), IsEmpty());
    EXPECT_THAT(rules(model, Target::openvino), IsEmpty());
}

} // namespace
} // namespace lathe
