#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/model_data.hpp"
#include "lathe/calibrate.hpp"
#include "lathe/data.hpp"
#include "lathe/engine.hpp"
#include "lathe/evaluate.hpp"
#include "lathe/model.hpp"
#include "lathe/quantize.hpp"
#include "lathe/simplify.hpp"
#include "python/arrays.hpp"
#include "python/bindings.hpp"
#include "python/measured.hpp"
#include "python/model.hpp"
#include "python/progress.hpp"

namespace nb = nanobind;

namespace lathe::python {

Data data_of(nb::handle data, const std::optional<std::vector<std::int64_t>>& labels, const std::string& columns) {
    Data given = [&] {
        if (!nb::isinstance<nb::dict>(data)) return Data(nb::cast<std::filesystem::path>(data));
        std::vector<HostTensor> arrays;
        for (const auto& [name, array] : nb::borrow<nb::dict>(data))
            arrays.push_back(tensor_of(array, nb::cast<std::string>(name)));
        return Data(std::move(arrays), labels.value_or(std::vector<std::int64_t>()));
    }();
    given.columns = columns;
    return given;
}

namespace {

HeldModel load(const std::filesystem::path& path) {
    const nb::gil_scoped_release release;
    return {value_of(load_model(path))};
}

void save(const HeldModel& held, const std::filesystem::path& path) {
    const nb::gil_scoped_release release;
    value_of(save_model(*held.model, path));
}

std::vector<std::string> input_names(const HeldModel& held) {
    std::vector<std::string> names;
    for (const InputSpec& input : input_specs(*held.model))
        names.push_back(input.name);
    return names;
}

nb::dict simplify_file(const std::filesystem::path& path, std::vector<std::string> disabled, std::string device,
                       std::size_t samples, std::uint64_t seed, double tolerance, nb::object reporter) {
    HeldModel held = load(path);
    SimplifyRequest request;
    request.disabled = std::move(disabled);
    request.device = std::move(device);
    request.samples = samples;
    request.seed = seed;
    request.tolerance = tolerance;
    const SimplifyReport report = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return simplify(*held.model, request);
    });
    nb::dict passes;
    for (const PassCount& pass : report.passes)
        passes[pass.name.c_str()] = pass.changes;
    nb::dict told;
    told["model"] = nb::cast(std::move(held));
    told["before_nodes"] = report.before_nodes;
    told["after_nodes"] = report.after_nodes;
    told["passes"] = passes;
    told["max_error"] = report.max_error;
    told["warnings"] = report.warnings;
    return told;
}

Calibration calibrate(const HeldModel& held, nb::handle data, const std::string& columns, std::size_t samples,
                      bool until_settled, const std::string& method, double percentile, std::size_t threads,
                      const std::string& preprocess, nb::object reporter) {
    Data given = data_of(data, std::nullopt, columns);
    CalibrationOptions options;
    options.samples = samples;
    options.until_settled = until_settled;
    options.method = value_of(method_from_name(method));
    options.percentile = percentile;
    options.threads = threads;
    options.preprocess = preprocess;
    return with_progress(std::move(reporter), [&](PythonProgress& progress) {
        options.progress = &progress;
        return Calibration::run(*held.model, std::move(given), options);
    });
}

nb::list tensors(const Calibration& calibration) {
    nb::list rows;
    for (const CalibratedTensor& tensor : calibration.tensors()) {
        nb::dict row;
        row["name"] = tensor.name;
        row["min"] = tensor.min;
        row["max"] = tensor.max;
        row["low"] = tensor.low;
        row["high"] = tensor.high;
        row["clipped_fraction"] = tensor.clipped_fraction;
        row["sqnr_db"] = tensor.sqnr_db;
        rows.append(row);
    }
    return rows;
}

nb::list findings(const Calibration& calibration) {
    nb::list rows;
    for (const CalibrationFinding& finding : calibration.findings()) {
        nb::dict row;
        row["name"] = finding.name;
        row["tensor"] = finding.tensor;
        row["detail"] = finding.detail;
        row["severity"] = to_string(finding.severity);
        rows.append(row);
    }
    return rows;
}

nb::dict quantize_model(const HeldModel& held, const Calibration& calibration, const std::string& target,
                        std::vector<std::string> exclude, int effort, const std::string& noisy_layers, nb::handle data,
                        const std::string& columns, const std::string& preprocess, std::size_t threads,
                        nb::object reporter) {
    QuantizeRequest request;
    request.target = value_of(target_from_name(target));
    request.exclude = std::move(exclude);
    request.effort = effort;
    request.noisy_in_float = noisy_in_float_named(noisy_layers);
    request.preprocess = preprocess;
    request.threads = threads;
    if (!data.is_none()) request.data = data_of(data, std::nullopt, columns);
    QuantizedModel quantized = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        request.progress = &progress;
        return quantize(*held.model, calibration, request);
    });
    nb::list decisions;
    for (const QuantizeDecision& decision : quantized.plan.decisions) {
        nb::dict row;
        row["node"] = decision.node;
        row["op_type"] = decision.op_type;
        row["tensor"] = decision.tensor;
        row["quantized"] = decision.quantized;
        row["reason"] = decision.reason;
        row["explanation"] = decision.explanation;
        row["detail"] = decision.detail;
        decisions.append(row);
    }
    nb::list corrections;
    for (const QuantizeCorrection& each : quantized.corrections) {
        nb::dict row;
        row["method"] = each.method;
        row["kept"] = each.kept;
        row["detail"] = each.detail;
        row["sqnr_db_before"] = each.sqnr_db_before;
        row["sqnr_db_after"] = each.sqnr_db_after;
        row["seconds"] = each.seconds;
        corrections.append(row);
    }
    nb::dict told;
    told["model"] = nb::cast(HeldModel{std::move(quantized.model)});
    told["quantized_nodes"] = quantized.plan.quantized_nodes;
    told["heavy_nodes"] = quantized.plan.heavy_nodes;
    told["remarks"] = quantized.plan.remarks;
    told["decisions"] = decisions;
    told["corrections"] = corrections;
    return told;
}

