#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "graph/subgraphs.hpp"
#include "passes/passes.hpp"
#include "support/hash.hpp"

namespace lathe::passes {
namespace {

bool same_value(const AttributeValue& a, const AttributeValue& b) {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&](const auto& left) {
            using T = std::decay_t<decltype(left)>;
            const auto& right = std::get<T>(b);
            const auto same_bits = [](float x, float y) {
                return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
            };
            if constexpr (std::is_same_v<T, float>)
                return same_bits(left, right);
            else if constexpr (std::is_same_v<T, Tensor>)
                return same_content(left, right);
            else if constexpr (std::is_same_v<T, std::vector<float>>)
                return std::equal(left.begin(), left.end(), right.begin(), right.end(), same_bits);
            else if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::string> ||
                               std::is_same_v<T, std::vector<std::int64_t>> ||
                               std::is_same_v<T, std::vector<std::string>>)
                return left == right;
            else
                return false; // subgraphs and opaque bytes: not worth comparing
        },
        a);
}

bool same_attributes(const Node& a, const Node& b) {
    if (a.attributes.size() != b.attributes.size()) return false;
    return std::all_of(a.attributes.begin(), a.attributes.end(), [&](const Attribute& attribute) {
        const Attribute* other = b.attribute(attribute.name);
        return other != nullptr && same_value(attribute.value, other->value);
    });
}

/// Same inputs give the same outputs, and nobody minds reading one node's in place of the other's. Each reader keeps
/// its own QuantizeLinear and DequantizeLinear: backends fuse the pair into the reader.
bool may_merge(const Node& node) {
    static constexpr std::array<std::string_view, 10> kept{
        "RandomNormal", "RandomNormalLike", "RandomUniform",  "RandomUniformLike", "Multinomial",
        "Bernoulli",    "Dropout",          "QuantizeLinear", "DequantizeLinear",  "DynamicQuantizeLinear"};
    return node.domain.empty() && !node.outputs.empty() && node.opaque.empty() && !has_subgraph(node) &&
           std::find(kept.begin(), kept.end(), node.op_type) == kept.end();
}

bool is_covered(const Graph& graph, const Node& first, const Node& second) {
    if (second.outputs.size() > first.outputs.size()) return false;
    for (std::size_t i = 0; i < second.outputs.size(); ++i) {
        if (second.outputs[i].empty()) continue;
        if (first.outputs[i].empty() || graph.is_output(second.outputs[i])) return false;
    }
    return true;
}

std::string key_of(const Node& node) {
    std::string key = node.op_type;
    for (const std::string& input : node.inputs) {
        key += '\n';
        key += input;
    }
    return key;
}

std::size_t merge_nodes(Graph& graph) {
    std::unordered_map<std::string, std::vector<const Node*>> seen;
    std::size_t merged = 0;
    for (const auto& node : graph.nodes) {
        if (!may_merge(*node)) continue;
        // Earlier merges have renamed this node's inputs already, so that chains of duplicates merge in one pass.
        auto& candidates = seen[key_of(*node)];
        const auto twin = std::find_if(candidates.begin(), candidates.end(), [&](const Node* other) {
            return same_attributes(*other, *node) && is_covered(graph, *other, *node);
        });
        if (twin == candidates.end()) {
            candidates.push_back(node.get());
            continue;
        }
        for (std::size_t i = 0; i < node->outputs.size(); ++i) {
            if (!node->outputs[i].empty()) graph.replace_uses(node->outputs[i], (*twin)->outputs[i]);
        }
        node->op_type.clear();
        ++merged;
    }
    graph.remove_nodes([](const Node& node) { return node.op_type.empty(); });
    return merged;
}

std::size_t merge_initializers(Graph& graph) {
    using Entry = std::pair<const std::string, Tensor>;
    std::unordered_map<std::string, std::vector<const Entry*>> seen;
    std::vector<std::pair<std::string, std::string>> twins;
    for (const Entry& entry : graph.initializers) {
        const auto& [name, tensor] = entry;
        if (graph.find_input(name) != nullptr || graph.is_output(name)) continue;
        std::string key = to_string(tensor.type()) + " " + to_string(tensor.shape());
        // The beginning tells most constants apart; the rest is compared, not hashed.
        key += " " + hash_hex(tensor.bytes().first(std::min<std::size_t>(tensor.bytes().size(), 4096)));
        auto& candidates = seen[key];
        const auto twin = std::find_if(candidates.begin(), candidates.end(),
                                       [&](const Entry* other) { return same_content(other->second, entry.second); });
        if (twin == candidates.end()) {
            candidates.push_back(&entry);
            continue;
        }
        twins.emplace_back(name, (*twin)->first);
    }
    for (const auto& [from, to] : twins) {
        graph.replace_uses(from, to);
        graph.initializers.erase(from);
    }
    return twins.size();
}

} // namespace

//     x                 x
//    / \                |
//  Op   Op       ==>    Op
//  |    |              /  \.
//  a    b             a    a
//
// Also initializers of equal type, shape and bytes.
Result<bool> merge_duplicates(Graph& graph, PassContext& context) {
    const std::size_t merged = merge_initializers(graph) + merge_nodes(graph);
    context.rewrites += merged;
    return merged != 0;
}

} // namespace lathe::passes
