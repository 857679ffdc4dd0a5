// Positions that the attention mask calls padding count nowhere: what is measured on padded batches is what is
// measured on each sample alone.
#include <gtest/gtest.h>

#include "correct/channel_statistics.hpp"
#include "correct/equalize.hpp"
#include "correct/judge.hpp"
#include "correct/layer.hpp"
#include "correct/layers.hpp"
#include "networks.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

constexpr std::size_t width = 8;
constexpr std::size_t longest = 6;

/// Sentences as [length, width], what stands at padding, and both forms of the samples.
struct Sentences {
    std::map<std::string, Batches> padded; ///< batches of two, filled up to `longest` with values far out
    std::map<std::string, Batches> alone;  ///< a batch each
};

HostTensor mask_of(const std::vector<std::size_t>& lengths, std::size_t size) {
    HostTensor mask("attention_mask", DataType::int64,
                    {static_cast<std::int64_t>(lengths.size()), static_cast<std::int64_t>(size)});
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        for (std::size_t k = 0; k < size; ++k)
            mask.as<std::int64_t>()[i * size + k] = k < lengths[i] ? 1 : 0;
    }
    return mask;
}

Sentences sentences(std::size_t batches) {
    Sentences result;
    for (std::size_t batch = 0; batch < batches; ++batch) {
        const std::vector<std::size_t> lengths{2 + batch % 4, longest - batch % 3};
        std::vector<float> values(2 * longest * width, 40.0F);
        for (std::size_t i = 0; i < 2; ++i) {
            auto own = test::noise(lengths[i] * width, static_cast<std::uint32_t>(batch * 2 + i + 1));
            std::ranges::copy(own, values.begin() + static_cast<std::ptrdiff_t>(i * longest * width));
            result.alone["x"].push_back(test::tensor_of("x", {1, static_cast<std::int64_t>(lengths[i]), width}, own));
            result.alone["attention_mask"].push_back(mask_of({lengths[i]}, lengths[i]));
        }
        result.padded["x"].push_back(test::tensor_of("x", {2, longest, width}, values));
        result.padded["attention_mask"].push_back(mask_of(lengths, longest));
    }
    return result;
}

/// What judging asks of a candidate, something in int8, without an error: the mask is 0 or 1.
constexpr const char* pair = "%q = QuantizeLinear(%m, %one, %zero)\n%d = DequantizeLinear(%q, %one, %zero)\n";

/// y = x W + b, and the mask as numbers, so that something reads it. `behind`: of y;
/// `quantized`: with the pair.
Model linear(const std::string& behind = "Identity(%s)", bool quantized = false) {
    Model model = test::model_from_text(
        "opset 17\ninput %x: float32[batch, sequence, 8]\ninput %attention_mask: int64[batch, sequence]\n"
        "input %w: float32[8, 8]\ninput %b: float32[8]\nconst %axes: int64[1] = {2}\nconst %far: float32[] = {100.0}\n"
        "const %one: float32[] = {1.0}\nconst %zero: uint8[] = {0}\n"
        "%m = Cast(%attention_mask) {to = 1}\n" +
        std::string(quantized ? pair : "%d = Identity(%m)\n") +
        "%n = Sub(%one, %d)\n%u = Unsqueeze(%n, %axes)\n%f = Mul(%u, %far)\n%v = Sub(%far, %f)\n"
        "%p = MatMul(%x, %w) {name = \"product\"}\n%s = Add(%p, %b)\n%y = " +
        behind + "\noutput %y: float32[batch, sequence, 8]\noutput %f: float32[batch, sequence, 1]\n");
    model.graph.inputs.resize(2);
    test::add_weights(model, "w", {8, 8}, 1);
    test::add_weights(model, "b", {8}, 2);
    return model;
}

TEST(Padding, IsNoPositionOfALayer) {
    const Sentences samples = sentences(6);
    LinearLayer layer;
    layer.kind = LinearLayer::Kind::matmul;
    layer.outputs = layer.depth = width;
    const Masks masks = masks_of(samples.padded);
    const auto chosen = choose_positions(layer, samples.padded.at("x"), 1000, masks);
    const auto expected = choose_positions(layer, samples.alone.at("x"), 1000);
    EXPECT_EQ(gather_rows(layer, samples.padded.at("x"), chosen, 1),
              gather_rows(layer, samples.alone.at("x"), expected, 1));
    EXPECT_EQ(choose_positions(layer, samples.padded.at("x"), 1000).at.size(), 6U * 2 * longest) << "without masks all";
    EXPECT_TRUE(masks_of(samples.alone).empty());
}

