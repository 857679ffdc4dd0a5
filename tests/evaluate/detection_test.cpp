#include "evaluate/detection.hpp"
#include "evaluate/task_judge.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

constexpr std::size_t rows = 10;
constexpr std::size_t pictures = 12;

/// Pictures p0, p1, ... of 200 x 100 pixels, whose one input value is their number.
class Pictures final : public Dataset {
public:
    explicit Pictures(bool sized = true) : sized_(sized) {}
    std::size_t size() const override { return pictures; }
    bool has_labels() const override { return false; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        if (at_ >= pictures) return std::optional<Batch>();
        Batch batch;
        const std::size_t n = std::min(count, pictures - at_);
        batch.inputs.emplace_back("x", DataType::float32, Shape{static_cast<std::int64_t>(n), 1});
        for (std::size_t i = 0; i < n; ++i, ++at_) {
            batch.inputs[0].as<float>()[i] = static_cast<float>(at_);
            batch.names.push_back("p" + std::to_string(at_));
            batch.labels.push_back(-1);
            if (sized_) batch.sizes.push_back({200, 100});
        }
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("pictures"); }

private:
    bool sized_;
    std::size_t at_ = 0;
};

/// One object of class 1 at {10, 25, 20, 20} of a 100 x 100 input, moved by `shift` in pictures from `from` on.
class Detector final : public OutputsPredictor {
public:
    Detector(std::string name, float shift, std::size_t from) : name_(std::move(name)), shift_(shift), from_(from) {}
    const std::string& name() const override { return name_; }
    const std::string& precision() const override { return precision_; }
    Result<HostTensor> predict(const Batch& batch) override {
        LATHE_TRY(auto all, predict_all(batch));
        return std::move(all.front());
    }
    Result<std::vector<HostTensor>> predict_all(const Batch& batch) override {
        HostTensor output("out", DataType::float32, {static_cast<std::int64_t>(batch.size()), rows, 6});
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto number = static_cast<std::size_t>(batch.inputs[0].as<float>()[i]);
            const float left = 10 + (number >= from_ ? shift_ : 0.0F);
            const float row[6]{left, 25, left + 20, 45, 0.8F, 1};
            std::copy(row, row + 6, output.as<float>().begin() + static_cast<std::ptrdiff_t>(i * rows * 6));
            if (broken && number == 3) output.as<float>()[i * rows * 6 + 6] = std::numeric_limits<float>::quiet_NaN();
        }
        std::vector<HostTensor> outputs;
        outputs.push_back(std::move(output));
        return outputs;
    }
    bool broken = false;

private:
    std::string name_;
    std::string precision_ = "fp32";
    float shift_;
    std::size_t from_;
};

/// Where the detector's object is in a picture of 200 x 100 in a letterbox of 100 x 100: twice as large, 50 higher.
DetectionTruth truth_of(std::size_t count) {
    DetectionTruth truth;
    truth.format = "COCO";
    truth.source = "instances.json";
    truth.classes = {"cat"};
    for (std::size_t i = 0; i < count; ++i)
        truth.by_name["p" + std::to_string(i)].objects.push_back({{20, 0, 40, 40}, 0, 1600});
    return truth;
}

Preprocess letterbox() {
    Preprocess preprocess;
    preprocess.letterbox = Preprocess::Size{100, 100};
    return preprocess;
}

const DetectionHead head{HeadForm::end_to_end, {0}, 0, 100, 100, {}};

TEST(EvaluateDetection, BoxesGoBackToThePictureAndClassesToTheModels) {
    Detector reference("fp32", 0, 0);
    Detector moved("int8", 30, 6); // half of the pictures are wrong
    std::vector<OutputsPredictor*> detectors{&reference, &moved};
    Pictures data;
    const DetectionTruth truth = truth_of(10); // it does not speak of two
    DetectionOptions options;
    options.batch_size = 5;
    const auto evaluation =
        evaluate_detection(detectors, true, data, letterbox(), head, &truth, {1}, options, no_progress());
    ASSERT_TRUE(evaluation) << evaluation.error().describe();
    EXPECT_EQ(evaluation->pictures.size(), 10U);
    EXPECT_EQ(evaluation->left_out, 2U);
    const Json subjects = to_json(*evaluation, {"", "cat"}, options);
    EXPECT_DOUBLE_EQ(subjects[0]["map"].get<double>(), 1);
    EXPECT_FALSE(subjects[0].contains("vs_reference"));
    const Json& versus = subjects[1]["vs_reference"];
    EXPECT_LT(versus["map_delta"].get<double>(), -0.3);
    EXPECT_LT(versus["map_delta_ci95"][1].get<double>(), 0);
    EXPECT_LT(versus["agreement"].get<double>(), 0.7);
    EXPECT_EQ(subjects[1]["classes"][0]["name"], "cat");
    // The worst pictures are those that differ.
    EXPECT_EQ(subjects[1]["worst"][0]["sample"], "p6");
    EXPECT_EQ(subjects[1]["worst"][0]["reference_boxes"][0]["box"], Json::array({20.0, 0.0, 40.0, 40.0}));
    EXPECT_EQ(subjects[1]["worst"][0]["subject_boxes"][0]["box"], Json::array({80.0, 0.0, 40.0, 40.0}));
}

