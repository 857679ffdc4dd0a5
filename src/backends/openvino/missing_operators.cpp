#include "backends/openvino/missing_operators.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/openvino/known_wrong.hpp"
#include "backends/openvino/quantised_semantics.hpp"
#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "passes/evaluate_support.hpp"
#include "passes/resampled.hpp"
#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

bool wraps(const Node& node) { return node.is("Pad") && node.string_or("mode", "constant") == "wrap"; }
bool is_one_sided(const Node& node) { return node.is("DFT") && node.int_or("onesided", 0) != 0; }

std::optional<Shape> shape_of(const Graph& graph, const std::string& name) {
    const auto info = graph.info(name);
    return info ? info->shape() : std::nullopt;
}

/// What stands in a node's place, with values named after its output.
class Replacement {
public:
    Replacement(Graph& graph, const Node& node) : graph_(graph), stem_(node.output(0)) {}

    std::string value() { return graph_.unique_name(stem_ + "_part"); }
    std::string number(std::int64_t number) {
        return add_constant(graph_, stem_ + "_number", Tensor::of_int64s("", {1}, std::vector<std::int64_t>{number}));
    }
    std::string slice(const std::string& of, std::int64_t from, std::int64_t to, std::size_t axis,
                      std::int64_t step = 1) {
        std::string part = value();
        nodes.push_back(
            made("Slice", {of, number(from), number(to), number(static_cast<std::int64_t>(axis)), number(step)}, part));
        return part;
    }
    std::string concat(std::vector<std::string> parts, std::size_t axis) {
        std::string whole = value();
        nodes.push_back(made("Concat", std::move(parts), whole));
        nodes.back().set("axis", static_cast<std::int64_t>(axis));
        return whole;
    }
    /// The last node's value takes the name of the replaced node's.
    Nodes take() {
        nodes.back().outputs = {stem_};
        return std::move(nodes);
    }

    Nodes nodes;

private:
    Graph& graph_;
    std::string stem_;
};

//  x ──▶ Pad(wrap)   ==>   the end of x, x, its beginning ──▶ Concat     for each axis
Nodes wrapped_pad(Graph& graph, const Node& node, std::int64_t opset) {
    const auto shape = shape_of(graph, node.input(0));
    const auto pads = shape ? constant_pads(graph, node, shape->size(), opset) : std::nullopt;
    if (!pads) return {};
    Replacement instead(graph, node);
    std::string whole = node.input(0);
    for (std::size_t axis = 0; axis < shape->size(); ++axis) {
        const std::int64_t size = (*shape)[axis], before = (*pads)[axis], after = (*pads)[axis + shape->size()];
        if (before == 0 && after == 0) continue;
        if (before < 0 || after < 0 || std::max(before, after) > size) return {}; // refused by who reads it
        std::vector<std::string> parts;
        if (before > 0) parts.push_back(instead.slice(whole, size - before, size, axis));
        parts.push_back(whole);
        if (after > 0) parts.push_back(instead.slice(whole, 0, after, axis));
        whole = instead.concat(std::move(parts), axis);
    }
    return instead.nodes.empty() ? Nodes{} : instead.take();
}

std::optional<std::int64_t> given_axis(const Graph& graph, const Node& node, std::int64_t opset) {
    if (opset < 20) return node.int_or("axis", 1);
    return node.input(2).empty() ? std::optional<std::int64_t>(-2) : constant_integer(graph, node.input(2));
}

/// A DFT of both sides along this axis as opset 17 has it.
Node with_axis(Node node, std::int64_t axis) {
    node.inputs.resize(std::min<std::size_t>(node.inputs.size(), 2));
    node.set("axis", axis);
    node.erase_attribute("onesided");
    return node;
}

