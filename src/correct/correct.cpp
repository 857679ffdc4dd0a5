#include "correct/correct.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>

#include "calibrate/collect.hpp"
#include "calibrate/model_key.hpp"
#include "correct/equalize.hpp"
#include "correct/float_layers.hpp"
#include "correct/measured_layers.hpp"
#include "correct/ranges.hpp"
#include "correct/samples.hpp"
#include "onnx/onnx.hpp"
#include "quantize/target.hpp"
#include "support/clock.hpp"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

std::string number(double value, const char* format) {
    char text[40];
    std::snprintf(text, sizeof(text), format, value);
    return text;
}

std::string figures(const Closeness& closeness) {
    char text[120];
    if (closeness.classes) {
        std::snprintf(text, sizeof(text), "KL %.6f, SQNR %.1f dB, agreement %.1f %%", closeness.mean_kl,
                      closeness.sqnr_db, closeness.agreement * 100);
    } else {
        std::snprintf(text, sizeof(text), "error %.5f, SQNR %.1f dB", closeness.error, closeness.sqnr_db);
    }
    std::string all = text;
    if (closeness.task) all += ", " + closeness.task->name + " " + number(closeness.task->value * 100, "%.1f %%");
    return all;
}

std::string biases_of(const std::vector<CorrectedLayer>& layers) {
    return std::to_string(std::ranges::count(layers, true, &CorrectedLayer::bias)) + " biases corrected";
}

/// What layer correction did, in words.
std::string summary_of(const std::vector<CorrectedLayer>& layers) {
    std::size_t rounded = 0;
    std::size_t too_few = 0;
    double moved = 0.0;
    std::map<std::string, std::size_t> skipped;
    for (const CorrectedLayer& layer : layers) {
        rounded += layer.rounded ? 1U : 0U;
        too_few += layer.too_few ? 1U : 0U;
        moved += layer.moved;
        if (!layer.skipped.empty()) ++skipped[layer.skipped];
    }
    std::string text;
    if (rounded > 0) {
        text = std::to_string(rounded) + " layers rounded, " +
               number(100.0 * moved / static_cast<double>(rounded), "%.1f") +
               " % of their weights otherwise than before";
    }
    if (std::ranges::any_of(layers, &CorrectedLayer::bias)) text += (text.empty() ? "" : "; ") + biases_of(layers);
    if (too_few > 0) {
        text += (text.empty() ? "" : "; ") + std::to_string(too_few) +
                " not rounded: they sum over more inputs than the samples can tell apart";
    }
    for (const auto& [why, count] : skipped)
        text += (text.empty() ? "" : "; ") + std::to_string(count) + " left: " + why;
    return text.empty() ? "no layer to correct" : text;
}

std::string in_words(const JudgedPart& part) {
    if (part.end == 0) return part.output;
    return "channels " + std::to_string(part.begin) + " to " + std::to_string(part.end - 1) + " of " + part.output;
}

/// The choice that gained most, in words.
std::string worst_of(const RangeChoices& choices) {
    if (choices.changed.empty()) return "";
    const auto most =
        std::ranges::max_element(choices.changed, {}, [](const RangeChoice& each) { return each.before - each.after; });
    return ", most for " + most->tensor + " (" + most->method + ": " + number(10 * std::log10(most->before), "%.1f") +
           " dB of noise to " + number(10 * std::log10(most->after), "%.1f") + ")";
}

class Pipeline {
public:
    Pipeline(const Model& model, const RangesFile& ranges, const QuantizeOptions& quantize,
             const CorrectOptions& options, const OpenData& open, Progress& progress)
        : model_(model), ranges_(ranges), quantize_(quantize), options_(options), open_(open), progress_(progress) {}

