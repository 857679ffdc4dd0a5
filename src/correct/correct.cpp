#include "correct/correct.hpp"

#include <chrono>
#include <cstdio>

#include "correct/samples.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string number(double value, const char* format) {
    char text[40];
    std::snprintf(text, sizeof(text), format, value);
    return text;
}

/// What layer correction did, in words.
std::string summary_of(const std::vector<CorrectedLayer>& layers) {
    std::size_t rounded = 0;
    std::size_t biases = 0;
    double moved = 0.0;
    std::map<std::string, std::size_t> skipped;
    for (const CorrectedLayer& layer : layers) {
        rounded += layer.rounded ? 1U : 0U;
        biases += layer.bias ? 1U : 0U;
        moved += layer.moved;
        if (!layer.skipped.empty()) ++skipped[layer.skipped];
    }
    std::string text;
    if (rounded > 0) {
        text = std::to_string(rounded) + " layers rounded, " +
               number(100.0 * moved / static_cast<double>(rounded), "%.1f") + " % of their weights otherwise than before";
    }
    if (biases > 0) text += (text.empty() ? "" : "; ") + std::to_string(biases) + " biases corrected";
    for (const auto& [why, count] : skipped)
        text += (text.empty() ? "" : "; ") + std::to_string(count) + " left: " + why;
    return text.empty() ? "no layer to correct" : text;
}

class Pipeline {
public:
    Pipeline(const Model& model, const RangesFile& ranges, const QuantizeOptions& quantize,
             const CorrectOptions& options, const OpenData& open, Progress& progress)
        : model_(model), ranges_(ranges), quantize_(quantize), options_(options), open_(open),
          progress_(progress) {}

    Result<CorrectOutcome> run() {
        const auto start = Clock::now();
        LATHE_TRY(const auto dataset, open_(options_.fit_samples + options_.held_back_samples));
        LATHE_TRY(samples_, keep_samples(*dataset, options_.fit_samples, options_.held_back_samples,
                                         options_.batch_size, progress_));
        LATHE_TRY(const Judge judge, Judge::of(model_, samples_.held_back, options_.threads));
        LATHE_TRY(outcome_.quantized, quantize_model(model_, ranges_, quantize_));
        LATHE_TRY(outcome_.first, judge.judge(outcome_.quantized.model));
        outcome_.last = outcome_.first;
        outcome_.fit_samples = samples_.fit_count;
        outcome_.held_back_samples = samples_.held_back_count;
        LATHE_CHECK(correct_layers_of(judge));
        outcome_.seconds = seconds_since(start);
        outcome_.quantized.document["corrections"] = to_json(outcome_);
        LATHE_CHECK(check_onnx(outcome_.quantized.model));
        return std::move(outcome_);
    }

private:
    Result<void> try_layers(const Judge& judge, const char* method, const LayerCorrection& how) {
        const auto start = Clock::now();
        Model candidate = outcome_.quantized.model;
        LATHE_TRY(const std::vector<CorrectedLayer> layers,
                  correct_layers(model_, candidate, quantize_.target, samples_.fit, how, progress_));
        Correction told;
        told.method = method;
        told.detail = summary_of(layers);
        told.before = outcome_.last;
        LATHE_TRY(told.after, judge.judge(candidate));
        told.kept = told.after.closer_than(told.before);
        told.seconds = seconds_since(start);
        if (told.kept) {
            outcome_.quantized.model = std::move(candidate);
            outcome_.last = told.after;
        }
        outcome_.corrections.push_back(std::move(told));
        return {};
    }

    Result<void> correct_layers_of(const Judge& judge) {
        LayerCorrection how;
        how.positions = options_.positions;
        how.threads = options_.threads;
        if (options_.rounding == Rounding::output_error) {
            how.rounding = true;
            how.bias = options_.bias != BiasCorrection::none;
            LATHE_CHECK(try_layers(judge, "rounding", how));
            if (outcome_.corrections.back().kept) return {};
            how.rounding = false;
        }
        if (options_.bias == BiasCorrection::none) return {};
        how.bias = true;
        how.inputs =
            options_.bias == BiasCorrection::fast ? LayerInputs::own_error : LayerInputs::network_error;
        return try_layers(judge, "bias-correction", how);
    }

    const Model& model_;
    const RangesFile& ranges_;
    const QuantizeOptions& quantize_;
    const CorrectOptions& options_;
    const OpenData& open_;
    Progress& progress_;
    KeptSamples samples_;
    CorrectOutcome outcome_;
};

} // namespace

CorrectOptions options_of_effort(int effort) {
    CorrectOptions options;
    if (effort >= 1) options.bias = BiasCorrection::fast;
    if (effort >= 2) {
        options.bias = BiasCorrection::exact;
        options.rounding = Rounding::output_error;
    }
    return options;
}

Json to_json(const CorrectOutcome& outcome) {
    Json steps = Json::array();
    for (const Correction& each : outcome.corrections) {
        steps.push_back({{"method", each.method},
                         {"kept", each.kept},
                         {"detail", each.detail},
                         {"before", to_json(each.before)},
                         {"after", to_json(each.after)},
                         {"seconds", each.seconds}});
    }
    return {{"before", to_json(outcome.first)},
            {"after", to_json(outcome.last)},
            {"fit_samples", outcome.fit_samples},
            {"held_back_samples", outcome.held_back_samples},
            {"seconds", outcome.seconds},
            {"steps", std::move(steps)}};
}

Result<CorrectOutcome> quantize_corrected(const Model& model, const RangesFile& ranges, const QuantizeOptions& quantize,
                                          const CorrectOptions& options, const OpenData& open, Progress& progress) {
    return Pipeline(model, ranges, quantize, options, open, progress).run();
}

} // namespace lathe
