// Decoded pictures in requests, against the preprocessing of files.
#include "triton/pixels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image.hpp"
#include "triton/model_config.hpp"

namespace lathe::triton::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

EngineInfo pixel_classifier(const std::string& device = "cpu") {
    EngineInfo info;
    info.device = device;
    info.inputs = {{"picture", DataType::float32, {{1, 3, 8, 8}, {4, 3, 8, 8}, {16, 3, 8, 8}}}};
    info.outputs = {{"scores", DataType::float32, {{-1, 3}, {-1, 3}, {-1, 3}}}};
    info.preprocess = R"({"resize":[8,8],"scale":0.5,"mean":[1,2,3],"std":[1,1,1]})";
    return info;
}

Json taking_pixels(Json dims = {-1, -1, 3}, int max_batch = 4) {
    return {{"max_batch_size", max_batch},
            {"input", {{{"name", "picture"}, {"data_type", "TYPE_UINT8"}, {"dims", std::move(dims)}}}},
            {"output", {{{"name", "scores"}, {"data_type", "TYPE_FP32"}, {"dims", {3}}}}}};
}

/// Of so many pictures of 5 x 7, each of its own colours.
std::vector<std::byte> pixels(std::size_t samples) {
    std::vector<std::byte> made(samples * 5 * 7 * 3);
    for (std::size_t i = 0; i < made.size(); ++i)
        made[i] = static_cast<std::byte>((i * 37 + i / 105 * 11) % 256);
    return made;
}

TEST(TritonPixels, AreOfEnginesThatSayHow) {
    const auto serving = serving_of(taking_pixels(), pixel_classifier());
    ASSERT_TRUE(serving) << serving.error().describe();
    ASSERT_TRUE(serving->pixels);
    EXPECT_TRUE(serving->has_own_input());
    EXPECT_FALSE(serving->pixels->on_device());
    EXPECT_TRUE(serving->sizes.empty());
    const auto on_gpu = serving_of(taking_pixels({"5", "7", "3"}), pixel_classifier("cuda"));
    ASSERT_TRUE(on_gpu) << on_gpu.error().describe();
    EXPECT_TRUE(on_gpu->pixels->on_device());
    EXPECT_THAT(on_gpu->sizes, ElementsAre(1, 2, 3, 4));
    EngineInfo opencv = pixel_classifier("cuda");
    opencv.preprocess = R"({"resize":[8,8],"interpolation":"bilinear-opencv"})";
    EXPECT_FALSE(serving_of(taking_pixels(), opencv)->pixels->on_device());
    // An engine that reads bytes itself gets them as they are.
    EngineInfo bytes = pixel_classifier();
    bytes.inputs[0] = {"picture", DataType::uint8, {{1, 8, 8, 3}, {4, 8, 8, 3}, {16, 8, 8, 3}}};
    const auto plain = serving_of(taking_pixels({8, 8, 3}), bytes);
    ASSERT_TRUE(plain) << plain.error().describe();
    EXPECT_FALSE(plain->pixels);

    struct Case {
        const char* reason;
        void (*change)(EngineInfo&, Json&);
    };
    for (const Case& each :
         {Case{"does not say how", [](EngineInfo&info, Json&) { info.preprocess.clear(); }},
          Case{"one input of float32", [](EngineInfo&info, Json&) { info.inputs[0].type = DataType::float16; }},
          Case{"has its name", [](EngineInfo&, Json&config) { config["input"][0]["name"] = "image"; }},
          Case{"the dims of pictures",
               [](EngineInfo&, Json&config) {
                   config["input"][0]["dims"] = {3, 8, 8};
               }},
          Case{"the dims of pictures",
               [](EngineInfo&, Json&config) {
                   config["input"][0]["dims"] = {8, 3};
               }},
          Case{"preprocessing gives 1x3x8x8",
               [](EngineInfo&info, Json&) { info.inputs[0].range.max[2] = info.inputs[0].range.min[2] = 9; }},
          Case{"max_batch_size", [](EngineInfo&, Json&config) { config["max_batch_size"] = 0; }}}) {
        EngineInfo info = pixel_classifier();
        Json config = taking_pixels();
        each.change(info, config);
        const auto refused = serving_of(config, info);
        ASSERT_FALSE(refused) << each.reason;
        EXPECT_THAT(refused.error().describe(), HasSubstr(each.reason));
    }
}

