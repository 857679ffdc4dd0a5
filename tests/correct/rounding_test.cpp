#include "correct/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "models.hpp"

namespace lathe {
namespace {

/// d^T H d - 2 b^T d, in double.
double objective(const std::vector<float>& hessian, const std::vector<float>& pull, const std::vector<double>& d) {
    double sum = 0.0;
    for (std::size_t i = 0; i < d.size(); ++i) {
        for (std::size_t j = 0; j < d.size(); ++j)
            sum += d[i] * static_cast<double>(hessian[i * d.size() + j]) * d[j];
        sum -= 2.0 * static_cast<double>(pull[i]) * d[i];
    }
    return sum;
}

struct Case {
    std::vector<float> hessian, pull, weight;
    float scale = 0.1F;
    std::vector<std::int8_t> nearest;

    explicit Case(std::size_t depth, std::uint32_t seed, float correlation) {
        weight = test::noise(depth, seed);
        pull = std::vector<float>(depth, 0.0F);
        // Mean of x x^T over rows x of independent noise and a part that all elements share.
        hessian.assign(depth * depth, 0.0F);
        for (std::uint32_t row = 0; row < 40; ++row) {
            auto x = test::noise(depth, seed * 31U + row * 1009U);
            const float shared = correlation * test::noise(1, seed * 57U + row * 7919U)[0];
            for (float& each : x)
                each += shared;
            for (std::size_t i = 0; i < depth; ++i) {
                for (std::size_t j = 0; j < depth; ++j)
                    hessian[i * depth + j] += x[i] * x[j] / 40.0F;
            }
        }
        for (const float w : weight)
            nearest.push_back(static_cast<std::int8_t>(std::nearbyint(w / scale)));
    }
    std::vector<double> error(const std::vector<std::int8_t>& steps) const {
        std::vector<double> d(weight.size());
        for (std::size_t i = 0; i < d.size(); ++i)
            d[i] = static_cast<double>(scale) * steps[i] - static_cast<double>(weight[i]);
        return d;
    }
    std::vector<std::int8_t> rounded(double* gain = nullptr, int limit = 127, const WeightPairs& pairs = {}) const {
        std::vector<std::int8_t> steps = nearest;
        for (std::int8_t& step : steps)
            step = static_cast<std::int8_t>(std::clamp<int>(step, -limit, limit));
        std::vector<float> gradient(weight.size());
        const auto d = error(steps);
        for (std::size_t i = 0; i < d.size(); ++i) {
            double sum = -static_cast<double>(pull[i]);
            for (std::size_t j = 0; j < d.size(); ++j)
                sum += static_cast<double>(hessian[i * d.size() + j]) * d[j];
            gradient[i] = static_cast<float>(sum);
        }
        RoundingOptions options;
        options.sweeps = 50;
        options.limit = limit;
        options.pairs = pairs;
        const std::vector<double> falls = round_channels(hessian, {weight, {&scale, 1}, steps, gradient}, options);
        if (gain != nullptr) *gain = falls.at(0);
        return steps;
    }
};

TEST(Rounding, FindsLessErrorThanTheNearestSteps) {
    double sum_before = 0.0;
    double sum_after = 0.0;
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        const Case problem(12, seed, 3.0F);
        double gain = 0.0;
        const auto steps = problem.rounded(&gain);
        const double before = objective(problem.hessian, problem.pull, problem.error(problem.nearest));
        const double after = objective(problem.hessian, problem.pull, problem.error(steps));
        EXPECT_LE(after, before + 1e-9) << "seed " << seed;
        EXPECT_NEAR(before - after, gain, 1e-4 * std::abs(before)) << "seed " << seed;
        sum_before += before;
        sum_after += after;
    }
    EXPECT_LT(sum_after, 0.6 * sum_before);
}

// Against all 3^6 choices within a step of the nearest: a coordinate-wise minimum, and mostly the global one.
TEST(Rounding, ComesCloseToTheBestOfAllChoices) {
    double sum_best = 0.0;
    double sum_found = 0.0;
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        const Case problem(6, seed, 3.0F);
        double best = std::numeric_limits<double>::infinity();
        for (int code = 0; code < 729; ++code) {
            std::vector<std::int8_t> steps = problem.nearest;
            int rest = code;
            bool reachable = true;
            for (std::size_t i = 0; i < steps.size(); ++i, rest /= 3) {
                steps[i] = static_cast<std::int8_t>(steps[i] + rest % 3 - 1);
                reachable = reachable && std::abs(static_cast<double>(steps[i]) -
                                                  static_cast<double>(problem.weight[i]) / 0.1) <= 1.0001;
            }
            if (reachable) best = std::min(best, objective(problem.hessian, problem.pull, problem.error(steps)));
        }
        const double found = objective(problem.hessian, problem.pull, problem.error(problem.rounded()));
        EXPECT_GE(found, best - 1e-6);
        sum_best += best;
        sum_found += found;
    }
    EXPECT_LT(sum_found, 1.5 * sum_best);
}

