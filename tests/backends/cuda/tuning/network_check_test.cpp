// What is compared in a network, what counts as wrong there, and what takes the place of a kernel that is.
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "backends/cuda/plan/memory.hpp"
#include "backends/cuda/tuning/network_check.hpp"
#include "backends/cuda/tuning/timings.hpp"

namespace lathe::cuda {
namespace {

using test::timing;

NetworkFault fault(const std::string& tactic) { return {3, "/layer1/conv", "conv a", tactic, "relative error 0.3"}; }

Deviation floats(double relative) {
    Deviation found;
    found.relative = relative;
    found.count = 1000;
    return found;
}

TEST(NetworkCheck, ErrorsAreMultiplesOfWhatIsAllowed) {
    EXPECT_DOUBLE_EQ(excess(floats(0.002), ElementType::f32, 0.002), 1);
    EXPECT_GT(excess(floats(0.11), ElementType::f32, tolerance(ElementType::f32, true, ElementType::f32)), far_off);
    EXPECT_LT(excess(floats(3e-4), ElementType::f32, tolerance(ElementType::f32, true, ElementType::f32)), changed);
    EXPECT_TRUE(std::isinf(excess(floats(std::nan("")), ElementType::f32, 1)));
    Deviation broken = floats(0);
    broken.broken = 1;
    EXPECT_TRUE(std::isinf(excess(broken, ElementType::f16, 1)));
    Deviation steps;
    steps.count = 10'000;
    steps.by_one = 100;
    EXPECT_DOUBLE_EQ(excess(steps, ElementType::s8, 1), 1) << "one step on 1 % of int8";
    EXPECT_GT(excess(steps, ElementType::s64, 1), far_off) << "indices are exact";
    steps.by_more = 20;
    EXPECT_GT(excess(steps, ElementType::s8, 1), far_off);
}

TEST(NetworkCheck, TolerancesGrowWithWhatIsRounded) {
    const double f32 = tolerance(ElementType::f32, false, ElementType::f32);
    const double tf32 = tolerance(ElementType::f32, true, ElementType::f32);
    const double f16 = tolerance(ElementType::f16, false, ElementType::f16);
    EXPECT_LT(f32, tf32);
    EXPECT_LT(tf32, f16);
    EXPECT_LT(f16, tolerance(ElementType::bf16, false, ElementType::bf16));
    EXPECT_DOUBLE_EQ(tolerance(ElementType::f32, false, ElementType::f16), f16);
}

/// %0 -> a -> %1 -> b -> %2, (%1 as %3) + %2 -> c -> %4 (output); %5 is a constant.
Plan residual_plan() {
    Plan plan;
    plan.weights = std::make_shared<WeightStore>();
    plan.weights->weights.push_back({"table", ElementType::f16, {30, 8}, {}, nullptr});
    for (int i = 0; i < 6; ++i) {
        Value value;
        value.dims = {8};
        plan.values.push_back(value);
    }
    plan.values[0].role = Role::input;
    plan.values[0].type = ElementType::s64;
    plan.values[3].alias_of = 1;
    plan.values[5].role = Role::constant;
    plan.values[5].weight = 0;
    const auto op = [&](std::vector<ValueId> inputs, ValueId output) {
        FusedOp made;
        made.detail = Reformat{};
        made.inputs = std::move(inputs);
        made.outputs = {output};
        plan.ops.push_back(std::move(made));
    };
    op({0}, 1);
    op({1, 5}, 2);
    op({3, 2}, 4);
    plan.inputs = {0};
    plan.outputs = {4};
    return plan;
}

TEST(NetworkCheck, ComparesWhatIsStillNeeded) {
    const Plan plan = residual_plan();
    EXPECT_EQ(standing(plan, 0), (std::vector<ValueId>{0, 1}));
    EXPECT_EQ(standing(plan, 1), (std::vector<ValueId>{1, 2})) << "the residual waits; constants are not of the arena";
    EXPECT_EQ(standing(plan, 2), (std::vector<ValueId>{1, 2, 4})) << "an alias keeps its root";
}

TEST(NetworkCheck, WhatStandsLiesApart) {
    const Plan plan = residual_plan();
    const MemoryPlan memory = plan_memory(plan);
    for (std::size_t op = 0; op < plan.ops.size(); ++op) {
        std::set<std::size_t> offsets;
        for (const ValueId id : standing(plan, op))
            EXPECT_TRUE(offsets.insert(memory.offsets[id]).second) << "operation " << op << ", value " << id;
    }
}

TEST(NetworkCheck, IndicesStayInTheirTable) {
    Plan plan = residual_plan();
    EXPECT_EQ(integer_range(plan, 0), (std::pair<std::int64_t, std::int64_t>{0, 1})) << "a mask";
    Gather gather;
    gather.tables = {0};
    plan.ops[0].detail = gather;
    EXPECT_EQ(integer_range(plan, 0), (std::pair<std::int64_t, std::int64_t>{0, 29}));
}

TEST(NetworkCheck, AllSettingsOfACudnnEngineGoTogether) {
    const std::vector<Timing> timings{timing("cudnn:fused/eng4_k24=28", 10), timing("cudnn:fused/eng4_k24=34", 11),
                                      timing("cudnn:fused/eng40_k2=1", 12)};
    std::map<std::string, std::vector<std::string>> order{{"conv a", {"cudnn:fused/eng4_k24=28"}}};
    Bans bans;
    ASSERT_TRUE(bans.ban(fault("cudnn:fused/eng4_k24=28"), order, timings, 0, "reference:general"));
    EXPECT_EQ(order["conv a"], std::vector<std::string>{"cudnn:fused/eng40_k2=1"});
    EXPECT_TRUE(bans.holds("conv a", "cudnn:fused/eng4_k24=34"));
    EXPECT_FALSE(bans.holds("conv a", "cudnn:fused/eng40_k2=1"));
    EXPECT_EQ(bans.size(), 1U);
}

TEST(NetworkCheck, TheNextBestReplacesWhatIsWrong) {
    const std::vector<Timing> timings{timing("x:1", 10), timing("y:1", 12), timing("x:2", 9, "wrong"),
                                      timing("z:1", 14)};
    std::map<std::string, std::vector<std::string>> order{{"conv a", {"x:1"}}, {"conv b", {"x:1"}}};
    Bans bans;
    ASSERT_TRUE(bans.ban(fault("x:1"), order, timings, 0, "reference:general"));
    EXPECT_EQ(order["conv a"], (std::vector<std::string>{"y:1", "z:1"})) << "never what a trial refused";
    EXPECT_EQ(order["conv b"], std::vector<std::string>{"x:1"}) << "another operation keeps it";
    EXPECT_TRUE(bans.holds("conv a", "x:1"));
    EXPECT_FALSE(bans.holds("conv b", "x:1"));
    ASSERT_TRUE(bans.ban(fault("y:1"), order, timings, 0, "reference:general"));
    ASSERT_TRUE(bans.ban(fault("z:1"), order, timings, 0, "reference:general"));
    EXPECT_EQ(order["conv a"], std::vector<std::string>{"reference:general"}) << "slow, but right";
    const auto last = bans.ban(fault("reference:general"), order, timings, 0, "reference:general");
    ASSERT_FALSE(last);
    EXPECT_EQ(last.error().code, ErrorCode::verification_failed);
    EXPECT_NE(last.error().message.find("relative error 0.3"), std::string::npos);
}

TEST(NetworkCheck, KeepsTheOrderThatTheNetworkPreferred) {
    const std::vector<Timing> timings{timing("x:1", 10), timing("y:1", 11), timing("z:1", 12)};
    std::map<std::string, std::vector<std::string>> order{{"conv a", {"z:1", "y:1", "x:1"}}};
    Bans bans;
    ASSERT_TRUE(bans.ban(fault("z:1"), order, timings, 0, "reference:general"));
    EXPECT_EQ(order["conv a"], (std::vector<std::string>{"y:1", "x:1"}));
}

TEST(NetworkCheck, GivesUpAfterAFew) {
    std::vector<Timing> timings;
    for (int i = 0; i < 20; ++i)
        timings.push_back(timing("x:" + std::to_string(i), 10 + i));
    std::map<std::string, std::vector<std::string>> order{{"conv a", {"x:0"}}};
    Bans bans;
    for (std::size_t i = 0; i < Bans::most; ++i)
        ASSERT_TRUE(bans.ban(fault(order["conv a"].front()), order, timings, 0, "reference:general")) << i;
    const auto more = bans.ban(fault(order["conv a"].front()), order, timings, 0, "reference:general");
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::verification_failed);
    EXPECT_EQ(bans.size(), Bans::most);
}

} // namespace
} // namespace lathe::cuda
