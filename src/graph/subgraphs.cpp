#include "graph/subgraphs.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace lathe {
namespace {

/// Reads protobuf's wire format just far enough to find a length-delimited field (protobuf.dev, "Encoding").
class WireReader {
public:
    explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

    /// The first length-delimited field numbered `field`; nothing if absent or malformed.
    std::optional<std::string_view> find(std::uint64_t field) {
        while (!bytes_.empty()) {
            const auto key = varint();
            if (!key) return std::nullopt;
            switch (*key & 7U) {
                case 0:
                    if (!varint()) return std::nullopt;
                    break;
                case 1:
                    if (!take(8)) return std::nullopt;
                    break;
                case 2: {
                    const auto size = varint();
                    const auto content = size ? take(*size) : std::nullopt;
                    if (!content || (*key >> 3U) == field) return content;
                    break;
                }
                case 5:
                    if (!take(4)) return std::nullopt;
                    break;
                default: return std::nullopt;
            }
        }
        return std::nullopt;
    }

private:
    std::optional<std::uint64_t> varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(bytes_.front());
            bytes_.remove_prefix(1);
            value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
            if ((byte & 0x80U) == 0) return value;
        }
        return std::nullopt;
    }

    std::optional<std::string_view> take(std::uint64_t size) {
        if (size > bytes_.size()) return std::nullopt;
        const std::string_view content = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return content;
    }

    std::string_view bytes_;
};

/// Names that `graph` reads but does not define, appended to `names` unless already in `seen`.
void collect_free_names(const Graph& graph, std::unordered_set<std::string>& seen, std::vector<std::string>& names) {
    const auto own = defined_names(graph);
    const auto read = [&](const std::string& name) {
        if (!name.empty() && !own.contains(name) && seen.insert(name).second) names.push_back(name);
    };
    for (const auto& node : graph.nodes) {
        for (const std::string& input : node->inputs)
            read(input);
        for (const std::string& name : captured_names(*node))
            read(name);
    }
    for (const ValueInfo& output : graph.outputs)
        read(output.name);
}

} // namespace

Graph* body_of(Node& node, std::string_view attribute) {
    const auto found = std::ranges::find(node.attributes, attribute, &Attribute::name);
    auto* box = found == node.attributes.end() ? nullptr : std::get_if<GraphBox>(&found->value);
    return box == nullptr ? nullptr : &**box;
}

const Graph* body_of(const Node& node, std::string_view attribute) {
    const auto found = std::ranges::find(node.attributes, attribute, &Attribute::name);
    const auto* box = found == node.attributes.end() ? nullptr : std::get_if<GraphBox>(&found->value);
    return box == nullptr ? nullptr : &**box;
}

bool has_subgraph(const Node& node) {
    bool found = false;
    for_each_subgraph(node, [&](const Graph&) { found = true; });
    return found;
}

bool rounds_values(const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const auto& node) {
        bool found = node->is("QuantizeLinear") || node->is("DynamicQuantizeLinear");
        for_each_subgraph(*node, [&](const Graph& inner) { found = found || rounds_values(inner); });
        return found;
    });
}

std::unordered_set<std::string> defined_names(const Graph& graph) {
    std::unordered_set<std::string> names;
    for (const ValueInfo& input : graph.inputs)
        names.insert(input.name);
    for (const auto& [name, tensor] : graph.initializers)
        names.insert(name);
    for (const std::string& sparse : graph.opaque_sparse_initializers)
        names.insert(sparse_initializer_name(sparse));
    for (const auto& node : graph.nodes)
        names.insert(node->outputs.begin(), node->outputs.end());
    names.erase("");
    return names;
}

std::vector<std::string> captured_names(const Node& node) {
    std::vector<std::string> names;
    std::unordered_set<std::string> seen;
    for_each_subgraph(node, [&](const Graph& graph) { collect_free_names(graph, seen, names); });
    return names;
}

BorrowedValues::BorrowedValues(Graph& body, const Graph& around, const Node& node) : body_(body) {
    const std::unordered_set<std::string> own = defined_names(body);
    for (const std::string& name : captured_names(node)) {
        if (own.contains(name)) continue;
        if (const Tensor* constant = around.constant(name)) {
            if (body.initializers.emplace(name, constant->renamed(name)).second) constants_.push_back(name);
        } else if (auto info = around.info(name)) {
            if (body.value_infos.emplace(name, std::move(*info)).second) infos_.push_back(name);
        }
    }
}

BorrowedValues::~BorrowedValues() {
    for (const std::string& name : constants_)
        body_.initializers.erase(name);
    for (const std::string& name : infos_)
        body_.value_infos.erase(name);
}

std::string sparse_initializer_name(std::string_view serialized) {
    constexpr std::uint64_t sparse_values = 1; // SparseTensorProto.values
    constexpr std::uint64_t tensor_name = 8;   // TensorProto.name
    const auto values = WireReader(serialized).find(sparse_values);
    const auto name = values ? WireReader(*values).find(tensor_name) : std::nullopt;
    return name ? std::string(*name) : std::string();
}

} // namespace lathe
