#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"
#include "quantize/placement.hpp"

namespace lathe {

/// Who computes and who reads every value of a graph's top level, by position. A snapshot.
class EdgeIndex {
public:
    explicit EdgeIndex(const Graph& graph);

    const Graph& graph() const { return graph_; }
    const Node& node(std::size_t index) const { return *graph_.nodes[index]; }
    const std::string& tensor(const Edge& edge) const { return node(edge.node).inputs[edge.input]; }
    std::optional<std::size_t> producer(const std::string& value) const;
    /// Inputs of top-level nodes that read the value.
    const std::vector<Edge>& readers(const std::string& value) const;
    /// Read where no pair can be put between: by a subgraph, or as an output of the graph.
    bool read_outside(const std::string& value) const;
    /// The only reader, if there is exactly one and nothing reads it outside.
    std::optional<Edge> only_reader(const std::string& value) const;
    /// x of a value x * Sigmoid(x) or x * HardSigmoid(x) (SiLU, hard swish) where nothing else reads what is between.
    std::optional<std::string> gated_by_itself(const std::string& value) const;
    /// An initializer, or computed from initializers alone.
    bool is_constant(const std::string& value) const { return constants_.contains(value); }
    /// float32, or not known. `known` demands that the type be known.
    bool is_float32(const std::string& value, bool known = false) const;

private:
    const Graph& graph_;
    std::unordered_map<std::string, std::size_t> producers_;
    std::unordered_map<std::string, std::vector<Edge>> readers_;
    std::unordered_set<std::string> outside_;
    std::unordered_set<std::string> constants_;
};

/// One flag a node: does a pattern name it? Patterns as PlacementOptions::exclude.
/// invalid_argument for a malformed expression, not_found for one that matches nothing.
Result<std::vector<bool>> match_excluded(const Graph& graph, const std::vector<std::string>& patterns);
/// The labels that, as patterns, name one node and no other.
std::unordered_set<std::string> labels_of_one(const Graph& graph);

} // namespace lathe
