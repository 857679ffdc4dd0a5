#include <gtest/gtest.h>

#include "plan/slo.hpp"

namespace lathe::test {
namespace {

TEST(Slo, IsReadWithItsUnits) {
    const auto slo = parse_slo("p99=20ms");
    ASSERT_TRUE(slo);
    EXPECT_DOUBLE_EQ(slo->quantile, 0.99);
    EXPECT_DOUBLE_EQ(slo->limit_ms, 20);
    EXPECT_EQ(slo->name(), "p99");
    EXPECT_EQ(parse_slo("p99.9=1s")->name(), "p99.9");
    EXPECT_DOUBLE_EQ(parse_slo("p99.9=1.5s")->limit_ms, 1500);
    EXPECT_DOUBLE_EQ(parse_slo("p50=800us")->limit_ms, 0.8);
    for (const char* wrong : {"", "p99", "99=20ms", "p99=20", "p99=0ms", "p49=1ms", "p100=1ms", "p99=-1ms", "p99=20 ms",
                              "p=1ms", "pinf=1ms", "p99=nanms", "p99=20msx"}) {
        EXPECT_EQ(parse_slo(wrong).has_value(), false) << wrong;
    }
}

TEST(Slo, RatesAndDurations) {
    EXPECT_DOUBLE_EQ(*parse_rate("1500/s"), 1500);
    EXPECT_DOUBLE_EQ(*parse_rate("90000/min"), 1500);
    EXPECT_DOUBLE_EQ(*parse_rate("3.6e6/h"), 1000);
    EXPECT_DOUBLE_EQ(*parse_rate("2.5"), 2.5);
    for (const char* wrong : {"", "0/s", "-1/s", "fast", "10/day", "inf"})
        EXPECT_FALSE(parse_rate(wrong)) << wrong;
    EXPECT_DOUBLE_EQ(*parse_milliseconds("0"), 0);
    EXPECT_DOUBLE_EQ(*parse_milliseconds("0ms"), 0);
    EXPECT_DOUBLE_EQ(*parse_milliseconds("250us"), 0.25);
    for (const char* wrong : {"", "5", "ms", "-1ms", "5m"})
        EXPECT_FALSE(parse_milliseconds(wrong)) << wrong;
}

} // namespace
} // namespace lathe::test
