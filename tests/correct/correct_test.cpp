#include "correct/correct.hpp"
#include "correct/measured_layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "correct/judge.hpp"
#include "correct/samples.hpp"
#include "networks.hpp"

namespace lathe {
namespace {

constexpr std::size_t all_samples = 160;

/// Values of a batch that begins at sample `at`.
using Values = std::vector<float> (*)(std::size_t count, std::size_t at);

std::vector<float> noise_at(std::size_t count, std::size_t at) {
    return test::noise(count, static_cast<std::uint32_t>(at) * 13U + 21U);
}

/// Samples of this shape, the same whatever part of them is asked for.
class MadeData final : public Dataset {
public:
    MadeData(std::size_t samples, Values values, Shape sample)
        : samples_(samples), values_(values), sample_(std::move(sample)) {}
    std::size_t size() const override { return samples_; }
    bool has_labels() const override { return false; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, samples_ - at_);
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        Shape shape{static_cast<std::int64_t>(count)};
        shape.insert(shape.end(), sample_.begin(), sample_.end());
        const auto size = static_cast<std::size_t>(element_count(shape));
        batch.inputs.push_back(test::tensor_of("x", shape, values_(size, at_)));
        batch.names.resize(count, "noise");
        at_ += count;
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("noise"); }

private:
    std::size_t samples_;
    Values values_;
    Shape sample_;
    std::size_t at_ = 0;
};

OpenData data_of(Values values = noise_at, const Shape& sample = {3, 8, 8}) {
    return [values, sample](std::size_t samples) -> Result<std::unique_ptr<Dataset>> {
        return std::unique_ptr<Dataset>(std::make_unique<MadeData>(std::min(samples, all_samples), values, sample));
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

Result<CorrectOutcome> corrected(const Model& model, const CorrectOptions& options, Target target = Target::openvino,
                                 const std::map<std::string, Range>& given = {}, Values values = noise_at,
                                 bool noisy_in_float = false) {
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 40, 21);
    RangesFile ranges = test::ranges_on(model, samples, Method::mse);
    ranges.samples_seen = all_samples;
    QuantizeOptions quantizing;
    quantizing.target = target;
    quantizing.overrides = given;
    quantizing.noisy_in_float = noisy_in_float;
    return quantize_corrected(model, ranges, quantizing, options, data_of(values), no_progress());
}

std::vector<std::string> methods_of(const CorrectOutcome& outcome) {
    std::vector<std::string> methods;
    for (const Correction& each : outcome.corrections)
        methods.push_back(each.method);
    return methods;
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
    ASSERT_EQ(methods_of(*outcome), (std::vector<std::string>{"bias-correction", "rounding"}));
    const Correction& bias = outcome->corrections[0];
    const Correction& rounding = outcome->corrections[1];
    EXPECT_TRUE(rounding.kept) << rounding.detail;
    EXPECT_EQ(bias.before.error, outcome->first.error) << "alone";
    EXPECT_EQ(rounding.before.error, bias.kept ? bias.after.error : bias.before.error) << "what it adds to the biases";
    EXPECT_LT(outcome->last.error, outcome->first.error);
    EXPECT_EQ(outcome->last.error, rounding.after.error);
    EXPECT_EQ(outcome->held_back_samples, 64U);
    const Json& document = outcome->quantized.document.at("corrections");
    EXPECT_EQ(document.at("steps").at(1).at("method"), "rounding");
    EXPECT_EQ(document.at("steps").at(1).at("kept"), true);
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
    EXPECT_TRUE(outcome->corrections.at(1).kept) << outcome->corrections[1].detail;
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

/// A small depthwise convolution in front of two large ones, which answer with an image; `scaled`: times an input. The
/// large ones' weights are of one size, and 0 for every second channel: int8 holds those exactly, also for a processor
/// without VNNI, which adds the products of two channels in 16 bits.
Model image_network(bool scaled = false) {
    Model model = test::model_from_text(
        "opset 17\ninput %x: float32[4, 3, 8, 8]\n" + std::string(scaled ? "input %factor: float32[1]\n" : "") +
        "input %w1: float32[3, 1, 3, 3]\ninput %w2: float32[32, 3, 5, 5]\n"
        "input %w3: float32[32, 32, 5, 5]\n"
        "%a = Conv(%x, %w1) {name = \"early\", pads = [1, 1, 1, 1], group = 3}\n"
        "%b = Conv(%a, %w2) {name = \"large\", pads = [2, 2, 2, 2]}\n%r = Relu(%b)\n"
        "%c = Conv(%r, %w3) {name = \"larger\", pads = [2, 2, 2, 2]}\n%y = " +
        (scaled ? "Mul(%c, %factor)" : "Identity(%c)") + "\noutput %y: float32[4, 32, 8, 8]\n");
    model.graph.inputs.resize(scaled ? 2 : 1);
    test::add_weights(model, "w1", {3, 1, 3, 3}, 1);
    test::add_weights(model, "w2", {32, 3, 5, 5}, 2);
    test::add_weights(model, "w3", {32, 32, 5, 5}, 3);
    for (const char* name : {"w2", "w3"}) {
        Tensor& weight = model.graph.initializers.at(name);
        const auto channels = static_cast<std::size_t>(weight.shape()[1]);
        auto values = weight.to_floats();
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = i / 25 % channels % 2 == 1 ? 0.0F : values[i] < 0 ? -0.25F : 0.25F;
        weight = Tensor::of_floats(name, weight.shape(), values);
    }
    return model;
}

TEST(Correct, LeavesACheapLayerInFloatThatTheAnswerIsMeasuredToDependOn) {
    CorrectOptions options = small_options();
    options.measured_layers = true;
    const auto outcome = corrected(image_network(), options, Target::openvino, {}, noise_at, true);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    const Correction& told = outcome->corrections.at(0);
    EXPECT_EQ(told.method, "measured-layers");
    EXPECT_TRUE(told.kept) << told.detail;
    EXPECT_NE(told.detail.find("early"), std::string::npos) << told.detail;
    EXPECT_LT(outcome->last.error, 0.95 * outcome->first.error);
    EXPECT_EQ(outcome->quantized.plan.quantized_nodes, 2U);
    // nobody allowed layers in float; the answer is a row of classes
    EXPECT_TRUE(corrected(image_network(), options)->corrections.empty());
    EXPECT_TRUE(corrected(test::conv_network(), options, Target::openvino, {}, noise_at, true)->corrections.empty());
}

TEST(Correct, MeasuresLayersThatAreCheapAndNoOthers) {
    const Model model = image_network();
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 40, 21);
    const RangesFile ranges = test::ranges_on(model, samples, Method::mse);
    QuantizeOptions quantizing;
    quantizing.noisy_in_float = true;
    const auto now = quantize_model(model, ranges, quantizing);
    ASSERT_TRUE(now) << now.error().describe();
    ASSERT_TRUE(now->in_float.empty());
    KeptSamples kept;
    kept.fit_count = 12;
    for (std::size_t at = 0; at < 3; ++at)
        kept.fit["x"].push_back(test::tensor_of("x", {4, 3, 8, 8}, noise_at(4 * 3 * 64, at)));
    const auto found = [&](const MeasuredLayerLimits& limits) {
        const auto layers = measure_cheap_layers(model, ranges, quantizing, *now, kept, 1, no_progress(), limits);
        EXPECT_TRUE(layers) << layers.error().describe();
        std::string text;
        for (const MeasuredLayer& layer : *layers)
            text += layer.name + " ";
        return text;
    };
    EXPECT_EQ(found({}), "early ");
    MeasuredLayerLimits limits;
    limits.cost = 0;
    EXPECT_EQ(found(limits), "");
    limits = {};
    limits.worth_while = 0.9;
    EXPECT_EQ(found(limits), "");
    limits = {};
    limits.cost = limits.all = 10; // all of them, without which nothing is left in int8
    EXPECT_NE(found(limits).find("larger "), std::string::npos);
}

TEST(Correct, MeasuresLayersWithInputsThatHaveNoRowASample) {
    const Model model = image_network(true);
    auto samples = test::noise_samples("x", {4, 3, 8, 8}, 10, 21);
    samples.merge(test::noise_samples("factor", {1}, 10, 5));
    QuantizeOptions quantizing;
    quantizing.noisy_in_float = true;
    const RangesFile ranges = test::ranges_on(model, samples, Method::mse);
    const auto now = quantize_model(model, ranges, quantizing);
    ASSERT_TRUE(now) << now.error().describe();
    KeptSamples kept;
    kept.fit = std::move(samples);
    kept.fit_count = 40;
    MeasuredLayerLimits limits;
    limits.worth_while = 0.05;
    const auto layers = measure_cheap_layers(model, ranges, quantizing, *now, kept, 1, no_progress(), limits);
    ASSERT_TRUE(layers) << layers.error().describe();
    ASSERT_EQ(layers->size(), 1U);
    EXPECT_EQ(layers->front().name, "early");
}

/// x -> 1x1 Conv -> y, with these weights of two output channels.
Model one_layer(const std::vector<float>& weights) {
    Model model = test::model_from_text("opset 17\ninput %x: float32[4, 3, 8, 8]\ninput %w: float32[2, 3, 1, 1]\n"
                                        "input %b: float32[2]\n"
                                        "%y = Conv(%x, %w, %b) {name = \"conv\"}\noutput %y: float32[4, 2, 8, 8]\n");
    model.graph.inputs.resize(1);
    model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {2, 3, 1, 1}, weights));
    model.graph.initializers.insert_or_assign("b", Tensor::of_floats("b", {2}, std::vector<float>(2, 0.0F)));
    return model;
}

