#include "evaluate/counted.hpp"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/hex.hpp"
#include "data/npy.hpp"
#include "data/open_dataset.hpp"
#include "support/files.hpp"
#include "tasks/regression.hpp"
#include "tasks/segmentation.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using test::from_hex;
using testing::HasSubstr;

// Written by Pillow: 4 x 2 pixels of the classes 0 1 2 15 / 3 2 1 0, by a palette; and 2 x 1 in colour.
constexpr std::string_view mask =
    "89504e470d0a1a0a0000000d49484452000000040000000204030000008d86605000000030504c5445000000ff000000ff00090909090909"
    "0909090909090909090909090909090909090909090909090909090909090909095b8c85f40000000e4944415478da6364d4633012000001"
    "3d007361fbfc580000000049454e44ae426082";
constexpr std::string_view coloured =
    "89504e470d0a1a0a0000000d49484452000000020000000108020000007b40e8dd0000000f4944415478da636464626666660600003c0011"
    "6c05faa10000000049454e44ae426082";

class Truths : public testing::Test {
protected:
    void SetUp() override { scratch_.emplace(ScratchFolder::create().value()); }
    fs::path at(const std::string& name) const { return scratch_->path() / name; }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories(at(name).parent_path());
        ASSERT_TRUE(write_file(at(name), text));
    }
    void write_png(const std::string& name, std::string_view hex) const {
        fs::create_directories(at(name).parent_path());
        ASSERT_TRUE(write_file(at(name), std::span<const std::byte>(from_hex(hex))));
    }
    void write_array(const std::string& name, Shape shape, const std::vector<float>& values) const {
        fs::create_directories(at(name).parent_path());
        HostTensor array("a", DataType::float32, std::move(shape));
        std::ranges::copy(values, array.as<float>().begin());
        ASSERT_TRUE(write_npy(at(name), array.view()));
    }
    std::optional<ScratchFolder> scratch_;
};

std::vector<std::int32_t> labels(const Result<std::optional<Answer>>& answer) {
    EXPECT_TRUE(answer) << answer.error().describe();
    if (!answer || !*answer) return {};
    return std::get<LabelMap>(**answer).labels;
}

TEST_F(Truths, MasksGoTheWayOfTheirPictures) {
    fs::create_directories(at("images"));
    write_png("masks/a.png", mask);
    CountedOptions options;
    options.ignored_label = 15;
    // 4 x 2 pixels in a letterbox of 4 x 4: a row above and one below are no picture.
    Preprocess letterbox;
    letterbox.letterbox = Preprocess::Size{4, 4};
    const auto found = find_masks(scratch_->path(), options, letterbox, 4);
    ASSERT_TRUE(found) << found.error().describe();
    ASSERT_TRUE(*found);
    EXPECT_EQ((*found)->samples, at("images"));
    EXPECT_FALSE((*found)->digest.empty());
    const PictureSize size{4, 2};
    const LabelMap whole{4, 4, std::vector<std::int32_t>(16, 0)};
    EXPECT_EQ(labels((*found)->of("a.jpg", size, whole)),
              (std::vector<std::int32_t>{-1, -1, -1, -1, 0, 1, 2, -1, 3, 2, 1, 0, -1, -1, -1, -1}));
    // An output of half the size: its pixels' centres are at 1 and 3, and 3 is below the picture.
    const LabelMap half{2, 2, std::vector<std::int32_t>(4, 0)};
    EXPECT_EQ(labels((*found)->of("a.jpg", size, half)), (std::vector<std::int32_t>{1, -1, -1, -1}));
    EXPECT_FALSE((*found)->of("b.jpg", size, whole)->has_value());
    // What does not fit is told.
    EXPECT_THAT((*found)->of("a.jpg", PictureSize{5, 2}, whole).error().describe(), HasSubstr("5x2"));
    const auto few = find_masks(scratch_->path(), options, letterbox, 3);
    EXPECT_THAT((*few)->of("a.jpg", size, whole).error().describe(), HasSubstr("3 classes"));
    options.first_label = 1;
    const auto shifted = find_masks(scratch_->path(), options, letterbox, 3);
    EXPECT_EQ(labels((*shifted)->of("a.jpg", size, half)), (std::vector<std::int32_t>{0, -1, -1, -1}));
    write_png("masks/c.png", coloured);
    EXPECT_THAT((*found)->of("c.jpg", PictureSize{2, 1}, whole).error().describe(), HasSubstr("colour"));
    EXPECT_FALSE(find_masks(at("images"), options, letterbox, 3)->has_value());
}

