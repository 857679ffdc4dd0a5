// Convolutions whose filters or biases are computed, against the CPU engine.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lathe::cuda {
namespace {

struct ComputedCase {
    std::string name, op, x, filter, bias, attributes;
    bool gathers = true;
};

/// "2, 8, 5, 7" as sizes.
Shape shape_of(const std::string& text) {
    Shape shape;
    for (std::size_t at = 0; at < text.size();
         at = text.find(',', at) == std::string::npos ? text.size() : text.find(',', at) + 1)
        shape.push_back(std::stoll(text.substr(at)));
    return shape;
}

std::string network_of(const ComputedCase& c) {
    std::string text = "opset 18\ninput %x: float32[" + c.x + "]\ninput %f: float32[" + c.filter + "]\n";
    if (!c.bias.empty()) text += "input %b: float32[" + c.bias + "]\n%b2 = Neg(%b)\n";
    return text + "%f2 = Tanh(%f)\n%y = " + c.op + "(%x, %f2" + (c.bias.empty() ? "" : ", %b2") + ")" +
           (c.attributes.empty() ? "" : " {" + c.attributes + "}") + "\noutput %y: undefined\n";
}

const std::vector<ComputedCase>& cases() {
    static const std::vector<ComputedCase> list{
        {"pixels", "Conv", "2, 8, 5, 7", "6, 8, 1, 1", "6", "", false},
        {"strided_pixels", "Conv", "2, 8, 5, 7", "6, 8, 1, 1", "", "strides = [2, 2]"},
        {"padded", "Conv", "2, 8, 5, 7", "6, 8, 3, 3", "6", "pads = [1, 1, 1, 1]"},
        {"one_sided", "Conv", "1, 3, 6, 7", "4, 3, 3, 2", "", "pads = [2, 0, 0, 1], strides = [2, 1]"},
        {"dilated", "Conv", "1, 4, 9, 9", "5, 4, 3, 3", "", "dilations = [2, 3]"},
        {"samples_as_groups", "Conv", "1, 8, 5, 7", "12, 4, 3, 3", "12", "pads = [1, 1, 1, 1], group = 2"},
        {"groups_of_samples", "Conv", "3, 8, 5, 7", "12, 4, 3, 3", "", "pads = [1, 1, 1, 1], group = 2"},
        {"correlation", "Conv", "1, 6, 9, 9", "6, 1, 4, 4", "", "group = 6"},
        {"correlation_of_samples", "Conv", "2, 6, 9, 9", "6, 1, 3, 3", "", "group = 6"},
        {"same_upper", "Conv", "1, 4, 6, 7", "4, 4, 2, 3", "", "auto_pad = \"SAME_UPPER\", strides = [2, 2]"},
        {"line", "Conv", "2, 4, 9", "6, 4, 3", "6", "pads = [1, 1]"},
        {"volume", "Conv", "1, 4, 4, 5, 3", "6, 2, 3, 2, 1", "", "pads = [1, 0, 0, 1, 1, 0], group = 2"},
        {"transposed", "ConvTranspose", "2, 4, 5, 3", "4, 6, 3, 3", "6", "strides = [2, 2], pads = [1, 1, 1, 1]",
         false},
        {"transposed_groups", "ConvTranspose", "1, 8, 5, 3", "8, 3, 4, 4", "", "strides = [2, 2], group = 2", false},
        {"transposed_samples", "ConvTranspose", "3, 8, 5, 3", "8, 3, 3, 3", "",
         "strides = [2, 2], group = 2, output_padding = [1, 1]", false},
        {"transposed_line", "ConvTranspose", "1, 4, 5", "4, 2, 4", "2", "strides = [2], pads = [1, 1]", false},
    };
    return list;
}

void expect_right(const Model& model, const std::vector<Shape>& shapes, const Plan& plan) {
    const auto valid = verify(plan);
    ASSERT_TRUE(valid) << valid.error().describe();
    auto inputs = lathe::test::random_inputs(model, shapes);
    const auto found = lathe::test::interpreted(plan, inputs, false);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_LE(lathe::test::relative_difference(lathe::test::run_on_cpu(model, inputs)[0], found[0]), 1e-5);
}

template <class Detail>
std::size_t count(const Plan& plan) {
    return static_cast<std::size_t>(
        std::ranges::count_if(plan.ops, [](const FusedOp& op) { return std::holds_alternative<Detail>(op.detail); }));
}

TEST(ComputedFilters, MultiplyPatches) {
    for (const ComputedCase& c : cases()) {
        SCOPED_TRACE(c.name);
        const Model model = lathe::test::network(network_of(c));
        std::vector<Shape> shapes{shape_of(c.x), shape_of(c.filter)};
        if (!c.bias.empty()) shapes.push_back(shape_of(c.bias));
        const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
        expect_right(model, shapes, plan);
        EXPECT_EQ(count<BatchedGemm>(plan), 1U) << print(plan);
        EXPECT_EQ(count<Gather>(plan), c.gathers ? 1U : 0U) << print(plan);
    }
}

// Only the bias is computed: the convolution stays one.
TEST(ComputedFilters, AComputedBiasIsAdded) {
    for (const auto& [op, filter] :
         std::vector<std::pair<std::string, std::string>>{{"Conv", "6, 4, 3, 3"}, {"ConvTranspose", "4, 6, 3, 3"}}) {
        SCOPED_TRACE(op);
        const Model model =
            lathe::test::network("opset 18\ninput %x: float32[2, 4, 6, 5]\ninput %b: float32[6]\n"
                                 "input %w_f: float32[" +
                                 filter + "]\n%b2 = Tanh(%b)\n%y = " + op + "(%x, %w_f, %b2)\noutput %y: undefined\n");
        const std::vector<Shape> shapes{{2, 4, 6, 5}, {6}};
        const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
        expect_right(model, shapes, plan);
        EXPECT_EQ(count<Conv>(plan), 1U) << print(plan);
    }
}

// Factors of a constant's channels go to the images: samples that were groups are a batch again (StyleGAN 2).
TEST(ComputedFilters, ThatAreModulatedAreConstants) {
    const std::string style =
        "opset 18\ninput %x: float32[2, 8, 6, 5]\ninput %z: float32[2, 8]\n"
        "input %w_f: float32[1, 6, 8, 3, 3]\ninput %b_y: float32[6, 1, 1]\n"
        "const %by_input: int64[5] = {2, 1, 8, 1, 1}\nconst %by_output: int64[5] = {2, 6, 1, 1, 1}\n"
        "const %all: int64[3] = {2, 3, 4}\nconst %two: float32[] = {2.0}\n"
        "%s = Reshape(%z, %by_input)\n%f = Mul(%w_f, %s)\n%q = Pow(%f, %two)\n"
        "%n = ReduceSum(%q, %all) {keepdims = 0}\n%r = Sqrt(%n)\n%d = Reciprocal(%r)\n"
        "%e = Reshape(%d, %by_output)\n%g = Mul(%f, %e)\n"
        "const %one: int64[4] = {1, 16, 6, 5}\n%i = Reshape(%x, %one)\n";
    const std::string behind = "%u = Add(%t, %b_y)\n%y = LeakyRelu(%u) {alpha = 0.2}\noutput %y: undefined\n";
    for (const std::string& convolution :
         {std::string("const %filters: int64[4] = {12, 8, 3, 3}\nconst %two_images: int64[4] = {2, 6, 6, 5}\n"
                      "%h = Reshape(%g, %filters)\n%c = Conv(%i, %h) {group = 2, pads = [1, 1, 1, 1]}\n"
                      "%t = Reshape(%c, %two_images)\n"),
          std::string("const %filters: int64[4] = {16, 6, 3, 3}\nconst %two_images: int64[4] = {2, 6, 13, 11}\n"
                      "%k = Transpose(%g) {perm = [0, 2, 1, 3, 4]}\n%h = Reshape(%k, %filters)\n"
                      "%c = ConvTranspose(%i, %h) {group = 2, strides = [2, 2]}\n%t = Reshape(%c, %two_images)\n")}) {
        const Model model = lathe::test::network(style + convolution + behind);
        const std::vector<Shape> shapes{{2, 8, 6, 5}, {2, 8}};
        const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
        expect_right(model, shapes, plan);
        EXPECT_EQ(count<Conv>(plan), 1U) << print(plan);
        EXPECT_EQ(count<BatchedGemm>(plan), 0U) << print(plan);
    }
}

// One filter for all channels, whose planes are images: each of one channel would be stored as one of eight.
TEST(Filters, OfPlanesAreDepthwise) {
    const Model model = lathe::test::network(
        "opset 18\ninput %x: float32[2, 16, 7, 6]\ninput %w_f: float32[1, 1, 4, 4]\ninput %b_f: float32[1]\n"
        "const %planes: int64[4] = {-1, 1, 7, 6}\nconst %images: int64[4] = {2, 16, 6, 5}\n%r = Relu(%x)\n"
        "%p = Reshape(%r, %planes)\n%c = Conv(%p, %w_f, %b_f) {pads = [1, 1, 1, 1]}\n%y = Reshape(%c, %images)\n"
        "output %y: undefined\n");
    const std::vector<Shape> shapes{{2, 16, 7, 6}};
    const Plan plan = lathe::test::plan_of(model, Precision::float32, shapes);
    expect_right(model, shapes, plan);
    EXPECT_EQ(count<Depthwise>(plan), 1U) << print(plan);
    EXPECT_EQ(count<Conv>(plan), 0U) << print(plan);
}

// Constants that are large are inputs of the prepared graph: no product is made of them.
TEST(ComputedFilters, LargeConstantsAreNone) {
    const Model model = lathe::test::network("opset 18\ninput %x: float32[1, 64, 6, 5]\n"
                                             "input %w_f: float32[64, 64, 3, 3]\ninput %b_f: float32[64]\n"
                                             "%y = Conv(%x, %w_f, %b_f)\noutput %y: undefined\n");
    const Plan plan = lathe::test::plan_of(model, Precision::float32, {{1, 64, 6, 5}});
    EXPECT_EQ(count<Conv>(plan), 1U) << print(plan);
    EXPECT_EQ(count<BatchedGemm>(plan), 0U) << print(plan);
}

} // namespace
} // namespace lathe::cuda
