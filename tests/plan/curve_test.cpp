#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/latency_curve.hpp"
#include "plan/machines.hpp"
#include "support/json.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

TEST(LatencyCurves, ComeFromABenchAndAreInterpolated) {
    const auto curve = read_latency_curve(bench_document({{8, 5}, {1, 1}, {4, 3}}), "", "b.json");
    ASSERT_TRUE(curve) << curve.error().describe();
    EXPECT_EQ(curve->subject, "int8") << "the first engine";
    EXPECT_EQ(curve->file, "int8.engine");
    EXPECT_EQ(curve->max_batch(), 8);
    EXPECT_EQ(curve->streams, 1U);
    EXPECT_FALSE(curve->preprocess_ms());
    const auto batches = curve->batches(7, 1);
    ASSERT_EQ(batches.size(), 7U);
    const std::vector<double> medians{1, 1 + 2.0 / 3, 1 + 4.0 / 3, 3, 3.5, 4, 4.5};
    for (std::size_t i = 0; i < medians.size(); ++i)
        EXPECT_NEAR(batches[i].time.quantile(0.5), medians[i], 0.01) << i + 1;
    EXPECT_NEAR(batches[0].time.quantile(0.99), 1.10, 0.01);
    EXPECT_NEAR(batches[0].time.mean(), 1.01, 0.005);
    EXPECT_NEAR(read_latency_curve(bench_document({{1, 1}}), "torch", "")->batches(1, 1)[0].time.quantile(0.5), 10,
                0.1);
    // An engine for batches of 4 up takes as long for fewer.
    EXPECT_NEAR(read_latency_curve(bench_document({{4, 3}}), "", "")->batches(2, 1)[0].time.quantile(0.5), 3, 0.05);
}

TEST(LatencyCurves, CallsAsAServerMakesThem) {
    Json document = bench_document({{1, 1}, {3, 3}});
    for (Json& row : document["latency"]) {
        const Json slower = bench_document({{1, 2 * row["median_ms"].get<double>()}})["latency"][1];
        row["after_pause"] = slower;
        row["after_pause"]["pause_ms"] = 2.5;
        row["after_other_size"] = slower;
    }
    const auto curve = read_latency_curve(document, "int8", "");
    ASSERT_TRUE(curve) << curve.error().describe();
    const auto batches = curve->batches(3, 1);
    for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(batches[i].after_pause && batches[i].after_other_size) << i;
        EXPECT_EQ(batches[i].pause_ms, 2.5);
        EXPECT_NEAR(batches[i].after_pause->quantile(0.5), 2 * static_cast<double>(i + 1), 0.05);
        EXPECT_NEAR(batches[i].after_other_size->quantile(0.5), 2 * static_cast<double>(i + 1), 0.05);
    }
    document["latency"][1]["after_pause"].erase("pause_ms");
    EXPECT_EQ(read_latency_curve(document, "int8", "").error().code, ErrorCode::parse_error);
}

TEST(LatencyCurves, SeveralAtOnceAreSlower) {
    Json document = bench_document({{1, 1}, {4, 3}});
    document["latency"][1]["copy_in_ms"] = 0.2;
    document["latency"][1]["preprocess_ms"] = 0.7;
    document["throughput"] = {
        {{"subject", "torch"}, {"batch", 1}, {"inputs", "host"}, {"streams", 9}, {"qps", 5.0}},
        {{"subject", "int8"}, {"batch", 1}, {"inputs", "host"}, {"streams", 2}, {"qps", 2000 / 1.5}},
        {{"subject", "int8"}, {"batch", 4}, {"inputs", "device"}, {"streams", 7}, {"qps", 9e9}}};
    const auto curve = read_latency_curve(document, "int8", "");
    ASSERT_TRUE(curve) << curve.error().describe();
    EXPECT_EQ(curve->streams, 2U);
    EXPECT_NEAR(curve->batches(1, 2)[0].time.mean(), 1.5, 1e-6) << "two streams serve 1333 a second: 1.5 ms each";
    EXPECT_NEAR(curve->batches(1, 1)[0].time.mean(), 1.01, 0.005);
    EXPECT_DOUBLE_EQ(curve->batches(1, 1)[0].copy_in_ms, 0.2);
    EXPECT_NEAR(curve->batches(4, 2)[3].time.mean() / curve->batches(4, 1)[3].time.mean(), 1.5 / 1.01, 0.01)
        << "as much as at the nearest size measured";
    EXPECT_DOUBLE_EQ(*curve->preprocess_ms(), 0.7);
}

TEST(LatencyCurves, BrokenDocumentsAreNamed) {
    const Json good = bench_document({{1, 1}});
    EXPECT_EQ(read_latency_curve(good, "fp16", "b").error().code, ErrorCode::not_found);
    EXPECT_THAT(read_latency_curve(good, "fp16", "b").error().describe(), HasSubstr("torch, int8"));
    const auto broken = [&](const Json& document, const std::string& what) {
        const auto curve = read_latency_curve(document, "", "b.json");
        ASSERT_FALSE(curve) << what;
        EXPECT_EQ(curve.error().code, ErrorCode::parse_error) << what;
        EXPECT_THAT(curve.error().describe(), testing::AllOf(HasSubstr(what), HasSubstr("b.json")));
    };
    broken(Json::array(), "");
    broken(Json::object(), "kind");
    for (const char* key : {"subjects", "latency"}) {
        Json document = good;
        document.erase(key);
        broken(document, key);
    }
    for (const char* key : {"median_ms", "max_ms", "batch"}) {
        Json document = good;
        document["latency"][1].erase(key);
        broken(document, key);
        document["latency"][1][key] = -1;
        broken(document, key[0] == 'b' ? "batch" : key);
        document["latency"][1][key] = "1";
        broken(document, "");
    }
    Json unmeasured = good;
    unmeasured["latency"].erase(1);
    EXPECT_EQ(read_latency_curve(unmeasured, "", "b").error().code, ErrorCode::not_found);
}

} // namespace
} // namespace lathe::test
