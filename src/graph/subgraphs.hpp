#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// Calls `visit(Graph&)` for each subgraph directly in the node's attributes (bodies of If, Loop, Scan).
template <class Visit>
void for_each_subgraph(const Node& node, Visit visit) {
    for (const Attribute& attribute : node.attributes) {
        if (const auto* box = std::get_if<GraphBox>(&attribute.value)) {
            visit(**box);
        } else if (const auto* boxes = std::get_if<std::vector<GraphBox>>(&attribute.value)) {
            for (const GraphBox& each : *boxes)
                visit(*each);
        }
    }
}

bool has_subgraph(const Node& node);

/// The graph that an attribute is; null where the node has none of that name.
Graph* body_of(Node& node, std::string_view attribute);
const Graph* body_of(const Node& node, std::string_view attribute);

/// Whether values are rounded to integers as the graph runs, in bodies too. Weights that are kept in few bits and read
/// in floats are no such thing.
bool rounds_values(const Graph& graph);

/// Names the graph itself defines: inputs, initializers (sparse ones too) and node outputs. Subgraphs not included.
std::unordered_set<std::string> defined_names(const Graph& graph);

/// Names that the subgraphs of the node read from outside, each once, in order of first reading.
std::vector<std::string> captured_names(const Node& node);

/// While it lives, a body has what is known of the values that it reads from outside: their types and shapes, and as
/// initializers those that are constant.
class BorrowedValues {
public:
    BorrowedValues(Graph& body, const Graph& around, const Node& node);
    BorrowedValues(const BorrowedValues&) = delete;
    BorrowedValues& operator=(const BorrowedValues&) = delete;
    ~BorrowedValues();

private:
    Graph& body_;
    std::vector<std::string> infos_, constants_;
};

/// Name of a serialized onnx.SparseTensorProto (its values' name); "" if the bytes are not one.
std::string sparse_initializer_name(std::string_view serialized);

} // namespace lathe
