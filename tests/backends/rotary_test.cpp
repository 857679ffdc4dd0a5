#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"
#include "backends/openvino/rotary.hpp"
#include "graph/text.hpp"

namespace lathe {
namespace {

using test::model_from_text;

/// x [N, 2 heads, 4 tokens, 4], of which the first token is not turned: as timm's exporter writes EVA-02.
std::string turned(const std::string& batch, const std::string& begin_of_odd = "one") {
    return "opset 17\ninput %x: float32[" + batch +
           ", 2, 4, 4]\n"
           "const %zero: int64[1] = {0}\nconst %one: int64[1] = {1}\nconst %two: int64[1] = {2}\n"
           "const %three: int64[1] = {3}\nconst %end: int64[1] = {9223372036854775807}\nconst %last: int64[1] = {-1}\n"
           "const %shape: int64[4] = {-1, 2, 3, 4}\n"
           "const %cos: float32[3, 4] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2}\n"
           "const %sin: float32[3, 4] = {1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.1, 2.2}\n"
           "%head = Slice(%x, %zero, %one, %two)\n%tail = Slice(%x, %one, %end, %two)\n"
           "%odd = Slice(%tail, %" +
           begin_of_odd +
           ", %end, %three, %two)\n%even = Slice(%tail, %zero, %end, %three, %two)\n"
           "%negative = Neg(%odd)\n%a = Unsqueeze(%negative, %last)\n%b = Unsqueeze(%even, %last)\n"
           "%pairs = Concat(%a, %b) {axis = -1}\n%around = Reshape(%pairs, %shape)\n"
           "%c = Mul(%tail, %cos)\n%s = Mul(%around, %sin)\n%sum = Add(%c, %s)\n"
           "%y = Concat(%head, %sum) {axis = 2}\noutput %y: float32[" +
           batch + ", 2, 4, 4]\n";
}

std::size_t count(const Model& model, const std::string& type) {
    return static_cast<std::size_t>(
        std::ranges::count_if(model.graph.nodes, [&](const auto& node) { return node->op_type == type; }));
}

TEST(Rotations, OfNeighboursAreGathered) {
    for (const std::string batch : {"1", "N"}) {
        Model model = model_from_text(turned(batch));
        openvino::write_rotations(model);
        EXPECT_EQ(count(model, "Gather"), 1U) << print(model);
        EXPECT_EQ(count(model, "Slice") + count(model, "Concat") + count(model, "Reshape"), 0U) << print(model);
    }
}

TEST(Rotations, KeepTheirResult) {
    HostTensor x("x", DataType::float32, {2, 2, 4, 4});
    for (std::size_t i = 0; i < x.as<float>().size(); ++i)
        x.as<float>()[i] = std::sin(static_cast<float>(i) * 1.7F);
    const std::vector<float> y = test::first_output(turned("2"), {x});
    ASSERT_EQ(y.size(), x.as<float>().size());
    for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t token = i / 4 % 4, at = i % 4;
        const float* row = x.as<float>().data() + i - at;
        const auto cosine = static_cast<float>((token - 1) * 4 + at + 1) / 10;
        const float other = at % 2 == 0 ? -row[at + 1] : row[at - 1];
        EXPECT_NEAR(y[i], token == 0 ? row[at] : row[at] * cosine + other * (cosine + 1), 1e-5F) << i;
    }
}

TEST(Rotations, WhatIsNoneStays) {
    Model both_even = model_from_text(turned("1", "zero"));
    openvino::write_rotations(both_even);
    EXPECT_EQ(count(both_even, "Gather"), 0U);
    std::string text = turned("1");
    text.replace(text.find("%y = Concat(%head"), 17, "%h = Neg(%head)\n%y = Concat(%h");
    Model other_head = model_from_text(text);
    openvino::write_rotations(other_head);
    EXPECT_EQ(count(other_head, "Gather"), 1U);
    EXPECT_EQ(count(other_head, "Concat"), 1U) << "its first row is none of what is turned";
}

// A part is turned, joined with the rest, and put out as it is as well.
TEST(Rotations, OfAPartThatOthersReadAreTheirs) {
    HostTensor x("x", DataType::float32, {1, 3, 2, 8}), cosine("c", DataType::float32, {1, 3, 4}), sine = cosine;
    sine.name = "s";
    std::ranges::copy(test::noise(48, 5), x.as<float>().begin());
    std::ranges::copy(test::noise(12, 6), cosine.as<float>().begin());
    std::ranges::copy(test::noise(12, 7), sine.as<float>().begin());
    const auto outputs = test::outputs_of(
        "opset 17\ninput %x: float32[1, 3, 2, 8]\ninput %c: float32[1, 3, 4]\ninput %s: float32[1, 3, 4]\n"
        "const %zero: int64[1] = {0}\nconst %one: int64[1] = {1}\nconst %two: int64[1] = {2}\n"
        "const %four: int64[1] = {4}\nconst %eight: int64[1] = {8}\nconst %last: int64[1] = {3}\n"
        "%h = Transpose(%x) {perm = [0, 2, 1, 3]}\n%cu = Unsqueeze(%c, %one)\n%su = Unsqueeze(%s, %one)\n"
        "%p = Slice(%h, %zero, %four, %last)\n%rest = Slice(%h, %four, %eight, %last)\n%m = Mul(%p, %cu)\n"
        "%b = Slice(%p, %two, %four, %last)\n%a = Slice(%p, %zero, %two, %last)\n%n = Neg(%b)\n"
        "%k = Concat(%n, %a) {axis = -1}\n%q = Mul(%k, %su)\n%r = Add(%m, %q)\n"
        "%y = Concat(%r, %rest) {axis = -1}\noutput %y: float32[1, 2, 3, 8]\noutput %r: float32[1, 2, 3, 4]\n",
        {x, cosine, sine});
    ASSERT_EQ(outputs.size(), 2U);
    ASSERT_EQ(outputs[1].shape, (Shape{1, 2, 3, 4}));
    for (std::size_t i = 0; i < outputs[1].as<float>().size(); ++i)
        EXPECT_EQ(outputs[1].as<float>()[i], outputs[0].as<float>()[i / 4 * 8 + i % 4]) << i;
}

} // namespace
} // namespace lathe
