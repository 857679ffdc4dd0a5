#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// How long something takes, in ms: values of equal probability, ascending. The value of part i stands for the quantile
/// (i + 1/2) / parts, so drawing is one look-up, and two distributions can be mixed quantile by quantile.
class TimeDistribution {
public:
    /// Parts; a tail up to the quantile 0.999 is resolved.
    static constexpr std::size_t parts = 2048;

    TimeDistribution() : TimeDistribution(fixed(0)) {}

    static TimeDistribution fixed(double ms);
    static TimeDistribution exponential(double mean_ms);
    /// With a median and a 99th percentile: exp(mu + sigma z), z normal. p99 >= median > 0.
    static TimeDistribution lognormal(double median_ms, double p99_ms);
    /// As observed; not empty, any order.
    static TimeDistribution of_samples(std::vector<double> ms);

    /// Quantiles that a measurement reports.
    struct Quantiles {
        double min = 0, median = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
        double mean = 0;
    };
    /// Straight lines between the quantiles; above p99 a curve p99 + (max - p99) v^k, v in 0..1, with the k >= 1 that
    /// gives the mean where one does: a single outlier must not stand for a percent of all calls.
    static TimeDistribution of_quantiles(const Quantiles& measured);

    double mean() const { return mean_; }
    /// Of 0..1.
    double quantile(double q) const;
    /// A value by 64 random bits.
    double draw(std::uint64_t random) const { return values_[random % parts]; }
    std::span<const double> values() const { return values_; }

    TimeDistribution scaled(double factor) const;
    /// So many ms more each.
    TimeDistribution shifted(double ms) const;
    /// Quantile by quantile (1 - weight) of this and weight of the other.
    TimeDistribution mixed(const TimeDistribution& other, double weight) const;

private:
    explicit TimeDistribution(std::vector<double> values);
    std::vector<double> values_;
    double mean_ = 0;
};

} // namespace lathe
