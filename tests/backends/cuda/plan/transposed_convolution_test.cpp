// Transposed convolutions as convolutions of all phases and a movement, against the CPU engine.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lathe::cuda {
namespace {

struct TransposedCase {
    std::string name, filter, attributes;
    Shape x{2, 8, 5, 7};
    bool cut = false; ///< more is computed than is wanted
    std::string behind = "Relu(%t)";
    int channels = 0; ///< of the result, where that is more than the filter says
};

std::string network_of(const TransposedCase& c) {
    std::string x;
    for (std::size_t d = 1; d < c.x.size(); ++d)
        x += ", " + std::to_string(c.x[d]);
    const std::size_t from = c.filter.find(' ') + 1;
    const std::string k =
        c.channels != 0 ? std::to_string(c.channels) : c.filter.substr(from, c.filter.find(',', from) - from);
    return "opset 18\ninput %x: float32[N" + x + "]\ninput %w_t: float32[" + c.filter + "]\ninput %b_t: float32[" + k +
           "]\n%t = ConvTranspose(%x, %w_t, %b_t) {" + c.attributes + "}\n%y = " + c.behind +
           "\noutput %y: undefined\n";
}

const std::vector<TransposedCase>& cases() {
    static const std::vector<TransposedCase> list{
        {"patches", "8, 16, 2, 2", "strides = [2, 2]"},
        {"patches_odd", "8, 5, 2, 2", "strides = [2, 2]"},
        {"gan", "8, 16, 4, 4", "strides = [2, 2], pads = [1, 1, 1, 1]"},
        {"three", "8, 16, 3, 3", "strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]"},
        {"three_cut", "8, 16, 3, 3", "strides = [2, 2], pads = [1, 1, 1, 1]", {2, 8, 5, 7}, true},
        {"three_odd", "8, 6, 3, 3", "strides = [2, 2], pads = [0, 1, 1, 0]", {1, 8, 5, 7}},
        {"stride1", "8, 8, 3, 3", "pads = [1, 1, 1, 1]"},
        {"stride1_more", "8, 8, 3, 3", "strides = [1, 1]"},
        {"stride3", "8, 8, 5, 2", "strides = [3, 1], pads = [1, 0, 0, 1]", {2, 8, 5, 7}, true},
        {"gaps", "8, 8, 2, 2", "strides = [3, 3]", {2, 8, 5, 7}, true},
        {"dilated", "8, 8, 3, 3", "strides = [2, 2], dilations = [2, 3], pads = [2, 2, 2, 2]", {2, 8, 5, 7}, true},
        {"cropped", "8, 8, 2, 2", "strides = [2, 2], pads = [3, 3, 3, 3]", {2, 8, 5, 7}, true},
        {"groups",
         "8, 3, 3, 3",
         "strides = [2, 2], pads = [1, 1, 1, 1], group = 4",
         {2, 8, 5, 7},
         true,
         "Relu(%t)",
         12},
        {"groups_dense", "8, 4, 2, 2", "strides = [2, 2], group = 2", {2, 8, 5, 7}, false, "Relu(%t)", 8},
        {"depthwise",
         "8, 1, 4, 4",
         "strides = [2, 2], pads = [1, 1, 1, 1], group = 8",
         {2, 8, 5, 7},
         false,
         "Relu(%t)",
         8},
        {"line", "8, 8, 4", "strides = [2], pads = [1, 1]", {2, 8, 9}},
        {"gelu_like", "8, 8, 2, 2", "strides = [2, 2]", {2, 8, 5, 7}, false, "Tanh(%t)"},
    };
    return list;
}

TEST(TransposedConvolution, ComputesWhatTheGraphSays) {
    for (const TransposedCase& c : cases()) {
        SCOPED_TRACE(c.name);
        const Model model = lathe::test::network(network_of(c));
        auto inputs = lathe::test::random_inputs(model, {c.x});
        const Plan plan = lathe::test::plan_of(model, Precision::float32, {c.x});
        const auto valid = verify(plan);
        ASSERT_TRUE(valid) << valid.error().describe();
        const auto expected = lathe::test::run_on_cpu(model, inputs);
        const auto found = lathe::test::interpreted(plan, inputs, false);
        ASSERT_EQ(found.size(), 1U);
        EXPECT_LE(lathe::test::relative_difference(expected[0], found[0]), 1e-5);
        int slices = 0, convolutions = 0;
        for (const FusedOp& op : plan.ops) {
            slices += std::holds_alternative<Slice>(op.detail) ? 1 : 0;
            if (const auto* conv = std::get_if<Conv>(&op.detail)) {
                ++convolutions;
                EXPECT_NE(conv->epilogue.act, Activation::none) << "the activation goes with the products";
            }
        }
        EXPECT_EQ(convolutions, 1);
        EXPECT_EQ(slices, c.cut ? 1 : 0);
    }
}

// Rounding to int8 comes before the phases are moved, scales are those of the result's channels in every phase.
TEST(TransposedConvolution, MultipliesInt8WhereQdqAsksForIt) {
    const std::string quantised =
        "opset 18\ninput %x: float32[N, 16, 5, 7]\ninput %s_x: float32[]\ninput %z_x: int8[]\n"
        "input %q_w: int8[16, 8, 3, 3]\ninput %s_w: float32[8]\ninput %z_w: int8[8]\n"
        "input %b_t: float32[8]\n"
        "%xq = QuantizeLinear(%x, %s_x, %z_x)\n%xd = DequantizeLinear(%xq, %s_x, %z_x)\n"
        "%wd = DequantizeLinear(%q_w, %s_w, %z_w) {axis = 1}\n"
        "%t = ConvTranspose(%xd, %wd, %b_t) {strides = [2, 2], pads = [1, 1, 1, 1]}\n"
        "%r = LeakyRelu(%t) {alpha = 0.1}\n%yq = QuantizeLinear(%r, %s_x, %z_x)\n"
        "%y = DequantizeLinear(%yq, %s_x, %z_x)\noutput %y: undefined\n";
    const Model model = lathe::test::network(quantised);
    const std::vector<Shape> shapes{{2, 16, 5, 7}};
    auto inputs = lathe::test::random_inputs(model, shapes);
    const Plan plan = lathe::test::plan_of(model, Precision::int8, shapes);
    const auto found = lathe::test::interpreted(plan, inputs, true);
    EXPECT_LE(lathe::test::relative_difference(lathe::test::run_on_cpu(model, inputs)[0], found[0]), 2e-2);
    const auto conv =
        std::ranges::find_if(plan.ops, [](const FusedOp& op) { return std::holds_alternative<Conv>(op.detail); });
    ASSERT_NE(conv, plan.ops.end());
    EXPECT_EQ(conv->compute, ElementType::s8) << print(plan);
    EXPECT_EQ(plan.values[conv->outputs[0]].type, ElementType::s8) << print(plan);
}

TEST(TransposedConvolution, PadsByItselfAsTheSpecificationSays) {
    for (const auto& [filter, automatic, pads] :
         std::vector<std::array<std::string, 3>>{{"8, 8, 3, 3", "auto_pad = \"SAME_UPPER\"", "pads = [0, 0, 1, 1]"},
                                                 {"8, 8, 4, 3", "auto_pad = \"SAME_LOWER\"", "pads = [1, 1, 1, 0]"},
                                                 {"8, 8, 5, 3", "output_shape = [10, 14]", "pads = [2, 1, 1, 0]"},
                                                 {"8, 8, 3, 3", "auto_pad = \"VALID\"", "pads = [0, 0, 0, 0]"}}) {
        SCOPED_TRACE(automatic);
        const Model first = lathe::test::network(network_of({"", filter, "strides = [2, 2], " + automatic}));
        const Model second = lathe::test::network(network_of({"", filter, "strides = [2, 2], " + pads}));
        auto inputs = lathe::test::random_inputs(first, {{2, 8, 5, 7}});
        const auto run = [&](const Model& model) {
            return lathe::test::interpreted(lathe::test::plan_of(model, Precision::float32, {{2, 8, 5, 7}}), inputs,
                                            false);
        };
        EXPECT_LE(lathe::test::relative_difference(run(second)[0], run(first)[0]), 1e-6);
    }
}

// The depths of a group's filters are multiplied one after another.
TEST(TransposedConvolution, OfAVolumeMayHaveGroups) {
    const std::vector<TransposedCase> list{
        {"depthwise", "8, 1, 3, 3, 3", "strides = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1], group = 8", {2, 8, 3, 4, 5}},
        {"depthwise_odd",
         "6, 1, 3, 2, 4",
         "strides = [2, 2, 1], pads = [1, 0, 1, 0, 1, 0], group = 6",
         {2, 6, 3, 4, 5}},
        {"one_depth", "8, 1, 1, 2, 2", "strides = [1, 2, 2], group = 8", {2, 8, 3, 4, 5}},
        {"depths_apart", "8, 1, 2, 2, 2", "strides = [2, 2, 2], group = 8", {1, 8, 3, 4, 5}},
        {"groups",
         "8, 4, 3, 3, 3",
         "strides = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1], output_padding = [1, 1, 1], group = 2",
         {2, 8, 3, 4, 5}}};
    for (TransposedCase c : list) {
        SCOPED_TRACE(c.name);
        c.channels = c.name == "groups" ? 8 : static_cast<int>(c.x[1]);
        const Model model = lathe::test::network(network_of(c));
        auto inputs = lathe::test::random_inputs(model, {c.x});
        const Plan plan = lathe::test::plan_of(model, Precision::float32, {c.x});
        const auto valid = verify(plan);
        ASSERT_TRUE(valid) << valid.error().describe();
        const auto found = lathe::test::interpreted(plan, inputs, false);
        EXPECT_LE(lathe::test::relative_difference(lathe::test::run_on_cpu(model, inputs)[0], found[0]), 1e-5);
    }
}

TEST(TransposedConvolution, RefusesWhatItHasNoFormFor) {
    const Model model = lathe::test::network("opset 18\ninput %x: float32[N, 8, 5, 5, 5, 5]\n"
                                             "input %w_t: float32[8, 4, 2, 2, 2, 2]\n"
                                             "%y = ConvTranspose(%x, %w_t)\noutput %y: undefined\n");
    auto prepared = prepare(model, Precision::float16);
    ASSERT_TRUE(prepared);
    const auto plan = lower(*prepared, {{1, 8, 5, 5, 5, 5}});
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().describe().find("one to three dimensions"), std::string::npos) << plan.error().describe();
}

} // namespace
} // namespace lathe::cuda
