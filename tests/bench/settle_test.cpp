#include "bench/settle.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(SteadyDetector, WaitsWhileBurstsGetFaster) {
    struct Case {
        const char* name;
        std::vector<double> medians;
        std::size_t steady_at; ///< number of bursts taken; 0: never
    };
    for (const auto& [name, medians, steady_at] : std::vector<Case>{
             {"steady from the start", {10, 10, 10, 10}, 3},
             {"gets faster, then stays", {20, 15, 12, 10, 10.1, 9.95}, 6},
             {"noise upwards does not prolong", {10, 30, 50}, 3},
             {"a late gain starts the count again", {10, 10, 8, 8, 8}, 5},
             {"still getting faster", {20, 18, 16, 14}, 0},
         }) {
        SteadyDetector detector;
        std::size_t at = 0;
        for (const double median : medians) {
            if (detector.add(median) && at == 0) at = detector.bursts();
        }
        EXPECT_EQ(at, steady_at) << name;
    }
}

TEST(Samples, DriftBetweenBurstsWidensTheInterval) {
    constexpr unsigned seed = 3;
    std::mt19937_64 random(seed);
    std::normal_distribution<double> within(0.0, 0.001);
    std::normal_distribution<double> between(0.0, 0.05);
    Samples samples;
    std::vector<double> all;
    for (int burst = 0; burst < 20; ++burst) {
        const double level = 1.0 + between(random);
        std::vector<double> calls(200);
        for (double& call : calls)
            call = level + within(random);
        all.insert(all.end(), calls.begin(), calls.end());
        samples.add(calls);
    }
    // Taken as independent, 4,000 calls would claim a much narrower interval than 20 levels can give.
    const double naive = summarize(all).ci95.width();
    const double honest = samples.summary().ci95.width();
    EXPECT_GT(honest, 2 * naive) << "seed " << seed;
    EXPECT_TRUE(samples.summary().ci95.contains(1.0)) << "seed " << seed;
    EXPECT_FALSE(samples.settled({0.01, 8}));
}

TEST(Samples, SettleNeedsRoundsAndANarrowInterval) {
    Samples samples;
    const std::vector<double> calls(100, 5.0);
    for (int i = 0; i < 7; ++i)
        samples.add(calls);
    EXPECT_FALSE(samples.settled({0.01, 8}));
    samples.add(calls);
    EXPECT_TRUE(samples.settled({0.01, 8}));
    samples.add({});
    EXPECT_EQ(samples.burst_medians().size(), 8U);
}

} // namespace
} // namespace lathe
