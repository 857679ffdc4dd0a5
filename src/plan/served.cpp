#include "plan/served.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "bench/statistics.hpp"
#include "support/json_fault.hpp"

namespace lathe {

namespace {

using Quantiles = TimeDistribution::Quantiles;

constexpr std::pair<const char*, double Quantiles::*> quantile_fields[] = {
    {"min_ms", &Quantiles::min}, {"median_ms", &Quantiles::median}, {"p90_ms", &Quantiles::p90},
    {"p95_ms", &Quantiles::p95}, {"p99_ms", &Quantiles::p99},       {"max_ms", &Quantiles::max}};

struct Observation {
    std::int64_t samples;
    double expected_ms;
    double took_ms;
};

std::vector<Observation> observed(const std::vector<BatchTime>& benched, std::span<const ServedBatch> served) {
    std::vector<Observation> found;
    for (const ServedBatch& batch : served) {
        const auto size = static_cast<std::size_t>(batch.samples);
        if (batch.previous == 0 || size == 0 || size > benched.size()) continue;
        const double expected = benched[size - 1].expected(batch.idle_ms, batch.previous != batch.samples);
        found.push_back({batch.samples, expected, batch.took_ms});
    }
    return found;
}

/// Without the residual.
ServedTimes::Size means_of(std::span<const Observation> batches) {
    ServedTimes::Size size;
    size.count = batches.size();
    for (const Observation& batch : batches) {
        size.benched_ms += batch.expected_ms / static_cast<double>(batches.size());
        size.served_ms += batch.took_ms / static_cast<double>(batches.size());
    }
    return size;
}

Quantiles quantiles_of(std::vector<double> residuals) {
    const Summary summary = summarize(std::move(residuals));
    return {summary.min, summary.median, summary.p90, summary.p95, summary.p99, summary.max, summary.mean};
}

Json json_of(const ServedTimes::Size& size) {
    Json residual = Json::object();
    for (const auto& [name, field] : quantile_fields)
        residual[name] = size.residual_ms.*field;
    return {{"count", size.count},
            {"benched_ms", size.benched_ms},
            {"served_ms", size.served_ms},
            {"factor", size.factor()},
            {"residual", std::move(residual)}};
}

ServedTimes::Size size_of(const Json& row) {
    ServedTimes::Size size;
    size.count = count_of(row.at("count"));
    size.benched_ms = positive_at(row, "benched_ms");
    size.served_ms = positive_at(row, "served_ms");
    for (const auto& [name, field] : quantile_fields)
        size.residual_ms.*field = finite_at(row.at("residual"), name);
    return size;
}

} // namespace

Result<ServedTimes> ServedTimes::learn(const std::vector<BatchTime>& benched, std::span<const ServedBatch> served) {
    std::vector<Observation> batches = observed(benched, served);
    if (batches.size() < enough_for_factor) {
        return Error{ErrorCode::invalid_argument,
                     std::to_string(batches.size()) + " batches were served, too few to learn their times from", "",
                     "serve for longer: --try-seconds"};
    }
    ServedTimes times;
    times.all_ = means_of(batches);
    std::ranges::stable_sort(batches, {}, &Observation::samples);
    std::vector<double> all;
    for (auto first = batches.begin(); first != batches.end();) {
        const auto last = std::find_if(first, batches.end(),
                                       [&](const Observation& batch) { return batch.samples != first->samples; });
        const std::span<const Observation> same(first, last);
        Size size = means_of(same);
        const double factor = size.count >= enough_for_factor ? size.factor() : times.all_.factor();
        std::vector<double> residuals;
        for (const Observation& batch : same)
            residuals.push_back(batch.took_ms - factor * batch.expected_ms);
        std::ranges::copy(residuals, std::back_inserter(all));
        size.residual_ms = quantiles_of(std::move(residuals));
        times.sizes_.emplace(first->samples, size);
        first = last;
    }
    times.all_.residual_ms = quantiles_of(std::move(all));
    return times;
}

void ServedTimes::apply(std::vector<BatchTime>& times) const {
    for (std::size_t i = 0; i < times.size(); ++i) {
        const auto own = sizes_.find(static_cast<std::int64_t>(i) + 1);
        const auto chosen = [&](std::size_t enough) -> const Size& {
            return own != sizes_.end() && own->second.count >= enough ? own->second : all_;
        };
        const double factor = chosen(enough_for_factor).factor();
        Quantiles residual = chosen(enough_for_spread).residual_ms;
        residual.mean = 0;
        const TimeDistribution spread = TimeDistribution::of_quantiles(residual);
        // The same spread for all three, so that a pause and a change of the size add what they add to the mean.
        const auto serve = [&](TimeDistribution& time) { time = spread.shifted(factor * time.mean() - spread.mean()); };
        serve(times[i].time);
        if (times[i].after_pause) serve(*times[i].after_pause);
        if (times[i].after_other_size) serve(*times[i].after_other_size);
    }
}

Json ServedTimes::json() const {
    Json document = {{"all", json_of(all_)}, {"batches", Json::array()}};
    for (const auto& [samples, size] : sizes_) {
        Json row = json_of(size);
        row["batch"] = samples;
        document["batches"].push_back(std::move(row));
    }
    return document;
}

Result<ServedTimes> ServedTimes::read(const Json& document, const std::string& where) {
    try {
        ServedTimes times;
        times.all_ = size_of(document.at("all"));
        for (const Json& row : document.at("batches"))
            times.sizes_[static_cast<std::int64_t>(count_of(row.at("batch")))] = size_of(row);
        return times;
    } catch (const Json::exception& failure) {
        return Error{ErrorCode::parse_error, "these are no times as served: " + json_fault(failure), where,
                     "write them with lathe plan --try ENGINE --output FILE"};
    }
}

} // namespace lathe
