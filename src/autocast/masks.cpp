#include "autocast/masks.hpp"

#include <algorithm>
#include <optional>

#include "autocast/neighbours.hpp"
#include "quantize/ops.hpp"
#include "support/score_mask.hpp"

namespace lathe {

namespace {

bool hands_on(const Graph& graph, const Node& node) {
    return node.is("Add") || node.is("Where") || is_pass_through(graph, node);
}

/// Of a constant's numbers beside the masks.
std::optional<TensorFacts> facts_beside_masks(const Tensor& tensor, const HalfFormat& format) {
    auto values = clamped_masks(tensor.values<float>(), format.type);
    if (!values) return std::nullopt;
    std::ranges::replace(*values, narrow_mask, 0.0F);
    TensorFacts facts = facts_of(Tensor::of_floats(tensor.name, tensor.shape(), *values), format);
    facts.masked = true;
    return facts;
}

/// Of what a node makes of a mask and other values: those of its largest input, or for a sum, as far as the inputs'
/// largest together. Nothing if no input is masked, or not all are known.
std::optional<TensorFacts> facts_behind(const Graph& graph, const Node& node,
                                        const std::map<std::string, TensorFacts>& facts) {
    std::optional<TensorFacts> largest;
    double sum = 0;
    bool masked = false;
    for (const std::string& name : node.inputs) {
        if (!is_float32(graph, name)) continue;
        const auto found = facts.find(name);
        if (found == facts.end()) return std::nullopt;
        masked = masked || found->second.masked;
        sum += found->second.absmax;
        if (!largest || found->second.absmax > largest->absmax) largest = found->second;
    }
    if (!masked) return std::nullopt;
    largest->tensor = node.output(0);
    largest->constant = false;
    largest->masked = true;
    if (node.is("Add")) largest->absmax = sum;
    return largest;
}

} // namespace

void find_masks(const Graph& graph, const HalfFormat& format, std::map<std::string, TensorFacts>& facts) {
    for (const auto& [name, tensor] : graph.initializers) {
        if (tensor.type() != DataType::float32 || graph.constant(name) == nullptr) continue;
        if (auto found = facts_beside_masks(tensor, format)) facts[name] = *std::move(found);
    }
    for (const auto& node : graph.nodes) {
        if (!hands_on(graph, *node) || !is_float32(graph, node->output(0))) continue;
        if (auto found = facts_behind(graph, *node, facts)) facts[node->output(0)] = *std::move(found);
    }
}

bool takes_masks(const Graph& graph, const Node& node) {
    return hands_on(graph, node) || node.is("Softmax") || node.is("LogSoftmax");
}

} // namespace lathe
