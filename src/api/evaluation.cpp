#include "lathe/evaluate.hpp"

#include "api/model_data.hpp"
#include "backends/openvino/tokenizer.hpp"
#include "evaluate/engine_predictor.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluate/run.hpp"

namespace lathe {
namespace {

Result<std::unique_ptr<Dataset>> open(Data data, const EngineInfo& engine, const EngineEvaluationOptions& options) {
    DatasetOptions opening;
    opening.samples = options.samples;
    opening.part = options.part;
    opening.text.columns = data.columns;
    opening.text.make_tokenizer = openvino::make_tokenizer;
    if (!data.arrays.empty()) {
        return dataset_of_arrays(std::move(data.arrays), std::move(data.labels), input_specs(engine), opening);
    }
    return open_dataset(data.path, PreprocessChoice(options.preprocess), engine, opening);
}

Measured share(std::size_t successes, std::size_t trials) {
    const Interval interval = wilson_interval(successes, trials);
    const double value = trials == 0 ? 0 : static_cast<double>(successes) / static_cast<double>(trials);
    return {value, interval.low, interval.high};
}

/// Shares and intervals by the counts.
EngineScores with_shares(EngineScores scores) {
    if (scores.labelled > 0) {
        scores.top1 = share(scores.top1_right, scores.labelled);
        scores.top5 = share(scores.top5_right, scores.labelled);
    }
    return scores;
}

EngineScores scores_of(const SubjectEvaluation& subject) {
    EngineScores scores;
    scores.name = subject.name;
    scores.precision = subject.precision;
    scores.samples = subject.samples;
    scores.nonfinite = subject.nonfinite;
    scores.labelled = subject.labelled;
    scores.top1_right = subject.top1;
    scores.top5_right = subject.top5;
    return with_shares(std::move(scores));
}

Progress& progress_of(const EngineEvaluationOptions& options) {
    return options.progress != nullptr ? *options.progress : no_progress();
}

EvaluateOptions evaluate_options(const EngineEvaluationOptions& options) {
    EvaluateOptions evaluating;
    evaluating.batch_size = options.batch_size;
    evaluating.worst = 0;
    return evaluating;
}

} // namespace

Result<EngineScores> evaluate_engine(const Engine& engine, Data data, const EngineEvaluationOptions& options) {
    const std::string place = data.path.string();
    LATHE_TRY(const auto dataset, open(std::move(data), engine.info(), options));
    if (!dataset->has_labels()) {
        return Error{ErrorCode::invalid_argument, "the data has no labels", place,
                     "add labels.csv or class subfolders, or compare with a reference engine"};
    }
    LATHE_TRY(const auto predictor, make_engine_predictor(engine, engine.info().name, options.output_name));
    Predictor* const subject = predictor.get();
    LATHE_TRY(const Evaluation evaluation,
              evaluate({&subject, 1}, nullptr, *dataset, evaluate_options(options), progress_of(options)));
    return scores_of(evaluation.subjects.at(0));
}

Result<EngineScores> merge_scores(std::span<const EngineScores> parts) {
    if (parts.empty()) return Error{ErrorCode::invalid_argument, "there are no scores to put together", "", ""};
    EngineScores all = parts.front();
    for (const EngineScores& part : parts.subspan(1)) {
        if (part.name != all.name || part.precision != all.precision) {
            return Error{ErrorCode::mismatch, "the scores are of different engines",
                         all.name + " " + all.precision + ", " + part.name + " " + part.precision, ""};
        }
        all.samples += part.samples;
        all.nonfinite += part.nonfinite;
        all.labelled += part.labelled;
        all.top1_right += part.top1_right;
        all.top5_right += part.top5_right;
    }
    return with_shares(std::move(all));
}

Result<std::size_t> count_samples(const Engine& engine, Data data, const EngineEvaluationOptions& options) {
    EngineEvaluationOptions whole = options;
    whole.part.reset();
    LATHE_TRY(const auto dataset, open(std::move(data), engine.info(), whole));
    return dataset->size();
}

Result<EngineSamples> read_samples(const Engine& engine, Data data, const EngineEvaluationOptions& options) {
    const std::string place = data.path.string();
    LATHE_TRY(const auto dataset, open(std::move(data), engine.info(), options));
    LATHE_TRY(auto batch, dataset->next(dataset->size()));
    if (!batch) return Error{ErrorCode::out_of_range, "the data have no such samples", place, ""};
    return EngineSamples{std::move(batch->names), std::move(batch->inputs)};
}

Result<EngineComparison> compare_engines(const Engine& reference, const Engine& subject, Data data,
                                         const EngineEvaluationOptions& options) {
    LATHE_TRY(const auto dataset, open(std::move(data), reference.info(), options));
    LATHE_TRY(const auto expected, make_engine_predictor(reference, reference.info().name, options.output_name));
    LATHE_TRY(const auto actual, make_engine_predictor(subject, subject.info().name, options.output_name));
    Predictor* const judged = actual.get();
    LATHE_TRY(const Evaluation evaluation,
              evaluate({&judged, 1}, expected.get(), *dataset, evaluate_options(options), progress_of(options)));
    const ReferenceComparison& versus = evaluation.subjects.at(1).versus.value();
    EngineComparison comparison;
    comparison.reference = scores_of(evaluation.subjects.at(0));
    comparison.subject = scores_of(evaluation.subjects.at(1));
    comparison.agreement = share(versus.agree, versus.samples);
    comparison.mean_kl = versus.fidelity.mean_kl();
    comparison.sqnr_db = versus.fidelity.sqnr_db();
    comparison.cosine = versus.fidelity.mean_cosine();
    comparison.max_abs_error = versus.fidelity.max_abs_error();
    if (versus.outcomes.total() > 0) {
        const Interval interval = paired_difference_interval(versus.outcomes);
        comparison.top1_delta = Measured{versus.outcomes.difference(), interval.low, interval.high};
        comparison.p_value = mcnemar(versus.outcomes).p_exact;
    }
    return comparison;
}

} // namespace lathe
