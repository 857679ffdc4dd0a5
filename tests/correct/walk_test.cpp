#include "correct/walk.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "correct/as_run.hpp"
#include "networks.hpp"

namespace lathe {
namespace {

TEST(Walk, GivesTheValuesOfTheWholeRun) {
    const Model model = test::conv_network();
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 3, 7);
    const auto expected = test::values_of(model, {"r", "f"}, samples);
    auto walk = Walk::start(model, samples, 1);
    ASSERT_TRUE(walk) << walk.error().describe();
    ASSERT_TRUE(walk->stop_before("c"));
    ASSERT_NE(walk->value("r"), nullptr);
    EXPECT_LT(test::distance(expected[0], *walk->value("r")), 1e-5);
    ASSERT_TRUE(walk->stop_before("y"));
    EXPECT_LT(test::distance(expected[1], *walk->value("f")), 1e-5);
    EXPECT_EQ(walk->value("r"), nullptr) << "nobody reads it any more";
    EXPECT_EQ(walk->stop_before("nothing").error().code, ErrorCode::not_found);
}

TEST(Walk, KeepsWhatAStopAsksForUntilTheNext) {
    const Model model = test::conv_network();
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 3, 7);
    const auto expected = test::values_of(model, {"r"}, samples);
    auto walk = Walk::start(model, samples, 1);
    ASSERT_TRUE(walk);
    ASSERT_TRUE(walk->stop_before("y", {"r", "x"}));
    ASSERT_NE(walk->value("r"), nullptr) << "asked for, though it was passed";
    EXPECT_LT(test::distance(expected[0], *walk->value("r")), 1e-5);
    EXPECT_NE(walk->value("x"), nullptr) << "an input is a value like others";
    ASSERT_TRUE(walk->stop_before("y"));
    EXPECT_NE(walk->value("r"), nullptr) << "that was no new stop";
}

// A constant that changes before its reader runs counts, though what reads it first is a constant node further up.
TEST(Walk, UsesConstantsAsTheyAreWhenTheirReaderRuns) {
    Model model = test::model_from_text("opset 17\ninput %x: float32[2, 3]\n"
                                        "const %q: int8[3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
                                        "const %s: float32[] = {0.5}\nconst %z: int8[] = {0}\n"
                                        "%w = DequantizeLinear(%q, %s, %z)\n%a = Relu(%x)\n%b = MatMul(%a, %w)\n"
                                        "%y = Neg(%b)\n%e = MatMul(%y, %w)\noutput %e: float32[2, 3]\n");
    const auto samples = test::noise_samples("x", {2, 3}, 1, 3);
    auto walk = Walk::start(model, samples, 1);
    ASSERT_TRUE(walk);
    ASSERT_TRUE(walk->stop_before("b"));
    const std::vector<std::int8_t> ones(9, 2);
    const Tensor changed = Tensor::of<std::int8_t>("q", DataType::int8, {3, 3}, ones);
    walk->set_constant(changed);
    ASSERT_TRUE(walk->stop_before("e"));
    model.graph.initializers.insert_or_assign("q", changed);
    EXPECT_LT(test::distance(test::values_of(model, {"y"}, samples)[0], *walk->value("y")), 1e-6);
}

TEST(Walk, LeavesItsMemoryToTheNext) {
    const Model model = test::conv_network();
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 3, 7);
    const auto expected = test::values_of(model, {"f"}, samples);
    const auto spare = std::make_shared<SpareMemory>();
    const auto memory = [&] {
        std::set<const std::byte*> pieces;
        for (const auto& piece : *spare) {
            if (piece.capacity() > 0) pieces.insert(piece.data());
        }
        return pieces;
    };
    std::set<const std::byte*> first;
    for (int round = 0; round < 3; ++round) {
        {
            auto walk = Walk::start(model, samples, 1, no_progress(), spare);
            ASSERT_TRUE(walk) << walk.error().describe();
            ASSERT_TRUE(walk->stop_before("c"));
            ASSERT_TRUE(walk->stop_before("y"));
            EXPECT_LT(test::distance(expected[0], *walk->value("f")), 1e-5) << "round " << round;
        }
        if (round == 0) first = memory();
        EXPECT_FALSE(first.empty());
        // Its own copies of the samples come on top; what it computes lies where the first walk's values did.
        EXPECT_TRUE(std::ranges::includes(memory(), first));
        EXPECT_LE(memory().size(), first.size() + static_cast<std::size_t>(round) * samples.at("x").size());
    }
}

TEST(Walk, NeedsSamplesForEveryInput) {
    EXPECT_EQ(Walk::start(test::conv_network(), {}, 1).error().code, ErrorCode::not_found);
}

const char* const residual_text =
    "opset 17\ninput %x: float32[1, 1, 2, 2]\nconst %w: float32[1, 1, 1, 1] = {1.0}\n"
    "const %s: float32[] = {0.5}\nconst %z: uint8[] = {0}\n"
    "%c = Conv(%x, %w)\n%q = QuantizeLinear(%c, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n"
    "%y = ";

TEST(AsRun, DropsThePairBetweenAConvolutionAndItsSum) {
    const Model model =
        test::model_from_text(std::string(residual_text) + "Add(%d, %x)\noutput %y: float32[1, 1, 2, 2]\n");
    EXPECT_EQ(as_run(model, Target::openvino).graph.nodes.size(), 2U);
    EXPECT_EQ(as_run(model, Target::openvino).graph.nodes.back()->inputs.front(), "c");
    EXPECT_EQ(as_run(model, Target::onnxruntime).graph.nodes.size(), 4U) << "that one rounds there";
}

TEST(AsRun, KeepsPairsThatCount) {
    const Model model =
        test::model_from_text(std::string(residual_text) + "Conv(%d, %w)\noutput %y: float32[1, 1, 2, 2]\n");
    EXPECT_EQ(as_run(model, Target::openvino).graph.nodes.size(), 4U);
}

} // namespace
} // namespace lathe
