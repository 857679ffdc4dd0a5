#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lathe/report.hpp"
#include "lathe/show.hpp"
#include "python/bindings.hpp"
#include "python/progress.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// (file, charts, verdict)
nb::tuple run(std::vector<std::filesystem::path> results, std::filesystem::path output, std::filesystem::path charts,
              std::string title, std::optional<double> max_drop, nb::object reporter) {
    ReportRequest request;
    request.results = std::move(results);
    request.output = std::move(output);
    request.charts = std::move(charts);
    request.title = std::move(title);
    request.max_drop = max_drop;
    request.command_line = "lathe.report";
    const ReportResult written = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return write_report(request);
    });
    return nb::make_tuple(written.output, written.charts, written.verdict);
}

/// (file, nodes, nodes with a time, nodes with reasons)
nb::tuple draw(std::filesystem::path model, std::filesystem::path output, std::vector<std::filesystem::path> results,
               nb::object reporter) {
    ShowRequest request{std::move(model), std::move(output), std::move(results)};
    const ShowResult shown = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return show(request);
    });
    return nb::make_tuple(shown.output, shown.nodes, shown.timed, shown.explained);
}

} // namespace

void add_report(nb::module_& module) {
    module.def("report", &run, nb::arg("results"), nb::arg("output"), nb::arg("charts"), nb::arg("title"),
               nb::arg("max_drop").none(), nb::arg("reporter").none());
    module.def("show", &draw, nb::arg("model"), nb::arg("output"), nb::arg("results"), nb::arg("reporter").none());
}

} // namespace lathe::python