TEST_F(Truths, TargetsAreArraysOrPictures) {
    fs::create_directories(at("d/inputs"));
    write_array("d/targets/a.npy", {2}, {3, 4});
    write_png("d/targets/b.png", coloured);
    CountedOptions options;
    options.target_scale = 2;
    const auto found = find_targets(at("d"), options);
    ASSERT_TRUE(found && *found);
    EXPECT_TRUE((*found)->pictures);
    const auto a = (*found)->of("a.jpg", {}, Numbers{{2}, {0, 0}});
    EXPECT_EQ(std::get<Numbers>(**a).values, (std::vector<float>{3, 4}));
    const auto b = (*found)->of("b.npy", {}, Numbers{{3, 1, 2}, {0, 0, 0, 0, 0, 0}});
    EXPECT_EQ(std::get<Numbers>(**b).values, (std::vector<float>{2, 8, 4, 10, 6, 12})); // planes of R, G, B
    EXPECT_FALSE((*found)->of("a.jpg", {}, Numbers{{3}, {0, 0, 0}}));
    EXPECT_FALSE((*found)->of("c.jpg", {}, Numbers{{3}, {0, 0, 0}})->has_value());

    write_array("inputs.npy", {2, 1}, {0, 0});
    write_array("targets.npy", {2}, {5, 6});
    const auto rows = find_targets(scratch_->path(), options);
    ASSERT_TRUE(rows && *rows);
    EXPECT_EQ(std::get<Numbers>(**(*rows)->of("1", {}, Numbers{{1}, {0}})).values, (std::vector<float>{6}));
    EXPECT_FALSE((*rows)->of("2", {}, Numbers{{1}, {0}}));
    EXPECT_FALSE((*rows)->of("1", {}, Numbers{{2}, {0, 0}}));
}

TEST_F(Truths, TextsStandInATable) {
    EXPECT_FALSE(find_texts(scratch_->path())->has_value());
    write("rec_gt.txt", "train/a.png\tzwölf\n\nb.png\t\r\n");
    const auto tabbed = find_texts(scratch_->path());
    ASSERT_TRUE(tabbed && *tabbed);
    EXPECT_EQ(std::get<std::u32string>(**(*tabbed)->of("a.png", {}, {})), U"zwölf");
    EXPECT_EQ(std::get<std::u32string>(**(*tabbed)->of("b.png", {}, {})), U"");
    EXPECT_FALSE((*tabbed)->of("c.png", {}, {})->has_value());
    write("texts.csv", "file,text\na.png,\"one, \"\"two\"\"\"\n"); // comes first
    EXPECT_EQ(std::get<std::u32string>(**(*find_texts(scratch_->path()))->of("a.png", {}, {})), U"one, \"two\"");
    write("texts.csv", "name,text\na.png,x\n");
    EXPECT_THAT(find_texts(scratch_->path()).error().describe(), HasSubstr("file,text"));
    write("texts.csv", "file,text\na.png\n");
    EXPECT_FALSE(find_texts(scratch_->path()));
    fs::remove(at("texts.csv"));
    write("rec_gt.txt", "a.png without\n");
    EXPECT_THAT(find_texts(scratch_->path()).error().describe(), HasSubstr("tab"));
    write("rec_gt.txt", "a.png\t\xff\n");
    EXPECT_FALSE(find_texts(scratch_->path()));
}

/// Gives back its input, moved by `shift`.
class Echo final : public OutputsPredictor {
public:
    Echo(std::string name, float shift) : name_(std::move(name)), shift_(shift) {}
    const std::string& name() const override { return name_; }
    const std::string& precision() const override { return precision_; }
    Result<HostTensor> predict(const Batch& batch) override {
        LATHE_TRY(auto all, predict_all(batch));
        return std::move(all.front());
    }
    Result<std::vector<HostTensor>> predict_all(const Batch& batch) override {
        std::vector<HostTensor> outputs{batch.inputs.front()};
        for (float& value : outputs.front().as<float>()) {
            const bool breaks = broken && value == 3;
            value += shift_ * (static_cast<int>(value) % 2 == 0 ? 1.0F : -1.0F);
            if (breaks) value = std::numeric_limits<float>::quiet_NaN();
        }
        return outputs;
    }
    bool broken = false;

private:
    std::string name_;
    std::string precision_ = "fp32";
    float shift_;
};

