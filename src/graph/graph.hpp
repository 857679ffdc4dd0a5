#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/tensor.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// One dimension as ONNX has it: a size, a symbol ("batch"), or neither (unknown).
struct Dimension {
    std::optional<std::int64_t> size;
    std::string symbol; ///< only where `size` is absent; may be empty

    static Dimension of(std::int64_t n) { return {n, ""}; }
    static Dimension named(std::string s) { return {std::nullopt, std::move(s)}; }
    bool operator==(const Dimension&) const = default;
};

/// What is known of a value: element type, rank and dimensions.
struct ValueInfo {
    std::string name;
    DataType type = DataType::undefined;
    std::optional<std::vector<Dimension>> dims; ///< absent: rank unknown; empty: scalar
    std::string doc;
    Metadata metadata;
    /// Serialized onnx.TypeProto for types that are no plain tensor (sequence, optional, map, sparse), or a tensor
    /// whose TypeProto holds more than the fields above; kept so that export loses nothing. Empty otherwise.
    std::string opaque_type;

    /// Dimensions as a Shape, unknown or symbolic ones as -1. Empty optional if the rank is unknown.
    std::optional<Shape> shape() const;
};

class Graph;

/// Owns a subgraph; copying copies the subgraph.
class GraphBox {
public:
    explicit GraphBox(Graph graph);
    GraphBox(const GraphBox& other);
    GraphBox(GraphBox&&) noexcept;
    GraphBox& operator=(GraphBox other) noexcept;
    ~GraphBox();
    Graph& operator*() const { return *graph_; }
    Graph* operator->() const { return graph_.get(); }

private:
    std::unique_ptr<Graph> graph_;
};

/// A serialized onnx.AttributeProto of a kind the graph does not model (sparse tensor, type), kept for export.
struct OpaqueAttribute {
    std::string bytes;
};

/// A reference to an attribute of the enclosing function (AttributeProto.ref_attr_name).
struct AttributeReference {
    std::string name;
    std::int32_t onnx_type = 0;
};

using AttributeValue = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
                                    std::vector<std::string>, Tensor, std::vector<Tensor>, GraphBox,
                                    std::vector<GraphBox>, OpaqueAttribute, AttributeReference>;

struct Attribute {
    std::string name;
    AttributeValue value;
    std::string doc;
};

/// One operation. Inputs and outputs are value names; an empty name is an omitted optional one.
struct Node {
    std::string name;
    std::string op_type;
    std::string domain; ///< "" is ai.onnx ("ai.onnx" is stored as "")
    std::string overload;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    std::vector<Attribute> attributes;
    std::string doc;
    Metadata metadata;
    std::string opaque; ///< serialized NodeProto with only the fields not modelled here (device configurations)

    /// An ONNX standard-domain node of this type.
    bool is(std::string_view type) const { return domain.empty() && op_type == type; }

    const Attribute* attribute(std::string_view attribute_name) const;
    /// The attribute's value if present and of that kind, `otherwise` if absent or of another kind.
    std::int64_t int_or(std::string_view attribute_name, std::int64_t otherwise) const;
    float float_or(std::string_view attribute_name, float otherwise) const;
    std::string string_or(std::string_view attribute_name, std::string otherwise) const;
    std::vector<std::int64_t> ints_or(std::string_view attribute_name, std::vector<std::int64_t> otherwise) const;
    std::vector<float> floats_or(std::string_view attribute_name, std::vector<float> otherwise) const;
    /// Add or replace.
    void set(std::string attribute_name, AttributeValue value);
    void erase_attribute(std::string_view attribute_name);

    /// The input's name, or "" past the end.
    const std::string& input(std::size_t index) const;
    const std::string& output(std::size_t index) const;
    /// Name for messages: the node's own, else "op_type -> first output".
    std::string label() const;
};

/// Nodes in topological order over named values in single static assignment. Value names are unique in a graph;
/// a subgraph sees the names of the graphs around it.
class Graph {
public:
    std::string name;
    std::string doc;
    Metadata metadata;
    std::vector<ValueInfo> inputs;
    std::vector<ValueInfo> outputs;
    std::map<std::string, ValueInfo> value_infos; ///< intermediate values whose type is known
    std::map<std::string, Tensor> initializers;
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::string> opaque_sparse_initializers;      ///< serialized SparseTensorProto
    std::vector<std::string> opaque_quantization_annotations; ///< serialized TensorAnnotation

