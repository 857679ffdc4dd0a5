#include <algorithm>
#include <set>

#include "graph/subgraphs.hpp"
#include "quantize/ops.hpp"
#include "quantize/planner.hpp"

namespace lathe {
namespace {

/// Conv, ConvTranspose, Gemm and MatMul in the bodies of a node, at any depth.
std::vector<const Node*> heavy_inside(const Node& outer) {
    std::vector<const Node*> found;
    std::vector<const Node*> stack{&outer};
    while (!stack.empty()) {
        const Node* current = stack.back();
        stack.pop_back();
        for_each_subgraph(*current, [&](const Graph& body) {
            for (const auto& node : body.nodes) {
                if (is_heavy(*node)) found.push_back(node.get());
                if (has_subgraph(*node)) stack.push_back(node.get());
            }
        });
    }
    return found;
}

} // namespace

void Planner::build_tensors(QuantizationPlan& plan) {
    // In graph order, so that the same model always gives the same file.
    std::map<std::string, std::size_t> position;
    for (const Edge& edge : wanted_) {
        const std::string& name = index_.tensor(edge);
        if (moved_.contains(name)) continue;
        const auto [found, added] = position.try_emplace(name, plan.tensors.size());
        if (added) plan.tensors.push_back({name, 0, {}});
        plan.tensors[found->second].readers.push_back(edge);
    }
    std::map<std::string, std::size_t> group_of_leader;
    for (QuantizedTensor& tensor : plan.tensors) {
        const auto [found, added] = group_of_leader.try_emplace(scale_leader(tensor.name), plan.groups.size());
        if (added) plan.groups.emplace_back();
        tensor.group = found->second;
    }
    std::set<std::string> members;
    for (const QuantizedTensor& tensor : plan.tensors)
        members.insert(tensor.name);
    for (const auto& [name, leader] : std::map<std::string, std::string>(shared_.begin(), shared_.end())) {
        members.insert(name);
        members.insert(leader);
    }
    for (const std::string& name : members) {
        const auto group = group_of_leader.find(scale_leader(name));
        const bool counts = !range_from_others_.contains(name) || range_of_concat_.contains(name);
        if (group == group_of_leader.end() || !counts) continue;
        plan.groups[group->second].ranges.push_back(name);
        if (residual_terms_.contains(name)) plan.groups[group->second].whole_range = true;
    }
    for (const auto& [key, weight] : weights_)
        plan.weights.push_back(weight);
    std::ranges::sort(plan.weights, {}, [](const QuantizedWeight& weight) { return weight.readers.front(); });
}

Planner::Verdict Planner::default_verdict(const Edge& edge) const {
    const Node& node = index_.node(edge.node);
    const std::string& tensor = index_.tensor(edge);
    if (excluded_[edge.node]) return {Reason::excluded_by_user, ""};
    const auto& readers = index_.readers(tensor);
    if (!moved_.contains(tensor) &&
        std::ranges::any_of(readers, [&](const Edge& each) { return wanted_.contains(each); })) {
        return {Reason::reads_original, ""};
    }
    if ((is_fused_activation(node) || node.is("BatchNormalization")) && edge.input == 0 &&
        straight_from_heavy(tensor)) {
        return {Reason::fused_output, ""};
    }
    return {Reason::op_stays_float, node.op_type};
}

void Planner::build_decisions(QuantizationPlan& plan) {
    std::set<std::string> whole_ranges;
    for (const QuantizedTensor& tensor : plan.tensors) {
        if (plan.groups[tensor.group].whole_range) whole_ranges.insert(tensor.name);
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
        const Node& node = index_.node(i);
        const bool heavy = is_heavy(node);
        const auto bias = bias_input(node);
        for (std::size_t j = 0; j < node.inputs.size(); ++j) {
            const std::string& tensor = node.inputs[j];
            if (tensor.empty()) continue;
            const bool constant = index_.is_constant(tensor);
            if (!heavy && (constant || !index_.is_float32(tensor))) continue;
            const Edge edge{i, j};
            const auto known = verdicts_.find(edge);
            Verdict verdict = known != verdicts_.end() ? known->second : default_verdict(edge);
            EdgeRole role = EdgeRole::activation;
            if (heavy && bias == j) {
                role = EdgeRole::bias;
                verdict = {Reason::bias_stays_float, ""};
            } else if (heavy && constant) {
                role = EdgeRole::weight;
            }
            // A moved tensor's float readers cannot exist; a float reader of a paired one reads the original.
            plan.decisions.push_back({edge, node.label(), node.op_type, tensor, role, verdict.reason, verdict.detail,
                                      is_quantized(verdict.reason) && whole_ranges.contains(tensor)});
        }
        for (const Node* inner : heavy_inside(node)) {
            ++plan.heavy_nodes;
            plan.decisions.push_back({{i, 0},
                                      inner->label(),
                                      inner->op_type,
                                      inner->input(0),
                                      EdgeRole::activation,
                                      Reason::inside_subgraph,
                                      "in " + node.label(),
                                      false});
        }
    }
}

std::size_t Planner::depthwise_int8() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
        count += int8_node_[i] && is_depthwise(graph_, index_.node(i)) ? 1U : 0U;
    return count;
}

void Planner::add_remarks(QuantizationPlan& plan) const {
    std::size_t batch_norms = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
        const Node& node = index_.node(i);
        if (node.is("BatchNormalization") && straight_from_heavy(node.input(0))) ++batch_norms;
    }
    if (batch_norms > 0) {
        plan.remarks.push_back(std::to_string(batch_norms) +
                               " BatchNormalization follow a convolution and are not folded into it: run lathe "
                               "simplify before calibrating, for speed and accuracy");
    }
    if (plan.quantized_nodes > 0 && profile_.activations.symmetric &&
        !profile_of(profile_.target).activations.symmetric) {
        // benchmarks/results/mobilenet_v1.bench.json: ONNX Runtime's u8s8 and s8s8 files, both run by OpenVINO.
        plan.remarks.emplace_back(
            "symmetric activations are int8: CPUs multiply uint8 by int8 faster (in OpenVINO int8 "
            "by int8 took 1.2 times as long for MobileNetV1), and where nothing is negative half "
            "of the steps are never used");
    }
    if (const std::size_t depthwise = depthwise_int8();
        depthwise > 0 && profile_.granularity == WeightGranularity::per_tensor) {
        plan.remarks.push_back(std::to_string(depthwise) +
                               " depthwise convolutions have one scale for all their filters, set by the largest: "
                               "scales by channel lose less; --effort 2 equalises the filters");
    }
    if (plan.heavy_nodes == 0) {
        plan.remarks.emplace_back("the model has no Conv, ConvTranspose, Gemm or MatMul: nothing to quantise");
    } else if (plan.quantized_nodes == 0) {
        plan.remarks.emplace_back("nothing was quantised: --explain gives the reasons");
    }
}

} // namespace lathe
