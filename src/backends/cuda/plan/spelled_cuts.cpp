// Parts of values along one axis, and those that go round it.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {

std::optional<AxisPart> cut_of(const Site& site, const std::string& value) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr || !node->is("Slice")) return std::nullopt;
    const Shape dims = dims_of(site.graph, node->input(0));
    const auto starts = constant_integers(site.graph, *node, "starts", 1);
    const auto axes = constant_integers(site.graph, *node, "axes", 3);
    const auto steps = constant_integers(site.graph, *node, "steps", 4);
    if (!starts || starts->size() != 1 || !axes || axes->size() != 1 || dims.empty()) return std::nullopt;
    AxisPart cut;
    cut.whole = node->input(0);
    const std::int64_t axis =
        axes->front() < 0 ? axes->front() + static_cast<std::int64_t>(dims.size()) : axes->front();
    cut.axis = static_cast<std::size_t>(axis);
    if (cut.axis >= dims.size()) return std::nullopt;
    cut.start = starts->front() < 0 ? starts->front() + dims[cut.axis] : starts->front();
    cut.step = steps && !steps->empty() ? steps->front() : 1;
    return cut;
}

namespace {

//  Concat(x[s:], x[:s])   ==>   Roll(x, s)
// Windows are shifted so (Liu et al., Swin Transformer, 2021): one pass along an axis in place of three. Neighbours
// move together unless the axis is the last; parts that are int8 stay what they are.
bool roll(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape dims = dims_of(graph, root.output(0));
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (root.inputs.size() != 2 || rank < 2 || rank > 8) return false;
    const auto first = cut_of(site, root.input(0)), second = cut_of(site, root.input(1));
    if (!first || !second || first->whole != second->whole || first->axis != second->axis || first->step != 1 ||
        second->step != 1 || second->start != 0 || dims_of(graph, first->whole) != dims)
        return false;
    // Of one size together, the second from the beginning on: the first ends where the value does.
    Shape end = dims, begin = dims;
    end[first->axis] -= first->start;
    begin[first->axis] = first->start;
    const std::int64_t given = root.int_or("axis", 0), axis = given < 0 ? given + rank : given;
    const Node* maker = site.uses.producer(first->whole);
    if (dims_of(graph, root.input(0)) != end || dims_of(graph, root.input(1)) != begin || first->start < 1 ||
        axis != static_cast<std::int64_t>(first->axis) || axis + 1 >= rank ||
        !is_floating(type_of(graph, first->whole)) || (maker != nullptr && maker->is("DequantizeLinear")))
        return false;
    Node made = make_node("Roll", {first->whole});
    made.set("axis", axis);
    made.set("shift", first->start);
    become(root, std::move(made), root);
    return true;
}

} // namespace

Rule roll_spelling() { return {Pattern::op("Concat"), roll}; }

} // namespace lathe::cuda
