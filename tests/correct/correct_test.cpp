#include "correct/correct.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"

namespace lathe {
namespace {

constexpr std::size_t all_samples = 160;

/// Noise, the same whatever part of it is asked for; `sample`: the shape of one.
class NoiseData final : public Dataset {
public:
    explicit NoiseData(std::size_t samples, Shape sample = {3, 8, 8}) : samples_(samples), sample_(std::move(sample)) {}
    std::size_t size() const override { return samples_; }
    bool has_labels() const override { return false; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, samples_ - at_);
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        const auto seed = static_cast<std::uint32_t>(at_) * 13U + 21U;
        Shape shape{static_cast<std::int64_t>(count)};
        shape.insert(shape.end(), sample_.begin(), sample_.end());
        const auto size = static_cast<std::size_t>(element_count(shape));
        batch.inputs.push_back(test::tensor_of("x", shape, test::noise(size, seed)));
        batch.names.resize(count, "noise");
        at_ += count;
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("noise"); }

private:
    std::size_t samples_;
    Shape sample_;
    std::size_t at_ = 0;
};

OpenData noise_data(const Shape& sample = {3, 8, 8}) {
    return [sample](std::size_t samples) -> Result<std::unique_ptr<Dataset>> {
        return std::unique_ptr<Dataset>(std::make_unique<NoiseData>(std::min(samples, all_samples), sample));
    };
}

CorrectOptions small_options() {
    CorrectOptions options;
    options.fit_samples = 96;
    options.held_back_samples = 64;
    options.batch_size = 4;
    options.fixed_batch = true;
    options.threads = 1;
    return options;
}

Result<CorrectOutcome> corrected(const Model& model, const CorrectOptions& options, Target target = Target::openvino) {
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 40, 21);
    RangesFile ranges = test::ranges_on(model, samples, Method::mse);
    ranges.samples_seen = all_samples;
    QuantizeOptions quantizing;
    quantizing.target = target;
    return quantize_corrected(model, ranges, quantizing, options, noise_data(), no_progress());
}

/// One large weight in each output channel of conv2, which makes the steps of all others coarse.
Model coarse() {
    Model model = test::conv_network();
    auto weights = model.graph.initializer("w2")->to_floats();
    for (std::size_t i = 0; i < weights.size(); i += 16 * 9)
        weights[i] = 25.0F;
    model.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", {16, 16, 3, 3}, weights));
    return model;
}

TEST(Correct, RoundingAndBiasBringTheNetworkCloser) {
    CorrectOptions options = small_options();
    options.rounding = Rounding::output_error;
    options.bias = BiasCorrection::exact;
    const auto outcome = corrected(coarse(), options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    ASSERT_EQ(outcome->corrections.size(), 1U) << outcome->corrections[0].detail;
    EXPECT_TRUE(outcome->corrections[0].kept) << outcome->corrections[0].detail;
    EXPECT_LT(outcome->last.error, outcome->first.error);
    EXPECT_EQ(outcome->held_back_samples, 64U);
    const Json& document = outcome->quantized.document.at("corrections");
    EXPECT_EQ(document.at("steps").at(0).at("method"), "rounding");
    EXPECT_EQ(document.at("steps").at(0).at("kept"), true);
    EXPECT_LT(document.at("after").at("error").get<double>(), document.at("before").at("error").get<double>());
}

// int8 activations, of which those from zero up have the zero point -128, and a float stem: weights and biases are
// corrected there as on the CPU, and the target's grid stays what it is.
TEST(Correct, RoundingAndBiasServeCudaToo) {
    CorrectOptions options = small_options();
    options.rounding = Rounding::output_error;
    options.bias = BiasCorrection::exact;
    const auto outcome = corrected(coarse(), options, Target::cuda);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_TRUE(outcome->corrections.at(0).kept) << outcome->corrections[0].detail;
    EXPECT_LT(outcome->last.error, outcome->first.error);
    EXPECT_EQ(outcome->quantized.plan.target, Target::cuda);
    QuantizeOptions plain;
    plain.target = Target::cuda;
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 40, 21);
    const auto uncorrected = quantize_model(coarse(), test::ranges_on(coarse(), samples, Method::mse), plain);
    ASSERT_TRUE(uncorrected);
    EXPECT_EQ(outcome->quantized.model.graph.nodes.size(), uncorrected->model.graph.nodes.size());
    for (const auto& [name, tensor] : uncorrected->model.graph.initializers) {
        if (tensor.type() == DataType::float32 && name.ends_with("_scale")) {
            const Tensor* kept = outcome->quantized.model.graph.initializer(name);
            ASSERT_NE(kept, nullptr) << name;
            EXPECT_EQ(kept->to_floats(), tensor.to_floats()) << name;
        }
    }
}