    Result<CorrectOutcome> run() {
        const auto start = Clock::now();
        LATHE_TRY(const auto dataset, open_(options_.fit_samples + options_.held_back_samples));
        LATHE_TRY(samples_, keep_samples(*dataset, options_.fit_samples, options_.held_back_samples,
                                         options_.batch_size, progress_));
        LATHE_TRY(Judge judge, Judge::of(model_, samples_.held_back, options_.threads, progress_));
        judge_ = &judge;
        LATHE_TRY(outcome_.quantized, quantize_model(model_, ranges_, quantize_));
        LATHE_TRY(outcome_.first, judge.judge(outcome_.quantized.model));
        outcome_.last = best_ = outcome_.first;
        outcome_.fit_samples = samples_.fit_count;
        outcome_.held_back_samples = samples_.held_back_count;
        if (options_.float_last) LATHE_CHECK(try_float(judge));
        if (options_.measured_layers && quantize_.noisy_in_float && !outcome_.first.classes)
            LATHE_CHECK(try_measured(judge));
        if (options_.equalize) LATHE_CHECK(try_equalizing(judge, "equalize", {true, false, options_.threads, {}}));
        if (options_.smooth) LATHE_CHECK(try_smoothing(judge));
        if (options_.auto_ranges) LATHE_CHECK(try_ranges(judge));
        LATHE_CHECK(correct_layers_of(judge));
        outcome_.seconds = seconds_since(start);
        outcome_.quantized.document["corrections"] = to_json(outcome_);
        LATHE_CHECK(check_onnx(outcome_.quantized.model));
        outcome_.real = std::move(model_);
        outcome_.ranges = std::move(ranges_);
        return std::move(outcome_);
    }

private:
    Correction about(const char* method) const { return {method, false, "", outcome_.last, outcome_.last, 0.0}; }

    /// Nothing came of it.
    Result<void> leave(Correction told, Clock::time_point start) {
        told.seconds = seconds_since(start);
        told.tried = false;
        outcome_.corrections.push_back(std::move(told));
        return {};
    }

    /// Keeps the candidate if its error is at most `share` of what there is, and less.
    bool take(Correction told, Model candidate, double share = 1.0) {
        told.kept = told.after.closer_than(told.before) && told.after.error <= share * told.before.error;
        if (const JudgedPart* worse = told.kept ? told.after.worse_part(told.before) : nullptr; worse != nullptr) {
            told.kept = false;
            told.detail += "; undone: " + in_words(*worse) + " would be further from the float model";
        }
        if (told.kept) refuse_worse_answers(told);
        if (told.kept) {
            outcome_.quantized.model = std::move(candidate);
            outcome_.last = told.after;
            if (told.after.task && told.after.task->value > best_.task->value) best_ = told.after;
        }
        outcome_.corrections.push_back(std::move(told));
        return outcome_.corrections.back().kept;
    }

    /// What the network is for decides over what its numbers look like: a step whose answers are worse, beyond the
    /// chance of which samples these are, than the best that was kept is undone. Beside the best and not the last, so
    /// that many small losses do not add up. Answers that are worse within chance must be worth it: the error has to
    /// fall by more than a hair.
    void refuse_worse_answers(Correction& told) const {
        if (!told.after.task) return;
        const Interval change = judge_->task_difference(told.after, best_);
        const double loss = 100 * (best_.task->value - told.after.task->value);
        const bool by_chance = change.high >= 0;
        if (loss <= 0 || (by_chance && told.after.error <= (1.0 - least_gain) * told.before.error)) return;
        told.kept = false;
        told.detail += "; undone: " + told.after.task->name + " would be " + number(loss, "%.1f") +
                       " points less (95 % interval " + number(-100 * change.high, "%.1f") + " to " +
                       number(-100 * change.low, "%.1f") + ")";
        if (by_chance) told.detail += ", for a smaller error by less than " + number(100 * least_gain, "%.0f %%");
    }

    /// Ranges of a changed model, from the samples that the old ones are from.
    Result<RangesFile> calibrate(const Model& model) const {
        LATHE_TRY(const Backend* backend, default_backend());
        LATHE_TRY(const auto source, backend->observe(model, quantizable_tensors(model), options_.threads));
        LATHE_TRY(const auto dataset, open_(ranges_.samples_seen));
        CollectOptions collecting;
        collecting.samples = ranges_.samples_seen;
        collecting.batch_size = options_.fixed_batch ? options_.batch_size : 1;
        collecting.threads = options_.threads;
        LATHE_TRY(ActivationStatistics statistics, collect(*source, *dataset, collecting, progress_));
        RangesKey key = ranges_.key;
        key.model = calibration_key(model);
        return make_ranges(std::move(statistics), key, ranges_.method, ranges_.options, options_.threads);
    }