TEST(EvaluateDetection, WithoutTruthTheReferencesDetectionsAreIt) {
    Detector reference("fp32", 0, 0);
    Detector moved("int8", 30, 6);
    moved.broken = true;
    std::vector<OutputsPredictor*> detectors{&reference, &moved};
    Pictures data(false);
    const DetectionOptions options;
    const auto evaluation =
        evaluate_detection(detectors, true, data, Preprocess{}, head, nullptr, {}, options, no_progress());
    ASSERT_TRUE(evaluation) << evaluation.error().describe();
    const Json subjects = to_json(*evaluation, {}, options);
    EXPECT_FALSE(subjects[0].contains("map"));
    EXPECT_DOUBLE_EQ(subjects[0]["agreement"].get<double>(), 1);
    EXPECT_NEAR(subjects[1]["vs_reference"]["agreement_delta"].get<double>(),
                subjects[1]["agreement"].get<double>() - 1, 1e-12);
    EXPECT_LT(subjects[1]["vs_reference"]["agreement_delta_ci95"][1].get<double>(), 0);
    EXPECT_EQ(subjects[1]["nonfinite_samples"], 1);
}

/// The outputs of detectors as TaskJudge is given them, and what evaluate_detection says of the same.
TEST(TaskJudge, SaysOfOutputsInMemoryWhatEvaluationSaysOfEngines) {
    Detector reference("fp32", 0, 0);
    Detector moved("int8", 30, 6);
    std::vector<OutputsPredictor*> detectors{&reference, &moved};
    const DetectionTruth truth = truth_of(10); // it does not speak of two
    const DetectionOptions options;
    Pictures data;
    const auto evaluation =
        evaluate_detection(detectors, true, data, letterbox(), head, &truth, {1}, options, no_progress());
    ASSERT_TRUE(evaluation) << evaluation.error().describe();
    const Json subjects = to_json(*evaluation, {"", "cat"}, options);
    const auto judge = make_detection_judge(head, options, letterbox(), std::make_shared<DetectionTruth>(truth), {1});
    data.rewind();
    while (true) {
        auto batch = data.next(5);
        ASSERT_TRUE(batch);
        if (!*batch) break;
        for (std::size_t network = 0; network < detectors.size(); ++network) {
            const auto outputs = detectors[network]->predict_all(**batch);
            ASSERT_TRUE(judge->add(network, **batch, *outputs));
        }
    }
    const TaskScore score = judge->score(1);
    EXPECT_EQ(judge->left_out(), 2U);
    EXPECT_DOUBLE_EQ(score.reference, subjects[0]["map"].get<double>());
    EXPECT_DOUBLE_EQ(score.metric, subjects[1]["map"].get<double>());
    EXPECT_DOUBLE_EQ(score.agreement, subjects[1]["vs_reference"]["agreement"].get<double>());
    EXPECT_NEAR(0 - score.loss(), subjects[1]["vs_reference"]["map_delta"].get<double>(), 1e-12);
    const Interval change = judge->difference(1, 0);
    EXPECT_DOUBLE_EQ(change.low, subjects[1]["vs_reference"]["map_delta_ci95"][0].get<double>());
    EXPECT_DOUBLE_EQ(change.high, subjects[1]["vs_reference"]["map_delta_ci95"][1].get<double>());
    EXPECT_DOUBLE_EQ(score.part_agreement[0], 1) << "picture 0 is right";
    EXPECT_DOUBLE_EQ(score.part_agreement[7], 0) << "picture 7 is moved";
    EXPECT_DOUBLE_EQ(score.part_agreement[15], 1) << "there is no picture 15 to say anything";
    EXPECT_DOUBLE_EQ(judge->score(0).agreement, 1);
}

TEST(TaskJudge, NothingToFindSaysNothing) {
    const auto judge = make_detection_judge(head, {}, std::nullopt, nullptr, {});
    Batch batch;
    batch.names = {"a"};
    batch.labels = {-1};
    HostTensor output("out", DataType::float32, {1, rows, 6}); // all scores are 0
    ASSERT_TRUE(judge->add(0, batch, {&output, 1}));
    ASSERT_TRUE(judge->add(1, batch, {&output, 1}));
    EXPECT_FALSE(judge->score(1).defined());
}

TEST(EvaluateDetection, TruthThatFitsNothingIsRefused) {
    Detector reference("fp32", 0, 0);
    std::vector<OutputsPredictor*> detectors{&reference};
    const DetectionTruth truth = truth_of(0);
    Pictures data;
    const auto none = evaluate_detection(detectors, true, data, letterbox(), head, &truth, {1}, {}, no_progress());
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().describe(), testing::HasSubstr("instances.json"));
    Pictures arrays(false);
    EXPECT_FALSE(evaluate_detection(detectors, true, arrays, letterbox(), head, &truth, {1}, {}, no_progress()));
}

} // namespace
} // namespace lathe
