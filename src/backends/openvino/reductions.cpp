#include "backends/openvino/reductions.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/openvino/moved_scales.hpp"
#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

using Axes = std::vector<std::int64_t>;

/// Axes are an attribute before opset `since`.
void set_axes(Graph& graph, Node& node, const Axes& axes, std::int64_t opset, std::int64_t since) {
    if (opset < since) {
        node.set("axes", axes);
        return;
    }
    node.erase_attribute("axes");
    node.inputs.resize(1);
    node.inputs.push_back(add_integers(graph, node.output(0) + "_axes", axes));
}

Node reduction_over(Graph& graph, const Node& node, const Axes& axes, std::int64_t opset) {
    constexpr std::int64_t sums = 13, others = 18;
    Node changed = node;
    set_axes(graph, changed, axes, opset, node.is("ReduceSum") ? sums : others);
    return changed;
}

/// Whether numbers of a constant, more than one, are added to a value or multiply it.
bool meets_factors(const Graph& graph, const std::string& value) {
    static constexpr std::array<std::string_view, 7> elementwise{"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"};
    return std::ranges::any_of(graph.nodes, [&](const auto& node) {
        if (std::ranges::find(node->inputs, value) == node->inputs.end()) return false;
        if (node->is("BatchNormalization")) return true;
        if (std::ranges::none_of(elementwise, [&](std::string_view type) { return node->is(type); })) return false;
        return std::ranges::any_of(node->inputs, [&](const std::string& input) {
            const Tensor* constant = graph.constant(input);
            return constant != nullptr && constant->count() > 1;
        });
    });
}

//  x [N, C, L] ──▶ Reduce ──▶ y   ==>   x ──▶ Reshape [N, C, 1, L] ──▶ Reduce ──▶ Reshape ──▶ y
// What is computed behind a reduction of three axes, with a number a channel, OpenVINO computes with other channels'.
// Over the first axis alone it looks through a Reshape that only adds an axis: the line is flat then. The numbers may
// also be scales, which OpenVINO moves behind the reduction.
Nodes reduction_of_image(Graph& graph, const Node& node, std::optional<Axes> axes, std::int64_t opset,
                         const Uses* scaled) {
    const std::string& y = node.output(0);
    // Over the second axis alone, or the last two: of bytes OpenVINO reads other elements where there are several
    // samples.
    const bool of_bytes =
        scaled != nullptr && axes && axes->front() == 1 && may_be_bytes(graph, node.input(0), *scaled);
    const bool by_channel = scaled != nullptr && has_scales_by_channel(graph, node.input(0), *scaled);
    if (!of_bytes && !by_channel && !meets_factors(graph, y)) return {};
    const bool over_line = !axes || std::ranges::find(*axes, 2) != axes->end();
    Axes sizes{0, 0, 1, -1}, back{0, 0, -1};
    if (!over_line && of_bytes) {
        axes->push_back(2); // or it looks through the Reshape
    } else if (!over_line) {
        const auto dims = graph.info_or_name(node.input(0)).shape();
        if (*axes != Axes{0} || !dims || (*dims)[1] < 0 || (*dims)[2] < 0) return {};
        sizes = {0, -1};
        back = {1, (*dims)[1], (*dims)[2]};
    } else if (axes) {
        axes->push_back(3);
    }
    const std::string wide = graph.unique_name(y + "_wide"), reduced = graph.unique_name(y + "_reduced");
    Node reduction = node;
    reduction.outputs = {reduced};
    if (axes) reduction = reduction_over(graph, reduction, *axes, opset);
    reduction.inputs[0] = wide;
    return {made("Reshape", {node.input(0), add_integers(graph, y + "_sizes", sizes)}, wide), std::move(reduction),
            made("Reshape", {reduced, add_integers(graph, y + "_back", back)}, y)};
}

//  x ──▶ Reduce(keepdims = 0) ──▶ y   ==>   x ──▶ Reduce(keepdims = 1) ──▶ Squeeze ──▶ y
// A Reshape or Transpose behind that only moves axes of one element (which is no copy) OpenVINO drops, and the value
// has the sizes from before.
Nodes kept_and_squeezed(Graph& graph, const Node& node, const Axes& axes, std::int64_t opset) {
    Node reduction = node;
    reduction.outputs = {graph.unique_name(node.output(0) + "_kept")};
    reduction.set("keepdims", std::int64_t{1});
    reduction = reduction_over(graph, reduction, axes, opset);
    Node squeeze = made("Squeeze", {reduction.output(0)}, node.output(0));
    set_axes(graph, squeeze, axes, opset, 13);
    return {std::move(reduction), std::move(squeeze)};
}

