#include "calibrate/estimators.hpp"
#include "calibrate/magnitudes.hpp"

namespace lathe {

Range minmax_range(const Histogram& histogram, const NumberFormat& format, const EstimateOptions& /*options*/) {
    return range_from_threshold(histogram, format, static_cast<double>(histogram.absmax()));
}

} // namespace lathe
