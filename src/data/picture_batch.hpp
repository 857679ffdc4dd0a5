#pragma once

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

} // namespace lathe
