// Resized pictures against OpenCV's: they must be the same, bit for bit.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "data/npy.hpp"
#include "data/resize.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

Image image_of(const HostTensor& tensor) {
    Image image(static_cast<std::size_t>(tensor.shape[1]), static_cast<std::size_t>(tensor.shape[0]));
    std::ranges::copy(tensor.as<std::uint8_t>(), image.pixels.begin());
    return image;
}

TEST(OpenCvResize, EqualsOpenCvBitForBit) {
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr) GTEST_SKIP() << "SKIPPED: LATHE_PYTHON names no Python with OpenCV";
    const unsigned seed = std::random_device{}() % 1'000'000;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const test::TemporaryFolder folder;
    const auto result = test::run_command(std::string(python) + " " + test::source_path("tests/data/opencv_resize.py") +
                                          " " + (folder / "pictures.npz").string() + " " + std::to_string(seed));
    if (result.exit_code == 77) GTEST_SKIP() << "SKIPPED: " << result.errors;
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const auto arrays = read_npz(folder / "pictures.npz");
    ASSERT_TRUE(arrays) << arrays.error().describe();
    std::map<std::string, const HostTensor*> by_name;
    for (const HostTensor& array : *arrays)
        by_name[array.name] = &array;
    ASSERT_EQ(by_name.size(), 100U);
    for (std::size_t i = 0; i < 50; ++i) {
        const Image picture = image_of(*by_name.at("in" + std::to_string(i)));
        const Image expected = image_of(*by_name.at("out" + std::to_string(i)));
        SCOPED_TRACE(std::to_string(picture.width) + "x" + std::to_string(picture.height) + " to " +
                     std::to_string(expected.width) + "x" + std::to_string(expected.height));
        const auto ours = resize(picture, expected.width, expected.height, Interpolation::bilinear_opencv);
        ASSERT_TRUE(ours) << ours.error().describe();
        EXPECT_TRUE(ours->pixels == expected.pixels);
    }
}

TEST(OpenCvResize, ARegionIsWhatTheWholeHasThere) {
    Image picture(40, 30);
    std::mt19937 generator(3);
    for (std::uint8_t& value : picture.pixels)
        value = static_cast<std::uint8_t>(generator());
    const auto whole = resize_opencv(picture, 25, 20);
    const auto part = resize_region(picture, 25, 20, Interpolation::bilinear_opencv, {5, 4, 10, 8});
    ASSERT_TRUE(whole);
    ASSERT_TRUE(part);
    for (std::size_t y = 0; y < 8; ++y)
        for (std::size_t x = 0; x < 30; ++x)
            EXPECT_EQ(part->pixels[y * 30 + x], whole->pixels[(y + 4) * 75 + 15 + x]);
}

TEST(OpenCvResize, RefusesWhatHasNoPixels) {
    EXPECT_FALSE(resize_opencv(Image(), 5, 5));
    EXPECT_FALSE(resize_opencv(Image(5, 5), 0, 5));
    EXPECT_FALSE(resize_opencv(Image(5, 5), 1'000'000, 1'000'000));
}

} // namespace
} // namespace lathe
