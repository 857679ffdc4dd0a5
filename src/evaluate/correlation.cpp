#include "evaluate/correlation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "evaluate/statistics.hpp"

namespace lathe {

namespace {

Interval through_fisher(double r, double variance) {
    if (std::isnan(r) || !(variance > 0)) return {-1, 1};
    if (std::abs(r) >= 1) return {r, r};
    const double half = z95 * std::sqrt(variance);
    return {std::tanh(std::atanh(r) - half), std::tanh(std::atanh(r) + half)};
}

} // namespace

std::vector<double> ranks(std::span<const double> values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> result(values.size());
    for (std::size_t start = 0; start < order.size();) {
        std::size_t end = start + 1;
        while (end < order.size() && values[order[end]] == values[order[start]])
            ++end;
        const double mean = (static_cast<double>(start + 1) + static_cast<double>(end)) / 2;
        for (std::size_t i = start; i < end; ++i)
            result[order[i]] = mean;
        start = end;
    }
    return result;
}

double pearson(std::span<const double> x, std::span<const double> y) {
    const auto n = static_cast<double>(x.size());
    const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
    const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
    double xx = 0;
    double yy = 0;
    double xy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    if (x.size() < 2 || xx == 0 || yy == 0) return std::numeric_limits<double>::quiet_NaN();
    return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

double spearman(std::span<const double> x, std::span<const double> y) { return pearson(ranks(x), ranks(y)); }

Interval pearson_interval(double r, std::size_t n) {
    return through_fisher(r, n > 3 ? 1 / (static_cast<double>(n) - 3) : 0);
}

Interval spearman_interval(double r, std::size_t n) {
    return through_fisher(r, n > 3 ? (1 + r * r / 2) / (static_cast<double>(n) - 3) : 0);
}

Interval spearman_difference_interval(std::span<const double> a, std::span<const double> b, std::span<const double> y,
                                      std::size_t resamples, std::uint64_t seed) {
    const std::size_t n = y.size();
    if (n < 2 || resamples == 0) return {0, 0};
    std::mt19937_64 generator(seed);
    std::vector<double> differences;
    std::vector<double> drawn_a(n);
    std::vector<double> drawn_b(n);
    std::vector<double> drawn_y(n);
    for (std::size_t round = 0; round < resamples; ++round) {
        for (std::size_t i = 0; i < n; ++i) {
            // No distribution object: one seed gives one result with every compiler. The bias of % is below 1e-15.
            const std::size_t index = generator() % n;
            drawn_a[i] = a[index];
            drawn_b[i] = b[index];
            drawn_y[i] = y[index];
        }
        const std::vector<double> target = ranks(drawn_y);
        const double difference = pearson(ranks(drawn_b), target) - pearson(ranks(drawn_a), target);
        if (!std::isnan(difference)) differences.push_back(difference);
    }
    if (differences.empty()) return {0, 0};
    std::sort(differences.begin(), differences.end());
    const auto at = [&](double share) {
        return differences[static_cast<std::size_t>(std::lround(share * static_cast<double>(differences.size() - 1)))];
    };
    return {at(0.025), at(0.975)};
}

} // namespace lathe
