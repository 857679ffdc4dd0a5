#include "plan/time_distribution.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "bench/statistics.hpp"

namespace lathe {

namespace {

double probability(std::size_t part) {
    return (static_cast<double>(part) + 0.5) / static_cast<double>(TimeDistribution::parts);
}

template <class Inverse>
std::vector<double> tabulated(const Inverse& inverse) {
    std::vector<double> values(TimeDistribution::parts);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = inverse(probability(i));
    return values;
}

/// The quantile of the standard normal distribution, by bisection of erfc: it is computed some thousand times a plan.
double normal_quantile(double p) {
    double low = -9;
    double high = 9;
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
    }
    return (low + high) / 2;
}

} // namespace

TimeDistribution::TimeDistribution(std::vector<double> values) : values_(std::move(values)) {
    mean_ = std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

TimeDistribution TimeDistribution::fixed(double ms) { return TimeDistribution(std::vector<double>(parts, ms)); }

TimeDistribution TimeDistribution::exponential(double mean_ms) {
    return TimeDistribution(tabulated([&](double p) { return -mean_ms * std::log1p(-p); }));
}

TimeDistribution TimeDistribution::lognormal(double median_ms, double p99_ms) {
    const double sigma = std::log(p99_ms / median_ms) / normal_quantile(0.99);
    return TimeDistribution(tabulated([&](double p) { return median_ms * std::exp(sigma * normal_quantile(p)); }));
}

TimeDistribution TimeDistribution::of_samples(std::vector<double> ms) {
    std::ranges::sort(ms);
    return TimeDistribution(tabulated([&](double p) { return lathe::quantile(ms, p); }));
}

TimeDistribution TimeDistribution::of_quantiles(const Quantiles& measured) {
    // Summaries of few calls are not always in order to the last digit.
    std::array<double, 5> value{measured.min, measured.median, measured.p90, measured.p95, measured.p99};
    for (std::size_t i = 1; i < value.size(); ++i)
        value[i] = std::max(value[i], value[i - 1]);
    const double rise = std::max(0.0, measured.max - value[4]);
    constexpr std::array<double, 5> at{0, 0.5, 0.9, 0.95, 0.99};
    double body = 0; // what the lines below p99 give to the mean
    for (std::size_t i = 1; i < at.size(); ++i)
        body += (at[i] - at[i - 1]) * (value[i] + value[i - 1]) / 2;
    // mean = body + 0.01 (p99 + rise / (k + 1))
    const double excess = (measured.mean - body) / 0.01 - value[4];
    const double k = excess > 0 ? std::clamp(rise / excess - 1, 1.0, 1e3) : 1e3;
    return TimeDistribution(tabulated([&](double p) {
        if (p >= at.back()) return value[4] + rise * std::pow((p - at.back()) / (1 - at.back()), k);
        const auto above = static_cast<std::size_t>(std::ranges::upper_bound(at, p) - at.begin());
        const double share = (p - at[above - 1]) / (at[above] - at[above - 1]);
        return value[above - 1] + share * (value[above] - value[above - 1]);
    }));
}

double TimeDistribution::quantile(double q) const { return lathe::quantile(values_, q); }

TimeDistribution TimeDistribution::scaled(double factor) const {
    std::vector<double> values = values_;
    for (double& value : values)
        value *= factor;
    return TimeDistribution(std::move(values));
}

TimeDistribution TimeDistribution::shifted(double ms) const {
    std::vector<double> values = values_;
    for (double& value : values)
        value += ms;
    return TimeDistribution(std::move(values));
}

TimeDistribution TimeDistribution::mixed(const TimeDistribution& other, double weight) const {
    std::vector<double> values(parts);
    for (std::size_t i = 0; i < parts; ++i)
        values[i] = (1 - weight) * values_[i] + weight * other.values_[i];
    return TimeDistribution(std::move(values));
}

} // namespace lathe