/// The constants of the quantised model that correcting may change.
std::vector<std::vector<float>> numbers_of(const Model& quantized) {
    std::vector<std::vector<float>> numbers;
    for (const auto& [name, tensor] : quantized.graph.initializers)
        numbers.push_back(tensor.to_floats());
    return numbers;
}

/// Whole numbers from 0 to 255.
std::vector<float> whole_at(std::size_t count, std::size_t at) {
    std::vector<float> values = noise_at(count, at);
    for (float& value : values)
        value = std::nearbyint(127.5F * value + 127.5F);
    return values;
}

TEST(Correct, KeepsNothingThatDoesNotGain) {
    // Every weight is a multiple of its scale and the input of its step: nothing to correct.
    const Model model = one_layer({127.0F, -1.0F, -5.0F, 127.0F, 0.0F, 64.0F});
    CorrectOptions options = small_options();
    const std::map<std::string, Range> steps{{"x", {0.0F, 255.0F}}};
    const auto plain = corrected(model, options, Target::openvino, steps, whole_at);
    ASSERT_TRUE(plain) << plain.error().describe();
    EXPECT_TRUE(plain->corrections.empty());
    EXPECT_LT(plain->first.error, 1e-6);
    options.equalize = true;
    options.smooth = true;
    options.auto_ranges = true;
    options.rounding = Rounding::output_error;
    for (const BiasCorrection kind : {BiasCorrection::fast, BiasCorrection::exact}) {
        options.bias = kind;
        const auto outcome = corrected(model, options, Target::openvino, steps, whole_at);
        ASSERT_TRUE(outcome) << outcome.error().describe();
        EXPECT_EQ(methods_of(*outcome),
                  (std::vector<std::string>{"equalize", "smooth", "ranges", "bias-correction", "rounding"}));
        for (const Correction& each : outcome->corrections)
            EXPECT_FALSE(each.kept) << each.method << ": " << each.detail;
        EXPECT_NE(outcome->corrections[0].detail.find("0 of 0"), std::string::npos);
        EXPECT_FALSE(outcome->corrections[0].tried);
        EXPECT_THAT(describe(*outcome).at(2), testing::StartsWith("  equalize: nothing done"));
        EXPECT_EQ(outcome->first.error, outcome->last.error);
        EXPECT_EQ(numbers_of(outcome->quantized.model), numbers_of(plain->quantized.model));
    }
}

