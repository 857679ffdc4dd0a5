#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/histogram.hpp"
#include "calibrate/range.hpp"

namespace lathe {

/// Counts of |x| in the histogram's own bins, both signs added; exact zeros left out. Bin i is [i w, (i+1) w), for
/// negative values (i w, (i+1) w]. The last bin is not empty. Empty when only zeros were seen.
std::vector<std::uint64_t> magnitude_counts(const Histogram& histogram);

/// The range that a threshold T on |x| means for a format, within what was seen.
Range range_from_threshold(const Histogram& histogram, const NumberFormat& format, double threshold);

/// Whether one threshold says it all: a symmetric format, or values on one side of zero only.
bool is_one_dimensional(const Histogram& histogram, const NumberFormat& format);

/// Steps from zero to the threshold: 127 for int8, 255 for one-sided data in uint8.
int steps_to_threshold(const NumberFormat& format);

} // namespace lathe