Engine build(const HeldModel& held, const std::string& name, const std::string& device, const std::string& precision,
             const std::vector<std::string>& shapes, std::size_t threads, nb::object reporter) {
    BuildOptions options;
    options.name = name;
    options.device = device;
    options.threads = threads;
    if (!precision.empty()) options.precision = precision_named(precision);
    for (const std::string& text : shapes)
        options.shapes.insert(value_of(parse_shape_range(text)));
    return with_progress(std::move(reporter), [&](PythonProgress& progress) {
        options.progress = &progress;
        return Engine::build(*held.model, options);
    });
}

EngineEvaluationOptions evaluation(std::size_t samples, const std::string& preprocess) {
    EngineEvaluationOptions options;
    options.samples = samples;
    options.preprocess = preprocess;
    return options;
}

nb::dict scores_of(const EngineScores& scores) {
    nb::dict told;
    told["name"] = scores.name;
    told["precision"] = scores.precision;
    told["samples"] = scores.samples;
    told["nonfinite"] = scores.nonfinite;
    told["top1"] = measured(scores.top1);
    told["top5"] = measured(scores.top5);
    return told;
}

nb::dict evaluate(const Engine& engine, nb::handle data, const std::optional<std::vector<std::int64_t>>& labels,
                  const std::string& columns, std::size_t samples, const std::string& preprocess, nb::object reporter) {
    Data given = data_of(data, labels, columns);
    EngineEvaluationOptions options = evaluation(samples, preprocess);
    return scores_of(with_progress(std::move(reporter), [&](PythonProgress& progress) {
        options.progress = &progress;
        return evaluate_engine(engine, std::move(given), options);
    }));
}

nb::dict compare(const Engine& reference, const Engine& subject, nb::handle data,
                 const std::optional<std::vector<std::int64_t>>& labels, const std::string& columns,
                 std::size_t samples, const std::string& preprocess, nb::object reporter) {
    Data given = data_of(data, labels, columns);
    EngineEvaluationOptions options = evaluation(samples, preprocess);
    const EngineComparison comparison = with_progress(std::move(reporter), [&](PythonProgress& progress) {
        options.progress = &progress;
        return compare_engines(reference, subject, std::move(given), options);
    });
    nb::dict told;
    told["reference"] = scores_of(comparison.reference);
    told["subject"] = scores_of(comparison.subject);
    told["agreement"] = measured(comparison.agreement);
    told["mean_kl"] = comparison.mean_kl;
    told["sqnr_db"] = comparison.sqnr_db;
    told["cosine"] = comparison.cosine;
    told["max_abs_error"] = comparison.max_abs_error;
    told["top1_change"] = measured(comparison.top1_delta);
    told["p_value"] = comparison.p_value;
    return told;
}

nb::object images(const std::vector<std::filesystem::path>& files, const std::string& preprocess) {
    HostTensor loaded = [&] {
        const nb::gil_scoped_release release;
        return value_of(load_images(files, preprocess));
    }();
    return to_numpy(loaded.view());
}

} // namespace

void add_model(nb::module_& module) {
    nb::class_<HeldModel>(module, "Model")
        .def("save", &save, nb::arg("path"))
        .def("inputs", &input_names)
        .def("preprocess", [](const HeldModel& held) { return preprocess_json(*held.model); });
    nb::class_<Calibration>(module, "Calibration")
        .def_static("load", [](const std::filesystem::path& path) { return value_of(Calibration::load(path)); })
        .def("save", [](const Calibration& self, const std::filesystem::path& path) { value_of(self.save(path)); })
        .def("method", [](const Calibration& self) { return std::string(to_string(self.method())); })
        .def("samples", &Calibration::samples)
        .def("tensors", &tensors)
        .def("findings", &findings);
    module.def("load_model", &load);
    module.def("simplify", &simplify_file);
    module.def("calibrate", &calibrate);
    module.def("quantize", &quantize_model, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
               nb::arg("data").none(), nb::arg(), nb::arg(), nb::arg(), nb::arg("reporter").none());
    module.def("build", &build);
    module.def("evaluate", &evaluate);
    module.def("compare", &compare);
    module.def("load_images", &images);
}

} // namespace lathe::python