/// Of every two batches the second is fitted on. In those all values are above zero, in the others below.
std::vector<float> opposed_at(std::size_t count, std::size_t at) {
    std::vector<float> values = noise_at(count, at);
    for (float& value : values)
        value = at / 4 % 2 == 1 ? std::abs(value) : -std::abs(value);
    return values;
}

/// The same in the sign of the second channel, whose values are the first one's.
std::vector<float> mirrored_at(std::size_t count, std::size_t at) {
    std::vector<float> values = noise_at(count, at);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t channel = i / 64 % 3;
        if (channel == 1) values[i] = (at / 4 % 2 == 1 ? -1.0F : 1.0F) * values[i - 64];
        if (channel == 2) values[i] = 0.0F;
    }
    return values;
}

// What helps on the fitted samples and hurts on those held back is tried, and not kept.
TEST(Correct, RefusesWhatOnlyTheFittedSamplesGainFrom) {
    CorrectOptions options = small_options();
    options.fit_samples = options.held_back_samples = 80;
    // The second weight of each channel is nearly half a step off.
    const Model leaning = one_layer({1.27F, 0.1045F, 0.2F, 1.27F, 0.3045F, 0.4F});
    const std::map<std::string, Range> whole{{"x", {-1.0F, 1.0F}}};
    const auto plain = corrected(leaning, options, Target::openvino, whole, opposed_at);
    ASSERT_TRUE(plain) << plain.error().describe();
    for (const BiasCorrection kind : {BiasCorrection::fast, BiasCorrection::exact}) {
        options.bias = kind;
        const auto outcome = corrected(leaning, options, Target::openvino, whole, opposed_at);
        ASSERT_TRUE(outcome) << outcome.error().describe();
        const Correction& told = outcome->corrections.at(0);
        EXPECT_EQ(told.detail, "1 biases corrected");
        EXPECT_GT(told.after.error, 1.2 * told.before.error);
        EXPECT_FALSE(told.kept);
        EXPECT_EQ(numbers_of(outcome->quantized.model), numbers_of(plain->quantized.model));
    }
    options.bias = BiasCorrection::none;
    options.rounding = Rounding::output_error;
    const Model paired = one_layer({0.104F, -0.104F, 1.27F, 0.204F, -0.304F, 1.27F});
    const auto outcome = corrected(paired, options, Target::openvino, whole, mirrored_at);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    const Correction& told = outcome->corrections.at(0);
    EXPECT_TRUE(told.detail.starts_with("1 layers rounded")) << told.detail;
    EXPECT_GT(told.after.error, 1.2 * told.before.error);
    EXPECT_FALSE(told.kept);
}

