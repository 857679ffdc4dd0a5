#include "evaluate/run.hpp"

#include <algorithm>
#include <iterator>

#include "evaluate/engine_predictor.hpp"
#include "evaluate/similarity.hpp"
#include "runtime/engine.hpp"
#include "runtime/engine_file.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/log.hpp"
#include "support/machine.hpp"
#include "support/unique_name.hpp"

namespace lathe {

namespace {

/// Whether two paths lead to one file.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code failed;
    return std::filesystem::equivalent(a, b, failed) && !failed;
}

/// Whether the engine reads both texts of a pair together and its judged output is one value: a cross-encoder, whose
/// value says how alike they are. The cosine of two single values would be 1 or -1.
bool scores_pairs(const EngineInfo& engine, const std::string& output_name) {
    if (gives_embeddings(engine)) return false;
    const auto output = std::ranges::find_if(
        engine.outputs, [&](const IoInfo& output) { return output_name.empty() || output.name == output_name; });
    if (output == engine.outputs.end()) return false;
    const Shape& shape = output->range.max;
    return shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
}

} // namespace

Result<LoadedEngines> load_engines(const EvalRequest& request,
                                   const std::function<Result<void>(const Engine&, const std::string&)>& take,
                                   Progress& progress) {
    std::vector<std::filesystem::path> files;
    if (!request.reference.empty()) files.push_back(request.reference);
    std::ranges::copy_if(request.engines, std::back_inserter(files), [&](const auto& file) {
        // Named as an engine too, the reference need not run twice.
        return request.reference.empty() || !same_file(file, request.reference);
    });
    if (files.empty()) {
        return Error{ErrorCode::invalid_argument, "no engine to evaluate", "", "name at least one engine file"};
    }
    LoadedEngines loaded;
    std::set<std::string> taken;
    for (const auto& file : files) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const Engine engine, Engine::load(file));
        if (taken.empty()) loaded.first = engine.info();
        loaded.libraries[engine.info().backend] = engine.info().library_version;
        auto took = take(engine, unique_name(file.stem().string(), taken));
        if (!took) return std::move(took).error().in(file.string());
    }
    return loaded;
}

Json eval_document(const EvalRequest& request, const Json& libraries, const std::string& digest, std::size_t samples) {
    return {{"kind", "eval"},
            {"version", 1},
            {"lathe_version", LATHE_VERSION},
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
        const bool fixed = !shape.empty() && input.range.min[0] == input.range.max[0];
        const std::int64_t first = fixed ? shape[0] : -1;
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
            if (axis == 0 || input.range.min[axis] != input.range.max[axis]) shape[axis] = -1;
        }
        specs.push_back({input.name, input.type, std::move(shape), first});
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
    text.class_names = engine.labels;
    for (const IoInfo& input : engine.inputs) {
        if (input.range.max.size() != 2) continue;
        text.min_length = std::max(text.min_length, static_cast<std::size_t>(input.range.min[1]));
        const auto most = static_cast<std::size_t>(input.range.max[1]);
        text.max_length = text.max_length == 0 ? most : std::min(text.max_length, most);
    }
    return options;
}

Result<std::optional<Preprocess>> preprocess_of(const EngineInfo& engine) {
    return Preprocess::from_text(engine.preprocess, "the engine's preprocessing");
}

Result<std::optional<Preprocess>> preprocess_for(const PreprocessChoice& choice, const EngineInfo& engine) {
    LATHE_TRY(auto chosen, choice.resolve(input_specs(engine)));
    return chosen ? std::move(chosen) : preprocess_of(engine);
}

Result<std::unique_ptr<Dataset>> open_dataset(const std::filesystem::path& path, const PreprocessChoice& choice,
                                              const EngineInfo& engine, const DatasetOptions& options) {
    LATHE_TRY(const auto preprocess, preprocess_for(choice, engine));
    return open_dataset(path, preprocess, input_specs(engine), with_lengths(options, engine));
}

const EvaluationTask* task_of_outputs(const EngineInfo& engine, const std::string& head) {
    std::string_view name;
    if (const auto found = detection_head(engine, head)) {
        name = found->masks ? "instances" : "detection";
    } else if (!head.empty()) {
        name = "detection"; // whose error says why the outputs are not those of the head that was named
    } else if (const auto size = picture_input(engine)) {
        const auto told = recognise_task(output_shapes(engine), size->height, size->width);
        if (told != nullptr) name = told->name();
    }
    if (name.empty() || name == "classification") return nullptr;
    const auto tasks = evaluation_tasks();
    const auto found = std::ranges::find_if(tasks, [&](const EvaluationTask& task) { return name == task.name; });
    return found == tasks.end() ? nullptr : &*found;
}

