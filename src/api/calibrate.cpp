#include "api/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "api/calibration_task.hpp"
#include "backends/openvino/activation_source.hpp"
#include "calibrate/guard.hpp"
#include "calibrate/settle.hpp"
#include "data/checks.hpp"
#include "data/open_dataset.hpp"
#include "quantize/placement.hpp"
#include "support/files.hpp"
#include "support/log.hpp"

namespace lathe {

namespace {

/// A dataset whose batches the data checks see as they go by.
class CheckedDataset final : public Dataset {
public:
    CheckedDataset(Dataset& dataset, const Model& model, const std::optional<Preprocess>& given)
        : dataset_(dataset), checks_(data_expectations(model, given)) {}
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
    Dataset& dataset_;
    DataChecks checks_;
};

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

/// Runs the model on the samples. The findings are those about the ranges and the data, in order of importance.
Result<CalibrateOutcome> measure(const CalibrationTask& task, const CalibrationData& data, RangesKey key,
                                 const CollectOptions& options, const CalibrateRequest& request, Progress& progress) {
    LATHE_TRY(const std::unique_ptr<ActivationSource> source,
              openvino::make_activation_source(task.model, task.tensors, request.threads));
    CheckedDataset checked(*data.dataset, task.model, data.preprocess);
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
    add_findings(outcome.ranges, checked.checks());
    return outcome;
}

Result<CalibrateOutcome> calibrate_on(const CalibrationTask& task, CalibrationData data,
                                      const CalibrateRequest& request, Progress& progress) {
    Dataset& dataset = *data.dataset;
    LATHE_TRY(RangesKey key, ranges_key(task, data, request));
    LATHE_TRY(auto cached, look_into_cache(request, key, task.tensors));
    // Which samples are read until the ranges settle depends on the method.
    if (cached && (!request.until_settled || same_method(*cached, request))) return reuse(std::move(*cached), request);

    // A folder that cannot be written to is told now, not after minutes of work. The probe leaves nothing behind.
    if (!request.output.empty()) {
        if (auto writable = AtomicFile::create(request.output); !writable) return std::move(writable).error();
    }
    const auto start = std::chrono::steady_clock::now();
    LATHE_TRY(CollectOptions options, collect_options(task, std::min(key.samples, dataset.size()), request));
    options.time_limit_s = request.time_limit_s;
    const std::size_t wanted = options.samples == 0 ? dataset.size() : std::min(options.samples, dataset.size());
    LATHE_TRY(CalibrateOutcome outcome, measure(task, data, std::move(key), options, request, progress));
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    RangesFile& ranges = outcome.ranges;
    const bool settled = ranges.convergence && ranges.convergence->settled;
    outcome.cut = request.time_limit_s > 0 && ranges.samples_seen < wanted && !settled;
    if (outcome.cut) {
        // The file must not pass for one of all the samples that were asked for.
        ranges.key.samples = ranges.samples_seen;
        if (ranges.convergence) ranges.convergence->available = ranges.samples_seen;
    }
    if (!request.output.empty()) LATHE_CHECK(save_ranges(request.output, outcome.ranges));
    return outcome;
}

} // namespace

Result<CalibrateOutcome> calibrate_model(const Model& model, const CalibrateRequest& request, Progress& progress) {
    LATHE_TRY(CalibrationTask task, make_calibration_task(model, request));
    LATHE_TRY(CalibrationData data, open_calibration_data(task, {}, request));
    return calibrate_on(task, std::move(data), request, progress);
}

Result<CalibrateOutcome> calibrate_arrays(const Model& model, std::vector<HostTensor> arrays,
                                          const CalibrateRequest& request, Progress& progress) {
    LATHE_TRY(CalibrationTask task, make_calibration_task(model, request));
    LATHE_TRY(CalibrationData data, open_calibration_data(task, std::move(arrays), request));
    return calibrate_on(task, std::move(data), request, progress);
}

} // namespace lathe