// The float inputs are looked at by the rounding too, where the biases are corrected on them.
TEST(Correct, RoundsOnTheInputsAskedFor) {
    CorrectOptions options = small_options();
    options.rounding = Rounding::output_error;
    std::vector<double> errors;
    std::size_t paid = 0; // for which of them rounding gains
    for (const BiasCorrection kind : {BiasCorrection::fast, BiasCorrection::exact}) {
        options.bias = kind;
        const auto outcome = corrected(coarse(), options);
        ASSERT_TRUE(outcome) << outcome.error().describe();
        ASSERT_EQ(methods_of(*outcome), (std::vector<std::string>{"bias-correction", "rounding"}));
        LayerCorrection how;
        how.bias = how.rounding = true;
        how.inputs = kind == BiasCorrection::fast ? LayerInputs::own_error : LayerInputs::network_error;
        how.positions = options.positions;
        how.threads = 1;
        const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 40, 21);
        RangesFile ranges = test::ranges_on(coarse(), samples, Method::mse);
        auto quantized = quantize_model(coarse(), ranges, {});
        ASSERT_TRUE(quantized);
        const auto dataset = data_of()(all_samples);
        const auto kept = keep_samples(**dataset, options.fit_samples, options.held_back_samples, 4, no_progress());
        ASSERT_TRUE(kept);
        Model nearest = quantized->model;
        ASSERT_TRUE(
            correct_layers(coarse(), quantized->model, Target::openvino, kept->fit, how, no_progress(), &nearest)
                .has_value());
        auto judge = Judge::of(coarse(), kept->held_back, 1, no_progress());
        ASSERT_TRUE(judge);
        const auto closeness = judge->judge(quantized->model);
        ASSERT_TRUE(closeness);
        EXPECT_EQ(outcome->corrections[1].after.error, closeness->error);
        errors.push_back(closeness->error);
        const auto biases = judge->judge(nearest);
        ASSERT_TRUE(biases);
        if (!closeness->closer_than(*biases)) continue;
        ++paid;
        EXPECT_EQ(outcome->corrections[0].after.error, biases->error);
        EXPECT_TRUE(outcome->corrections[0].detail.ends_with("biases corrected, found with rounding"));
        EXPECT_EQ(outcome->corrections[1].before.error, biases->error) << "rounding's own gain";
        EXPECT_TRUE(outcome->corrections[1].kept);
    }
    EXPECT_NE(errors[0], errors[1]);
    EXPECT_GT(paid, 0U);
}

