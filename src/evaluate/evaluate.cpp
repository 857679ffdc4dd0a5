#include "evaluate/evaluate.hpp"

#include <algorithm>
#include <cmath>

#include "evaluate/figures.hpp"

namespace lathe {

namespace {

/// Keeps the `limit` samples of greatest KL.
void keep_worst(std::vector<WorstSample>& worst, WorstSample sample, std::size_t limit) {
    if (limit == 0) return;
    const auto place = std::upper_bound(worst.begin(), worst.end(), sample,
                                        [](const WorstSample& a, const WorstSample& b) { return a.kl > b.kl; });
    worst.insert(place, std::move(sample));
    if (worst.size() > limit) worst.pop_back();
}

struct Outputs {
    HostTensor tensor;
    std::size_t classes = 0;
    std::span<const float> row(std::size_t sample) const {
        return tensor.as<float>().subspan(sample * classes, classes);
    }
};

Result<Outputs> run(Predictor& predictor, const Batch& batch) {
    auto predicted = predictor.predict(batch);
    if (!predicted) return std::move(predicted).error().in(predictor.name());
    Outputs outputs{std::move(*predicted), 0};
    const std::size_t values = outputs.tensor.as<float>().size();
    if (outputs.tensor.type != DataType::float32 || outputs.tensor.shape.empty() ||
        outputs.tensor.shape[0] != static_cast<std::int64_t>(batch.size()) || values % batch.size() != 0 ||
        values == 0) {
        return Error{ErrorCode::mismatch,
                     "the output is " + to_string(outputs.tensor.type) + " " + to_string(outputs.tensor.shape) +
                         " for a batch of " + std::to_string(batch.size()),
                     predictor.name(), "only outputs with one row of scores a sample can be evaluated"};
    }
    outputs.classes = values / batch.size();
    return outputs;
}

Result<void> check_labels(const Batch& batch, std::size_t classes) {
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
        if (batch.labels[i] >= static_cast<std::int64_t>(classes)) {
            return Error{ErrorCode::out_of_range,
                         "label " + std::to_string(batch.labels[i]) + ", but the model has " + std::to_string(classes) +
                             " classes",
                         batch.names[i], "are these the labels of the data the model was trained on?"};
        }
    }
    return {};
}

std::int64_t class_of(std::span<const float> row) {
    const auto top = top_class(row);
    return top ? static_cast<std::int64_t>(*top) : -1;
}

void count(SubjectEvaluation& subject, const Outputs& outputs, const Batch& batch) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto row = outputs.row(i);
        ++subject.samples;
        if (!all_finite(row)) ++subject.nonfinite;
        if (batch.labels[i] < 0) continue;
        const auto label = static_cast<std::size_t>(batch.labels[i]);
        ++subject.labelled;
        subject.top1 += in_top(row, label, 1) ? 1 : 0;
        subject.top5 += in_top(row, label, 5) ? 1 : 0;
    }
}

void compare(ReferenceComparison& comparison, const Outputs& reference, const Outputs& subject, const Batch& batch,
             OutputKind kind, std::size_t worst) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto expected = reference.row(i);
        const auto actual = subject.row(i);
        const std::int64_t reference_class = class_of(expected);
        const std::int64_t subject_class = class_of(actual);
        ++comparison.samples;
        comparison.agree += reference_class == subject_class && reference_class >= 0 ? 1 : 0;
        const auto kl = comparison.fidelity.add(expected, actual, kind);
        if (kl) {
            keep_worst(comparison.worst, {batch.names[i], *kl, batch.labels[i], reference_class, subject_class}, worst);
        }
        if (batch.labels[i] >= 0) {
            const auto label = static_cast<std::size_t>(batch.labels[i]);
            comparison.outcomes.add(in_top(expected, label, 1), in_top(actual, label, 1));
        }
    }
}

void put_share(Json& json, const std::string& key, std::size_t successes, std::size_t trials) {
    if (trials == 0) {
        json[key] = nullptr;
        json[key + "_ci95"] = nullptr;
        return;
    }
    json[key] = static_cast<double>(successes) / static_cast<double>(trials);
    json[key + "_ci95"] = interval_pair(wilson_interval(successes, trials));
}

