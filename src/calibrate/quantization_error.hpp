#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "calibrate/histogram.hpp"
#include "calibrate/range.hpp"

namespace lathe {

/// A uniform quantiser: x becomes scale * clamp(round(x / scale), lowest, highest). `lowest` <= 0 <= `highest`.
struct UniformGrid {
    double scale = 1.0;
    int lowest = 0;
    int highest = 255;
};

/// The grid that a range means in a format (the formulas of NumberFormat). scale 0 for the range {0, 0}.
UniformGrid grid_of(const Range& range, const NumberFormat& format);

/// Sum of squared errors of a histogram's values on a grid, in closed form. Values lie evenly in their bin, the bin
/// being cut off at the extremes seen. With u = x/s, m = round(u), r = u - m and c = clamp(x, s lowest, s highest),
///   E(x) = s^3 (m/12 + r^3/3) + (x - c)^3/3   (m and r of c)
/// is an antiderivative of (x - q(x))^2, so a bin [a, b) with n values adds n (E(b) - E(a)) / (b - a).
class QuantizationError {
public:
    /// Of the values themselves.
    explicit QuantizationError(const Histogram& histogram);
    /// Of |x|, for grids that are symmetric or one-sided: half the work.
    static QuantizationError of_magnitudes(const Histogram& histogram);

    double operator()(const UniformGrid& grid) const;
    /// Sum of x^2, by the same assumption.
    double power() const;

private:
    QuantizationError(std::span<const std::uint64_t> counts, int first, double width, double least, double greatest);

    struct Point {
        double value;
        double count;
    };
    std::vector<double> edges_;   // of bins, ascending
    std::vector<double> weights_; // of E at each edge: density below it less density above it
    std::vector<Point> points_;   // bins without width: an extreme that lies on a bin's edge
};

/// How well a range suits a tensor.
struct RangeQuality {
    double clipped_fraction = 0.0; ///< of the finite values, zeros included
    double sqnr_db = 0.0;          ///< 10 log10(sum x^2 / sum (x - q(x))^2); +infinity without any error
};
RangeQuality judge(const Histogram& histogram, const Range& range, const NumberFormat& format);

} // namespace lathe