/// 30 samples of one number, 0, 1, ...
std::unique_ptr<Dataset> numbers() {
    HostTensor array("x", DataType::float32, {30, 1});
    for (std::size_t i = 0; i < 30; ++i)
        array.as<float>()[i] = static_cast<float>(i);
    std::vector<HostTensor> arrays;
    arrays.push_back(std::move(array));
    return std::move(dataset_of_arrays(std::move(arrays), {}, {{"x", DataType::float32, {-1, 1}}}, {})).value();
}

TEST(EvaluateCounted, AgainstTruthAndReference) {
    CountedTruth truth;
    truth.format = "targets";
    truth.of = [](const std::string& sample, const std::optional<PictureSize>&,
                  const Answer&) -> Result<std::optional<Answer>> {
        if (sample == "7") return std::optional<Answer>();
        return std::optional<Answer>(Numbers{{1}, {std::stof(sample) + 1}});
    };
    Echo reference("fp32", 0.5F);
    Echo other("int8", 3);
    other.broken = true;
    std::vector<OutputsPredictor*> engines{&reference, &other};
    const auto task = make_regression_task({0, 0});
    const auto data = numbers();
    const auto evaluation = evaluate_counted(*task, engines, true, *data, &truth, 4, no_progress());
    ASSERT_TRUE(evaluation) << evaluation.error().describe();
    EXPECT_EQ(evaluation->left_out, 1U);
    const Json subjects = to_json(*evaluation, task->figures(), 3, 500);
    EXPECT_EQ(subjects[0]["samples"], 29);
    // Even numbers are given half more, odd ones half less: 0.5 and 1.5 from the truth.
    EXPECT_NEAR(subjects[0]["mae"].get<double>(), (15 * 0.5 + 14 * 1.5) / 29, 1e-6);
    EXPECT_FALSE(subjects[0].contains("vs_reference"));
    EXPECT_EQ(subjects[1]["nonfinite_samples"], 1);
    const Json& versus = subjects[1]["vs_reference"];
    EXPECT_NEAR(versus["r2_delta"].get<double>(), subjects[1]["r2"].get<double>() - subjects[0]["r2"].get<double>(),
                1e-12);
    EXPECT_LT(versus["r2_delta_ci95"][1].get<double>(), 0);
    EXPECT_LT(versus["agreement"].get<double>(), 1);
    EXPECT_EQ(subjects[1]["worst"].size(), 0U) << "one number alone has no variance to explain";
}

TEST(EvaluateCounted, WithoutTruthTheReferencesAnswersAreIt) {
    Echo reference("fp32", 0);
    Echo other("int8", 1);
    std::vector<OutputsPredictor*> engines{&reference, &other};
    const auto task = make_regression_task({0, 0});
    const auto data = numbers();
    const auto evaluation = evaluate_counted(*task, engines, true, *data, nullptr, 7, no_progress());
    ASSERT_TRUE(evaluation);
    const Json subjects = to_json(*evaluation, task->figures(), 3, 500);
    EXPECT_EQ(subjects[0]["r2"], 1);
    EXPECT_EQ(subjects[1]["mae"], 1);
    EXPECT_DOUBLE_EQ(subjects[1]["vs_reference"]["r2_delta"].get<double>(), subjects[1]["r2"].get<double>() - 1);
}

TEST(EvaluateCounted, ATruthOfOtherSamplesIsRefused) {
    CountedTruth truth;
    truth.source = "targets";
    truth.of = [](const std::string&, const std::optional<PictureSize>&,
                  const Answer&) -> Result<std::optional<Answer>> { return std::optional<Answer>(); };
    Echo engine("fp32", 0);
    std::vector<OutputsPredictor*> engines{&engine};
    const auto data = numbers();
    const auto task = make_regression_task({0, 0});
    EXPECT_FALSE(evaluate_counted(*task, engines, false, *data, &truth, 7, no_progress()));
}

} // namespace
} // namespace lathe
