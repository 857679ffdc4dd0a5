#include "api/optimized_rows.hpp"

#include "report/fields.hpp"

namespace lathe {
namespace {

using report::find_item;
using report::interval;
using report::items;
using report::member;
using report::number;
using report::text;

/// How many times as fast as `reference` the subject is; the benchmark may have measured the pair the other way round.
std::optional<Measured> speedup_of(const Json& bench, const std::string& subject, const std::string& reference,
                                   double batch) {
    for (const Json& ratio : items(bench, "ratios")) {
        if (number(ratio, "batch") != batch) continue;
        const auto found = measured(ratio, "speedup", "ci95");
        if (!found || found->low <= 0) continue;
        if (text(ratio, "subject") == subject && text(ratio, "reference") == reference) return found;
        if (text(ratio, "subject") == reference && text(ratio, "reference") == subject)
            return Measured{1 / found->value, 1 / found->high, 1 / found->low};
    }
    return std::nullopt;
}

/// The figure that judges the task, of whatever name. One that only exists against the reference stands there.
void add_score(OptimizedRow& row, const Json& judged, const Json& metric) {
    const std::string key = text(metric, "key");
    const std::string range = key + "_ci95";
    row.score = measured(judged, key.c_str(), range.c_str());
    if (const Json* versus = member(judged, "vs_reference"); versus != nullptr) {
        if (!row.score) row.score = measured(*versus, key.c_str(), range.c_str());
        row.score_change = measured(*versus, (key + "_delta").c_str(), (key + "_delta_ci95").c_str());
    }
    if (row.score) row.metric = text(metric, "name");
}

/// The name of the FP32 engine; empty where none was measured.
std::string baseline_of(const Json& bench) {
    for (const Json& subject : items(bench, "subjects")) {
        if (text(subject, "kind") == "engine" && text(subject, "precision") == "fp32") return text(subject, "name");
    }
    return "";
}

} // namespace

std::optional<Measured> measured(const Json& object, const char* key, const char* interval_key) {
    const auto value = number(object, key);
    if (!value) return std::nullopt;
    const auto range = interval(object, interval_key).value_or(std::pair{*value, *value});
    return Measured{*value, range.first, range.second};
}

std::vector<OptimizedRow> optimized_rows(const Json& bench, const Json& eval, const std::filesystem::path& folder) {
    const std::string baseline = baseline_of(bench);
    std::vector<OptimizedRow> rows;
    for (const Json& latency : items(bench, "latency")) {
        const auto median = measured(latency, "median_ms", "ci95_ms");
        const auto batch = number(latency, "batch");
        if (!median || !batch) continue;
        OptimizedRow row;
        row.name = text(latency, "subject");
        row.batch = static_cast<std::int64_t>(*batch);
        row.latency_ms = *median;
        if (row.name != baseline) row.speedup = speedup_of(bench, row.name, baseline, *batch);
        if (const Json* subject = find_item(items(bench, "subjects"), "name", row.name); subject != nullptr) {
            row.precision = text(*subject, "precision");
            if (text(*subject, "kind") == "engine") row.engine = folder / (row.name + ".engine");
        }
        if (const Json* judged = find_item(items(eval, "subjects"), "name", row.name); judged != nullptr) {
            row.top1 = measured(*judged, "top1", "top1_ci95");
            if (const Json* versus = member(*judged, "vs_reference"); versus != nullptr)
                row.top1_change = measured(*versus, "top1_delta", "top1_delta_ci95");
            const Json of_classifiers{{"name", "top-1"}, {"key", "top1"}};
            const Json* metric = member(eval, "metric");
            add_score(row, *judged, metric != nullptr ? *metric : of_classifiers);
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

} // namespace lathe
