// What OpenVINO reads back from its own compiled form computes what was compiled, or is not kept.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

std::string weights(const std::string& name, std::size_t rows, std::size_t columns, double seed) {
    std::string text =
        "const %" + name + ": float32[1, " + std::to_string(rows) + ", " + std::to_string(columns) + "] = {";
    for (std::size_t i = 0; i < rows * columns; ++i)
        text += (i > 0 ? ", " : "") + std::to_string(std::sin(seed + 1.7 * static_cast<double>(i)));
    return text + "}\n";
}

/// Two layers, the first's output squeezed into the second's input, as PyTorch exports nn.LSTM(num_layers=2).
Model two_layers(const std::string& op, std::size_t gates, const std::string& input, const std::string& before) {
    const std::size_t hidden = 5, features = 4;
    return model_from_text("opset 18\n" + input + weights("wa", gates * hidden, features, 0.1) +
                           weights("ra", gates * hidden, hidden, 0.5) + weights("wb", gates * hidden, hidden, 0.9) +
                           weights("rb", gates * hidden, hidden, 1.3) + "const %one: int64[1] = {1}\n" + before +
                           "%a = " + op + "(%t, %wa, %ra) {hidden_size = 5}\n%s = Squeeze(%a, %one)\n%b = " + op +
                           "(%s, %wb, %rb) {hidden_size = 5}\n%y = Squeeze(%b, %one)\noutput %y: float32[6, 3, 5]\n");
}

HostTensor sines(Shape shape) {
    HostTensor x("x", DataType::float32, std::move(shape));
    for (std::size_t i = 0; i < x.as<float>().size(); ++i)
        x.as<float>()[i] = std::sin(0.37F * static_cast<float>(i));
    return x;
}

class StackedLayers : public testing::TestWithParam<std::pair<const char*, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(All, StackedLayers,
                         testing::Values(std::pair{"LSTM", std::size_t{4}}, std::pair{"GRU", std::size_t{3}},
                                         std::pair{"RNN", std::size_t{1}}));

// OpenVINO took the axis of time for that of the batch in all but the last layer, once saved and loaded (12 dB).
TEST_P(StackedLayers, AreSavedAsTheyWereCompiled) {
    const auto [op, gates] = GetParam();
    for (const bool batch_first : {false, true}) {
        const Model model = batch_first ? two_layers(op, gates, "input %x: float32[3, 6, 4]\n",
                                                     "%t = Transpose(%x) {perm = [1, 0, 2]}\n")
                                        : two_layers(op, gates, "input %x: float32[6, 3, 4]\n", "%t = Identity(%x)\n");
        const auto compiled = cpu().compile(model, {});
        ASSERT_TRUE(compiled) << compiled.error().describe();
        const auto chain = (*compiled)->save();
        ASSERT_TRUE(chain) << chain.error().describe();
        const std::string blob = chain->flat();
        ASSERT_FALSE(blob.empty()) << op << ": the compiled form was found wrong";
        const auto loaded = cpu().load(std::as_bytes(std::span(blob)), nullptr, {});
        ASSERT_TRUE(loaded) << loaded.error().describe();
        const HostTensor x = sines(batch_first ? Shape{3, 6, 4} : Shape{6, 3, 4});
        const std::vector<HostTensor> expected = outputs_of(**compiled, {x}), found = outputs_of(**loaded, {x});
        ASSERT_EQ(expected.size(), 1U);
        ASSERT_EQ(found.size(), 1U);
        ASSERT_EQ(expected[0].as<float>().size(), 90U);
        EXPECT_THAT(found[0].as<float>(), testing::Pointwise(testing::FloatNear(1e-5F), expected[0].as<float>())) << op;
    }
}

// OpenVINO 2026.4 leaves out of what it writes how large the tables of its rotary embedding are.
TEST(SavedForm, IsEmptyWhereItWouldBeReadAsAnotherNetwork) {
    const Model model = model_from_text("opset 23\ninput %x: float32[2, 4, 3, 8]\ninput %c: float32[2, 3, 4]\n"
                                        "input %s: float32[2, 3, 4]\n%y = RotaryEmbedding(%x, %c, %s)\n"
                                        "output %y: float32[2, 4, 3, 8]\n");
    const auto compiled = cpu().compile(model, {});
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto chain = (*compiled)->save();
    ASSERT_TRUE(chain) << chain.error().describe();
    EXPECT_EQ(chain->size(), 0U) << "OpenVINO has mended it: let such engines be saved";
}

} // namespace
} // namespace lathe::test
