#include "evaluate/correlation.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Correlation, RanksShareTheirMean) {
    const std::vector<double> values{3, 1, 3, 2, 3};
    EXPECT_THAT(ranks(values), testing::ElementsAre(4, 1, 4, 2, 4));
}

TEST(Correlation, EqualsTheTextbook) {
    // By hand: covariance over the root of the variances.
    const std::vector<double> x{1, 2, 3, 4, 5, 6};
    const std::vector<double> y{2, 1, 4, 3, 7, 5};
    EXPECT_NEAR(pearson(x, y), 0.7917946548886297, 1e-12);
    EXPECT_NEAR(spearman(x, y), 1 - 6 * 6.0 / (6 * 35), 1e-12); // no ties: 1 - 6 sum d^2 / (n (n^2 - 1))
    const std::vector<double> squares{1, 4, 9, 16, 25, 36};
    EXPECT_DOUBLE_EQ(spearman(x, squares), 1);
    EXPECT_LT(pearson(x, squares), 1);
    const std::vector<double> falling{6, 5, 4, 3, 2, 1};
    EXPECT_DOUBLE_EQ(pearson(x, falling), -1);
    const std::vector<double> constant(6, 2.0);
    EXPECT_TRUE(std::isnan(pearson(x, constant)));
    EXPECT_TRUE(std::isnan(spearman({}, {})));
}

TEST(Correlation, Intervals) {
    // Fisher: r = 0.5, n = 28: z = 0.549306, half = 1.959964 / 5.
    const Interval fisher = pearson_interval(0.5, 28);
    EXPECT_NEAR(fisher.low, std::tanh(0.5493061443 - 0.3919927969), 1e-9);
    EXPECT_NEAR(fisher.high, std::tanh(0.5493061443 + 0.3919927969), 1e-9);
    // Bonett and Wright's is wider, by sqrt(1 + r^2 / 2) on the z scale.
    const Interval ranked = spearman_interval(0.5, 28);
    EXPECT_NEAR(std::atanh(ranked.high) - std::atanh(0.5), 0.3919927969 * std::sqrt(1.125), 1e-9);
    EXPECT_EQ(pearson_interval(0.5, 3).low, -1);
    EXPECT_EQ(pearson_interval(1, 10).low, 1);
    EXPECT_EQ(spearman_interval(std::nan(""), 10).high, 1);
}

TEST(Correlation, BootstrapSeesADifferenceAndNone) {
    std::mt19937_64 generator(3);
    std::normal_distribution<double> normal;
    std::vector<double> target;
    std::vector<double> close;
    std::vector<double> far;
    for (int i = 0; i < 300; ++i) {
        target.push_back(normal(generator));
        close.push_back(target.back() + 0.1 * normal(generator));
        far.push_back(target.back() + normal(generator));
    }
    const Interval same = spearman_difference_interval(close, close, target);
    EXPECT_EQ(same.low, 0);
    EXPECT_EQ(same.high, 0);
    const Interval worse = spearman_difference_interval(close, far, target);
    EXPECT_LT(worse.high, -0.1);
    EXPECT_TRUE(worse.contains(spearman(far, target) - spearman(close, target)));
    const Interval again = spearman_difference_interval(close, far, target);
    EXPECT_EQ(again.low, worse.low);
}

} // namespace
} // namespace lathe