    Graph() = default;
    Graph(const Graph& other);
    Graph(Graph&&) noexcept = default;
    Graph& operator=(Graph other) noexcept;
    ~Graph() = default;

    /// Append a node at the end (the caller keeps the order topological, or calls sort_topologically).
    Node& add(Node node);
    /// Insert before the node at `index`.
    Node& insert(std::size_t index, Node node);
    /// Others in the place of nodes, whose indices are given; an empty list removes one.
    void replace_nodes(std::map<std::size_t, std::vector<Node>> instead);
    /// Remove nodes for which `remove(node)` holds.
    template <class Predicate>
    std::size_t remove_nodes(Predicate remove) {
        return std::erase_if(nodes, [&](const std::unique_ptr<Node>& node) { return remove(*node); });
    }

    const Tensor* initializer(const std::string& value) const;
    const ValueInfo* find_input(std::string_view value) const;
    const ValueInfo* find_output(std::string_view value) const;
    /// What is known of any value: input, output, intermediate or initializer.
    std::optional<ValueInfo> info(const std::string& value) const;
    /// The same; of a value that nothing is known of, the name.
    ValueInfo info_or_name(const std::string& value) const;
    bool is_output(std::string_view value) const { return find_output(value) != nullptr; }
    /// A constant: an initializer that is not also a graph input (which a caller could override).
    const Tensor* constant(const std::string& value) const;

    /// A value name not used anywhere in this graph or its subgraphs, beginning with `stem`; never the same twice.
    /// Constant time on average: names are remembered, so a pass that renames outputs in place asks here for the new
    /// name too. Not for several threads at once.
    std::string unique_name(std::string_view stem) const;
    /// For a subgraph: `unique_name` of this graph avoids the names of the graph around it as well, and the reverse.
    void share_names(const Graph& outer) const;

    /// Make every reader of `from` (nodes, subgraphs that capture it) read `to`. Graph outputs are not renamed.
    void replace_uses(const std::string& from, const std::string& to);

    /// Order nodes so that producers come first; stable. Fails on a cycle.
    Result<void> sort_topologically();

private:
    struct Names;
    static constexpr std::size_t unscanned = static_cast<std::size_t>(-1);
    mutable std::shared_ptr<Names> names_;        ///< what unique_name must avoid; not copied with the graph
    mutable std::size_t nodes_named_ = unscanned; ///< how many of `nodes` are in `names_`
};

/// Producers and consumers of every value of one graph, captures by subgraphs included. A snapshot: rebuild after
/// edits.
class Uses {
public:
    explicit Uses(const Graph& graph);
    /// The node that computes the value, or nullptr (graph input, initializer, or a value from outside).
    Node* producer(const std::string& value) const;
    /// Nodes that read it, each once, in graph order; a node whose subgraph reads it counts.
    const std::vector<Node*>& consumers(const std::string& value) const;
    /// Consumers plus one for each time it is a graph output.
    std::size_t use_count(const std::string& value) const;

private:
    std::unordered_map<std::string, Node*> producers_;
    std::unordered_map<std::string, std::vector<Node*>> consumers_;
    std::unordered_map<std::string, std::size_t> output_uses_;
};

/// A whole model: a graph and what surrounds it in an ONNX file.
struct Model {
    Graph graph;
    std::int64_t ir_version = 0;
    std::map<std::string, std::int64_t> opsets; ///< domain ("" is ai.onnx) to version
    std::string producer_name;
    std::string producer_version;
    std::string domain;
    std::int64_t model_version = 0;
    std::string doc;
    Metadata metadata;                         ///< metadata_props, in order
    std::vector<std::string> opaque_functions; ///< serialized FunctionProto
    std::vector<std::string> opaque_training_info;
    std::vector<std::string> opaque_configurations;
    std::string opaque; ///< serialized ModelProto with only fields this ONNX version does not know, its graph's too

    std::int64_t opset() const; ///< of ai.onnx; 0 if not imported
    /// The value of a metadata key, or nullptr.
    const std::string* find_metadata(std::string_view key) const;
    void set_metadata(std::string key, std::string value);
};

/// Structure rules: single assignment, producers before readers, every input defined, attributes unique, outputs
/// produced, types plausible. The error names the node and value.
Result<void> verify(const Graph& graph);
Result<void> verify(const Model& model);

} // namespace lathe
