#include "data/image.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/golden.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using test::expected_pixels;
using test::file_bytes;
using test::golden;
using testing::HasSubstr;

std::vector<std::string> pictures() {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : expected_pixels()) {
        if (has_image_extension(name)) names.push_back(name);
    }
    return names;
}

class Decode : public testing::TestWithParam<std::string> {};

TEST_P(Decode, EqualsPillowBitForBit) {
    const auto image = read_image(golden(GetParam()));
    ASSERT_TRUE(image) << image.error().describe();
    const HostTensor& expected = expected_pixels().at(GetParam());
    ASSERT_EQ(expected.shape,
              (Shape{static_cast<std::int64_t>(image->height), static_cast<std::int64_t>(image->width), 3}));
    EXPECT_TRUE(std::ranges::equal(image->pixels, expected.as<std::uint8_t>()));
}

TEST_P(Decode, EveryTruncationIsAnErrorThatNamesTheFile) {
    const auto bytes = file_bytes(golden(GetParam()));
    for (std::size_t size = 0; size + 1 < bytes.size(); size += 1 + size / 16) {
        const auto image = decode_image(std::span(bytes).first(size), "cut.picture");
        ASSERT_FALSE(image) << "at " << size << " of " << bytes.size();
        EXPECT_EQ(image.error().where, "cut.picture");
        EXPECT_FALSE(image.error().message.empty());
    }
}

TEST_P(Decode, DamagedBytesGiveAPictureOrAnError) {
    const unsigned seed = 7;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto original = file_bytes(golden(GetParam()));
    for (int trial = 0; trial < 200; ++trial) {
        auto bytes = original;
        for (int flips = 0; flips < 3; ++flips)
            bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        const auto image = decode_image(bytes, "damaged");
        if (image) {
            EXPECT_EQ(image->pixels.size(), image->width * image->height * 3);
        } else {
            EXPECT_EQ(image.error().where, "damaged");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Pictures, Decode, testing::ValuesIn(pictures()), [](const auto& info) {
    std::string name = info.param;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
});

TEST(DecodeImage, RefusesWhatIsNoPicture) {
    const auto empty = decode_image({}, "empty.jpg");
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().code, ErrorCode::parse_error);
    EXPECT_THAT(empty.error().describe(), HasSubstr("empty.jpg"));
    const std::string text = "GIF89a......";
    const auto other = decode_image(std::as_bytes(std::span(text)), "a.gif");
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ErrorCode::unsupported);
    EXPECT_THAT(other.error().hint, HasSubstr("JPEG or PNG"));
}

TEST(DecodeImage, RefusesHugeDimensionsBeforeTakingMemory) {
    auto png = file_bytes(golden("rgb.png"));
    for (std::size_t i = 16; i < 24; ++i) // width and height, then the header's checksum
        png[i] = static_cast<std::byte>(i % 4 == 0 ? 0x00 : 0x0E);
    const std::uint32_t crc = [&] {
        std::uint32_t value = 0xFFFFFFFF;
        for (std::size_t i = 12; i < 29; ++i) {
            value ^= std::to_integer<std::uint32_t>(png[i]);
            for (int bit = 0; bit < 8; ++bit)
                value = (value >> 1) ^ (0xEDB88320U & (0U - (value & 1U)));
        }
        return ~value;
    }();
    for (std::size_t i = 0; i < 4; ++i)
        png[29 + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
    const auto huge = decode_image(png, "huge.png");
    ASSERT_FALSE(huge);
    EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory) << huge.error().describe();
    EXPECT_THAT(huge.error().message, HasSubstr("921102x921102"));

    auto jpeg = file_bytes(golden("420.jpg"));
    const std::array<std::byte, 2> frame{std::byte{0xFF}, std::byte{0xC0}};
    const auto at =
        static_cast<std::size_t>(std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end()) - jpeg.begin());
    jpeg[at + 5] = jpeg[at + 7] = std::byte{0x30}; // 12,288 pixels a side: allowed, but not in 1 KB
    const auto lie = decode_image(jpeg, "lie.jpg");
    ASSERT_FALSE(lie);
    EXPECT_EQ(lie.error().code, ErrorCode::parse_error) << lie.error().describe();
}

TEST(ReadImage, NamesAFileThatIsNotThere) {
    const test::TemporaryFolder folder;
    const auto image = read_image(folder / "none.jpg");
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().code, ErrorCode::not_found);
    EXPECT_THAT(image.error().where, HasSubstr("none.jpg"));
}

TEST(HasImageExtension, AnyCase) {
    for (const char* name : {"a.jpg", "a.JPEG", "b/c.PNG", ".x.jpg"})
        EXPECT_TRUE(has_image_extension(name)) << name;
    for (const char* name : {"a.gif", "jpg", "a.jpg.txt", ""})
        EXPECT_FALSE(has_image_extension(name)) << name;
}

} // namespace
} // namespace lathe
