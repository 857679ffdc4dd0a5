#include "data/encode.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <jpeglib.h>
#include <png.h>

#include "support/files.hpp"

namespace lathe {

namespace {

constexpr std::size_t jpeg_side_limit = 65500;

Error cannot_encode(std::string_view what) {
    return {ErrorCode::internal, "the picture cannot be encoded: " + std::string(what), "", ""};
}

Result<void> check_pixels(const Image& image) {
    if (image.width > 0 && image.height > 0 && image.pixels.size() == image.width * image.height * 3) return {};
    return Error{ErrorCode::invalid_argument, "the image has no pixels", "encode", ""};
}

/// libjpeg reports failures by a call that must not return. No object with a destructor lives in a frame that longjmp
/// leaves: everything is owned by encode_jpeg.
struct JpegEncoder {
    jpeg_compress_struct info{};
    jpeg_error_mgr errors{};
    std::jmp_buf escape{};
    std::array<char, JMSG_LENGTH_MAX> message{};
    unsigned char* bytes = nullptr;
    unsigned long size = 0;

    JpegEncoder() = default;
    JpegEncoder(const JpegEncoder&) = delete;
    JpegEncoder& operator=(const JpegEncoder&) = delete;
    ~JpegEncoder() {
        jpeg_destroy_compress(&info);
        std::free(bytes); // NOLINT(cppcoreguidelines-no-malloc): libjpeg's jpeg_mem_dest allocates with malloc
    }
};

void fail_encoding(j_common_ptr info) {
    auto* encoder = static_cast<JpegEncoder*>(info->client_data);
    info->err->format_message(info, encoder->message.data());
    std::longjmp(encoder->escape, 1); // NOLINT(modernize-avoid-setjmp-longjmp)
}

bool compress(JpegEncoder& encoder, const Image& image, int quality) {
    if (setjmp(encoder.escape) != 0) return false; // NOLINT(modernize-avoid-setjmp-longjmp)
    jpeg_create_compress(&encoder.info);
    jpeg_mem_dest(&encoder.info, &encoder.bytes, &encoder.size);
    encoder.info.image_width = static_cast<JDIMENSION>(image.width);
    encoder.info.image_height = static_cast<JDIMENSION>(image.height);
    encoder.info.input_components = 3;
    encoder.info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&encoder.info);
    jpeg_set_quality(&encoder.info, quality, TRUE);
    jpeg_start_compress(&encoder.info, TRUE);
    while (encoder.info.next_scanline < encoder.info.image_height) {
        auto* row = const_cast<JSAMPLE*>(image.pixels.data() + encoder.info.next_scanline * image.width * 3);
        jpeg_write_scanlines(&encoder.info, &row, 1);
    }
    jpeg_finish_compress(&encoder.info);
    return true;
}

} // namespace

Result<std::vector<std::byte>> encode_jpeg(const Image& image, int quality) {
    LATHE_CHECK(check_pixels(image));
    if (image.width > jpeg_side_limit || image.height > jpeg_side_limit) {
        return Error{ErrorCode::invalid_argument, "a JPEG has at most 65500 pixels a side", "encode", "write a .png"};
    }
    JpegEncoder encoder;
    encoder.info.err = jpeg_std_error(&encoder.errors);
    encoder.errors.error_exit = fail_encoding;
    encoder.info.client_data = &encoder;
    if (!compress(encoder, image, std::clamp(quality, 1, 100))) return cannot_encode(encoder.message.data());
    std::vector<std::byte> bytes(encoder.size);
    std::memcpy(bytes.data(), encoder.bytes, encoder.size);
    return bytes;
}

Result<std::vector<std::byte>> encode_png(const Image& image) {
    LATHE_CHECK(check_pixels(image));
    png_image png{};
    png.version = PNG_IMAGE_VERSION;
    png.width = static_cast<png_uint_32>(image.width);
    png.height = static_cast<png_uint_32>(image.height);
    png.format = PNG_FORMAT_RGB;
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
    std::vector<std::byte> bytes(size);
    if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0)
        return cannot_encode(png.message);
    bytes.resize(size);
    return bytes;
}

Result<void> write_image(const std::filesystem::path& path, const Image& image) {
    std::string extension = path.extension().string();
    std::ranges::transform(extension, extension.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (!has_image_extension(path)) {
        return Error{ErrorCode::unsupported, "pictures are written as .jpg or .png", path.string(), "name it so"};
    }
    LATHE_TRY(const auto bytes, extension == ".png" ? encode_png(image) : encode_jpeg(image));
    return write_file(path, bytes);
}

} // namespace lathe
