#include "quantize/pairs.hpp"

#include <algorithm>
#include <cstdlib>

#include "quantize/edges.hpp"
#include "quantize/ops.hpp"

namespace lathe {
namespace {

bool overflows(const Tensor& weight, std::optional<std::int64_t> inputs) {
    const auto steps = weight.values<std::int8_t>();
    if (inputs) return !WeightPairs(weight.shape(), *inputs).fit(steps);
    return std::ranges::any_of(steps, [](int step) { return 2 * std::abs(step) > most_of_a_pair; });
}

} // namespace

WeightPairs::WeightPairs(const Shape& shape, std::int64_t inputs) {
    const auto at = static_cast<std::size_t>(inputs);
    count_ = static_cast<std::size_t>(shape.at(at));
    for (std::size_t i = at + 1; i < shape.size(); ++i)
        stride_ *= static_cast<std::size_t>(shape[i]);
}

std::optional<std::size_t> WeightPairs::other(std::size_t i) const {
    if (count_ == 0) return std::nullopt;
    const std::size_t channel = i / stride_ % count_;
    if (channel % 2 == 1) return i - stride_;
    return channel + 1 < count_ ? std::optional(i + stride_) : std::nullopt;
}

bool WeightPairs::fit(std::span<const std::int8_t> steps) const {
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto other = this->other(i);
        if (other && std::abs(steps[i] + steps[*other]) > most_of_a_pair) return false;
    }
    return true;
}

std::optional<std::int64_t> input_axis(const Node& node, const Shape& weight, const TargetProfile& profile) {
    const auto rank = static_cast<std::int64_t>(weight.size());
    if (rank < 2) return std::nullopt;
    if (node.is("MatMul")) return rank - 2;
    if (node.is("Gemm")) return node.int_or("transB", 0) != 0 ? 1 : 0;
    const std::int64_t axis = node.is("Conv") ? 1 : 0;
    if (axis == 0 && node.int_or("group", 1) != 1) return std::nullopt;
    const bool one_position =
        std::all_of(weight.begin() + 2, weight.end(), [](std::int64_t size) { return size == 1; });
    const std::int64_t channels = weight[static_cast<std::size_t>(axis)];
    const bool spans = profile.pairs_span_positions && channels % 2 == 1 && channels > 1 && !one_position;
    return spans ? std::nullopt : std::optional(axis);
}

bool can_overflow(const EdgeIndex& index, const Node& node, const TargetProfile& profile) {
    if (!is_heavy(node) || node.inputs.size() < 2) return false;
    const auto producer = index.producer(node.input(1));
    if (!producer || index.node(*producer).op_type != "DequantizeLinear") return false;
    const Tensor* weight = index.graph().constant(index.node(*producer).input(0));
    return weight != nullptr && weight->type() == DataType::int8 &&
           overflows(*weight, input_axis(node, weight->shape(), profile));
}

std::vector<std::string> layers_that_overflow(const Graph& graph, const TargetProfile& profile) {
    const EdgeIndex index(graph);
    std::vector<std::string> labels;
    for (const auto& node : graph.nodes) {
        if (can_overflow(index, *node, profile)) labels.push_back(node->label());
    }
    return labels;
}

} // namespace lathe