/// The axes that an Unsqueeze, or a Reshape that does the same, adds; nothing for another node.
std::optional<Axes> added_axes(const Graph& graph, const Node& node) {
    const auto from = graph.info_or_name(node.input(0)).dims, to = graph.info_or_name(node.output(0)).dims;
    if (!from || !to || to->size() <= from->size()) return std::nullopt;
    if (node.is("Unsqueeze")) {
        auto axes = constant_integers(graph, node, "axes", 1);
        if (!axes || axes->size() != to->size() - from->size()) return std::nullopt;
        for (std::int64_t& axis : *axes)
            if (axis < 0) axis += static_cast<std::int64_t>(to->size());
        std::ranges::sort(*axes);
        return axes;
    }
    if (!node.is("Reshape")) return std::nullopt;
    Axes axes;
    std::size_t i = 0;
    for (std::size_t j = 0; j < to->size(); ++j) {
        if (!(*to)[j].size) return std::nullopt;
        if (i < from->size() && (*from)[i].size == (*to)[j].size) {
            ++i;
        } else if (*(*to)[j].size == 1) {
            axes.push_back(static_cast<std::int64_t>(j));
        } else {
            return std::nullopt;
        }
    }
    if (i != from->size()) return std::nullopt;
    return axes;
}

//  x ──▶ Unsqueeze ──▶ Reduce ──▶ y   ==>   x ──▶ Reduce ──▶ Unsqueeze ──▶ y
// OpenVINO does the same, and adds the axis at another place.
Nodes reduced_before_new_axes(Graph& graph, const Node& node, const Axes& axes, std::int64_t opset) {
    const Node* wider = producer(graph, node.input(0));
    if (wider == nullptr) return {};
    const auto added = added_axes(graph, *wider);
    if (!added || added->empty()) return {};
    Axes inner;
    for (const std::int64_t axis : axes) {
        if (std::ranges::find(*added, axis) != added->end()) return {};
        inner.push_back(axis - std::ranges::count_if(*added, [&](std::int64_t other) { return other < axis; }));
    }
    const bool keeps = node.int_or("keepdims", 1) != 0;
    const std::string& y = node.output(0);
    Node reduction = node;
    reduction.outputs = {graph.unique_name(y + "_reduced")};
    reduction.set("keepdims", std::int64_t{1});
    reduction = reduction_over(graph, reduction, inner, opset);
    reduction.inputs[0] = wider->input(0);
    const std::string whole = keeps ? y : graph.unique_name(y + "_kept");
    Node unsqueeze = made("Unsqueeze", {reduction.output(0)}, whole);
    set_axes(graph, unsqueeze, *added, opset, 13);
    Nodes nodes{std::move(reduction), std::move(unsqueeze)};
    if (!keeps) {
        nodes.push_back(made("Squeeze", {whole}, y));
        set_axes(graph, nodes.back(), axes, opset, 13);
    }
    return nodes;
}

/// An Einsum's equation: a letter for each axis of each operand and of the result.
struct Equation {
    std::vector<std::string> terms;
    std::string result;
};

/// Nothing for one with an ellipsis, which has no letters for some axes.
std::optional<Equation> equation_of(const Node& node) {
    std::string text = node.string_or("equation", "");
    std::erase(text, ' ');
    if (text.find('.') != std::string::npos) return std::nullopt;
    const std::size_t arrow = text.find("->");
    Equation equation{{""}, arrow == std::string::npos ? "" : text.substr(arrow + 2)};
    for (const char letter : text.substr(0, arrow)) {
        if (letter == ',') {
            equation.terms.emplace_back();
        } else {
            equation.terms.back() += letter;
        }
    }
    if (arrow == std::string::npos) { // those that are there once, in order
        std::ranges::copy_if(text, std::back_inserter(equation.result),
                             [&](char letter) { return letter != ',' && std::ranges::count(text, letter) == 1; });
        std::ranges::sort(equation.result);
    }
    if (equation.terms.size() != node.inputs.size()) return std::nullopt;
    return equation;
}

std::string text_of(const Equation& equation) {
    std::string text;
    for (const std::string& term : equation.terms)
        text += (text.empty() ? "" : ",") + term;
    return text + "->" + equation.result;
}

} // namespace