//  DFT(axis: an input, or counted from the end)   ==>   DFT {axis = its number}
Nodes with_axis_as_attribute(const Graph& graph, const Node& node, std::int64_t opset) {
    const auto of = given_axis(graph, node, opset);
    if (!of || (opset < 20 && *of >= 0)) return {};
    const auto shape = shape_of(graph, node.input(0));
    const auto axis = shape ? evaluation::normalised_axis(*of, shape->size()) : std::nullopt;
    return {with_axis(node, axis ? static_cast<std::int64_t>(*axis) : *of)}; // refused where it stays negative
}

//  real x ──▶ DFT(onesided)                ==>   x ──▶ DFT ──▶ its first n / 2 + 1 numbers
//  X ──▶ DFT(onesided, inverse) ──▶ real   ==>   X, the conjugates of its numbers n - n / 2 - 1 to 1 ──▶ Concat ──▶
//                                                DFT(inverse) ──▶ its real part
Nodes two_sided(Graph& graph, const Node& node, std::int64_t opset) {
    const auto shape = shape_of(graph, node.input(0));
    if (!shape || shape->size() < 2) return {};
    const std::size_t complex = shape->size() - 1;
    const auto of = given_axis(graph, node, opset);
    const auto axis = of ? evaluation::normalised_axis(*of, shape->size()) : std::nullopt;
    if (!axis || *axis == complex) return {};
    const bool inverse = node.int_or("inverse", 0) != 0;
    const std::int64_t size = (*shape)[*axis];
    const std::int64_t usual = inverse ? 2 * (size - 1) : size;
    const auto given = node.input(1).empty() ? std::optional(usual) : constant_integer(graph, node.input(1));
    if (size < 1 || !given || *given < 1 || *given > std::numeric_limits<std::int32_t>::max()) return {};
    const std::int64_t length = *given, half = length / 2 + 1;
    Replacement instead(graph, node);
    std::string x = node.input(0);
    if (inverse) {
        if (size != half || (*shape)[complex] != 2 || type_of(graph, x) != DataType::float32) return {};
        if (length > half) {
            const std::string tail = instead.slice(x, length - half, 0, *axis, -1);
            const std::string conjugate = instead.value();
            const std::string signs =
                add_constant(graph, node.output(0) + "_signs", Tensor::of_floats("", {2}, std::vector<float>{1, -1}));
            instead.nodes.push_back(made("Mul", {tail, signs}, conjugate));
            x = instead.concat({x, conjugate}, *axis);
        }
    }
    Node whole = with_axis(node, static_cast<std::int64_t>(*axis));
    whole.inputs[0] = x;
    if (inverse && whole.inputs.size() > 1) whole.inputs[1].clear(); // as long as it is
    whole.outputs = {instead.value()};
    const std::string both = whole.output(0);
    instead.nodes.push_back(std::move(whole));
    (void)instead.slice(both, 0, inverse ? 1 : half, inverse ? complex : *axis);
    return instead.take();
}

bool lacks_any(const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [&](const auto& node) {
        bool found = wraps(*node) || node->is("DFT") || is_wrong_resize(graph, *node);
        for_each_subgraph(*node, [&](const Graph& body) { found = found || lacks_any(body); });
        return found;
    });
}

Nodes without_missing(Graph& graph, const Node& node, std::int64_t opset) {
    if (wraps(node)) return wrapped_pad(graph, node, opset);
    if (is_one_sided(node)) return two_sided(graph, node, opset);
    return node.is("DFT") ? with_axis_as_attribute(graph, node, opset) : Nodes{};
}

void write(Graph& graph, std::int64_t opset) {
    write_out_resize(graph, opset, [&](const Node& node) { return is_wrong_resize(graph, node); });
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](Graph& body) {
            const BorrowedValues borrowed(body, graph, *node);
            write(body, opset);
        });
    replace_each(graph, [&](const Node& node) { return without_missing(graph, node, opset); });
}

} // namespace

void write_missing_operators(Model& model) {
    if (!lacks_any(model.graph)) return;
    (void)infer_shapes(model, {}); // what has no sizes then is left, and refused by who reads it
    write(model.graph, model.opset());
}

} // namespace lathe::openvino
