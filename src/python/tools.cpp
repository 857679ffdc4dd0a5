#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lathe/doctor.hpp"
#include "lathe/evaluate_task.hpp"
#include "lathe/lengths.hpp"
#include "lathe/ranges.hpp"
#include "lathe/trtexec.hpp"
#include "python/bindings.hpp"
#include "python/fields.hpp"
#include "python/measured.hpp"
#include "python/model.hpp"
#include "python/progress.hpp"
#include "python/task.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

// The keys are the fields of the classes in python/lathe/_tools.py.

nb::dict told_of(const PaddingCost& cost) {
    nb::dict told;
    told["computed_tokens"] = cost.computed_tokens;
    told["padding_share"] = cost.padding_share;
    told["padding_over_real"] = cost.padding_over_real;
    return told;
}

nb::dict told_of(const LengthBuckets& buckets) {
    nb::dict told;
    told["lengths"] = buckets.lengths;
    told["cost"] = told_of(buckets.cost);
    return told;
}

nb::dict told_of(const TaskFigure& figure) {
    nb::dict told;
    told["title"] = figure.title;
    told["key"] = figure.key;
    told["value"] = figure.value;
    told["low"] = figure.low;
    told["high"] = figure.high;
    return told;
}

nb::dict told_of(const BackendState& backend) {
    nb::dict told;
    told["name"] = backend.name;
    told["device"] = backend.device;
    told["available"] = backend.available;
    told["version"] = backend.version;
    told["devices"] = backend.devices;
    told["cause"] = backend.cause;
    told["cure"] = backend.cure;
    return told;
}

nb::dict told_of(const TrtexecMeasurement& run) {
    nb::dict told;
    told["name"] = run.name;
    told["log"] = run.log;
    told["model"] = run.model;
    told["version"] = run.version;
    told["device"] = run.device;
    told["precision"] = run.precision;
    told["batch"] = run.batch;
    told["samples_per_second"] = run.samples_per_second;
    told["median_ms"] = run.median_ms;
    told["mean_ms"] = run.mean_ms;
    told["min_ms"] = run.min_ms;
    told["max_ms"] = run.max_ms;
    told["p99_ms"] = run.p99_ms;
    told["copy_in_ms"] = run.copy_in_ms;
    told["compute_ms"] = run.compute_ms;
    told["copy_out_ms"] = run.copy_out_ms;
    told["enqueue_ms"] = run.enqueue_ms;
    told["warnings"] = run.warnings;
    return told;
}

nb::dict told_of(const TaskSubject& subject);

nb::dict told_of(const TaskSubject& subject) {
    nb::dict told;
    told["name"] = subject.name;
    told["precision"] = subject.precision;
    told["nonfinite"] = subject.nonfinite;
    told["figures"] = list_of(subject.figures, told_of);
    told["reference"] = subject.reference;
    told["against_reference"] = list_of(subject.against_reference, told_of);
    return told;
}

nb::dict run_profile_data(const nb::dict& options, nb::object reporter) {
    ProfileDataRequest request;
    request.model = field(options, "model", request.model);
    request.data = field(options, "data", request.data);
    request.columns = field(options, "columns", request.columns);
    request.samples = field(options, "samples", request.samples);
    request.batch_size = field(options, "batch_size", request.batch_size);
    request.buckets = field(options, "buckets", request.buckets);
    request.command_line = "lathe.profile_data";
    const DataProfile profile = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return profile_data(request);
    });
    nb::dict told;
    told["samples"] = profile.samples;
    told["tokens"] = profile.tokens;
    told["mean"] = profile.mean;
    told["shortest"] = profile.shortest;
    told["longest"] = profile.longest;
    told["percentiles"] = profile.percentiles;
    told["histogram"] = profile.histogram;
    told["limit"] = profile.limit;
    told["longer_than_limit"] = profile.longer_than_limit;
    told["tokenizer_limit"] = profile.tokenizer_limit;
    told["at_tokenizer_limit"] = profile.at_tokenizer_limit;
    told["own"] = told_of(profile.own);
    told["proposals"] = list_of(profile.proposals, told_of);
    told["chosen"] = profile.chosen;
    told["shapes"] = nb::none();
    if (profile.shapes) told["shapes"] = profile.shapes->dynamic;
    told["_document"] = profile.document;
    return told;
}

