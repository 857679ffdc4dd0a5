#include "data/preprocess.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

using testing::HasSubstr;

constexpr const char* whole = R"({"resize": {"short_side": 256}, "crop": [224, 192], "interpolation": "bicubic",
    "scale": 0.5, "mean": [1, 2, 3], "std": [4, 5, 6], "layout": "NHWC", "color": "BGR"})";

Preprocess parse(const std::string& text) {
    const auto json = parse_json(text, "test");
    EXPECT_TRUE(json) << json.error().describe();
    auto preprocess = Preprocess::from_json(*json, "test");
    EXPECT_TRUE(preprocess) << preprocess.error().describe();
    return *preprocess;
}

/// A picture whose pixel (x, y) is (x, y, 200).
Image coordinates(std::size_t width, std::size_t height) {
    Image image(width, height);
    for (std::size_t y = 0; y < height; ++y) {
        for (std::size_t x = 0; x < width; ++x) {
            std::uint8_t* pixel = &image.pixels[(y * width + x) * 3];
            pixel[0] = static_cast<std::uint8_t>(x);
            pixel[1] = static_cast<std::uint8_t>(y);
            pixel[2] = 200;
        }
    }
    return image;
}

TEST(PreprocessJson, KeepsEveryKey) {
    const Preprocess preprocess = parse(whole);
    EXPECT_EQ(preprocess.short_side, 256U);
    EXPECT_EQ(preprocess.crop, (Preprocess::Size{224, 192}));
    EXPECT_EQ(preprocess.interpolation, Interpolation::bicubic);
    EXPECT_EQ(preprocess.layout, Layout::nhwc);
    EXPECT_EQ(preprocess.color, ColorOrder::bgr);
    EXPECT_EQ(preprocess.output_shape(), (Shape{1, 224, 192, 3}));
    const auto again = Preprocess::from_json(preprocess.to_json(), "again");
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, preprocess);
}

TEST(PreprocessJson, KeepsALetterbox) {
    const Preprocess preprocess = parse(R"({"resize": {"letterbox": [416, 640]}, "pad": 114, "align": "top-left",
                                            "interpolation": "bilinear-opencv", "color": "BGR"})");
    EXPECT_EQ(preprocess.letterbox, (Preprocess::Size{416, 640}));
    EXPECT_EQ(preprocess.output_shape(), (Shape{1, 3, 416, 640}));
    EXPECT_EQ(preprocess.pad, 114);
    EXPECT_EQ(preprocess.align, Alignment::top_left);
    EXPECT_EQ(preprocess.interpolation, Interpolation::bilinear_opencv);
    const auto again = Preprocess::from_json(preprocess.to_json(), "again");
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, preprocess);
}

TEST(PreprocessJson, OneNumberStandsForAllChannels) {
    EXPECT_EQ(parse(R"({"crop": 8, "mean": 127})").mean, (std::array<double, 3>{127, 127, 127}));
}

TEST(PreprocessJson, RefusesAndNamesTheKey) {
    struct Case {
        const char* json;
        const char* said;
    };
    for (const auto& [json, said] : std::vector<Case>{
             {R"({"crop": [8, 8], "stdd": [1, 1, 1]})", "\"stdd\""},
             {R"({"crop": [8]})", "\"crop\""},
             {R"({"crop": [8, 0]})", "\"crop\""},
             {R"({"crop": [8, 8.5]})", "\"crop\""},
             {R"({"crop": [8, 1e9]})", "\"crop\""},
             {R"({"resize": {"long_side": 8}})", "\"resize\""},
             {R"({"resize": {"short_side": 8}})", "size open"},
             {R"({})", "size open"},
             {R"([])", "JSON object"},
             {R"({"crop": [8, 8], "interpolation": "nearest"})", "\"interpolation\""},
             {R"({"crop": [8, 8], "scale": "1/255"})", "\"scale\""},
             {R"({"crop": [8, 8], "scale": 0})", "\"scale\""},
             {R"({"crop": [8, 8], "mean": [1, 2]})", "\"mean\""},
             {R"({"crop": [8, 8], "std": [1, 0, 1]})", "\"std\""},
             {R"({"crop": [8, 8], "std": [1, -1, 1]})", "\"std\""},
             {R"({"crop": [8, 8], "std": [1, 1e-50, 1]})", "\"std\""},
             {R"({"crop": [8, 8], "layout": "CHW"})", "\"layout\""},
             {R"({"crop": [8, 8], "color": 3})", "\"color\""},
             {R"({"resize": {"letterbox": [8]}})", "\"letterbox\""},
             {R"({"resize": {"letterbox": [8, 8]}, "crop": [8, 8]})", "letterbox and another"},
             {R"({"crop": [8, 8], "align": "top-left"})", "\"align\""},
             {R"({"resize": {"letterbox": [8, 8]}, "align": "left"})", "\"center\" or \"top-left\""},
             {R"({"resize": {"letterbox": [8, 8]}, "pad": 256})", "\"pad\""},
             {R"({"resize": {"letterbox": [8, 8]}, "pad": -1})", "\"pad\""},
             {R"({"resize": {"letterbox": [8, 8]}, "pad": 0.5})", "\"pad\""},
         }) {
        const auto parsed = parse_json(json, "test");
        ASSERT_TRUE(parsed) << json;
        const auto preprocess = Preprocess::from_json(*parsed, "pre.json");
        ASSERT_FALSE(preprocess) << json;
        EXPECT_THAT(preprocess.error().message, HasSubstr(said)) << json;
        EXPECT_EQ(preprocess.error().where, "pre.json");
    }
}

