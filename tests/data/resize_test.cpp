#include "data/resize.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "data/golden.hpp"

namespace lathe {

static void PrintTo(Interpolation kind, std::ostream* out) { *out << to_string(kind); }

namespace {

using test::expected_pixels;
using test::golden;

struct ResizeCase {
    std::size_t width;
    std::size_t height;
};

/// GoogleTest names parameters by these.
void PrintTo(const ResizeCase& size, std::ostream* out) { *out << size.width << 'x' << size.height; }

class Resize : public testing::TestWithParam<std::tuple<Interpolation, ResizeCase>> {};

TEST_P(Resize, EqualsPillowBitForBit) {
    const auto [interpolation, size] = GetParam();
    const auto image = read_image(golden("rgb.png"));
    ASSERT_TRUE(image);
    const auto result = resize(*image, size.width, size.height, interpolation);
    ASSERT_TRUE(result) << result.error().describe();
    const std::string kind = to_string(interpolation);
    const std::string name = "resize_" + kind + "_" + std::to_string(size.width) + "_" + std::to_string(size.height);
    EXPECT_TRUE(std::ranges::equal(result->pixels, expected_pixels().at(name).as<std::uint8_t>())) << name;
}

TEST_P(Resize, RegionEqualsThePartOfTheWhole) {
    const auto [interpolation, size] = GetParam();
    const auto image = read_image(golden("rgb.png"));
    ASSERT_TRUE(image);
    const auto whole = resize(*image, size.width, size.height, interpolation);
    ASSERT_TRUE(whole);
    const Region region{size.width / 3, size.height / 4, size.width - size.width / 2, size.height - size.height / 2};
    const auto part = resize_region(*image, size.width, size.height, interpolation, region);
    ASSERT_TRUE(part) << part.error().describe();
    for (std::size_t y = 0; y < region.height; ++y) {
        for (std::size_t i = 0; i < region.width * 3; ++i) {
            ASSERT_EQ(part->pixels[y * region.width * 3 + i],
                      whole->pixels[((region.top + y) * size.width + region.left) * 3 + i])
                << "row " << y << ", byte " << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Resize,
                         testing::Combine(testing::Values(Interpolation::bilinear, Interpolation::bicubic),
                                          testing::Values(ResizeCase{37, 23}, ResizeCase{37, 9}, ResizeCase{11, 23},
                                                          ResizeCase{16, 10}, ResizeCase{1, 1}, ResizeCase{64, 40},
                                                          ResizeCase{90, 23}, ResizeCase{3, 61}, ResizeCase{73, 7},
                                                          ResizeCase{36, 20})));

TEST(ResizeImage, ConstantPicturesStayConstant) {
    for (const int value : {0, 1, 127, 254, 255}) {
        Image image(31, 17);
        std::ranges::fill(image.pixels, static_cast<std::uint8_t>(value));
        for (const auto interpolation : {Interpolation::bilinear, Interpolation::bicubic}) {
            const auto result = resize(image, 50, 5, interpolation);
            ASSERT_TRUE(result);
            EXPECT_TRUE(std::ranges::all_of(result->pixels, [&](std::uint8_t pixel) { return pixel == value; }));
        }
    }
}

TEST(ResizeImage, RefusesSizesThatMakeNoSense) {
    const Image image(4, 4);
    const auto code = [](const Result<Image>& result) {
        return result ? std::string("no error") : std::string(to_string(result.error().code));
    };
    EXPECT_EQ(code(resize(Image{}, 2, 2, Interpolation::bilinear)), "invalid_argument");
    EXPECT_EQ(code(resize(image, 0, 2, Interpolation::bilinear)), "invalid_argument");
    EXPECT_EQ(code(resize(image, 1U << 20, 1U << 20, Interpolation::bicubic)), "out_of_memory");
    EXPECT_EQ(code(resize_region(image, 8, 8, Interpolation::bilinear, {4, 0, 5, 1})), "invalid_argument");
    EXPECT_EQ(code(resize_region(image, 8, 8, Interpolation::bilinear, {0, 9, 1, 1})), "invalid_argument");
}

} // namespace
} // namespace lathe
