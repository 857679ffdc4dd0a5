#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/image.hpp"
#include "data/preprocess.hpp"
#include "lathe/pictures.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// The numbers with which a device does what `Preprocess::apply` does, bit for bit. The pictures' pixels are not
/// copied: `images` outlives the batch. Errors: invalid_argument (no pixels, no size to resize or crop to);
/// unsupported (OpenCV's resize, padding with other than 0).
Result<PictureBatch> picture_batch(std::span<const Image> images, const Preprocess& preprocess);

/// Pixels of an 8-bit RGB picture, as of an Image, that lie in somebody else's memory.
struct PixelView {
    const std::uint8_t* pixels = nullptr; ///< height * width * 3
    std::size_t width = 0;
    std::size_t height = 0;
};
/// The same for pictures that were never images of ours.
Result<PictureBatch> picture_batch(std::span<const PixelView> pictures, const Preprocess& preprocess);
/// Why picture_batch refuses this preprocessing, whatever the pictures. Errors: as above.
Result<void> check_picture_batch(const Preprocess& preprocess);

} // namespace lathe
