#include "correct/float_layers.hpp"

#include <algorithm>
#include <unordered_set>

#include "onnx/macs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/edges.hpp"
#include "quantize/last_layers.hpp"
#include "quantize/ops.hpp"

namespace lathe {
namespace {

double weight_count(const Graph& graph, const Node& node) {
    const Constant constant = resolve_constant(graph, node.input(1));
    const auto* tensor = std::get_if<Tensor>(&constant);
    return tensor == nullptr ? 0.0 : static_cast<double>(tensor->count());
}

} // namespace

std::vector<std::string> cheap_last_layers(const Model& model, const QuantizationPlan& plan, const FloatCost& cost) {
    Model shaped = model;
    if (Model inferred = model; infer_shapes(inferred)) shaped = std::move(inferred);
    const Graph& graph = shaped.graph;
    std::unordered_set<std::string> int8;
    for (const EdgeDecision& decision : plan.decisions) {
        if (decision.reason == Reason::heavy_input) int8.insert(decision.node);
    }
    const std::unordered_set<std::string> named = labels_of_one(graph);
    double macs = 0.0;
    double weights = 0.0;
    const auto macs_of = [&](const Node& node) {
        return static_cast<double>(count_macs(node, [&](const std::string& value) { return graph.info(value); }).macs);
    };
    for (const auto& node : graph.nodes) {
        macs += macs_of(*node);
        if (is_heavy(*node) && int8.contains(node->label())) weights += weight_count(graph, *node);
    }
    std::vector<std::string> cheap;
    for (const std::size_t at : last_layers(graph, int8)) {
        const Node& node = *graph.nodes[at];
        const double own = weight_count(graph, node);
        const bool dear = macs_of(node) > cost.macs * macs || 3.0 * own > cost.bytes * weights;
        if (!dear && own > 0.0 && named.contains(node.label())) cheap.push_back(node.label());
    }
    return cheap;
}

} // namespace lathe
