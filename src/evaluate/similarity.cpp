#include "evaluate/similarity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "evaluate/correlation.hpp"
#include "evaluate/fidelity.hpp"
#include "evaluate/figures.hpp"

namespace lathe {

namespace {

/// What is gathered about one subject while the data goes by.
struct GatheredScores {
    std::vector<double> alike; ///< one a interval_pair: the cosine, or the output; NaN for outputs that are not finite
    std::size_t nonfinite = 0;
    // Against the reference, text by text.
    std::size_t texts = 0;
    double cosine_sum = 0;
    double least_cosine = 1;
    double signal = 0;
    double noise = 0;
    double max_abs_error = 0;
};

struct Rows {
    HostTensor tensor;
    std::size_t width = 0;
    std::span<const float> row(std::size_t index) const { return tensor.as<float>().subspan(index * width, width); }
};

Result<Rows> run(Predictor& predictor, const Batch& batch, PairScore score) {
    auto predicted = predictor.predict(batch);
    if (!predicted) return std::move(predicted).error().in(predictor.name());
    Rows rows{std::move(*predicted), 0};
    const std::size_t values = rows.tensor.as<float>().size();
    if (score == PairScore::output) {
        if (values != batch.size()) {
            return Error{ErrorCode::mismatch,
                         "the output is " + to_string(rows.tensor.shape) + " for " + std::to_string(batch.size()) +
                             " pairs of texts",
                         predictor.name(), "compare engines that give one value a interval_pair, as the first does"};
        }
        rows.width = 1;
        return rows;
    }
    if (rows.tensor.shape.size() != 2 || values == 0 || values % batch.size() != 0) {
        return Error{ErrorCode::mismatch,
                     "the output is " + to_string(rows.tensor.shape) + " for " + std::to_string(batch.size()) +
                         " texts",
                     predictor.name(),
                     "similarity needs one embedding a text: export with --pooling mean, or choose --output-name"};
    }
    rows.width = values / batch.size();
    return rows;
}

void gather(GatheredScores& gathered, const Rows& rows, std::size_t texts, PairScore score) {
    if (score == PairScore::output) {
        for (std::size_t i = 0; i < texts; ++i) {
            const bool finite = all_finite(rows.row(i));
            if (!finite) ++gathered.nonfinite;
            gathered.alike.push_back(finite ? static_cast<double>(rows.row(i)[0])
                                            : std::numeric_limits<double>::quiet_NaN());
        }
        return;
    }
    for (std::size_t i = 0; i + 1 < texts; i += 2) {
        const bool finite = all_finite(rows.row(i)) && all_finite(rows.row(i + 1));
        if (!finite) ++gathered.nonfinite;
        gathered.alike.push_back(finite ? cosine(rows.row(i), rows.row(i + 1)) : 0);
    }
}

/// What is not finite counts as not alike: as the least that was.
void settle_nonfinite(GatheredScores& gathered) {
    double least = std::numeric_limits<double>::infinity();
    for (const double value : gathered.alike)
        if (value < least) least = value;
    for (double& value : gathered.alike)
        if (std::isnan(value)) value = std::isfinite(least) ? least : 0;
}

void compare(GatheredScores& gathered, const Rows& reference, const Rows& subject, std::size_t texts) {
    for (std::size_t i = 0; i < texts; ++i) {
        const auto expected = reference.row(i);
        const auto actual = subject.row(i);
        if (!all_finite(expected) || !all_finite(actual)) continue;
        ++gathered.texts;
        const double near = cosine(expected, actual);
        gathered.cosine_sum += near;
        gathered.least_cosine = std::min(gathered.least_cosine, near);
        for (std::size_t j = 0; j < expected.size(); ++j) {
            const double x = expected[j];
            const double error = static_cast<double>(actual[j]) - x;
            gathered.signal += x * x;
            gathered.noise += error * error;
            gathered.max_abs_error = std::max(gathered.max_abs_error, std::abs(error));
        }
    }
}

EmbeddingFidelity fidelity_of(const GatheredScores& subject, const GatheredScores& reference,
                              std::span<const double> scores, PairScore score) {
    EmbeddingFidelity fidelity;
    fidelity.texts = subject.texts;
    if (subject.texts > 0) fidelity.mean_cosine = subject.cosine_sum / static_cast<double>(subject.texts);
    fidelity.least_cosine = subject.least_cosine;
    if (score == PairScore::output) { // of single values it is their sign
        fidelity.mean_cosine = fidelity.least_cosine = std::numeric_limits<double>::quiet_NaN();
    }
    fidelity.sqnr_db =
        subject.noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(subject.signal / subject.noise);
    fidelity.max_abs_error = subject.max_abs_error;
    fidelity.agreement = spearman(reference.alike, subject.alike);
    fidelity.spearman_delta = spearman(subject.alike, scores) - spearman(reference.alike, scores);
    fidelity.spearman_delta_interval = spearman_difference_interval(reference.alike, subject.alike, scores);
    return fidelity;
}

} // namespace

const char* to_string(PairScore score) { return score == PairScore::cosine ? "cosine" : "output"; }

double cosine(std::span<const float> a, std::span<const float> b) {
    double aa = 0;
    double bb = 0;
    double ab = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
        bb += static_cast<double>(b[i]) * static_cast<double>(b[i]);
        ab += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

Result<SimilarityEvaluation> evaluate_similarity(std::span<Predictor* const> subjects, Predictor* reference,
                                                 Dataset& data, const EvaluateOptions& options, Progress& progress,
                                                 PairScore score) {
    std::vector<Predictor*> all;
    if (reference != nullptr) all.push_back(reference);
    all.insert(all.end(), subjects.begin(), subjects.end());
    if (all.empty()) return Error{ErrorCode::invalid_argument, "no engine to evaluate", "", "name at least one"};
    std::vector<GatheredScores> gathered(all.size());
    std::vector<double> scores;
    SimilarityEvaluation evaluation;
    evaluation.score = score;
    const std::size_t sides = score == PairScore::cosine ? 2 : 1; // samples a interval_pair
    progress.begin("evaluating", data.size() / sides);
    for (;;) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data.next(sides * std::max<std::size_t>(1, options.batch_size)));
        if (!batch) break;
        if (batch->scores.size() != batch->size() || batch->size() % sides != 0) {
            return Error{ErrorCode::invalid_argument, "the data has no scored pairs of texts", "",
                         "similarity needs a text file with two text columns and a score, for a model that gives "
                         "embeddings (exported with --pooling) or one value a interval_pair"};
        }
        std::optional<Rows> expected;
        for (std::size_t i = 0; i < all.size(); ++i) {
            LATHE_TRY(Rows rows, run(*all[i], *batch, score));
            if (evaluation.width == 0) evaluation.width = rows.width;
            if (rows.width != evaluation.width) {
                return Error{ErrorCode::mismatch,
                             "an embedding has " + std::to_string(rows.width) + " values, that of " + all[0]->name() +
                                 " has " + std::to_string(evaluation.width),
                             all[i]->name(), "compare engines of the same model"};
            }
            gather(gathered[i], rows, batch->size(), score);
            if (expected) compare(gathered[i], *expected, rows, batch->size());
            if (i == 0 && reference != nullptr) expected = std::move(rows);
        }
        evaluation.cut.add(*batch);
        for (std::size_t i = 0; i < batch->size(); i += sides)
            scores.push_back(batch->scores[i]);
        progress.advance(batch->size() / sides);
    }
    progress.end();
    if (scores.empty()) return Error{ErrorCode::invalid_argument, "the data holds no samples", "", ""};
    evaluation.pairs = scores.size();
    for (GatheredScores& one : gathered)
        settle_nonfinite(one);
    for (std::size_t i = 0; i < all.size(); ++i) {
        SimilaritySubject subject{all[i]->name(), all[i]->precision(), 0, 0, gathered[i].nonfinite, {}};
        subject.spearman = spearman(gathered[i].alike, scores);
        subject.pearson = pearson(gathered[i].alike, scores);
        if (reference != nullptr && i > 0) {
            subject.versus = fidelity_of(gathered[i], gathered[0], scores, score);
            subject.versus->reference = reference->name();
        }
        evaluation.subjects.push_back(std::move(subject));
    }
    return evaluation;
}

