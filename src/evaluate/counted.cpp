#include "evaluate/counted.hpp"

#include <algorithm>
#include <cmath>

#include "evaluate/fidelity.hpp"
#include "evaluate/figures.hpp"

namespace lathe {

namespace {

void put_figures(Json& json, const std::vector<CountedFigure>& figures, const SampleCounts& counts,
                 std::size_t resamples) {
    const std::vector<double> sums = counts.sums();
    for (const CountedFigure& figure : figures) {
        const double value = figure.of(sums);
        json[figure.key] = finite_or_null(value);
        if (std::isfinite(value))
            json[std::string(figure.key) + "_ci95"] = to_json(bootstrap_interval(counts, figure, resamples));
    }
}

Json worst_of(const CountedEvaluation& evaluation, const SampleCounts& counts, const CountedFigure& figure,
              std::size_t most) {
    struct Entry {
        std::size_t sample;
        double agreement;
    };
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < counts.samples(); ++i) {
        const double agreement = figure.of(counts.row(i));
        if (std::isfinite(agreement)) entries.push_back({i, agreement});
    }
    std::ranges::stable_sort(entries, {}, &Entry::agreement);
    if (entries.size() > most) entries.resize(most);
    Json worst = Json::array();
    for (const Entry& entry : entries)
        worst.push_back({{"sample", evaluation.samples[entry.sample]}, {"agreement", entry.agreement}});
    return worst;
}

} // namespace

Result<CountedEvaluation> evaluate_counted(const CountedTask& task, std::span<OutputsPredictor* const> engines,
                                           bool has_reference, Dataset& data, const CountedTruth* truth,
                                           std::size_t batch_size, Progress& progress) {
    CountedEvaluation evaluation;
    evaluation.labelled = truth != nullptr;
    evaluation.has_reference = has_reference;
    for (OutputsPredictor* const engine : engines)
        evaluation.subjects.push_back({engine->name(), engine->precision(), 0, {}, {}});

    progress.begin("evaluate", data.size());
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data.next(std::max<std::size_t>(batch_size, 1)));
        if (!batch || batch->size() == 0) break;
        std::vector<std::optional<Answer>> expected(batch->size());
        std::vector<Answer> of_reference;
        for (std::size_t s = 0; s < engines.size(); ++s) {
            const auto place = [&](Error error) { return std::move(error).in(engines[s]->name()); };
            CountedSubject& subject = evaluation.subjects[s];
            auto outputs = engines[s]->predict_all(*batch);
            if (!outputs) return place(std::move(outputs).error());
            for (std::size_t i = 0; i < batch->size(); ++i) {
                auto given = task.answer(*outputs, i);
                if (!given) return place(std::move(given).error());
                if (truth != nullptr && s == 0) {
                    const auto size = batch->sizes.empty() ? std::nullopt : std::optional(batch->sizes[i]);
                    LATHE_TRY(expected[i], truth->of(batch->names[i], size, *given));
                    if (!expected[i]) ++evaluation.left_out;
                }
                const bool counts = truth == nullptr || expected[i];
                if (s == 0 && counts) evaluation.samples.push_back(batch->names[i]);
                if (counts && !all_outputs_finite(*outputs, i, batch->size())) ++subject.nonfinite;
                if (expected[i]) {
                    auto counted = task.count(*given, *expected[i]);
                    if (!counted) return place(std::move(counted).error()).in(batch->names[i]);
                    subject.truth.add(*std::move(counted));
                }
                if (!has_reference) continue;
                if (s == 0) of_reference.push_back(*given);
                if (!counts) continue;
                auto counted = task.count(*given, of_reference[i]);
                if (!counted) return place(std::move(counted).error());
                subject.reference.add(*std::move(counted));
            }
        }
        progress.advance(batch->size());
    }
    progress.end();
    if (evaluation.samples.empty()) {
        return Error{ErrorCode::invalid_argument, "the data holds no sample that the truth speaks of",
                     truth != nullptr ? truth->source.string() : std::string(), "do its file names fit?"};
    }
    return evaluation;
}

Json to_json(const CountedEvaluation& evaluation, const std::vector<CountedFigure>& figures, std::size_t worst,
             std::size_t resamples) {
    const CountedFigure& judged = figures.front();
    const std::string key = judged.key;
    Json subjects = Json::array();
    for (std::size_t s = 0; s < evaluation.subjects.size(); ++s) {
        const CountedSubject& subject = evaluation.subjects[s];
        const auto counts_of = [&](const CountedSubject& of) -> const SampleCounts& {
            return evaluation.labelled ? of.truth : of.reference;
        };
        Json json{{"name", subject.name},
                  {"precision", subject.precision},
                  {"samples", evaluation.samples.size()},
                  {"nonfinite_samples", subject.nonfinite}};
        put_figures(json, figures, counts_of(subject), resamples);
        if (evaluation.has_reference && s > 0) {
            const CountedSubject& reference = evaluation.subjects.front();
            const double difference = judged.of(counts_of(subject).sums()) - judged.of(counts_of(reference).sums());
            Json versus{{"reference", reference.name}, {key + "_delta", finite_or_null(difference)}};
            if (std::isfinite(difference)) {
                versus[key + "_delta_ci95"] =
                    to_json(bootstrap_difference(counts_of(subject), counts_of(reference), judged, resamples));
            }
            if (subject.reference.samples() > 0) {
                const double agreement = judged.of(subject.reference.sums());
                versus["agreement"] = finite_or_null(agreement);
                if (std::isfinite(agreement))
                    versus["agreement_ci95"] = to_json(bootstrap_interval(subject.reference, judged, resamples));
                json["worst"] = worst_of(evaluation, subject.reference, judged, worst);
            }
            json["vs_reference"] = std::move(versus);
        }
        subjects.push_back(std::move(json));
    }
    return subjects;
}

} // namespace lathe
