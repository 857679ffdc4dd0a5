#pragma once

#include <cstdint>
#include <string>

#include "autocast/format.hpp"
#include "calibrate/histogram.hpp"
#include "graph/tensor.hpp"

namespace lathe {

/// A count that a histogram knows only between two bounds, since its bins have a width.
struct CountBounds {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    bool operator==(const CountBounds&) const = default;
};

/// What one tensor would lose in a 16-bit format.
struct TensorFacts {
    std::string tensor;
    bool constant = false;
    double absmax = 0;           ///< of the finite values
    double mean_square = 0;      ///< of the finite values; by bin centres where measured
    std::uint64_t values = 0;    ///< all
    std::uint64_t nonfinite = 0; ///< NaN and infinities, which both formats hold as they are
    CountBounds over;            ///< |x| above the format's largest finite value
    CountBounds subnormal;       ///< 0 < |x| under the smallest normal number, flushed ones included
    CountBounds flushed;         ///< of these, those that round to 0
    /// L2 norm of what is lost by underflow over the L2 norm of the tensor; for constants the whole rounding error.
    double relative_error = 0;
    /// It holds masks of attention scores (support/score_mask.hpp), which are clamped; the figures are of the rest.
    bool masked = false;
};

/// Exact, value by value. `tensor` must be float32.
TensorFacts facts_of(const Tensor& tensor, const HalfFormat& format);
/// From what calibration saw; the counts are bounds.
TensorFacts facts_of(const std::string& name, const Histogram& histogram, const HalfFormat& format);

} // namespace lathe
