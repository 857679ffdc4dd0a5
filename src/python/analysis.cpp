#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lathe/compare.hpp"
#include "lathe/inspect.hpp"
#include "lathe/plan.hpp"
#include "lathe/sensitivity.hpp"
#include "python/bindings.hpp"
#include "python/fields.hpp"
#include "python/prepared.hpp"
#include "python/progress.hpp"
#include "python/task.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

// The keys are the fields of the classes in python/lathe/_analysis.py and _sensitivity.py.

nb::dict told_of(const PlannedConfiguration& found) {
    nb::dict told;
    told["max_batch"] = found.max_batch;
    told["max_wait_ms"] = found.max_wait_ms;
    told["instances"] = found.instances;
    told["machines"] = found.machines;
    told["slo_ms"] = found.slo_ms;
    told["utilisation"] = found.utilisation;
    return told;
}

nb::dict told_of(const PlannedStage& stage) {
    nb::dict told;
    told["name"] = stage.name;
    told["mean_ms"] = stage.mean_ms;
    told["median_ms"] = stage.median_ms;
    told["p99_ms"] = stage.p99_ms;
    told["at_slo_ms"] = stage.at_slo_ms;
    return told;
}

nb::dict told_of(const ComparedValue& value) {
    nb::dict told;
    told["name"] = value.name;
    told["node_first"] = value.node_first;
    told["op_first"] = value.op_first;
    told["node_second"] = value.node_second;
    told["op_second"] = value.op_second;
    told["output"] = value.output;
    told["shape"] = nb::tuple(nb::cast(value.shape));
    told["max_abs"] = value.max_abs;
    told["max_rel"] = value.max_rel;
    told["sqnr_db"] = value.sqnr_db;
    told["cosine"] = value.cosine;
    told["agreement"] = value.agreement;
    told["problem"] = value.problem;
    told["past"] = value.past;
    return told;
}

nb::dict told_of(const SensitiveLayer& layer) {
    nb::dict told;
    told["node"] = layer.node;
    told["op"] = layer.op;
    told["role"] = layer.role;
    told["reason"] = layer.reason;
    told["macs"] = layer.macs;
    told["sqnr_db"] = layer.sqnr_db;
    told["mean_kl"] = layer.mean_kl;
    told["agreement"] = layer.agreement;
    told["top1_delta"] = layer.top1_delta;
    told["task_delta"] = layer.task_delta;
    told["task_agreement"] = layer.task_agreement;
    told["damage_share"] = layer.damage_share;
    told["macs_share"] = layer.macs_share;
    return told;
}

nb::dict told_of(const DescribedValue& value) {
    nb::dict told;
    told["name"] = value.name;
    told["dtype"] = to_string(value.type);
    told["shape"] = value.shape ? nb::object(nb::tuple(nb::cast(*value.shape))) : nb::none();
    return told;
}

nb::dict told_of(const DescribedLayer& layer);
nb::dict told_of(const PricedKind& kind);

nb::dict told_of(const DescribedLayer& layer) {
    nb::dict told;
    told["name"] = layer.name;
    told["op"] = layer.op;
    told["inputs"] = list_of(layer.inputs, told_of);
    told["outputs"] = list_of(layer.outputs, told_of);
    told["macs"] = layer.macs;
    told["parameters"] = layer.parameters;
    told["precision"] = layer.precision;
    return told;
}

PlanRequest plan_request(const nb::dict& options) {
    PlanRequest request;
    request.bench = field(options, "bench", request.bench);
    request.slo = field(options, "slo", request.slo);
    request.rate = field(options, "rate", request.rate);
    request.trace = field(options, "trace", request.trace);
    request.subject = field(options, "subject", request.subject);
    request.served = field(options, "served", request.served);
    request.stages = field(options, "stages", request.stages);
    request.batch_sizes = field(options, "batch_sizes", request.batch_sizes);
    request.max_wait = field(options, "max_wait", request.max_wait);
    request.instances = field(options, "instances", request.instances);
    request.machines = field(options, "machines", request.machines);
    request.max_utilisation = field(options, "max_utilisation", request.max_utilisation);
    return request;
}

