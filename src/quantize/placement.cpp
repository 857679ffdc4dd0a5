#include "quantize/placement.hpp"

#include <array>
#include <unordered_set>

#include "quantize/edges.hpp"
#include "quantize/ops.hpp"
#include "quantize/planner.hpp"

namespace lathe {

Result<QuantizationPlan> plan_quantization(const Model& model, const TargetProfile& profile,
                                           const PlacementOptions& options) {
    for (const auto& node : model.graph.nodes) {
        if (node->is("QuantizeLinear") || node->is("DequantizeLinear")) {
            return Error{ErrorCode::invalid_argument, "the model is quantised already", node->label(),
                         "give the float model; to judge this one: lathe quantize --lint FILE --target " +
                             std::string(profile.name)};
        }
    }
    LATHE_TRY(const std::vector<bool> excluded, match_excluded(model.graph, options.exclude));
    LATHE_TRY(const TargetProfile chosen, with_formats(profile, options.weights, options.activations));
    if (options.unranged.empty() && options.noisy.empty())
        return Planner(model.graph, chosen, excluded, options.unlike).plan();
    std::vector<bool> in_float = excluded;
    for (const std::size_t node : options.unranged)
        in_float.at(node) = true;
    for (const auto& [node, why] : options.noisy)
        in_float.at(node) = true;
    QuantizationPlan plan = Planner(model.graph, chosen, in_float, options.unlike).plan();
    for (EdgeDecision& decision : plan.decisions) {
        if (decision.reason != Reason::excluded_by_user || excluded[decision.edge.node]) continue;
        const auto noisy = options.noisy.find(decision.edge.node);
        decision.reason = noisy == options.noisy.end() ? Reason::range_missing : Reason::too_noisy;
        if (noisy != options.noisy.end() && decision.edge.input == 0) decision.detail = noisy->second;
    }
    return plan;
}

namespace {

/// The wanted graph inputs and node outputs, each once.
std::vector<std::string> in_graph_order(const Model& model, std::unordered_set<std::string> wanted) {
    std::vector<std::string> ordered;
    const auto take = [&](const std::string& name) {
        if (wanted.erase(name) > 0) ordered.push_back(name);
    };
    for (const ValueInfo& input : model.graph.inputs)
        take(input.name);
    for (const auto& node : model.graph.nodes) {
        for (const std::string& output : node->outputs)
            take(output);
    }
    return ordered;
}

} // namespace

std::vector<std::string> quantizable_tensors(const Model& model, const TargetProfile& profile) {
    auto plan = plan_quantization(model, profile);
    if (!plan) return {};
    std::unordered_set<std::string> wanted;
    for (const ScaleGroup& group : plan->groups)
        wanted.insert(group.ranges.begin(), group.ranges.end());
    // What takes its range from others (a Concat's inputs) needs its own once the Concat is read in float. Behind a
    // reshaping operation the range before it serves (range_behind).
    const EdgeIndex index(model.graph);
    for (const QuantizedTensor& tensor : plan->tensors) {
        const auto producer = index.producer(tensor.name);
        if (!producer || !is_pass_through(model.graph, index.node(*producer))) wanted.insert(tensor.name);
    }
    return in_graph_order(model, std::move(wanted));
}

std::vector<std::string> quantizable_tensors(const Model& model) {
    std::unordered_set<std::string> wanted;
    for (const TargetProfile& profile : target_profiles()) {
        for (std::string& name : quantizable_tensors(model, profile))
            wanted.insert(std::move(name));
    }
    return in_graph_order(model, std::move(wanted));
}

std::set<std::string> whole_range_tensors(const Model& model) {
    std::set<std::string> whole;
    for (const TargetProfile& profile : target_profiles()) {
        const auto plan = plan_quantization(model, profile);
        if (!plan) continue;
        for (const ScaleGroup& group : plan->groups) {
            if (group.whole_range) whole.insert(group.ranges.begin(), group.ranges.end());
        }
    }
    return whole;
}

Json to_json(const std::vector<EdgeDecision>& decisions) {
    constexpr std::array roles{"activation", "weight", "bias"};
    Json array = Json::array();
    for (const EdgeDecision& each : decisions) {
        array.push_back({{"node", each.node},
                         {"op_type", each.op_type},
                         {"input", each.edge.input},
                         {"tensor", each.tensor},
                         {"role", roles.at(static_cast<std::size_t>(each.role))},
                         {"quantized", each.quantized()},
                         {"reason", to_string(each.reason)},
                         {"explanation", explain(each.reason)},
                         {"whole_range", each.whole_range},
                         {"detail", each.detail}});
    }
    return array;
}

} // namespace lathe
