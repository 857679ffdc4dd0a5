#include "backends/openvino/slices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

//  x ──▶ Slice(from 0) ──▶ GatherElements   ==>   x ──▶ Slice(from -size) ──▶ GatherElements
// What begins at 0 OpenVINO leaves out, since the indices lie within it, and then finds other sizes than the
// indices'.
Nodes slice_of_gathered(Graph& graph, const Node& node, std::int64_t opset) {
    const auto reads = [&](const auto& other) {
        return other->is("GatherElements") && other->input(0) == node.output(0);
    };
    if (opset < 10 || std::ranges::none_of(graph.nodes, reads)) return {};
    const auto sizes = graph.info_or_name(node.input(0)).shape();
    const auto from = constant_integers(graph, node, "starts", 1), axes = constant_integers(graph, node, "axes", 3);
    if (!sizes || !from || !axes || axes->size() != from->size()) return {};
    std::vector<std::int64_t> counted = *from;
    const auto rank = static_cast<std::int64_t>(sizes->size());
    for (std::size_t i = 0; i < counted.size(); ++i) {
        const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
        if (axis < 0 || axis >= rank || (*sizes)[static_cast<std::size_t>(axis)] < 0) return {};
        if (counted[i] == 0) counted[i] = -(*sizes)[static_cast<std::size_t>(axis)];
    }
    Node slice = node;
    slice.inputs[1] = add_integers(graph, node.output(0) + "_from", counted);
    return {std::move(slice)};
}

//  x ──▶ Slice(from -2, to 3)   ==>   x ──▶ Slice(from max(size - 2, 0), to 3)
//  └──▶ Shape ──▶ Gather ──▶ Add(-2) ──▶ Max(0) ───┘
// Along an axis of open sizes OpenVINO expects no size at all of what is counted from the end and ends in front.
Nodes slice_from_the_end(Graph& graph, const Node& node, std::int64_t opset) {
    constexpr std::int64_t integers_in_max = 12, to_the_end = std::int64_t{1} << 30;
    const auto sizes = graph.info_or_name(node.input(0)).shape();
    const auto from = constant_integers(graph, node, "starts", 1), to = constant_integers(graph, node, "ends", 2),
               axes = constant_integers(graph, node, "axes", 3);
    if (opset < integers_in_max || !sizes || !from || !to || !axes || axes->size() != from->size() ||
        to->size() != from->size())
        return {};
    const auto rank = static_cast<std::int64_t>(sizes->size());
    std::vector<std::int64_t> counted(from->size(), 0), least(from->size(), std::numeric_limits<std::int32_t>::min());
    for (std::size_t i = 0; i < from->size(); ++i) {
        const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
        if (axis < 0 || axis >= rank) return {};
        const bool open = (*sizes)[static_cast<std::size_t>(axis)] < 0;
        if (!open || (*from)[i] >= 0 || (*to)[i] < 0 || (*to)[i] >= to_the_end) continue;
        counted[i] = 1;
        least[i] = 0;
    }
    if (std::ranges::find(counted, 1) == counted.end()) return {};
    const std::string& stem = node.output(0);
    const auto value = [&](const char* what) { return graph.unique_name(stem + what); };
    const std::string all = value("_sizes"), along = value("_along"), chosen = value("_chosen"),
                      first = value("_first"), begin = value("_begin");
    Node slice = node;
    slice.inputs[1] = begin;
    return {made("Shape", {node.input(0)}, all),
            made("Gather", {all, add_integers(graph, stem + "_axes", *axes)}, along),
            made("Mul", {along, add_integers(graph, stem + "_counted", counted)}, chosen),
            made("Add", {chosen, add_integers(graph, stem + "_from", *from)}, first),
            made("Max", {first, add_integers(graph, stem + "_least", least)}, begin),
            std::move(slice)};
}

} // namespace

Nodes slice_as_onnx(Graph& graph, const Node& node, std::int64_t opset) {
    Nodes nodes = slice_of_gathered(graph, node, opset);
    return nodes.empty() ? slice_from_the_end(graph, node, opset) : nodes;
}

//  x, i ──▶ GatherElements   ==>   x ──▶ Gather of the first, i ──▶ GatherElements
// For each axis but the node's along which i is shorter, which OpenVINO refuses. A Slice it would leave out (see
// above).
Nodes gathered_from_the_first(Graph& graph, const Node& node) {
    const auto sizes = graph.info_or_name(node.input(0)).shape(), asked = graph.info_or_name(node.input(1)).shape();
    if (!sizes || !asked || sizes->size() != asked->size()) return {};
    std::int64_t along = node.int_or("axis", 0);
    if (along < 0) along += static_cast<std::int64_t>(sizes->size());
    Nodes nodes;
    Node changed = node;
    for (std::size_t axis = 0; axis < sizes->size(); ++axis) {
        const std::int64_t size = (*sizes)[axis], count = (*asked)[axis];
        if (static_cast<std::int64_t>(axis) == along || count < 1 || (size >= 0 && count >= size)) continue;
        std::vector<std::int64_t> first(static_cast<std::size_t>(count));
        std::iota(first.begin(), first.end(), std::int64_t{0});
        const std::string part = graph.unique_name(node.output(0) + "_first");
        nodes.push_back(made("Gather", {changed.input(0), add_integers(graph, part + "_places", first)}, part));
        nodes.back().set("axis", static_cast<std::int64_t>(axis));
        changed.inputs[0] = part;
    }
    if (nodes.empty()) return {};
    nodes.push_back(std::move(changed));
    return nodes;
}

} // namespace lathe::openvino
