// On a small network, against the plain way: the whole model quantised but for one layer, run as a whole.
#include "sensitivity/measure.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "calibrate/model_key.hpp"
#include "data/dataset.hpp"
#include "quantize/quantize.hpp"
#include "sensitivity/advice.hpp"
#include "sensitivity/only_layers.hpp"
#include "sensitivity/piece.hpp"
#include "support/machine.hpp"
#include "support/progress.hpp"
#include "support_lib/command.hpp"
#include "tasks/regression.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// Two plain convolutions, a MaxPool (through which quantisation moves), one convolution whose weights are dominated by
/// a single huge one in each channel, which 8 bits cannot hold beside the others, and a classifier. `wide`: in front of
/// that two layers so wide that a cut before them pays, and to compute the second by differences; the classifier then
/// also reads what crosses that cut.
Model measured_network(bool wide = false) {
    const std::string width = wide ? "520" : "8";
    const std::string head = wide ? "%ga = GlobalAveragePool(%r1)\n%va = Flatten(%ga)\n"
                                    "%h = MatMul(%v, %w) {name = \"wide\"}\n%i = MatMul(%h, %u) {name = \"square\"}\n"
                                    "%k = Concat(%i, %va) {axis = 1}\n"
                                    "%y = MatMul(%k, %f) {name = \"head\"}\n"
                                  : "%y = MatMul(%v, %f) {name = \"head\"}\n";
    Model model = model_from_text("opset 18\n"
                                  "input %x: float32[N, 3, 8, 8]\n"
                                  "input %w1: float32[8, 3, 3, 3]\ninput %w2: float32[8, 8, 3, 3]\n"
                                  "input %w3: float32[8, 8, 1, 1]\ninput %w: float32[8, 512]\n"
                                  "input %u: float32[512, 512]\n"
                                  "input %f: float32[" +
                                  width +
                                  ", 5]\n"
                                  "%c1 = Conv(%x, %w1) {name = \"first\", pads = [1, 1, 1, 1]}\n%r1 = Relu(%c1)\n"
                                  "%c2 = Conv(%r1, %w2) {name = \"second\", pads = [1, 1, 1, 1]}\n%r2 = Relu(%c2)\n"
                                  "%m = MaxPool(%r2) {kernel_shape = [2, 2], strides = [2, 2]}\n"
                                  "%c3 = Conv(%m, %w3) {name = \"harmful\"}\n%r3 = Relu(%c3)\n"
                                  "%g = GlobalAveragePool(%r3)\n%v = Flatten(%g)\n" +
                                  head + "output %y: float32[N, 5]\n");
    model.graph.inputs.resize(1);
    add_weights(model, "w1", {8, 3, 3, 3}, 1);
    add_weights(model, "w2", {8, 8, 3, 3}, 2);
    std::vector<float> third = noise(64, 3);
    for (std::size_t channel = 0; channel < 8; ++channel) {
        for (std::size_t i = 0; i < 8; ++i)
            third[channel * 8 + i] *= i == 0 ? 200.0F : 0.4F;
    }
    model.graph.initializers.insert_or_assign("w3", Tensor::of_floats("w3", {8, 8, 1, 1}, third));
    // The channel that meets the huge weights is always zero, so that only their scale does harm.
    std::vector<float> second = noise(8 * 72, 2);
    std::fill_n(second.begin(), 72, -1.0F);
    model.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", {8, 8, 3, 3}, second));
    add_weights(model, "w", {8, 512}, 5);
    add_weights(model, "u", {512, 512}, 6);
    add_weights(model, "f", {wide ? 520 : 8, 5}, 4);
    return model;
}

RangesFile ranges_of(const Model& model) {
    RangesFile ranges;
    ranges.key.model = calibration_key(model);
    ranges.samples_seen = 1;
    for (const std::string& name : quantizable_tensors(model)) {
        TensorRange tensor;
        tensor.name = name;
        std::vector<float> values = noise(1000, 9);
        for (float& value : values)
            value = name == "x" ? value : 8 * std::abs(value);
        tensor.histogram.observe(values);
        ranges.tensors.push_back(std::move(tensor));
    }
    ranges.method = Method::minmax;
    return ranges;
}

