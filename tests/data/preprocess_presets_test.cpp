#include "data/preprocess_presets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

using testing::HasSubstr;

std::vector<InputSpec> input(Shape shape) { return {{"x", DataType::float32, std::move(shape)}}; }

Preprocess named(const char* text, const Shape& shape) {
    auto found = preprocess_named(text, input(shape));
    EXPECT_TRUE(found) << text << ": " << found.error().describe();
    return found ? *found : Preprocess{};
}

TEST(PreprocessPresets, TakeSizeAndLayoutFromTheModel) {
    const Preprocess imagenet = named("imagenet", {-1, 3, 224, 224});
    EXPECT_EQ(imagenet.short_side, 256U);
    EXPECT_EQ(imagenet.crop, (Preprocess::Size{224, 224}));
    EXPECT_EQ(imagenet.layout, Layout::nchw);
    // torchvision's own numbers: black and white of the first channel.
    EXPECT_NEAR(static_cast<double>(imagenet.channel_values(0)[0]), -2.1179, 1e-4);
    EXPECT_NEAR(static_cast<double>(imagenet.channel_values(0)[255]), 2.2489, 1e-4);

    const Preprocess tf = named("tf", {1, 299, 299, 3});
    EXPECT_EQ(tf.short_side, 342U);
    EXPECT_EQ(tf.layout, Layout::nhwc);
    EXPECT_EQ(tf.channel_values(2)[0], -1.0F);
    EXPECT_EQ(tf.channel_values(2)[255], 1.0F);

    EXPECT_EQ(named("imagenet-0..1", {1, 3, 32, 32}).channel_values(1)[255], 1.0F);
    const Preprocess clip = named("clip", {1, 3, 224, 224});
    EXPECT_EQ(clip.short_side, 224U);
    EXPECT_EQ(clip.interpolation, Interpolation::bicubic);
    const Preprocess raw = named("raw-0..255", {1, 3, 48, 96});
    EXPECT_EQ(raw.resize, (Preprocess::Size{48, 96}));
    EXPECT_FALSE(raw.crop);
    EXPECT_EQ(raw.channel_values(0)[255], 255.0F);
}

TEST(PreprocessPresets, AllGiveTheModelsSize) {
    for (const PreprocessPreset& preset : preprocess_presets()) {
        for (const Shape& shape : {Shape{1, 3, 40, 56}, Shape{-1, 40, 56, 3}}) {
            const auto made = make_preprocess(preset, input(shape));
            ASSERT_TRUE(made) << preset.name << made.error().describe();
            EXPECT_EQ(made->output_size(), (Preprocess::Size{40, 56})) << preset.name;
            Shape one = shape;
            one[0] = 1;
            EXPECT_EQ(made->output_shape(), one) << preset.name;
        }
    }
}

TEST(PreprocessPresets, SizeIsGivenWhereTheModelLeavesItOpen) {
    EXPECT_EQ(named("imagenet@160x192", {1, 3, -1, -1}).crop, (Preprocess::Size{160, 192}));
    EXPECT_EQ(named("imagenet@8x8", {1, 3, 8, 8}).crop, (Preprocess::Size{8, 8}));
}

TEST(PreprocessPresets, JsonTextCountsAsWell) {
    EXPECT_EQ(named(R"({"resize": [8, 8], "scale": 0.5})", {1, 3, 8, 8}).scale, 0.5);
}

TEST(PreprocessPresets, SaysWhatIsWrong) {
    struct Case {
        const char* text;
        Shape shape;
        ErrorCode code;
        const char* words;
    };
    for (const Case& each : {
             Case{"imagnet", {1, 3, 8, 8}, ErrorCode::invalid_argument, "is imagenet meant?"},
             Case{"", {1, 3, 8, 8}, ErrorCode::invalid_argument, "raw-0..255"},
             Case{"none.json", {1, 3, 8, 8}, ErrorCode::not_found, "none.json"},
             Case{"{", {1, 3, 8, 8}, ErrorCode::parse_error, "preprocessing"},
             Case{"{}", {1, 3, 8, 8}, ErrorCode::invalid_argument, "size"},
             Case{"imagenet", {1, 3, -1, -1}, ErrorCode::invalid_argument, "imagenet@224x224"},
             Case{"imagenet@9x9", {1, 3, 8, 8}, ErrorCode::invalid_argument, "8x8"},
             Case{"imagenet@", {1, 3, 8, 8}, ErrorCode::invalid_argument, "no size"},
             Case{"imagenet@8", {1, 3, 8, 8}, ErrorCode::invalid_argument, "no size"},
             Case{"imagenet@8x8x8", {1, 3, 8, 8}, ErrorCode::invalid_argument, "no size"},
             Case{"imagenet@0x8", {1, 3, -1, -1}, ErrorCode::invalid_argument, "no size"},
             Case{"imagenet", {1, 128}, ErrorCode::invalid_argument, "pictures"},
             Case{"imagenet", {1, 1, 28, 28}, ErrorCode::invalid_argument, "pictures"},
         }) {
        const auto found = preprocess_named(each.text, input(each.shape));
        ASSERT_FALSE(found) << each.text;
        EXPECT_EQ(found.error().code, each.code) << each.text << ": " << found.error().describe();
        EXPECT_THAT(found.error().describe(), HasSubstr(each.words)) << each.text;
    }
    const std::vector<InputSpec> two{{"a", DataType::float32, {1, 3, 8, 8}}, {"b", DataType::float32, {1, 3, 8, 8}}};
    EXPECT_FALSE(preprocess_named("imagenet", two));
}

} // namespace
} // namespace lathe
