#include "quantize/edges.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include "graph/subgraphs.hpp"

namespace lathe {
namespace {

constexpr std::size_t longest_pattern = 1000; // std::regex recurses with what it matches

} // namespace

EdgeIndex::EdgeIndex(const Graph& graph) : graph_(graph) {
    for (const auto& [name, tensor] : graph.initializers)
        constants_.insert(name);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& each = *graph.nodes[i];
        bool constant = !has_subgraph(each);
        for (std::size_t j = 0; j < each.inputs.size(); ++j) {
            if (each.inputs[j].empty()) continue;
            readers_[each.inputs[j]].push_back({i, j});
            constant = constant && constants_.contains(each.inputs[j]);
        }
        // Without inputs only Constant is constant: random generators are not.
        if (each.inputs.empty()) constant = each.is("Constant");
        for (const std::string& output : each.outputs) {
            if (output.empty()) continue;
            producers_[output] = i;
            if (constant) constants_.insert(output);
        }
        for (const std::string& captured : captured_names(each))
            outside_.insert(captured);
    }
    for (const ValueInfo& output : graph.outputs)
        outside_.insert(output.name);
}

std::optional<std::size_t> EdgeIndex::producer(const std::string& value) const {
    const auto found = producers_.find(value);
    if (found == producers_.end()) return std::nullopt;
    return found->second;
}

const std::vector<Edge>& EdgeIndex::readers(const std::string& value) const {
    static const std::vector<Edge> none;
    const auto found = readers_.find(value);
    return found == readers_.end() ? none : found->second;
}

bool EdgeIndex::read_outside(const std::string& value) const { return outside_.contains(value); }

std::optional<Edge> EdgeIndex::only_reader(const std::string& value) const {
    const auto& all = readers(value);
    if (all.size() != 1 || read_outside(value)) return std::nullopt;
    return all.front();
}

std::optional<std::string> EdgeIndex::gated_by_itself(const std::string& value) const {
    const auto product = producer(value);
    if (!product || !node(*product).is("Mul") || node(*product).inputs.size() != 2) return std::nullopt;
    for (std::size_t own = 0; own < 2; ++own) {
        const std::string& x = node(*product).inputs[own];
        const std::string& gate = node(*product).inputs[1 - own];
        const auto gates = producer(gate);
        if (!gates || !only_reader(gate) || read_outside(x) || readers(x).size() != 2) continue;
        const Node& sigmoid = node(*gates);
        if ((sigmoid.is("Sigmoid") || sigmoid.is("HardSigmoid")) && sigmoid.input(0) == x) return x;
    }
    return std::nullopt;
}

bool EdgeIndex::is_float32(const std::string& value, bool known) const {
    const auto info = graph_.info(value);
    if (!info || info->type == DataType::undefined) return !known;
    return info->type == DataType::float32;
}

std::unordered_set<std::string> labels_of_one(const Graph& graph) {
    std::unordered_map<std::string, std::size_t> named; // nodes that it names as a pattern
    for (const auto& node : graph.nodes)
        for (const std::string& name : std::set{node->name, node->op_type, node->label()})
            ++named[name];
    std::unordered_set<std::string> alone;
    for (const auto& node : graph.nodes) {
        const std::string label = node->label();
        if (named[label] == 1 && label.size() <= longest_pattern) alone.insert(label);
    }
    return alone;
}

Result<std::vector<bool>> match_excluded(const Graph& graph, const std::vector<std::string>& patterns) {
    std::vector<bool> excluded(graph.nodes.size(), false);
    for (const std::string& pattern : patterns) {
        if (pattern.empty() || pattern.size() > longest_pattern) {
            return Error{ErrorCode::invalid_argument, "an --exclude pattern must have 1 to 1000 characters", "",
                         "give a node's name, a regular expression for whole names, or an op type"};
        }
        // Names are taken literally first: exporters' names hold dots and slashes that mean something in expressions.
        bool matched = false;
        const auto mark = [&](auto matches) {
            for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
                if (!matches(*graph.nodes[i])) continue;
                excluded[i] = true;
                matched = true;
            }
        };
        mark([&](const Node& node) {
            return node.name == pattern || node.op_type == pattern || node.label() == pattern;
        });
        if (matched) continue;
        try {
            const std::regex expression(pattern, std::regex::ECMAScript | std::regex::optimize);
            mark([&](const Node& node) {
                const std::string name = node.label();
                return name.size() <= longest_pattern && std::regex_match(name, expression);
            });
        } catch (const std::regex_error& failure) {
            return Error{ErrorCode::invalid_argument,
                         "--exclude '" + pattern + "' is neither a node, an op type nor a regular expression",
                         failure.what(), "see the nodes with: lathe inspect --layers MODEL"};
        }
        if (!matched) {
            return Error{ErrorCode::not_found, "--exclude '" + pattern + "' matches no node", "",
                         "see the nodes with: lathe inspect --layers MODEL"};
        }
    }
    return excluded;
}

} // namespace lathe
