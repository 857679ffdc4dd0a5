#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lathe/engine.hpp"
#include "lathe/optimize.hpp"
#include "python/bindings.hpp"
#include "python/fields.hpp"
#include "python/measured.hpp"
#include "python/progress.hpp"
#include "python/task.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// The fields are those of lathe.optimize in python/lathe/_optimize.py.
OptimizeRequest request_of(const nb::dict& options) {
    OptimizeRequest request;
    request.model = field(options, "model", request.model);
    request.calibrate = field(options, "calibrate", request.calibrate);
    request.evaluate = field(options, "evaluate", request.evaluate);
    request.columns = field(options, "columns", request.columns);
    request.task = task_of(field(options, "task", nb::dict()));
    request.output = field(options, "output", request.output);
    request.preprocess = field(options, "preprocess", request.preprocess);
    const auto method = field<std::string>(options, "method", to_string(request.method));
    request.ranges_by_error = method == "auto";
    if (!request.ranges_by_error) request.method = value_of(method_from_name(method));
    request.samples = field(options, "samples", request.samples);
    if (options.contains("samples")) request.until_settled = false;
    request.exclude = field(options, "exclude", request.exclude);
    request.effort = optional_field<int>(options, "effort");
    request.answer_loss = field(options, "answer_loss", request.answer_loss);
    request.answer_limit_s = optional_field<double>(options, "answer_limit_s");
    // Absent and "auto" are the same to the library, but only one of them to what it keeps in the folder.
    if (!noisy_in_float_named(field<std::string>(options, "noisy_layers", "auto")))
        request.corrections.noisy_in_float = false;
    if (const auto weights = field<std::string>(options, "weights", ""); !weights.empty())
        request.weights = value_of(weight_granularity_from_name(weights));
    if (const auto activations = field<std::string>(options, "activations", ""); !activations.empty())
        request.activations = value_of(activation_scheme_from_name(activations));
    request.source = field(options, "source", request.source);
    request.device = field(options, "device", request.device);
    for (const auto& name : field(options, "precisions", std::vector<std::string>()))
        request.precisions.push_back(precision_named(name));
    for (const auto& text : field(options, "shapes", std::vector<std::string>()))
        request.shapes.insert(value_of(parse_shape_range(text)));
    request.threads = field(options, "threads", request.threads);
    if (options.contains("against")) request.against = nb::cast<std::vector<std::string>>(options["against"]);
    request.batch_sizes = field(options, "batch_sizes", request.batch_sizes);
    request.evaluate_samples = optional_field<std::size_t>(options, "evaluate_samples");
    request.max_drop = field(options, "max_drop", request.max_drop);
    request.duration_s = optional_field<double>(options, "duration_s");
    request.time_limit_s = optional_field<double>(options, "time_limit_s");
    request.quick = field(options, "quick", request.quick);
    request.force = field(options, "force", request.force);
    request.program = field(options, "program", request.program);
    request.command_line = field(options, "command_line", request.command_line);
    return request;
}

nb::dict run(const nb::dict& options, nb::object reporter) {
    OptimizeRequest request = request_of(options);
    const OptimizeResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        request.tell = [&progress](std::string_view line) { progress.tell(line); };
        return optimize(request);
    });
    nb::list rows;
    for (const OptimizedRow& row : result.rows) {
        nb::dict told;
        told["name"] = row.name;
        told["precision"] = row.precision;
        told["batch"] = row.batch;
        told["latency_ms"] = measured(row.latency_ms);
        told["speedup"] = measured(row.speedup);
        told["top1"] = measured(row.top1);
        told["top1_change"] = measured(row.top1_change);
        told["metric"] = row.metric;
        told["score"] = measured(row.score);
        told["score_change"] = measured(row.score_change);
        told["engine"] = row.engine;
        rows.append(told);
    }
    nb::dict told;
    told["verdict"] = result.verdict;
    told["reasons"] = result.reasons;
    told["engine"] = result.engine;
    told["report"] = result.report;
    told["folder"] = result.folder;
    told["rows"] = rows;
    told["document"] = result.document;
    return told;
}

} // namespace

void add_optimize(nb::module_& module) { module.def("optimize", &run, nb::arg("options"), nb::arg("reporter").none()); }

} // namespace lathe::python
