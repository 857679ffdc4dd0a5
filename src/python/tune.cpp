#include "lathe/tune.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/bindings.hpp"
#include "python/fields.hpp"
#include "python/measured.hpp"
#include "python/prepared.hpp"
#include "python/progress.hpp"
#include "python/task.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

// The keys are the fields of lathe.tune and of the classes in python/lathe/_tune.py.

TuneEffort effort_named(const std::string& name) {
    if (name == "fast") return TuneEffort::fast;
    if (name == "default") return TuneEffort::standard;
    if (name == "full") return TuneEffort::full;
    throw Failure({ErrorCode::invalid_argument, "kernels are not timed so: \"" + name + "\"", "kernels",
                   "choose from fast, default, full"});
}

TuneRequest request_of(const nb::dict& options) {
    TuneRequest request;
    read_prepared(options, request);
    request.output = field(options, "output", request.output);
    request.judge = field(options, "judge", request.judge);
    request.metric = field(options, "metric", request.metric);
    request.task = task_of(field(options, "task", nb::dict()));
    request.max_drop = field(options, "max_drop", request.max_drop);
    request.min_speedup = field(options, "min_speedup", request.min_speedup);
    request.budget_s = field(options, "budget_s", request.budget_s);
    request.slack = field(options, "slack", request.slack);
    request.device = field(options, "device", request.device);
    request.batch_size = field(options, "batch_size", request.batch_size);
    request.time_limit_s = field(options, "time_limit_s", request.time_limit_s);
    for (const auto& text : field(options, "shapes", std::vector<std::string>()))
        request.shapes.insert(value_of(parse_shape_range(text)));
    request.sensitivity = field(options, "sensitivity", request.sensitivity);
    request.sensitivity_samples = field(options, "sensitivity_samples", request.sensitivity_samples);
    request.effort = field(options, "effort", request.effort);
    request.timing_cache = field(options, "timing_cache", request.timing_cache);
    request.kernels = effort_named(field<std::string>(options, "kernels", "default"));
    request.results = field(options, "results", request.results);
    request.report = field(options, "report", request.report);
    request.force = field(options, "force", request.force);
    request.command_line = "lathe.tune";
    return request;
}

nb::dict told_of(const TuneTrial& trial) {
    nb::dict told;
    const bool built = trial.failed.empty();
    told["name"] = trial.name;
    told["phase"] = trial.phase;
    told["base"] = trial.base;
    told["float_layers"] = trial.float_layers;
    told["failed"] = trial.failed;
    told["latency_ms"] = built ? nb::cast(trial.latency_ms) : nb::object(nb::none());
    told["speedup"] = built ? measured(trial.speedup) : nb::object(nb::none());
    told["drop"] = built ? nb::cast(trial.drop) : nb::object(nb::none());
    told["loss"] = built ? nb::cast(trial.loss) : nb::object(nb::none());
    told["feasible"] = trial.feasible;
    told["pareto"] = trial.pareto;
    told["chosen"] = trial.chosen;
    told["seconds"] = trial.seconds;
    return told;
}

nb::dict told_of(const TunedLayer& layer) {
    nb::dict told;
    told["node"] = layer.node;
    told["precision"] = layer.precision;
    told["damage"] = layer.damage;
    told["gain_ms"] = layer.gain_ms;
    return told;
}

nb::dict told_of(const TimedBeside& engine) {
    nb::dict told;
    told["name"] = engine.name;
    told["latency_ms"] = measured(engine.latency_ms);
    told["speedup"] = measured(engine.speedup);
    told["noisy"] = engine.noisy;
    return told;
}

nb::dict run(const nb::dict& options, nb::object reporter) {
    TuneRequest request = request_of(options);
    const TuneResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        request.tell = [&progress](std::string_view line) { progress.tell(line); };
        request.tried = [&progress](const TuneTrial& trial, bool best) {
            progress.tell(trial.phase + " " + trial.name + (trial.failed.empty() ? "" : ": " + trial.failed) +
                          (best ? ", the best so far" : ""));
        };
        return tune(request);
    });
    nb::dict told;
    told["good"] = result.good;
    told["text"] = result.text;
    told["reasons"] = result.reasons;
    told["engine_path"] = result.engine;
    told["chosen"] = result.chosen;
    told["metric"] = result.metric;
    told["drop_unit"] = result.drop_unit;
    told["loss_name"] = result.loss_name;
    told["drop"] = measured(result.drop);
    told["search_samples"] = result.search_samples;
    told["judged_samples"] = result.judged_samples;
    told["seconds"] = result.seconds;
    told["trials"] = list_of(result.trials, told_of);
    told["layers"] = list_of(result.layers, told_of);
    told["timed"] = list_of(result.timed, told_of);
    told["notices"] = result.notices;
    told["_document"] = result.document;
    return told;
}

} // namespace

void add_tune(nb::module_& module) { module.def("tune", &run, nb::arg("options"), nb::arg("reporter").none()); }

} // namespace lathe::python
