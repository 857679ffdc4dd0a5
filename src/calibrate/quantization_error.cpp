#include "calibrate/quantization_error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "calibrate/magnitudes.hpp"
#include "support/multiversion.hpp"

namespace lathe {

namespace {

/// Round to nearest even by adding and taking away 1.5 * 2^52: vectorises on every x86, unlike std::nearbyint.
[[gnu::always_inline]] inline double round_small(double x) {
    constexpr double magic = 6755399441055744.0;
    return (x + magic) - magic;
}

/// What an edge adds to the error, in units of the cubed scale. Inlined, so that it takes the caller's instructions.
[[gnu::always_inline]] inline double edge_term(double edge, double weight, double inverse, double lowest,
                                               double highest) {
    const double u = edge * inverse;
    const double inside = u < lowest ? lowest : (u > highest ? highest : u);
    const double level = round_small(inside);
    const double rest = inside - level;
    const double over = u - inside;
    return weight * (level * (1.0 / 12.0) + (rest * rest * rest + over * over * over) * (1.0 / 3.0));
}

/// The sum over all edges. With the widest registers of the machine; products are not fused with sums (CMakeLists.txt),
/// so every machine gives the same to the bit.
LATHE_MULTIVERSION
double sum_over_edges(const double* edges, const double* weights, std::size_t count, double inverse, double lowest,
                      double highest) {
    constexpr std::size_t lanes = 8; // independent sums, so that the loop vectorises without reordering additions
    std::array<double, lanes> sums{};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += edge_term(edges[i + lane], weights[i + lane], inverse, lowest, highest);
    }
    double total = 0.0;
    for (; i < count; ++i)
        total += edge_term(edges[i], weights[i], inverse, lowest, highest);
    for (const double sum : sums)
        total += sum;
    return total;
}

std::vector<std::uint64_t> signed_counts(const Histogram& histogram) {
    std::vector<std::uint64_t> counts;
    for (int i = histogram.first_bin(); i < histogram.end_bin(); ++i)
        counts.push_back(histogram.bin(i));
    return counts;
}

} // namespace

UniformGrid grid_of(const Range& range, const NumberFormat& format) {
    if (format.symmetric) {
        const int half = (format.levels - 1) / 2;
        const double bound = std::max(-static_cast<double>(range.low), static_cast<double>(range.high));
        return {bound / half, -half, half};
    }
    const int last = format.levels - 1;
    const double scale = (static_cast<double>(range.high) - static_cast<double>(range.low)) / last;
    if (scale == 0.0) return {0.0, 0, last};
    const int zero_point = std::clamp(static_cast<int>(std::lround(-static_cast<double>(range.low) / scale)), 0, last);
    return {scale, -zero_point, last - zero_point};
}

QuantizationError::QuantizationError(std::span<const std::uint64_t> counts, int first, double width, double least,
                                     double greatest) {
    if (counts.empty()) return;
    const std::size_t size = counts.size();
    edges_.resize(size + 1);
    weights_.assign(size + 1, 0.0);
    for (std::size_t i = 0; i <= size; ++i)
        edges_[i] = std::clamp((first + static_cast<double>(i)) * width, least, greatest);
    for (std::size_t i = 0; i < size; ++i) {
        if (counts[i] == 0) continue;
        const auto counted = static_cast<double>(counts[i]);
        const double extent = edges_[i + 1] - edges_[i];
        if (extent <= width * 1e-6) {
            points_.push_back({edges_[i], counted});
            continue;
        }
        weights_[i] -= counted / extent;
        weights_[i + 1] += counted / extent;
    }
}

QuantizationError::QuantizationError(const Histogram& histogram)
    : QuantizationError(signed_counts(histogram), histogram.first_bin(), histogram.bin_width(),
                        static_cast<double>(histogram.min()), static_cast<double>(histogram.max())) {}

QuantizationError QuantizationError::of_magnitudes(const Histogram& histogram) {
    double least = 0.0;
    if (histogram.min() > 0.0F) least = static_cast<double>(histogram.min());
    if (histogram.max() < 0.0F) least = -static_cast<double>(histogram.max());
    return QuantizationError(magnitude_counts(histogram), 0, histogram.bin_width(), least,
                             static_cast<double>(histogram.absmax()));
}

double QuantizationError::operator()(const UniformGrid& grid) const {
    if (grid.scale <= 0.0) return power();
    const double scale = grid.scale;
    const double inverse = 1.0 / scale;
    const double cube = scale * scale * scale;
    const double lowest = grid.lowest;
    const double highest = grid.highest;
    double total = cube * sum_over_edges(edges_.data(), weights_.data(), edges_.size(), inverse, lowest, highest);
    for (const Point& point : points_) {
        const double code =
            std::clamp(round_small(std::clamp(point.value * inverse, lowest, highest)), lowest, highest);
        const double error = point.value - code * scale;
        total += point.count * error * error;
    }
    return std::max(total, 0.0); // rounding may leave a negative nothing
}

double QuantizationError::power() const {
    double total = 0.0;
    for (std::size_t i = 0; i < edges_.size(); ++i)
        total += weights_[i] * edges_[i] * edges_[i] * edges_[i] / 3.0;
    for (const Point& point : points_)
        total += point.count * point.value * point.value;
    return std::max(total, 0.0);
}

RangeQuality judge(const Histogram& histogram, const Range& range, const NumberFormat& format) {
    RangeQuality quality;
    if (histogram.finite_count() == 0) {
        quality.sqnr_db = std::numeric_limits<double>::infinity();
        return quality;
    }
    const UniformGrid grid = grid_of(range, format);
    const double width = histogram.bin_width();
    const double low = grid.lowest * grid.scale;
    const double high = grid.highest * grid.scale;
    const auto least = static_cast<double>(histogram.min());
    const auto greatest = static_cast<double>(histogram.max());
    // float rounding of the range alone is no clipping
    const double slack = width * 1e-3;
    double clipped = 0.0;
    for (int i = histogram.first_bin(); i < histogram.end_bin(); ++i) {
        const double begin = std::max(i * width, least);
        const double end = std::min((i + 1) * width, greatest);
        const double extent = std::max(end - begin, width * 1e-6);
        const double outside = std::max(0.0, end - high - slack) + std::max(0.0, low - slack - begin);
        clipped += static_cast<double>(histogram.bin(i)) * std::min(1.0, outside / extent);
    }
    quality.clipped_fraction = clipped / static_cast<double>(histogram.finite_count());
    const QuantizationError error(histogram);
    const double noise = error(grid);
    const double power = error.power();
    quality.sqnr_db = noise > 0.0 ? 10.0 * std::log10(power / noise) : std::numeric_limits<double>::infinity();
    return quality;
}

} // namespace lathe
