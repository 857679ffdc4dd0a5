#include "passes/block_weights.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "graph/graph.hpp"

namespace lathe {
namespace {

/// y = x + DequantizeLinear(q): four bits in [2, 4], a scale for two columns of a row.
Graph in_blocks(DataType type, std::int64_t axis, std::int64_t block, const Shape& scales_shape,
                std::span<const float> scales, std::span<const std::uint8_t> zeros) {
    Graph graph;
    const std::array<std::uint8_t, 4> packed{0x21, 0x43, 0x65, 0xF7}; // 1 2 3 4, 5 6 7 15
    graph.initializers.emplace("q", Tensor::of<std::uint8_t>("q", type, {2, 4}, packed));
    graph.initializers.emplace("s", Tensor::of_floats("s", scales_shape, scales));
    graph.initializers.emplace("z", Tensor::of("z", type, scales_shape, zeros));
    Node node;
    node.op_type = "DequantizeLinear";
    node.inputs = {"q", "s", "z"};
    node.outputs = {"y"};
    node.set("axis", axis);
    node.set("block_size", block);
    graph.add(node);
    return graph;
}

std::vector<float> folded(Graph graph) {
    EXPECT_EQ(write_block_weights_as_floats(graph), 1U);
    EXPECT_EQ(graph.nodes[0]->op_type, "Identity");
    EXPECT_EQ(graph.nodes[0]->output(0), "y");
    const Tensor* tensor = graph.constant(graph.nodes[0]->input(0));
    return tensor == nullptr ? std::vector<float>{} : tensor->to_floats();
}

TEST(BlockWeights, ScalesOfTheirBlocksAlongTheLastAxis) {
    const std::array<float, 4> scales{1, 10, 0.5F, 2};
    const std::array<std::uint8_t, 2> zeros{0x21, 0x43}; // 1 2, 3 4
    EXPECT_EQ(folded(in_blocks(DataType::uint4, 1, 2, {2, 2}, scales, zeros)),
              (std::vector<float>{0, 1, 10, 20, 1, 1.5F, 6, 22}));
}

TEST(BlockWeights, ScalesOfTheirBlocksAlongTheFirstAxis) {
    const std::array<float, 4> scales{1, 10, 100, 1000};
    const std::array<std::uint8_t, 2> zeros{0, 0};
    EXPECT_EQ(folded(in_blocks(DataType::uint4, 0, 2, {1, 4}, scales, zeros)),
              (std::vector<float>{1, 20, 300, 4000, 5, 60, 700, 15000}));
}

TEST(BlockWeights, SignedAndInOneScale) {
    const std::array<float, 1> scales{2};
    const std::array<std::uint8_t, 1> zeros{1};
    EXPECT_EQ(folded(in_blocks(DataType::int4, 1, 0, {}, scales, zeros)),
              (std::vector<float>{0, 2, 4, 6, 8, 10, 12, -4}));
}

TEST(BlockWeights, WhatDoesNotFitStays) {
    const std::array<float, 2> scales{1, 2};
    const std::array<std::uint8_t, 1> zeros{0};
    Graph graph = in_blocks(DataType::uint4, 1, 2, {2, 1}, scales, zeros); // four scales are wanted
    EXPECT_EQ(write_block_weights_as_floats(graph), 0U);
    EXPECT_EQ(graph.nodes[0]->op_type, "DequantizeLinear");
}

} // namespace
} // namespace lathe
