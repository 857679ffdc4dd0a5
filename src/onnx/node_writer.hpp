#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "graph/tensor.hpp"

namespace lathe {

/// A node of ai.onnx without outputs.
Node made(std::string type, std::vector<std::string> inputs);

/// The attributes, but for those named.
void copy_attributes(const Node& from, Node& to, const std::vector<std::string_view>& without = {});

/// Writes what stands in the place of one node: nodes of ai.onnx in order, with constants where they need some. Only
/// for files of src/onnx.
class NodeWriter {
public:
    NodeWriter(Graph& graph, const Node& node, std::int64_t opset) : graph_(graph), node_(node), opset_(opset) {}

    const Graph& graph() const { return graph_; }
    const Node& node() const { return node_; }
    std::int64_t opset() const { return opset_; }
    std::vector<Node>& nodes() { return nodes_; }

    /// Appends the node under these outputs.
    void put(Node node, std::vector<std::string> outputs);
    /// Appends it with one output of a new name, which begins with the old node's and ends with the suffix.
    std::string give(Node node, std::string_view suffix);
    /// The same, named by its type.
    std::string op(std::string type, std::vector<std::string> inputs,
                   std::initializer_list<std::pair<const char*, AttributeValue>> attributes = {});
    /// `value`, which nodes written here compute or which was there before, is the old node's output of that index.
    void result(std::size_t index, const std::string& value);
    /// Does anyone name this output of the old node?
    bool wants(std::size_t index) const { return !node_.output(index).empty(); }

    std::string add(const std::string& stem, const Tensor& tensor);
    std::string integers(std::vector<std::int64_t> values); ///< one dimension
    std::string integer(std::int64_t value);                ///< none
    /// A number in the floating-point type of `like`, without dimensions; float32 where that is not known.
    std::string number(double value, const std::string& like);

    DataType type(const std::string& value) const;
    std::optional<std::size_t> rank(const std::string& value) const;
    /// The size of one dimension, counted from the end where negative.
    std::optional<std::int64_t> size(const std::string& value, std::int64_t axis) const;

private:
    Graph& graph_;
    const Node& node_;
    std::int64_t opset_;
    std::vector<Node> nodes_;
};

/// What stands in a node's place; nothing: it stays.
using InPlaceOf = std::function<std::optional<std::vector<Node>>(Graph& graph, const Node& node)>;

/// Replaces nodes, in subgraphs too. How many were replaced.
std::size_t write_out_nodes(Graph& graph, const InPlaceOf& in_place_of);

} // namespace lathe
