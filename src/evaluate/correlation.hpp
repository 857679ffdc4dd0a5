#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/statistics.hpp"

namespace lathe {

/// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values);

/// Pearson's correlation; NaN where one side does not vary or there are fewer than two values. Of equal length.
double pearson(std::span<const double> x, std::span<const double> y);

/// Spearman's: Pearson's of the ranks.
double spearman(std::span<const double> x, std::span<const double> y);

/// 95 % interval of a Pearson correlation r of n pairs through Fisher's z: tanh(atanh r +- 1.96 / sqrt(n - 3))
/// (R. A. Fisher, Metron 1, 1921). -1..1 for n < 4 or a NaN.
Interval pearson_interval(double r, std::size_t n);

/// The same of a Spearman correlation, whose z varies more: variance (1 + r^2 / 2) / (n - 3)
/// (D. G. Bonett, T. A. Wright, Psychometrika 65, 2000).
Interval spearman_interval(double r, std::size_t n);

/// 95 % percentile bootstrap interval of spearman(b, y) - spearman(a, y) on the same samples: `resamples` draws with
/// replacement, the generator seeded with `seed`. 0..0 for fewer than two samples.
Interval spearman_difference_interval(std::span<const double> a, std::span<const double> b, std::span<const double> y,
                                      std::size_t resamples = 1000, std::uint64_t seed = 1);

} // namespace lathe