TEST(Correct, BiasOfBothKindsGainsWhereTheMeanIsOff) {
    Model model = test::conv_network();
    auto weights = model.graph.initializer("w2")->to_floats();
    for (float& weight : weights)
        weight = std::abs(weight); // errors of the inputs' mean add up
    model.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", {16, 16, 3, 3}, weights));
    for (const BiasCorrection kind : {BiasCorrection::fast, BiasCorrection::exact}) {
        CorrectOptions options = small_options();
        options.bias = kind;
        const auto outcome = corrected(model, options);
        ASSERT_TRUE(outcome) << outcome.error().describe();
        ASSERT_EQ(outcome->corrections.size(), 1U);
        EXPECT_TRUE(outcome->corrections[0].kept);
    }
}

TEST(Correct, LeavesACheapLastLayerInFloatWhereItErrs) {
    CorrectOptions options = small_options();
    options.float_last = true;
    const auto outcome = corrected(test::small_head_network(), options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    const Correction& told = outcome->corrections.at(0);
    EXPECT_EQ(told.method, "last-layers");
    EXPECT_TRUE(told.kept);
    EXPECT_EQ(told.detail, "in float: head");
    EXPECT_LT(outcome->last.error, 0.97 * outcome->first.error);
    EXPECT_EQ(outcome->quantized.plan.quantized_nodes, 2U);
    EXPECT_EQ(outcome->quantized.document.at("quantized_nodes"), 2);
    const auto dear = corrected(test::conv_network(), options);
    ASSERT_TRUE(dear) << dear.error().describe();
    EXPECT_FALSE(dear->corrections.at(0).kept);
    EXPECT_EQ(dear->quantized.plan.quantized_nodes, 3U);
}

TEST(Correct, KeepsNothingThatDoesNotGain) {
    // Every weight is a multiple of its scale and the input of its step: nothing to correct.
    Model model = test::model_from_text("opset 17\ninput %x: float32[4, 3, 8, 8]\ninput %w: float32[2, 3, 1, 1]\n"
                                        "%y = Conv(%x, %w) {name = \"conv\"}\noutput %y: float32[4, 2, 8, 8]\n");
    model.graph.inputs.resize(1);
    const std::vector<float> exact{127.0F, 1.0F, -5.0F, 127.0F, 0.0F, 64.0F};
    model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {2, 3, 1, 1}, exact));
    CorrectOptions options = small_options();
    options.equalize = true;
    options.smooth = true;
    const auto outcome = corrected(model, options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    ASSERT_EQ(outcome->corrections.size(), 2U);
    for (const Correction& each : outcome->corrections) {
        EXPECT_FALSE(each.kept);
        EXPECT_NE(each.detail.find("0 of 0"), std::string::npos) << each.detail;
    }
    EXPECT_EQ(outcome->first.error, outcome->last.error);
}

TEST(Correct, EqualizesAndCalibratesAnew) {
    Model model = test::conv_network("Relu(%a)", true);
    for (std::size_t channel = 0; channel < 16; channel += 2) {
        test::scale_channel(model, "w1", "b1", channel, 0.01F);
        test::scale_channel(model, "w2", "w2", channel, 100.0F);
    }
    CorrectOptions options = small_options();
    options.equalize = true;
    const auto outcome = corrected(model, options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_TRUE(outcome->corrections.at(0).kept) << outcome->corrections.at(0).detail;
    EXPECT_LT(outcome->last.error, 0.7 * outcome->first.error);
}

/// Post-norm, as in BERT: what a LayerNormalization gives, with a channel far out, goes into a layer and into a sum.
Model post_norm() {
    Model model = test::model_from_text("opset 17\ninput %x: float32[4, 6, 16]\ninput %g: float32[16]\n"
                                        "input %h: float32[16]\ninput %w: float32[16, 16]\ninput %b: float32[16]\n"
                                        "%n = LayerNormalization(%x, %g, %h) {axis = -1}\n"
                                        "%m = MatMul(%n, %w) {name = \"product\"}\n%s = Add(%m, %b)\n"
                                        "%t = Softplus(%n)\n%y = Mul(%s, %t)\noutput %y: float32[4, 6, 16]\n");
    model.graph.inputs.resize(1);
    test::add_weights(model, "g", {16}, 1);
    test::add_weights(model, "h", {16}, 2);
    test::add_weights(model, "w", {16, 16}, 3);
    test::add_weights(model, "b", {16}, 4);
    auto gains = model.graph.initializer("g")->to_floats();
    gains[5] = 40.0F;
    model.graph.initializers.insert_or_assign("g", Tensor::of_floats("g", {16}, gains));
    auto weights = model.graph.initializer("w")->to_floats();
    for (std::size_t i = 0; i < 16; ++i)
        weights[5 * 16 + i] /= 40.0F;
    model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {16, 16}, weights));
    return model;
}