TEST(PreprocessApply, LayoutColourAndNormalisation) {
    const Image image = coordinates(3, 2);
    Preprocess preprocess;
    preprocess.crop = Preprocess::Size{2, 3};
    preprocess.scale = 0.5;
    preprocess.mean = {1, 2, 3};
    preprocess.std = {2, 4, 8};
    const auto value = [&](std::size_t x, std::size_t y, std::size_t channel) {
        const bool bgr = preprocess.color == ColorOrder::bgr;
        const float pixel = image.pixels[(y * 3 + x) * 3 + (bgr ? 2 - channel : channel)];
        return (pixel * 0.5F - static_cast<float>(preprocess.mean[channel])) /
               static_cast<float>(preprocess.std[channel]);
    };
    for (const auto layout : {Layout::nchw, Layout::nhwc}) {
        for (const auto color : {ColorOrder::rgb, ColorOrder::bgr}) {
            preprocess.layout = layout;
            preprocess.color = color;
            std::vector<float> out(preprocess.output_count());
            ASSERT_TRUE(preprocess.apply(image, out));
            for (std::size_t i = 0; i < out.size(); ++i) {
                const std::size_t x = layout == Layout::nchw ? i % 3 : i / 3 % 3;
                const std::size_t y = layout == Layout::nchw ? i / 3 % 2 : i / 9;
                const std::size_t c = layout == Layout::nchw ? i / 6 : i % 3;
                EXPECT_EQ(out[i], value(x, y, c)) << i;
            }
        }
    }
    std::vector<float> small(5);
    EXPECT_FALSE(preprocess.apply(image, small));
    std::vector<float> fitting(18);
    EXPECT_FALSE(preprocess.apply(Image{}, fitting));
}

/// Offsets are rounded half to even: of 1, 3, 5 spare pixels 0, 2, 2 are cut on the left.
TEST(PreprocessApply, CentreCropRoundsAsPython) {
    for (const auto& [width, offset] : {std::pair{9, 0}, {10, 1}, {11, 2}, {12, 2}, {13, 2}, {15, 4}}) {
        Preprocess preprocess;
        preprocess.crop = Preprocess::Size{4, 8};
        const auto cropped = preprocess.resize_and_crop(coordinates(static_cast<std::size_t>(width), 4));
        ASSERT_TRUE(cropped);
        EXPECT_EQ(cropped->pixels[0], offset) << width;
    }
}

/// torchvision pads a picture that is smaller than the crop with zeros, less on the left.
TEST(PreprocessApply, SmallPicturesArePadded) {
    Preprocess preprocess;
    preprocess.crop = Preprocess::Size{4, 8};
    const auto cropped = preprocess.resize_and_crop(coordinates(3, 7));
    ASSERT_TRUE(cropped);
    const auto pixel = [&](std::size_t x, std::size_t y) { return &cropped->pixels[(y * 8 + x) * 3]; };
    EXPECT_EQ(pixel(1, 0)[2], 0);
    EXPECT_EQ(pixel(2, 0)[2], 200);
    EXPECT_EQ(pixel(2, 0)[1], 2) << "three spare rows: round(1.5) = 2 are cut above";
    EXPECT_EQ(pixel(4, 3)[0], 2);
    EXPECT_EQ(pixel(5, 0)[2], 0);
}

