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

Result<std::unique_ptr<SpanPredictor>> make_spans(const Engine& engine, const std::string& name) {
    auto predictor = make_outputs_predictor(engine, name, {"start_logits", "end_logits"});
    if (predictor) return std::unique_ptr<SpanPredictor>(std::make_unique<EngineSpans>(*std::move(predictor)));
    if (predictor.error().code == ErrorCode::not_found) {
        predictor.error().hint += "; --task squad needs a model for question answering, as BertForQuestionAnswering, "
                                  "exported without --pooling";
    }
    return std::move(predictor).error();
}

} // namespace

Result<Json> evaluate_squad_engines(const EvalRequest& request, Progress& progress) {
    std::vector<std::unique_ptr<SpanPredictor>> predictors; // the reference first, if there is one
    const auto take = [&](const Engine& engine, const std::string& name) -> Result<void> {
        LATHE_TRY(auto predictor, make_spans(engine, name));
        predictors.push_back(std::move(predictor));
        return {};
    };
    LATHE_TRY(const LoadedEngines loaded, load_engines(request, take, progress));
    if (loaded.first.tokenizer.empty() || !request.make_tokenizer) {
        return Error{ErrorCode::unsupported, "the model carries no tokenizer, so it cannot take texts",
                     request.data.string(), "export it with lathe export from a folder with tokenizer.json"};
    }
    LATHE_TRY(const SquadData data, load_squad(request.data));
    const DatasetOptions lengths = with_lengths({}, loaded.first);
    SquadOptions options = request.squad;
    options.batch_size = request.options.batch_size;
    options.samples = request.samples;
    options.least_length = lengths.text.min_length;
    LATHE_TRY(const auto tokenizer, request.make_tokenizer(loaded.first.tokenizer, lengths.text.max_length));
    std::vector<SpanPredictor*> subjects;
    for (const auto& predictor : predictors)
        subjects.push_back(predictor.get());
    LATHE_TRY(const SquadEvaluation evaluation, evaluate_squad(subjects, !request.reference.empty(), data, *tokenizer,
                                                               input_specs(loaded.first), options, progress));
    Json json = eval_document(request, loaded.libraries, data.digest, evaluation.questions);
    json["task"] = "squad";
    json["squad_version"] = data.version2 ? "2.0" : "1.1";
    json["windows"] = evaluation.windows;
    json["subjects"] = to_json(evaluation);
    return json;
}

} // namespace lathe
