#include "triton/pictures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support_lib/places.hpp"
#include "triton/model_config.hpp"

namespace lathe::triton::test {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(TritonPictures, StringsAreSplit) {
    using namespace std::string_view_literals;
    const auto two = split_strings(bytes_of("\3\0\0\0abc\0\0\0\0"sv), 2);
    ASSERT_TRUE(two);
    EXPECT_EQ((*two)[0].size(), 3U);
    EXPECT_EQ(std::to_integer<char>((*two)[0][2]), 'c');
    EXPECT_TRUE((*two)[1].empty());
    struct Case {
        std::string_view bytes;
        std::size_t count;
    };
    for (const Case& each : {Case{"\3\0\0\0abc"sv, 2}, Case{"\3\0\0\0abc\0\0\0\0"sv, 1}, Case{"\4\0\0\0abc"sv, 1},
                             Case{"\3\0\0"sv, 1}, Case{""sv, 1}, Case{"\377\377\377\377a"sv, 1}, Case{"a"sv, 0}}) {
        const auto refused = split_strings(bytes_of(each.bytes), each.count);
        ASSERT_FALSE(refused) << each.bytes.size();
        EXPECT_EQ(refused.error().code, ErrorCode::parse_error);
    }
}

EngineInfo picture_classifier() {
    EngineInfo info;
    info.inputs = {{"picture", DataType::float32, {{1, 3, 8, 8}, {4, 3, 8, 8}, {16, 3, 8, 8}}}};
    info.outputs = {{"scores", DataType::float32, {{-1, 3}, {-1, 3}, {-1, 3}}}};
    info.preprocess = R"({"resize":[8,8],"scale":0.5,"mean":[1,2,3],"std":[1,1,1]})";
    return info;
}

Json taking_files(int max_batch = 4) {
    return {{"max_batch_size", max_batch},
            {"input", {{{"name", "picture"}, {"data_type", "TYPE_STRING"}, {"dims", {1}}}}},
            {"output", {{{"name", "scores"}, {"data_type", "TYPE_FP32"}, {"dims", {3}}}}}};
}

TEST(TritonPictures, AreOfEnginesThatSayHow) {
    const auto serving = serving_of(taking_files(), picture_classifier());
    ASSERT_TRUE(serving) << serving.error().describe();
    ASSERT_TRUE(serving->pictures);
    EXPECT_EQ(serving->pictures->shape(5), (Shape{5, 3, 8, 8}));
    EXPECT_EQ(serving->pictures->floats_each(), 192U);
    Json floats = taking_files();
    floats["input"][0]["data_type"] = "TYPE_FP32";
    floats["input"][0]["dims"] = {3, 8, 8};
    EXPECT_FALSE(serving_of(floats, picture_classifier())->pictures);

    struct Case {
        const char* reason;
        void (*change)(EngineInfo&);
    };
    for (const Case& each :
         {Case{"does not say how", [](EngineInfo& info) { info.preprocess.clear(); }},
          Case{"one input of float32", [](EngineInfo& info) { info.inputs[0].type = DataType::uint8; }},
          Case{"one input of float32", [](EngineInfo& info) { info.inputs.push_back(info.inputs[0]); }},
          Case{"preprocessing gives 1x3x8x8",
               [](EngineInfo& info) { info.inputs[0].range.max[2] = info.inputs[0].range.min[2] = 9; }}}) {
        EngineInfo info = picture_classifier();
        each.change(info);
        const auto refused = serving_of(taking_files(), info);
        ASSERT_FALSE(refused) << each.reason;
        EXPECT_THAT(refused.error().describe(), HasSubstr(each.reason));
    }
    const auto unbatched = serving_of(taking_files(0), picture_classifier());
    ASSERT_FALSE(unbatched);
    EXPECT_THAT(unbatched.error().describe(), HasSubstr("max_batch_size"));
}

TEST(TritonPictures, EachHasItsOwnResult) {
    const auto serving = serving_of(taking_files(), picture_classifier());
    ASSERT_TRUE(serving);
    const auto file = MappedFile::open(lathe::test::source_path("tests/data/golden/rgb.png"));
    ASSERT_TRUE(file) << file.error().describe();
    std::vector<float> floats(3 * 192, -1);
    std::vector<PictureJob> jobs;
    const std::vector<std::span<const std::byte>> files{(*file)->bytes(), (*file)->bytes().first(60),
                                                        bytes_of("GIF89a")};
    for (std::size_t i = 0; i < files.size(); ++i)
        jobs.push_back({files[i], std::span(floats).subspan(192 * i, 192)});
    ThreadPool pool(2);
    serving->pictures->run(jobs, pool);
    EXPECT_TRUE(jobs[0].done);
    EXPECT_EQ(jobs[1].done.error().code, ErrorCode::parse_error);
    EXPECT_EQ(jobs[2].done.error().code, ErrorCode::unsupported);
    const auto image = decode_image((*file)->bytes(), "");
    ASSERT_TRUE(image);
    std::vector<float> wanted(192);
    ASSERT_TRUE((*Preprocess::from_text(picture_classifier().preprocess, ""))->apply(*image, wanted));
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), floats.begin()));
}

} // namespace
} // namespace lathe::triton::test