/// Samples of noise with labels 0, 1, 2, 3, 4, 0, ...
class NoiseData final : public Dataset {
public:
    explicit NoiseData(std::size_t samples) : values_(noise(samples * sample, 5)) {}
    std::size_t size() const override { return values_.size() / sample; }
    bool has_labels() const override { return true; }
    void rewind() override { next_ = 0; }
    Result<std::string> digest() const override { return std::string("noise"); }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, size() - next_);
        if (count == 0) return std::optional<Batch>();
        Batch batch;
        HostTensor tensor("x", DataType::float32, {static_cast<std::int64_t>(count), 3, 8, 8});
        std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(next_ * sample), count * sample,
                    tensor.as<float>().begin());
        batch.inputs.push_back(std::move(tensor));
        for (std::size_t i = 0; i < count; ++i, ++next_) {
            batch.names.push_back(std::to_string(next_));
            batch.labels.push_back(static_cast<std::int64_t>(next_ % 5));
        }
        return std::optional<Batch>(std::move(batch));
    }

private:
    static constexpr std::size_t sample = std::size_t{3} * 8 * 8;
    std::vector<float> values_;
    std::size_t next_ = 0;
};

std::unique_ptr<Dataset> data(std::size_t samples) { return std::make_unique<NoiseData>(samples); }

const Backend& measuring_backend() { return **default_backend(); }

Result<Sensitivity> measure(std::size_t samples, const SensitivityOptions& options, Progress& progress = no_progress(),
                            bool wide = false) {
    const Model model = measured_network(wide);
    const RangesFile ranges = ranges_of(model);
    const auto dataset = data(samples);
    return measure_sensitivity(model, ranges, *dataset, measuring_backend(), options, progress);
}

SensitivityOptions options(std::size_t batch = 4) {
    SensitivityOptions options;
    options.batch_size = batch;
    options.threads = 1;
    options.journal_seconds = 0;
    return options;
}

/// The score of one layer by running the whole model in which it alone is quantised.
Score plain_score(const std::string& layer, std::size_t samples) {
    const Model model = measured_network(true);
    QuantizeOptions quantize;
    quantize.placement.exclude = all_layers_but(model.graph, {layer});
    const auto quantised = quantize_model(model, ranges_of(model), quantize);
    EXPECT_TRUE(quantised);
    auto plain = Piece::compile(measuring_backend(), with_fixed_shapes(model, samples, 1).value(), 1);
    auto own = Piece::compile(measuring_backend(), with_fixed_shapes(quantised->model, samples, 1).value(), 1);
    EXPECT_TRUE(plain && own);
    auto batch = data(samples)->next(samples);
    Values inputs;
    inputs.emplace("x", (*batch)->inputs.at(0).view());
    const Values none;
    auto reference = plain->run(none, inputs);
    auto subject = own->run(none, inputs);
    Score score;
    for (std::size_t i = 0; i < samples; ++i)
        score.add(reference->at("y").as<float>().subspan(i * 5, 5), subject->at("y").as<float>().subspan(i * 5, 5),
                  static_cast<std::int64_t>(i % 5), OutputKind::logits);
    return score;
}

TEST(Sensitivity, EqualsThePlainWay) {
    const auto found = measure(10, options(), no_progress(), true);
    ASSERT_TRUE(found) << found.error().describe();
    EXPECT_EQ(found->samples, 10U) << "the short last batch counts, its padding does not";
    EXPECT_EQ(found->segments, 2U) << "cut in front of the wide layers";
    ASSERT_EQ(found->layers.size(), 6U);
    for (const LayerSensitivity& layer : found->layers) {
        const Score plain = plain_score(layer.node, 10);
        const double close = this_machine().multiplies_bfloat16() ? 1e-2 : 1e-3;
        EXPECT_NEAR(layer.score.noise, plain.noise, close * plain.noise + 1e-9) << layer.node;
        EXPECT_NEAR(layer.score.kl, plain.kl, close * plain.kl + 1e-6) << layer.node;
        EXPECT_EQ(layer.score.agree, plain.agree) << layer.node;
        EXPECT_EQ(layer.score.labelled, 10U);
    }
}

