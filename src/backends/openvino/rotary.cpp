#include "backends/openvino/rotary.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <openvino/op/add.hpp>
#include <openvino/op/concat.hpp>
#include <openvino/op/multiply.hpp>

#include "onnx/onnx.hpp"
#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

using Integers = std::vector<std::int64_t>;

std::optional<Shape> sizes_of(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    return info ? info->shape() : std::nullopt;
}

std::size_t from_the_front(std::int64_t axis, std::size_t rank) {
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

/// A Slice along one axis.
struct Cut {
    std::string of;
    std::size_t axis = 0;
    std::int64_t begin = 0, end = 0, step = 1;
    std::int64_t size = -1; ///< of that axis, before

    bool runs_to_the_end() const { return end >= std::int64_t{1} << 30 || (size >= 0 && end >= size); }
};

std::optional<Cut> cut_of(const Site& site, const std::string& value) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr || !node->is("Slice") || site.context.opset < 10) return std::nullopt;
    const auto shape = sizes_of(site.graph, node->input(0));
    const auto begin = constant_integers(site.graph, *node, "", 1), end = constant_integers(site.graph, *node, "", 2),
               axes = constant_integers(site.graph, *node, "", 3);
    const auto steps = node->input(4).empty() ? Integers{1} : constant_integers(site.graph, *node, "", 4);
    if (!shape || !begin || !end || !axes || !steps || begin->size() != 1 || end->size() != 1 || axes->size() != 1 ||
        steps->size() != 1)
        return std::nullopt;
    const std::size_t axis = from_the_front((*axes)[0], shape->size());
    if (axis >= shape->size()) return std::nullopt;
    return Cut{node->input(0), axis, (*begin)[0], (*end)[0], (*steps)[0], (*shape)[axis]};
}

/// Whether two values of as many elements surely have the same sizes: all that are known agree, and all but one are.
bool is_shaped_like(const Graph& graph, const std::string& a, const std::string& b) {
    const auto first = sizes_of(graph, a), second = sizes_of(graph, b);
    if (!first || !second || first->size() != second->size()) return false;
    std::size_t open = 0;
    for (std::size_t i = 0; i < first->size(); ++i) {
        const std::int64_t x = (*first)[i], y = (*second)[i];
        if (x > 0 && y > 0 && x != y) return false;
        open += x > 0 && y > 0 ? 0 : 1;
    }
    return open <= 1 || same_shape(graph, a, b);
}

/// What an Unsqueeze behind the last axis reads; nothing if it is none.
const std::string* without_last_axis(const Site& site, const std::string& value, std::size_t rank) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr || !node->is("Unsqueeze")) return nullptr;
    const auto axes = constant_integers(site.graph, *node, "axes", 1);
    if (!axes || axes->size() != 1 || from_the_front((*axes)[0], rank + 1) != rank) return nullptr;
    return &node->inputs[0];
}

std::string put(const Site& site, Node node) {
    std::string name = site.graph.unique_name(site.root.output(0) + "_part");
    node.outputs = {name};
    insert_before(site, std::move(node), std::nullopt);
    return name;
}

Node gather_last(const std::string& value, const std::string& places) {
    Node gather = make_node("Gather", {value, places});
    gather.set("axis", std::int64_t{-1});
    return gather;
}

//  Reshape(Concat(Unsqueeze(Neg(x[..., 1::2])), Unsqueeze(x[..., ::2])))  ==>  Gather(x, 1, 0, 3, 2, ...) * (-1, 1,
//  ...)
bool turn_by_gather(const Site& site) {
    Graph& graph = site.graph;
    const Node* stack = site.uses.producer(site.root.input(0));
    if (stack == nullptr || !stack->is("Concat") || stack->inputs.size() != 2) return false;
    const auto shape = sizes_of(graph, site.root.output(0));
    if (!shape || shape->empty()) return false;
    const std::size_t rank = shape->size();
    const std::string* first = without_last_axis(site, stack->input(0), rank);
    const std::string* second = without_last_axis(site, stack->input(1), rank);
    if (first == nullptr || second == nullptr || from_the_front(stack->int_or("axis", 0), rank + 1) != rank)
        return false;
    const Node* negative = site.uses.producer(*first);
    if (negative == nullptr || !negative->is("Neg")) return false;
    const auto odd = cut_of(site, negative->input(0)), even = cut_of(site, *second);
    if (!odd || !even || odd->of != even->of || odd->axis + 1 != rank || even->axis + 1 != rank || odd->begin != 1 ||
        even->begin != 0 || odd->step != 2 || even->step != 2 || !odd->runs_to_the_end() || !even->runs_to_the_end())
        return false;
    const std::int64_t size = odd->size;
    const DataType type = type_of(graph, odd->of);
    if (size < 2 || size % 2 != 0 || !is_floating(type) || !is_shaped_like(graph, odd->of, site.root.output(0)))
        return false;
    Integers places;
    std::vector<float> signs;
    for (std::int64_t i = 0; i < size; ++i) {
        places.push_back(i ^ 1);
        signs.push_back(i % 2 == 0 ? -1.0F : 1.0F);
    }
    const auto factors = finite_tensor(type, {size}, signs);
    if (!factors) return false;
    const std::string order = add_constant(graph, "rotary_places", Tensor::of_int64s("", {size}, places));
    const std::string turned = put(site, gather_last(odd->of, order));
    become(site.root, make_node("Mul", {turned, add_constant(graph, "rotary_signs", *factors)}), site.root);
    return true;
}

/// A Mul by a constant.
struct Scaled {
    std::string value;
    std::string factor;
};

