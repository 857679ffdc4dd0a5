#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace lathe::test {

/// What a DequantizeLinear of constants gives: (value - zero point) * scale, of one scale or one an index of the axis.
inline Tensor dequantized(const Node& node, const Tensor& value, const Tensor& scale, const Tensor* zero) {
    const Shape& shape = value.shape();
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::vector<float> scales = scale.to_floats();
    const std::vector<std::int64_t> zeros =
        zero == nullptr ? std::vector<std::int64_t>(scales.size(), 0) : zero->to_int64s();
    const std::vector<std::int64_t> steps = value.to_int64s();
    std::size_t inner = steps.size();
    if (scales.size() > 1) {
        const std::int64_t axis = node.int_or("axis", 1);
        inner = 1;
        for (std::int64_t i = (axis < 0 ? axis + rank : axis) + 1; i < rank; ++i)
            inner *= static_cast<std::size_t>(shape[static_cast<std::size_t>(i)]);
    }
    std::vector<float> values(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::size_t channel = i / inner % scales.size();
        values[i] = static_cast<float>(steps[i] - zeros[channel]) * scales[channel];
    }
    return Tensor::of_floats(node.output(0), shape, values);
}

/// The same network with its weights as float constants: so that a CPU computes what the Q/DQ graph says in float32.
/// Its int8 kernels need not: without VNNI they clip sums. Weights with a scale a block stay, which have no such
/// kernels.
inline Model with_float_weights(Model model) {
    Graph& graph = model.graph;
    std::vector<Tensor> folded;
    std::erase_if(graph.nodes, [&](const auto& node) {
        if (node->op_type != "DequantizeLinear" || node->int_or("block_size", 0) != 0) return false;
        const Tensor* value = graph.constant(node->input(0));
        const Tensor* scale = graph.constant(node->input(1));
        if (value == nullptr || scale == nullptr) return false;
        folded.push_back(dequantized(*node, *value, *scale, graph.constant(node->input(2))));
        return true;
    });
    for (Tensor& each : folded) {
        graph.value_infos.erase(each.name);
        graph.initializers.insert_or_assign(each.name, std::move(each));
    }
    return model;
}

} // namespace lathe::test