//  x ──▶ Einsum(abc -> cb)        ==>   x ──▶ ReduceSum(0) ──▶ Transpose
//  x, z ──▶ Einsum(abc, bd -> ad)  ==>   x ──▶ ReduceSum(2), z ──▶ Einsum(ab, bd -> ad)
// OpenVINO does the same, which is too late for what reductions have other forms for.
Nodes sums_of_einsum(Graph& graph, const Node& node, std::int64_t opset) {
    if (!node.is("Einsum") || !node.domain.empty() || !is_floating(type_of(graph, node.input(0)))) return {};
    std::optional<Equation> equation = equation_of(node);
    if (!equation) return {};
    Nodes nodes;
    Node product = node;
    const std::string& y = node.output(0);
    const std::string whole = text_of(*equation);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        Axes axes;
        std::string kept;
        for (std::size_t axis = 0; axis < equation->terms[i].size(); ++axis) {
            const char letter = equation->terms[i][axis];
            if (std::ranges::count(whole, letter) == 1) {
                axes.push_back(static_cast<std::int64_t>(axis));
            } else {
                kept += letter;
            }
        }
        // OpenVINO's Einsum has no operands without axes.
        if (axes.empty() || (kept.empty() && node.inputs.size() > 1)) continue;
        Node sum = made("ReduceSum", {node.input(i)}, graph.unique_name(y + "_sum"));
        sum.set("keepdims", std::int64_t{0});
        set_axes(graph, sum, axes, opset, 13);
        product.inputs[i] = sum.output(0);
        equation->terms[i] = kept;
        nodes.push_back(std::move(sum));
    }
    if (nodes.empty()) return {};
    const std::string& term = equation->terms[0];
    if (node.inputs.size() > 1 || !std::ranges::is_permutation(term, equation->result)) { // a diagonal
        product.set("equation", text_of(*equation));
        nodes.push_back(std::move(product));
    } else if (term == equation->result) {
        nodes.back().outputs = {y};
    } else {
        Axes order;
        for (const char letter : equation->result)
            order.push_back(static_cast<std::int64_t>(term.find(letter)));
        nodes.push_back(made("Transpose", {nodes.back().output(0)}, y));
        nodes.back().set("perm", order);
    }
    return nodes;
}

Nodes reductions_as_onnx(Graph& graph, const Node& node, std::int64_t opset, const Uses* scaled) {
    if (!node.domain.empty() || node.outputs.size() != 1) return {};
    const auto dims = graph.info_or_name(node.input(0)).dims;
    const bool is_line = dims && dims->size() == 3;
    if (node.is("GlobalAveragePool") || node.is("GlobalMaxPool"))
        return is_line ? reduction_of_image(graph, node, std::nullopt, opset, scaled) : Nodes{};
    if (!node.op_type.starts_with("Reduce")) return {};
    auto axes = constant_integers(graph, node, "axes", 1);
    if (!axes || axes->empty()) return {};
    if (dims) {
        for (std::int64_t& axis : *axes)
            if (axis < 0) axis += static_cast<std::int64_t>(dims->size());
        std::ranges::sort(*axes);
        if (Nodes nodes = reduced_before_new_axes(graph, node, *axes, opset); !nodes.empty()) return nodes;
    }
    if (node.int_or("keepdims", 1) == 0) {
        Nodes nodes = kept_and_squeezed(graph, node, *axes, opset);
        if (!is_line) return nodes;
        Nodes image = reduction_of_image(graph, nodes.front(), axes, opset, scaled);
        if (image.empty()) return nodes;
        image.push_back(std::move(nodes.back()));
        return image;
    }
    return is_line ? reduction_of_image(graph, node, axes, opset, scaled) : Nodes{};
}

//  x ──▶ LpNormalization   ==>   x ──▶ ReduceL2 ──▶ Max(least float) ──▶ Div
//                                └────────────────────────────────────────┘
// OpenVINO adds a number to the sum of squares that is not small beside small ones. Of zeros alone, 0 / least is 0.
Nodes divided_by_norm(Graph& graph, const Node& node, std::int64_t opset) {
    const std::string &x = node.input(0), &y = node.output(0);
    const DataType type = type_of(graph, x);
    const std::int64_t p = node.int_or("p", 2);
    if (!node.is("LpNormalization") || !is_floating(type) || (p != 1 && p != 2)) return {};
    constexpr float least_half = 6.103515625e-5F;
    const float least = type == DataType::float16 ? least_half : std::numeric_limits<float>::min();
    const std::string norm = graph.unique_name(y + "_norm"), safe = graph.unique_name(y + "_safe");
    Node sum = made(p == 1 ? "ReduceL1" : "ReduceL2", {x}, norm);
    set_axes(graph, sum, {node.int_or("axis", -1)}, opset, 18);
    return {std::move(sum), made("Max", {norm, add_scalar(graph, y + "_least", type, least)}, safe),
            made("Div", {x, safe}, y)};
}

} // namespace lathe::openvino