    Result<void> try_float(Judge& judge) {
        const auto start = Clock::now();
        Correction told = about("last-layers");
        const std::vector<std::string> names = cheap_last_layers(model_, outcome_.quantized.plan);
        if (names.empty()) {
            told.detail = "none that costs next to nothing in float";
            return leave(std::move(told), start);
        }
        told.detail = "in float: " + names.front() + (names.size() > 1 ? ", ..." : "");
        return leave_in_float(judge, names, std::move(told), start);
    }

    Result<void> try_measured(Judge& judge) {
        const auto start = Clock::now();
        Correction told = about("measured-layers");
        const auto measured =
            measure_cheap_layers(model_, ranges_, quantize_, outcome_.quantized, samples_, options_.threads, progress_);
        if (!measured) {
            // These samples cannot be compared; those that decide can.
            const ErrorCode code = measured.error().code;
            if (code != ErrorCode::out_of_range && code != ErrorCode::unsupported) return measured.error();
            told.detail = measured.error().message;
            return leave(std::move(told), start);
        }
        const std::vector<MeasuredLayer>& layers = *measured;
        if (layers.empty()) {
            told.detail = "none that is cheap and that the answer depends on";
            return leave(std::move(told), start);
        }
        std::vector<std::string> names;
        double cost = 0.0;
        for (const MeasuredLayer& layer : layers) {
            told.detail += (names.empty() ? "in float: " : ", ") + layer.name;
            names.push_back(layer.name);
            cost += layer.cost;
        }
        told.detail += "; about " + number(100.0 * cost, "%.1f") + " % of time";
        return leave_in_float(judge, names, std::move(told), start);
    }

    Result<void> leave_in_float(Judge& judge, const std::vector<std::string>& names, Correction told,
                                Clock::time_point start) {
        QuantizeOptions quantizing = quantize_;
        for (const std::string& name : names)
            quantizing.placement.exclude.push_back(name);
        LATHE_TRY(QuantizeOutcome quantized, quantize_model(model_, ranges_, quantizing));
        LATHE_TRY(told.after, judge.judge(quantized.model));
        told.seconds = seconds_since(start);
        QuantizeOutcome now = std::move(outcome_.quantized);
        outcome_.quantized = std::move(quantized);
        Model candidate = outcome_.quantized.model;
        if (!take(std::move(told), std::move(candidate), 1.0 - least_gain)) {
            outcome_.quantized = std::move(now);
            return {};
        }
        quantize_ = std::move(quantizing);
        for (const auto& node : model_.graph.nodes) {
            if (std::ranges::find(names, node->label()) != names.end()) float_outputs_.push_back(node->output(0));
        }
        return {};
    }

    Result<void> try_smoothing(Judge& judge) {
        if (!ranges_.source.empty()) {
            Correction told = about("smooth");
            told.detail = "needs the histograms of a calibration, which " + ranges_.source + " does not have";
            return leave(std::move(told), Clock::now());
        }
        EqualizeOptions how{false, true, options_.threads};
        if (profile_of(quantize_.target).scales_in_front) how.scaled_in_front = int8_outputs();
        return try_equalizing(judge, "smooth", std::move(how));
    }

    /// Of the layers that are in int8 now.
    std::set<std::string> int8_outputs() const {
        std::set<std::string> names;
        for (const EdgeDecision& decision : outcome_.quantized.plan.decisions) {
            if (decision.reason == Reason::heavy_input) names.insert(decision.node);
        }
        std::set<std::string> outputs;
        for (const auto& node : model_.graph.nodes) {
            if (names.contains(node->label())) outputs.insert(node->output(0));
        }
        return outputs;
    }

