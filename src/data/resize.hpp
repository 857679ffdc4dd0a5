#pragma once

#include <cstddef>

#include "data/image.hpp"

namespace lathe {

enum class Interpolation {
    bilinear, ///< triangle, support 1
    bicubic,  ///< Keys' cubic convolution with a = -0.5, support 2
};

/// A rectangle of pixels.
struct Region {
    std::size_t left = 0;
    std::size_t top = 0;
    std::size_t width = 0;
    std::size_t height = 0;
};

/// Antialiased resize to width x height, equal to Pillow's `Image.resize` on 8-bit pixels bit for bit.
///
/// Output pixel x has its centre at c = (x + 0.5) * s, s = input / output, and is the sum of the input pixels around
/// it, weighted by the filter widened by max(s, 1) and normalised. Columns first, then rows; between the two, and at
/// the end, values are rounded to 8 bits. Weights are rounded to 22 fractional bits (half away from zero). Errors:
/// invalid_argument for an empty picture or size; out_of_memory above max_image_pixels.
Result<Image> resize(const Image& image, std::size_t width, std::size_t height, Interpolation interpolation);

/// The same pixels as `resize` gives inside `region`, without computing the others.
/// Errors: as `resize`; invalid_argument when the region is not inside width x height.
Result<Image> resize_region(const Image& image, std::size_t width, std::size_t height, Interpolation interpolation,
                            const Region& region);

} // namespace lathe
