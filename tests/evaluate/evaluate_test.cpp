#include "evaluate/evaluate.hpp"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

namespace lathe {
namespace {

/// `count` samples named s0, s1, ...; sample i has the single value i and the label i % classes (or none).
class Numbers final : public Dataset {
public:
    Numbers(std::size_t count, std::int64_t classes, bool labelled = true)
        : count_(count), classes_(classes), labelled_(labelled) {}
    std::size_t size() const override { return count_; }
    bool has_labels() const override { return labelled_; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        if (at_ >= count_) return std::optional<Batch>();
        Batch batch;
        const std::size_t n = std::min(count, count_ - at_);
        largest_batch = std::max(largest_batch, n);
        batch.inputs.emplace_back("x", DataType::float32, Shape{static_cast<std::int64_t>(n), 1});
        for (std::size_t i = 0; i < n; ++i) {
            batch.inputs[0].as<float>()[i] = static_cast<float>(at_ + i);
            batch.names.push_back("s" + std::to_string(at_ + i));
            batch.labels.push_back(labelled_ ? static_cast<std::int64_t>(at_ + i) % classes_ : -1);
        }
        at_ += n;
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("numbers"); }
    std::size_t largest_batch = 0;

private:
    std::size_t count_;
    std::int64_t classes_;
    bool labelled_;
    std::size_t at_ = 0;
};

/// Scores of sample i by a function of (sample, class).
class Scores final : public Predictor {
public:
    Scores(std::string name, std::int64_t classes, std::function<float(std::size_t, std::size_t)> score)
        : name_(std::move(name)), classes_(classes), score_(std::move(score)) {}
    const std::string& name() const override { return name_; }
    const std::string& precision() const override { return precision_; }
    Result<HostTensor> predict(const Batch& batch) override {
        if (failing) return Error{ErrorCode::internal, "broken", "node", ""};
        HostTensor output("y", DataType::float32, {static_cast<std::int64_t>(batch.size()), classes_});
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto sample = static_cast<std::size_t>(batch.inputs[0].as<float>()[i]);
            for (std::size_t j = 0; j < static_cast<std::size_t>(classes_); ++j)
                output.as<float>()[i * static_cast<std::size_t>(classes_) + j] = score_(sample, j);
        }
        return output;
    }
    bool failing = false;

private:
    std::string name_;
    std::string precision_ = "fp32";
    std::int64_t classes_;
    std::function<float(std::size_t, std::size_t)> score_;
};

constexpr std::int64_t classes = 10;

float right(std::size_t sample, std::size_t column) {
    return sample % 10 == column ? 5.0F : 0.1F * static_cast<float>(column);
}

TEST(Evaluate, CountsAgainstLabelsAndReference) {
    Scores reference("fp32", classes, right);
    // Wrong on every 10th sample (class 0): prefers class 1 slightly, so the label stays in the top 5.
    Scores subject("int8", classes, [](std::size_t sample, std::size_t column) {
        return right(sample, column) +
               (sample % 10 == 0 && column == 1 ? 5.0F + static_cast<float>(sample) * 1e-3F : 0.0F);
    });
    Numbers data(95, classes);
    Predictor* subjects[] = {&subject};
    EvaluateOptions options;
    options.batch_size = 7;
    options.worst = 3;
    const auto result = evaluate(subjects, &reference, data, options, no_progress());
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(result->samples, 95U);
    EXPECT_EQ(data.largest_batch, 7U);
    ASSERT_EQ(result->subjects.size(), 2U);
    EXPECT_EQ(result->subjects[0].name, "fp32");
    EXPECT_EQ(result->subjects[0].top1, 95U);
    EXPECT_FALSE(result->subjects[0].versus);
    const SubjectEvaluation& int8 = result->subjects[1];
    EXPECT_EQ(int8.top1, 85U);
    EXPECT_EQ(int8.top5, 95U);
    ASSERT_TRUE(int8.versus);
    EXPECT_EQ(int8.versus->agree, 85U);
    EXPECT_EQ(int8.versus->outcomes.only_reference_right, 10U);
    EXPECT_EQ(int8.versus->outcomes.only_subject_right, 0U);
    ASSERT_EQ(int8.versus->worst.size(), 3U);
    EXPECT_EQ(int8.versus->worst[0].sample, "s90");
    EXPECT_EQ(int8.versus->worst[1].sample, "s80");
    EXPECT_EQ(int8.versus->worst[0].reference_class, 0);
    EXPECT_EQ(int8.versus->worst[0].subject_class, 1);
    EXPECT_GE(int8.versus->worst[0].kl, int8.versus->worst[1].kl);

    const Json json = to_json(*result);
    EXPECT_DOUBLE_EQ(json[1]["top1"].get<double>(), 85.0 / 95);
    EXPECT_DOUBLE_EQ(json[1]["vs_reference"]["agreement"].get<double>(), 85.0 / 95);
    EXPECT_DOUBLE_EQ(json[1]["vs_reference"]["top1_delta"].get<double>(), -10.0 / 95);
    EXPECT_NEAR(json[1]["vs_reference"]["mcnemar"]["p_value"].get<double>(), 2.0 / 1024, 1e-12);
    EXPECT_EQ(json[1]["worst"][0]["sample"], "s90");
}

TEST(Evaluate, TheBatchSizeChangesNothing) {
    std::vector<std::string> results;
    for (const std::size_t batch_size : {1U, 4U, 16U, 100U}) {
        Scores reference("fp32", classes, right);
        Scores subject("int8", classes, [](std::size_t sample, std::size_t column) {
            return right(sample, column) * (sample % 3 == 0 ? 0.9F : 1.1F);
        });
        Numbers data(50, classes);
        Predictor* subjects[] = {&subject};
        EvaluateOptions options;
        options.batch_size = batch_size;
        const auto result = evaluate(subjects, &reference, data, options, no_progress());
        ASSERT_TRUE(result);
        results.push_back(to_json(*result).dump());
    }
    for (const auto& result : results)
        EXPECT_EQ(result, results[0]);
}

TEST(Evaluate, WithoutLabelsSharesAreNullButFidelityIsThere) {
    Scores reference("fp32", classes, right);
    Scores subject("bf16", classes, right);
    Numbers data(20, classes, false);
    Predictor* subjects[] = {&subject};
    const auto result = evaluate(subjects, &reference, data, {}, no_progress());
    ASSERT_TRUE(result);
    const Json json = to_json(*result);
    EXPECT_TRUE(json[1]["top1"].is_null());
    EXPECT_TRUE(json[1]["vs_reference"]["mcnemar"].is_null());
    EXPECT_TRUE(json[1]["vs_reference"]["sqnr_db"].is_null()) << "equal outputs have no noise";
    EXPECT_EQ(json[1]["vs_reference"]["agreement"], 1.0);
}

TEST(Evaluate, NonfiniteOutputsAreWrongAndCounted) {
    Scores subject("fp16", classes, [](std::size_t sample, std::size_t column) {
        return sample < 5 && column == 3 ? std::numeric_limits<float>::quiet_NaN() : right(sample, column);
    });
    Numbers data(20, classes);
    Predictor* subjects[] = {&subject};
    const auto result = evaluate(subjects, nullptr, data, {}, no_progress());
    ASSERT_TRUE(result);
    EXPECT_EQ(result->subjects[0].nonfinite, 5U);
    EXPECT_EQ(result->subjects[0].top1, 15U);
}

TEST(Evaluate, EveryMisfitIsAnError) {
    Numbers labels_too_high(20, 15);
    Numbers data(20, classes);
    Numbers empty(0, classes);
    Scores good("good", classes, right);
    Scores narrow("narrow", 4, right);
    Scores broken("broken", classes, right);
    broken.failing = true;
    Predictor* one[] = {&good};
    Predictor* other[] = {&narrow};
    Predictor* bad[] = {&broken};

    auto result = evaluate(one, nullptr, labels_too_high, {}, no_progress());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::out_of_range);
    EXPECT_EQ(result.error().where, "s10");
    result = evaluate(other, &good, data, {}, no_progress());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::mismatch);
    data.rewind();
    result = evaluate(bad, nullptr, data, {}, no_progress());
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().where.find("broken"), std::string::npos);
    result = evaluate(one, nullptr, empty, {}, no_progress());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    result = evaluate({}, nullptr, data, {}, no_progress());
    EXPECT_FALSE(result);
}

TEST(Evaluate, ProbabilitiesAreNotNormalisedAgain) {
    const auto score = [](float peak) {
        return [peak](std::size_t sample, std::size_t column) { return sample % 10 == column ? peak : (1 - peak) / 9; };
    };
    Scores reference("fp32", classes, score(0.91F));
    Scores subject("int8", classes, score(0.82F));
    Numbers data(10, classes);
    Predictor* subjects[] = {&subject};
    const auto result = evaluate(subjects, &reference, data, {}, no_progress());
    ASSERT_TRUE(result);
    EXPECT_EQ(result->output_kind, OutputKind::probabilities);
    const double expected = 0.91 * std::log(0.91 / 0.82) + 0.09 * std::log(0.09 / 0.18);
    EXPECT_NEAR(result->subjects[1].versus->fidelity.mean_kl(), expected, 1e-6);
    data.rewind();
    EvaluateOptions options;
    options.output_kind = OutputKind::logits;
    const auto forced = evaluate(subjects, &reference, data, options, no_progress());
    ASSERT_TRUE(forced);
    EXPECT_LT(forced->subjects[1].versus->fidelity.mean_kl(), expected / 2);
}

} // namespace
} // namespace lathe
