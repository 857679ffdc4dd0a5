#include "api/picture_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/assume.hpp"
#include "api/model_data.hpp"
#include "onnx/models.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using ::testing::HasSubstr;

constexpr Preprocess::Size usual{64, 64};

/// Reads a line of text: two steps of 2 and a pool of 3 rows, then the one row, which Squeeze demands; a step of 4
/// along the width. `columns`: what the file says of the output's length.
Model line_reader(const std::string& height, const std::string& width, const std::string& columns = "T") {
    Model model = test::model_from("agraph (float[N,3," + height + "," + width + "] x) => (float[N," + columns +
                                   R"(,5] y) {
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1)
        b = Relu(a)
        c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (b, w2)
        d = MaxPool <kernel_shape = [3, 1], strides = [3, 1]> (c)
        axes = Constant <value = int64[1] {2}> ()
        e = Squeeze(d, axes)
        y = Transpose <perm = [0, 2, 1]> (e)
    })");
    test::add_initializer(model, test::ramp("w1", {4, 3, 3, 3}));
    test::add_initializer(model, test::ramp("w2", {5, 4, 3, 3}));
    return model;
}

OpenSize open_size() {
    OpenSize open{usual};
    open.progress = &no_progress();
    return open;
}

TEST(PictureStrides, MultiplyAlongTheWay) {
    const Strides strides = picture_strides(line_reader("H", "W"));
    EXPECT_EQ(strides.height, 12U);
    EXPECT_EQ(strides.width, 4U);
}

TEST(PictureStrides, OfOtherInputsAreOne) {
    const Model texts = test::model_from("agraph (int64[N,16] ids) => (int64[N,16] y) { y = Identity(ids) }");
    EXPECT_EQ(picture_strides(texts).height, 1U);
}

// 64 rows leave 5 after the pool, 12 the one that Squeeze wants.
TEST(GuessPictureSize, FallsBackToTheStrideWhereTheUsualDoesNotHold) {
    const auto guess = guess_picture_size(line_reader("H", "W"), open_size());
    ASSERT_TRUE(guess) << guess.error().describe();
    ASSERT_TRUE(*guess);
    EXPECT_EQ((*guess)->size.height, 12U);
    EXPECT_EQ((*guess)->size.width % 4, 0U);
    EXPECT_THAT((*guess)->why, HasSubstr("takes no 64x64"));
}

TEST(GuessPictureSize, WidthIsWhatMakesTheDeclaredOutput) {
    const auto guess = guess_picture_size(line_reader("H", "W", "25"), open_size());
    ASSERT_TRUE(guess) << guess.error().describe();
    ASSERT_TRUE(*guess);
    EXPECT_EQ((*guess)->size, (Preprocess::Size{12, 100}));
    EXPECT_THAT((*guess)->why, HasSubstr("declared"));
}

TEST(GuessPictureSize, KeepsAFixedHeight) {
    const auto guess = guess_picture_size(line_reader("12", "W"), open_size());
    ASSERT_TRUE(guess) << guess.error().describe();
    ASSERT_TRUE(*guess);
    EXPECT_EQ((*guess)->size.height, 12U);
    EXPECT_THAT((*guess)->why, HasSubstr("the height is the model's"));
}

TEST(GuessPictureSize, KeepsAFixedWidth) {
    const auto guess = guess_picture_size(line_reader("H", "40"), open_size());
    ASSERT_TRUE(guess) << guess.error().describe();
    ASSERT_TRUE(*guess);
    EXPECT_EQ((*guess)->size, (Preprocess::Size{12, 40}));
}

TEST(GuessPictureSize, TakesTheUsualWhereItHolds) {
    Model model = test::model_from("agraph (float[N,3,H,W] x) => (float[N,3,A,B] y) { y = Relu(x) }");
    const auto guess = guess_picture_size(model, open_size());
    ASSERT_TRUE(guess) << guess.error().describe();
    ASSERT_TRUE(*guess);
    EXPECT_EQ((*guess)->size, usual);
}

