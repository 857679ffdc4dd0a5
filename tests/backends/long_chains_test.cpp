// Chains that are joined before OpenVINO sees them compute what they did.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

/// All outputs on one input of the numbers -1, 0, 0.5, 2.
std::vector<std::vector<float>> run(const std::string& text) {
    HostTensor x("x", DataType::float32, {1, 4});
    std::ranges::copy(std::array{-1.0F, 0.0F, 0.5F, 2.0F}, x.as<float>().begin());
    std::vector<std::vector<float>> outputs;
    for (const HostTensor& values : outputs_of(text, {x}))
        outputs.emplace_back(values.as<float>().begin(), values.as<float>().end());
    return outputs;
}

struct Series {
    std::string name;
    std::size_t length;
    std::vector<std::string> nodes;                                ///< in turns; "@" is the value before
    std::vector<std::function<float(float, std::size_t)>> compute; ///< in float32, for the column
};

std::vector<Series> series() {
    constexpr std::array row{1.01F, 0.98F, 1.0F, 1.02F};
    const auto plus = [](float x, std::size_t) { return x + 0.25F; };
    const auto times = [](float x, std::size_t) { return x * 1.5F; };
    const auto times_row = [=](float x, std::size_t i) { return x * row[i]; };
    const auto over = [](float x, std::size_t) { return x / 2.0F; };
    const auto less_row = [=](float x, std::size_t i) { return x - row[i]; };
    return {
        {"Sums", 500, {"Add(@, %q)"}, {plus}},
        {"ConstantFirst", 100, {"Add(%q, @)", "Mul(%h, @)", "Div(@, %t)"}, {plus, times, over}},
        {"RowsAndScalars", 300, {"Mul(@, %r)", "Sub(@, %r)", "Add(@, %q)"}, {times_row, less_row, plus}},
        // Below the least float.
        {"Underflow", 400, {"Div(@, %t)"}, {over}},
        {"ShortOfJoining", 20, {"Add(@, %q)", "Mul(@, %r)"}, {plus, times_row}},
    };
}

class JoinedRun : public testing::TestWithParam<Series> {};

TEST_P(JoinedRun, ComputesWhatTheNodesDoOneByOne) {
    const Series& each = GetParam();
    std::string text = "opset 17\ninput %x: float32[1, 4]\nconst %q: float32[] = {0.25}\nconst %h: float32[1] = {1.5}\n"
                       "const %t: float32[1, 1] = {2.0}\nconst %r: float32[4] = {1.01, 0.98, 1.0, 1.02}\n";
    std::vector<float> expected{-1.0F, 0.0F, 0.5F, 2.0F};
    std::string before = "%x";
    for (std::size_t i = 0; i < each.length; ++i) {
        std::string node = each.nodes[i % each.nodes.size()];
        node.replace(node.find('@'), 1, before);
        before = i + 1 == each.length ? "%y" : "%v" + std::to_string(i);
        text += before + " = " + node + "\n";
        for (std::size_t column = 0; column < 4; ++column)
            expected[column] = each.compute[i % each.compute.size()](expected[column], column);
    }
    const auto outputs = run(text + "output %y: float32[1, 4]\n");
    ASSERT_EQ(outputs.size(), 1U);
    for (std::size_t column = 0; column < 4; ++column) {
        const float want = expected[column];
        EXPECT_NEAR(outputs[0].at(column), want, 1e-4F * std::abs(want) + 1e-30F) << "column " << column;
    }
}

INSTANTIATE_TEST_SUITE_P(Chains, JoinedRun, testing::ValuesIn(series()),
                         [](const auto& info) { return info.param.name; });

TEST(LongChains, ValuesThatOthersReadStay) {
    std::string text = "opset 17\ninput %x: float32[1, 4]\nconst %q: float32[] = {0.25}\n";
    std::string before = "%x";
    for (int i = 0; i < 200; ++i) {
        const std::string output = "%v" + std::to_string(i);
        text += output + " = Add(" + before + ", %q)\n";
        before = output;
    }
    const auto outputs = run(text + "output %v99: float32[1, 4]\noutput %v150: float32[1, 4]\n"
                                    "output %v199: float32[1, 4]\n");
    ASSERT_EQ(outputs.size(), 3U);
    EXPECT_EQ(outputs[0], (std::vector<float>{24.0F, 25.0F, 25.5F, 27.0F}));
    EXPECT_EQ(outputs[1], (std::vector<float>{36.75F, 37.75F, 38.25F, 39.75F}));
    EXPECT_EQ(outputs[2], (std::vector<float>{49.0F, 50.0F, 50.5F, 52.0F}));
}

} // namespace
} // namespace lathe::test