nb::dict run_trtexec_logs(std::vector<std::filesystem::path> logs) {
    const TrtexecLogs read = [&] {
        const nb::gil_scoped_release release;
        return value_of(read_trtexec_logs({std::move(logs), "lathe.read_trtexec_logs"}));
    }();
    nb::list missing;
    for (const TrtexecGap& gap : read.unavailable)
        missing.append(nb::make_tuple(gap.name, gap.reason, gap.cure));
    nb::dict told;
    told["measured"] = list_of(read.measured, told_of);
    told["unavailable"] = missing;
    told["_document"] = read.document;
    return told;
}

nb::dict run_doctor() {
    const DoctorReport report = [] {
        const nb::gil_scoped_release release;
        return doctor();
    }();
    nb::dict features;
    for (const ProcessorFeature& feature : report.features)
        features[feature.flag.c_str()] = feature.present;
    nb::dict told;
    told["backends"] = list_of(report.backends, told_of);
    told["cpu_model"] = report.cpu_model;
    told["cores"] = report.cores;
    told["memory_bytes"] = report.memory_bytes;
    told["hypervisor"] = report.hypervisor;
    told["features"] = features;
    told["_document"] = report.document;
    return told;
}

RangesFormat format_of(const std::string& form, const std::string& tensorrt, const std::string& algorithm) {
    if (form != "tensorrt-cache" && form != "dynamic-ranges") {
        throw Failure({ErrorCode::invalid_argument, "no form of ranges is called \"" + form + "\"", "format",
                       "choose from tensorrt-cache, dynamic-ranges"});
    }
    return {form == "tensorrt-cache" ? RangesForm::tensorrt_cache : RangesForm::dynamic_ranges, tensorrt, algorithm};
}

/// (file, source, tensors)
nb::tuple run_convert_ranges(std::filesystem::path input, std::filesystem::path output, const std::string& form,
                             const std::string& tensorrt, const std::string& algorithm) {
    const ConvertRangesRequest request{std::move(input), std::move(output), format_of(form, tensorrt, algorithm)};
    const ConvertRangesResult result = [&] {
        const nb::gil_scoped_release release;
        return value_of(convert_ranges(request));
    }();
    return nb::make_tuple(result.output, result.source, result.tensors);
}

void run_write_ranges(const Calibration& calibration, const std::filesystem::path& path, const std::string& form,
                      const std::string& tensorrt, const std::string& algorithm) {
    const RangesFormat format = format_of(form, tensorrt, algorithm);
    const nb::gil_scoped_release release;
    value_of(write_ranges(calibration, path, format));
}

Calibration run_calibrate_every_tensor(const HeldModel& held, nb::handle data, const std::string& columns,
                                       std::size_t samples, const std::string& method, double percentile,
                                       std::size_t threads, const std::string& preprocess, nb::object reporter) {
    Data given = data_of(data, std::nullopt, columns);
    CalibrationOptions options;
    options.samples = samples;
    options.method = value_of(method_from_name(method));
    options.percentile = percentile;
    options.threads = threads;
    options.preprocess = preprocess;
    return with_progress(std::move(reporter), [&](PythonProgress& progress) {
        options.progress = &progress;
        return calibrate_every_tensor(*held.model, std::move(given), options);
    });
}

nb::dict run_evaluate_task(const nb::dict& options, nb::object reporter) {
    EvaluateTaskRequest request;
    request.engines = field(options, "engines", request.engines);
    request.reference = field(options, "reference", request.reference);
    request.data = field(options, "data", request.data);
    request.task = task_of(field(options, "task", nb::dict()));
    request.columns = field(options, "columns", request.columns);
    request.samples = field(options, "samples", request.samples);
    request.batch_size = field(options, "batch_size", request.batch_size);
    request.preprocess = field(options, "preprocess", request.preprocess);
    request.worst = field(options, "worst", request.worst);
    request.command_line = "lathe.evaluate_task";
    const EvaluateTaskResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return evaluate_task(request);
    });
    nb::dict told;
    told["task"] = result.task;
    told["heading"] = result.heading;
    told["samples"] = result.samples;
    told["subjects"] = list_of(result.subjects, told_of);
    told["_document"] = result.document;
    return told;
}

} // namespace

void add_tools(nb::module_& module) {
    module.def("profile_data", &run_profile_data, nb::arg("options"), nb::arg("reporter").none());
    module.def("read_trtexec_logs", &run_trtexec_logs, nb::arg("logs"));
    module.def("doctor", &run_doctor);
    module.def("convert_ranges", &run_convert_ranges);
    module.def("write_ranges", &run_write_ranges);
    module.def("calibrate_every_tensor", &run_calibrate_every_tensor);
    module.def("evaluate_task", &run_evaluate_task, nb::arg("options"), nb::arg("reporter").none());
}

} // namespace lathe::python