namespace {

Result<Json> evaluate_outputs(const EvalRequest& request, bool similarity, Progress& progress) {
    std::vector<std::unique_ptr<Predictor>> owned;
    std::optional<Preprocess> on_device;
    std::optional<Error> no_scores; // of a first output that holds none: no fault where all outputs have a task
    const auto take = [&](const Engine& engine, const std::string& name) -> Result<void> {
        if (request.preprocess_on_device && owned.empty()) {
            LATHE_TRY(on_device, preprocess_for(request.preprocess, engine.info()));
        }
        auto predictor = make_engine_predictor(engine, name, request.output_name, on_device);
        if (!predictor) {
            if (similarity || !request.task.empty() || !request.output_name.empty()) return predictor.error();
            if (!no_scores) no_scores = Error(predictor.error()).in(name);
            return {};
        }
        owned.push_back(std::move(*predictor));
        return {};
    };
    LATHE_TRY(const LoadedEngines loaded, load_engines(request, take, progress));
    if (no_scores) owned.clear();
    Predictor* const reference = request.reference.empty() || no_scores ? nullptr : owned.front().get();
    std::vector<Predictor*> subjects;
    for (std::size_t i = reference == nullptr ? 0 : 1; i < owned.size(); ++i)
        subjects.push_back(owned[i].get());

    DatasetOptions options;
    options.samples = request.samples;
    options.pictures = request.preprocess_on_device;
    options.text.columns = request.columns;
    options.text.make_tokenizer = request.make_tokenizer;
    PairScore score = PairScore::cosine;
    if (similarity) {
        if (scores_pairs(loaded.first, request.output_name)) score = PairScore::output;
        options.text.joint = score == PairScore::output;
        if (!options.text.joint) options.samples *= 2; // texts
        options.text.labels = TextLabels::scores;
    }
    LATHE_TRY(const auto data, open_dataset(request.data, request.preprocess, loaded.first, options));
    const auto document = [&](std::size_t samples, const CutTexts& cut) -> Result<Json> {
        LATHE_TRY(const std::string digest, data->digest());
        Json json = eval_document(request, loaded.libraries, digest, samples);
        if (cut.limit > 0) {
            json["data"]["cut_samples"] = cut.cut;
            json["data"]["token_limit"] = cut.limit;
        }
        if (cut.cut > 0) log(LogLevel::warning, request.data.string() + ": " + cut.describe());
        return json;
    };
    if (similarity) {
        LATHE_TRY(const SimilarityEvaluation evaluation,
                  evaluate_similarity(subjects, reference, *data, request.options, progress, score));
        LATHE_TRY(Json json, document(evaluation.pairs, evaluation.cut));
        json["task"] = "similarity";
        json["score"] = to_string(score);
        json["subjects"] = to_json(evaluation);
        return json;
    }
    if (gives_embeddings(loaded.first) && data->has_labels()) {
        return Error{ErrorCode::invalid_argument, "the model gives embeddings, no classes", request.data.string(),
                     "use lathe eval --task similarity, or export a classifier (--head)"};
    }
    if (!data->has_labels() && request.reference.empty()) {
        return Error{ErrorCode::invalid_argument, "the data has no labels and there is no reference engine",
                     request.data.string(),
                     "add labels.csv, class subfolders or a label column, or give --reference fp32.engine"};
    }
    if (!data->has_labels() && request.task.empty() && request.output_name.empty()) {
        if (const auto* task = task_of_outputs(loaded.first, request.detection.head); task != nullptr) {
            log(LogLevel::info, std::string("no truth is given, and the outputs are of ") + task->name +
                                    ": the reference's answers are the truth (--task classification compares "
                                    "outputs instead)");
            return task->evaluate(request, progress);
        }
    }
    if (no_scores) return *std::move(no_scores);
    if (!data->has_labels())
        log(LogLevel::warning, "the data has no labels: no accuracy, only closeness to the reference");
    LATHE_TRY(const Evaluation evaluation, evaluate(subjects, reference, *data, request.options, progress));
    LATHE_TRY(Json json, document(evaluation.samples, evaluation.cut));
    json["classes"] = evaluation.classes;
    json["output_kind"] = to_string(evaluation.output_kind);
    json["preprocess_on"] = request.preprocess_on_device ? "device" : "cpu";
    json["subjects"] = to_json(evaluation);
    return json;
}

} // namespace

Result<Json> evaluate_classification_engines(const EvalRequest& request, Progress& progress) {
    return evaluate_outputs(request, false, progress);
}

Result<Json> evaluate_similarity_engines(const EvalRequest& request, Progress& progress) {
    return evaluate_outputs(request, true, progress);
}

namespace {

/// Whether all are engine files: what is wrong with one is told before what is wrong with the data.
Result<void> look_at_engines(const EvalRequest& request) {
    std::vector<std::filesystem::path> files = request.engines;
    if (!request.reference.empty()) files.insert(files.begin(), request.reference);
    for (const auto& file : files) {
        LATHE_TRY(const std::shared_ptr<const MappedFile> mapped, MappedFile::open(file));
        if (auto contents = parse_engine(mapped->bytes(), file.string()); !contents) return contents.error();
    }
    return {};
}

} // namespace

Result<Json> evaluate_engines(const EvalRequest& request, Progress& progress) {
    LATHE_CHECK(look_at_engines(request));
    LATHE_TRY(const EvaluationTask* const task, evaluation_task(request));
    return task->evaluate(request, progress);
}

} // namespace lathe
