#include "autocast/masks.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"

namespace lathe {
namespace {

using test::cast_graph;
using test::planned;
using test::reasons;
using test::seen;
using testing::HasSubstr;

constexpr float lowest = std::numeric_limits<float>::lowest();

/// Attention as torch.onnx's dynamo exporter writes it: a causal mask, chosen by a Where, added to the scores.
const char* const attention = R"(opset 18
ir 8
input %q: float32[1, 2, 4]
input %k: float32[1, 4, 2]
input %seen: bool[1, 2, 2]
const %zero: float32[] = {0.0}
const %min: float32[] = {-3.4028235e38}
const %causal: float32[2, 2] = {0.0, -3.4028235e38, 0.0, 0.0}
%scores = MatMul(%q, %k) {name = "scores"}
%padding = Where(%seen, %zero, %min) {name = "padding"}
%padded = Add(%scores, %padding) {name = "padded"}
%masked = Add(%padded, %causal) {name = "masked"}
%p = Softmax(%masked) {name = "p"}
%y = MatMul(%p, %q) {name = "y"}
output %y: float32[1, 2, 4]
)";
const std::map<std::string, std::vector<float>> measured{
    {"padding", {0.0F, lowest}}, {"padded", {3.0F, lowest}}, {"masked", {3.0F, lowest}}};

TEST(Masks, AreClampedAndNeitherTheyNorTheirReadersStayFp32) {
    const Model model = cast_graph(attention);
    for (const HalfFormat& format : {fp16, bf16}) {
        AutocastOptions options;
        options.format = format;
        const auto outcome = autocast_model(model, seen(model, measured), options);
        ASSERT_TRUE(outcome) << outcome.error().describe();
        for (const auto& [node, reason] : reasons(outcome->plan))
            EXPECT_EQ(reason, "cast") << format.name << " " << node;
        const std::string suffix = std::string("_") + format.name;
        EXPECT_EQ(outcome->model.graph.initializer("min" + suffix)->to_floats().at(0), rounded_to(format, -30000.0F));
        EXPECT_EQ(outcome->model.graph.initializer("causal" + suffix)->to_floats().at(0), 0.0F);
        ASSERT_EQ(outcome->remarks.size(), 2U);
        EXPECT_THAT(outcome->remarks.front(), HasSubstr("causal is a mask"));
    }
}

TEST(Masks, AreNotTakenForRoomOfOtherValues) {
    // Scores that come too near the largest number stay FP32, mask or none.
    const Model model = cast_graph(attention);
    auto values = measured;
    values["scores"] = {50000.0F, -50000.0F};
    const auto found = reasons(planned(model, seen(model, values)));
    EXPECT_EQ(found.at("scores"), "activation_overflow");
    EXPECT_EQ(found.at("padded"), "activation_overflow");
}

TEST(Masks, InFullPrecisionAreNotHandedToHalf) {
    // The Where computes -3.4e38; a Cast of that would be infinite.
    const Model model = cast_graph(attention);
    AutocastOptions options;
    options.exclude = {"padding"};
    const auto found = reasons(planned(model, seen(model, measured), options));
    EXPECT_EQ(found.at("padded"), "activation_overflow");
    EXPECT_EQ(found.at("scores"), "cast");
}

TEST(Masks, ReadByWhatDoesNotExpectThemStay) {
    const Model model = cast_graph(R"(opset 18
ir 8
input %x: float32[2]
const %mask: float32[2] = {0.0, -3.4028235e38}
%m = Add(%x, %mask) {name = "m"}
%y = Div(%m, %mask) {name = "y"}
output %y: float32[2]
)");
    const auto found = reasons(planned(model, seen(model, {{"m", {1.0F, lowest}}})));
    EXPECT_EQ(found.at("y"), "activation_overflow");
}

} // namespace
} // namespace lathe
