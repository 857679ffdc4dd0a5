#include "backends/cuda/plan/empty_values.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "support/half.hpp"

namespace lathe::cuda {
namespace {

bool is_empty(const Graph& graph, const std::string& value) {
    const auto info = value.empty() ? std::nullopt : graph.info(value);
    const auto shape = info ? info->shape() : std::nullopt;
    return shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t n) { return n >= 0; }) &&
           std::find(shape->begin(), shape->end(), 0) != shape->end();
}

/// Of a type whose numbers have bytes of their own.
bool has_bytes(DataType type) { return type != DataType::undefined && type != DataType::string; }

/// `count` times a number; nothing for types in which it is not written here.
std::optional<Tensor> filled(const std::string& name, DataType type, const Shape& shape, double number) {
    const auto count = static_cast<std::size_t>(element_count(shape));
    const auto of = [&](auto value) {
        const std::vector<decltype(value)> numbers(count, value);
        return Tensor::of(name, type, shape, std::span<const decltype(value)>(numbers));
    };
    using I32 = std::numeric_limits<std::int32_t>;
    using I64 = std::numeric_limits<std::int64_t>;
    switch (type) {
        case DataType::float32: return of(static_cast<float>(number));
        case DataType::float64: return of(number);
        case DataType::float16: return of(half_from_float(static_cast<float>(number)));
        case DataType::bfloat16: return of(bfloat16_from_float(static_cast<float>(number)));
        case DataType::boolean: return of(static_cast<std::uint8_t>(number > 0 ? 1 : 0));
        case DataType::int32:
            return of(number < I32::min()   ? I32::min()
                      : number > I32::max() ? I32::max()
                                            : static_cast<std::int32_t>(number));
        case DataType::int64:
            return of(number < -9e18 ? I64::min() : number > 9e18 ? I64::max() : static_cast<std::int64_t>(number));
        default: return std::nullopt;
    }
}

/// What a reduction of nothing gives.
std::optional<double> of_nothing(const Node& node) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (node.is("ReduceSum") || node.is("ReduceL1") || node.is("ReduceL2") || node.is("ReduceSumSquare")) return 0;
    if (node.is("ReduceProd")) return 1;
    if (node.is("ReduceMax") || node.is("ReduceLogSum") || node.is("ReduceLogSumExp")) return -infinity;
    if (node.is("ReduceMin")) return infinity;
    if (node.is("ReduceMean")) return std::numeric_limits<double>::quiet_NaN();
    return std::nullopt;
}

/// The constant that the node's one result is, if it is one.
std::optional<Tensor> result_of(const Graph& graph, const Node& node) {
    if (node.outputs.size() != 1 || node.inputs.empty()) return std::nullopt;
    const std::string& output = node.output(0);
    const auto info = graph.info(output);
    if (!info || !has_bytes(info->type)) return std::nullopt;
    if (is_empty(graph, output)) return Tensor(output, info->type, *info->shape(), {});
    const auto shape = info->shape();
    const auto number = of_nothing(node);
    const bool known = shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t n) { return n >= 0; });
    if (!number || !known || !is_empty(graph, node.input(0))) return std::nullopt;
    return filled(output, info->type, *shape, *number);
}

} // namespace

bool fold_empty_values(Graph& graph, std::size_t inputs) {
    bool changed = false;
    for (std::size_t i = 0; i < std::min(inputs, graph.inputs.size()); ++i) {
        const ValueInfo input = graph.inputs[i];
        const bool read = Uses(graph).use_count(input.name) > (graph.is_output(input.name) ? 1U : 0U);
        if (!read || !is_empty(graph, input.name) || !has_bytes(input.type)) continue;
        const std::string name = graph.unique_name(input.name + "/nothing");
        graph.initializers.insert_or_assign(name, Tensor(name, input.type, *input.shape(), {}));
        graph.replace_uses(input.name, name);
        changed = true;
    }
    const auto known = [&](const std::unique_ptr<Node>& node) {
        auto constant = result_of(graph, *node);
        if (!constant) return false;
        graph.initializers.insert_or_assign(node->output(0), std::move(*constant));
        return true;
    };
    changed = std::erase_if(graph.nodes, known) > 0 || changed;
    // What is joined with nothing is joined without it.
    for (const auto& node : graph.nodes) {
        if (!node->is("Concat")) continue;
        const auto empty = [&](const std::string& input) { return is_empty(graph, input); };
        if (std::ranges::all_of(node->inputs, empty)) continue;
        changed = std::erase_if(node->inputs, empty) > 0 || changed;
    }
    return changed;
}

} // namespace lathe::cuda
