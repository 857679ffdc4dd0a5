#include "bench/interleave.hpp"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/fake_subject.hpp"

namespace lathe {
namespace {

using test::FakeSubject;

class Interleave : public ::testing::Test {
protected:
    InterleaveOptions options() {
        InterleaveOptions options;
        options.burst.milliseconds = 10;
        options.now = [this] { return clock_; };
        options.sleep_ms = [this](double milliseconds) {
            clock_ += milliseconds * 1e-3;
            ++pauses_;
        };
        return options;
    }
    std::function<double(std::size_t)> noisy(double mean_ns, double deviation, unsigned seed) {
        return [mean_ns, deviation, random = std::mt19937_64(seed)](std::size_t) mutable {
            return std::max(1.0, mean_ns * (1 + deviation * std::normal_distribution<double>()(random)));
        };
    }
    double clock_ = 100;
    std::size_t pauses_ = 0;
};

TEST_F(Interleave, TakesTurnsAndGivesTheTrueRatio) {
    std::vector<std::string> turns;
    FakeSubject fast("fast", clock_, noisy(1e6, 0.01, 1));
    FakeSubject slow("slow", clock_, noisy(2.5e6, 0.01, 2));
    fast.turns = &turns;
    slow.turns = &turns;
    Subject* subjects[] = {&fast, &slow};
    auto results = interleave(subjects, options(), no_progress());
    ASSERT_TRUE(results) << results.error().describe();
    ASSERT_TRUE((*results)[0]);
    ASSERT_TRUE((*results)[1]);
    const InterleavedLatency& a = *(*results)[0];
    const InterleavedLatency& b = *(*results)[1];
    EXPECT_NEAR(a.call_ns.median, 1e6, 1e4);
    EXPECT_NEAR(b.call_ns.median, 2.5e6, 2.5e4);
    EXPECT_FALSE(a.noisy);
    EXPECT_FALSE(b.noisy);
    EXPECT_EQ(a.copy_in_ns, 100);
    EXPECT_EQ(a.copy_out_ns, 10);
    EXPECT_EQ(a.burst_medians_ns.size(), b.burst_medians_ns.size());
    EXPECT_NEAR(summarize_ratio(a.burst_medians_ns, b.burst_medians_ns).median, 2.5, 0.05);
    // After the warm-up of each, strictly A B A B.
    const std::size_t warm = a.warmup_bursts + b.warmup_bursts;
    for (std::size_t i = warm; i < turns.size(); ++i)
        EXPECT_EQ(turns[i], (i - warm) % 2 == 0 ? "fast" : "slow") << i;
    EXPECT_EQ(pauses_, turns.size());
}

TEST_F(Interleave, NoisyWhenItDoesNotSettleInTime) {
    FakeSubject steady("steady", clock_, noisy(1e6, 0.001, 3));
    FakeSubject wild("wild", clock_, noisy(1e6, 0.9, 4));
    Subject* subjects[] = {&steady, &wild};
    auto limited = options();
    limited.time_limit_s = 0.5;
    const double start = clock_;
    auto results = interleave(subjects, limited, no_progress());
    ASSERT_TRUE(results);
    EXPECT_FALSE((*results)[0]->noisy);
    EXPECT_TRUE((*results)[1]->noisy);
    // Two warm-ups of a fifth, the rounds, and at most one burst over.
    EXPECT_LT(clock_ - start, 2 * 0.5 * 1.2 + 0.1);
}

TEST_F(Interleave, LeastWarmUpAndCallsAreKept) {
    FakeSubject steady("steady", clock_, [](std::size_t) { return 1e6; });
    Subject* subjects[] = {&steady};
    auto asked = options();
    asked.warm_up_s = 1;
    asked.rule.min_calls = 500;
    asked.percentiles = {0, 50, 99.9};
    auto results = interleave(subjects, asked, no_progress());
    ASSERT_TRUE(results);
    const InterleavedLatency& latency = *(*results)[0];
    // Some bursts of 12 ms with pauses of 5 are enough to be steady; a second takes over 50.
    EXPECT_GE(latency.warmup_bursts, 50U);
    EXPECT_GE(latency.call_ns.count, 500U);
    EXPECT_FALSE(latency.noisy);
    EXPECT_EQ(latency.percentiles_ns.at(0), latency.call_ns.min);
    EXPECT_EQ(latency.percentiles_ns.at(50), latency.call_ns.median);
    EXPECT_GE(latency.percentiles_ns.at(99.9), latency.call_ns.p99);
    // The time limit comes first.
    asked.rule.min_calls = 1000000;
    asked.time_limit_s = 0.5;
    results = interleave(subjects, asked, no_progress());
    ASSERT_TRUE(results);
    EXPECT_TRUE((*results)[0]->noisy);
}

TEST_F(Interleave, FirstCallOfABurstIsDroppedUnlessItIsTheBurst) {
    // Every 1st of 11 calls is slow, as after a pause: kept calls must not show it.
    FakeSubject waking("waking", clock_, [](std::size_t call) { return call % 11 == 0 ? 5e6 : 1e6; });
    FakeSubject slow("slow", clock_, [](std::size_t) { return 80e6; });
    Subject* subjects[] = {&waking, &slow};
    auto results = interleave(subjects, options(), no_progress());
    ASSERT_TRUE(results);
    EXPECT_EQ((*results)[0]->call_ns.max, 1e6);
    EXPECT_EQ((*results)[1]->call_ns.count, (*results)[1]->burst_medians_ns.size());
}

TEST_F(Interleave, CallsAsAServerMakesThemAreTimedInTheSameRounds) {
    FakeSubject engine("engine", clock_, [](std::size_t) { return 1e6; });
    engine.other_sizes = true;
    FakeSubject one_size("one size", clock_, [](std::size_t) { return 1e6; });
    FakeSubject peer("peer", clock_, [](std::size_t) { return 1e6; });
    peer.info().kind = SubjectKind::onnxruntime;
    Subject* subjects[] = {&engine, &one_size, &peer};
    InterleaveOptions asked = options();
    asked.call_pause_ms = 2;
    auto results = interleave(subjects, asked, no_progress());
    ASSERT_TRUE(results);
    const InterleavedLatency& first = *(*results)[0];
    ASSERT_TRUE(first.paused_ns && first.other_size_ns);
    EXPECT_NEAR(first.call_ns.median, 1e6, 1e4) << "without them";
    EXPECT_NEAR(first.paused_ns->median, 3e6, 3e4);
    EXPECT_NEAR(first.other_size_ns->median, 2e6, 2e4);
    EXPECT_EQ(first.other_size_ns->count, 5 * first.burst_medians_ns.size()) << "bursts of 10 ms, none dropped";
    EXPECT_TRUE((*results)[1]->paused_ns);
    EXPECT_FALSE((*results)[1]->other_size_ns);
    EXPECT_FALSE((*results)[2]->paused_ns);
    auto plain = interleave(subjects, options(), no_progress());
    ASSERT_TRUE(plain);
    EXPECT_FALSE((*plain)[0]->paused_ns);
}

TEST_F(Interleave, AFailingSubjectDropsOutAndTheOthersGoOn) {
    FakeSubject good("good", clock_, noisy(1e6, 0.01, 5));
    FakeSubject early("early", clock_, noisy(1e6, 0.01, 6));
    FakeSubject late("late", clock_, noisy(1e6, 0.01, 7));
    early.fail_after_bursts = 0;
    late.fail_after_bursts = 6;
    Subject* subjects[] = {&early, &good, &late};
    auto results = interleave(subjects, options(), no_progress());
    ASSERT_TRUE(results);
    EXPECT_FALSE((*results)[0]);
    EXPECT_EQ((*results)[0].error().message, "the subject broke");
    EXPECT_TRUE((*results)[1]);
    EXPECT_FALSE((*results)[2]);
}

TEST_F(Interleave, AnInterruptionEndsEverything) {
    FakeSubject good("good", clock_, noisy(1e6, 0.01, 8));
    FakeSubject stopped("stopped", clock_, noisy(1e6, 0.01, 9));
    stopped.fail_after_bursts = 4;
    stopped.failure.code = ErrorCode::cancelled;
    Subject* subjects[] = {&good, &stopped};
    auto results = interleave(subjects, options(), no_progress());
    ASSERT_FALSE(results);
    EXPECT_EQ(results.error().code, ErrorCode::cancelled);
}

} // namespace
} // namespace lathe
