// What a network is for decides over its corrections: no step that is kept may make the answers worse.
#include <gtest/gtest.h>

#include "correct/correct.hpp"
#include "correct/judge.hpp"
#include "networks.hpp"

namespace lathe {
namespace {

constexpr std::size_t side = 16;

/// Pictures with something in them: a bright square on noise, elsewhere in each.
std::vector<float> pictures(std::size_t count, std::size_t at) {
    const std::size_t size = 3 * side * side;
    std::vector<float> values = test::noise(count * size, static_cast<std::uint32_t>(at) * 31U + 5U);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = (at + i) * 7 % 100;
        for (std::size_t c = 0; c < 3; ++c)
            for (std::size_t y = 0; y < 6; ++y)
                for (std::size_t x = 0; x < 6; ++x)
                    values[i * size + c * side * side + (place / 10 + y) * side + place % 10 + x] +=
                        static_cast<float>((at + i + c) % 4);
    }
    return values;
}

/// `samples` of them from number `first` on, in order.
class Made final : public Dataset {
public:
    Made(std::size_t first, std::size_t samples) : first_(first), samples_(samples) {}
    std::size_t size() const override { return samples_; }
    bool has_labels() const override { return false; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, samples_ - at_);
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        batch.inputs.push_back(
            test::tensor_of("x", {static_cast<std::int64_t>(count), 3, side, side}, pictures(count, first_ + at_)));
        batch.names.resize(count, "made");
        at_ += count;
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("made"); }

private:
    std::size_t first_;
    std::size_t samples_;
    std::size_t at_ = 0;
};

std::map<std::string, Batches> batches(std::size_t first, std::size_t count) {
    std::map<std::string, Batches> samples;
    for (std::size_t i = 0; i < count; ++i)
        samples["x"].push_back(test::tensor_of("x", {4, 3, side, side}, pictures(4, first + 4 * i)));
    return samples;
}

/// Two convolutions, the second perhaps depthwise, and `end` of %s: 16 channels of the picture's size.
Model network(const std::string& end, bool depthwise, std::uint32_t seed) {
    Model model = test::model_from_text("opset 17\n"
                                        "input %x: float32[4, 3, 16, 16]\n"
                                        "input %w1: float32[16, 3, 3, 3]\ninput %b1: float32[16]\n"
                                        "input %w2: float32[16, 1, 3, 3]\ninput %b2: float32[16]\n"
                                        "input %w3: float32[5, 16, 1, 1]\ninput %b3: float32[5]\n"
                                        "input %w4: float32[3, 16, 3, 3]\n"
                                        "input %w8: float32[7, 16, 8, 8]\n"
                                        "const %flat: int64[2] = {0, -1}\nconst %cells: int64[3] = {0, 7, -1}\n"
                                        "%a = Conv(%x, %w1, %b1) {name = \"conv1\", pads = [1, 1, 1, 1]}\n"
                                        "%r = Relu(%a)\n"
                                        "%c = Conv(%r, %w2, %b2) {name = \"conv2\", pads = [1, 1, 1, 1]" +
                                        std::string(depthwise ? ", group = 16" : "") + "}\n%s = Relu(%c)\n" + end);
    model.graph.inputs.resize(1); // the others become constants
    test::add_weights(model, "w1", {16, 3, 3, 3}, seed);
    test::add_weights(model, "b1", {16}, seed + 1);
    test::add_weights(model, "w2", depthwise ? Shape{16, 1, 3, 3} : Shape{16, 16, 3, 3}, seed + 2);
    test::add_weights(model, "b2", {16}, seed + 3);
    test::add_weights(model, "w3", {5, 16, 1, 1}, seed + 4);
    test::add_weights(model, "b3", {5}, seed + 5);
    test::add_weights(model, "w4", {3, 16, 3, 3}, seed + 6);
    test::add_weights(model, "w8", {7, 16, 8, 8}, seed + 7);
    // Channels that differ in size are what 8 bits and equalisation have work with.
    for (std::size_t channel = 0; channel < 16; ++channel)
        test::scale_channel(model, "w1", "b1", channel, channel % 3 == 0 ? 6.0F : 0.7F);
    return model;
}

struct Kind {
    const char* name;
    const char* end;
    const char* metric; ///< a part of its name
};

constexpr Kind kinds[] = {
    {"Classifier",
     "%p = GlobalAveragePool(%s)\n%l = Conv(%p, %w3, %b3)\n%y = Reshape(%l, %flat)\noutput %y: float32[4, 5]\n",
     "class"},
    {"Segmenter", "%y = Conv(%s, %w3, %b3)\noutput %y: float32[4, 5, 16, 16]\n", "mean IoU"},
    {"Pictures", "%y = Conv(%s, %w4) {pads = [1, 1, 1, 1]}\noutput %y: float32[4, 3, 16, 16]\n", "R2"},
};

