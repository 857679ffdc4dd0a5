#include <algorithm>
#include <chrono>

#include "bench/process.hpp"
#include "evaluate/counted.hpp"
#include "evaluate/fidelity.hpp"
#include "evaluate/figures.hpp"
#include "evaluate/run.hpp"
#include "runtime/engine.hpp"
#include "support/files.hpp"
#include "support/python.hpp"

namespace lathe {

namespace {

/// A metric may be slow; a hang must still end.
constexpr std::chrono::seconds judge_limit{1200};

/// The user's function in a process of its own.
class MetricProcess {
public:
    static Result<MetricProcess> start(const std::string& code, Progress& progress) {
        LATHE_TRY(const PythonPlace python, find_python());
        auto process = JsonProcess::start(python_command(python, "lathe_worker"), python_environment(python));
        if (!process) {
            Error error = std::move(process).error();
            error.hint = "install Python 3 with NumPy, or set LATHE_PYTHON to an interpreter that has it";
            return error;
        }
        LATHE_TRY(ScratchFolder scratch, ScratchFolder::create());
        auto loaded = (*process)->ask({{"command", "metric"}, {"code", code}}, judge_limit, progress);
        if (!loaded) return std::move(loaded).error();
        return MetricProcess(std::move(*process), std::move(scratch));
    }

    /// A number for each of the batch's samples.
    Result<std::vector<double>> judge(const std::vector<HostTensor>& outputs, const Batch& batch, Progress& progress) {
        const auto file = scratch_.path() / "outputs.bin";
        LATHE_TRY(AtomicFile out, AtomicFile::create(file));
        Json described = Json::array();
        for (const HostTensor& output : outputs) {
            LATHE_CHECK(out.write(std::span<const std::byte>(output.bytes)));
            described.push_back({{"name", output.name}, {"type", to_string(output.type)}, {"shape", output.shape}});
        }
        LATHE_CHECK(out.commit());
        Json samples = Json::array();
        for (std::size_t i = 0; i < batch.size(); ++i) {
            Json label = batch.labels[i] < 0 ? Json(nullptr) : Json(batch.labels[i]);
            if (!batch.scores.empty()) label = batch.scores[i];
            samples.push_back({{"name", batch.names[i]}, {"label", std::move(label)}});
        }
        LATHE_TRY(const Json answer, process_->ask({{"command", "judge"},
                                                    {"file", file.string()},
                                                    {"outputs", std::move(described)},
                                                    {"samples", std::move(samples)}},
                                                   judge_limit, progress));
        const auto values = answer.find("values");
        if (values == answer.end() || !values->is_array() || values->size() != batch.size() ||
            std::ranges::any_of(*values, [](const Json& value) { return !value.is_number(); })) {
            return Error{ErrorCode::internal, "the worker's answer is not a number a sample", "--task", ""};
        }
        return values->get<std::vector<double>>();
    }

private:
    MetricProcess(std::unique_ptr<JsonProcess> process, ScratchFolder scratch)
        : process_(std::move(process)), scratch_(std::move(scratch)) {}

    std::unique_ptr<JsonProcess> process_;
    ScratchFolder scratch_;
};

} // namespace

bool names_a_metric(std::string_view task) {
    const auto colon = task.rfind(':');
    return colon != std::string_view::npos && colon + 1 < task.size() && task.substr(0, colon).ends_with(".py");
}

Result<Json> evaluate_engines_by_metric(const EvalRequest& request, Progress& progress) {
    LATHE_TRY(MetricProcess metric, MetricProcess::start(request.task, progress));
    std::vector<std::unique_ptr<OutputsPredictor>> engines; // the reference first, if there is one
    std::optional<Preprocess> preprocess;
    const auto take = [&](const Engine& engine, const std::string& name) -> Result<void> {
        if (engines.empty() && !preprocess) {
            LATHE_TRY(preprocess, preprocess_for(request.preprocess, engine.info()));
        }
        std::vector<std::string> outputs;
        for (const IoInfo& output : engine.info().outputs)
            if (request.output_name.empty() || output.name == request.output_name) outputs.push_back(output.name);
        if (outputs.empty()) outputs = {request.output_name}; // which is an error that lists those there are
        LATHE_TRY(auto predictor, make_outputs_predictor(engine, name, outputs,
                                                         request.preprocess_on_device ? preprocess : std::nullopt,
                                                         OutputsHold::numbers));
        engines.push_back(std::move(predictor));
        return {};
    };
    LATHE_TRY(const LoadedEngines loaded, load_engines(request, take, progress));
    DatasetOptions opening;
    opening.samples = request.samples;
    opening.pictures = request.preprocess_on_device;
    opening.text.columns = request.columns;
    opening.text.make_tokenizer = request.make_tokenizer;
    LATHE_TRY(const auto data, open_dataset(request.data, preprocess, loaded.first, opening));

    CountedEvaluation evaluation;
    evaluation.labelled = true;
    evaluation.has_reference = !request.reference.empty();
    for (const auto& engine : engines)
        evaluation.subjects.push_back({engine->name(), engine->precision(), 0, {}, {}});
    progress.begin("evaluate", data->size());
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data->next(request.options.batch_size));
        if (!batch || batch->size() == 0) break;
        evaluation.samples.insert(evaluation.samples.end(), batch->names.begin(), batch->names.end());
        for (std::size_t s = 0; s < engines.size(); ++s) {
            auto outputs = engines[s]->predict_all(*batch);
            if (!outputs) return std::move(outputs).error().in(engines[s]->name());
            auto values = metric.judge(*outputs, *batch, progress);
            if (!values) return std::move(values).error().in(request.task);
            for (const double value : *values)
                evaluation.subjects[s].truth.add({value, 1});
            for (std::size_t i = 0; i < batch->size(); ++i)
                if (!all_outputs_finite(*outputs, i, batch->size())) ++evaluation.subjects[s].nonfinite;
        }
        progress.advance(batch->size());
    }
    progress.end();
    if (evaluation.samples.empty())
        return Error{ErrorCode::invalid_argument, "the data holds no sample", request.data.string(), ""};
    LATHE_TRY(const std::string digest, data->digest());
    Json json = eval_document(request, loaded.libraries, digest, evaluation.samples.size());
    json["task"] = request.task;
    const std::vector<CountedFigure> figures{{"score", [](std::span<const double> sums) { return sums[0] / sums[1]; }}};
    json["subjects"] = to_json(evaluation, figures, 0, request.counted.resamples);
    const std::string name = request.task.substr(request.task.rfind(':') + 1);
    describe_figures(
        json, {name.c_str(), "score"}, request.task + " on " + std::to_string(evaluation.samples.size()) + " samples",
        {{"mean", "score", FigureFormat::number, 4}}, {{"change", "score_delta", FigureFormat::number, 4}});
    return json;
}

} // namespace lathe