struct LetterboxCase {
    std::size_t width, height;
    const char* align;
    std::size_t new_width, new_height, left, top;
};

/// Sides and offsets as Ultralytics' LetterBox (round, round(d / 2 - 0.1)) and YOLOX's preproc (int, top left) have
/// them.
TEST(PreprocessApply, Letterbox) {
    for (const LetterboxCase& c : std::vector<LetterboxCase>{{640, 480, "center", 416, 312, 0, 52},
                                                             {480, 640, "center", 312, 416, 52, 0},
                                                             {500, 375, "center", 416, 312, 0, 52},
                                                             {640, 427, "center", 416, 278, 0, 69},
                                                             {640, 427, "top-left", 416, 277, 0, 0},
                                                             {640, 425, "center", 416, 276, 0, 70},
                                                             {100, 99, "center", 416, 412, 0, 2},
                                                             {640, 429, "center", 416, 279, 0, 68},
                                                             {10, 5, "top-left", 416, 208, 0, 0},
                                                             {5000, 2, "center", 416, 1, 0, 207}}) {
        SCOPED_TRACE(std::to_string(c.width) + " x " + std::to_string(c.height) + " " + c.align);
        const Preprocess preprocess =
            parse(R"({"resize": {"letterbox": [416, 416]}, "pad": 114, "align": ")" + std::string(c.align) + "\"}");
        const auto place = preprocess.place(c.width, c.height);
        EXPECT_EQ(place.full, (Preprocess::Size{c.new_height, c.new_width}));
        EXPECT_EQ(place.left, c.left);
        EXPECT_EQ(place.top, c.top);
        Image white(c.width, c.height);
        std::ranges::fill(white.pixels, std::uint8_t{255});
        const auto image = preprocess.resize_and_crop(white);
        ASSERT_TRUE(image);
        ASSERT_EQ(image->width, 416U);
        ASSERT_EQ(image->height, 416U);
        const auto count = std::ranges::count(image->pixels, std::uint8_t{255});
        EXPECT_EQ(static_cast<std::size_t>(count), 3 * c.new_width * c.new_height);
        EXPECT_EQ(std::ranges::count(image->pixels, std::uint8_t{114}) + count,
                  static_cast<std::ptrdiff_t>(image->pixels.size()));
        EXPECT_EQ(image->pixels[(c.top * 416 + c.left) * 3], 255);
        // A corner of the picture, mapped there and back, is the corner.
        const auto mapping = preprocess.mapping(c.width, c.height);
        EXPECT_NEAR(static_cast<double>(c.width) * mapping.scale_x, static_cast<double>(c.new_width), 1);
        EXPECT_EQ(mapping.left, static_cast<double>(c.left));
        EXPECT_EQ(mapping.top, static_cast<double>(c.top));
        EXPECT_EQ(mapping.scale_x, mapping.scale_y);
    }
}

/// A stretched picture has two scales, a cropped one a corner outside.
TEST(PreprocessApply, MappingOfOtherPlacements) {
    const auto stretched = parse(R"({"resize": [300, 300]})").mapping(600, 150);
    EXPECT_EQ(stretched.scale_x, 0.5);
    EXPECT_EQ(stretched.scale_y, 2);
    EXPECT_EQ(stretched.left, 0);
    const auto cropped = parse(R"({"resize": {"short_side": 100}, "crop": [80, 80]})").mapping(400, 200);
    EXPECT_EQ(cropped.scale_x, 0.5);
    EXPECT_EQ(cropped.left, -60);
    EXPECT_EQ(cropped.top, -10);
}

TEST(PreprocessApply, ShortSide) {
    for (const auto& [width, height, new_width, new_height] : std::vector<std::array<std::size_t, 4>>{
             {500, 375, 341, 256}, {375, 500, 256, 341}, {64, 64, 256, 256}, {3, 100, 256, 8533}}) {
        Preprocess preprocess;
        preprocess.short_side = 256;
        const auto resized = preprocess.resize_and_crop(Image(width, height));
        ASSERT_TRUE(resized);
        EXPECT_EQ(resized->width, new_width);
        EXPECT_EQ(resized->height, new_height);
    }
}

} // namespace
} // namespace lathe