TEST(Sensitivity, FindsTheHarmfulLayer) {
    const auto found = measure(12, options());
    ASSERT_TRUE(found) << found.error().describe();
    EXPECT_EQ(found->layers[rank_layers(*found, DamageMetric::sqnr).front().layer].node, "harmful");
    EXPECT_THAT(advise(*found, DamageMetric::sqnr).front(), HasSubstr("Keep harmful (1x1 convolution)"));
    EXPECT_EQ(found->layers[0].role, "first convolution");
    EXPECT_EQ(found->layers[3].role, "classifier");
    EXPECT_EQ(found->layers[0].macs, 8 * 3 * 9 * 64);
}

/// Says stop when the stage that measures has advanced so many samples.
class StopAfter final : public Progress {
public:
    explicit StopAfter(std::size_t samples) : left_(samples) {}
    void begin(std::string_view stage, std::size_t /*total*/) override { counts_ = stage.starts_with("sensitivity"); }
    void advance(std::size_t steps) override {
        if (counts_) left_ -= std::min(left_, steps);
    }
    bool cancelled() const override { return left_ == 0; }

private:
    std::size_t left_;
    bool counts_ = false;
};

TEST(Sensitivity, StoppedAndResumedGivesTheSame) {
    const auto whole = measure(20, options());
    ASSERT_TRUE(whole);
    const TemporaryFolder folder;
    SensitivityOptions kept = options();
    kept.journal = folder.path() / "s.part";
    kept.key = "k";
    StopAfter stop(8);
    const auto stopped = measure(20, kept, stop);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_THAT(stopped.error().hint, HasSubstr("8 samples are kept"));
    const auto resumed = measure(20, kept);
    ASSERT_TRUE(resumed) << resumed.error().describe();
    EXPECT_EQ(resumed->resumed_samples, 8U);
    EXPECT_EQ(resumed->samples, 20U);
    for (std::size_t i = 0; i < whole->layers.size(); ++i) {
        EXPECT_EQ(sums_to_json(resumed->layers[i].score), sums_to_json(whole->layers[i].score));
    }
    EXPECT_EQ(sums_to_json(resumed->everything), sums_to_json(whole->everything));

    kept.key = "another";
    EXPECT_EQ(measure(20, kept).error().code, ErrorCode::mismatch);
}

TEST(Sensitivity, OutputsThatAreInfiniteInFloatTooAreNoDisagreement) {
    Model model = measured_network();
    const std::vector<float> mask{0, 0, -std::numeric_limits<float>::infinity(), 0, 0};
    model.graph.initializers.emplace("mask", Tensor::of_floats("mask", {5}, mask));
    Node& head = *model.graph.nodes.back();
    Node masked;
    masked.op_type = "Add";
    masked.inputs = {"unmasked", "mask"};
    masked.outputs = head.outputs;
    head.outputs = {"unmasked"};
    model.graph.add(std::move(masked));
    const RangesFile ranges = ranges_of(model);
    const auto dataset = data(4);
    const auto found = measure_sensitivity(model, ranges, *dataset, measuring_backend(), options(), no_progress());
    ASSERT_TRUE(found) << found.error().describe();
    EXPECT_EQ(found->everything.nonfinite, 4U);
}

/// Two heads: "y", which "left" alone makes, and a thousand times as large "z" of "right", whose weights 8 bits hold
/// badly.
Model two_heads() {
    Model model = model_from_text("opset 18\n"
                                  "input %x: float32[N, 3, 8, 8]\n"
                                  "input %w1: float32[8, 3, 3, 3]\ninput %w2: float32[8, 3, 1, 1]\n"
                                  "%y = Conv(%x, %w1) {name = \"left\"}\n"
                                  "%z = Conv(%x, %w2) {name = \"right\"}\n"
                                  "output %y: float32[N, 8, 6, 6]\noutput %z: float32[N, 8, 8, 8]\n");
    model.graph.inputs.resize(1);
    add_weights(model, "w1", {8, 3, 3, 3}, 1);
    std::vector<float> second = noise(24, 3);
    for (std::size_t i = 0; i < second.size(); ++i)
        second[i] *= i % 3 == 0 ? 1000.0F : 3.0F;
    model.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", {8, 3, 1, 1}, second));
    return model;
}

