// With recorded timings: what is tried in a network, and what is kept.
#include <gtest/gtest.h>

#include "backends/cuda/tuning/timings.hpp"
#include "backends/cuda/tuning/whole_choice.hpp"

namespace lathe::cuda {
namespace {

using test::timing;

TEST(WholeCandidates, AreTheCostliestWithCloseSeconds) {
    const std::map<std::string, std::size_t> counts{{"conv a", 1}, {"conv b", 6}, {"pool", 1}, {"tiny", 1}};
    const std::map<std::string, std::vector<Timing>> timings{
        {"conv a", {timing("x:1", 20), timing("x:2", 22), timing("x:3", 24)}},
        {"conv b", {timing("x:1", 10), timing("y:1", 10.5), timing("x:9", 1, "wrong"), timing("z:1", 11)}},
        {"pool", {timing("x:1", 30), timing("y:1", 60)}},
        {"tiny", {timing("x:1", 0.5), timing("y:1", 0.5)}}};
    const std::map<std::string, std::vector<std::string>> chosen{{"conv a", {"x:1", "x:2", "x:3"}},
                                                                 {"conv b", {"x:1", "y:1", "z:1"}},
                                                                 {"pool", {"x:1", "y:1"}},
                                                                 {"tiny", {"x:1", "y:1"}}};
    const auto found = whole_candidates(counts, chosen, timings);
    ASSERT_EQ(found.size(), 2U) << "the pool has no close second, the tiny one does not matter";
    EXPECT_EQ(found[0].signature, "conv b");
    EXPECT_DOUBLE_EQ(found[0].network_us, 60);
    EXPECT_EQ(found[0].tactics, (std::vector<std::string>{"y:1", "z:1"}));
    EXPECT_EQ(found[1].signature, "conv a");
    EXPECT_EQ(found[1].tactics, std::vector<std::string>{"x:2"}) << "20 % slower alone is not tried";
}

TEST(WholeCandidates, NeedTimings) {
    EXPECT_TRUE(whole_candidates({{"a", 1}}, {}, {}).empty());
    EXPECT_TRUE(whole_candidates({{"a", 1}}, {{"a", {"x:1", "x:2"}}}, {{"a", {timing("x:2", 1)}}}).empty());
}

TEST(WholeCandidates, NoiseIsNotKept) {
    EXPECT_TRUE(keeps({0.98, 0.99, 0.985, 0.99}));
    EXPECT_FALSE(keeps({0.999, 0.998, 0.999}));
    EXPECT_FALSE(keeps({0.9, 0.9, 1.05, 1.04})) << "half of the pairs say the opposite";
    EXPECT_FALSE(keeps({1.02}));
    EXPECT_FALSE(keeps({}));
}

} // namespace
} // namespace lathe::cuda
