#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lathe {

/// What a pattern found: each captured node, value and constant by the name the pattern gives it.
struct Match {
    std::map<std::string, Node*> nodes;
    std::map<std::string, std::string> values; ///< names of values
    std::map<std::string, const Tensor*> constants;
    std::vector<Node*> matched; ///< every node of the match, the root first

    Node& node(const std::string& capture) const { return *nodes.at(capture); }
    const std::string& value(const std::string& capture) const { return values.at(capture); }
    const Tensor& constant(const std::string& capture) const { return *constants.at(capture); }
};

/// A directed acyclic graph of operations to look for, written from its last operation backwards:
///
///     auto pattern = Pattern::op("Add", {Pattern::op("MatMul", {Pattern::any("a"), Pattern::any("b")}).used_once(),
///                                        Pattern::constant("bias")}).any_order();
///
/// A capture that occurs twice must be the same value in both places.
class Pattern {
public:
    using NodeCondition = std::function<bool(const Node&)>;
    using TensorCondition = std::function<bool(const Tensor&)>;

    /// Any value, an omitted input excepted.
    static Pattern any(std::string capture = "");
    /// A constant in the sense of Graph::constant; captured as value and as constant.
    static Pattern constant(std::string capture, TensorCondition condition = {});
    /// An ONNX standard-domain node of one of the types ("Min|Max"). `inputs` match its first inputs; more inputs may
    /// follow. The capture names the node.
    static Pattern op(const std::string& types, std::vector<Pattern> inputs = {}, std::string capture = "");

    /// Only nodes for which the condition holds.
    Pattern where(NodeCondition condition) &&;
    /// Only if the value is read by the matched reader alone, and is no graph output. Not for the root.
    Pattern used_once() &&;
    /// The same, but that its shape may be asked for by Shape: what is put in its place takes those readers along.
    Pattern read_once() &&;
    /// The first two inputs may be swapped.
    Pattern any_order() &&;

    /// Match with `root` computing the pattern's last operation.
    std::optional<Match> match(Node& root, const Graph& graph, const Uses& uses) const;

private:
    enum class Kind { any, constant, op };

    bool match_value(const std::string& value, const Graph& graph, const Uses& uses, Match& found) const;
    bool match_node(Node& node, const Graph& graph, const Uses& uses, Match& found) const;
    bool match_inputs(const Node& node, bool swapped, const Graph& graph, const Uses& uses, Match& found) const;
    bool capture_value(const std::string& value, Match& found) const;

    Kind kind_ = Kind::any;
    std::string capture_;
    std::vector<std::string> types_;
    std::vector<Pattern> inputs_;
    NodeCondition node_condition_;
    TensorCondition tensor_condition_;
    enum class Readers { any, one, one_and_shapes };
    Readers readers_ = Readers::any;
    bool any_order_ = false;
};

} // namespace lathe
