#include <set>

#include "evaluate/engine_predictor.hpp"
#include "evaluate/run.hpp"
#include "runtime/engine.hpp"

namespace lathe {

namespace {

/// An engine with start_logits and end_logits, [batch, sequence] each.
class EngineSpans final : public SpanPredictor {
public:
    explicit EngineSpans(std::unique_ptr<OutputsPredictor> engine) : engine_(std::move(engine)) {}
    const std::string& name() const override { return engine_->name(); }
    const std::string& precision() const override { return engine_->precision(); }
    Result<std::vector<SpanScores>> score(const Batch& batch) override {
        LATHE_TRY(const auto outputs, engine_->predict_all(batch));
        std::vector<SpanScores> scores(batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i) {
            scores[i].start = row(outputs[0], i, batch.size());
            scores[i].end = row(outputs[1], i, batch.size());
        }
        return scores;
    }

private:
    static std::vector<float> row(const HostTensor& tensor, std::size_t index, std::size_t rows) {
        const auto values = tensor.as<float>();
        const std::size_t width = values.size() / rows;
        const auto part = values.subspan(index * width, width);
        return {part.begin(), part.end()};
    }

    std::unique_ptr<OutputsPredictor> engine_;
};

struct OpenedEngines {
    std::vector<std::unique_ptr<SpanPredictor>> predictors; ///< the reference first, if there is one
    std::optional<EngineInfo> first;
    Json libraries = Json::object();
};

Result<void> open(const std::filesystem::path& file, std::set<std::string>& taken, OpenedEngines& opened) {
    LATHE_TRY(const Engine engine, Engine::load(file));
    if (!opened.first) opened.first = engine.info();
    opened.libraries[engine.info().backend] = engine.info().library_version;
    auto predictor =
        make_outputs_predictor(engine, unique_name(file.stem().string(), taken), {"start_logits", "end_logits"});
    if (!predictor) {
        if (predictor.error().code == ErrorCode::not_found) {
            predictor.error().hint += "; --task squad needs a model for question answering, as "
                                      "BertForQuestionAnswering, exported without --pooling";
        }
        return std::move(predictor).error().in(file.string());
    }
    opened.predictors.push_back(std::make_unique<EngineSpans>(std::move(*predictor)));
    return {};
}

Result<OpenedEngines> open_all(const EvalRequest& request, Progress& progress) {
    OpenedEngines opened;
    std::set<std::string> taken;
    if (!request.reference.empty()) LATHE_CHECK(open(request.reference, taken, opened));
    for (const auto& file : request.engines) {
        LATHE_CHECK(progress.check());
        if (!request.reference.empty() && same_file(file, request.reference)) continue;
        LATHE_CHECK(open(file, taken, opened));
    }
    if (!opened.first) {
        return Error{ErrorCode::invalid_argument, "no engine to evaluate", "", "name at least one engine file"};
    }
    return opened;
}

} // namespace

Result<Json> evaluate_squad_engines(const EvalRequest& request, Progress& progress) {
    LATHE_TRY(const OpenedEngines opened, open_all(request, progress));
    if (opened.first->tokenizer.empty() || !request.make_tokenizer) {
        return Error{ErrorCode::unsupported, "the model carries no tokenizer, so it cannot take texts",
                     request.data.string(), "export it with lathe export from a folder with tokenizer.json"};
    }
    LATHE_TRY(const SquadData data, load_squad(request.data));
    const DatasetOptions lengths = with_lengths({}, *opened.first);
    SquadOptions options = request.squad;
    options.batch_size = request.options.batch_size;
    options.samples = request.samples;
    options.least_length = lengths.text.min_length;
    LATHE_TRY(const auto tokenizer, request.make_tokenizer(opened.first->tokenizer, lengths.text.max_length));
    std::vector<SpanPredictor*> subjects;
    for (const auto& predictor : opened.predictors)
        subjects.push_back(predictor.get());
    LATHE_TRY(const SquadEvaluation evaluation, evaluate_squad(subjects, !request.reference.empty(), data, *tokenizer,
                                                               input_specs(*opened.first), options, progress));
    Json json = eval_document(request, opened.libraries, data.digest, evaluation.questions);
    json["task"] = "squad";
    json["squad_version"] = data.version2 ? "2.0" : "1.1";
    json["windows"] = evaluation.windows;
    json["subjects"] = to_json(evaluation);
    return json;
}

} // namespace lathe
