#include "backends/openvino/moved_scales.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

/// How many nodes a walk against the edges may still visit: values that are read often have many ways to them.
struct Walk {
    int left = 4096;
    bool ends(const Node* node, int steps) { return node == nullptr || steps == 0 || left-- <= 0; }
};

/// Whether a value is bytes that were dequantised, moved or pooled since and multiplied by a constant of more than one
/// number.
bool is_of_scaled_bytes(Walk& walk, const Graph& graph, const Uses& uses, const std::string& value, bool scaled = false,
                        int steps = 12) {
    static const std::unordered_set<std::string_view> moving{
        "Reshape",   "Flatten",   "Transpose", "Squeeze", "Unsqueeze", "Slice",   "Split",     "Gather",
        "Pad",       "Tile",      "Expand",    "Resize",  "Concat",    "MaxPool", "Identity",  "ReduceMean",
        "ReduceSum", "ReduceMax", "Relu",      "Clip",    "ReduceMin", "PRelu",   "LeakyRelu", "AveragePool"};
    const Node* node = uses.producer(value);
    if (walk.ends(node, steps)) return false;
    if (node->is("DequantizeLinear")) return scaled && graph.constant(node->input(0)) == nullptr;
    const auto reads = [&](const std::string& input, bool now) {
        return is_of_scaled_bytes(walk, graph, uses, input, now, steps - 1);
    };
    if (node->is("BatchNormalization")) return reads(node->input(0), true);
    if (node->is("Mul") || node->is("Div")) {
        const bool first = graph.constant(node->input(0)) != nullptr;
        const Tensor* factors = graph.constant(node->input(first ? 0 : 1));
        return factors != nullptr && reads(node->input(first ? 1 : 0), scaled || factors->count() > 1);
    }
    if (node->is("Concat"))
        return std::ranges::any_of(node->inputs, [&](const std::string& input) { return reads(input, scaled); });
    return moving.contains(node->op_type) && reads(node->input(0), scaled);
}

/// Whether scales, or numbers that are added, may be moved behind a node.
bool lets_scales_pass(const Node& node) {
    static const std::unordered_set<std::string_view> passing{
        "Add",     "Sub",      "Mul",        "Div",       "Neg",       "Relu",      "PRelu",      "LeakyRelu",
        "Clip",    "Max",      "Min",        "Reshape",   "Slice",     "Flatten",   "Transpose",  "Squeeze",
        "Split",   "Gather",   "Pad",        "Unsqueeze", "Tile",      "Expand",    "Resize",     "Concat",
        "MaxPool", "Identity", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "AveragePool"};
    return passing.contains(node.op_type) || node.is("BatchNormalization") || node.is("InstanceNormalization");
}

/// Whether bytes that were dequantised reach a value, and on their way constants of more than one number as factors or
/// added: `meets` once one was met.
bool is_of_bytes_by_channel(Walk& walk, const Graph& graph, const Uses& uses, const std::string& value,
                            bool meets = false, int steps = 12) {
    const Node* node = uses.producer(value);
    if (walk.ends(node, steps)) return false;
    if (node->is("DequantizeLinear")) return meets && graph.constant(node->input(0)) == nullptr;
    if (!lets_scales_pass(*node)) return false;
    for (const std::string& input : node->inputs) {
        const Tensor* constant = graph.constant(input);
        meets = meets || (constant != nullptr && is_floating(constant->type()) && constant->count() > 1);
    }
    return std::ranges::any_of(node->inputs, [&](const std::string& input) {
        return is_of_bytes_by_channel(walk, graph, uses, input, meets, steps - 1);
    });
}

/// Which products and convolutions a value may have its scales from, by how often it was turned since.
struct ScaleSources {
    bool product = false, turned_product = false, convolution = false, turned_convolution = false;
};
void add_scale_sources(Walk& walk, const Uses& uses, const std::string& value, ScaleSources& found, bool turned = false,
                       int steps = 12) {
    const Node* node = uses.producer(value);
    if (walk.ends(node, steps)) return;
    if (node->is("MatMul") || node->is("Gemm")) (turned ? found.turned_product : found.product) = true;
    if (node->is("Conv") || node->is("ConvTranspose")) (turned ? found.turned_convolution : found.convolution) = true;
    if (!lets_scales_pass(*node)) return;
    for (const std::string& input : node->inputs)
        add_scale_sources(walk, uses, input, found, turned != node->is("Transpose"), steps - 1);
}

bool adds_axes_behind(const Shape& from, const Shape& to) {
    if (to.size() <= from.size()) return false;
    for (std::size_t i = 0; i < to.size(); ++i) {
        const std::int64_t size = to[i], before = i < from.size() ? from[i] : 1;
        if (size != before && size >= 0 && before >= 0) return false;
    }
    return true;
}

/// Whether a Transpose moves axes of one element alone, and one of them behind the last.
bool turns_axes_behind(const Node& node, const Shape& from) {
    const auto order = node.ints_or("perm", {});
    if (order.size() != from.size()) return false;
    std::int64_t last = -1;
    std::int64_t size = 0;
    for (const std::int64_t axis : order) {
        if (axis < 0 || axis >= static_cast<std::int64_t>(from.size())) return false; // refused elsewhere
        size = from[static_cast<std::size_t>(axis)];
        if (size != 1 && axis < last) return false;
        if (size != 1) last = axis;
    }
    return size == 1 && from.back() != 1;
}

