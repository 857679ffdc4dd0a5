#include <gtest/gtest.h>

#include "backends/api/speed_limit.hpp"

namespace lathe::test {
namespace {

BuildReport::Op operation(std::string shape, std::string name, double us, double limit, const char* tactic) {
    BuildReport::Op op;
    op.shape = std::move(shape);
    op.name = std::move(name);
    op.limit_us = limit;
    op.candidates.push_back({"other:1", "", us / 2, 0, 0, 0, false});
    op.candidates.push_back({tactic, "", us, 0, 0, 0, true});
    return op;
}

BuildReport report() {
    BuildReport report;
    report.ops = {operation("1x3", "conv", 40, 30, "lathe:1"), operation("1x3", "concat", 60, 10, "reference:general"),
                  operation("8x3", "conv", 200, 150, "lathe:1")};
    report.ops.push_back({"1x3", "not run", "", "fp16", {{"lathe:1", "", 5, 0, 0, 0, false}}, 0, 0, 5});
    return report;
}

TEST(SpeedLimit, IsTheSumOfWhatRunsAShape) {
    const auto shapes = limits_by_shape(report());
    ASSERT_EQ(shapes.size(), 2U);
    EXPECT_EQ(shapes[0].shape, "1x3");
    EXPECT_DOUBLE_EQ(shapes[0].us, 100);
    EXPECT_DOUBLE_EQ(shapes[0].limit_us, 40);
    EXPECT_DOUBLE_EQ(shapes[0].reference_us, 60);
    ASSERT_EQ(shapes[0].reference.size(), 1U);
    EXPECT_EQ(shapes[0].reference[0].name, "concat");
    EXPECT_EQ(shapes[0].beyond[0].name, "concat"); // 50 us beyond its limit, the convolution 10
    EXPECT_DOUBLE_EQ(shapes[1].us, 200);
}

TEST(SpeedLimit, NamesWhatCostsMostBeyondIt) {
    const auto shapes = limits_by_shape(report());
    EXPECT_EQ(describe(shapes[0]),
              "speed of light 0.040 ms, reached 40 % (0.100 ms); most beyond it: concat +50.0 us, conv +10.0 us");
    EXPECT_EQ(describe(shapes[0], 1),
              "speed of light 0.040 ms, reached 40 % (0.100 ms); most beyond it: concat +50.0 us");
}

TEST(SpeedLimit, IsNotToldWhereItIsNotKnown) {
    BuildReport unknown;
    unknown.ops = {operation("1x3", "conv", 40, 0, "lathe:1")};
    EXPECT_EQ(describe(limits_by_shape(unknown)[0]), "");
    EXPECT_TRUE(limits_by_shape(BuildReport{}).empty());
}

} // namespace
} // namespace lathe::test
