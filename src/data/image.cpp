#include "data/image.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "data/decode.hpp"
#include "support/files.hpp"

namespace lathe {

namespace detail {

Error damaged_image(std::string_view what, std::string_view where) {
    return {ErrorCode::parse_error, "damaged image: " + std::string(what), std::string(where),
            "replace the file, or leave it out of the data"};
}

Result<void> check_dimensions(std::size_t width, std::size_t height, std::string_view where) {
    if (width == 0 || height == 0) return damaged_image("it has no pixels", where);
    if (width > max_image_side || height > max_image_side || width > max_image_pixels / height) {
        return Error{ErrorCode::out_of_memory,
                     "image of " + std::to_string(width) + "x" + std::to_string(height) + " pixels is too large",
                     std::string(where), "at most " + std::to_string(max_image_pixels) + " pixels are decoded"};
    }
    return {};
}

} // namespace detail

Result<Image> decode_image(std::span<const std::byte> bytes, std::string_view where) {
    constexpr std::array<unsigned char, 3> jpeg_signature{0xFF, 0xD8, 0xFF};
    constexpr std::array<unsigned char, 8> png_signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    const auto starts_with = [&](std::span<const unsigned char> signature) {
        return bytes.size() >= signature.size() && std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
    };
    if (bytes.empty()) return detail::damaged_image("the file is empty", where);
    try {
        if (starts_with(jpeg_signature)) return detail::decode_jpeg(bytes, where);
        if (starts_with(png_signature)) return detail::decode_png(bytes, where);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::out_of_memory, "no memory to decode the image", std::string(where), ""};
    }
    return Error{ErrorCode::unsupported, "not a JPEG or PNG image", std::string(where),
                 "convert it to JPEG or PNG, or leave it out of the data"};
}

Result<Image> read_image(const std::filesystem::path& path) {
    LATHE_TRY(const auto file, MappedFile::open(path));
    return decode_image(file->bytes(), path.string());
}

bool has_image_extension(const std::filesystem::path& path) {
    std::string extension = path.extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

} // namespace lathe
