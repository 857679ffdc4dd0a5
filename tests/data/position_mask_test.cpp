#include "data/position_mask.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace lathe {
namespace {

/// Two samples of 2 and 3 positions, filled up to 4.
HostTensor mask_of(DataType type) {
    HostTensor mask("attention_mask", type, {2, 4});
    const std::vector<int> values{1, 1, 0, 0, 1, 1, 1, 0};
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (type == DataType::int64) mask.as<std::int64_t>()[i] = values[i];
        if (type == DataType::int32) mask.as<std::int32_t>()[i] = values[i];
        if (type == DataType::boolean) mask.bytes[i] = static_cast<std::byte>(values[i]);
    }
    return mask;
}

PositionMask padded() { return *PositionMask::of(mask_of(DataType::int64)); }

/// 0, 1, 2, ... in a tensor of that shape, of which what is no padding.
std::vector<float> own_of(const PositionMask& mask, const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    std::iota(values.begin(), values.end(), 0.0F);
    std::vector<float> own;
    mask.for_each_own(values, shape,
                      [&](std::span<const float> part) { own.insert(own.end(), part.begin(), part.end()); });
    return own;
}

/// The elements of positions that are no padding, by counting through all indices; `axis` of the positions.
std::vector<float> expected_own(const Shape& shape, std::size_t axis) {
    const std::size_t own[2] = {2, 3};
    std::size_t inner = 1;
    for (std::size_t i = axis + 1; i < shape.size(); ++i)
        inner *= static_cast<std::size_t>(shape[i]);
    const auto count = static_cast<std::size_t>(element_count(shape));
    std::vector<float> expected;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t position = i / inner % static_cast<std::size_t>(shape[axis]);
        if (position < own[i / (count / 2)]) expected.push_back(static_cast<float>(i));
    }
    return expected;
}

TEST(PositionMaskTest, TakesPositionsFromTheShape) {
    for (const DataType type : {DataType::int64, DataType::int32, DataType::boolean}) {
        const auto mask = PositionMask::of(mask_of(type));
        ASSERT_TRUE(mask) << to_string(type);
        EXPECT_EQ(own_of(*mask, {2, 4, 3}), expected_own({2, 4, 3}, 1));
        EXPECT_EQ(own_of(*mask, {2, 4, 3, 5}), expected_own({2, 4, 3, 5}, 1)) << "heads behind positions";
        EXPECT_EQ(own_of(*mask, {2, 3, 4, 5}), expected_own({2, 3, 4, 5}, 2)) << "heads in front of positions";
        // Rows of all samples, one behind the other.
        EXPECT_EQ(own_of(*mask, {8, 3}), expected_own({2, 4, 3}, 1));
    }
}

TEST(PositionMaskTest, CountsTensorsWithoutPositionsWhole) {
    for (const Shape& shape : {Shape{2, 7}, Shape{2, 4}, Shape{2, 3, 5}, Shape{2, 4, 4, 3}, Shape{1, 4, 3}, Shape{2}}) {
        EXPECT_FALSE(padded().layout_of(shape)) << to_string(shape);
        EXPECT_EQ(own_of(padded(), shape).size(), static_cast<std::size_t>(element_count(shape)));
    }
}

TEST(PositionMaskTest, IsNoneWithoutPaddingOrMask) {
    HostTensor whole("attention_mask", DataType::int64, {2, 3});
    std::ranges::fill(whole.as<std::int64_t>(), 1);
    EXPECT_FALSE(PositionMask::of(whole));
    HostTensor other = mask_of(DataType::int64);
    other.name = "input_ids";
    EXPECT_FALSE(PositionMask::of(other));
    HostTensor floats("attention_mask", DataType::float32, {2, 4});
    EXPECT_FALSE(PositionMask::of(floats));
    HostTensor deep("attention_mask", DataType::int64, {2, 1, 4});
    EXPECT_FALSE(PositionMask::of(deep));
    HostTensor mask = mask_of(DataType::int32);
    const std::vector<TensorView> inputs{other.view(), mask.view()};
    EXPECT_TRUE(PositionMask::of(inputs));
    EXPECT_FALSE(PositionMask::of(std::span(inputs).first(1)));
}

} // namespace
} // namespace lathe
