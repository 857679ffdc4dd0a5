#include "support/score_mask.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace lathe {
namespace {

constexpr float lowest = std::numeric_limits<float>::lowest();
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(ScoreMask, IsClampedWhereTheFormatLacksIt) {
    using Values = std::vector<float>;
    struct Case {
        Values values;
        std::optional<Values> fp16, bf16;
    };
    const Values both{0, narrow_mask};
    for (const Case& each : {Case{{0, lowest}, both, both}, Case{{0, -1e9F}, both, std::nullopt}, // BF16 has it
                             Case{{0, -10000}, std::nullopt, std::nullopt},                       // so does FP16
                             Case{{0, -infinity}, std::nullopt, std::nullopt},
                             Case{{lowest, 70000}, std::nullopt, Values{narrow_mask, 70000}}, // 70000 is no mask
                             Case{{-70000, 0}, std::nullopt, std::nullopt},
                             Case{{0, -lowest}, std::nullopt, std::nullopt}, // far above, not far below
                             Case{{}, std::nullopt, std::nullopt}}) {
        EXPECT_EQ(clamped_masks(each.values, DataType::float16), each.fp16);
        EXPECT_EQ(clamped_masks(each.values, DataType::bfloat16), each.bf16);
    }
    EXPECT_EQ(describe_clamped("m", DataType::float16),
              "m is a mask: the numbers that float16 lacks became -30000, of which a softmax makes 0 as well");
}

TEST(ScoreMask, IsToldWithFigures) {
    const std::vector<float> values{0, -1e9F, lowest, -10000};
    const ClampedConstant half = clamped_constant("m", values, DataType::float16);
    EXPECT_EQ(half.elements, 2U);
    EXPECT_EQ(half.from, static_cast<double>(lowest));
    EXPECT_EQ(describe_clamped(half), "m is a mask: 2 numbers, the lowest -3.4e+38, that float16 lacks became -3e+04, "
                                      "of which a softmax makes 0 as well");
    const ClampedConstant wide = clamped_constant("m", values, DataType::bfloat16);
    EXPECT_EQ(wide.elements, 1U) << "BF16 has -1e9";
    EXPECT_EQ(describe_clamped(wide), "m is a mask: 1 number, -3.4e+38, that bfloat16 lacks became -3e+04, of which a "
                                      "softmax makes 0 as well");
}

} // namespace
} // namespace lathe