Json to_json(const SimilarityEvaluation& evaluation) {
    Json subjects = Json::array();
    for (const SimilaritySubject& subject : evaluation.subjects) {
        Json json{{"name", subject.name},
                  {"precision", subject.precision},
                  {"samples", evaluation.pairs},
                  {"spearman", finite_or_null(subject.spearman)},
                  {"spearman_ci95", interval_pair(spearman_interval(subject.spearman, evaluation.pairs))},
                  {"pearson", finite_or_null(subject.pearson)},
                  {"pearson_ci95", interval_pair(pearson_interval(subject.pearson, evaluation.pairs))},
                  {"nonfinite_samples", subject.nonfinite}};
        if (const auto& versus = subject.versus) {
            json["vs_reference"] = {{"reference", versus->reference},
                                    {"texts", versus->texts},
                                    {"cosine", finite_or_null(versus->mean_cosine)},
                                    {"least_cosine", finite_or_null(versus->least_cosine)},
                                    {"sqnr_db", finite_or_null(versus->sqnr_db)},
                                    {"max_abs_error", versus->max_abs_error},
                                    {"rank_agreement", finite_or_null(versus->agreement)},
                                    {"spearman_delta", finite_or_null(versus->spearman_delta)},
                                    {"spearman_delta_ci95", interval_pair(versus->spearman_delta_interval)}};
        }
        subjects.push_back(std::move(json));
    }
    return subjects;
}

} // namespace lathe
