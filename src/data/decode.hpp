#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "data/image.hpp"

// The decoders behind decode_image, one a format. Each is given bytes that begin with its format's signature.
namespace lathe::detail {

Result<Image> decode_jpeg(std::span<const std::byte> bytes, std::string_view where);
Result<Image> decode_png(std::span<const std::byte> bytes, std::string_view where);

/// The picture is damaged: the error all decoders give.
Error damaged_image(std::string_view what, std::string_view where);

/// Fails for empty pictures and for those above max_image_pixels.
Result<void> check_dimensions(std::size_t width, std::size_t height, std::string_view where);

} // namespace lathe::detail
