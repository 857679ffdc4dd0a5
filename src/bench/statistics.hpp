#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "support/interval.hpp"

namespace lathe {

/// Fewest samples from which a 99th percentile is reported without a warning: MLPerf Inference's minimum for a tail
/// latency of 99 % at 99 % confidence with a margin of 1/20 of the tail (mlcommons/inference_policies, "early
/// stopping": 662 queries).
inline constexpr std::size_t minimum_p99_count = 662;

/// Fewest values for which order statistics bound the median with 95 % confidence: 1 - 2 / 2^6 = 96.9 %.
inline constexpr std::size_t minimum_interval_count = 6;

/// One measurement, summed up. Every figure has the unit of the values.
struct Summary {
    std::size_t count = 0;
    double median = 0;
    double mean = 0;
    double std = 0; ///< sample standard deviation (n - 1); 0 for one value
    double p90 = 0;
    double p95 = 0;
    double p99 = 0;
    double min = 0;
    double max = 0;
    Interval ci95;             ///< of the median; min..max when there are too few values to bound it
    bool ci95_covered = false; ///< whether ci95 has its coverage (count >= minimum_interval_count)
    bool p99_reliable = false; ///< count >= minimum_p99_count

    /// Half the interval's width over the median; infinity while the interval has no coverage.
    double relative_half_width() const;
};

/// The quantile `q` in 0..1 of ascending, non-empty values, by linear interpolation between closest ranks
/// (Hyndman and Fan's type 7, numpy's default).
double quantile(std::span<const double> ascending, double q);

/// 1-based ranks (low, high) of the order statistics between which the median lies with at least 95 % confidence,
/// whatever the distribution: the greatest `low` with P(Binomial(count, 1/2) < low) <= 2.5 %, and count + 1 - low.
/// Nothing if count < minimum_interval_count. (Conover, Practical Nonparametric Statistics, 3.2.)
std::optional<std::pair<std::size_t, std::size_t>> median_interval_ranks(std::size_t count);

/// Sums up values (any order). No value gives a Summary with count 0.
Summary summarize(std::vector<double> values);

/// The ratio of paired measurements taken side by side.
struct RatioSummary {
    double median = 0; ///< median over the pairs of reference / subject: above 1 the subject is faster
    Interval ci95;
    bool ci95_covered = false;
    std::size_t pairs = 0;
};

/// Pair by pair reference[i] / subject[i]; further values of the longer one are ignored. Times must be positive.
/// A pair shares the machine's state of its moment, so drift that slows both cancels.
RatioSummary summarize_ratio(std::span<const double> subject, std::span<const double> reference);

} // namespace lathe
