#include "bench/bench.hpp"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/fake_subject.hpp"
#include "bench/noise.hpp"

namespace lathe {
namespace {

using test::FakeSubject;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Measure : public ::testing::Test {
protected:
    FakeSubject& add(const std::string& name, SubjectKind kind, double ns) {
        auto subject = std::make_unique<FakeSubject>(name, clock_, [ns](std::size_t) { return ns; });
        subject->info().kind = kind;
        subjects_.push_back(std::move(subject));
        return static_cast<FakeSubject&>(*subjects_.back());
    }
    MeasureOptions options() {
        MeasureOptions options;
        options.batch_sizes = {1, 8};
        options.interleave.burst.milliseconds = 5;
        options.interleave.now = [this] { return clock_; };
        options.interleave.sleep_ms = [](double) {};
        options.inputs = [](std::int64_t batch) -> Result<std::vector<InputSpec>> {
            return std::vector<InputSpec>{{"x", DataType::float32, {batch, 4}}};
        };
        return options;
    }
    double clock_ = 0;
    std::vector<std::unique_ptr<Subject>> subjects_;
};

/// What was left out, as the results list it.
std::vector<std::string> left_out(const Json& result) {
    std::vector<std::string> names;
    for (const Json& entry : result.at("unavailable"))
        if (entry.at("reason") == over_budget) names.push_back(entry.at("subject"));
    return names;
}

TEST_F(Measure, LeavesOutWhatDoesNotFitIntoTheTimeLeft) {
    add("int8", SubjectKind::engine, 1e9); // a second a call
    add("fp32", SubjectKind::engine, 2e9);
    MeasureOptions limited = options();
    limited.batch_sizes = {1, 8, 16};
    limited.left_s = [this] { return 20 - clock_; };
    const auto result = measure(subjects_, limited, no_progress());
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(result->at("latency").size(), 2U) << "of the first batch size alone";
    EXPECT_THAT(left_out(*result), ElementsAre("throughput at batch 1", "batch 8", "batch 16"));
    EXPECT_LT(clock_, 20);
}

TEST_F(Measure, TimeThatIsOverStillGivesTheFirstLatencies) {
    add("int8", SubjectKind::engine, 1e9);
    MeasureOptions limited = options();
    limited.left_s = [this] { return -1 - clock_; };
    const auto result = measure(subjects_, limited, no_progress());
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(result->at("latency").size(), 1U);
    EXPECT_THAT(result->at("throughput"), IsEmpty());
    EXPECT_THAT(left_out(*result), ElementsAre("throughput at batch 1", "batch 8"));
}

TEST_F(Measure, EnoughTimeLeavesNothingOut) {
    add("int8", SubjectKind::engine, 1e6);
    MeasureOptions limited = options();
    limited.left_s = [this] { return 100 - clock_; };
    const auto result = measure(subjects_, limited, no_progress());
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(result->at("latency").size(), 2U);
    EXPECT_EQ(result->at("throughput").size(), 2U);
    EXPECT_THAT(left_out(*result), IsEmpty());
}

TEST_F(Measure, GivesLatencyThroughputAndRatiosOfEngines) {
    add("int8", SubjectKind::engine, 1e6);
    add("fp32", SubjectKind::engine, 2e6);
    add("pytorch", SubjectKind::pytorch, 5e6);
    const auto result = measure(subjects_, options(), no_progress());
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(result->at("latency").size(), 6U);
    EXPECT_EQ(result->at("throughput").size(), 6U);
    EXPECT_DOUBLE_EQ(result->at("latency")[0]["median_ms"].get<double>(), 1.0);
    EXPECT_TRUE(result->at("latency")[0]["preprocess_ms"].is_null()) << "inputs were random";
    std::vector<std::string> pairs;
    for (const auto& ratio : result->at("ratios")) {
        if (ratio["batch"] == 1) {
            pairs.push_back(ratio["subject"].get<std::string>() + "/" + ratio["reference"].get<std::string>() + "=" +
                            ratio["speedup"].dump());
        }
    }
    EXPECT_THAT(pairs, ElementsAre("int8/pytorch=5.0", "fp32/int8=0.5", "fp32/pytorch=2.5"));
    EXPECT_THAT(result->at("unavailable"), IsEmpty());
}

TEST_F(Measure, AFailingSubjectIsListedWithItsReason) {
    add("int8", SubjectKind::engine, 1e6);
    FakeSubject& broken = add("onnxruntime", SubjectKind::onnxruntime, 1e6);
    broken.fail_after_bursts = 1;
    broken.failure = Error{ErrorCode::unsupported, "no kernel", "", "another version"};
    auto short_run = options();
    short_run.batch_sizes = {4};
    const auto result = measure(subjects_, short_run, no_progress());
    ASSERT_TRUE(result);
    EXPECT_EQ(result->at("latency").size(), 1U);
    ASSERT_EQ(result->at("unavailable").size(), 1U);
    EXPECT_EQ(result->at("unavailable")[0].dump(),
              R"({"subject":"onnxruntime","reason":"no kernel","batch":4,"cure":"another version"})");
}

TEST(Noise, ReadsProcStat) {
    const CpuTimes times = parse_cpu_times("cpu  100 20 30 400 50 6 7 80 0 0");
    EXPECT_EQ(times.busy, 163U);
    EXPECT_EQ(times.idle, 450U);
    EXPECT_EQ(times.stolen, 80U);
    for (const char* text : {"", "cpu 1 2", "intr 5", "cpu a b c d e f g h"})
        EXPECT_EQ(parse_cpu_times(text).total(), 0U) << text;
}

TEST(Noise, NamesWhatDisturbed) {
    Machine machine;
    machine.governor = "performance";
    EXPECT_THAT(noise_notes(machine, {0, 0, 0}, {1, 99, 0}, {91, 109, 0}), IsEmpty());
    machine.governor = "powersave";
    machine.hypervisor = true;
    EXPECT_THAT(
        noise_notes(machine, {0, 0, 0}, {30, 70, 0}, {70, 100, 30}),
        ElementsAre(HasSubstr("30 %"), HasSubstr("30 %"), HasSubstr("powersave"), HasSubstr("virtual machine")));
}

} // namespace
} // namespace lathe
