#include "sensitivity/only_layers.hpp"

#include <algorithm>
#include <map>

#include "quantize/insert.hpp"
#include "quantize/ops.hpp"
#include "quantize/tensor_range.hpp"

namespace lathe {

std::vector<std::string> all_layers_but(const Graph& graph, const std::unordered_set<std::string>& layers) {
    std::vector<std::string> others;
    for (const auto& node : graph.nodes) {
        if (is_heavy(*node) && !layers.contains(node->label())) others.push_back(node->label());
    }
    return others;
}

std::unordered_set<std::string> tensors_from_zero(const QuantizationPlan& plan) {
    std::unordered_set<std::string> names;
    for (const QuantizedTensor& tensor : plan.tensors) {
        if (plan.groups[tensor.group].from_zero) names.insert(tensor.name);
    }
    return names;
}

Result<Model> quantize_only(const Model& piece, const Graph& whole, const std::string& layer, const LayerRules& rules) {
    PlacementOptions placement;
    placement.exclude = all_layers_but(piece.graph, {layer});
    LATHE_TRY(QuantizationPlan plan, plan_quantization(piece, profile_of(rules.target), placement));
    if (plan.quantized_nodes == 0) {
        return Error{ErrorCode::not_found, "the layer cannot be quantised by itself", layer,
                     "lathe quantize --explain gives the reason"};
    }
    for (const QuantizedTensor& tensor : plan.tensors) {
        ScaleGroup& group = plan.groups[tensor.group];
        group.from_zero = group.ranges == std::vector{tensor.name} && rules.from_zero.contains(tensor.name);
    }
    std::map<std::string, Range> values;
    for (const ScaleGroup& group : plan.groups) {
        for (const std::string& name : group.ranges) {
            // What is missing the insertion tells, with the cure.
            if (const TensorRange* tensor = range_behind(whole, rules.ranges, name))
                values[name] = range_in_group(*tensor, group, rules.ranges, plan);
        }
    }
    InsertOptions insert;
    insert.weight_range = rules.weight_range;
    return insert_quantization(piece, plan, values, insert);
}

} // namespace lathe
