#include "mix/outcome.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// `lost` and `won` of 1000 samples, and how much faster the saved engine is than FP32 and BF16.
Judged judged(std::size_t lost, std::size_t won, RatioSummary fp32, RatioSummary bf16) {
    Judged result;
    result.evaluation.samples = 1000;
    SubjectEvaluation reference;
    reference.name = "FP32";
    SubjectEvaluation subject;
    subject.name = "saved";
    subject.versus.emplace();
    subject.versus->samples = 1000;
    subject.versus->agree = 1000 - lost - won;
    subject.versus->outcomes = {600, lost, won, 400 - lost - won};
    result.evaluation.subjects = {reference, subject};
    result.timed = {{"saved", 1, {1, 1}, {1, {1, 1}, true, 9}, false},
                    {"FP32", fp32.median, {}, fp32, false},
                    {"BF16", bf16.median, {}, bf16, false}};
    result.floats = 2;
    return result;
}

Trial int8_trial() {
    Trial trial;
    trial.mix = Mix::all_int8(Precision::float32, 3);
    return trial;
}

RatioSummary ratio(double low, double median, double high) { return {median, {low, high}, true, 20}; }

TEST(Outcome, JudgesOnDataThatTheSearchDidNotSee) {
    SearchOptions options;
    options.max_drop = 0.3;
    const Outcome good = judge(int8_trial(), judged(2, 1, ratio(2.9, 3, 3.1), ratio(1.4, 1.5, 1.6)), options);
    EXPECT_TRUE(good.good);
    EXPECT_NEAR(good.drop, 0.1, 1e-9);
    EXPECT_THAT(good.text, HasSubstr("use it"));
    const Outcome worse = judge(int8_trial(), judged(40, 3, ratio(2.9, 3, 3.1), ratio(1.4, 1.5, 1.6)), options);
    EXPECT_FALSE(worse.good);
    EXPECT_THAT(worse.reasons.front(), HasSubstr("is missed"));
    const Outcome unknown = judge(int8_trial(), judged(12, 8, ratio(2.9, 3, 3.1), ratio(1.4, 1.5, 1.6)), options);
    EXPECT_TRUE(unknown.good) << "over the limit as measured, but not beyond doubt";
    EXPECT_THAT(unknown.reasons.front(), HasSubstr("neither kept nor missed"));
    EXPECT_THAT(unknown.text, HasSubstr("loses 0.40 pt (top1): not shown to keep within 0.30 pt, nor to miss it"));
}

TEST(Outcome, SaysThatAPlainerEngineIsFaster) {
    SearchOptions options;
    const Outcome slower = judge(int8_trial(), judged(0, 0, ratio(1.1, 1.2, 1.3), ratio(0.8, 0.9, 0.95)), options);
    EXPECT_FALSE(slower.good);
    EXPECT_THAT(slower.reasons.back(), HasSubstr("slower than the BF16 engine"));
    EXPECT_THAT(slower.text, HasSubstr("do not rely on it"));
    Judged overflows = judged(0, 0, ratio(1.1, 1.2, 1.3), ratio(0.8, 0.9, 0.95));
    overflows.beyond_limit = {"BF16"};
    const Outcome only_choice = judge(int8_trial(), overflows, options);
    EXPECT_TRUE(only_choice.good) << "the faster one is no choice";
    EXPECT_THAT(only_choice.reasons.back(),
                HasSubstr("slower than the BF16 engine: 0.900 times its speed, which loses"));
    const Outcome same = judge(int8_trial(), judged(0, 0, ratio(1.1, 1.2, 1.3), ratio(0.97, 0.99, 1.01)), options);
    EXPECT_TRUE(same.good) << "equal within noise";
    options.min_speedup = 1.5;
    EXPECT_FALSE(judge(int8_trial(), judged(0, 0, ratio(1.1, 1.2, 1.3), ratio(1, 1.1, 1.2)), options).good);
}

TEST(Outcome, OfATaskItsMetricCountsAndItsInterval) {
    SearchOptions options;
    options.metric = DamageMetric::task;
    options.max_drop = 0.5;
    Judged lost = judged(2, 1, ratio(2.9, 3, 3.1), ratio(1.4, 1.5, 1.6));
    Judged::ByTask task;
    task.name = "detection";
    task.metric = "mAP 0.50:0.95";
    task.score.reference = 0.30;
    task.score.metric = 0.28;
    task.change = {-0.03, -0.01};
    lost.task = task;
    const Outcome outcome = judge(int8_trial(), lost, options);
    EXPECT_FALSE(outcome.good);
    EXPECT_NEAR(outcome.drop, 2, 1e-9);
    EXPECT_NEAR(outcome.drop_ci95.low, 1, 1e-9);
    EXPECT_NEAR(outcome.drop_ci95.high, 3, 1e-9);
    EXPECT_THAT(outcome.reasons.front(), HasSubstr("is missed"));
    EXPECT_THAT(outcome.text, HasSubstr("loses 2.00 pt (mAP 0.50:0.95)"));
    lost.task->change = {-0.045, 0.002};
    EXPECT_TRUE(judge(int8_trial(), lost, options).good) << "chance cannot be ruled out";
    lost.task->score.metric = 0.301;
    lost.task->change = {-0.004, 0.006};
    EXPECT_THAT(judge(int8_trial(), lost, options).reasons.front(), HasSubstr("holds beyond doubt"));
}

TEST(Outcome, OtherMetrics) {
    SearchOptions options;
    options.metric = DamageMetric::agreement;
    options.max_drop = 2;
    EXPECT_FALSE(judge(int8_trial(), judged(30, 30, ratio(2, 3, 4), ratio(2, 3, 4)), options).good);
    EXPECT_TRUE(judge(int8_trial(), judged(5, 5, ratio(2, 3, 4), ratio(2, 3, 4)), options).good);
    options.metric = DamageMetric::kl;
    options.max_drop = 0.01;
    const Outcome nats = judge(int8_trial(), judged(5, 5, ratio(2, 3, 4), ratio(2, 3, 4)), options);
    EXPECT_THAT(nats.reasons.front(), HasSubstr("holds as measured")) << "there is no interval to say more by";
    EXPECT_THAT(nats.reasons.front(), Not(HasSubstr("("))) << "nor one to print";
}

} // namespace
} // namespace lathe::test
