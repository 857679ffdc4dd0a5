#include "api/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <unordered_set>

#include "api/model_data.hpp"
#include "backends/openvino/activation_source.hpp"
#include "calibrate/guard.hpp"
#include "calibrate/model_key.hpp"
#include "calibrate/settle.hpp"
#include "data/checks.hpp"
#include "data/open_dataset.hpp"
#include "onnx/onnx.hpp"
#include "quantize/given.hpp"
#include "quantize/placement.hpp"
#include "support/files.hpp"
#include "support/log.hpp"

namespace lathe {

namespace {

std::string plural(std::size_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Result<void> refuse_nonfinite_weights(const Model& model) {
    const auto broken = find_nonfinite(model);
    if (broken.empty()) return {};
    const NonfiniteTensor& first = broken.front();
    std::string message = "a weight holds " + std::to_string(first.nans) + " NaN and " +
                          std::to_string(first.infinities) + " infinite values";
    if (broken.size() > 1) message += ", and so do " + plural(broken.size() - 1, "other tensor");
    return Error{ErrorCode::out_of_range, message, first.name, "export the model from a sound checkpoint"};
}

/// Every quantised Conv would otherwise carry an unfolded BatchNormalization behind it.
void warn_if_not_simplified(const Model& model) {
    std::unordered_set<std::string_view> convolved;
    for (const auto& node : model.graph.nodes) {
        if (node->is("Conv")) convolved.insert(node->output(0));
        if (node->is("BatchNormalization") && convolved.contains(node->input(0))) {
            log(LogLevel::warning, "BatchNormalization is not folded into its Conv (" + node->label() +
                                       "): run lathe simplify first, and calibrate its output");
            return;
        }
    }
}

/// The batch size that the model can run, given what was asked.
Result<std::size_t> batch_size_of(const std::vector<InputSpec>& inputs, std::size_t asked) {
    std::size_t fixed = 0;
    for (const InputSpec& input : inputs) {
        if (!input.shape.empty() && input.shape[0] > 0) fixed = static_cast<std::size_t>(input.shape[0]);
    }
    if (fixed != 0 && asked != 0 && asked != fixed) {
        return Error{ErrorCode::invalid_argument,
                     "the model's batch size is fixed at " + std::to_string(fixed) + ", not " + std::to_string(asked),
                     inputs.front().name, "leave --batch-size out, or export the model with --dynamic-batch"};
    }
    return std::max<std::size_t>(1, std::max(fixed, asked));
}

/// A dataset whose batches the data checks see as they go by.
class CheckedDataset final : public Dataset {
public:
    CheckedDataset(Dataset& dataset, const Model& model) : dataset_(dataset), checks_(expectations(model)) {}
    std::size_t size() const override { return dataset_.size(); }
    bool has_labels() const override { return dataset_.has_labels(); }
    std::vector<std::string> class_names() const override { return dataset_.class_names(); }
    void rewind() override { dataset_.rewind(); }
    Result<std::string> digest() const override { return dataset_.digest(); }
    Result<std::optional<Batch>> next(std::size_t count) override {
        auto batch = dataset_.next(count);
        if (batch && *batch) checks_.observe(**batch);
        return batch;
    }
    const DataChecks& checks() const { return checks_; }

private:
    /// What the model was trained with, as its metadata say, whatever --preprocess says.
    static DataExpectations expectations(const Model& model) {
        DataExpectations expected;
        auto trained_with = preprocess_of(model);
        if (trained_with) expected.preprocess = *trained_with;
        return expected;
    }

    Dataset& dataset_;
    DataChecks checks_;
};

std::vector<CalibrationFinding> findings_about(const DataChecks& checks) {
    std::vector<CalibrationFinding> findings;
    for (const DataFinding& found : checks.findings())
        findings.push_back({found.name, "", found.detail, severity_from_name(to_string(found.severity))});
    return findings;
}

/// What is in the output file: nothing, a valid calibration, or something that may not be silently overwritten.
Result<std::optional<RangesFile>> look_into_cache(const CalibrateRequest& request, const RangesKey& key,
                                                  const std::vector<std::string>& tensors) {
    if (request.force || request.output.empty() || !std::filesystem::exists(request.output)) {
        return std::optional<RangesFile>{};
    }
    const std::string hint = "calibrate anew with --force, or give another --output";
    auto ranges = load_ranges(request.output);
    if (!ranges) {
        ranges.error().hint = hint;
        return std::move(ranges).error();
    }
    auto valid = validate_ranges(*ranges, key, tensors);
    if (!valid) {
        valid.error().hint = hint;
        return std::move(valid).error().in(request.output.string());
    }
    return std::optional<RangesFile>(std::move(*ranges));
}

/// Whether the ranges are what the request's method finds.
bool same_method(const RangesFile& ranges, const CalibrateRequest& request) {
    const bool same_guard = !can_clip_the_signal(request.method) || ranges.options.guard == request.options.guard;
    return ranges.method == request.method && same_guard &&
           (request.method != Method::percentile || ranges.options.percentile == request.options.percentile);
}

Result<CalibrateOutcome> reuse(RangesFile ranges, const CalibrateRequest& request) {
    CalibrateOutcome outcome;
    outcome.reused = true;
    if (same_method(ranges, request)) {
        outcome.reuse = "Reusing " + request.output.string() + ": same model, data, preprocessing and samples.";
    } else {
        const auto named = [](Method method, const EstimateOptions& options) {
            return std::string(to_string(method)) + (options.guard ? "" : " without the guard");
        };
        outcome.reuse = "Reusing the histograms of " + request.output.string() + ", with " +
                        named(request.method, request.options) + " instead of " + named(ranges.method, ranges.options) +
                        ".";
        reestimate(ranges, request.method, request.options, request.threads);
        LATHE_CHECK(save_ranges(request.output, ranges));
    }
    outcome.ranges = std::move(ranges);
    return outcome;
}

/// What can be said before the data are opened.
struct Task {
    const Model& model;
    std::vector<std::string> tensors;
    std::vector<InputSpec> inputs;
    std::size_t batch_size = 1;
};

Result<Task> make_task(const Model& model, const CalibrateRequest& request) {
    LATHE_CHECK(check(request.options));
    LATHE_CHECK(refuse_nonfinite_weights(model));
    warn_if_not_simplified(model);
    Task task{model, request.all_activations ? float_activations(model) : quantizable_tensors(model),
              input_specs(model)};
    if (task.tensors.empty()) {
        return Error{ErrorCode::invalid_argument, "there is nothing in this model to calibrate", model.graph.name,
                     "it has no Conv, Gemm or MatMul in floating point; lathe quantize --explain says why"};
    }
    LATHE_TRY(task.batch_size, batch_size_of(task.inputs, request.batch_size));
    return task;
}

bool has_fixed_batch(const Task& task) {
    return !task.inputs.empty() && !task.inputs.front().shape.empty() && task.inputs.front().shape[0] > 1;
}

/// How many samples to run: a fixed batch cannot be run in part.
Result<std::size_t> samples_to_run(const Task& task, std::size_t wanted, const CalibrateRequest& request) {
    if (!has_fixed_batch(task)) return wanted;
    const std::size_t whole = wanted / task.batch_size * task.batch_size;
    if (whole == 0) {
        return Error{ErrorCode::out_of_range,
                     "the model's batch size is " + std::to_string(task.batch_size) + ", but there are only " +
                         plural(wanted, "sample"),
                     request.data.string(), "give more data, or export the model with --dynamic-batch"};
    }
    return whole;
}

/// Runs the model on the samples. The findings are those about the ranges and the data, in order of importance.
Result<CalibrateOutcome> measure(const Task& task, Dataset& dataset, RangesKey key, const CollectOptions& options,
                                 const CalibrateRequest& request, Progress& progress) {
    LATHE_TRY(const std::unique_ptr<ActivationSource> source,
              openvino::make_activation_source(task.model, task.tensors, request.threads));
    CheckedDataset checked(dataset, task.model);
    CalibrateOutcome outcome;
    double histogram_seconds = 0.0;
    if (request.until_settled) {
        SettleRule rule;
        rule.whole_ranges = whole_range_tensors(task.model);
        LATHE_TRY(SettledRanges settled, read_until_settled(*source, checked, options, std::move(key), request.method,
                                                            request.options, rule, progress));
        outcome.ranges = std::move(settled.ranges);
        outcome.inference_seconds = settled.inference_seconds;
        histogram_seconds = settled.histogram_seconds;
    } else {
        LATHE_TRY(ActivationStatistics statistics, collect(*source, checked, options, progress));
        outcome.inference_seconds = statistics.inference_seconds;
        histogram_seconds = statistics.histogram_seconds;
        outcome.ranges =
            make_ranges(std::move(statistics), std::move(key), request.method, request.options, request.threads);
    }
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.2f", histogram_seconds);
    log(LogLevel::debug, std::string("histograms took ") + seconds + " s");
    std::vector<CalibrationFinding> all = findings_about(checked.checks());
    for (const TensorRange& tensor : outcome.ranges.tensors)
        check_activation(tensor.name, tensor.histogram, all);
    std::ranges::move(outcome.ranges.findings, std::back_inserter(all));
    outcome.ranges.findings = std::move(all);
    return outcome;
}

Result<CalibrateOutcome> calibrate_on(const Task& task, Dataset& dataset, const std::optional<Preprocess>& preprocess,
                                      const CalibrateRequest& request, Progress& progress) {
    RangesKey key;
    key.model = calibration_key(task.model);
    LATHE_TRY(key.data, dataset.digest());
    if (preprocess) key.preprocess = preprocess->to_json().dump();
    key.samples = request.samples == 0 ? dataset.size() : request.samples;
    key.until_settled = request.until_settled;
    LATHE_TRY(auto cached, look_into_cache(request, key, task.tensors));
    // Which samples are read until the ranges settle depends on the method.
    if (cached && (!request.until_settled || same_method(*cached, request))) return reuse(std::move(*cached), request);

    // A folder that cannot be written to is told now, not after minutes of work. The probe leaves nothing behind.
    if (!request.output.empty()) {
        if (auto writable = AtomicFile::create(request.output); !writable) return std::move(writable).error();
    }
    const auto start = std::chrono::steady_clock::now();
    CollectOptions options;
    options.batch_size = task.batch_size;
    options.threads = request.threads;
    options.whole_batches = has_fixed_batch(task);
    LATHE_TRY(options.samples, samples_to_run(task, std::min(key.samples, dataset.size()), request));
    LATHE_TRY(CalibrateOutcome outcome, measure(task, dataset, std::move(key), options, request, progress));
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!request.output.empty()) LATHE_CHECK(save_ranges(request.output, outcome.ranges));
    return outcome;
}

DatasetOptions dataset_options(const Model& model, const CalibrateRequest& request) {
    DatasetOptions options;
    options.text = text_options(model, request.columns);
    options.samples = request.samples;
    options.threads = request.threads;
    if (request.until_settled) {
        options.order = SampleOrder::scattered;
        options.read_ahead = 8; // what is decoded in vain when the ranges have settled
    }
    return options;
}

} // namespace

Result<CalibrateOutcome> calibrate_model(const Model& model, const CalibrateRequest& request, Progress& progress) {
    LATHE_TRY(const Task task, make_task(model, request));
    std::optional<Preprocess> preprocess = request.preprocess;
    if (!preprocess) {
        LATHE_TRY(preprocess, preprocess_of(model));
    }
    LATHE_TRY(const auto dataset, open_dataset(request.data, preprocess, task.inputs, dataset_options(model, request)));
    return calibrate_on(task, *dataset, preprocess, request, progress);
}

Result<CalibrateOutcome> calibrate_arrays(const Model& model, std::vector<HostTensor> arrays,
                                          const CalibrateRequest& request, Progress& progress) {
    LATHE_TRY(const Task task, make_task(model, request));
    LATHE_TRY(const auto dataset,
              dataset_of_arrays(std::move(arrays), {}, task.inputs, dataset_options(model, request)));
    return calibrate_on(task, *dataset, std::nullopt, request, progress);
}

} // namespace lathe