// The error still falls, and no pair goes beyond what a CPU without VNNI adds.
TEST(Rounding, KeepsPairsSmall) {
    bool overflowed = false;
    double before = 0.0;
    double after = 0.0;
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        for (const WeightPairs& pairs : {WeightPairs({1, 12}, 1), WeightPairs({1, 4, 3}, 1)}) {
            Case problem(12, seed, 3.0F);
            for (std::size_t i = 0; i < 12; ++i) {
                // Pairs at the limit: one step outwards is one too many.
                problem.nearest[i] = static_cast<std::int8_t>(*pairs.other(i) > i ? 70 : 58);
                problem.weight[i] = problem.scale * (static_cast<float>(problem.nearest[i]) + 0.4F * problem.weight[i]);
            }
            ASSERT_TRUE(pairs.fit(problem.nearest));
            before += objective(problem.hessian, problem.pull, problem.error(problem.nearest));
            overflowed = overflowed || !pairs.fit(problem.rounded());
            const auto steps = problem.rounded(nullptr, 127, pairs);
            EXPECT_TRUE(pairs.fit(steps)) << seed;
            after += objective(problem.hessian, problem.pull, problem.error(steps));
        }
    }
    EXPECT_TRUE(overflowed) << "else this shows nothing";
    EXPECT_LT(after, 0.9 * before);
}

TEST(Rounding, LeavesTheNearestStepsWhereInputsAreIndependent) {
    Case problem(16, 3, 0.0F);
    for (std::size_t i = 0; i < 16; ++i) {
        for (std::size_t j = 0; j < 16; ++j)
            problem.hessian[i * 16 + j] = i == j ? 1.0F : 0.0F;
    }
    double gain = 1.0;
    EXPECT_EQ(problem.rounded(&gain), problem.nearest);
    EXPECT_EQ(gain, 0.0);
}

// Channels side by side become what each becomes alone.
TEST(Rounding, OfABlockIsThatOfItsChannels) {
    constexpr std::size_t depth = 12;
    constexpr std::size_t channels = 5;
    const Case shared(depth, 7, 3.0F);
    const auto weight = test::noise(channels * depth, 8);
    const std::vector<float> scales{0.1F, 0.05F, 0.2F, 0.07F, 0.01F};
    std::vector<std::int8_t> steps(channels * depth);
    std::vector<float> gradient(channels * depth, 0.0F);
    for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < depth; ++i)
            steps[c * depth + i] = static_cast<std::int8_t>(
                std::clamp(std::nearbyint(weight[c * depth + i] / scales[c]), -127.0F, 127.0F));
        for (std::size_t i = 0; i < depth; ++i) {
            for (std::size_t j = 0; j < depth; ++j) {
                const float d = scales[c] * static_cast<float>(steps[c * depth + j]) - weight[c * depth + j];
                gradient[c * depth + i] += shared.hessian[i * depth + j] * d;
            }
        }
    }
    std::vector<std::int8_t> alone = steps;
    std::vector<float> own_gradient = gradient;
    std::vector<double> own_falls;
    for (std::size_t c = 0; c < channels; ++c) {
        const auto part = [&](auto& of) { return std::span(of).subspan(c * depth, depth); };
        own_falls.push_back(
            round_channels(shared.hessian,
                           {part(weight), std::span(scales).subspan(c, 1), part(alone), part(own_gradient)}, {})
                .at(0));
    }
    EXPECT_EQ(round_channels(shared.hessian, {weight, scales, steps, gradient}, {}), own_falls);
    EXPECT_EQ(steps, alone);
    EXPECT_GT(*std::ranges::max_element(own_falls), 0.0);
}

TEST(Rounding, StaysOnTheGrid) {
    Case problem(12, 5, 0.9F);
    for (float& pull : problem.pull)
        pull = 100.0F; // wants all weights far up
    for (const std::int8_t step : problem.rounded(nullptr, 4))
        EXPECT_LE(step, 4);
    const auto steps = problem.rounded();
    for (std::size_t i = 0; i < steps.size(); ++i)
        EXPECT_LE(std::abs(static_cast<float>(steps[i]) - problem.weight[i] / 0.1F), 1.0001F);
}

} // namespace
} // namespace lathe