nb::dict run_plan(const nb::dict& options, nb::object reporter) {
    PlanRequest request = plan_request(options);
    const PlanResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return plan(request);
    });
    nb::dict told;
    told["meets"] = result.meets;
    told["choice"] = told_of(result.choice);
    told["mean_ms"] = result.mean_ms;
    told["median_ms"] = result.median_ms;
    told["p99_ms"] = result.p99_ms;
    told["mean_batch"] = result.mean_batch;
    told["machine_capacity"] = result.machine_capacity;
    told["without_one_ms"] = result.without_one_ms;
    told["floor_ms"] = result.floor_ms;
    told["stages"] = list_of(result.stages, told_of);
    told["by_batch"] = list_of(result.by_batch, told_of);
    told["not_measured"] = result.not_measured;
    told["warnings"] = result.warnings;
    told["_document"] = result.document;
    return told;
}

nb::dict told_of(const LoadLatency& latency) {
    nb::dict told;
    told["mean_ms"] = latency.mean_ms;
    told["median_ms"] = latency.median_ms;
    told["p90_ms"] = latency.p90_ms;
    told["p99_ms"] = latency.p99_ms;
    told["mean_batch"] = latency.mean_batch;
    return told;
}

nb::dict told_of(const PlanTrial& trial) {
    nb::dict told;
    told["requests"] = trial.requests;
    told["seconds"] = trial.seconds;
    told["predicted"] = told_of(trial.predicted);
    told["measured"] = told_of(trial.measured);
    told["sender_late_p99_ms"] = trial.sender_late_p99_ms;
    return told;
}

nb::dict run_try_plan(const nb::dict& options, const std::filesystem::path& engine, double seconds,
                      nb::object reporter) {
    PlanRequest request = plan_request(options);
    PlannedConfiguration choice;
    choice.max_batch = nb::cast<std::int64_t>(options["choice_max_batch"]);
    choice.max_wait_ms = nb::cast<double>(options["choice_max_wait_ms"]);
    choice.instances = nb::cast<std::size_t>(options["choice_instances"]);
    choice.machines = nb::cast<std::size_t>(options["choice_machines"]);
    const PlanTrials trials = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return try_plan(request, choice, engine, seconds);
    });
    nb::dict told;
    told["rate"] = trials.rate;
    told["from_bench"] = told_of(trials.from_bench);
    told["from_load"] = told_of(trials.from_load);
    told["_document"] = trials.document;
    return told;
}

nb::object told_of(const std::optional<PricedMix>& mix) {
    if (!mix) return nb::none();
    nb::dict told;
    told["counts"] = mix->counts;
    told["per_hour"] = mix->per_hour;
    told["slo_ms"] = mix->slo_ms;
    told["of_held"] = mix->of_held;
    told["failing"] = mix->failing;
    told["without_one_ms"] = mix->without_one_ms;
    return told;
}

nb::dict told_of(const PricedKind& kind) {
    nb::dict told;
    told["name"] = kind.name;
    told["per_hour"] = kind.per_hour;
    told["rate_each"] = kind.rate_each;
    told["choice"] = kind.choice ? nb::object(told_of(*kind.choice)) : nb::none();
    told["alone"] = kind.alone;
    told["alone_per_hour"] = kind.alone_per_hour;
    return told;
}

nb::dict run_plan_prices(const nb::dict& options, nb::object reporter) {
    PricePlanRequest request;
    request.prices = field(options, "prices", request.prices);
    request.slo = field(options, "slo", request.slo);
    request.rate = field(options, "rate", request.rate);
    request.stages = field(options, "stages", request.stages);
    request.batch_sizes = field(options, "batch_sizes", request.batch_sizes);
    request.max_wait = field(options, "max_wait", request.max_wait);
    request.instances = field(options, "instances", request.instances);
    request.max_utilisation = field(options, "max_utilisation", request.max_utilisation);
    const PricePlanResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return plan_prices(request);
    });
    nb::dict told;
    told["currency"] = result.currency;
    told["rate"] = result.rate;
    told["kinds"] = list_of(result.kinds, told_of);
    told["cheapest"] = told_of(result.cheapest);
    told["with_spare"] = told_of(result.with_spare);
    told["_document"] = result.document;
    return told;
}

