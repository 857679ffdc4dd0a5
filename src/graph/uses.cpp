#include <algorithm>

#include "graph/graph.hpp"
#include "graph/subgraphs.hpp"

namespace lathe {

Uses::Uses(const Graph& graph) {
    for (const auto& node : graph.nodes) {
        for (const std::string& output : node->outputs) {
            if (!output.empty()) producers_.emplace(output, node.get());
        }
        const auto read = [&](const std::string& name) {
            if (name.empty()) return;
            auto& readers = consumers_[name];
            // Reads of one node come one after another, so that looking at the last reader finds repeats.
            if (readers.empty() || readers.back() != node.get()) readers.push_back(node.get());
        };
        for (const std::string& input : node->inputs)
            read(input);
        if (has_subgraph(*node)) {
            for (const std::string& name : captured_names(*node))
                read(name);
        }
    }
    for (const ValueInfo& output : graph.outputs)
        ++output_uses_[output.name];
}

Node* Uses::producer(const std::string& value) const {
    const auto found = producers_.find(value);
    return found == producers_.end() ? nullptr : found->second;
}

const std::vector<Node*>& Uses::consumers(const std::string& value) const {
    static const std::vector<Node*> none;
    const auto found = consumers_.find(value);
    return found == consumers_.end() ? none : found->second;
}

std::size_t Uses::use_count(const std::string& value) const {
    const auto found = output_uses_.find(value);
    return consumers(value).size() + (found == output_uses_.end() ? 0 : found->second);
}

} // namespace lathe
