#include "cli/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <unordered_set>

#include "backends/openvino/activation_source.hpp"
#include "calibrate/model_key.hpp"
#include "calibrate/quantization_error.hpp"
#include "calibrate/report.hpp"
#include "cli/commands.hpp"
#include "data/checks.hpp"
#include "data/open_dataset.hpp"
#include "onnx/onnx.hpp"
#include "quantize/placement.hpp"
#include "support/files.hpp"
#include "support/log.hpp"

namespace lathe::cli {

namespace {

constexpr std::size_t rows_shown = 15;

std::string number(double value, const char* format = "%.4g") {
    char text[40];
    std::snprintf(text, sizeof(text), format, value);
    return text;
}

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
    return Error{ErrorCode::invalid_argument, message, first.name, "export the model from a sound checkpoint"};
}

/// Every quantised Conv would otherwise carry an unfolded BatchNormalization behind it.
void warn_if_not_simplified(const Model& model, const Context& context) {
    std::unordered_set<std::string_view> convolved;
    for (const auto& node : model.graph.nodes) {
        if (node->is("Conv")) convolved.insert(node->output(0));
        if (node->is("BatchNormalization") && convolved.contains(node->input(0))) {
            context.warn("BatchNormalization is not folded into its Conv (" + node->label() +
                         "): run lathe simplify first, and calibrate its output");
            return;
        }
    }
}

std::vector<InputSpec> input_specs(const Model& model) {
    std::vector<InputSpec> specs;
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        specs.push_back({input.name, input.type, input.shape().value_or(Shape{})});
    }
    return specs;
}

Result<std::optional<Preprocess>> preprocess_of(const Model& model, const std::optional<Preprocess>& asked) {
    if (asked) return asked;
    const std::string* stored = model.find_metadata("lathe.preprocess");
    if (stored == nullptr) return std::optional<Preprocess>{};
    LATHE_TRY(const Json json, parse_json(*stored, "metadata lathe.preprocess"));
    LATHE_TRY(Preprocess preprocess, Preprocess::from_json(json, "metadata lathe.preprocess"));
    return std::optional<Preprocess>(std::move(preprocess));
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
        auto trained_with = preprocess_of(model, std::nullopt);
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

struct CacheAnswer {
    std::optional<RangesFile> ranges;
};

/// What is in the output file: nothing, a valid calibration, or something that may not be silently overwritten.
Result<CacheAnswer> look_into_cache(const CalibrateRequest& request, const RangesKey& key,
                                    const std::vector<std::string>& tensors) {
    if (request.force || !std::filesystem::exists(request.output)) return CacheAnswer{};
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
    return CacheAnswer{std::move(*ranges)};
}

Result<CalibrateOutcome> reuse(RangesFile ranges, const CalibrateRequest& request, const Context& context) {
    CalibrateOutcome outcome;
    outcome.reused = true;
    const bool same = ranges.method == request.method &&
                      (request.method != Method::percentile || ranges.options.percentile == request.options.percentile);
    if (same) {
        context.print("Reusing " + request.output.string() + ": same model, data, preprocessing and samples.");
    } else {
        context.print("Reusing the histograms of " + request.output.string() + ", with " + to_string(request.method) +
                      " instead of " + to_string(ranges.method) + ".");
        reestimate(ranges, request.method, request.options, request.threads);
        LATHE_CHECK(save_ranges(request.output, ranges));
    }
    outcome.ranges = std::move(ranges);
    return outcome;
}

/// The tensors that lose most, worst first.
std::string worst_table(const RangesFile& ranges, const NumberFormat& format) {
    struct Row {
        const TensorRange* tensor;
        Range range;
        RangeQuality quality;
    };
    std::vector<Row> rows;
    for (const TensorRange& tensor : ranges.tensors) {
        const Range range = ranges.range(tensor, format);
        rows.push_back({&tensor, range, judge(tensor.histogram, range, format)});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
        return a.quality.clipped_fraction > b.quality.clipped_fraction;
    });
    std::vector<std::vector<std::string>> cells{{"tensor", "min", "max", "low", "high", "clipped %", "SQNR dB"}};
    for (std::size_t i = 0; i < std::min(rows.size(), rows_shown); ++i) {
        const auto& [tensor, range, quality] = rows[i];
        cells.push_back({tensor->name, number(static_cast<double>(tensor->histogram.min())),
                         number(static_cast<double>(tensor->histogram.max())), number(static_cast<double>(range.low)),
                         number(static_cast<double>(range.high)), number(quality.clipped_fraction * 100, "%.4f"),
                         number(quality.sqnr_db, "%.1f")});
    }
    return table(cells);
}

