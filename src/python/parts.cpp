#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "data/open_dataset.hpp"
#include "lathe/engine.hpp"
#include "lathe/evaluate.hpp"
#include "lathe/shared_calibration.hpp"
#include "python/arrays.hpp"
#include "python/bindings.hpp"
#include "python/errors.hpp"
#include "python/measured.hpp"
#include "python/model.hpp"

namespace nb = nanobind;

// What lathe/ray.py is made of: parts of the work for several machines, and putting them together.
namespace lathe::python {
namespace {

using Labels = std::optional<std::vector<std::int64_t>>;

SampleSpan span_of(const nb::tuple& span) { return {nb::cast<std::size_t>(span[0]), nb::cast<std::size_t>(span[1])}; }

CalibrationOptions calibration_options(std::size_t samples, bool until_settled, const std::string& method,
                                       double percentile, std::size_t threads, const std::string& preprocess) {
    CalibrationOptions options;
    options.samples = samples;
    options.until_settled = until_settled;
    options.method = value_of(method_from_name(method));
    options.percentile = percentile;
    options.threads = threads;
    options.preprocess = preprocess;
    return options;
}

SharedCalibration start(const HeldModel& held, nb::handle data, const std::string& columns, std::size_t samples,
                        bool until_settled, const std::string& method, double percentile, std::size_t threads,
                        const std::string& preprocess) {
    Data given = data_of(data, std::nullopt, columns);
    const CalibrationOptions options =
        calibration_options(samples, until_settled, method, percentile, threads, preprocess);
    const nb::gil_scoped_release release;
    return value_of(SharedCalibration::start(*held.model, std::move(given), options));
}

nb::object wanted(const SharedCalibration& shared) {
    const auto span = shared.wanted();
    if (!span) return nb::none();
    return nb::make_tuple(span->first, span->count);
}

void add_part(SharedCalibration& shared, const nb::bytes& text) {
    const std::string_view given(text.c_str(), text.size());
    const nb::gil_scoped_release release;
    value_of(shared.add(value_of(CalibrationPart::parse(given))));
}

/// A worker with the model that it must not outlive.
class HeldWorker {
public:
    HeldWorker(const HeldModel& held, std::size_t samples, bool until_settled, std::size_t threads,
               const std::string& preprocess)
        : model_(held.model), worker_([&] {
              const CalibrationOptions options =
                  calibration_options(samples, until_settled, "mse", 100, threads, preprocess);
              const nb::gil_scoped_release release;
              return value_of(CalibrationWorker::start(*model_, options));
          }()) {}

    nb::bytes run(nb::handle data, const std::string& columns, const nb::tuple& span) {
        Data given = data_of(data, std::nullopt, columns);
        const SampleSpan samples = span_of(span);
        const std::string text = [&] {
            const nb::gil_scoped_release release;
            return value_of(worker_.run(std::move(given), samples)).text();
        }();
        return nb::bytes(text.data(), text.size());
    }

private:
    std::shared_ptr<Model> model_;
    CalibrationWorker worker_;
};

EngineEvaluationOptions evaluation(std::size_t samples, const std::string& preprocess, nb::handle span) {
    EngineEvaluationOptions options;
    options.samples = samples;
    options.preprocess = preprocess;
    if (!span.is_none()) options.part = span_of(nb::cast<nb::tuple>(span));
    return options;
}

nb::tuple evaluate_part(const Engine& engine, nb::handle data, const Labels& labels, const std::string& columns,
                        std::size_t samples, const std::string& preprocess, nb::handle span) {
    Data given = data_of(data, labels, columns);
    const EngineEvaluationOptions options = evaluation(samples, preprocess, span);
    const EngineScores scores = [&] {
        const nb::gil_scoped_release release;
        return value_of(evaluate_engine(engine, std::move(given), options));
    }();
    return nb::make_tuple(scores.name, scores.precision, scores.samples, scores.nonfinite, scores.labelled,
                          scores.top1_right, scores.top5_right);
}

/// Of what evaluate_part gave.
nb::dict merge(const nb::list& parts) {
    std::vector<EngineScores> all;
    for (const nb::handle part : parts) {
        EngineScores& scores = all.emplace_back();
        const auto row = nb::cast<nb::tuple>(part);
        scores.name = nb::cast<std::string>(row[0]);
        scores.precision = nb::cast<std::string>(row[1]);
        std::size_t index = 2;
        for (std::size_t* count :
             {&scores.samples, &scores.nonfinite, &scores.labelled, &scores.top1_right, &scores.top5_right})
            *count = nb::cast<std::size_t>(row[index++]);
    }
    const EngineScores scores = value_of(merge_scores(all));
    nb::dict told;
    told["name"] = scores.name;
    told["precision"] = scores.precision;
    told["samples"] = scores.samples;
    told["nonfinite"] = scores.nonfinite;
    told["top1"] = measured(scores.top1);
    told["top5"] = measured(scores.top5);
    return told;
}

std::size_t count(const Engine& engine, nb::handle data, const std::string& columns, std::size_t samples,
                  const std::string& preprocess) {
    Data given = data_of(data, std::nullopt, columns);
    const EngineEvaluationOptions options = evaluation(samples, preprocess, nb::none());
    const nb::gil_scoped_release release;
    return value_of(count_samples(engine, std::move(given), options));
}

/// (names, {input: array}).
nb::tuple read(const Engine& engine, nb::handle data, const std::string& columns, std::size_t samples,
               const std::string& preprocess, nb::handle span) {
    Data given = data_of(data, std::nullopt, columns);
    const EngineEvaluationOptions options = evaluation(samples, preprocess, span);
    EngineSamples found = [&] {
        const nb::gil_scoped_release release;
        return value_of(read_samples(engine, std::move(given), options));
    }();
    nb::dict inputs;
    for (HostTensor& tensor : found.inputs)
        inputs[tensor.name.c_str()] = to_numpy(tensor.view());
    return nb::make_tuple(found.names, inputs);
}

} // namespace

void add_parts(nb::module_& module) {
    nb::class_<SharedCalibration>(module, "SharedCalibration")
        .def_static("start", &start)
        .def("wanted", &wanted)
        .def("granularity", &SharedCalibration::granularity)
        .def("samples",
             [](const SharedCalibration& self, const nb::tuple& span) { return self.samples(span_of(span)); })
        .def("add", &add_part)
        .def("finish", [](SharedCalibration& self) { return value_of(self.finish()); });
    nb::class_<HeldWorker>(module, "CalibrationWorker")
        .def(nb::init<const HeldModel&, std::size_t, bool, std::size_t, const std::string&>())
        .def("run", &HeldWorker::run);
    module.def("evaluate_part", &evaluate_part, nb::arg(), nb::arg(), nb::arg("labels").none(), nb::arg(), nb::arg(),
               nb::arg(), nb::arg("span").none());
    module.def("merge_scores", &merge);
    module.def("count_samples", &count);
    module.def("read_samples", &read, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg("span").none());
    module.def("choose_samples",
               [](std::size_t total, std::size_t samples) { return choose_samples(total, samples, std::nullopt); });
}

} // namespace lathe::python
