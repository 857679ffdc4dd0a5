#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>

#include <jerror.h>
#include <jpeglib.h>

#include "data/decode.hpp"

namespace lathe::detail {

namespace {

/// libjpeg reports failures by a call that must not return; the only way out through its C frames is longjmp.
/// No object with a destructor lives in a frame that longjmp leaves: everything is owned by decode_jpeg.
struct JpegDecoder {
    jpeg_decompress_struct info{};
    jpeg_error_mgr errors{};
    jpeg_source_mgr source{};
    std::jmp_buf escape{};
    std::array<char, JMSG_LENGTH_MAX> message{};
};

void fail_jpeg(j_common_ptr info) {
    auto* decoder = static_cast<JpegDecoder*>(info->client_data);
    info->err->format_message(info, decoder->message.data());
    std::longjmp(decoder->escape, 1); // NOLINT(modernize-avoid-setjmp-longjmp)
}

void ignore_message(j_common_ptr /*info*/) {}
void no_source_action(j_decompress_ptr /*info*/) {}

/// All bytes were given at the start, so a request for more means that the file is cut short. Pillow refuses it too.
boolean refuse_more(j_decompress_ptr info) {
    auto* common = reinterpret_cast<j_common_ptr>(info);
    info->err->msg_code = JERR_INPUT_EOF;
    fail_jpeg(common);
    return FALSE;
}

void skip_input(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    const auto skipped = static_cast<std::size_t>(count);
    if (skipped > info->src->bytes_in_buffer) {
        refuse_more(info);
        return;
    }
    info->src->next_input_byte += skipped;
    info->src->bytes_in_buffer -= skipped;
}

/// Reads the header and chooses the output colours. False after an error.
bool begin(JpegDecoder& decoder) {
    if (setjmp(decoder.escape) != 0) return false;
    jpeg_create_decompress(&decoder.info);
    decoder.info.client_data = &decoder;
    decoder.info.src = &decoder.source;
    // Large progressive files would otherwise take memory for all their coefficients without bound.
    decoder.info.mem->max_memory_to_use = 2L << 30;
    jpeg_read_header(&decoder.info, TRUE);
    const bool four_channels = decoder.info.num_components == 4;
    decoder.info.out_color_space = four_channels ? JCS_CMYK : JCS_RGB;
    decoder.info.dct_method = JDCT_ISLOW;
    decoder.info.do_fancy_upsampling = TRUE;
    return true;
}

/// `rows` has room for the picture in info.output_components channels. False after an error.
bool read_rows(JpegDecoder& decoder, JSAMPLE* rows, std::size_t stride) {
    if (setjmp(decoder.escape) != 0) return false;
    jpeg_start_decompress(&decoder.info);
    while (decoder.info.output_scanline < decoder.info.output_height) {
        JSAMPROW row = rows + stride * decoder.info.output_scanline;
        jpeg_read_scanlines(&decoder.info, &row, 1);
    }
    jpeg_finish_decompress(&decoder.info);
    return true;
}

/// a * b / 255 rounded, as Pillow computes it.
unsigned multiply_255(unsigned a, unsigned b) {
    const unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/// Adobe writes CMYK inverted; with c' = 255 - c the picture is r = k - c' * k / 255 (Pillow's Convert.c).
Image rgb_from_inverted_cmyk(const std::vector<JSAMPLE>& cmyk, std::size_t width, std::size_t height) {
    Image image(width, height);
    for (std::size_t i = 0; i < width * height; ++i) {
        const unsigned k = cmyk[4 * i + 3];
        for (std::size_t c = 0; c < 3; ++c) {
            image.pixels[3 * i + c] = static_cast<std::uint8_t>(k - multiply_255(255U - cmyk[4 * i + c], k));
        }
    }
    return image;
}

} // namespace

Result<Image> decode_jpeg(std::span<const std::byte> bytes, std::string_view where) {
    struct Owner : JpegDecoder {
        ~Owner() { jpeg_destroy_decompress(&info); }
    } decoder;
    decoder.info.err = jpeg_std_error(&decoder.errors);
    decoder.info.client_data = &decoder;
    decoder.errors.error_exit = fail_jpeg;
    decoder.errors.output_message = ignore_message;
    decoder.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    decoder.source.bytes_in_buffer = bytes.size();
    decoder.source.init_source = no_source_action;
    decoder.source.fill_input_buffer = refuse_more;
    decoder.source.skip_input_data = skip_input;
    decoder.source.resync_to_restart = jpeg_resync_to_restart;
    decoder.source.term_source = no_source_action;

    const auto failure = [&] {
        if (decoder.errors.msg_code == JERR_INPUT_EOF) return damaged_image("the file is cut short", where);
        if (decoder.errors.msg_code == JERR_OUT_OF_MEMORY) {
            return Error{ErrorCode::out_of_memory, "no memory to decode the image", std::string(where), ""};
        }
        return damaged_image(decoder.message.data(), where);
    };
    if (!begin(decoder)) return failure();
    const std::size_t width = decoder.info.image_width;
    const std::size_t height = decoder.info.image_height;
    LATHE_CHECK(check_dimensions(width, height, where));
    // A Huffman-coded block of 64 pixels takes at least one bit: a header that promises far more is a lie, found
    // before memory is taken for it.
    if (decoder.info.arith_code == FALSE && width * height / 2048 > bytes.size()) {
        return damaged_image("the file is cut short", where);
    }

    if (decoder.info.out_color_space == JCS_CMYK) {
        std::vector<JSAMPLE> cmyk(width * height * 4);
        if (!read_rows(decoder, cmyk.data(), width * 4)) return failure();
        return rgb_from_inverted_cmyk(cmyk, width, height);
    }
    Image image(width, height);
    if (!read_rows(decoder, image.pixels.data(), width * 3)) return failure();
    return image;
}

} // namespace lathe::detail
