#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/stages.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe::test {
namespace {

TEST(Stages, AreReadWithTheirPlaceAndTime) {
    const TemporaryFolder folder;
    const auto read = [&](const std::string& stages) {
        EXPECT_TRUE(write_file(folder / "s.json", "{\"stages\": [" + stages + "]}"));
        return read_stages(folder / "s.json");
    };
    const auto stages = read(R"({"name": "camera", "ms": 8.3}, {"name": "network", "median_ms": 1, "p99_ms": 4},
                                {"name": "decode", "samples_ms": [1, 2, 3], "workers": 4},
                                {"name": "fpga", "mean_ms": 2, "where": "after"}, {"name": "postprocess", "ms": 0.2})");
    ASSERT_TRUE(stages) << stages.error().describe();
    ASSERT_EQ(stages->before.size(), 3U);
    ASSERT_EQ(stages->after.size(), 2U);
    EXPECT_EQ(stages->before[0].name, "camera");
    EXPECT_NEAR(stages->before[0].time.mean(), 8.3, 1e-9);
    EXPECT_FALSE(stages->before[0].workers);
    EXPECT_NEAR(stages->before[1].time.quantile(0.99), 4, 0.05);
    EXPECT_EQ(stages->before[2].workers, 4U);
    EXPECT_EQ(stages->after[1].name, "postprocess");

    const auto refused = [&](const std::string& stage, const std::string& why) {
        const auto result = read(stage);
        ASSERT_FALSE(result) << stage;
        EXPECT_EQ(result.error().code, ErrorCode::parse_error) << stage;
        EXPECT_THAT(result.error().describe(), testing::HasSubstr(why)) << stage;
    };
    refused(R"({"ms": 1})", "a stage has a name");
    refused(R"({"name": "a"})", "has 0");
    refused(R"({"name": "a", "ms": 1, "mean_ms": 1})", "has 2");
    refused(R"({"name": "a", "ms": -1})", "stage a");
    refused(R"({"name": "a", "ms": "1"})", "ms is no number");
    refused(R"({"name": "a", "median_ms": 2, "p99_ms": 1})", "p99_ms");
    refused(R"({"name": "a", "samples_ms": []})", "empty");
    refused(R"({"name": "a", "samples_ms": [1, null]})", "null");
    refused(R"({"name": "a", "ms": 1, "workers": 0})", "workers");
    refused(R"({"name": "a", "ms": 1, "where": "within"})", "before");
    refused(R"({"name": "a", "ms": 1, "threads": 4})", "unknown key \"threads\"");
    refused(R"({"name": "a", "ms": 1}, {"name": "a", "ms": 1})", "two of this name");
    refused(R"({"name": "compute", "ms": 1})", "measured by lathe bench");
    EXPECT_TRUE(write_file(folder / "s.json", "[]"));
    EXPECT_FALSE(read_stages(folder / "s.json"));
}

} // namespace
} // namespace lathe::test
