#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lathe {

double Summary::relative_half_width() const {
    if (!ci95_covered || median <= 0) return std::numeric_limits<double>::infinity();
    return ci95.width() / 2 / median;
}

double quantile(std::span<const double> ascending, double q) {
    const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(ascending.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, ascending.size() - 1);
    const double share = position - static_cast<double>(below);
    return ascending[below] + share * (ascending[above] - ascending[below]);
}

std::optional<std::pair<std::size_t, std::size_t>> median_interval_ranks(std::size_t count) {
    if (count < minimum_interval_count) return std::nullopt;
    const auto n = static_cast<double>(count);
    const double log_half = n * std::log(0.5);
    // Terms more than 20 standard deviations from the middle are below 1e-80; starting there keeps a million values
    // cheap.
    const double start = std::max(0.0, std::floor(n / 2 - 10 * std::sqrt(n)));
    double cumulative = 0;
    auto rank = static_cast<std::size_t>(start);
    while (rank < count) {
        const auto k = static_cast<double>(rank);
        const double term = std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + log_half);
        if (cumulative + term > 0.025) break;
        cumulative += term;
        ++rank;
    }
    // P(B <= rank - 1) <= 2.5 %, so the rank-th smallest value (1-based) is the lower bound.
    return std::pair{rank, count + 1 - rank};
}

Summary summarize(std::vector<double> values) {
    Summary summary;
    summary.count = values.size();
    if (values.empty()) return summary;
    std::sort(values.begin(), values.end());
    const auto n = static_cast<double>(values.size());
    summary.min = values.front();
    summary.max = values.back();
    summary.median = quantile(values, 0.5);
    summary.p90 = quantile(values, 0.90);
    summary.p95 = quantile(values, 0.95);
    summary.p99 = quantile(values, 0.99);
    summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    if (values.size() > 1) {
        double squares = 0;
        for (const double value : values)
            squares += (value - summary.mean) * (value - summary.mean);
        summary.std = std::sqrt(squares / (n - 1));
    }
    summary.p99_reliable = values.size() >= minimum_p99_count;
    summary.ci95 = {summary.min, summary.max};
    if (const auto ranks = median_interval_ranks(values.size())) {
        summary.ci95 = {values[ranks->first - 1], values[ranks->second - 1]};
        summary.ci95_covered = true;
    }
    return summary;
}

RatioSummary summarize_ratio(std::span<const double> subject, std::span<const double> reference) {
    std::vector<double> ratios;
    const std::size_t pairs = std::min(subject.size(), reference.size());
    ratios.reserve(pairs);
    for (std::size_t i = 0; i < pairs; ++i)
        ratios.push_back(reference[i] / subject[i]);
    const Summary summary = summarize(std::move(ratios));
    return {summary.median, summary.ci95, summary.ci95_covered, summary.count};
}

} // namespace lathe