TEST(Sensitivity, AllOutputsCountAndEachAlike) {
    const Model model = two_heads();
    const RangesFile ranges = ranges_of(model);
    const auto measured = [&](const std::string& output) {
        SensitivityOptions one = options();
        one.output_name = output;
        const auto dataset = data(10);
        return measure_sensitivity(model, ranges, *dataset, measuring_backend(), one, no_progress());
    };
    const auto all = measured("");
    const auto first = measured("y");
    const auto second = measured("z");
    ASSERT_TRUE(all && first && second) << all.error().describe();
    EXPECT_THAT(all->outputs, testing::ElementsAre("y", "z"));
    EXPECT_THAT(second->outputs, testing::ElementsAre("z"));
    EXPECT_EQ(first->layers[1].score.noise, 0) << "\"right\" is not behind y";
    EXPECT_GT(all->layers[1].score.noise, 0);
    EXPECT_GT(all->layers[0].score.noise, 0);
    // Each output's noise over its own signal, and half of it: there are two. The scales are the first batch's.
    for (std::size_t i = 0; i < 2; ++i) {
        const Score& own = (i == 0 ? first : second)->layers[i].score;
        EXPECT_NEAR(all->layers[i].score.damage(DamageMetric::sqnr), own.damage(DamageMetric::sqnr) / 2,
                    0.2 * own.damage(DamageMetric::sqnr));
    }
}

TEST(Sensitivity, ATaskJudgesEachLayersAnswers) {
    const Model model = two_heads();
    TaskJudging judging;
    judging.task = "regression";
    judging.metric = "R2";
    judging.make = [] { return make_counted_judge(make_regression_task({}), 1, nullptr); }; // of output z
    const test::TemporaryFolder folder;
    SensitivityOptions by_task = options();
    by_task.judging = &judging;
    by_task.journal = folder.path() / "record";
    const auto dataset = data(10);
    const auto found =
        measure_sensitivity(model, ranges_of(model), *dataset, measuring_backend(), by_task, no_progress());
    ASSERT_TRUE(found) << found.error().describe();
    ASSERT_TRUE(found->everything.task && found->layers[0].score.task && found->layers[1].score.task);
    EXPECT_EQ(found->layers[0].score.task->agreement, 1) << "\"left\" is not behind z";
    EXPECT_LT(found->layers[1].score.task->agreement, 1);
    EXPECT_NEAR(found->everything.task->metric, found->layers[1].score.task->metric, 1e-6);
    EXPECT_EQ(found->everything.task->reference, 1) << "its own answers are the truth";
    EXPECT_LE(found->task_change.high, 0);
    EXPECT_EQ(found->layers[rank_layers(*found, DamageMetric::task).front().layer].node, "right");
    EXPECT_FALSE(std::filesystem::exists(by_task.journal)) << "answers are not kept";
    judging.one_sample = true;
    const auto refused =
        measure_sensitivity(model, ranges_of(model), *dataset, measuring_backend(), by_task, no_progress());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
}

TEST(Sensitivity, RefusesWhatMakesNoSense) {
    SensitivityOptions wrong = options();
    wrong.output_name = "nothing";
    EXPECT_EQ(measure(4, wrong).error().code, ErrorCode::not_found);
    EXPECT_EQ(measure(4, options()).value().layers.size(), 4U);

    Model relu =
        model_from_text("opset 18\ninput %x: float32[N, 3, 8, 8]\n%y = Relu(%x)\noutput %y: float32[N, 3, 8, 8]\n");
    const auto dataset = data(4);
    const auto nothing =
        measure_sensitivity(relu, RangesFile{}, *dataset, measuring_backend(), options(), no_progress());
    ASSERT_FALSE(nothing);
    EXPECT_THAT(nothing.error().message, HasSubstr("nothing in this model to quantise"));
}

} // namespace
} // namespace lathe::test
