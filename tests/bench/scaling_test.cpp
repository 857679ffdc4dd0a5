#include <gtest/gtest.h>

#include "bench/scaling.hpp"

namespace lathe::test {
namespace {

/// Serves 100 requests a second on one device; every further device adds 90, less from the host.
class SpreadingSubject final : public Subject {
public:
    explicit SpreadingSubject(std::size_t count) : Subject({}), count_(count) { info().name = "spread"; }
    std::size_t devices() const override { return count_; }
    std::vector<SpreadPlan> plans;

private:
    Result<void> do_prepare(const InputSets&, Progress&) override { return {}; }
    Result<Burst> do_burst(const BurstPlan&, Progress&) override { return Burst{}; }
    Result<Throughput> do_throughput(double, Progress&) override { return Throughput{}; }
    Result<Throughput> do_spread(const SpreadPlan& plan, Progress&) override {
        plans.push_back(plan);
        if (plan.devices > count_) return Error{ErrorCode::invalid_argument, "too many", "", ""};
        const std::size_t further = plan.inputs == InputPlace::device ? 90 : 50;
        Throughput served;
        served.seconds = plan.seconds;
        for (std::size_t i = 0; i < plan.devices; ++i) {
            const auto rate = static_cast<double>(i == 0 ? 100 : further);
            served.devices.push_back({static_cast<int>(i), static_cast<std::size_t>(rate * plan.seconds), 2});
            served.requests += served.devices.back().requests;
        }
        return served;
    }
    std::size_t count_;
};

TEST(Scaling, CountsAreDoubledUpToAll) {
    EXPECT_EQ(device_counts(1), (std::vector<std::size_t>{1}));
    EXPECT_EQ(device_counts(4), (std::vector<std::size_t>{1, 2, 4}));
    EXPECT_EQ(device_counts(6), (std::vector<std::size_t>{1, 2, 4, 6}));
    EXPECT_TRUE(device_counts(0).empty());
}

TEST(Scaling, TellsRatiosToOneDeviceForBothPlacesOfInputs) {
    SpreadingSubject subject(4);
    const auto rows = measure_scaling(subject, 8, {1.0, 3}, no_progress());
    ASSERT_TRUE(rows) << rows.error().describe();
    ASSERT_EQ(rows->size(), 6U);
    const Json& four = (*rows)[2];
    EXPECT_EQ(four["inputs"], "device");
    EXPECT_EQ(four["devices"], 4);
    EXPECT_DOUBLE_EQ(four["samples_per_second"].get<double>(), 8 * 370.0);
    EXPECT_DOUBLE_EQ(four["times_one_device"].get<double>(), 3.7);
    EXPECT_EQ(four["per_device"].size(), 4U);
    EXPECT_DOUBLE_EQ(four["per_device"][0]["samples_per_second"].get<double>(), 800.0);
    EXPECT_DOUBLE_EQ((*rows)[5]["times_one_device"].get<double>(), 2.5);
    // In turns: 1, 2, 4, 1, 2, 4, ..., so that a drift of the clocks touches all alike.
    ASSERT_EQ(subject.plans.size(), 18U);
    EXPECT_EQ(subject.plans[0].devices, 1U);
    EXPECT_EQ(subject.plans[2].devices, 4U);
    EXPECT_EQ(subject.plans[3].devices, 1U);
}

} // namespace
} // namespace lathe::test
