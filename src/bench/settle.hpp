#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "bench/statistics.hpp"

namespace lathe {

/// Says when warming up is over: the bursts are no longer getting faster. A burst counts as faster when its median is
/// more than 2 % below the best before it; twice in a row without such a gain is steady. Bursts that are slower
/// (another process, a throttled clock) do not prolong the warm-up; the stopping rule deals with noise.
class SteadyDetector {
public:
    /// Takes the median of the next burst (any unit); true once steady.
    bool add(double burst_median);
    std::size_t bursts() const { return bursts_; }

private:
    static constexpr double gain_ = 0.02;
    double best_ = 0;
    std::size_t bursts_ = 0;
    std::size_t without_gain_ = 0;
};

/// When a measurement may stop.
struct SteadyRule {
    double relative_half_width = 0.01; ///< of the median's 95 % interval
    std::size_t min_rounds = 8;        ///< turns, so that the pair by pair ratio has an interval
    std::size_t min_calls = 0;         ///< whatever the interval
};

/// All turns of one subject. The interval of the median must hold two kinds of noise: the spread within a burst and the
/// drift from burst to burst, which the calls of one burst share. So it is the hull of two order-statistic intervals,
/// one over all calls and one over the bursts' medians; calls alone would look certain on a machine that drifts.
class Samples {
public:
    void add(std::span<const double> burst);
    /// Over all calls, with the interval described above.
    Summary summary() const;
    const std::vector<double>& burst_medians() const { return burst_medians_; }
    /// Of all calls, in percent; there must be calls.
    double percentile(double percent) const;
    bool settled(const SteadyRule& rule) const;

private:
    std::vector<double> calls_;
    std::vector<double> burst_medians_;
};

} // namespace lathe