class Answers : public testing::TestWithParam<Kind> {};

TEST_P(Answers, NoKeptStepMakesThemWorse) {
    for (const std::uint32_t seed : {1U, 90U}) {
        for (const bool depthwise : {false, true}) {
            const Model model = network(GetParam().end, depthwise, seed);
            RangesFile ranges = test::ranges_on(model, batches(0, 40), Method::mse);
            ranges.samples_seen = 160;
            // Judged on samples that neither corrections nor their judge have seen.
            auto judge = Judge::of(model, batches(1000, 32), 1, no_progress());
            ASSERT_TRUE(judge) << judge.error().describe();
            for (const int effort : {1, 3}) {
                SCOPED_TRACE("seed " + std::to_string(seed) + ", effort " + std::to_string(effort) +
                             (depthwise ? ", depthwise" : ""));
                CorrectOptions options = options_of_effort(effort);
                options.fit_samples = 96;
                options.held_back_samples = 64;
                options.batch_size = 4;
                options.fixed_batch = true;
                options.threads = 1;
                const OpenData open = [](std::size_t samples) -> Result<std::unique_ptr<Dataset>> {
                    return std::unique_ptr<Dataset>(std::make_unique<Made>(0, std::min<std::size_t>(samples, 160)));
                };
                const auto outcome = quantize_corrected(model, ranges, {}, options, open, no_progress());
                ASSERT_TRUE(outcome) << outcome.error().describe();
                ASSERT_TRUE(outcome->first.task);
                EXPECT_NE(outcome->first.task->name.find(GetParam().metric), std::string::npos);
                const auto plain = quantize_model(model, ranges, {});
                ASSERT_TRUE(plain);
                const auto before = judge->judge(plain->model);
                const auto after = judge->judge(outcome->quantized.model);
                ASSERT_TRUE(before && after);
                std::string steps;
                for (const std::string& line : describe(*outcome))
                    steps += "\n" + line;
                // Of 24 comparisons one may be beyond a 95 % interval by chance, but not by a point.
                EXPECT_GE(judge->task_difference(*after, *before).high, -0.01)
                    << before->task->value << " before, " << after->task->value << " after" << steps;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, Answers, testing::ValuesIn(kinds),
                         [](const testing::TestParamInfo<Kind>& tested) { return std::string(tested.param.name); });

TEST(JudgeOfAnswers, SeesWhatNumbersHide) {
    const Model model = network(kinds[1].end, false, 1);
    auto judge = Judge::of(model, batches(0, 16), 1, no_progress());
    ASSERT_TRUE(judge) << judge.error().describe();
    const auto with_bias = [&](const std::vector<float>& bias) {
        Model changed = model;
        changed.graph.initializers.insert_or_assign("b3", Tensor::of_floats("b3", {5}, bias));
        const RangesFile ranges = test::ranges_on(changed, batches(0, 16), Method::mse);
        auto quantized = quantize_model(changed, ranges, {});
        EXPECT_TRUE(quantized) << quantized.error().describe();
        auto closeness = judge->judge(quantized->model);
        EXPECT_TRUE(closeness) << closeness.error().describe();
        return *std::move(closeness);
    };
    double squares = 0;
    std::size_t count = 0;
    const auto scores = test::values_of(model, {"y"}, batches(0, 4));
    for (const HostTensor& batch : scores.at(0)) {
        for (const float value : batch.as<float>())
            squares += static_cast<double>(value) * static_cast<double>(value);
        count += batch.as<float>().size();
    }
    const auto much = static_cast<float>(0.3 * std::sqrt(squares / static_cast<double>(count)));
    // Every score raised as much changes the numbers and hardly an answer; one class raised alone changes the answers.
    auto bias = model.graph.initializer("b3")->to_floats();
    const Closeness same = with_bias(bias);
    for (float& each : bias)
        each += much;
    const Closeness all = with_bias(bias);
    EXPECT_GT(all.error, 5 * same.error);
    EXPECT_GT(judge->task_difference(all, same).low, -0.05);
    bias[2] += much;
    const Closeness one = with_bias(bias);
    EXPECT_LT(judge->task_difference(one, all).high, -0.1);
    const Json json = to_json(one);
    EXPECT_DOUBLE_EQ(json["metric"].get<double>(), one.task->value);
}

} // namespace
} // namespace lathe