/// Some of the sizes of a value, as one of the nodes that follow.
std::string part_of_sizes(Graph& graph, const std::string& sizes, std::size_t first, std::size_t end, Nodes& nodes) {
    std::vector<std::int64_t> axes(end - first);
    std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(first));
    std::string part = graph.unique_name(sizes + "_part");
    nodes.push_back(made("Gather", {sizes, add_integers(graph, part + "_axes", axes)}, part));
    return part;
}

/// The sizes of x with those of the indices in the place of the axis, computed where several are open.
std::string gathered_sizes(Graph& graph, const Node& node, const Shape& from, const Shape& at, std::size_t axis,
                           Nodes& nodes) {
    const std::string& y = node.output(0);
    Shape sizes(axis, 0); // those in front as they are
    sizes.insert(sizes.end(), at.begin(), at.end());
    sizes.insert(sizes.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
    if (std::ranges::count(sizes, -1) <= 1) return add_integers(graph, y + "_sizes", sizes);
    const std::string of_data = graph.unique_name(y + "_data_sizes"),
                      of_indices = graph.unique_name(y + "_index_sizes");
    nodes.push_back(made("Shape", {node.input(0)}, of_data));
    nodes.push_back(made("Shape", {node.input(1)}, of_indices));
    Node joined = made("Concat", {part_of_sizes(graph, of_data, 0, axis, nodes), of_indices}, y);
    if (axis + 1 < from.size()) joined.inputs.push_back(part_of_sizes(graph, of_data, axis + 1, from.size(), nodes));
    joined.outputs = {graph.unique_name(y + "_sizes")};
    joined.set("axis", std::int64_t{0});
    nodes.push_back(joined);
    return joined.output(0);
}

} // namespace

bool gathers_scaled_bytes(const Graph& graph, const Node& node, const Uses& uses) {
    Walk walk;
    return node.is("Gather") && is_of_scaled_bytes(walk, graph, uses, node.input(0));
}

bool adds_axes_behind_columns(const Graph& graph, const Node& node, const Uses& uses) {
    const auto from = graph.info_or_name(node.input(0)).shape(), to = graph.info_or_name(node.output(0)).shape();
    if (!from || !to || from->size() < 3) return false;
    const bool reshapes = node.is("Unsqueeze") || node.is("Reshape");
    if (!(reshapes && adds_axes_behind(*from, *to)) && !(node.is("Transpose") && turns_axes_behind(node, *from)))
        return false;
    ScaleSources sources;
    Walk walk;
    add_scale_sources(walk, uses, node.input(0), sources);
    return sources.product || sources.turned_product || sources.turned_convolution;
}

bool has_scales_by_channel(const Graph& graph, const std::string& value, const Uses& uses) {
    ScaleSources sources;
    Walk to_layers, to_bytes;
    add_scale_sources(to_layers, uses, value, sources);
    return sources.convolution || sources.turned_product || is_of_bytes_by_channel(to_bytes, graph, uses, value);
}

bool may_be_bytes(const Graph& graph, const std::string& value, const Uses& uses) {
    Walk walk;
    return is_of_bytes_by_channel(walk, graph, uses, value, true);
}

//  x, i ──▶ Gather ──▶ y   ==>   x, i ──▶ Reshape [-1] ──▶ Gather ──▶ Squeeze, or Reshape ──▶ y
// Scales by channel, which OpenVINO moves behind the Gather, keep the rank of x: they meet other axes of y (refused, or
// another result where the sizes fit) or give it one more.
Nodes gathered_in_a_row(Graph& graph, const Node& node, std::int64_t opset) {
    if (!node.is("Gather") || !is_floating(type_of(graph, node.input(0)))) return {};
    const auto from = graph.info_or_name(node.input(0)).shape(), at = graph.info_or_name(node.input(1)).shape();
    if (!from || from->size() < 2 || !at || at->size() == 1) return {};
    const auto rank = static_cast<std::int64_t>(from->size());
    std::int64_t axis = node.int_or("axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return {}; // refused elsewhere
    // Rows by a table: what is behind the axis keeps its place from the end.
    if (axis == 0 && !at->empty()) return {};
    // A Reshape takes 0 for the size that was there.
    if (std::ranges::count(*at, 0) + std::ranges::count(*from, 0) > 0) return {};
    const std::string& y = node.output(0);
    Node gather = node;
    gather.inputs[1] = graph.unique_name(y + "_row");
    gather.outputs = {graph.unique_name(y + "_gathered")};
    Nodes nodes{made("Reshape", {node.input(1), add_integers(graph, y + "_flat", {-1})}, gather.input(1))};
    nodes.push_back(gather);
    if (at->empty()) {
        Node squeeze = made("Squeeze", {gather.output(0)}, y);
        if (opset < 13) {
            squeeze.set("axes", std::vector<std::int64_t>{axis});
        } else {
            squeeze.inputs.push_back(add_integers(graph, y + "_axis", {axis}));
        }
        nodes.push_back(std::move(squeeze));
        return nodes;
    }
    const std::string sizes = gathered_sizes(graph, node, *from, *at, static_cast<std::size_t>(axis), nodes);
    nodes.push_back(made("Reshape", {gather.output(0), sizes}, y));
    return nodes;
}

} // namespace lathe::openvino
