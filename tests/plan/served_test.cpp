// What serving makes of benched times: learned, applied, written and read.
#include <gtest/gtest.h>

#include <gmock/gmock.h>

#include "plan/load.hpp"
#include "plan/machines.hpp"
#include "plan/served.hpp"
#include "runtime/fake_executor.hpp"

namespace lathe::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Batches of 1, 2, ... that take so many ms.
std::vector<BatchTime> benched(std::initializer_list<double> ms) {
    std::vector<BatchTime> times;
    for (const double time : ms)
        times.push_back({.time = TimeDistribution::fixed(time)});
    return times;
}

/// `count` batches of `samples` that took `ms` and, alternately, `spread` more and less.
void serve(std::vector<ServedBatch>& served, std::size_t count, std::int64_t samples, double ms, double spread = 0) {
    for (std::size_t i = 0; i < count; ++i)
        served.push_back({samples, ms + (i % 2 == 0 ? spread : -spread), 0, samples});
}

TEST(Served, LearnsWhatEachSizeCosts) {
    std::vector<ServedBatch> served;
    serve(served, 400, 1, 12, 1);
    serve(served, 400, 2, 30, 5);
    const auto learned = ServedTimes::learn(benched({10, 20, 25}), served);
    ASSERT_TRUE(learned) << learned.error().describe();
    EXPECT_NEAR(learned->sizes().at(1).factor(), 1.2, 1e-9);
    EXPECT_NEAR(learned->sizes().at(2).factor(), 1.5, 1e-9);
    EXPECT_EQ(learned->sizes().at(2).count, 400U);
    EXPECT_NEAR(learned->all().factor(), 21.0 / 15, 1e-9);

    std::vector<BatchTime> times = benched({10, 20, 25});
    learned->apply(times);
    EXPECT_NEAR(times[0].time.mean(), 12, 1e-9);
    EXPECT_NEAR(times[1].time.mean(), 30, 1e-9);
    EXPECT_NEAR(times[2].time.mean(), 25 * 21.0 / 15, 1e-9) << "never served: as all";
    EXPECT_NEAR(times[0].time.quantile(0.99), 13, 0.1) << "its own spread";
    EXPECT_NEAR(times[1].time.quantile(0.99), 35, 0.5);
}

TEST(Served, FewBatchesOfASizeGoWithAll) {
    std::vector<ServedBatch> served;
    serve(served, ServedTimes::enough_for_factor - 1, 1, 30);
    serve(served, 1000, 2, 20);
    const auto learned = ServedTimes::learn(benched({10, 20}), served);
    ASSERT_TRUE(learned);
    std::vector<BatchTime> times = benched({10, 20});
    learned->apply(times);
    EXPECT_NEAR(times[0].time.mean(), 10 * learned->all().factor(), 1e-9);
    EXPECT_LT(times[0].time.mean(), 11);
    EXPECT_NEAR(times[1].time.mean(), 20, 1e-9);
}

TEST(Served, APauseAndAnotherSizeAreNotServingsFault) {
    std::vector<BatchTime> times = benched({10});
    times[0].after_pause = TimeDistribution::fixed(14);
    times[0].pause_ms = 2;
    times[0].after_other_size = TimeDistribution::fixed(11);
    std::vector<ServedBatch> served;
    for (int i = 0; i < 50; ++i) {
        served.push_back({1, 10, 0, 1});
        served.push_back({1, 14, 5, 1});
        served.push_back({1, 12, 1, 1});
        served.push_back({1, 11, 0, 2});
    }
    const auto learned = ServedTimes::learn(times, served);
    ASSERT_TRUE(learned);
    EXPECT_NEAR(learned->all().factor(), 1, 1e-12);
    EXPECT_NEAR(learned->all().residual_ms.max, 0, 1e-9);
    learned->apply(times);
    EXPECT_NEAR(times[0].expected(5, false), 14, 1e-9);
    EXPECT_NEAR(times[0].draw(0, true, 7), 11, 1e-9);
}