void print_outcome(const CalibrateOutcome& outcome, const CalibrateRequest& request, const Context& context) {
    for (const CalibrationFinding& finding : outcome.ranges.findings) {
        const std::string text =
            finding.name + (finding.tensor.empty() ? "" : " (" + finding.tensor + ")") + ": " + finding.detail;
        if (finding.severity == FindingSeverity::information) {
            context.print(text);
        } else {
            context.warn(text);
        }
    }
    const RangesFile& ranges = outcome.ranges;
    if (context.verbose) {
        context.print("\nMost clipped tensors, as uint8:");
        context.print(worst_table(ranges, NumberFormat::uint8()));
    }
    if (outcome.reused) return;
    context.print(context.bold(request.output.string()) + ": ranges of " + plural(ranges.tensors.size(), "tensor") +
                  " by " + to_string(ranges.method) + " from " + plural(ranges.samples_seen, "sample") + " in " +
                  number(outcome.seconds, "%.1f") + " s (" + number(outcome.inference_seconds, "%.1f") +
                  " s of it running the model)");
}

} // namespace

Result<CalibrateOutcome> calibrate_model(const Model& model, const CalibrateRequest& request, const Context& context) {
    LATHE_CHECK(check(request.options));
    LATHE_CHECK(refuse_nonfinite_weights(model));
    warn_if_not_simplified(model, context);
    const std::vector<std::string> tensors = quantizable_tensors(model);
    if (tensors.empty()) {
        return Error{ErrorCode::invalid_argument, "there is nothing in this model to calibrate", model.graph.name,
                     "it has no Conv, Gemm or MatMul in floating point; lathe quantize --explain says why"};
    }
    const std::vector<InputSpec> inputs = input_specs(model);
    LATHE_TRY(const std::size_t batch_size, batch_size_of(inputs, request.batch_size));
    LATHE_TRY(const std::optional<Preprocess> preprocess, preprocess_of(model, request.preprocess));
    DatasetOptions dataset_options;
    dataset_options.samples = request.samples;
    dataset_options.threads = request.threads;
    LATHE_TRY(const std::unique_ptr<Dataset> dataset, open_dataset(request.data, preprocess, inputs, dataset_options));

    RangesKey key;
    key.model = calibration_key(model);
    LATHE_TRY(key.data, dataset->digest());
    if (preprocess) key.preprocess = preprocess->to_json().dump();
    key.samples = request.samples == 0 ? dataset->size() : request.samples;
    LATHE_TRY(CacheAnswer cached, look_into_cache(request, key, tensors));
    if (cached.ranges) return reuse(std::move(*cached.ranges), request, context);

    // A folder that cannot be written to is told now, not after minutes of work. The probe leaves nothing behind.
    if (auto writable = AtomicFile::create(request.output); !writable) return std::move(writable).error();
    const auto start = std::chrono::steady_clock::now();
    CollectOptions options;
    options.batch_size = batch_size;
    options.threads = request.threads;
    options.samples = std::min(key.samples, dataset->size());
    if (!inputs.empty() && !inputs.front().shape.empty() && inputs.front().shape[0] > 1) {
        // A fixed batch cannot be run in part.
        options.samples = options.samples / batch_size * batch_size;
        if (options.samples == 0) {
            return Error{ErrorCode::out_of_range,
                         "the model's batch size is " + std::to_string(batch_size) + ", but there are only " +
                             plural(dataset->size(), "sample"),
                         request.data.string(), "give more data, or export the model with --dynamic-batch"};
        }
    }
    LATHE_TRY(const std::unique_ptr<ActivationSource> source,
              openvino::make_activation_source(model, tensors, request.threads));
    CheckedDataset checked(*dataset, model);
    LATHE_TRY(ActivationStatistics statistics, collect(*source, checked, options, context.progress()));

    CalibrateOutcome outcome;
    outcome.inference_seconds = statistics.inference_seconds;
    std::vector<CalibrationFinding> findings = findings_about(checked.checks());
    for (CalibrationFinding& finding : check_activations(statistics.tensors))
        findings.push_back(std::move(finding));
    log(LogLevel::debug, "histograms took " + number(statistics.histogram_seconds, "%.2f") + " s");
    outcome.ranges =
        make_ranges(std::move(statistics), std::move(key), request.method, request.options, request.threads);
    outcome.ranges.findings = std::move(findings);
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    LATHE_CHECK(save_ranges(request.output, outcome.ranges));
    return outcome;
}

