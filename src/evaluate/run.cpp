#include "evaluate/run.hpp"

#include <algorithm>

#include "evaluate/engine_predictor.hpp"
#include "evaluate/similarity.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"
#include "support/log.hpp"
#include "support/machine.hpp"

namespace lathe {

std::string unique_name(const std::string& wanted, std::set<std::string>& taken) {
    std::string name = wanted;
    for (int number = 2; !taken.insert(name).second; ++number)
        name = wanted + "-" + std::to_string(number);
    return name;
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code failed;
    return std::filesystem::equivalent(a, b, failed) && !failed;
}

Json eval_document(const EvalRequest& request, const Json& libraries, const std::string& digest, std::size_t samples) {
    return {{"kind", "eval"},
            {"version", 1},
            {"machine", to_json(this_machine())},
            {"command", request.command_line},
            {"time", utc_now()},
            {"libraries", libraries},
            {"data", {{"path", request.data.string()}, {"digest", digest}, {"samples", samples}}}};
}

std::vector<InputSpec> input_specs(const EngineInfo& engine) {
    std::vector<InputSpec> specs;
    for (const IoInfo& input : engine.inputs) {
        Shape shape = input.range.opt;
        if (!shape.empty()) shape[0] = -1;
        const bool tokens = !engine.tokenizer.empty() && shape.size() == 2;
        if (tokens && input.range.min[1] != input.range.max[1]) shape[1] = -1;
        specs.push_back({input.name, input.type, std::move(shape)});
    }
    return specs;
}

bool gives_embeddings(const EngineInfo& engine) {
    if (engine.tokenizer.empty()) return false;
    const auto json = parse_json(engine.tokenizer, "the engine's tokenizer");
    return json && json->is_object() && json->value("pairs", Json()) == "separate";
}

DatasetOptions with_lengths(DatasetOptions options, const EngineInfo& engine) {
    TextOptions& text = options.text;
    text.tokenizer = engine.tokenizer;
    for (const IoInfo& input : engine.inputs) {
        if (input.range.max.size() != 2) continue;
        text.min_length = std::max(text.min_length, static_cast<std::size_t>(input.range.min[1]));
        const auto most = static_cast<std::size_t>(input.range.max[1]);
        text.max_length = text.max_length == 0 ? most : std::min(text.max_length, most);
    }
    return options;
}

Result<std::optional<Preprocess>> preprocess_of(const EngineInfo& engine) {
    if (engine.preprocess.empty()) return std::optional<Preprocess>();
    LATHE_TRY(const Json json, parse_json(engine.preprocess, "the engine's preprocessing"));
    LATHE_TRY(const Preprocess preprocess, Preprocess::from_json(json, "the engine's preprocessing"));
    return std::optional<Preprocess>(preprocess);
}

Result<std::unique_ptr<Dataset>> open_dataset(const std::filesystem::path& path, std::optional<Preprocess> preprocess,
                                              const EngineInfo& engine, const DatasetOptions& options) {
    if (!preprocess) {
        LATHE_TRY(preprocess, preprocess_of(engine));
    }
    return open_dataset(path, preprocess, input_specs(engine), with_lengths(options, engine));
}

Result<Json> evaluate_engines(const EvalRequest& request, Progress& progress) {
    if (request.task == EvalTask::squad) return evaluate_squad_engines(request, progress);
    std::set<std::string> taken;
    std::vector<std::unique_ptr<Predictor>> owned;
    std::vector<Predictor*> subjects;
    std::optional<EngineInfo> first;
    Json libraries = Json::object();
    const auto open = [&](const std::filesystem::path& file) -> Result<Predictor*> {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const Engine engine, Engine::load(file));
        if (!first) first = engine.info();
        libraries[engine.info().backend] = engine.info().library_version;
        std::optional<Preprocess> on_device;
        if (request.preprocess_on_device) {
            on_device = request.preprocess;
            if (!on_device) {
                LATHE_TRY(on_device, preprocess_of(*first));
            }
        }
        auto predictor =
            make_engine_predictor(engine, unique_name(file.stem().string(), taken), request.output_name, on_device);
        if (!predictor) return std::move(predictor).error().in(file.string());
        owned.push_back(std::move(*predictor));
        return owned.back().get();
    };
    Predictor* reference = nullptr;
    if (!request.reference.empty()) {
        LATHE_TRY(reference, open(request.reference));
    }
    for (const auto& file : request.engines) {
        // Named as an engine too, the reference need not run twice.
        if (!request.reference.empty() && same_file(file, request.reference)) continue;
        LATHE_TRY(Predictor* const subject, open(file));
        subjects.push_back(subject);
    }
    if (!first) return Error{ErrorCode::invalid_argument, "no engine to evaluate", "", "name at least one engine file"};

    DatasetOptions options;
    options.samples = request.samples;
    options.pictures = request.preprocess_on_device;
    options.text.columns = request.columns;
    options.text.make_tokenizer = request.make_tokenizer;
    const bool similarity = request.task == EvalTask::similarity;
    if (similarity) {
        options.samples *= 2; // texts
        options.text.labels = TextLabels::scores;
    }
    LATHE_TRY(const auto data, open_dataset(request.data, request.preprocess, *first, options));
    const auto document = [&](std::size_t samples) -> Result<Json> {
        LATHE_TRY(const std::string digest, data->digest());
        return eval_document(request, libraries, digest, samples);
    };
    if (similarity) {
        LATHE_TRY(const SimilarityEvaluation evaluation,
                  evaluate_similarity(subjects, reference, *data, request.options, progress));
        LATHE_TRY(Json json, document(evaluation.pairs));
        json["task"] = "similarity";
        json["subjects"] = to_json(evaluation);
        return json;
    }
    if (gives_embeddings(*first) && data->has_labels()) {
        return Error{ErrorCode::invalid_argument, "the model gives embeddings, no classes", request.data.string(),
                     "use lathe eval --task similarity, or export a classifier (--head)"};
    }
    if (!data->has_labels() && reference == nullptr) {
        return Error{ErrorCode::invalid_argument, "the data has no labels and there is no reference engine",
                     request.data.string(),
                     "add labels.csv, class subfolders or a label column, or give --reference fp32.engine"};
    }
    if (!data->has_labels())
        log(LogLevel::warning, "the data has no labels: no accuracy, only closeness to the reference");
    LATHE_TRY(const Evaluation evaluation, evaluate(subjects, reference, *data, request.options, progress));
    LATHE_TRY(Json json, document(evaluation.samples));
    json["classes"] = evaluation.classes;
    json["output_kind"] = to_string(evaluation.output_kind);
    json["preprocess_on"] = request.preprocess_on_device ? "device" : "cpu";
    json["subjects"] = to_json(evaluation);
    return json;
}

} // namespace lathe
