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
    std::vector<std::int8_t> rounded(double* gain = nullptr, int limit = 127) const {
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
        const double fall = round_channel({weight.size(), hessian, pull}, weight, scale, steps, gradient, options);
        if (gain != nullptr) *gain = fall;
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
