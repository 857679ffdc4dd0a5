#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lathe/bench.hpp"
#include "python/bindings.hpp"
#include "python/fields.hpp"
#include "python/measured.hpp"
#include "python/progress.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// The fields are those of lathe.bench in python/lathe/_bench.py.
BenchmarkRequest request_of(const nb::dict& options) {
    BenchmarkRequest request;
    request.engines = field(options, "engines", request.engines);
    request.against = field(options, "against", request.against);
    request.model = field(options, "model", request.model);
    request.source = field(options, "source", request.source);
    request.batch_sizes = field(options, "batch_sizes", request.batch_sizes);
    request.duration_s = field(options, "duration_s", request.duration_s);
    request.time_limit_s = field(options, "time_limit_s", request.time_limit_s);
    request.data = field(options, "data", request.data);
    request.columns = field(options, "columns", request.columns);
    request.preprocess = field(options, "preprocess", request.preprocess);
    request.samples = field(options, "samples", request.samples);
    request.program = field(options, "program", request.program);
    request.command_line = field(options, "command_line", request.command_line);
    return request;
}

nb::dict run(const nb::dict& options, nb::object reporter) {
    BenchmarkRequest request = request_of(options);
    const BenchmarkResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return benchmark(request);
    });
    nb::list rows;
    for (const BenchmarkRow& row : result.rows) {
        nb::dict told;
        told["name"] = row.name;
        told["kind"] = row.kind;
        told["precision"] = row.precision;
        told["batch"] = row.batch;
        told["latency_ms"] = measured(row.latency_ms);
        told["p99_ms"] = row.p99_ms;
        told["calls"] = row.calls;
        told["samples_per_second"] = row.samples_per_second;
        rows.append(told);
    }
    nb::list ratios;
    for (const BenchmarkRatio& ratio : result.ratios) {
        nb::dict told;
        told["name"] = ratio.name;
        told["reference"] = ratio.reference;
        told["batch"] = ratio.batch;
        told["speedup"] = measured(ratio.speedup);
        told["pairs"] = ratio.pairs;
        ratios.append(told);
    }
    nb::list gaps;
    for (const BenchmarkGap& gap : result.gaps) {
        nb::dict told;
        told["name"] = gap.name;
        told["batch"] = gap.batch;
        told["reason"] = gap.reason;
        told["cure"] = gap.cure;
        gaps.append(told);
    }
    nb::dict told;
    told["rows"] = rows;
    told["ratios"] = ratios;
    told["gaps"] = gaps;
    told["notes"] = result.notes;
    told["document"] = result.document;
    return told;
}

} // namespace

void add_bench(nb::module_& module) { module.def("bench", &run, nb::arg("options"), nb::arg("reporter").none()); }

} // namespace lathe::python
