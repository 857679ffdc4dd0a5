#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/image.hpp"

namespace lathe {

enum class Interpolation {
    bilinear,        ///< triangle, support 1
    bicubic,         ///< Keys' cubic convolution with a = -0.5, support 2
    bilinear_opencv, ///< of the four nearest pixels, however much smaller the picture becomes (see resize_opencv)
};
/// "bilinear", "bicubic", "bilinear-opencv".
const char* to_string(Interpolation interpolation);

/// A rectangle of pixels.
struct Region {
    std::size_t left = 0;
    std::size_t top = 0;
    std::size_t width = 0;
    std::size_t height = 0;
};

/// For each output position of an axis: the first input position, their number, and the weights, with 22 fractional
/// bits. The sum is rounded and clamped to 8 bits.
struct ResizeWeights {
    std::size_t taps = 0; ///< weights stored a position
    std::vector<std::size_t> first;
    std::vector<std::size_t> count;
    std::vector<std::int32_t> values;

    const std::int32_t* of(std::size_t position) const { return values.data() + position * taps; }
};

/// Weights of the output positions begin..begin+size of an axis that goes from `input` to `output` pixels. Between
/// equal sizes pixels stay as they are.
ResizeWeights resize_weights(std::size_t input, std::size_t output, std::size_t begin, std::size_t size,
                             Interpolation interpolation);
/// Which axis `resize` combines first, columns or rows, where both change.
bool resizes_rows_first(std::size_t input_width, std::size_t input_height, std::size_t width, std::size_t height);

/// OpenCV's resize of 8-bit pixels with INTER_LINEAR, bit for bit, as most detectors read their pictures: the four
/// nearest pixels with weights of 11 fractional bits, without antialiasing; half the size is the mean of four pixels.
/// Errors: as `resize`.
Result<Image> resize_opencv(const Image& image, std::size_t width, std::size_t height);

/// Antialiased resize to width x height, equal to Pillow's `Image.resize` on 8-bit pixels bit for bit.
///
/// Output pixel x has its centre at c = (x + 0.5) * s, s = input / output, and is the sum of the input pixels around
/// it, weighted by the filter widened by max(s, 1) and normalised. Columns first, then rows; between the two, and at
/// the end, values are rounded to 8 bits. Weights are rounded to 22 fractional bits (half away from zero). Errors:
/// invalid_argument for an empty picture or size; out_of_memory above max_image_pixels.
/// Interpolation::bilinear_opencv is resize_opencv instead.
Result<Image> resize(const Image& image, std::size_t width, std::size_t height, Interpolation interpolation);

/// The same pixels as `resize` gives inside `region`, without computing the others.
/// Errors: as `resize`; invalid_argument when the region is not inside width x height.
Result<Image> resize_region(const Image& image, std::size_t width, std::size_t height, Interpolation interpolation,
                            const Region& region);

} // namespace lathe