// Rounding keeps samples to check on. Where it does not pay, biases are those of bias correction alone, on all samples.
TEST(Correct, FindsBiasesAnewWhereRoundingDoesNotPay) {
    CorrectOptions options = small_options();
    options.fit_samples = options.held_back_samples = 80;
    options.bias = BiasCorrection::exact;
    const Model paired = one_layer({0.104F, -0.104F, 1.27F, 0.204F, -0.304F, 1.27F});
    const std::map<std::string, Range> whole{{"x", {-1.0F, 1.0F}}};
    const auto alone = corrected(paired, options, Target::openvino, whole, mirrored_at);
    ASSERT_TRUE(alone) << alone.error().describe();
    options.rounding = Rounding::output_error;
    const auto outcome = corrected(paired, options, Target::openvino, whole, mirrored_at);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    ASSERT_EQ(methods_of(*outcome), (std::vector<std::string>{"bias-correction", "rounding"}));
    EXPECT_EQ(outcome->corrections[0].detail, alone->corrections[0].detail);
    EXPECT_EQ(outcome->corrections[0].after.error, alone->corrections[0].after.error);
    EXPECT_FALSE(outcome->corrections[1].kept);
    EXPECT_EQ(numbers_of(outcome->quantized.model), numbers_of(alone->quantized.model));
}

/// conv_network, its first layer's channels of very different size, read through a Relu %r.
Model uneven() {
    Model model = test::conv_network("Relu(%a)", true);
    for (std::size_t channel = 0; channel < 16; channel += 2) {
        test::scale_channel(model, "w1", "b1", channel, 0.01F);
        test::scale_channel(model, "w2", "w2", channel, 100.0F);
    }
    return model;
}

TEST(Correct, EqualizesAndCalibratesAnew) {
    CorrectOptions options = small_options();
    options.equalize = true;
    const auto outcome = corrected(uneven(), options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_TRUE(outcome->corrections.at(0).kept) << outcome->corrections.at(0).detail;
    EXPECT_LT(outcome->last.error, 0.7 * outcome->first.error);
}

// A range that was given is that of the tensor as it is: scaling it would make another tensor of it.
TEST(Correct, DoesNotEqualizeWhatHasAGivenRange) {
    const Model model = uneven();
    CorrectOptions options = small_options();
    options.equalize = true;
    for (const char* tensor : {"r", "s"}) {
        SCOPED_TRACE(tensor);
        const auto outcome = corrected(model, options, Target::openvino, {{tensor, {0.0F, 3.0F}}});
        ASSERT_TRUE(outcome) << outcome.error().describe();
        const std::string& detail = outcome->corrections.at(0).detail;
        EXPECT_NE(detail.find(", 1 left: a range is given for it"), std::string::npos) << detail;
        const bool first_scaled =
            outcome->real.graph.initializer("w1")->to_floats() != model.graph.initializer("w1")->to_floats();
        EXPECT_EQ(first_scaled, std::string(tensor) == "s") << "only what is not given";
    }
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
    return quantize_corrected(model, ranges, quantizing, options, data_of(noise_at, {6, 16}), no_progress());
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

/// x -> conv -> Relu, an output of its own, and conv2 behind it: a detector's heads.
Model two_heads(const std::string& more = "") {
    Model result = test::model_from_text("opset 17\ninput %x: float32[4, 3, 8, 8]\ninput %w1: float32[16, 3, 3, 3]\n"
                                         "input %w2: float32[16, 16, 3, 3]\ninput %w4: float32[8, 16, 1, 1]\n"
                                         "%a = Conv(%x, %w1) {name = \"conv1\", pads = [1, 1, 1, 1]}\n%r = Relu(%a)\n" +
                                         more +
                                         "%near = Conv(%r, %w4) {name = \"near\"}\n"
                                         "%far = Conv(%r, %w2) {name = \"far\", pads = [1, 1, 1, 1]}\n");
    result.graph.inputs.resize(1);
    const auto output = [&](const std::string& name, DataType type) {
        ValueInfo info;
        info.name = name;
        info.type = type;
        result.graph.outputs.push_back(info);
    };
    if (!more.empty()) output("class", DataType::int64);
    output("r", DataType::float32);
    output("near", DataType::float32);
    output("far", DataType::float32);
    test::add_weights(result, "w1", {16, 3, 3, 3}, 1);
    test::add_weights(result, "w2", {16, 16, 3, 3}, 3);
    test::add_weights(result, "w4", {8, 16, 1, 1}, 7);
    return result;
}

Model as_int8(const Model& model, const std::vector<std::string>& exclude = {}) {
    QuantizeOptions options;
    options.placement.exclude = exclude;
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 2, 5);
    auto quantized = quantize_model(model, test::ranges_on(model, samples, Method::minmax), options);
    if (!quantized) {
        ADD_FAILURE() << quantized.error().describe();
        return {};
    }
    return std::move(quantized->model);
}

TEST(Judge, LooksAtEveryEndOfTheNetwork) {
    const Model model = two_heads("%class = ArgMax(%r) {axis = 1}\n");
    EXPECT_EQ(judged_outputs(model.graph), (std::vector<std::string>{"near", "far"}))
        << "not the class, and not what is read on";
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 2, 5);
    auto judge = Judge::of(model, samples, 1, no_progress());
    ASSERT_TRUE(judge) << judge.error().describe();
    const auto plain = judge->judge(as_int8(two_heads()));
    ASSERT_TRUE(plain) << plain.error().describe();
    EXPECT_LT(plain->error, 0.02);
    // Each head spoilt by a tenth: the mean of a tenth and nothing.
    for (const char* weight : {"w2", "w4"}) {
        Model spoilt = two_heads();
        const Tensor tensor = *model.graph.initializer(weight);
        auto values = tensor.to_floats();
        for (float& value : values)
            value *= 1.1F;
        spoilt.graph.initializers.insert_or_assign(weight, Tensor::of_floats(weight, tensor.shape(), values));
        const auto closeness = judge->judge(as_int8(spoilt));
        ASSERT_TRUE(closeness) << closeness.error().describe();
        EXPECT_NEAR(closeness->error, 0.05, 0.01) << weight;
    }
}