TEST(Served, LeavesOutWhatTellsNothing) {
    std::vector<ServedBatch> served;
    serve(served, 50, 1, 10);
    served.push_back({1, 1000, 0, 0}); // a session's first
    served.push_back({7, 1000, 0, 1}); // larger than what was benched
    const auto learned = ServedTimes::learn(benched({10}), served);
    ASSERT_TRUE(learned);
    EXPECT_EQ(learned->all().count, 50U);
    EXPECT_NEAR(learned->all().factor(), 1, 1e-9);
    const auto few = ServedTimes::learn(benched({10}), std::span(served).first(20));
    ASSERT_FALSE(few);
    EXPECT_EQ(few.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(few.error().describe(), HasSubstr("20 batches"));
}

TEST(Served, IsReadAsItWasWritten) {
    std::vector<ServedBatch> served;
    serve(served, 400, 1, 12, 1);
    serve(served, 40, 2, 30, 5);
    const auto learned = ServedTimes::learn(benched({10, 20}), served);
    ASSERT_TRUE(learned);
    const Json document = learned->json();
    const auto again = ServedTimes::read(Json::parse(document.dump()), "p.json");
    ASSERT_TRUE(again) << again.error().describe();
    EXPECT_EQ(again->json(), document);
    std::vector<BatchTime> before = benched({10, 20});
    std::vector<BatchTime> after = before;
    learned->apply(before);
    again->apply(after);
    for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(std::ranges::equal(before[i].time.values(), after[i].time.values()));

    const auto refused = [&](const char* pointer, const Json& value, const char* why) {
        Json broken = document;
        broken[Json::json_pointer(pointer)] = value;
        const auto result = ServedTimes::read(broken, "p.json");
        ASSERT_FALSE(result) << pointer;
        EXPECT_EQ(result.error().code, ErrorCode::parse_error);
        EXPECT_THAT(result.error().describe(), HasSubstr(why));
        EXPECT_THAT(result.error().describe(), HasSubstr("p.json"));
    };
    refused("/all", nullptr, "no times as served");
    refused("/all/served_ms", -1, "served_ms");
    refused("/all/benched_ms", 0, "benched_ms");
    refused("/batches/0/residual", Json::object(), "min_ms");
    refused("/batches/1/batch", "two", "");
    EXPECT_FALSE(ServedTimes::read(Json(), "p.json"));
}

/// p90 of a load on an executor that takes 20 ms, as served and as the simulation has it: from a bench that saw 12 ms,
/// and after a load that showed how long it takes.
struct Taught {
    double measured = 0, from_bench = 0, from_served = 0;

    static bool close(double a, double b) { return a > 0.85 * b && a < 1.15 * b; }
};

Taught teach() {
    FakeExecutor::Behaviour behaviour;
    behaviour.run_time = 20ms;
    auto session = fake_session(behaviour, {});
    EXPECT_TRUE(session);
    std::vector<std::vector<HostTensor>> requests;
    requests.push_back(test::request(1));
    Progress silent;
    const auto load = [&](std::uint64_t seed) {
        const auto arrivals = Arrivals::poisson(200, seed).at_one_of(1, 400);
        return std::pair(run_load(*session, arrivals, requests, silent), arrivals);
    };
    MachineModel model = machine(TimeDistribution::fixed(12), 8, 1, 1);
    const auto [first, unused] = load(5);
    EXPECT_TRUE(first);
    EXPECT_EQ(first->served.size(), first->batches);
    std::size_t samples = 0;
    for (const ServedBatch& batch : first->served)
        samples += static_cast<std::size_t>(batch.samples);
    EXPECT_EQ(samples, first->samples);
    const auto learned = ServedTimes::learn(model.batches, first->served);
    EXPECT_TRUE(learned) << learned.error().describe();
    const auto [second, arrivals] = load(6);
    EXPECT_TRUE(second);
    Taught taught;
    taught.measured = quantile_of(second->latency_ms, 0.9);
    taught.from_bench = quantile_of(simulate(model, arrivals, 0).total, 0.9);
    learned->apply(model.batches);
    taught.from_served = quantile_of(simulate(model, arrivals, 0).total, 0.9);
    return taught;
}

TEST(Served, AFirstLoadTeachesWhatABenchCannotKnow) {
    Taught taught;
    for (int attempt = 0; attempt < 4; ++attempt) {
        taught = teach();
        EXPECT_FALSE(Taught::close(taught.measured, taught.from_bench)) << taught.measured << " " << taught.from_bench;
        if (Taught::close(taught.measured, taught.from_served)) return;
    }
    ADD_FAILURE() << taught.measured << " ms measured, " << taught.from_served << " predicted from what was served";
}

} // namespace
} // namespace lathe::test
