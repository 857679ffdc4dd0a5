#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/pattern.hpp"
#include "passes/pass.hpp"

namespace lathe {

/// Where a pattern matched: what a rewrite's callback works on. `uses` is the state before the sweep; the driver of
/// the sweep skips matches that an earlier rewrite of it touched, so that it holds for what the match contains.
struct Site {
    Graph& graph;
    const Uses& uses;
    const PassContext& context;
    Node& root;
    const Match& match;
};

/// Conditions in the pattern, building in the callback. The callback changes `root` in place or bypasses it, never
/// removes a node (dead ones go after the sweep), reads no value that the match did not read, and returns false,
/// having changed nothing, where the rewrite does not apply after all.
struct Rule {
    Pattern pattern;
    std::function<bool(const Site&)> apply;
};

/// Apply the first rule that fits at each node, sweep after sweep until nothing changes.
Result<bool> rewrite(Graph& graph, PassContext& context, std::span<const Rule> rules);

/// Make readers of the root's first output read `to`, which has the same content. Where the output is a graph output,
/// the producer of `to` takes its name instead; false, with nothing changed, where that cannot be.
bool bypass(const Site& site, const std::string& to);

/// Turn `root` into `replacement`, keeping its output names. The node's name, doc and metadata come from `origin`.
void become(Node& root, Node replacement, const Node& origin);

/// Put a node, whose outputs are named, before the site's root, or another; `info` is what is known of its first
/// output.
void insert_before(const Site& site, Node node, std::optional<ValueInfo> info);
void insert_before(const Site& site, const Node& place, Node node, std::optional<ValueInfo> info);

/// Shapes that were asked of `from` are asked of `to`, which has the same and stands before their readers.
void move_shape_readers(const Site& site, const std::string& from, const std::string& to);

/// A node of this type and inputs, not yet in a graph.
Node make_node(std::string op_type, std::vector<std::string> inputs);

/// Puts a node before the site's root, its first output of these sizes; the name of that, which is `name` if that is
/// not empty.
std::string add_before(const Site& site, Node node, DataType type, const Shape& dims, std::string name = "");

/// The same, with what is known of its first output, under a name after the root's output and the node's type.
std::string add_before(const Site& site, Node node, ValueInfo info);

/// A Reshape of a value to known sizes, not yet in the graph, and one put before the site's root: the name of what it
/// gives.
Node reshape_node(Graph& graph, const std::string& value, const Shape& to);
std::string reshaped(const Site& site, const std::string& value, const Shape& to);

/// Add an initializer under a new name that begins with `stem`; its name.
std::string add_constant(Graph& graph, const std::string& stem, const Tensor& tensor);
/// A scalar of a floating-point type.
std::string add_scalar(Graph& graph, const std::string& stem, DataType type, float value);

/// Puts what `instead` gives for a node in its place, under its name where it gives none: layers are reported by their
/// ONNX node. All is asked for before anything changes, while every name is still in the graph. Nothing: it stays.
/// True if any was replaced.
bool replace_each(Graph& graph, const std::function<std::vector<Node>(const Node&)>& instead);

/// Where a value is defined (input, initializer, output of a node) or put out, its name becomes `to`, which nothing
/// else has. Readers keep `from`: Graph::replace_uses.
void rename_value(Graph& graph, const std::string& from, const std::string& to);

/// Remove nodes and initializers that nothing reads, and what is known of values that no longer exist. How many nodes
/// and initializers went. Nodes without outputs stay.
std::size_t remove_dead(Graph& graph);

/// The one value that all elements of a floating-point or integer tensor have.
std::optional<float> uniform_value(const Tensor& tensor);
/// A tensor of a floating-point type from floats; nothing if one is not finite in that type.
std::optional<Tensor> finite_tensor(DataType type, Shape shape, const std::vector<float>& values);
/// Whether broadcasting `constant` against `value` surely leaves the shape of `value` as it is.
bool keeps_shape(const Graph& graph, const std::string& value, const Tensor& constant);
/// Whether two values surely have the same shape: sizes or symbols equal.
bool same_shape(const Graph& graph, const std::string& a, const std::string& b);
/// The element type if known, else undefined.
DataType type_of(const Graph& graph, const std::string& value);
/// Whether the node is a HardSigmoid that makes HardSwish of what it reads: x / 6 + 1/2.
bool gates_hard_swish(const Node& node);
/// Whether two dimensions are surely the same: sizes or symbols equal.
bool same_dimension(const Dimension& a, const Dimension& b);
/// Known sizes of a value that has elements.
std::optional<Shape> known_sizes(const Graph& graph, const std::string& value);
/// Of a constant that is one integer.
std::optional<std::int64_t> constant_integer(const Graph& graph, const std::string& value);
/// The constant that a value is, here or in the graphs around.
const Tensor* known_constant(const Graph& graph, const PassContext& context, const std::string& value);
/// Whether the value is Gather(Shape(of `data` or of what surely has its shape), axis).
bool is_size_of(const Graph& graph, const Uses& uses, const std::string& value, const std::string& data,
                std::size_t axis);
/// Axes [first, end) of a value's shape.
struct PartOfShape {
    std::string value;
    std::size_t first = 0, end = 0;
};
/// Which sizes a computed vector holds: Gather(Shape(v), i), with Unsqueeze or without, Slice(Shape(v), i, k) or
/// Shape(v) from i up to k, with constant i and k.
std::optional<PartOfShape> part_of_shape(const Graph& graph, const Uses& uses, const std::string& vector);
/// How many of the first sizes in a computed vector, which joins such parts, are those of `value` itself.
std::size_t own_sizes(const Graph& graph, const Uses& uses, const std::string& vector, const std::string& value);
/// Integers given as a constant input at `index`, or as an attribute where the input is omitted. Nothing if neither
/// is given or the input is no constant.
std::optional<std::vector<std::int64_t>> constant_integers(const Graph& graph, const Node& node,
                                                           std::string_view attribute, std::size_t index);
/// Padding of a Pad node in the form [begins..., ends...] over all axes of a tensor of this rank. Nothing if it is not
/// constant.
std::optional<std::vector<std::int64_t>> constant_pads(const Graph& graph, const Node& pad, std::size_t rank,
                                                       std::int64_t opset);

} // namespace lathe
