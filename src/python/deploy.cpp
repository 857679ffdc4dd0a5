#include "lathe/deploy.hpp"

#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/bindings.hpp"
#include "python/fields.hpp"
#include "python/progress.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

// The keys are the fields of lathe.deploy and of the classes in python/lathe/_deploy.py.

DeployRequest request_of(const nb::dict& options) {
    DeployRequest request;
    request.engines = field(options, "engines", request.engines);
    request.output = field(options, "output", request.output);
    request.names = field(options, "names", request.names);
    request.bench = field(options, "bench", request.bench);
    request.slo = field(options, "slo", request.slo);
    request.rate = field(options, "rate", request.rate);
    request.backend = field(options, "backend", request.backend);
    request.plan = field(options, "plan", request.plan);
    request.copy_backend = field(options, "copy_backend", request.copy_backend);
    request.max_queue = field(options, "max_queue", request.max_queue);
    request.pictures = field(options, "pictures", request.pictures);
    request.pixels = field(options, "pixels", request.pixels);
    request.texts = field(options, "texts", request.texts);
    request.generate = field(options, "generate", request.generate);
    request.prefill = field(options, "prefill", request.prefill);
    request.streams = field(options, "streams", request.streams);
    request.command_line = "lathe.deploy";
    if (!options.contains("cluster")) return request;
    const auto given = nb::cast<nb::dict>(options["cluster"]);
    ClusterRequest& cluster = request.cluster.emplace();
    cluster.image = field(given, "image", cluster.image);
    cluster.storage = field(given, "storage", cluster.storage);
    cluster.service = field(given, "service", cluster.service);
    cluster.least_servers = field(given, "least_servers", cluster.least_servers);
    cluster.most_servers = field(given, "most_servers", cluster.most_servers);
    cluster.queue_time_ms = field(given, "queue_time_ms", cluster.queue_time_ms);
    cluster.prometheus = field(given, "prometheus", cluster.prometheus);
    cluster.memory_mib = field(given, "memory_mib", cluster.memory_mib);
    return request;
}

nb::dict told_of(const DeployedModel& model) {
    nb::dict told;
    told["name"] = model.name;
    told["folder"] = model.folder;
    told["engine"] = model.engine;
    told["backend"] = model.backend;
    told["max_batch"] = model.max_batch;
    told["preferred_batches"] = model.preferred_batches;
    told["max_queue_delay_us"] = model.max_queue_delay_us;
    told["instances"] = model.instances;
    told["gpu"] = model.gpu;
    told["cores"] = model.cores;
    told["sized"] = model.sized;
    told["reason"] = model.reason;
    told["notices"] = model.notices;
    return told;
}

nb::dict run(const nb::dict& options, nb::object reporter) {
    DeployRequest request = request_of(options);
    const DeployResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return deploy(request);
    });
    nb::list models;
    for (const DeployedModel& model : result.models)
        models.append(told_of(model));
    nb::dict told;
    told["repository"] = result.repository;
    told["backend_directory"] =
        result.backend_directory.empty() ? nb::object(nb::none()) : nb::cast(result.backend_directory);
    told["models"] = models;
    told["manifests"] = result.manifests;
    told["_document"] = result.document;
    return told;
}

} // namespace

void add_deploy(nb::module_& module) { module.def("deploy", &run, nb::arg("options"), nb::arg("reporter").none()); }

} // namespace lathe::python
