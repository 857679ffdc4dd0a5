#include <random>

#include <gtest/gtest.h>

#include "backends/cuda/plan/memory.hpp"
#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

/// A chain of ops over random values, some aliased, each reading a few earlier ones.
cuda::Plan random_plan(std::mt19937& random) {
    const auto number = [&](std::size_t low, std::size_t high) {
        return std::uniform_int_distribution<std::size_t>(low, high)(random);
    };
    cuda::Plan plan;
    const auto make = [&](std::int64_t size) {
        cuda::Value value;
        value.type = cuda::ElementType::s8;
        value.dims = {size};
        plan.values.push_back(value);
        return static_cast<cuda::ValueId>(plan.values.size() - 1);
    };
    std::vector<cuda::ValueId> readable{make(static_cast<std::int64_t>(number(1, 100'000)))};
    plan.values[0].role = cuda::Role::input;
    plan.inputs = readable;
    const std::size_t ops = number(1, 40);
    for (std::size_t i = 0; i < ops; ++i) {
        cuda::FusedOp op;
        op.detail = cuda::Reformat{};
        const std::size_t inputs = number(1, 3);
        for (std::size_t k = 0; k < inputs; ++k) // mostly recent ones
            op.inputs.push_back(
                readable[readable.size() - 1 - number(0, std::min<std::size_t>(readable.size() - 1, 6))]);
        op.outputs = {make(static_cast<std::int64_t>(number(1, 1'000'000)))};
        readable.push_back(op.outputs[0]);
        if (number(0, 4) == 0) {
            const cuda::ValueId alias = make(plan.values[readable.back()].dims[0]);
            plan.values[alias].alias_of = readable.back();
            readable.push_back(alias);
        }
        plan.ops.push_back(std::move(op));
    }
    plan.outputs = {readable.back()};
    return plan;
}

std::vector<std::pair<std::size_t, std::size_t>> plain_lifetimes(const cuda::Plan& plan) {
    const std::size_t end = plan.ops.size() - 1;
    std::vector<std::pair<std::size_t, std::size_t>> lives(plan.values.size(), {1, 0});
    const auto touch = [&](cuda::ValueId id, std::size_t at) {
        while (plan.values[id].alias_of != cuda::none)
            id = plan.values[id].alias_of;
        auto& [first, last] = lives[id];
        if (first > last) first = last = at;
        first = std::min(first, at);
        last = std::max(last, at);
    };
    for (const auto id : plan.inputs)
        touch(id, 0);
    for (std::size_t i = 0; i <= end; ++i) {
        for (const auto id : plan.ops[i].inputs)
            touch(id, i);
        for (const auto id : plan.ops[i].outputs)
            touch(id, i);
    }
    for (const auto id : plan.outputs)
        touch(id, end);
    return lives;
}

TEST(MemoryPlanner, LiveValuesNeverOverlap) {
    for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        const cuda::Plan plan = random_plan(random);
        const auto memory = cuda::plan_memory(plan);
        const auto lives = plain_lifetimes(plan);
        ASSERT_GE(memory.peak, memory.lower_bound);
        ASSERT_LE(static_cast<double>(memory.peak), 1.3 * static_cast<double>(memory.lower_bound));
        for (cuda::ValueId a = 0; a < plan.values.size(); ++a) {
            if (plan.values[a].alias_of != cuda::none) {
                ASSERT_EQ(memory.offsets[a], memory.offsets[plan.values[a].alias_of]);
                continue;
            }
            ASSERT_EQ(memory.offsets[a] % 256, 0);
            ASSERT_LE(memory.offsets[a] + plan.values[a].byte_size(), memory.peak);
            for (cuda::ValueId b = 0; b < a; ++b) {
                if (plan.values[b].alias_of != cuda::none) continue;
                const bool together = lives[a].first <= lives[b].second && lives[b].first <= lives[a].second;
                if (!together) continue;
                const bool apart = memory.offsets[a] + plan.values[a].byte_size() <= memory.offsets[b] ||
                                   memory.offsets[b] + plan.values[b].byte_size() <= memory.offsets[a];
                ASSERT_TRUE(apart) << a << " and " << b;
            }
        }
    }
}

TEST(MemoryPlanner, ResidualNetworkNeedsNoMoreThanItsLiveValues) {
    const auto plan = plan_of(network(residual_network()), Precision::float16, {{8, 3, 32, 32}});
    const auto memory = cuda::plan_memory(plan);
    EXPECT_EQ(memory.peak, memory.lower_bound);
    EXPECT_GE(cuda::plan_memory(plan, 256, 1).peak, memory.peak);
}

} // namespace
} // namespace lathe::test