Json to_json(const ReferenceComparison& comparison) {
    Json json{{"reference", comparison.reference}};
    put_share(json, "agreement", comparison.agree, comparison.samples);
    json["mean_kl"] = finite_or_null(comparison.fidelity.mean_kl());
    json["sqnr_db"] = finite_or_null(comparison.fidelity.sqnr_db());
    json["cosine"] = comparison.fidelity.mean_cosine();
    json["max_abs_error"] = comparison.fidelity.max_abs_error();
    json["nonfinite_samples"] = comparison.fidelity.nonfinite();
    const PairedOutcomes& outcomes = comparison.outcomes;
    if (outcomes.total() > 0) {
        const McNemar test = mcnemar(outcomes);
        json["top1_delta"] = outcomes.difference();
        json["top1_delta_ci95"] = interval_pair(paired_difference_interval(outcomes));
        json["mcnemar"] = {{"only_reference_right", outcomes.only_reference_right},
                           {"only_subject_right", outcomes.only_subject_right},
                           {"p_value", test.p_exact},
                           {"p_value_mid", test.p_mid}};
    } else {
        json["top1_delta"] = nullptr;
        json["top1_delta_ci95"] = nullptr;
        json["mcnemar"] = nullptr;
    }
    return json;
}

} // namespace

Result<Evaluation> evaluate(std::span<Predictor* const> subjects, Predictor* reference, Dataset& data,
                            const EvaluateOptions& options, Progress& progress) {
    std::vector<Predictor*> all;
    if (reference != nullptr) all.push_back(reference);
    all.insert(all.end(), subjects.begin(), subjects.end());
    if (all.empty()) return Error{ErrorCode::invalid_argument, "nothing to evaluate", "", "name at least one engine"};

    Evaluation evaluation;
    for (std::size_t i = 0; i < all.size(); ++i) {
        SubjectEvaluation subject;
        subject.name = all[i]->name();
        subject.precision = all[i]->precision();
        if (reference != nullptr && i > 0) {
            subject.versus.emplace();
            subject.versus->reference = reference->name();
        }
        evaluation.subjects.push_back(std::move(subject));
    }

    progress.begin("evaluate", data.size());
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data.next(std::max<std::size_t>(options.batch_size, 1)));
        if (!batch || batch->size() == 0) break;
        Outputs expected;
        for (std::size_t i = 0; i < all.size(); ++i) {
            LATHE_TRY(Outputs outputs, run(*all[i], *batch));
            if (evaluation.samples == 0 && i == 0) {
                evaluation.classes = outputs.classes;
                evaluation.output_kind =
                    options.output_kind.value_or(detect_output_kind(outputs.tensor.as<float>(), outputs.classes));
            }
            if (outputs.classes != evaluation.classes) {
                return Error{ErrorCode::mismatch,
                             "the output has " + std::to_string(outputs.classes) + " values a sample, that of " +
                                 all[0]->name() + " has " + std::to_string(evaluation.classes),
                             all[i]->name(), "compare engines of the same model"};
            }
            if (i == 0) LATHE_CHECK(check_labels(*batch, outputs.classes));
            count(evaluation.subjects[i], outputs, *batch);
            if (auto& versus = evaluation.subjects[i].versus) {
                compare(*versus, expected, outputs, *batch, evaluation.output_kind, options.worst);
            }
            if (i == 0) expected = std::move(outputs);
        }
        evaluation.samples += batch->size();
        evaluation.cut.add(*batch);
        progress.advance(batch->size());
    }
    progress.end();
    if (evaluation.samples == 0) return Error{ErrorCode::invalid_argument, "the data holds no samples", "", ""};
    return evaluation;
}

Json to_json(const Evaluation& evaluation) {
    Json subjects = Json::array();
    for (const auto& subject : evaluation.subjects) {
        Json json{{"name", subject.name}, {"precision", subject.precision}, {"samples", subject.samples}};
        put_share(json, "top1", subject.top1, subject.labelled);
        put_share(json, "top5", subject.top5, subject.labelled);
        json["nonfinite_samples"] = subject.nonfinite;
        if (subject.versus) {
            json["vs_reference"] = to_json(*subject.versus);
            Json worst = Json::array();
            for (const auto& sample : subject.versus->worst)
                worst.push_back({{"sample", sample.sample},
                                 {"kl", sample.kl},
                                 {"label", sample.label},
                                 {"reference_class", sample.reference_class},
                                 {"subject_class", sample.subject_class}});
            json["worst"] = std::move(worst);
        }
        subjects.push_back(std::move(json));
    }
    return subjects;
}

} // namespace lathe
