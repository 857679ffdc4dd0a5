#include "sensitivity/only_layers.hpp"

#include <algorithm>
#include <map>

#include "quantize/insert.hpp"
#include "quantize/ops.hpp"
#include "quantize/placement.hpp"

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

Result<Model> quantize_only(const Model& piece, const Graph& whole, const std::string& layer, const RangesFile& ranges,
                            Target target, bool reduce_range) {
    const TargetProfile& profile = profile_of(target);
    PlacementOptions placement;
    placement.exclude = all_layers_but(piece.graph, {layer});
    LATHE_TRY(const QuantizationPlan plan, plan_quantization(piece, profile, placement));
    if (plan.quantized_nodes == 0) {
        return Error{ErrorCode::not_found, "the layer cannot be quantised by itself", layer,
                     "lathe quantize --explain gives the reason"};
    }
    std::map<std::string, Range> values;
    for (const ScaleGroup& group : plan.groups) {
        for (const std::string& name : group.ranges) {
            const TensorRange* tensor = range_behind(whole, ranges, name);
            if (tensor == nullptr) continue; // the insertion tells, with the cure
            values[name] = group.whole_range ? estimate(tensor->histogram, Method::minmax, profile.activations)
                                             : ranges.range(*tensor, profile.activations);
        }
    }
    InsertOptions insert;
    insert.reduce_range = reduce_range;
    return insert_quantization(piece, plan, values, insert);
}

} // namespace lathe
