// The tables a device works from, run by plain loops, against Preprocess::apply.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "data/picture_batch.hpp"

namespace lathe {
namespace {

Image noise_image(std::size_t width, std::size_t height, unsigned seed) {
    Image image(width, height);
    std::mt19937 generator(seed); // NOLINT: the same pictures every time
    for (std::uint8_t& value : image.pixels)
        value = static_cast<std::uint8_t>(generator() & 0xFFU);
    return image;
}

std::uint8_t to_byte(std::int64_t sum) {
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> 22, 0, 255));
}

/// The pixel at (x, y) of the region, as the GPU's kernel computes it.
std::uint8_t pixel(const Picture& picture, const PictureAxis& columns, const PictureAxis& rows, std::size_t x,
                   std::size_t y, std::size_t c) {
    const auto at = [&](std::size_t tx, std::size_t ty) {
        const auto px = static_cast<std::size_t>(columns.first[x]) + tx,
                   py = static_cast<std::size_t>(rows.first[y]) + ty;
        return std::int64_t{picture.pixels[(py * picture.width + px) * 3 + c]};
    };
    constexpr std::int64_t half = 1 << 21;
    const auto weight_x = [&](std::size_t t) { return std::int64_t{columns.weights[x * columns.taps + t]}; };
    const auto weight_y = [&](std::size_t t) { return std::int64_t{rows.weights[y * rows.taps + t]}; };
    const auto nx = static_cast<std::size_t>(columns.count[x]), ny = static_cast<std::size_t>(rows.count[y]);
    std::int64_t outer = half;
    for (std::size_t o = 0; o < (picture.rows_first ? nx : ny); ++o) {
        std::int64_t inner = half;
        for (std::size_t i = 0; i < (picture.rows_first ? ny : nx); ++i)
            inner += picture.rows_first ? at(o, i) * weight_y(i) : at(i, o) * weight_x(i);
        outer += to_byte(inner) * (picture.rows_first ? weight_x(o) : weight_y(o));
    }
    return to_byte(outer);
}

struct PictureCase {
    const char* name;
    const char* json;
};

/// GoogleTest names a parameter by this.
void PrintTo(const PictureCase& c, std::ostream* out) { *out << c.name; }

class PictureBatches : public testing::TestWithParam<PictureCase> {};

INSTANTIATE_TEST_SUITE_P(
    All, PictureBatches,
    testing::Values(
        PictureCase{"ShortSideCrop", R"({"resize":{"short_side":20},"crop":[16,16],"scale":0.00392156862745098,)"
                                     R"("mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]})"},
        PictureCase{"ExactSize", R"({"resize":[13,17],"scale":0.00784313725,"mean":[1,1,1],"std":[1,1,1]})"},
        PictureCase{
            "BicubicChannelsLastBgr",
            R"({"resize":[24,18],"interpolation":"bicubic","layout":"NHWC","color":"BGR","mean":[100,110,120]})"},
        PictureCase{"CropLargerThanPicture", R"({"resize":{"short_side":9},"crop":[30,14]})"},
        PictureCase{"CropAlone", R"({"crop":[16,16]})"}),
    [](const auto& info) { return info.param.name; });

TEST_P(PictureBatches, DoWhatApplyDoes) {
    const auto json = parse_json(GetParam().json, "test");
    ASSERT_TRUE(json) << json.error().describe();
    const auto preprocess = Preprocess::from_json(*json, "test");
    ASSERT_TRUE(preprocess) << preprocess.error().describe();
    const std::vector<Image> images{noise_image(37, 23, 1), noise_image(23, 61, 2), noise_image(37, 23, 3),
                                    noise_image(16, 16, 4), noise_image(8, 5, 5),   noise_image(20, 400, 6)};
    const auto batch = picture_batch(images, *preprocess);
    ASSERT_TRUE(batch) << batch.error().describe();
    ASSERT_EQ(batch->pictures.size(), images.size());
    EXPECT_LE(batch->axes.size(), 2 * (images.size() - 1)) << "pictures of one size share their tables";
    const std::size_t plane = batch->width * batch->height;
    for (std::size_t i = 0; i < images.size(); ++i) {
        std::vector<float> expected(preprocess->output_count()), actual(expected.size());
        ASSERT_TRUE(preprocess->apply(images[i], expected));
        const Picture& picture = batch->pictures[i];
        const PictureAxis& columns = batch->axes[picture.columns];
        const PictureAxis& rows = batch->axes[picture.rows];
        for (std::size_t y = 0; y < batch->height; ++y) {
            for (std::size_t x = 0; x < batch->width; ++x) {
                for (std::size_t c = 0; c < 3; ++c) {
                    std::uint8_t value = 0;
                    if (x >= picture.left && y >= picture.top && x - picture.left < columns.first.size() &&
                        y - picture.top < rows.first.size())
                        value =
                            pixel(picture, columns, rows, x - picture.left, y - picture.top, batch->bgr ? 2 - c : c);
                    const std::size_t at = y * batch->width + x;
                    actual[batch->channels_last ? at * 3 + c : c * plane + at] = batch->values[c][value];
                }
            }
        }
        EXPECT_EQ(actual, expected) << images[i].width << "x" << images[i].height;
    }
}

TEST(PictureBatchErrors, AnEmptyPictureIsRefused) {
    const auto json = parse_json(R"({"resize":[4,4]})", "test");
    const auto preprocess = Preprocess::from_json(*json, "test");
    const std::vector<Image> images(1);
    EXPECT_FALSE(picture_batch(images, *preprocess));
}

} // namespace
} // namespace lathe
