#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lathe/autocast.hpp"
#include "python/bindings.hpp"
#include "python/fields.hpp"
#include "python/measured.hpp"
#include "python/model.hpp"
#include "python/progress.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

// The keys are the fields of lathe.autocast and of the classes in python/lathe/_autocast.py.

AutocastRequest request_of(const nb::dict& options) {
    AutocastRequest request;
    request.model = field(options, "model", request.model);
    request.output = field(options, "output", request.output);
    request.format = precision_named(field<std::string>(options, "to", "fp16"));
    request.data = field(options, "data", request.data);
    request.ranges = field(options, "ranges", request.ranges);
    request.columns = field(options, "columns", request.columns);
    request.samples = field(options, "samples", request.samples);
    request.threads = field(options, "threads", request.threads);
    request.preprocess = field(options, "preprocess", request.preprocess);
    request.force = field(options, "force", request.force);
    if (const auto io = field<std::string>(options, "io_types", "keep"); io != "keep")
        request.io_types = precision_named(io);
    request.headroom = field(options, "headroom", request.headroom);
    request.error_limit = field(options, "error_limit", request.error_limit);
    request.wide_sums = field(options, "wide_sums", request.wide_sums);
    request.open_size = field(options, "open_size", request.open_size);
    request.exclude = field(options, "exclude", request.exclude);
    return request;
}

nb::tuple bounds(const ShareBounds& share) { return nb::make_tuple(share.least, share.most); }

nb::dict told_of(const AutocastDecision& decision) {
    nb::dict told;
    told["node"] = decision.node;
    told["op"] = decision.op;
    told["cast"] = decision.cast;
    told["reason"] = decision.reason;
    told["explanation"] = decision.explanation;
    told["detail"] = decision.detail;
    told["absmax"] = decision.absmax;
    told["terms"] = nb::none();
    told["error_bound"] = nb::none();
    if (!decision.sum) return told;
    if (decision.sum->terms > 0) told["terms"] = decision.sum->terms;
    told["error_bound"] = decision.sum->error_bound;
    return told;
}

nb::dict told_of(const OverflowingTensor& tensor) {
    nb::dict told;
    told["tensor"] = tensor.tensor;
    told["constant"] = tensor.constant;
    told["absmax"] = tensor.absmax;
    told["share"] = bounds(tensor.share);
    return told;
}

nb::dict run(const nb::dict& options, nb::object reporter) {
    AutocastRequest request = request_of(options);
    AutocastResult result = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return autocast(request);
    });
    nb::dict told;
    told["model"] = nb::cast(HeldModel{std::move(result.model)});
    told["measured"] = result.measured;
    told["format"] = result.format;
    told["opset"] = result.opset;
    told["cast_nodes"] = result.cast_nodes;
    told["fp32_nodes"] = result.fp32_nodes;
    told["casts"] = result.casts;
    told["remarks"] = result.remarks;
    told["samples"] = result.samples;
    told["decisions"] = list_of(result.decisions, told_of);
    told["overflow"] = list_of(result.overflow, told_of);
    told["kept_ops"] = result.kept_ops;
    told["_document"] = result.document;
    return told;
}

} // namespace

void add_autocast(nb::module_& module) { module.def("autocast", &run, nb::arg("options"), nb::arg("reporter").none()); }

} // namespace lathe::python
