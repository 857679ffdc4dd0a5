#include "tasks/detection/draw.hpp"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "tasks/detection/usual_preprocess.hpp"

namespace lathe {
namespace {

std::size_t drawn(const Image& image, std::size_t left, std::size_t top, std::size_t right, std::size_t bottom) {
    std::size_t count = 0;
    for (std::size_t y = top; y < bottom; ++y)
        for (std::size_t x = left; x < right; ++x)
            count += image.pixels[(y * image.width + x) * 3] != 0 || image.pixels[(y * image.width + x) * 3 + 1] != 0 ||
                             image.pixels[(y * image.width + x) * 3 + 2] != 0
                         ? 1U
                         : 0U;
    return count;
}

TEST(DrawDetections, FramesTheBoxAndLeavesTheRest) {
    Image image(200, 100);
    const std::vector<Detection> detections{{{50, 40, 60, 30}, 0.9F, 0}};
    draw_detections(image, detections, {"cat"});
    EXPECT_EQ(drawn(image, 50, 40, 110, 42), 120U) << "the upper edge, two pixels thick";
    EXPECT_EQ(drawn(image, 108, 40, 110, 70), 60U) << "the right edge";
    EXPECT_EQ(drawn(image, 52, 42, 108, 68), 0U) << "inside nothing";
    EXPECT_GT(drawn(image, 50, 31, 100, 40), 100U) << "the label above";
    EXPECT_EQ(drawn(image, 0, 0, 50, 100), 0U);
    EXPECT_EQ(drawn(image, 110, 0, 200, 100), 0U);
}

TEST(DrawDetections, MasksShineThroughAndPointsAreJoined) {
    Image image(6, 4);
    std::ranges::fill(image.pixels, std::uint8_t{101});
    const auto mask = ObjectMask::from_runs(4, 6, std::vector<std::uint32_t>{5, 2, 17});
    ASSERT_TRUE(mask);
    draw_mask(image, *mask, 0);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
        changed += image.pixels[i] != 101 ? 1U : 0U;
    EXPECT_EQ(changed, 6U);
    const std::size_t at = (1 * 6 + 1) * 3; // column 1, row 1
    EXPECT_EQ(image.pixels[at], 178) << "half of 101, half of 255";
    EXPECT_EQ(image.pixels[at + 1], 78);
    const Image before = image;
    draw_mask(image, ObjectMask(6, 4), 0);
    EXPECT_EQ(image.pixels, before.pixels) << "a mask of another size";

    Image plain(100, 100);
    std::vector<Keypoint> points(17);
    points[13] = {20, 50, 0.9F};
    points[15] = {80, 50, 0.9F};
    points[0] = {1e18, -1e18, 0.9F};
    points[1] = {50, 90, 0.2F};
    draw_points(plain, points);
    EXPECT_EQ(drawn(plain, 18, 48, 22, 52), 16U) << "the point";
    EXPECT_EQ(drawn(plain, 30, 49, 70, 51), 80U) << "the limb";
    EXPECT_EQ(drawn(plain, 40, 80, 60, 100), 0U) << "a point that is hardly there";
    Image dots(100, 100);
    draw_points(dots, std::span(points).first(16));
    EXPECT_EQ(drawn(dots, 30, 0, 70, 100), 0U) << "limbs are those of COCO's 17 points";
}

/// Classes have colours of their own, and wild boxes draw only what is in the picture.
TEST(DrawDetections, AnyBoxAndClass) {
    Image image(40, 30);
    const double big = 1e18;
    draw_detections(image,
                    std::vector<Detection>{{{-big, -big, 2 * big, 2 * big}, 0.5F, 7},
                                           {{30, 20, 1000, 1000}, 1, 100'000},
                                           {{500, 500, 10, 10}, 1, -1},
                                           {{5, 5, 0, 0}, 1, 2}},
                    {});
    EXPECT_EQ(image.pixels.size(), 3600U);
    EXPECT_EQ(class_name({"a"}, 0), "a");
    EXPECT_EQ(class_name({"a"}, 1), "class 1");
    EXPECT_EQ(class_name({"a"}, -1), "class -1");
}

TEST(UsualPreprocess, YoloxIsRawAndOthersAreNormalised) {
    const auto yolox = usual_preprocess({HeadForm::yolox, {0}, 80, 416, 640, {8, 16, 32}}, Layout::nchw);
    ASSERT_TRUE(yolox);
    EXPECT_TRUE(yolox->validate("test"));
    EXPECT_EQ(yolox->output_shape(), (Shape{1, 3, 416, 640}));
    EXPECT_EQ(yolox->channel_values(0)[255], 255);
    EXPECT_EQ(yolox->color, ColorOrder::bgr);
    const auto yolo = usual_preprocess({HeadForm::yolov8, {0}, 80, 640, 640, {}, true}, Layout::nhwc);
    ASSERT_TRUE(yolo);
    EXPECT_TRUE(yolo->validate("test"));
    EXPECT_EQ(yolo->output_shape(), (Shape{1, 640, 640, 3}));
    EXPECT_FLOAT_EQ(yolo->channel_values(0)[255], 1);
    EXPECT_EQ(yolo->align, Alignment::centre);
    DetectionHead distances{HeadForm::distances, {0, 1, 2, 3}, 10, 800, 608, {8, 16}};
    distances.distances = {8, 1, false, false};
    const auto picodet = usual_preprocess(distances, Layout::nchw);
    ASSERT_TRUE(picodet);
    EXPECT_EQ(picodet->output_shape(), (Shape{1, 3, 800, 608}));
    EXPECT_FALSE(picodet->letterbox);
    EXPECT_FLOAT_EQ(picodet->channel_values(0)[0], -0.485F / 0.229F);
    distances.outputs = {0};
    const auto nanodet = usual_preprocess(distances, Layout::nchw);
    ASSERT_TRUE(nanodet);
    EXPECT_EQ(nanodet->color, ColorOrder::bgr);
    EXPECT_FLOAT_EQ(nanodet->channel_values(0)[0], -103.53F / 57.375F); // of blue
    distances.outputs = {0, 1, 2, 3};
    distances.distances = {1, 2, true, false};
    const auto scrfd = usual_preprocess(distances, Layout::nchw);
    ASSERT_TRUE(scrfd);
    EXPECT_EQ(scrfd->align, Alignment::top_left);
    EXPECT_FLOAT_EQ(scrfd->channel_values(2)[255], 127.5F / 128);
    distances.distances = {1, 1, false, false, true, true};
    const auto yunet = usual_preprocess(distances, Layout::nchw);
    ASSERT_TRUE(yunet);
    EXPECT_EQ(yunet->color, ColorOrder::bgr);
    EXPECT_FLOAT_EQ(yunet->channel_values(0)[255], 255);
    distances.distances = {1, 1, false, false}; // of many families
    EXPECT_FALSE(usual_preprocess(distances, Layout::nchw));
    EXPECT_FALSE(usual_preprocess({HeadForm::detr, {0, 1}, 80, 800, 800, {}}, Layout::nchw));
}

} // namespace
} // namespace lathe
