#include "graph/tensor.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Tensor, MisalignedSharedBytesAreCopied) {
    const auto block = std::make_shared<std::vector<std::byte>>(64);
    const float values[2] = {1.5F, -2.0F};
    for (std::size_t offset = 0; offset < 8; ++offset) {
        std::memcpy(block->data() + offset, values, sizeof(values));
        const Tensor tensor("t", DataType::float32, {2}, std::span(*block).subspan(offset, sizeof(values)), block);
        const auto read = tensor.values<float>();
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data()) % alignof(float), 0U);
        EXPECT_EQ(read[0], 1.5F);
        EXPECT_EQ(read[1], -2.0F);
        const bool shared = tensor.bytes().data() == block->data() + offset;
        EXPECT_EQ(shared, offset % alignof(float) == 0);
    }
}

TEST(Tensor, SharedBytesOutliveTheirBlock) {
    auto block = std::make_shared<std::vector<std::byte>>(4, std::byte{7});
    const Tensor tensor("t", DataType::uint8, {4}, *block, block);
    block.reset();
    EXPECT_EQ(tensor.values<std::uint8_t>()[3], 7);
}

TEST(Tensor, ConvertsToFloatsAndIntegers) {
    const struct {
        DataType type;
        std::vector<std::uint8_t> bytes;
        std::int64_t count;
        std::vector<float> floats;
        std::vector<std::int64_t> integers;
    } cases[] = {
        {DataType::float16, {0x00, 0x3C, 0x00, 0xC0}, 2, {1.0F, -2.0F}, {}},
        {DataType::bfloat16, {0x80, 0x3F}, 1, {1.0F}, {}},
        {DataType::int8, {0xFF, 0x01}, 2, {-1.0F, 1.0F}, {-1, 1}},
        {DataType::uint8, {0xFF}, 1, {255.0F}, {255}},
        {DataType::boolean, {1, 0}, 2, {1.0F, 0.0F}, {1, 0}},
        {DataType::int16, {0xFE, 0xFF}, 1, {-2.0F}, {-2}},
        {DataType::int4, {0x8F, 0x07}, 3, {-1.0F, -8.0F, 7.0F}, {-1, -8, 7}},
        {DataType::uint4, {0x8F}, 2, {15.0F, 8.0F}, {15, 8}},
        {DataType::float8e5m2, {0x01}, 1, {}, {}},
    };
    for (const auto& each : cases) {
        const Tensor tensor("t", each.type, {each.count}, std::as_bytes(std::span(each.bytes)));
        EXPECT_EQ(tensor.to_floats(), each.floats) << to_string(each.type);
        EXPECT_EQ(tensor.to_int64s(), each.integers) << to_string(each.type);
    }
}

TEST(Tensor, SameContentComparesTypeShapeAndBytes) {
    const std::array<float, 2> values{1.0F, 2.0F};
    const std::array<float, 2> others{1.0F, 3.0F};
    const Tensor a = Tensor::of_floats("a", {2}, values);
    EXPECT_TRUE(same_content(a, Tensor::of_floats("b", {2}, values)));
    EXPECT_FALSE(same_content(a, Tensor::of_floats("a", {1, 2}, values)));
    EXPECT_FALSE(same_content(a, Tensor::of_floats("a", {2}, others)));
    EXPECT_FALSE(same_content(a, Tensor::of("a", DataType::int32, {2}, std::span<const float>(values))));
    EXPECT_TRUE(same_content(Tensor("s", {1}, {"x"}), Tensor("t", {1}, {"x"})));
    EXPECT_FALSE(same_content(Tensor("s", {1}, {"x"}), Tensor("s", {1}, {"y"})));
    EXPECT_TRUE(same_content(a.reshaped({2, 1}), Tensor::of_floats("b", {2, 1}, values)));
}

} // namespace
} // namespace lathe
