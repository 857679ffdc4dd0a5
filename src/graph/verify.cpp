#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"
#include "graph/subgraphs.hpp"

namespace lathe {
namespace {

/// Bodies nested deeper than this are refused, so that walking them cannot exhaust the stack.
constexpr std::size_t body_nesting_limit = 64;

Error broken(std::string message, std::string where) {
    return {ErrorCode::invalid_argument, std::move(message), std::move(where),
            "the graph is not a valid ONNX graph; export the model again"};
}

Result<void> verify_tensor(const Tensor& tensor, const std::string& name) {
    const std::int64_t count = element_count(tensor.shape());
    constexpr std::int64_t largest = std::int64_t{1} << 48; // keeps byte counts far from overflow
    if (count < 0 || count > largest)
        return broken("a constant's shape is not plausible: " + to_string(tensor.shape()), name);
    const auto elements = static_cast<std::size_t>(count);
    const std::size_t expected = tensor.type() == DataType::string ? 0 : byte_size(tensor.type(), elements);
    const bool is_string = tensor.type() == DataType::string;
    if (is_string ? tensor.strings().size() != elements : tensor.bytes().size() != expected) {
        return broken("a constant of type " + to_string(tensor.type()) + " and shape " + to_string(tensor.shape()) +
                          " has the wrong size (" + std::to_string(tensor.bytes().size()) + " bytes)",
                      name);
    }
    return {};
}

Result<void> verify_attributes(const Node& node) {
    std::unordered_set<std::string_view> seen;
    for (const Attribute& attribute : node.attributes) {
        if (!seen.insert(attribute.name).second) {
            return broken("attribute " + attribute.name + " is given twice", "node " + node.label());
        }
        if (const auto* tensor = std::get_if<Tensor>(&attribute.value)) {
            LATHE_CHECK(verify_tensor(*tensor, "node " + node.label() + ", attribute " + attribute.name));
        }
    }
    return {};
}

class Verifier {
public:
    Result<void> graph(const Graph& graph) {
        if (scopes_.size() >= body_nesting_limit) {
            return broken("subgraphs are nested deeper than " + std::to_string(body_nesting_limit), graph.name);
        }
        scopes_.emplace_back();
        LATHE_CHECK(inputs(graph));
        for (const auto& node : graph.nodes)
            LATHE_CHECK(this->node(graph, *node));
        std::unordered_set<std::string_view> listed;
        for (const ValueInfo& output : graph.outputs) {
            // A body may hand out a value twice, say to be kept and to be collected; of the model it would be one name.
            if (scopes_.size() == 1 && !listed.insert(output.name).second)
                return broken("two graph outputs have the same name", "value " + output.name);
            if (output.name.empty() || !is_defined(output.name)) {
                return broken("nothing computes a graph output", "value " + output.name);
            }
        }
        scopes_.pop_back();
        return {};
    }

private:
    Result<void> inputs(const Graph& graph) {
        for (const ValueInfo& input : graph.inputs) {
            if (input.name.empty()) return broken("a graph input has no name", graph.name);
            if (!scopes_.back().insert(input.name).second) {
                return broken("two graph inputs have the same name", "value " + input.name);
            }
        }
        for (const auto& [name, tensor] : graph.initializers) {
            LATHE_CHECK(verify_tensor(tensor, "initializer " + name));
            const ValueInfo* input = graph.find_input(name);
            if (input != nullptr && input->type != DataType::undefined && input->type != tensor.type()) {
                return broken("an input is declared " + to_string(input->type) + " but its default is " +
                                  to_string(tensor.type()),
                              "value " + name);
            }
            scopes_.back().insert(name);
        }
        for (const std::string& sparse : graph.opaque_sparse_initializers) {
            scopes_.back().insert(sparse_initializer_name(sparse));
        }
        return {};
    }

    Result<void> node(const Graph& graph, const Node& node) {
        if (node.op_type.empty()) return broken("a node has no operator type", "node " + node.label());
        LATHE_CHECK(verify_attributes(node));
        for (const std::string& input : node.inputs) {
            if (input.empty() || is_defined(input)) continue;
            for (const auto& other : graph.nodes) {
                for (const std::string& output : other->outputs) {
                    if (output == input) {
                        return broken("value " + input + " is read before it is computed", "node " + node.label());
                    }
                }
            }
            return broken("value " + input + " is read but nothing computes it", "node " + node.label());
        }
        Result<void> inner;
        for_each_subgraph(node, [&](const Graph& body) {
            if (inner) inner = this->graph(body);
        });
        if (!inner) return std::move(inner).error().in("node " + node.label());
        for (const std::string& output : node.outputs) {
            if (!output.empty() && !scopes_.back().insert(output).second) {
                return broken("value " + output + " is computed twice", "node " + node.label());
            }
        }
        return {};
    }

    bool is_defined(const std::string& name) const {
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
            if (scope->contains(name)) return true;
        }
        return false;
    }

    std::vector<std::unordered_set<std::string>> scopes_; ///< outermost first
};

} // namespace

Result<void> verify(const Graph& graph) { return Verifier().graph(graph); }

Result<void> verify(const Model& model) {
    for (const auto& node : model.graph.nodes) {
        if (!model.opsets.contains(node->domain)) {
            return broken("the model does not say which version of operator set \"" +
                              (node->domain.empty() ? std::string("ai.onnx") : node->domain) + "\" it uses",
                          "node " + node->label());
        }
    }
    return verify(model.graph);
}

} // namespace lathe