TEST(GuessPictureSize, NothingToGuess) {
    const auto fixed = guess_picture_size(line_reader("12", "40"), open_size());
    ASSERT_TRUE(fixed) << fixed.error().describe();
    EXPECT_FALSE(*fixed);
}

TEST(GuessPictureSize, SaysWhatStoodInTheWay) {
    Model model = test::model_from(R"(agraph (float[N,3,H,W] x) => (float[N,7] y) {
        shape = Constant <value = int64[2] {1, 7}> ()
        y = Reshape(x, shape)
    })"); // never 7 numbers of 3 channels
    OpenSize open = open_size();
    open.time_limit_s = 1;
    const auto guess = guess_picture_size(model, open);
    ASSERT_FALSE(guess);
    EXPECT_EQ(guess.error().code, ErrorCode::unsupported);
    EXPECT_THAT(guess.error().describe(), HasSubstr("takes none of the"));
    EXPECT_THAT(guess.error().hint, HasSubstr("--preprocess"));
}

// How pictures become the input is then tried with that size, as for a model that has it.
TEST(AssumeInputs, OneSizeThatTheUserGivesIsTheModels) {
    const test::TemporaryFolder folder;
    for (const char* picture : {"420.jpg", "444.jpg"})
        std::filesystem::copy_file(test::source_path("tests/data/golden/") + picture, folder.path() / picture);
    AssumeRequest request{.calibrate = folder.path(), .fix_sizes = false};
    request.progress = &no_progress();
    const Shape least{1, 3, 16, 24}, most{4, 3, 16, 24}, wider{4, 3, 16, 32};
    for (const auto& [name, range, width] : {std::tuple{"x", ShapeRange{least, least, most}, 24},
                                             std::tuple{"", ShapeRange{least, least, most}, 24}, // the only input
                                             std::tuple{"x", ShapeRange{least, least, wider}, -1}}) {
        Model model = test::model_from("agraph (float[N,3,H,W] x) => (float[N,3,1,1] y) { y = GlobalAveragePool(x) }");
        request.shapes = {{name, range}};
        const auto preprocess = assume_inputs(model, request);
        EXPECT_EQ(input_specs(model).front().shape, (Shape{-1, 3, 16, width}));
        EXPECT_EQ(preprocess && *preprocess, width > 0);
    }
}

/// A detector whose head says nothing of its pictures gets them whole, where a classifier would get a crop.
TEST(AssumeInputs, DetectorsSeeTheWholePicture) {
    const test::TemporaryFolder folder;
    std::filesystem::copy_file(test::source_path("tests/data/golden/420.jpg"), folder.path() / "420.jpg");
    std::string told;
    AssumeRequest request{.calibrate = folder.path(), .fix_sizes = false};
    request.progress = &no_progress();
    request.tell = [&](std::string_view line) { told += line; };
    Model model = test::model_from(
        "agraph (float[1,3,32,64] x) => (float[1,300,7] logits, float[1,300,4] boxes)"
        "{ s = Constant <value = int64[3] {1, 1, 1}> () m = ReduceMean <keepdims = 0> (x) one = Reshape(m, s) "
        "a = Constant <value = int64[3] {1, 300, 7}> () logits = Expand(one, a) "
        "b = Constant <value = int64[3] {1, 300, 4}> () boxes = Expand(one, b) }");
    const auto preprocess = assume_inputs(model, request);
    ASSERT_TRUE(preprocess) << preprocess.error().describe();
    ASSERT_TRUE(preprocess->has_value());
    EXPECT_EQ((*preprocess)->resize, (Preprocess::Size{32, 64}));
    EXPECT_FALSE((*preprocess)->crop);
    EXPECT_TRUE((*preprocess)->validate("test"));
    EXPECT_THAT(told, testing::HasSubstr("rt-detr"));
}

} // namespace
} // namespace lathe
