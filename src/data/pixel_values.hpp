#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// A PNG's values as they are stored: indices of a palette, grey of 1 to 16 bits unscaled, or R, G, B.
struct PixelValues {
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t channels = 1;          ///< 1, or 3: interleaved; transparency is dropped
    std::vector<std::uint16_t> values; ///< height * width * channels
};

/// For masks of classes and maps of depth, whose numbers must not be turned into colours.
/// Errors: parse_error (truncated or damaged), unsupported (no PNG), out_of_memory (more than max_image_pixels).
Result<PixelValues> decode_pixel_values(std::span<const std::byte> bytes, std::string_view where);
Result<PixelValues> read_pixel_values(const std::filesystem::path& path);

} // namespace lathe
