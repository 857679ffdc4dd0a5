#include "sensitivity/only_layers.hpp"

#include <algorithm>
#include <map>

#include "quantize/insert.hpp"
#include "quantize/ops.hpp"

namespace lathe {

namespace {

/// The calibrated tensor that the value's numbers come from; nullptr if there is none.
const TensorRange* range_behind(const Graph& whole, const RangesFile& ranges, std::string name) {
    for (std::size_t steps = 0; steps <= whole.nodes.size(); ++steps) {
        if (const TensorRange* tensor = ranges.find(name)) return tensor;
        const auto producer = std::ranges::find_if(whole.nodes, [&](const auto& node) {
            return std::ranges::find(node->outputs, name) != node->outputs.end();
        });
        if (producer == whole.nodes.end() || !is_pass_through(whole, **producer)) return nullptr;
        name = (*producer)->input(0);
    }
    return nullptr;
}

} // namespace

std::vector<std::string> all_layers_but(const Graph& graph, const std::unordered_set<std::string>& layers) {
    std::vector<std::string> others;
    for (const auto& node : graph.nodes) {
        if (is_heavy(*node) && !layers.contains(node->label())) others.push_back(node->label());
    }
    return others;
}

RangesFile with_moved_tensors(const Graph& graph, RangesFile ranges) {
    for (const auto& node : graph.nodes) {
        if (!is_pass_through(graph, *node)) continue;
        const TensorRange* source = ranges.find(node->input(0));
        if (source == nullptr) continue;
        const TensorRange copy = *source;
        for (const std::string& output : node->outputs) {
            if (output.empty() || ranges.find(output) != nullptr) continue;
            ranges.tensors.push_back(copy);
            ranges.tensors.back().name = output;
        }
    }
    return ranges;
}

std::unordered_set<std::string> tensors_from_zero(const QuantizationPlan& plan) {
    std::unordered_set<std::string> names;
    for (const QuantizedTensor& tensor : plan.tensors) {
        if (plan.groups[tensor.group].from_zero) names.insert(tensor.name);
    }
    return names;
}

Result<Model> quantize_only(const Model& piece, const Graph& whole, const std::string& layer, const LayerRules& rules) {
    const TargetProfile& profile = profile_of(rules.target);
    PlacementOptions placement;
    placement.exclude = all_layers_but(piece.graph, {layer});
    LATHE_TRY(QuantizationPlan plan, plan_quantization(piece, profile, placement));
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
        const NumberFormat format = group.from_zero ? NumberFormat::uint8() : profile.activations;
        for (const std::string& name : group.ranges) {
            const TensorRange* tensor = range_behind(whole, rules.ranges, name);
            if (tensor == nullptr) continue; // the insertion tells, with the cure
            values[name] = group.whole_range ? estimate(tensor->histogram, Method::minmax, format)
                                             : rules.ranges.range(*tensor, format);
        }
    }
    InsertOptions insert;
    insert.reduce_range = rules.reduce_range;
    return insert_quantization(piece, plan, values, insert);
}

} // namespace lathe
