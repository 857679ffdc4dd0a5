#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "calibrate/estimators.hpp"
#include "calibrate/magnitudes.hpp"
#include "calibrate/quantization_error.hpp"

namespace lathe {

namespace {

/// A candidate and its error.
struct Found {
    double error = std::numeric_limits<double>::infinity();
    int cut = 0;
};

/// Threshold on |x| over the bin edges 1..size.
double best_threshold(const Histogram& histogram, const NumberFormat& format) {
    const QuantizationError error = QuantizationError::of_magnitudes(histogram);
    const int steps = steps_to_threshold(format);
    const int size = std::max(histogram.end_bin(), -histogram.first_bin());
    const auto threshold_of = [&](int cut) {
        return cut >= size ? static_cast<double>(histogram.absmax()) : cut * histogram.bin_width();
    };
    const auto evaluate = [&](int cut) { return Found{error({threshold_of(cut) / steps, 0, steps}), cut}; };

    // The error is smooth but for ripples as wide as a few bins: look everywhere at the coarse stride, then at every
    // cut around the best few.
    const int stride = std::max(1, size / 128);
    std::vector<Found> coarse;
    for (int cut = size; cut >= stride; cut -= stride)
        coarse.push_back(evaluate(cut));
    const auto less = [](const Found& a, const Found& b) { return a.error < b.error; };
    const std::size_t kept = std::min<std::size_t>(4, coarse.size());
    std::partial_sort(coarse.begin(), coarse.begin() + static_cast<std::ptrdiff_t>(kept), coarse.end(), less);
    coarse.resize(kept);
    Found best = coarse.front();
    for (const Found& start : coarse) {
        for (int cut = std::max(1, start.cut - stride + 1); cut < std::min(size, start.cut + stride); ++cut) {
            if (cut != start.cut) best = std::min(best, evaluate(cut), less);
        }
    }
    return threshold_of(best.cut);
}

/// Low and high as parts of min and max.
struct Pair {
    double error = std::numeric_limits<double>::infinity();
    double low = 1.0;
    double high = 1.0;
};

Range best_pair(const Histogram& histogram, const NumberFormat& format) {
    const QuantizationError error(histogram);
    const auto least = static_cast<double>(histogram.min());
    const auto greatest = static_cast<double>(histogram.max());
    const auto range_of = [&](double low, double high) {
        return Range{static_cast<float>(low * least), static_cast<float>(high * greatest)};
    };
    const auto evaluate = [&](double low, double high) {
        low = std::clamp(low, 0.0, 1.0);
        high = std::clamp(high, 0.0, 1.0);
        const Range range = range_of(low, high);
        if (range.low == 0.0F && range.high == 0.0F) return Pair{};
        return Pair{error(grid_of(range, format)), low, high};
    };
    const auto less = [](const Pair& a, const Pair& b) { return a.error < b.error; };

    constexpr int divisions = 16;
    std::vector<Pair> coarse;
    for (int low = divisions; low >= 0; --low) {
        for (int high = divisions; high >= 0; --high)
            coarse.push_back(evaluate(low / double{divisions}, high / double{divisions}));
    }
    constexpr std::size_t kept = 3;
    std::partial_sort(coarse.begin(), coarse.begin() + kept, coarse.end(), less);
    Pair best = coarse.front();
    for (std::size_t i = 0; i < kept; ++i) {
        Pair here = coarse[i];
        for (double step = 0.5 / divisions; step > 1e-3; step /= 2) {
            Pair around = here;
            for (int low = -2; low <= 2; ++low) {
                for (int high = -2; high <= 2; ++high) {
                    if (low != 0 || high != 0) {
                        around = std::min(around, evaluate(here.low + low * step, here.high + high * step), less);
                    }
                }
            }
            here = around;
        }
        best = std::min(best, here, less);
    }
    // The ends that the integer zero point really gives, so that whoever reads the range finds the same zero point.
    // They may lie half a step outside of what was seen, which near the largest float cannot be written down.
    const Range chosen = range_of(best.low, best.high);
    const UniformGrid grid = grid_of(chosen, format);
    const Range ends{static_cast<float>(grid.lowest * grid.scale), static_cast<float>(grid.highest * grid.scale)};
    return std::isfinite(ends.low) && std::isfinite(ends.high) ? ends : chosen;
}

} // namespace

Range mse_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& /*options*/) {
    if (histogram.absmax() == 0.0F) return {};
    if (is_one_dimensional(histogram, format)) {
        return range_from_threshold(histogram, format, best_threshold(histogram, format));
    }
    return best_pair(histogram, format);
}

} // namespace lathe
