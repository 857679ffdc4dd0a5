#include "support/half.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Half, EveryValueSurvivesTheRoundTrip) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float value = float_from_half(static_cast<std::uint16_t>(bits));
        if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(float_from_half(half_from_float(value)))) << bits;
        } else {
            ASSERT_EQ(half_from_float(value), bits);
        }
    }
}

TEST(BFloat16, EveryValueSurvivesTheRoundTrip) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float value = float_from_bfloat16(static_cast<std::uint16_t>(bits));
        if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(float_from_bfloat16(bfloat16_from_float(value)))) << bits;
        } else {
            ASSERT_EQ(bfloat16_from_float(value), bits);
        }
    }
}

/// Between any two neighbours: below the middle to the lower, above to the upper, the middle to the even one.
TEST(Half, RoundsToNearestEven) {
    for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
        const double low = float_from_half(static_cast<std::uint16_t>(bits));
        const double high = float_from_half(static_cast<std::uint16_t>(bits + 1));
        const auto middle = static_cast<float>((low + high) / 2);
        ASSERT_EQ(half_from_float(middle), bits % 2 == 0 ? bits : bits + 1);
        ASSERT_EQ(half_from_float(std::nextafter(middle, 0.0F)), bits);
        ASSERT_EQ(half_from_float(std::nextafter(middle, 1e9F)), bits + 1);
        ASSERT_EQ(half_from_float(-middle), (bits % 2 == 0 ? bits : bits + 1) | 0x8000U);
    }
}

TEST(BFloat16, RoundsToNearestEven) {
    for (std::uint32_t bits = 0; bits < 0x7F7F; ++bits) {
        const auto middle = std::bit_cast<float>((bits << 16) + 0x8000U);
        ASSERT_EQ(bfloat16_from_float(middle), bits % 2 == 0 ? bits : bits + 1);
        ASSERT_EQ(bfloat16_from_float(std::bit_cast<float>((bits << 16) + 0x7FFFU)), bits);
        ASSERT_EQ(bfloat16_from_float(std::bit_cast<float>((bits << 16) + 0x8001U)), bits + 1);
    }
}

TEST(Half, Ends) {
    EXPECT_EQ(half_from_float(65504.0F), 0x7BFF);
    EXPECT_EQ(half_from_float(65519.99F), 0x7BFF);
    EXPECT_EQ(half_from_float(65520.0F), 0x7C00);
    EXPECT_EQ(half_from_float(-std::numeric_limits<float>::infinity()), 0xFC00);
    EXPECT_EQ(half_from_float(std::numeric_limits<float>::denorm_min()), 0);
    EXPECT_EQ(half_from_float(-0.0F), 0x8000);
    EXPECT_EQ(bfloat16_from_float(std::numeric_limits<float>::max()), 0x7F80);
}

} // namespace
} // namespace lathe
