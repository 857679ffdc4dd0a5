#include <algorithm>
#include <numeric>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"
#include "passes/sequence_loops.hpp"

namespace lathe::passes {
namespace {

/// An element of a sequence: a tensor that there is, or a part of one along an axis.
struct Element {
    std::string value;
    bool part = false, drops_axis = false;
    std::int64_t axis = 0, from = 0, to = 0;
};
using Elements = std::vector<Element>;

/// The place that the node's input names, of `count` places, the last where it is omitted.
std::optional<std::size_t> place_of(const Graph& graph, const Node& node, std::size_t input, std::size_t count) {
    if (count == 0) return std::nullopt;
    if (node.input(input).empty()) return count - 1;
    const auto position = constant_integer(graph, node.input(input));
    if (!position) return std::nullopt;
    // Of n elements there are n + 1 places to insert one, but a negative place is counted from the n.
    const std::int64_t size = static_cast<std::int64_t>(count) - (node.is("SequenceInsert") ? 1 : 0);
    const std::int64_t at = *position < 0 ? *position + size : *position;
    if (at < 0 || at >= static_cast<std::int64_t>(count)) return std::nullopt;
    return static_cast<std::size_t>(at);
}

std::optional<Elements> parts_of(const Graph& graph, const Node& node) {
    const auto info = graph.info(node.input(0));
    if (!info || !info->dims) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(info->dims->size());
    std::int64_t axis = node.int_or("axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    const auto size = (*info->dims)[static_cast<std::size_t>(axis)].size;
    std::vector<std::int64_t> lengths;
    const bool by_one = node.input(1).empty();
    const Tensor* split = by_one ? nullptr : graph.constant(node.input(1));
    if (!by_one && split == nullptr) return std::nullopt;
    if (split != nullptr && !split->shape().empty()) {
        lengths = split->to_int64s();
        if (size && std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) != *size) return std::nullopt;
    } else {
        const std::int64_t each = by_one ? 1 : split->to_int64s().front();
        if (!size || each < 1) return std::nullopt;
        for (std::int64_t at = 0; at < *size; at += each)
            lengths.push_back(std::min(each, *size - at));
    }
    Elements parts;
    std::int64_t at = 0;
    for (const std::int64_t length : lengths) {
        if (length < 0) return std::nullopt;
        parts.push_back({node.input(0), true, by_one && node.int_or("keepdims", 1) == 0, axis, at, at + length});
        at += length;
    }
    return parts;
}

/// What the sequence holds, where its making says so.
std::optional<Elements> elements_of(const Site& site, const std::string& sequence) {
    const Node* node = site.uses.producer(sequence);
    if (node == nullptr || !node->domain.empty()) return std::nullopt;
    if (node->is("SequenceEmpty")) return Elements{};
    if (node->is("SplitToSequence")) return parts_of(site.graph, *node);
    if (node->is("Identity")) return elements_of(site, node->input(0));
    if (node->is("SequenceConstruct")) {
        Elements all;
        for (const std::string& value : node->inputs)
            all.push_back({value});
        return all;
    }
    const bool inserts = node->is("SequenceInsert");
    if (!inserts && !node->is("SequenceErase")) return std::nullopt;
    auto all = elements_of(site, node->input(0));
    if (!all) return std::nullopt;
    const auto place = place_of(site.graph, *node, inserts ? 2 : 1, all->size() + (inserts ? 1 : 0));
    if (!place) return std::nullopt;
    const auto at = all->begin() + static_cast<std::ptrdiff_t>(*place);
    if (inserts)
        all->insert(at, Element{node->input(1)});
    else
        all->erase(at);
    return all;
}

std::string integers(Graph& graph, const std::vector<std::int64_t>& values, Shape shape) {
    return add_constant(graph, "position", Tensor::of_int64s("", std::move(shape), values));
}

/// The node that gives a part.
Node node_of(Graph& graph, const Element& element) {
    if (!element.drops_axis) {
        return make_node("Slice", {element.value, integers(graph, {element.from}, {1}),
                                   integers(graph, {element.to}, {1}), integers(graph, {element.axis}, {1})});
    }
    Node gather = make_node("Gather", {element.value, integers(graph, {element.from}, {})});
    gather.set("axis", element.axis);
    return gather;
}

std::string put_before(const Site& site, Node node) {
    node.outputs = {site.graph.unique_name(site.root.output(0) + "/" + node.op_type)};
    node.name = node.outputs[0];
    std::string name = node.outputs[0];
    insert_before(site, std::move(node), std::nullopt);
    return name;
}

bool take_element(const Site& site) {
    const auto all = elements_of(site, site.root.input(0));
    if (!all) return false;
    const auto place = place_of(site.graph, site.root, 1, all->size());
    if (!place) return false;
    const Element& element = (*all)[*place];
    if (!element.part) return bypass(site, element.value);
    become(site.root, node_of(site.graph, element), site.root);
    return true;
}

bool take_length(const Site& site) {
    const auto all = elements_of(site, site.root.input(0));
    if (!all) return false;
    const std::string length = integers(site.graph, {static_cast<std::int64_t>(all->size())}, {});
    become(site.root, make_node("Identity", {length}), site.root);
    return true;
}

bool join_elements(const Site& site) {
    const auto all = elements_of(site, site.root.input(0));
    const std::int64_t axis = site.root.int_or("axis", 0);
    if (!all || all->empty()) return false;
    std::vector<std::string> values;
    for (const Element& element : *all) {
        std::string value = element.part ? put_before(site, node_of(site.graph, element)) : element.value;
        if (site.root.int_or("new_axis", 0) != 0) {
            Node wide = make_node("Unsqueeze", {value});
            if (site.context.opset < 13)
                wide.set("axes", std::vector<std::int64_t>{axis});
            else
                wide.inputs.push_back(integers(site.graph, {axis}, {1}));
            value = put_before(site, std::move(wide));
        }
        values.push_back(std::move(value));
    }
    Node join = make_node("Concat", std::move(values));
    join.set("axis", axis);
    become(site.root, std::move(join), site.root);
    return true;
}

} // namespace

//  a, b -> SequenceConstruct | SequenceEmpty, SequenceInsert ... -> SequenceAt(1)   ==>   b
//  x -> SplitToSequence -> SequenceAt(1)                                            ==>   x -> Slice
//  a, b -> SequenceConstruct -> ConcatFromSequence                                  ==>   a, b -> Concat
Result<bool> fold_sequences(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{{Pattern::op("SequenceAt"), take_element},
                                         {Pattern::op("SequenceLength"), take_length},
                                         {Pattern::op("ConcatFromSequence"), join_elements}};
    LATHE_TRY(const bool unrolled, unroll_sequence_loops(graph, context));
    LATHE_TRY(const bool changed, rewrite(graph, context, rules));
    return unrolled || changed;
}

} // namespace lathe::passes
