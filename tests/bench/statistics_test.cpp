#include "bench/statistics.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Quantile, IsNumpysLinearInterpolation) {
    const std::vector<double> values{1, 2, 4, 8, 16};
    struct Case {
        double q;
        double expected; // numpy.quantile([1, 2, 4, 8, 16], q)
    };
    for (const auto& [q, expected] :
         {Case{0, 1}, Case{0.25, 2}, Case{0.5, 4}, Case{0.9, 12.8}, Case{0.95, 14.4}, Case{0.99, 15.68}, Case{1, 16}}) {
        EXPECT_NEAR(quantile(values, q), expected, 1e-12) << "q = " << q;
    }
}

// Table A of the classic order-statistic intervals for the median (e.g. Hahn and Meeker): ranks for 95 %.
TEST(MedianInterval, RanksAreThePublishedOnes) {
    struct Case {
        std::size_t count;
        std::size_t low;
        std::size_t high;
    };
    for (const auto& [count, low, high] :
         {Case{6, 1, 6}, Case{7, 1, 7}, Case{8, 1, 8}, Case{9, 2, 8}, Case{10, 2, 9}, Case{11, 2, 10}, Case{12, 3, 10},
          Case{15, 4, 12}, Case{20, 6, 15}, Case{25, 8, 18}, Case{30, 10, 21}, Case{50, 18, 33}, Case{100, 40, 61}}) {
        const auto ranks = median_interval_ranks(count);
        ASSERT_TRUE(ranks.has_value()) << count;
        EXPECT_EQ(ranks->first, low) << count;
        EXPECT_EQ(ranks->second, high) << count;
    }
}

TEST(MedianInterval, NoIntervalBelowSixValues) {
    for (std::size_t count = 0; count < 6; ++count)
        EXPECT_FALSE(median_interval_ranks(count).has_value()) << count;
    const Summary summary = summarize({3, 1, 2});
    EXPECT_FALSE(summary.ci95_covered);
    EXPECT_EQ(summary.ci95.low, 1);
    EXPECT_EQ(summary.ci95.high, 3);
    EXPECT_TRUE(std::isinf(summary.relative_half_width()));
}

TEST(MedianInterval, LargeCountsFollowTheNormalApproximation) {
    for (const std::size_t count : {1000U, 100000U, 1000000U}) {
        const auto ranks = median_interval_ranks(count);
        ASSERT_TRUE(ranks.has_value());
        const auto n = static_cast<double>(count);
        EXPECT_NEAR(static_cast<double>(ranks->first), (n - 1.959964 * std::sqrt(n)) / 2, 2.0);
        EXPECT_EQ(ranks->first + ranks->second, count + 1);
    }
}

// Coverage by simulation: an exponential's median is ln 2; the interval must hold it in at least 95 % of trials.
TEST(MedianInterval, CoversTheMedianOfASkewedDistribution) {
    constexpr int trials = 4000;
    constexpr unsigned seed = 20261121;
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> draw(1.0);
    for (const std::size_t count : {12U, 41U, 200U}) {
        int covered = 0;
        for (int trial = 0; trial < trials; ++trial) {
            std::vector<double> values(count);
            for (double& value : values)
                value = draw(random);
            covered += summarize(values).ci95.contains(std::log(2.0)) ? 1 : 0;
        }
        const double share = static_cast<double>(covered) / trials;
        // Three standard errors of a share of 95 % in 4,000 trials are 1.03 %. Discrete ranks make it conservative.
        EXPECT_GT(share, 0.95 - 0.0104) << count << " values, seed " << seed;
        EXPECT_LT(share, 0.99) << count << " values, seed " << seed;
    }
}

TEST(Summary, MatchesFiguresWorkedByHand) {
    const Summary summary = summarize({5, 1, 4, 2, 3, 9});
    EXPECT_EQ(summary.count, 6U);
    EXPECT_DOUBLE_EQ(summary.median, 3.5);
    EXPECT_DOUBLE_EQ(summary.mean, 4.0);
    EXPECT_DOUBLE_EQ(summary.std, std::sqrt((1 + 9 + 0 + 4 + 1 + 25) / 5.0));
    EXPECT_DOUBLE_EQ(summary.min, 1);
    EXPECT_DOUBLE_EQ(summary.max, 9);
    EXPECT_DOUBLE_EQ(summary.p90, 7);
    EXPECT_DOUBLE_EQ(summary.ci95.low, 1);
    EXPECT_DOUBLE_EQ(summary.ci95.high, 9);
    EXPECT_TRUE(summary.ci95_covered);
    EXPECT_DOUBLE_EQ(summary.relative_half_width(), 4 / 3.5);
}

TEST(Summary, EdgeCases) {
    EXPECT_EQ(summarize({}).count, 0U);
    const Summary one = summarize({7});
    EXPECT_EQ(one.median, 7);
    EXPECT_EQ(one.std, 0);
    EXPECT_EQ(one.p99, 7);
    const Summary equal = summarize(std::vector<double>(10, 2.5));
    EXPECT_EQ(equal.std, 0);
    EXPECT_EQ(equal.ci95.width(), 0);
    EXPECT_EQ(equal.relative_half_width(), 0);
}

TEST(Summary, TailIsReliableFromMlperfsMinimum) {
    EXPECT_FALSE(summarize(std::vector<double>(661, 1.0)).p99_reliable);
    EXPECT_TRUE(summarize(std::vector<double>(662, 1.0)).p99_reliable);
}

TEST(Ratio, IsTheMedianOfThePairs) {
    const std::vector<double> subject{1, 2, 4};
    const std::vector<double> reference{2, 6, 4, 100};
    const RatioSummary ratio = summarize_ratio(subject, reference);
    EXPECT_EQ(ratio.pairs, 3U);
    EXPECT_DOUBLE_EQ(ratio.median, 2); // of 2, 3, 1
    EXPECT_FALSE(ratio.ci95_covered);
}

// The machine slows to a third half way: the ratio pair by pair does not notice, that of separate runs would.
TEST(Ratio, DriftOfTheMachineCancels) {
    constexpr unsigned seed = 7;
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(1.0, 0.01);
    std::vector<double> subject;
    std::vector<double> reference;
    for (int round = 0; round < 40; ++round) {
        const double speed = round < 20 ? 1.0 : 3.0;
        subject.push_back(2.0 * speed * noise(random));
        reference.push_back(3.0 * speed * noise(random));
    }
    const RatioSummary ratio = summarize_ratio(subject, reference);
    EXPECT_NEAR(ratio.median, 1.5, 0.015);
    EXPECT_TRUE(ratio.ci95.contains(ratio.median));
    EXPECT_LT(ratio.ci95.width(), 0.05);
    EXPECT_GT(summarize(subject).ci95.width(), 0.5);
}

} // namespace
} // namespace lathe
