#include "compare/part.hpp"

#include <algorithm>
#include <unordered_map>

#include "graph/subgraphs.hpp"

namespace lathe {
namespace {

/// All but the graph.
Model without_graph(const Model& model) {
    Model shell;
    shell.ir_version = model.ir_version;
    shell.opsets = model.opsets;
    shell.producer_name = model.producer_name;
    shell.opaque_functions = model.opaque_functions;
    shell.graph.name = model.graph.name.empty() ? "part" : model.graph.name;
    return shell;
}

std::vector<std::string> read_by(const Node& node) {
    std::vector<std::string> names = node.inputs;
    for (std::string& name : captured_names(node))
        names.push_back(std::move(name));
    std::erase(names, std::string());
    return names;
}

} // namespace

Result<Part> cut_part(const Model& model, const std::string& target, const std::unordered_set<std::string>& stops) {
    const Graph& graph = model.graph;
    std::unordered_map<std::string, std::size_t> producers;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const std::string& output : graph.nodes[i]->outputs)
            producers[output] = i;
    }
    if (!producers.contains(target)) {
        return Error{ErrorCode::not_found, "no node computes the value", target, ""};
    }
    Part part{without_graph(model), {}};
    std::vector<bool> taken(graph.nodes.size(), false);
    std::unordered_set<std::string> seen{target};
    std::vector<std::string> stack{target};
    while (!stack.empty()) {
        const std::string value = std::move(stack.back());
        stack.pop_back();
        const auto producer = producers.find(value);
        const bool stopped = value != target && stops.contains(value);
        if (!stopped && producer != producers.end()) {
            if (taken[producer->second]) continue;
            taken[producer->second] = true;
            for (std::string& name : read_by(*graph.nodes[producer->second])) {
                if (seen.insert(name).second) stack.push_back(std::move(name));
            }
        } else if (const Tensor* constant = stopped ? nullptr : graph.initializer(value)) {
            part.model.graph.initializers.emplace(value, *constant);
        } else {
            part.inputs.push_back(value);
        }
    }
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (taken[i]) part.model.graph.add(*graph.nodes[i]);
    }
    // A value that a taken node has beside what is asked for may also be a stop: computed here after all.
    std::unordered_set<std::string> computed;
    for (const auto& node : part.model.graph.nodes)
        computed.insert(node->outputs.begin(), node->outputs.end());
    std::erase_if(part.inputs, [&](const std::string& name) { return computed.contains(name); });
    std::ranges::sort(part.inputs);
    ValueInfo output;
    if (const auto known = graph.info(target)) output.type = known->type;
    if (output.type == DataType::undefined) output.type = DataType::float32;
    output.name = target;
    part.model.graph.outputs.push_back(std::move(output));
    return part;
}

} // namespace lathe
