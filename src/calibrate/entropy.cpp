#include <cmath>
#include <limits>
#include <vector>

#include "calibrate/estimators.hpp"
#include "calibrate/magnitudes.hpp"

namespace lathe {

namespace {

double x_log_x(double x) { return x > 0.0 ? x * std::log(x) : 0.0; }

/// Sums over bins 0..i-1, so that any group's sum is one subtraction. Counts are exact in double up to 2^53.
struct PrefixSums {
    explicit PrefixSums(const std::vector<std::uint64_t>& counts)
        : mass(counts.size() + 1), used(counts.size() + 1), information(counts.size() + 1) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
            const auto counted = static_cast<double>(counts[i]);
            mass[i + 1] = mass[i] + counted;
            used[i + 1] = used[i] + (counts[i] > 0 ? 1.0 : 0.0);
            information[i + 1] = information[i] + x_log_x(counted);
        }
    }
    std::vector<double> mass;        // values
    std::vector<double> used;        // non-empty bins
    std::vector<double> information; // c log c
};

/// KL(P || Q) of the cut after bin i-1; the formula of estimators.hpp with the sums over bins taken a group at a time:
///   N KL = sum p log p - N log N + N log(sum_g S_g) - sum_g P_g log(S_g / m_g)
double divergence(const PrefixSums& sums, std::size_t cut, std::size_t levels) {
    const double total = sums.mass.back();
    const double inside = sums.mass[cut];
    const double outliers = total - inside;
    const double last = inside - sums.mass[cut - 1];
    if (last == 0.0 && outliers > 0.0) return std::numeric_limits<double>::infinity();

    double kept = 0.0;
    std::size_t begin = 0;
    for (std::size_t group = 1; group <= levels; ++group) {
        const std::size_t end = (group * cut + levels - 1) / levels;
        const double mass = sums.mass[end] - sums.mass[begin];
        if (mass > 0.0) {
            const double held = group == levels ? mass + outliers : mass;
            kept += held * std::log(mass / (sums.used[end] - sums.used[begin]));
        }
        begin = end;
    }
    const double information = sums.information[cut] - x_log_x(last) + x_log_x(last + outliers);
    return (information - kept) / total - std::log(total) + std::log(inside);
}

} // namespace

Range entropy_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& /*options*/) {
    const auto counts = magnitude_counts(histogram);
    if (counts.empty()) return {};
    const bool whole_grid_one_side = !format.symmetric && is_one_dimensional(histogram, format);
    const auto levels = static_cast<std::size_t>(whole_grid_one_side ? format.levels : (format.levels + 1) / 2);
    const PrefixSums sums(counts);
    // Never clipping is always a candidate: its last bin holds the largest value, so its divergence is finite. Fewer
    // bins than levels (only when absmax is near the smallest float) leave nothing to choose.
    std::size_t best = counts.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t cut = levels; cut <= counts.size(); ++cut) {
        const double found = divergence(sums, cut, levels);
        if (found < least) {
            least = found;
            best = cut;
        }
    }
    const double threshold = best == counts.size() ? static_cast<double>(histogram.absmax())
                                                   : static_cast<double>(best) * histogram.bin_width();
    return range_from_threshold(histogram, format, threshold);
}

} // namespace lathe