Result<CorrectOutcome> smoothed(Target target, const std::string& source = "") {
    const Model model = post_norm();
    RangesFile ranges = test::ranges_on(model, test::noise_samples("x", {4, 6, 16}, 40, 21), Method::mse);
    ranges.samples_seen = all_samples;
    ranges.source = source;
    QuantizeOptions quantizing;
    quantizing.target = target;
    CorrectOptions options = small_options();
    options.smooth = true;
    return quantize_corrected(model, ranges, quantizing, options, noise_data({6, 16}), no_progress());
}

std::size_t multiplications(const Model& model) {
    return static_cast<std::size_t>(
        std::ranges::count_if(model.graph.nodes, [](const auto& node) { return node->is("Mul"); }));
}

TEST(Correct, SmoothsByAMulWhereTheTargetTakesItForNothing) {
    const auto outcome = smoothed(Target::openvino);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    const Correction& told = outcome->corrections.at(0);
    EXPECT_EQ(told.method, "smooth");
    EXPECT_TRUE(told.kept) << told.detail;
    EXPECT_NE(told.detail.find("1 by a Mul"), std::string::npos) << told.detail;
    EXPECT_LT(outcome->last.error, 0.5 * outcome->first.error);
    EXPECT_EQ(multiplications(outcome->quantized.model), 2U);
    EXPECT_EQ(outcome->quantized.plan.tensors.size(), 1U);
    EXPECT_EQ(outcome->quantized.plan.tensors[0].name, "n_smooth") << "the plan is the model's";
    EXPECT_EQ(multiplications(outcome->real), 2U) << "and so is the float model";
    EXPECT_NE(outcome->ranges.find("n_smooth"), nullptr);
    for (const Target target : {Target::cuda, Target::onnxruntime, Target::tensorrt}) {
        const auto other = smoothed(target);
        ASSERT_TRUE(other) << other.error().describe();
        EXPECT_FALSE(other->corrections.at(0).kept);
        EXPECT_EQ(multiplications(other->quantized.model), 1U) << to_string(target);
    }
}

TEST(Correct, SaysThatSmoothingNeedsHistograms) {
    const auto outcome = smoothed(Target::openvino, "calibration.cache");
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_FALSE(outcome->corrections.at(0).kept);
    EXPECT_NE(outcome->corrections.at(0).detail.find("needs the histograms"), std::string::npos);
    EXPECT_EQ(multiplications(outcome->quantized.model), 1U);
}

class Stopped final : public Progress {
public:
    bool cancelled() const override { return true; }
};

TEST(Correct, StopsWhenToldTo) {
    const Model model = test::conv_network();
    const RangesFile ranges = test::ranges_on(model, test::noise_samples("x", {4, 3, 8, 8}, 4, 21), Method::mse);
    Stopped stopped;
    CorrectOptions options = small_options();
    options.bias = BiasCorrection::fast;
    const auto outcome = quantize_corrected(model, ranges, {}, options, noise_data(), stopped);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::cancelled);
}

TEST(Correct, EffortsGrow) {
    EXPECT_FALSE(options_of_effort(0).any());
    EXPECT_EQ(options_of_effort(1).bias, BiasCorrection::fast);
    EXPECT_TRUE(options_of_effort(1).smooth);
    EXPECT_EQ(options_of_effort(1).rounding, Rounding::nearest);
    EXPECT_EQ(options_of_effort(2).rounding, Rounding::output_error);
    EXPECT_TRUE(options_of_effort(2).equalize);
    EXPECT_TRUE(options_of_effort(2).float_last);
    EXPECT_FALSE(options_of_effort(1).float_last);
    EXPECT_FALSE(options_of_effort(2).auto_ranges);
    EXPECT_TRUE(options_of_effort(3).auto_ranges);
    EXPECT_GT(options_of_effort(3).fit_samples, options_of_effort(2).fit_samples);
}

} // namespace
} // namespace lathe
