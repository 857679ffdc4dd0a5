#include "data/lengths.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::size_t computed(const LengthCounts& counts, const std::vector<std::size_t>& buckets) {
    std::size_t tokens = 0;
    for (const auto& [length, samples] : counts)
        tokens += bucket_of(length, buckets) * samples;
    return tokens;
}

/// The least tokens with `many` buckets, by trying every choice of lengths that holds the longest.
std::size_t by_brute_force(const LengthCounts& counts, std::size_t many) {
    std::vector<std::size_t> lengths;
    for (const auto& [length, samples] : counts)
        lengths.push_back(length);
    std::vector<bool> taken(lengths.size() - 1, false);
    std::fill_n(taken.begin(), many - 1, true);
    std::size_t best = static_cast<std::size_t>(-1);
    do {
        std::vector<std::size_t> buckets;
        for (std::size_t i = 0; i < taken.size(); ++i)
            if (taken[i]) buckets.push_back(lengths[i]);
        buckets.push_back(lengths.back());
        best = std::min(best, computed(counts, buckets));
    } while (std::prev_permutation(taken.begin(), taken.end()));
    return best;
}

TEST(Lengths, BucketsAreTheBestThereAre) {
    std::mt19937 random(7);
    for (int trial = 0; trial < 60; ++trial) {
        LengthCounts counts;
        for (std::size_t i = 1 + random() % 14; i > 0; --i)
            counts[1 + random() % 60] += 1 + random() % (random() % 4 == 0 ? 500 : 9);
        const auto plans = propose_buckets(counts, 8);
        ASSERT_EQ(plans.size(), std::min<std::size_t>(8, counts.size()));
        for (std::size_t k = 1; k <= plans.size(); ++k) {
            const BucketPlan& plan = plans[k - 1];
            ASSERT_EQ(plan.lengths.size(), k);
            EXPECT_TRUE(std::ranges::is_sorted(plan.lengths));
            EXPECT_EQ(plan.lengths.back(), counts.rbegin()->first);
            EXPECT_EQ(plan.computed, computed(counts, plan.lengths));
            EXPECT_EQ(plan.computed, by_brute_force(counts, k)) << "trial " << trial << ", " << k << " buckets";
        }
    }
}

TEST(Lengths, AKnownCase) {
    const LengthCounts counts{{4, 10}, {5, 1}, {16, 3}, {17, 1}};
    const auto plans = propose_buckets(counts, 3);
    EXPECT_THAT(plans[0].lengths, ElementsAre(17U));
    EXPECT_EQ(plans[0].computed, 15U * 17U);
    EXPECT_THAT(plans[1].lengths, ElementsAre(5U, 17U));
    EXPECT_EQ(plans[1].computed, 11U * 5U + 4U * 17U);
    EXPECT_THAT(plans[2].lengths, ElementsAre(4U, 5U, 17U));
    EXPECT_TRUE(propose_buckets({}, 8).empty());
}

TEST(Lengths, BatchesAreAsLongAsTheirLongest) {
    const std::vector<std::size_t> lengths{3, 9, 4, 4, 7};
    EXPECT_THAT(count_lengths(lengths, 1), ElementsAre(Pair(3U, 1U), Pair(4U, 2U), Pair(7U, 1U), Pair(9U, 1U)));
    EXPECT_THAT(count_lengths(lengths, 2), ElementsAre(Pair(4U, 2U), Pair(7U, 1U), Pair(9U, 2U)));
    EXPECT_THAT(count_lengths(lengths, 8), ElementsAre(Pair(9U, 5U)));
}

TEST(Lengths, QuantilesAreOfTheSamples) {
    const LengthCounts counts{{4, 50}, {8, 49}, {30, 1}};
    EXPECT_EQ(length_quantile(counts, 0), 4U);
    EXPECT_EQ(length_quantile(counts, 0.5), 4U);
    EXPECT_EQ(length_quantile(counts, 0.51), 8U);
    EXPECT_EQ(length_quantile(counts, 0.99), 8U);
    EXPECT_EQ(length_quantile(counts, 1), 30U);
    EXPECT_EQ(length_quantile({}, 0.5), 0U);
}

TEST(Lengths, ABucketHoldsItsOwnLength) {
    const std::vector<std::size_t> buckets{8, 16};
    EXPECT_EQ(bucket_of(1, buckets), 8U);
    EXPECT_EQ(bucket_of(8, buckets), 8U);
    EXPECT_EQ(bucket_of(9, buckets), 16U);
    EXPECT_EQ(bucket_of(17, buckets), 0U);
}

} // namespace
} // namespace lathe