TEST(Padding, IsNotInTheStatisticsOfChannels) {
    const Sentences samples = sentences(6);
    const auto masks = masks_of(samples.padded);
    const auto padded = channel_statistics(samples.padded.at("x"), -1, width, 1, masks);
    const auto alone = channel_statistics(samples.alone.at("x"), -1, width, 1);
    EXPECT_EQ(padded.level, alone.level);
    EXPECT_EQ(padded.lowest, alone.lowest);
    EXPECT_EQ(padded.highest, alone.highest);
    for (std::size_t c = 0; c < width; ++c)
        EXPECT_NEAR(padded.power[c], alone.power[c], 1e-6);
    EXPECT_GT(channel_statistics(samples.padded.at("x"), -1, width, 1).highest[0], 30.0F) << "without masks all";
}

TEST(Padding, DoesNotMoveTheBias) {
    const Sentences samples = sentences(6);
    const Model model = linear();
    for (const LayerInputs inputs : {LayerInputs::own_error, LayerInputs::network_error}) {
        LayerCorrection how;
        how.bias = true;
        how.inputs = inputs;
        how.threads = 1;
        std::vector<double> shifts;
        for (const auto* each : {&samples.padded, &samples.alone}) {
            auto quantized = quantize_model(model, test::ranges_on(model, samples.alone, Method::minmax), {});
            ASSERT_TRUE(quantized) << quantized.error().describe();
            const auto told = correct_layers(model, quantized->model, Target::openvino, *each, how, no_progress());
            ASSERT_TRUE(told) << told.error().describe();
            ASSERT_EQ(told->size(), 1U);
            EXPECT_TRUE(told->front().bias);
            shifts.push_back(told->front().bias_shift);
        }
        EXPECT_GT(shifts[1], 0.0);
        EXPECT_NEAR(shifts[0], shifts[1], 1e-6);
        EXPECT_LT(shifts[0], 0.01) << "padding is clipped by 39, which would move it by more";
    }
}

// One candidate is 100 off at padding and nowhere else, the other everywhere else.
TEST(Padding, IsNotJudged) {
    const Sentences samples = sentences(3);
    auto judge = Judge::of(linear(), samples.padded, 1, no_progress());
    ASSERT_TRUE(judge) << judge.error().describe();
    const auto same = judge->judge(linear("Add(%s, %f)", true));
    ASSERT_TRUE(same) << same.error().describe();
    EXPECT_LT(same->error, 1e-5);
    EXPECT_EQ(same->samples, 6U);
    const auto off = judge->judge(linear("Add(%s, %v)", true));
    ASSERT_TRUE(off);
    EXPECT_GT(off->error, 0.1);
}

// An answer a token: [batch, sequence] has positions because its second size is called so.
TEST(Padding, IsNotJudgedInAnswersByToken) {
    const auto answers = [](const std::string& behind) {
        Model model = test::model_from_text(
            "opset 17\ninput %x: float32[batch, sequence, 8]\ninput %attention_mask: int64[batch, sequence]\n"
            "const %far: float32[] = {100.0}\nconst %one: float32[] = {1.0}\n"
            "const %zero: uint8[] = {0}\n%m = Cast(%attention_mask) {to = 1}\n" +
            std::string(pair) +
            "%n = Sub(%one, %d)\n%f = Mul(%n, %far)\n"
            "%s = ReduceMax(%x) {axes = [2], keepdims = 0}\n%y = " +
            behind + "\noutput %y: float32[batch, sequence]\noutput %f: float32[batch, sequence]\n");
        return model;
    };
    const Sentences samples = sentences(3);
    auto judge = Judge::of(answers("Identity(%s)"), samples.padded, 1, no_progress());
    ASSERT_TRUE(judge) << judge.error().describe();
    const auto same = judge->judge(answers("Add(%s, %f)"));
    ASSERT_TRUE(same) << same.error().describe();
    EXPECT_LT(same->error, 1e-5);
}

} // namespace
} // namespace lathe