std::optional<Scaled> scaled(const Site& site, const std::string& value) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr || !node->is("Mul")) return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i) {
        if (site.graph.constant(node->input(i)) != nullptr) return Scaled{node->input(1 - i), node->input(i)};
    }
    return std::nullopt;
}

class Joined {
public:
    //  Concat(x[:p], x[p:] * c + turned(x[p:]) * s)  ==>  x * (1, c) + turned(x) * (0, s), along the axis of the Concat
    bool operator()(const Site& site) {
        Graph& graph = site.graph;
        const Node* sum = site.root.inputs.size() == 2 ? site.uses.producer(site.root.input(1)) : nullptr;
        const auto head = cut_of(site, site.root.inputs[0]);
        if (sum == nullptr || !sum->is("Add") || !head || head->begin != 0 || head->step != 1) return false;
        for (std::size_t i = 0; i < 2; ++i) {
            const auto plain = scaled(site, sum->input(i)), turned = scaled(site, sum->input(1 - i));
            if (!plain || !turned) continue;
            const auto tail = cut_of(site, plain->value);
            const auto signs = scaled(site, turned->value);
            const Node* gather = signs ? site.uses.producer(signs->value) : nullptr;
            if (!tail || gather == nullptr || !gather->is("Gather") || gather->int_or("axis", 0) != -1 ||
                gather->input(0) != plain->value)
                continue;
            const std::size_t rank = sizes_of(graph, tail->of)->size();
            const bool joins = tail->of == head->of && tail->axis == head->axis && tail->begin == head->end &&
                               head->end > 0 && tail->step == 1 && tail->runs_to_the_end() && head->axis + 1 < rank &&
                               from_the_front(site.root.int_or("axis", 0), rank) == head->axis;
            if (!joins) return false;
            const auto ones = longer(graph, plain->factor, rank - head->axis, head->end, 1),
                       zeros = longer(graph, turned->factor, rank - head->axis, head->end, 0);
            if (!ones || !zeros) return false;
            std::string around = put(site, gather_last(head->of, gather->input(1)));
            around = put(site, make_node("Mul", {around, signs->factor}));
            around = put(site, make_node("Mul", {around, *zeros}));
            const std::string along = put(site, make_node("Mul", {head->of, *ones}));
            become(site.root, make_node("Add", {along, around}), site.root);
            return true;
        }
        return false;
    }

private:
    /// The constant with so many rows of `fill` before it, along the axis `from_back` from the last; nothing where it
    /// has one row for all.
    std::optional<std::string> longer(Graph& graph, const std::string& factor, std::size_t from_back, std::int64_t rows,
                                      float fill) {
        const auto key = std::make_tuple(factor, from_back, rows, fill);
        if (const auto known = known_.find(key); known != known_.end()) return known->second;
        const Tensor& old = *graph.constant(factor);
        if (old.shape().size() < from_back || !is_floating(old.type())) return std::nullopt;
        const std::size_t axis = old.shape().size() - from_back;
        if (old.shape()[axis] < 2) return std::nullopt;
        Shape shape = old.shape();
        shape[axis] += rows;
        const auto inner = static_cast<std::size_t>(
            element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end())));
        const std::size_t block = inner * static_cast<std::size_t>(old.shape()[axis]);
        const std::vector<float> numbers = old.to_floats();
        std::vector<float> all;
        for (std::size_t at = 0; at < numbers.size(); at += block) {
            all.insert(all.end(), inner * static_cast<std::size_t>(rows), fill);
            all.insert(all.end(), numbers.begin() + static_cast<std::ptrdiff_t>(at),
                       numbers.begin() + static_cast<std::ptrdiff_t>(at + block));
        }
        const auto tensor = finite_tensor(old.type(), shape, all);
        if (!tensor) return std::nullopt;
        return known_[key] = add_constant(graph, factor, *tensor);
    }

    std::map<std::tuple<std::string, std::size_t, std::int64_t, float>, std::string> known_;
};

bool turns_pairs(const Graph& graph) {
    const Uses uses(graph);
    return std::ranges::any_of(graph.nodes, [&](const auto& node) {
        if (!node->is("Neg")) return false;
        const Node* cut = uses.producer(node->input(0));
        return cut != nullptr && cut->is("Slice");
    });
}

} // namespace

void write_rotations(Model& model) {
    if (!turns_pairs(model.graph)) return;
    (void)infer_shapes(model, {}); // what has no sizes then stays
    PassContext context;
    context.opset = model.opset();
    const std::vector<Rule> rules{{Pattern::op("Reshape"), turn_by_gather}, {Pattern::op("Concat"), Joined{}}};
    (void)rewrite(model.graph, context, rules); // fails only where it does not end, and each of these shortens
    remove_dead(model.graph);
}

void keep_shared_rotations(ov::Model& model) {
    change_nodes(model, [](const std::shared_ptr<ov::Node>& node) {
        if (!ov::is_type<ov::op::v0::Concat>(node)) return false;
        bool changed = false;
        for (std::size_t i = 0; i < node->get_input_size(); ++i) {
            const ov::Node& sum = *node->get_input_node_ptr(i);
            if (!ov::is_type<ov::op::v1::Add>(&sum) || sum.output(0).get_target_inputs().size() < 2 ||
                !ov::is_type<ov::op::v1::Multiply>(sum.get_input_node_ptr(0)) ||
                !ov::is_type<ov::op::v1::Multiply>(sum.get_input_node_ptr(1)))
                continue;
            set_input_apart(*node, i);
            changed = true;
        }
        return changed;
    });
}

} // namespace lathe::openvino
