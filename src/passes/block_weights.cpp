#include "passes/block_weights.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "passes/rewrite.hpp"
#include "support/half.hpp"

namespace lathe {
namespace {

/// How the scales lie: for each of `outer` parts of the tensor, of `size` times `inner` elements, one for `block` steps
/// along the axis and each of the `inner` elements of a step.
struct Layout {
    std::size_t outer = 1, size = 1, inner = 1, block = 1;
    std::size_t blocks() const { return (size + block - 1) / block; }
    std::size_t at(std::size_t element) const {
        const std::size_t along = element / inner % size;
        return (element / (inner * size) * blocks() + along / block) * inner + element % inner;
    }
};

std::size_t count_of(Shape::const_iterator from, Shape::const_iterator until) {
    return static_cast<std::size_t>(element_count(Shape(from, until)));
}

std::optional<Layout> layout_of(const Node& node, const Shape& shape, std::size_t scales) {
    const std::int64_t block = node.int_or("block_size", 0), rank = static_cast<std::int64_t>(shape.size());
    std::int64_t axis = node.int_or("axis", 1);
    Layout layout;
    if (block == 0 && scales == 1) { // all is one block
        layout.size = layout.block = std::max<std::size_t>(count_of(shape.begin(), shape.end()), 1);
        return layout;
    }
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || block < 0 || shape[static_cast<std::size_t>(axis)] <= 0) return std::nullopt;
    const auto place = shape.begin() + axis;
    layout.size = static_cast<std::size_t>(*place);
    if (block == 0) { // one for each index, for all that lies around it
        const std::size_t inner = count_of(place + 1, shape.end());
        if (inner == 0) return std::nullopt;
        layout.size *= inner;
        layout.block = inner;
        return scales == static_cast<std::size_t>(*place) && count_of(shape.begin(), place) == 1 ? std::optional(layout)
                                                                                                 : std::nullopt;
    }
    layout.outer = count_of(shape.begin(), place);
    layout.inner = count_of(place + 1, shape.end());
    layout.block = static_cast<std::size_t>(block);
    if (layout.inner == 0 || scales != layout.outer * layout.blocks() * layout.inner) return std::nullopt;
    return layout;
}

/// A language model's weights are most of it: no copy in wider numbers than float32 is made.
std::optional<Tensor> in_floats(const Node& node, const Tensor& values, const Tensor& scales, const Tensor* zeros) {
    const bool half = scales.type() == DataType::float16;
    if (!half && scales.type() != DataType::float32) return std::nullopt;
    const std::vector<float> by = scales.to_floats();
    const std::vector<float> shift = zeros == nullptr ? std::vector<float>(by.size(), 0) : zeros->to_floats();
    const auto layout = layout_of(node, values.shape(), by.size());
    if (!layout || shift.size() != by.size()) return std::nullopt;
    std::vector<float> floats = values.to_floats();
    if (floats.size() != values.count()) return std::nullopt;
    for (std::size_t i = 0; i < floats.size(); ++i) {
        const std::size_t scale = layout->at(i);
        floats[i] = (floats[i] - shift[scale]) * by[scale];
    }
    if (!half) return Tensor::of_floats("", values.shape(), floats);
    std::vector<std::uint16_t> bits(floats.size());
    std::ranges::transform(floats, bits.begin(), half_from_float);
    return Tensor::of("", DataType::float16, values.shape(), std::span<const std::uint16_t>(bits));
}

} // namespace

std::size_t write_block_weights_as_floats(Graph& graph) {
    std::size_t count = 0;
    for (const auto& node : graph.nodes) {
        if (!node->is("DequantizeLinear")) continue;
        const Tensor *values = graph.constant(node->input(0)), *scales = graph.constant(node->input(1));
        const Tensor* zeros = node->input(2).empty() ? nullptr : graph.constant(node->input(2));
        if (values == nullptr || scales == nullptr || (zeros == nullptr && !node->input(2).empty())) continue;
        const bool four_bits = values->type() == DataType::int4 || values->type() == DataType::uint4;
        if (!four_bits && node->int_or("block_size", 0) == 0) continue;
        auto folded = in_floats(*node, *values, *scales, zeros);
        if (!folded) continue;
        Node same = make_node("Identity", {add_constant(graph, node->input(0) + "_float", std::move(*folded))});
        same.name = node->name;
        same.outputs = node->outputs;
        *node = std::move(same);
        ++count;
    }
    return count;
}

} // namespace lathe
