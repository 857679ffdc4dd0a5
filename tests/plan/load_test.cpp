// The simulation against a batching session that really serves, with an executor that takes a known time.
#include <gtest/gtest.h>

#include "plan/load.hpp"
#include "plan/machines.hpp"
#include "runtime/fake_executor.hpp"

namespace lathe::test {
namespace {

using namespace std::chrono_literals;

struct Compared {
    double measured_p50 = 0, measured_p90 = 0;
    double predicted_p50 = 0, predicted_p90 = 0;
    double measured_batch = 0, predicted_batch = 0;

    static bool close(double measured, double predicted) {
        return measured > 0.85 * predicted && measured < 1.25 * predicted;
    }
    bool agree() const {
        return close(measured_p50, predicted_p50) && close(measured_p90, predicted_p90) &&
               close(measured_batch, predicted_batch);
    }
};

Compared compare(double per_second, std::chrono::milliseconds run_time, std::chrono::milliseconds wait) {
    FakeExecutor::Behaviour behaviour;
    behaviour.run_time = run_time;
    BatchingOptions options;
    options.max_wait = wait;
    auto session = fake_session(behaviour, options);
    EXPECT_TRUE(session);
    std::vector<std::vector<HostTensor>> requests;
    for (std::int64_t id = 0; id < 5; ++id)
        requests.push_back(test::request(id));
    const auto arrivals = Arrivals::poisson(per_second, 5).at_one_of(1, 500);
    Progress silent;
    const auto load = run_load(*session, arrivals, requests, silent);
    EXPECT_TRUE(load) << load.error().describe();
    EXPECT_EQ(load->failed, 0U);
    EXPECT_EQ(load->latency_ms.size(), arrivals.size());
    const auto simulation = simulate(machine(TimeDistribution::fixed(static_cast<double>(run_time.count())), 8, 1,
                                             static_cast<double>(wait.count())),
                                     arrivals, 0);
    return {quantile_of(load->latency_ms, 0.5),
            quantile_of(load->latency_ms, 0.9),
            quantile_of(simulation.total, 0.5),
            quantile_of(simulation.total, 0.9),
            static_cast<double>(load->samples) / static_cast<double>(load->batches),
            simulation.mean_batch};
}

/// Other work on the machine delays single runs; a wrong model is wrong every time.
void expect_agreement(double per_second, std::chrono::milliseconds run_time, std::chrono::milliseconds wait) {
    Compared last;
    for (int attempt = 0; attempt < 4; ++attempt) {
        last = compare(per_second, run_time, wait);
        if (last.agree()) return;
    }
    ADD_FAILURE() << "p50 " << last.measured_p50 << " measured, " << last.predicted_p50 << " predicted; p90 "
                  << last.measured_p90 << ", " << last.predicted_p90 << "; batch " << last.measured_batch << ", "
                  << last.predicted_batch;
}

TEST(Load, IsServedAsSimulated) {
    expect_agreement(250, 20ms, 0ms);  // busy: batches of about five
    expect_agreement(250, 10ms, 25ms); // batches fill while the oldest waits
}

TEST(Load, ASimulationWithoutBatchesDisagrees) {
    // What the test above would catch.
    const Compared right = compare(250, 20ms, 0ms);
    const auto alone = simulate(machine(TimeDistribution::fixed(20)), Arrivals::poisson(250, 5).at_one_of(1, 500), 0);
    EXPECT_FALSE(Compared::close(right.measured_p90, quantile_of(alone.total, 0.9)));
}

TEST(Load, FailuresAreCounted) {
    FakeExecutor::Behaviour behaviour;
    behaviour.before = [](std::span<const std::int64_t>) -> Result<void> {
        return Error{ErrorCode::internal, "broken", "", ""};
    };
    auto session = fake_session(behaviour, {});
    ASSERT_TRUE(session);
    std::vector<std::vector<HostTensor>> requests;
    requests.push_back(test::request(1));
    requests.push_back(test::request(2, 1, 17)); // refused: too wide
    Progress silent;
    const auto load = run_load(*session, {0, 1, 2, 3}, requests, silent);
    ASSERT_TRUE(load);
    EXPECT_EQ(load->failed, 4U);
    EXPECT_TRUE(load->latency_ms.empty());
}

} // namespace
} // namespace lathe::test