nb::dict run_compare_models(const nb::dict& options, nb::object reporter) {
    CompareModelsRequest request;
    request.first = field(options, "first", request.first);
    request.second = field(options, "second", request.second);
    request.against = field(options, "against", request.against);
    request.data = field(options, "data", request.data);
    request.shapes = field(options, "shapes", request.shapes);
    request.seed = field(options, "seed", request.seed);
    request.rtol = field(options, "rtol", request.rtol);
    request.atol = field(options, "atol", request.atol);
    request.min_sqnr_db = field(options, "min_sqnr_db", request.min_sqnr_db);
    request.outputs_only = field(options, "outputs_only", request.outputs_only);
    request.threads = field(options, "threads", request.threads);
    const CompareModelsResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return compare_models(request);
    });
    nb::dict told;
    told["values"] = list_of(result.values, told_of);
    told["first_past"] = result.first_past;
    told["_document"] = result.document;
    return told;
}

nb::dict run_sensitivity(const nb::dict& options, nb::object reporter) {
    SensitivityRequest request;
    read_prepared(options, request);
    request.metric = field(options, "metric", request.metric);
    request.target = field(options, "target", request.target);
    request.batch_size = field(options, "batch_size", request.batch_size);
    request.output_name = field(options, "output_name", request.output_name);
    request.task = task_of(field(options, "task", nb::dict()));
    request.output = field(options, "output", request.output);
    request.force = field(options, "force", request.force);
    request.command_line = "lathe.sensitivity";
    const SensitivityResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return sensitivity(request);
    });
    nb::dict told;
    told["layers"] = list_of(result.layers, told_of);
    told["outstanding"] = result.outstanding;
    told["advice"] = result.advice;
    told["notices"] = result.notices;
    told["samples"] = result.samples;
    told["resumed_samples"] = result.resumed_samples;
    told["seconds"] = result.seconds;
    told["_document"] = result.document;
    return told;
}

nb::dict run_inspect(const std::filesystem::path& model) {
    const InspectResult result = [&] {
        const nb::gil_scoped_release release;
        return value_of(inspect(model));
    }();
    nb::dict told;
    told["name"] = result.name;
    told["producer"] = result.producer;
    told["opsets"] = result.opsets;
    told["inputs"] = list_of(result.inputs, told_of);
    told["outputs"] = list_of(result.outputs, told_of);
    told["operators"] = result.operators;
    told["parameters"] = result.parameters;
    told["macs"] = result.macs;
    told["assumed_dimensions"] = result.assumed_dimensions;
    told["unknown_layers"] = result.unknown_layers;
    told["weight_bytes"] = result.weight_bytes;
    told["activation_bytes"] = result.activation_bytes;
    told["peak_activation_bytes"] = result.peak_activation_bytes;
    told["layers"] = list_of(result.layers, told_of);
    told["metadata"] = result.metadata;
    told["nonfinite_weights"] = result.nonfinite_weights;
    told["_document"] = result.document;
    return told;
}

} // namespace

void add_analysis(nb::module_& module) {
    module.def("plan", &run_plan, nb::arg("options"), nb::arg("reporter").none());
    module.def("try_plan", &run_try_plan, nb::arg("options"), nb::arg("engine"), nb::arg("seconds"),
               nb::arg("reporter").none());
    module.def("plan_prices", &run_plan_prices, nb::arg("options"), nb::arg("reporter").none());
    module.def("compare_models", &run_compare_models, nb::arg("options"), nb::arg("reporter").none());
    module.def("sensitivity", &run_sensitivity, nb::arg("options"), nb::arg("reporter").none());
    module.def("inspect", &run_inspect, nb::arg("model"));
}

} // namespace lathe::python
