#include "api/calibration_task.hpp"

#include <algorithm>
#include <unordered_set>

#include "api/model_data.hpp"
#include "calibrate/model_key.hpp"
#include "onnx/onnx.hpp"
#include "quantize/given.hpp"
#include "quantize/placement.hpp"
#include "support/log.hpp"

namespace lathe {

namespace {

std::string plural(std::size_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Result<void> refuse_nonfinite_weights(const Model& model) {
    auto broken = find_nonfinite(model);
    std::erase_if(broken, [](const NonfiniteTensor& tensor) { return tensor.mask; });
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

/// What axis 0 of the inputs is fixed at; 0 where it is open, 1 where they differ: it is no batch then.
std::size_t fixed_batch(const std::vector<InputSpec>& inputs) {
    std::size_t fixed = 0;
    for (const InputSpec& input : inputs) {
        const auto size = input.shape.empty() || input.shape[0] <= 0 ? 0 : static_cast<std::size_t>(input.shape[0]);
        if (size == 0) continue;
        if (fixed != 0 && fixed != size) return 1;
        fixed = size;
    }
    return fixed;
}

/// The batch size that the model can run, given what was asked.
Result<std::size_t> batch_size_of(const std::vector<InputSpec>& inputs, std::size_t asked) {
    const std::size_t fixed = fixed_batch(inputs);
    if (fixed != 0 && asked != 0 && asked != fixed) {
        return Error{ErrorCode::invalid_argument,
                     "the model's batch size is fixed at " + std::to_string(fixed) + ", not " + std::to_string(asked),
                     inputs.front().name, "leave --batch-size out, or export the model with --dynamic-batch"};
    }
    return std::max<std::size_t>(1, std::max(fixed, asked));
}

/// How many samples to run: a fixed batch cannot be run in part.
Result<std::size_t> samples_to_run(const CalibrationTask& task, std::size_t wanted, const CalibrateRequest& request) {
    if (!task.has_fixed_batch()) return wanted;
    const std::size_t whole = wanted / task.batch_size * task.batch_size;
    if (whole == 0) {
        return Error{ErrorCode::out_of_range,
                     "the model's batch size is " + std::to_string(task.batch_size) + ", but there are only " +
                         plural(wanted, "sample"),
                     request.data.string(), "give more data, or export the model with --dynamic-batch"};
    }
    return whole;
}

} // namespace

bool CalibrationTask::has_fixed_batch() const { return batch_size > 1 && fixed_batch(inputs) > 1; }

Result<CalibrationTask> make_calibration_task(const Model& model, const CalibrateRequest& request) {
    LATHE_CHECK(check(request.options));
    LATHE_CHECK(refuse_nonfinite_weights(model));
    warn_if_not_simplified(model);
    CalibrationTask task{model, request.all_activations ? float_activations(model) : quantizable_tensors(model),
                         input_specs(model)};
    if (task.tensors.empty()) {
        return Error{ErrorCode::invalid_argument, "there is nothing in this model to calibrate", model.graph.name,
                     "it has no Conv, Gemm or MatMul in floating point with constant weights; lathe quantize --explain "
                     "says why"};
    }
    LATHE_TRY(task.batch_size, batch_size_of(task.inputs, request.batch_size));
    return task;
}

DatasetOptions reading_order(const CalibrateRequest& request) {
    DatasetOptions options;
    options.samples = request.samples;
    options.threads = request.threads;
    if (request.until_settled) {
        options.order = SampleOrder::scattered;
        options.read_ahead = 8; // what is decoded in vain when the ranges have settled
    }
    return options;
}

Result<CalibrationData> open_calibration_data(CalibrationTask& task, std::vector<HostTensor> arrays,
                                              const CalibrateRequest& request, std::optional<SampleSpan> part) {
    CalibrationData data;
    DatasetOptions options = reading_order(request);
    options.text = text_options(task.model, request.columns);
    if (!arrays.empty()) {
        // Arrays of a part hold nothing else.
        if (part) options = {};
        LATHE_TRY(data.dataset, dataset_of_arrays(std::move(arrays), {}, task.inputs, options));
        if (data.dataset->has_whole_samples()) task.batch_size = 1;
        return data;
    }
    options.part = part;
    LATHE_TRY(data.preprocess, request.preprocess.resolve(task.inputs));
    if (!data.preprocess) {
        LATHE_TRY(data.preprocess, preprocess_of(task.model));
    }
    LATHE_TRY(data.dataset, open_dataset(request.data, data.preprocess, task.inputs, options));
    if (data.dataset->has_whole_samples()) task.batch_size = 1;
    return data;
}

Result<RangesKey> ranges_key(const CalibrationTask& task, const CalibrationData& data,
                             const CalibrateRequest& request) {
    RangesKey key;
    key.model = calibration_key(task.model);
    LATHE_TRY(key.data, data.dataset->digest());
    if (data.preprocess) key.preprocess = data.preprocess->to_json().dump();
    key.samples = request.samples == 0 ? data.dataset->size() : request.samples;
    key.until_settled = request.until_settled;
    return key;
}

Result<CollectOptions> collect_options(const CalibrationTask& task, std::size_t wanted,
                                       const CalibrateRequest& request) {
    CollectOptions options;
    options.batch_size = task.batch_size;
    options.threads = request.threads;
    options.whole_batches = task.has_fixed_batch();
    LATHE_TRY(options.samples, samples_to_run(task, wanted, request));
    return options;
}

DataExpectations data_expectations(const Model& model, const std::optional<Preprocess>& given) {
    DataExpectations expected;
    auto trained_with = preprocess_of(model);
    if (trained_with) expected.preprocess = *trained_with;
    if (!expected.preprocess) expected.preprocess = given;
    return expected;
}

void add_findings(RangesFile& ranges, const DataChecks& checks) {
    std::vector<CalibrationFinding> all;
    for (const DataFinding& found : checks.findings())
        all.push_back({found.name, "", found.detail, severity_from_name(to_string(found.severity))});
    for (const TensorRange& tensor : ranges.tensors)
        check_activation(tensor.name, tensor.histogram, all);
    std::ranges::move(ranges.findings, std::back_inserter(all));
    ranges.findings = std::move(all);
}

} // namespace lathe
