#include "evaluate/statistics.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Wilson, PublishedValues) {
    struct Case {
        std::size_t successes;
        std::size_t trials;
        double low;
        double high;
    };
    // Newcombe, Statistics in Medicine 17, 1998, 857-872, table I, method 3.
    for (const auto& [successes, trials, low, high] :
         {Case{81, 263, 0.2553, 0.3662}, Case{15, 148, 0.0624, 0.1605}, Case{0, 20, 0.0, 0.1611},
          Case{1, 29, 0.0061, 0.1718}, Case{20, 20, 0.8389, 1.0}}) {
        const Interval interval = wilson_interval(successes, trials);
        EXPECT_NEAR(interval.low, low, 5e-5) << successes << "/" << trials;
        EXPECT_NEAR(interval.high, high, 5e-5) << successes << "/" << trials;
    }
    EXPECT_EQ(wilson_interval(0, 0).low, 0);
    EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

TEST(McNemarTest, ValuesWorkedByHand) {
    struct Case {
        std::size_t only_reference;
        std::size_t only_subject;
        double exact;
        double mid;
    };
    for (const auto& [only_reference, only_subject, exact, mid] : {
             Case{0, 0, 1, 1}, Case{0, 1, 1, 0.5}, // 2 * 1/2, less 1/2
             Case{0, 5, 0.0625, 0.03125},          // 2 / 32, less 1 / 32
             Case{1, 5, 14.0 / 64, 8.0 / 64},      // 2 * (1 + 6) / 64, less 6 / 64
             Case{5, 1, 14.0 / 64, 8.0 / 64},      // symmetric
             Case{3, 3, 1, 1},                     // twice 42 / 64 is capped; less 20 / 64 is 1 exactly
             Case{2, 6, 74.0 / 256, 46.0 / 256},   // 2 * (1 + 8 + 28) / 256, less 28 / 256
         }) {
        PairedOutcomes outcomes;
        outcomes.only_reference_right = only_reference;
        outcomes.only_subject_right = only_subject;
        const McNemar test = mcnemar(outcomes);
        EXPECT_NEAR(test.p_exact, exact, 1e-12) << only_reference << ", " << only_subject;
        EXPECT_NEAR(test.p_mid, mid, 1e-12) << only_reference << ", " << only_subject;
    }
    // Agreement in concordant samples must not matter.
    EXPECT_EQ(mcnemar({1000, 1, 5, 1000}).p_exact, mcnemar({0, 1, 5, 0}).p_exact);
}

TEST(McNemarTest, LargeCountsFollowTheChiSquare) {
    // 300 against 240: chi-square 6.667 with one degree of freedom, p = 0.0098.
    const McNemar test = mcnemar({0, 300, 240, 0});
    EXPECT_NEAR(test.p_mid, std::erfc(std::sqrt(60.0 * 60.0 / 540.0 / 2)), 2e-4);
    EXPECT_GT(test.p_exact, test.p_mid);
}

TEST(PairedOutcomes, Difference) {
    PairedOutcomes outcomes;
    for (int i = 0; i < 6; ++i)
        outcomes.add(true, true);
    outcomes.add(true, false);
    outcomes.add(false, true);
    outcomes.add(false, true);
    outcomes.add(false, false);
    EXPECT_EQ(outcomes.total(), 10U);
    EXPECT_DOUBLE_EQ(outcomes.difference(), 0.1);
    EXPECT_EQ(PairedOutcomes{}.difference(), 0);
    EXPECT_EQ(paired_difference_interval({}).low, -1);
}

// The interval must hold the true difference in about 95 % of trials, with correlated classifiers as ours are.
TEST(PairedDifference, CoversTheTrueDifference) {
    constexpr unsigned seed = 11;
    constexpr int trials = 4000;
    std::mt19937_64 random(seed);
    // Shares of both right, only the reference, only the subject, neither.
    for (const auto& shares :
         {std::vector<double>{0.66, 0.02, 0.015, 0.305}, std::vector<double>{0.85, 0.03, 0.01, 0.11}}) {
        std::discrete_distribution<int> draw(shares.begin(), shares.end());
        int covered = 0;
        for (int trial = 0; trial < trials; ++trial) {
            PairedOutcomes outcomes;
            for (int i = 0; i < 500; ++i) {
                const int kind = draw(random);
                outcomes.add(kind == 0 || kind == 1, kind == 0 || kind == 2);
            }
            covered += paired_difference_interval(outcomes).contains(shares[2] - shares[1]) ? 1 : 0;
        }
        const double share = static_cast<double>(covered) / trials;
        EXPECT_GT(share, 0.935) << "seed " << seed;
        EXPECT_LT(share, 0.985) << "seed " << seed;
    }
}

} // namespace
} // namespace lathe
