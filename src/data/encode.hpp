#pragma once

#include <filesystem>
#include <vector>

#include "data/image.hpp"

namespace lathe {

/// The picture as a JPEG file's bytes, baseline, 4:2:0; quality 1..100 as libjpeg counts it.
/// Errors: invalid_argument without pixels, or with a side above 65500 (the format's limit).
Result<std::vector<std::byte>> encode_jpeg(const Image& image, int quality = 90);
/// The picture as a PNG file's bytes, 8-bit RGB. Errors: invalid_argument without pixels.
Result<std::vector<std::byte>> encode_png(const Image& image);
/// Writes a .jpg, .jpeg or .png file, whole or not at all. Errors: unsupported (another extension); io.
Result<void> write_image(const std::filesystem::path& path, const Image& image);

} // namespace lathe
