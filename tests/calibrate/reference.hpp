#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "calibrate/histogram.hpp"
#include "calibrate/range.hpp"

// Plain float64 forms of the estimators, written out bin by bin from the formulas in estimators.hpp, with none of the
// prefix sums, closed forms and coarse searches that they are to check.
namespace lathe::test {

struct Bin {
    double begin;
    double end;
    double count;
};

/// Bins of x, or of |x|, cut off at the extremes.
inline std::vector<Bin> plain_bins(const Histogram& histogram, bool magnitudes) {
    std::vector<Bin> bins;
    const double width = histogram.bin_width();
    if (!magnitudes) {
        for (int i = histogram.first_bin(); i < histogram.end_bin(); ++i) {
            bins.push_back({std::max(i * width, static_cast<double>(histogram.min())),
                            std::min((i + 1) * width, static_cast<double>(histogram.max())),
                            static_cast<double>(histogram.bin(i))});
        }
        return bins;
    }
    double least = 0;
    if (histogram.min() > 0) least = static_cast<double>(histogram.min());
    if (histogram.max() < 0) least = -static_cast<double>(histogram.max());
    const auto absmax = static_cast<double>(histogram.absmax());
    for (int i = 0; i * width <= absmax; ++i) {
        const auto count = static_cast<double>(histogram.bin(i) + histogram.bin(-1 - i));
        bins.push_back({std::min(std::max(i * width, least), absmax), std::min((i + 1) * width, absmax), count});
    }
    while (!bins.empty() && bins.back().count == 0)
        bins.pop_back();
    return bins;
}

/// KL of one cut, every bin in turn.
inline double plain_divergence(const std::vector<Bin>& bins, std::size_t cut, std::size_t levels) {
    std::vector<double> p(cut);
    std::vector<double> sums(levels);
    std::vector<double> used(levels);
    for (std::size_t b = 0; b < bins.size(); ++b)
        p[std::min(b, cut - 1)] += bins[b].count;
    for (std::size_t b = 0; b < cut; ++b) {
        sums[b * levels / cut] += bins[b].count;
        used[b * levels / cut] += bins[b].count > 0 ? 1 : 0;
    }
    double p_total = 0;
    double q_total = 0;
    std::vector<double> q(cut);
    for (std::size_t b = 0; b < cut; ++b) {
        const std::size_t group = b * levels / cut;
        q[b] = bins[b].count > 0 ? sums[group] / used[group] : 0;
        p_total += p[b];
        q_total += q[b];
    }
    double divergence = 0;
    for (std::size_t b = 0; b < cut; ++b) {
        if (p[b] == 0) continue;
        if (q[b] == 0) return std::numeric_limits<double>::infinity();
        divergence += p[b] / p_total * std::log(p[b] / p_total / (q[b] / q_total));
    }
    return divergence;
}

/// Integral of (x - q(x))^2 over [begin, end), split where q jumps.
inline double plain_integral(double begin, double end, double scale, int lowest, int highest) {
    double sum = 0;
    while (begin < end) {
        const double code = std::clamp(std::floor(begin / scale + 0.5), double(lowest), double(highest));
        double next = code >= highest ? end : std::min(end, (code + 0.5) * scale);
        if (code <= lowest && begin < (lowest + 0.5) * scale) next = std::min(end, (lowest + 0.5) * scale);
        if (next <= begin) next = std::min(end, std::nextafter(begin, end) + scale * 1e-9);
        const double a = begin - code * scale;
        const double b = next - code * scale;
        sum += (b * b * b - a * a * a) / 3;
        begin = next;
    }
    return sum;
}

inline double plain_error(const std::vector<Bin>& bins, double scale, int lowest, int highest) {
    double sum = 0;
    for (const Bin& bin : bins) {
        if (bin.count == 0) continue;
        const double extent = bin.end - bin.begin;
        if (extent <= 0) {
            const double code = std::clamp(std::nearbyint(bin.begin / scale), double(lowest), double(highest));
            sum += bin.count * (bin.begin - code * scale) * (bin.begin - code * scale);
        } else {
            sum += bin.count / extent * plain_integral(bin.begin, bin.end, scale, lowest, highest);
        }
    }
    return sum;
}

} // namespace lathe::test
