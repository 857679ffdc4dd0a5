#include <algorithm>

#include "calibrate/estimators.hpp"
#include "calibrate/magnitudes.hpp"

namespace lathe {

namespace {

/// Least T with at most `beyond` values over it, where count_at(i) values lie evenly in [i w, (i+1) w), 0 <= i < size.
template <class CountAt>
double upper_threshold(int size, double width, double beyond, CountAt count_at) {
    for (int i = size - 1; i >= 0; --i) {
        const auto counted = static_cast<double>(count_at(i));
        if (counted > beyond) return (i + 1 - beyond / counted) * width;
        beyond -= counted;
    }
    return 0.0;
}

} // namespace

Range percentile_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& options) {
    const double width = histogram.bin_width();
    const double beyond = (1.0 - options.percentile / 100.0) * static_cast<double>(histogram.finite_count());
    Range range;
    if (is_one_dimensional(histogram, format)) {
        const auto counts = magnitude_counts(histogram);
        const double threshold = upper_threshold(static_cast<int>(counts.size()), width, beyond,
                                                 [&](int i) { return counts[static_cast<std::size_t>(i)]; });
        range = range_from_threshold(histogram, format, threshold);
    } else {
        const double high =
            upper_threshold(histogram.end_bin(), width, beyond / 2, [&](int i) { return histogram.bin(i); });
        const double low =
            upper_threshold(-histogram.first_bin(), width, beyond / 2, [&](int i) { return histogram.bin(-1 - i); });
        range = {std::max(histogram.min(), static_cast<float>(-low)),
                 std::min(histogram.max(), static_cast<float>(high))};
    }
    return range.low == 0.0F && range.high == 0.0F ? minmax_range(histogram, format, options) : range;
}

} // namespace lathe
