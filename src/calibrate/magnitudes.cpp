#include "calibrate/magnitudes.hpp"

#include <algorithm>

namespace lathe {

std::vector<std::uint64_t> magnitude_counts(const Histogram& histogram) {
    const int size = std::max(histogram.end_bin(), -histogram.first_bin());
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i)
        counts[static_cast<std::size_t>(i)] = histogram.bin(i) + histogram.bin(-1 - i);
    return counts;
}

Range range_from_threshold(const Histogram& histogram, const NumberFormat& format, double threshold) {
    const float bound = std::min(static_cast<float>(threshold), histogram.absmax());
    if (format.symmetric) return {-bound, bound};
    return {std::min(0.0F, std::max(histogram.min(), -bound)), std::max(0.0F, std::min(histogram.max(), bound))};
}

bool is_one_dimensional(const Histogram& histogram, const NumberFormat& format) {
    return format.symmetric || histogram.min() >= 0.0F || histogram.max() <= 0.0F;
}

int steps_to_threshold(const NumberFormat& format) {
    return format.symmetric ? (format.levels - 1) / 2 : format.levels - 1;
}

} // namespace lathe
