// Convolutions with few results a pixel: taps of a row as results of their own, against the CPU engine.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lathe::cuda {
namespace {

struct FewFilters {
    std::string name, x, filter, bias, attributes;
    std::int64_t taps = 0; ///< results of the convolution that is left; 0: it stays as it is
    Precision precision = Precision::float32;
};

std::string network_of(const FewFilters& c) {
    std::string text = "opset 18\ninput %x: float32[" + c.x + "]\ninput %w_f: float32[" + c.filter + "]\n";
    if (!c.bias.empty()) text += "input %b_c: float32[" + c.bias + "]\n";
    return text + "%c = Conv(%x, %w_f" + (c.bias.empty() ? "" : ", %b_c") + ")" +
           (c.attributes.empty() ? "" : " {" + c.attributes + "}") + "\n%y = Tanh(%c)\noutput %y: undefined\n";
}

TEST(FewFilters, LeaveNoColumnsEmpty) {
    const std::vector<FewFilters> cases{
        {"generator", "1, 16, 80, 72", "3, 16, 9, 9", "3", "pads = [4, 4, 4, 4]", 27},
        {"without_bias", "2, 24, 80, 80", "1, 24, 7, 7", "", "", 7},
        {"uneven", "1, 16, 240, 120", "2, 16, 5, 7", "2", "pads = [1, 2, 3, 0], strides = [2, 1]", 14},
        {"dilated", "1, 16, 140, 140", "3, 16, 5, 5", "3", "dilations = [2, 3], pads = [4, 6, 4, 6]", 15},
        {"small_image", "1, 16, 20, 20", "3, 16, 9, 9", "3", "pads = [4, 4, 4, 4]"},
        {"strided", "1, 16, 160, 144", "3, 16, 9, 9", "3", "strides = [2, 2]"},
        {"many_filters", "1, 16, 80, 72", "16, 16, 9, 9", "16", "pads = [4, 4, 4, 4]"},
        {"few_channels", "1, 3, 200, 200", "3, 3, 9, 9", "3", "pads = [4, 4, 4, 4]"},
        {"bf16", "1, 16, 80, 72", "3, 16, 9, 9", "3", "pads = [4, 4, 4, 4]", 0, Precision::bfloat16},
    };
    for (const FewFilters& c : cases) {
        SCOPED_TRACE(c.name);
        const Model model = lathe::test::network(network_of(c));
        const std::vector<Shape> shapes{*model.graph.inputs[0].shape()};
        const Plan plan = lathe::test::plan_of(model, c.precision, shapes);
        const auto valid = verify(plan);
        ASSERT_TRUE(valid) << valid.error().describe();
        std::vector<std::int64_t> results;
        for (const FusedOp& op : plan.ops)
            if (std::holds_alternative<Conv>(op.detail)) results.push_back(plan.values[op.outputs[0]].dims[1]);
        const std::int64_t filters = model.graph.initializers.at("w_f").shape()[0];
        EXPECT_EQ(results, std::vector<std::int64_t>{c.taps == 0 ? filters : c.taps}) << print(plan);
        EXPECT_LE(plan.ops.size(), c.taps == 0 ? 3U : 5U) << print(plan);
        auto inputs = lathe::test::random_inputs(model, shapes);
        const auto found = lathe::test::interpreted(plan, inputs, false);
        ASSERT_EQ(found.size(), 1U);
        EXPECT_LE(lathe::test::relative_difference(lathe::test::run_on_cpu(model, inputs)[0], found[0]),
                  c.precision == Precision::bfloat16 ? 2e-2 : 1e-5);
    }
}

} // namespace
} // namespace lathe::cuda