    Result<void> try_equalizing(Judge& judge, const char* method, EqualizeOptions how) {
        const auto start = Clock::now();
        Correction told = about(method);
        how.stays_float = float_outputs_;
        for (const auto& [tensor, range] : quantize_.overrides)
            how.stays_as_is.push_back(tensor);
        const QuantizationPlan& plan = outcome_.quantized.plan;
        how.weights = plan.granularity;
        how.activations = scheme_of(plan.activations);
        for (const QuantizedTensor& tensor : plan.tensors) {
            if (plan.groups[tensor.group].from_zero) how.from_zero.insert(tensor.name);
        }
        how.spare = spare_;
        LATHE_TRY(EqualizeOutcome equal, equalize(model_, samples_.fit, how, progress_));
        told.detail =
            std::to_string(equal.fired) + " of " + std::to_string(equal.classes) + " groups of channels scaled";
        if (equal.left > 0) {
            told.detail += ", " + std::to_string(equal.left) + " left: a range is given for " +
                           (equal.left == 1 ? "it" : "a tensor of each");
        }
        if (equal.fired == 0) {
            return leave(std::move(told), start);
        }
        if (equal.in_front > 0) told.detail += ", " + std::to_string(equal.in_front) + " by a Mul in front of layers";
        told.detail += ", predicted noise x " + number(equal.noise_after / equal.noise_before, "%.2f");
        LATHE_TRY(RangesFile ranges, calibrate(equal.model));
        LATHE_TRY(QuantizeOutcome quantized, quantize_model(equal.model, ranges, quantize_));
        LATHE_TRY(told.after, judge.judge(quantized.model));
        told.seconds = seconds_since(start);
        const double share = equal.in_front > 0 ? 1.0 - least_gain : 1.0;
        if (!take(std::move(told), quantized.model, share)) return {};
        outcome_.quantized = std::move(quantized);
        model_ = std::move(equal.model);
        ranges_ = std::move(ranges);
        return {};
    }

    Result<void> try_ranges(Judge& judge) {
        const auto start = Clock::now();
        Correction told = about("ranges");
        RangeChoiceOptions how;
        how.threads = options_.threads;
        how.positions = options_.positions / 16;
        how.spare = spare_;
        LATHE_TRY(const RangeChoices choices, choose_ranges(model_, outcome_.quantized.model, outcome_.quantized.plan,
                                                            ranges_, samples_.fit, how, progress_));
        told.detail = std::to_string(choices.changed.size()) + " of " + std::to_string(choices.looked_at) +
                      " scales changed" + worst_of(choices);
        if (choices.changed.empty()) {
            return leave(std::move(told), start);
        }
        QuantizeOptions quantizing = quantize_;
        quantizing.chosen = choices.ranges;
        LATHE_TRY(QuantizeOutcome quantized, quantize_model(model_, ranges_, quantizing));
        LATHE_TRY(told.after, judge.judge(quantized.model));
        told.seconds = seconds_since(start);
        if (take(std::move(told), std::move(quantized.model))) outcome_.chosen = choices.ranges;
        return {};
    }

    /// A model whose layers were corrected, and what came of it.
    struct Candidate {
        Model model;
        Correction told;
    };

    Result<Candidate> judged(Judge& judge, const char* method, Model model, std::string detail,
                             Clock::time_point start) const {
        Candidate candidate{std::move(model), about(method)};
        candidate.told.detail = std::move(detail);
        LATHE_TRY(candidate.told.after, judge.judge(candidate.model));
        candidate.told.seconds = seconds_since(start);
        return candidate;
    }

    void take(Candidate candidate) {
        candidate.told.before = outcome_.last; // another may have been taken since it was judged
        take(std::move(candidate.told), std::move(candidate.model));
    }

    /// `nearest`: gets biases alone, as of correct_layers.
    Result<std::vector<CorrectedLayer>> correct(Model& model, const LayerCorrection& how, Model* nearest = nullptr) {
        return correct_layers(model_, model, quantize_.target, samples_.fit, how, progress_, nearest);
    }

