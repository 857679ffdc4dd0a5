#include "data/hex.hpp"
#include "data/pixel_values.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace lathe {
namespace {

using test::from_hex;

// Written by Pillow 11.
constexpr std::string_view palette_4_bits =
    "89504e470d0a1a0a0000000d49484452000000040000000204030000008d86605000000030504c5445000000ff000000ff00090909090909"
    "0909090909090909090909090909090909090909090909090909090909090909095b8c85f40000000e4944415478da6364d4633012000001"
    "3d007361fbfc580000000049454e44ae426082";
constexpr std::string_view grey_16_bits =
    "89504e470d0a1a0a0000000d4948445200000002000000021000000000074d8ebb000000124944415478da636060607ec1f0ff3f2303000c"
    "8a02eb72576aca0000000049454e44ae426082";
constexpr std::string_view grey_1_bit =
    "89504e470d0a1a0a0000000d4948445200000003000000010100000000339b29190000000a4944415478da6358000000a200a17105cb4100"
    "00000049454e44ae426082";
constexpr std::string_view colour =
    "89504e470d0a1a0a0000000d49484452000000020000000108020000007b40e8dd0000000f4944415478da636464626666660600003c0011"
    "6c05faa10000000049454e44ae426082";
constexpr std::string_view grey_and_alpha =
    "89504e470d0a1a0a0000000d49484452000000020000000108040000005e2bb7010000000d4944415478da63646462660600001d000b2be3"
    "6caa0000000049454e44ae426082";

TEST(PixelValues, AreWhatTheFileStores) {
    struct Case {
        std::string_view hex;
        std::size_t width, height, channels;
        std::vector<std::uint16_t> values;
    };
    for (const Case& c : std::vector<Case>{{palette_4_bits, 4, 2, 1, {0, 1, 2, 15, 3, 2, 1, 0}},
                                           {grey_16_bits, 2, 2, 1, {0, 1000, 65535, 256}},
                                           {grey_1_bit, 3, 1, 1, {1, 0, 1}},
                                           {colour, 2, 1, 3, {1, 2, 3, 4, 5, 6}},
                                           {grey_and_alpha, 2, 1, 1, {1, 4}}}) {
        const auto pixels = decode_pixel_values(from_hex(c.hex), "test.png");
        ASSERT_TRUE(pixels) << pixels.error().describe();
        EXPECT_EQ(pixels->width, c.width);
        EXPECT_EQ(pixels->height, c.height);
        EXPECT_EQ(pixels->channels, c.channels);
        EXPECT_EQ(pixels->values, c.values);
    }
}

TEST(PixelValues, DamagedFilesAreRefused) {
    const std::vector<std::byte> whole = from_hex(palette_4_bits);
    for (std::size_t size = 0; size < whole.size() - 12; ++size) // the end chunk holds nothing
        EXPECT_FALSE(decode_pixel_values(std::span(whole).first(size), "cut.png")) << size;
    const auto jpeg = decode_pixel_values(from_hex("ffd8ffe000104a464946"), "photo.jpg");
    ASSERT_FALSE(jpeg);
    EXPECT_EQ(jpeg.error().code, ErrorCode::unsupported);
    EXPECT_FALSE(read_pixel_values("/nowhere/mask.png"));
}

} // namespace
} // namespace lathe
