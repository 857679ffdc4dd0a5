#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// An 8-bit RGB picture, rows from the top, pixels interleaved (R, G, B), no padding.
struct Image {
    std::size_t width = 0;
    std::size_t height = 0;
    std::vector<std::uint8_t> pixels; ///< height * width * 3

    Image() = default;
    Image(std::size_t width_, std::size_t height_) : width(width_), height(height_), pixels(width_ * height_ * 3) {}
};

/// Largest picture that is decoded, in pixels: Pillow's own limit against decompression bombs.
inline constexpr std::size_t max_image_pixels = 178'956'970;
/// Largest width and height, which bounds the resize weights.
inline constexpr std::size_t max_image_side = 1'000'000;

/// Decode a JPEG or PNG as Pillow's `Image.open(file).convert("RGB")` does: EXIF orientation and colour profiles are
/// not applied, transparency is dropped, CMYK is read with Adobe's polarity, 16-bit grey is clipped and 16-bit colour
/// keeps its high byte. JPEGs use libjpeg-turbo's slow integer DCT and fancy upsampling, so pixels equal Pillow's.
/// `where` names the source in errors. Errors: parse_error (truncated or damaged), unsupported (another format),
/// out_of_memory (more than max_image_pixels).
Result<Image> decode_image(std::span<const std::byte> bytes, std::string_view where);

/// Read and decode a file.
Result<Image> read_image(const std::filesystem::path& path);

/// Files that read_image may be able to read, by their extension (.jpg, .jpeg, .png; any case).
bool has_image_extension(const std::filesystem::path& path);

} // namespace lathe
