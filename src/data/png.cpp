#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <png.h>

#include "data/decode.hpp"
#include "data/pixel_values.hpp"
#include "support/files.hpp"

namespace lathe::detail {

namespace {

/// libpng leaves its C frames by longjmp; no object with a destructor lives in a frame that it leaves.
struct PngDecoder {
    png_structp png = nullptr;
    png_infop info = nullptr;
    std::span<const std::byte> rest;
    bool cut_short = false;
    std::array<char, 128> message{};

    PngDecoder() = default;
    PngDecoder(const PngDecoder&) = delete;
    PngDecoder& operator=(const PngDecoder&) = delete;
    ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

void fail_png(png_structp png, png_const_charp message) {
    auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(decoder->message.data(), decoder->message.size(), "%s", message);
    png_longjmp(png, 1);
}

void ignore_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void read_bytes(png_structp png, png_bytep out, png_size_t count) {
    auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > decoder->rest.size()) {
        decoder->cut_short = true;
        png_error(png, "the file is cut short");
    }
    std::memcpy(out, decoder->rest.data(), count);
    decoder->rest = decoder->rest.subspan(count);
}

struct PngHeader {
    png_uint_32 width = 0;
    png_uint_32 height = 0;
    bool stored = false; ///< asked for: values as they are stored, no conversion but to whole bytes
    std::size_t channels = 3;
    std::size_t bytes = 1; ///< a value
    bool grey16 = false;   ///< 16-bit grey without alpha is kept at 16 bits, because Pillow clips it
};

/// Reads the header and sets the conversions to 8-bit RGB (or big-endian 16-bit grey). False after an error.
bool begin(PngDecoder& decoder, PngHeader& header) {
    if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
    png_set_read_fn(decoder.png, &decoder, read_bytes);
    // The pixel limit is checked afterwards; libpng's own side limit would give a less clear message.
    png_set_user_limits(decoder.png, 0x7FFFFFFF, 0x7FFFFFFF);
    png_read_info(decoder.png, decoder.info);
    header.width = png_get_image_width(decoder.png, decoder.info);
    header.height = png_get_image_height(decoder.png, decoder.info);
    const int depth = png_get_bit_depth(decoder.png, decoder.info);
    const int color = png_get_color_type(decoder.png, decoder.info);
    header.grey16 = color == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (header.stored) {
        png_set_packing(decoder.png);
        png_set_strip_alpha(decoder.png);
        header.channels = color == PNG_COLOR_TYPE_RGB || color == PNG_COLOR_TYPE_RGB_ALPHA ? 3 : 1;
        header.bytes = depth == 16 ? 2 : 1;
    } else if (!header.grey16) {
        if (depth == 16) png_set_strip_16(decoder.png);
        if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(decoder.png);
        if (color == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(decoder.png);
        if ((color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(decoder.png);
        png_set_strip_alpha(decoder.png);
    }
    png_set_interlace_handling(decoder.png);
    png_read_update_info(decoder.png, decoder.info);
    return true;
}

/// False after an error.
bool read_rows(PngDecoder& decoder, png_bytepp rows) {
    if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
    png_read_image(decoder.png, rows);
    png_read_end(decoder.png, nullptr);
    return true;
}

/// Reads all pixels to where `room`, given the header, has made room for rows of `stride` bytes.
Result<PngHeader> decode(std::span<const std::byte> bytes, std::string_view where, bool stored,
                         const std::function<std::uint8_t*(const PngHeader&, std::size_t stride)>& room) {
    PngDecoder decoder;
    decoder.rest = bytes;
    decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail_png, ignore_warning);
    if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
    if (decoder.info == nullptr) {
        return Error{ErrorCode::out_of_memory, "no memory to decode the image", std::string(where), ""};
    }
    const auto failure = [&] {
        return damaged_image(decoder.cut_short ? "the file is cut short" : decoder.message.data(), where);
    };
    PngHeader header;
    header.stored = stored;
    if (!begin(decoder, header)) return failure();
    LATHE_CHECK(check_dimensions(header.width, header.height, where));
    // Deflate shrinks at most 1032-fold and a byte holds at most 8 pixels.
    if (std::size_t{header.width} * header.height / 8256 > bytes.size())
        return damaged_image("the file is cut short", where);

    const std::size_t stride = png_get_rowbytes(decoder.png, decoder.info);
    const std::size_t value = stored ? header.channels * header.bytes : header.grey16 ? 2 : 3;
    if (stride != std::size_t{header.width} * value) return damaged_image("unexpected row size", where);
    std::uint8_t* const base = room(header, stride);
    std::vector<png_bytep> rows(header.height);
    for (std::size_t y = 0; y < header.height; ++y)
        rows[y] = base + y * stride;
    if (!read_rows(decoder, rows.data())) return failure();
    return header;
}

} // namespace

Result<Image> decode_png(std::span<const std::byte> bytes, std::string_view where) {
    Image image;
    std::vector<std::uint8_t> grey;
    auto header = decode(bytes, where, false, [&](const PngHeader& found, std::size_t stride) {
        image = Image(found.width, found.height);
        if (found.grey16) grey.resize(stride * found.height);
        return found.grey16 ? grey.data() : image.pixels.data();
    });
    if (!header) return std::move(header).error();
    for (std::size_t i = 0; i < grey.size() / 2; ++i) {
        const std::uint8_t clipped = grey[2 * i] != 0 ? std::uint8_t{255} : grey[2 * i + 1];
        std::fill_n(image.pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, clipped);
    }
    return image;
}

} // namespace lathe::detail

namespace lathe {

Result<PixelValues> decode_pixel_values(std::span<const std::byte> bytes, std::string_view where) {
    constexpr std::array<unsigned char, 8> signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    if (bytes.size() < signature.size() || std::memcmp(bytes.data(), signature.data(), signature.size()) != 0) {
        return Error{ErrorCode::unsupported, "not a PNG image", std::string(where),
                     "masks and maps are read from PNG, which keeps their numbers"};
    }
    try {
        std::vector<std::uint8_t> raw;
        LATHE_TRY(const auto header,
                  detail::decode(bytes, where, true, [&](const detail::PngHeader& found, std::size_t stride) {
                      raw.resize(stride * found.height);
                      return raw.data();
                  }));
        PixelValues pixels{header.width, header.height, header.channels, {}};
        pixels.values.resize(raw.size() / header.bytes);
        for (std::size_t i = 0; i < pixels.values.size(); ++i) {
            pixels.values[i] =
                header.bytes == 1 ? raw[i] : static_cast<std::uint16_t>(raw[2 * i] << 8 | raw[2 * i + 1]); // big-endian
        }
        return pixels;
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::out_of_memory, "no memory to decode the image", std::string(where), ""};
    }
}

Result<PixelValues> read_pixel_values(const std::filesystem::path& path) {
    LATHE_TRY(const auto file, MappedFile::open(path));
    return decode_pixel_values(file->bytes(), path.string());
}

} // namespace lathe