    Result<void> correct_layers_of(Judge& judge) {
        LayerCorrection how;
        how.positions = options_.positions;
        how.threads = options_.threads;
        how.spare = spare_;
        how.inputs = options_.bias == BiasCorrection::fast ? LayerInputs::own_error : LayerInputs::network_error;
        how.bias = options_.bias != BiasCorrection::none;
        const Model& plain = outcome_.quantized.model; // until a candidate is taken
        const auto correct_biases = [&]() -> Result<Candidate> {
            const auto start = Clock::now();
            Model model = plain;
            LATHE_TRY(const auto layers, correct(model, how));
            return judged(judge, "bias-correction", std::move(model), summary_of(layers), start);
        };
        if (options_.rounding == Rounding::nearest) {
            if (!how.bias) return {};
            LATHE_TRY(Candidate biases, correct_biases());
            take(std::move(biases));
            return {};
        }
        LayerCorrection rounding = how;
        rounding.rounding = true;
        const auto start = Clock::now();
        Model model = plain;
        Model nearest = plain;
        LATHE_TRY(const auto layers, correct(model, rounding, how.bias ? &nearest : nullptr));
        LATHE_TRY(Candidate rounded, judged(judge, "rounding", std::move(model), summary_of(layers), start));
        if (how.bias) {
            LATHE_TRY(Candidate biases, judged(judge, "bias-correction", std::move(nearest),
                                               biases_of(layers) + ", found with rounding", Clock::now()));
            // Where rounding does not pay, biases are found anew, on those samples too that it is checked on.
            if (!rounded.told.after.closer_than(biases.told.after)) {
                LATHE_TRY(biases, correct_biases());
            }
            take(std::move(biases));
        }
        take(std::move(rounded));
        return {};
    }

    /// What is paid for with work (layers in float, a Mul) must gain more than a hair: this share of the error.
    static constexpr double least_gain = 0.03;

    Model model_; ///< in float: as given, or equalised
    RangesFile ranges_;
    QuantizeOptions quantize_;               ///< as given, and the layers that stay float
    std::vector<std::string> float_outputs_; ///< what those layers compute
    const CorrectOptions& options_;
    const OpenData& open_;
    Progress& progress_;
    KeptSamples samples_;
    std::shared_ptr<SpareMemory> spare_ = std::make_shared<SpareMemory>(); ///< of all walks
    Judge* judge_ = nullptr;                                               ///< while run() runs
    Closeness best_; ///< of what was kept, the one with the best answers
    CorrectOutcome outcome_;
};

} // namespace

CorrectOptions options_of_effort(int effort, const CorrectionChoice& choice) {
    CorrectOptions options;
    if (effort >= 1) {
        options.bias = BiasCorrection::fast;
        options.smooth = true;
        options.measured_layers = true;
    }
    if (effort >= 2) {
        options.bias = BiasCorrection::exact;
        options.rounding = Rounding::output_error;
        options.float_last = true;
        options.equalize = true;
    }
    if (effort >= 3) {
        options.auto_ranges = true;
        options.fit_samples = 192;
        options.positions = 16384;
    }
    options.bias = choice.bias.value_or(options.bias);
    options.rounding = choice.rounding.value_or(options.rounding);
    options.float_last = choice.float_last.value_or(options.float_last);
    options.equalize = choice.equalize.value_or(options.equalize);
    options.smooth = choice.smooth.value_or(options.smooth);
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
    return {{"before", to_json(outcome.first)},   {"after", to_json(outcome.last)},
            {"fit_samples", outcome.fit_samples}, {"held_back_samples", outcome.held_back_samples},
            {"seconds", outcome.seconds},         {"steps", std::move(steps)}};
}

std::vector<std::string> describe(const CorrectOutcome& outcome) {
    if (outcome.corrections.empty()) return {};
    std::vector<std::string> lines{"On " + std::to_string(outcome.held_back_samples) +
                                       " held-back samples, corrected on " + std::to_string(outcome.fit_samples) + ":",
                                   "  quantised alone: " + figures(outcome.first)};
    for (const Correction& each : outcome.corrections) {
        const std::string came =
            each.tried ? figures(each.after) + ", " + (each.kept ? "kept" : "not kept") : "nothing done";
        lines.push_back("  " + each.method + ": " + came + number(each.seconds, " (%.1f s)") + "; " + each.detail);
    }
    return lines;
}

Result<CorrectOutcome> quantize_corrected(const Model& model, const RangesFile& ranges, const QuantizeOptions& quantize,
                                          const CorrectOptions& options, const OpenData& open, Progress& progress) {
    return Pipeline(model, ranges, quantize, options, open, progress).run();
}

} // namespace lathe
