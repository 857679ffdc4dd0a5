#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/machines.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe::test {
namespace {

TEST(Arrivals, PoissonHasItsRateAndSpread) {
    const auto times = Arrivals::poisson(500, 3).at_one_of(5, 200'000);
    EXPECT_NEAR(static_cast<double>(times.size()) / times.back(), 0.1, 0.001) << "a fifth of 0.5 a ms";
    double squares = 0;
    for (std::size_t i = 1; i < times.size(); ++i)
        squares += (times[i] - times[i - 1]) * (times[i] - times[i - 1]);
    EXPECT_NEAR(squares / static_cast<double>(times.size()), 2 * 10 * 10, 4) << "exponential gaps";
}

TEST(Arrivals, ATraceRepeatsIsStretchedAndThinned) {
    const auto own = Arrivals::trace({10.0, 10.1, 10.3});
    ASSERT_TRUE(own);
    EXPECT_NEAR(own->rate(), 2 / 0.3, 1e-9);
    const auto round = own->at_one_of(1, 5);
    EXPECT_THAT(round, testing::Pointwise(testing::DoubleNear(1e-6), {0.0, 100.0, 300.0, 450.0, 550.0}))
        << "a mean gap of 150 ms before the next round";
    const auto faster = Arrivals::trace({10.0, 10.1, 10.3}, 2000 / 0.3);
    EXPECT_THAT(faster->at_one_of(1, 3), testing::Pointwise(testing::DoubleNear(1e-9), {0.0, 0.1, 0.3}));
    const auto thinned = faster->at_one_of(4, 50'000);
    EXPECT_NEAR(50'000 / thinned.back(), 2 / 0.3 / 4, 0.03);
    EXPECT_TRUE(std::ranges::is_sorted(thinned));
    for (const auto& wrong : {std::vector<double>{}, {1}, {2, 2}, {1, std::nan("")}})
        EXPECT_FALSE(Arrivals::trace(wrong));
}

TEST(Arrivals, AreReadFromLinesAndJson) {
    const TemporaryFolder folder;
    const auto read = [&](const std::string& text) {
        EXPECT_TRUE(write_file(folder / "t", text));
        return read_arrival_times(folder / "t");
    };
    using Times = std::vector<double>;
    EXPECT_EQ(*read("time_s,user\n0.5,a\n1.5,b\r\n\n2.5\n"), (Times{0.5, 1.5, 2.5}));
    EXPECT_EQ(*read(" [0, 1e-3, 2]"), (Times{0, 0.001, 2}));
    EXPECT_THAT(read("1\n2\nx\n").error().message, testing::HasSubstr("line 3"));
    EXPECT_THAT(read("1\nnan\n2\n").error().message, testing::HasSubstr("line 2"));
    EXPECT_FALSE(read("[1, \"2\"]"));
    EXPECT_FALSE(read("[1"));
    EXPECT_EQ(read_arrival_times(folder / "none").error().code, ErrorCode::not_found);
}

} // namespace
} // namespace lathe::test
