#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lathe {

/// How one axis of pictures is resized: output pixel i is the sum of count[i] input pixels from first[i] on, weighted
/// by weights[i * taps ...], which have 22 fractional bits; the sum is rounded and clamped to 0..255.
struct PictureAxis {
    std::size_t taps = 0;
    std::vector<std::int32_t> first, count, weights;
};

/// A decoded picture and where it goes.
struct Picture {
    const std::uint8_t* pixels = nullptr; ///< RGB, 8 bits a channel, row by row without gaps; owned by somebody else
    std::size_t width = 0, height = 0;
    std::size_t columns = 0, rows = 0; ///< which of PictureBatch::axes; as long as the region is wide and high
    bool rows_first = false;           ///< the order of the two sums, which are rounded one by one
    std::size_t left = 0, top = 0;     ///< of the region in the output; around it pixels are 0
};

/// Pictures that a device resizes, crops, normalises and lays out itself, all numbers worked out.
struct PictureBatch {
    std::vector<Picture> pictures;
    std::vector<PictureAxis> axes; ///< shared by pictures of the same size
    std::size_t height = 0, width = 0;
    std::array<std::array<float, 256>, 3> values{}; ///< the model's value of each pixel value, by its channel
    bool channels_last = false;
    bool bgr = false; ///< the model's channels are blue, green, red
};

} // namespace lathe