TEST(TritonPixels, RequestsAreChecked) {
    const auto serving = serving_of(taking_pixels(), pixel_classifier());
    ASSERT_TRUE(serving);
    const auto bytes = pixels(2);
    RequestInputs good{{{{2, 5, 7, 3}, {bytes}}}, 0, 9};
    ASSERT_TRUE(serving->pixels->check(good, serving->most));
    EXPECT_EQ(good.samples, 2);
    EXPECT_EQ(good.length, 0);
    for (const Shape& shape :
         {Shape{0, 5, 7, 3}, Shape{5, 5, 7, 3}, Shape{2, 5, 7}, Shape{2, 3, 5, 7}, Shape{2, 0, 7, 3},
          Shape{2, 5, -1, 3}, Shape{1, 2'000'000, 1, 3}, Shape{1, 1'000'000, 1'000'000, 3}}) {
        RequestInputs bad{{{shape, {bytes}}}, 0, 0};
        EXPECT_EQ(serving->pixels->check(bad, serving->most).error().code, ErrorCode::out_of_range) << to_string(shape);
    }
    RequestInputs torn{{{{2, 5, 7, 3}, {std::span(bytes).first(100)}}}, 0, 0};
    const auto refused = serving->pixels->check(torn, serving->most);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().describe(), HasSubstr("100 bytes"));
}

TEST(TritonPixels, BecomeWhatFilesBecome) {
    const auto serving = serving_of(taking_pixels(), pixel_classifier());
    ASSERT_TRUE(serving);
    const auto bytes = pixels(3);
    const std::span<const std::byte> all(bytes);
    RequestInputs one{{{{1, 5, 7, 3}, {all.first(105)}}}, 0, 0};
    RequestInputs two{{{{2, 5, 7, 3}, {all.subspan(105, 50), all.subspan(155)}}}, 0, 0};
    ASSERT_TRUE(serving->pixels->check(one, 4));
    ASSERT_TRUE(serving->pixels->check(two, 4));
    ThreadPool pool(2);
    auto made = serving->pixels->convert(two, pool);
    ASSERT_TRUE(made) << made.error().describe();
    EXPECT_EQ(made->shape, (Shape{2, 3, 8, 8}));
    const auto preprocess = *Preprocess::from_text(pixel_classifier().preprocess, "");
    for (std::size_t i = 0; i < 2; ++i) {
        Image image(7, 5);
        std::memcpy(image.pixels.data(), bytes.data() + 105 * (1 + i), 105);
        std::vector<float> wanted(192);
        ASSERT_TRUE(preprocess->apply(image, wanted));
        const auto floats = made->as<float>().subspan(192 * i, 192);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), floats.begin())) << i;
    }
    // For the device: in place where a request came in one piece, and the last repeated.
    std::vector<std::byte> kept;
    const std::vector<const RequestInputs*> both{&one, &two};
    const auto batch = serving->pixels->batch(both, 4, kept);
    ASSERT_TRUE(batch) << batch.error().describe();
    ASSERT_EQ(batch->pictures.size(), 4U);
    EXPECT_EQ(batch->axes.size(), 2U);
    EXPECT_EQ(batch->pictures[0].pixels, reinterpret_cast<const std::uint8_t*>(bytes.data()));
    for (std::size_t i = 0; i < 4; ++i) {
        const Picture& picture = batch->pictures[i];
        EXPECT_EQ(picture.width, 7U);
        EXPECT_EQ(picture.height, 5U);
        EXPECT_EQ(std::memcmp(picture.pixels, bytes.data() + 105 * std::min<std::size_t>(i, 2), 105), 0) << i;
    }
    const auto blank = serving->pixels->blank(2, kept);
    ASSERT_TRUE(blank);
    EXPECT_EQ(blank->pictures.size(), 2U);
    EXPECT_EQ(blank->pictures[1].width, 8U);
}

} // namespace
} // namespace lathe::triton::test
