#include "data/encode.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "support_lib/command.hpp"

namespace lathe {
namespace {

/// Smooth colours, which JPEG keeps well.
Image gradient(std::size_t width, std::size_t height) {
    Image image(width, height);
    for (std::size_t y = 0; y < height; ++y) {
        for (std::size_t x = 0; x < width; ++x) {
            std::uint8_t* pixel = &image.pixels[(y * width + x) * 3];
            pixel[0] = static_cast<std::uint8_t>(255 * x / width);
            pixel[1] = static_cast<std::uint8_t>(255 * y / height);
            pixel[2] = 90;
        }
    }
    return image;
}

TEST(EncodeImage, PngKeepsEveryPixelAndJpegNearlyAll) {
    const test::TemporaryFolder folder;
    for (const auto& [width, height] : {std::pair{61, 40}, {1, 1}, {8, 300}}) {
        const Image image = gradient(static_cast<std::size_t>(width), static_cast<std::size_t>(height));
        for (const char* name : {"a.png", "a.jpg", "a.JPEG"}) {
            ASSERT_TRUE(write_image(folder / name, image)) << name;
            const auto read = read_image(folder / name);
            ASSERT_TRUE(read) << read.error().describe();
            ASSERT_EQ(read->width, image.width);
            ASSERT_EQ(read->height, image.height);
            int most = 0;
            for (std::size_t i = 0; i < image.pixels.size(); ++i)
                most = std::max(most, std::abs(static_cast<int>(image.pixels[i]) - read->pixels[i]));
            EXPECT_LE(most, std::string(name) == "a.png" ? 0 : 24) << name;
        }
    }
}

TEST(EncodeImage, RefusesWhatItCannotWrite) {
    const test::TemporaryFolder folder;
    EXPECT_FALSE(write_image(folder / "a.gif", gradient(4, 4)));
    EXPECT_FALSE(write_image(folder / "a.png", Image()));
    EXPECT_FALSE(encode_jpeg(Image()));
    EXPECT_FALSE(encode_jpeg(Image(70'000, 1)));
    EXPECT_FALSE(write_image(folder / "none/a.png", gradient(4, 4)));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

} // namespace
} // namespace lathe