void add_calibrate(Commands& commands) {
    struct Options {
        std::string model;
        std::string preprocess;
        std::string method = to_string(Method::mse);
        CalibrateRequest request;
    };
    auto options = std::make_shared<Options>();
    Context& context = commands.context();
    CLI::App& command =
        commands.add({"calibrate",
                      "Run a model on sample data and record the range of every tensor that quantisation may need",
                      {"lathe calibrate m.onnx --data photos/ --output m.ranges",
                       "lathe calibrate m.onnx --data photos/ --samples 300 --method entropy --output m.ranges",
                       "lathe calibrate m.onnx --data inputs.npz --method percentile --percentile 99.9 --force"}},
                     [options, &context]() -> Result<void> {
                         CalibrateRequest& request = options->request;
                         LATHE_TRY(request.method, method_from_name(options->method));
                         if (!options->preprocess.empty()) {
                             LATHE_TRY(Preprocess preprocess, Preprocess::from_file(options->preprocess));
                             request.preprocess = std::move(preprocess);
                         }
                         if (request.output.empty()) {
                             request.output = std::filesystem::path(options->model).replace_extension(".ranges");
                         }
                         LATHE_TRY(const Model model, load_onnx(options->model));
                         LATHE_TRY(const CalibrateOutcome outcome, calibrate_model(model, request, context));
                         print_outcome(outcome, request, context);
                         Json json = calibration_to_json(outcome.ranges, NumberFormat::uint8(), outcome.seconds);
                         json["file"] = request.output.string();
                         json["reused"] = outcome.reused;
                         json["inference_seconds"] = outcome.inference_seconds;
                         context.print_json(json);
                         return {};
                     });
    std::string methods;
    for (const Estimator& estimator : estimators())
        methods += (methods.empty() ? "" : "; ") + std::string(estimator.name) + ": " + estimator.summary;
    command.add_option("model", options->model, "ONNX model in floating point, simplified")->required();
    command.add_option("--data", options->request.data, "Images or arrays: folder, .npy, .npz, list of files")
        ->required();
    command.add_option("--samples", options->request.samples, "How many samples, spread evenly over the data; 0: all")
        ->capture_default_str();
    command.add_option("--method", options->method, methods)->capture_default_str();
    command.add_option("--percentile", options->request.options.percentile, "For --method percentile")
        ->capture_default_str();
    command.add_option("--batch-size", options->request.batch_size, "Samples a run; does not change the result");
    command.add_option("--threads", options->request.threads, "Threads; does not change the result (default: all)");
    command.add_option("--preprocess", options->preprocess, "JSON file that overrides the model's preprocessing");
    command.add_option("-o,--output", options->request.output, "Ranges file (default: the model's name, .ranges)");
    command.add_flag("--force", options->request.force, "Calibrate even if the ranges file exists");
}

} // namespace lathe::cli