TEST(Judge, NaNIsNeverCloser) {
    const Model model = two_heads();
    const auto samples = test::noise_samples("x", {4, 3, 8, 8}, 2, 5);
    auto judge = Judge::of(model, samples, 1, no_progress());
    ASSERT_TRUE(judge);
    Model broken = model;
    auto values = model.graph.initializer("w2")->to_floats();
    values[0] = std::numeric_limits<float>::quiet_NaN();
    broken.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", {16, 16, 3, 3}, values));
    const auto closeness = judge->judge(as_int8(broken, {"far"}));
    ASSERT_TRUE(closeness) << closeness.error().describe();
    EXPECT_FALSE(closeness->closer_than(*judge->judge(as_int8(model))));
    EXPECT_EQ(to_json(*closeness)["error"], nullptr);
    const auto none = Judge::of(broken, samples, 1, no_progress());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::out_of_range);
    EXPECT_EQ(none.error().where, "far");
}

TEST(Judge, NeedsAFloatOutput) {
    Model model = two_heads("%class = ArgMax(%r) {axis = 1}\n");
    model.graph.outputs.resize(1);
    const auto none = Judge::of(model, test::noise_samples("x", {4, 3, 8, 8}, 2, 5), 1, no_progress());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::unsupported);
}

TEST(Correct, TellsOfWhatItLeavesAlone) {
    CorrectOptions options = small_options();
    options.rounding = Rounding::output_error;
    options.bias = BiasCorrection::exact;
    options.positions = 1024; // 768 to choose by, enough for 64 inputs: conv2 has 144, the head 72 for 16
    const auto outcome = corrected(coarse(), options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_NE(outcome->corrections[1].detail.find("2 not rounded: they sum over more inputs"), std::string::npos)
        << outcome->corrections[1].detail;
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
    const auto outcome = quantize_corrected(model, ranges, {}, options, data_of(), stopped);
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
    EXPECT_TRUE(options_of_effort(1).measured_layers);
    EXPECT_FALSE(options_of_effort(2).auto_ranges);
    EXPECT_TRUE(options_of_effort(3).auto_ranges);
    EXPECT_GT(options_of_effort(3).fit_samples, options_of_effort(2).fit_samples);
    EXPECT_GE(options_of_effort(3).held_back_samples, options_of_effort(2).held_back_samples);
}

} // namespace
} // namespace lathe
