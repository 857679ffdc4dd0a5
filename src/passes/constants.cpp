#include <algorithm>
#include <numeric>
#include <set>

#include "graph/subgraphs.hpp"
#include "passes/evaluate.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

std::optional<Tensor> constant_value(const Node& node) {
    if (node.attributes.size() != 1) return std::nullopt;
    const Attribute& attribute = node.attributes.front();
    if (const auto* tensor = std::get_if<Tensor>(&attribute.value)) return *tensor;
    if (const auto* real = std::get_if<float>(&attribute.value)) return Tensor::of_floats("", {}, std::span(real, 1));
    if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
        return Tensor::of_int64s("", {}, std::span(integer, 1));
    }
    if (const auto* text = std::get_if<std::string>(&attribute.value)) return Tensor("", {}, {*text});
    const auto length = [](const auto& list) { return Shape{static_cast<std::int64_t>(list.size())}; };
    if (const auto* reals = std::get_if<std::vector<float>>(&attribute.value)) {
        return Tensor::of_floats("", length(*reals), *reals);
    }
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
        return Tensor::of_int64s("", length(*integers), *integers);
    }
    if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
        return Tensor("", length(*texts), *texts);
    }
    return std::nullopt;
}

/// Replaces the node at `index` by initializers named as its outputs. The caller removes the emptied node.
void replace_by_constants(Graph& graph, Node& node, const std::vector<Tensor>& values) {
    for (std::size_t i = 0; i < node.outputs.size() && i < values.size(); ++i) {
        const std::string& name = node.outputs[i];
        if (name.empty()) continue;
        graph.initializers.insert_or_assign(name, values[i].renamed(name));
        graph.value_infos.erase(name);
    }
    node.op_type.clear();
}

bool computes_output(const Graph& graph, const Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](const std::string& name) { return graph.is_output(name); });
}

Result<bool> finish(Graph& graph, PassContext& context) {
    const std::size_t replaced = graph.remove_nodes([](const Node& node) { return node.op_type.empty(); });
    context.rewrites += replaced;
    return replaced != 0;
}

bool folds(const Graph& graph, const Node& node, std::vector<const Tensor*>& inputs) {
    if (!can_evaluate(node) || node.inputs.empty() || computes_output(graph, node)) return false;
    inputs.clear();
    for (const std::string& name : node.inputs) {
        inputs.push_back(name.empty() ? nullptr : graph.constant(name));
        if (!name.empty() && inputs.back() == nullptr) return false;
    }
    return true;
}

} // namespace

//  Constant {value = t}
//     |             ==>   initializer t
//     y                        y
//
// One kind of constant is easier to look for than two.
Result<bool> constant_nodes(Graph& graph, PassContext& context) {
    for (const auto& node : graph.nodes) {
        if (!node->is("Constant") || computes_output(graph, *node)) continue;
        if (const auto value = constant_value(*node)) replace_by_constants(graph, *node, {*value});
    }
    return finish(graph, context);
}

//  c1   c2
//   \   /
//    Op         ==>   initializer
//    |                     |
//    y                     y
//
// Only operators the reference evaluator knows, which leaves out QuantizeLinear and DequantizeLinear: a constant
// behind them is a quantised weight. A result over the limit is kept only if it does not make the model larger.
Result<bool> fold_constants(Graph& graph, PassContext& context) {
    std::vector<const Tensor*> inputs;
    for (const auto& node : graph.nodes) {
        if (!folds(graph, *node, inputs)) continue;
        // Each once: Concat(t, t) doubles what there is.
        const std::set<const Tensor*> distinct(inputs.begin(), inputs.end());
        const std::size_t bytes =
            std::accumulate(distinct.begin(), distinct.end(), std::size_t{0}, [](std::size_t sum, const Tensor* t) {
                return sum + (t == nullptr ? 0 : t->bytes().size());
            });
        const NodeEvaluationOptions options{context.opset, std::max(bytes, context.fold_limit_bytes)};
        // What cannot be evaluated stays for the backend: leaving a node alone is always right.
        const auto values = evaluate(*node, inputs, options);
        if (values) replace_by_constants(graph, *node, *values);
    }
    return finish(graph, context);
}

namespace {

/// What is known of a value of the graph or, in a body, of a graph around it.
std::optional<ValueInfo> visible_info(const Graph& graph, const Uses& uses, const PassContext& context,
                                      const std::string& value) {
    auto info = graph.info(value);
    bool defined_here = uses.producer(value) != nullptr;
    for (auto outer = context.around.rbegin(); !info && !defined_here && outer != context.around.rend(); ++outer) {
        info = (*outer)->info(value);
        defined_here = !info && defined_names(**outer).contains(value);
    }
    return info;
}

/// Dimensions of a value as Shape (with its start and end) gives them; -1 where not known.
std::optional<Shape> shape_part(const Graph& graph, const Uses& uses, const PassContext& context,
                                const Node& shape_node) {
    const auto info = visible_info(graph, uses, context, shape_node.input(0));
    const auto shape = info ? info->shape() : std::nullopt;
    if (!shape) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(shape->size());
    const auto bound = [&](const char* attribute, std::int64_t otherwise) {
        const std::int64_t given = shape_node.int_or(attribute, otherwise);
        return std::clamp<std::int64_t>(given < 0 ? given + rank : given, 0, rank);
    };
    const std::int64_t start = bound("start", 0);
    return Shape(shape->begin() + start, shape->begin() + std::max(start, bound("end", rank)));
}

bool all_known(const Shape& shape) {
    return std::all_of(shape.begin(), shape.end(), [](std::int64_t n) { return n >= 0; });
}

/// The result of a Gather or Slice of a shape if it takes only known dimensions: evaluated with -1 for the others,
/// which cannot be mistaken for a size.
std::optional<Tensor> part_of_shape(const Graph& graph, const Node& reader, const Shape& shape, std::int64_t opset) {
    const Tensor dims = Tensor::of_int64s("", {static_cast<std::int64_t>(shape.size())}, shape);
    std::vector<const Tensor*> inputs{&dims};
    for (std::size_t i = 1; i < reader.inputs.size(); ++i) {
        inputs.push_back(reader.input(i).empty() ? nullptr : graph.constant(reader.input(i)));
        if (!reader.input(i).empty() && inputs.back() == nullptr) return std::nullopt;
    }
    const auto values = evaluate(reader, inputs, {opset, 4096});
    if (!values || !all_known((*values)[0].to_int64s())) return std::nullopt;
    return (*values)[0];
}

} // namespace

//  x: [N, 3, 8, 8]          x: [N, 3, 8, 8]
//  |                        |
//  Shape                    Shape          (if somebody else reads it)
//  |               ==>
//  Gather(1)                initializer 3
//  |                        |
//  y                        y
//
// Also Shape and Size of a value with all dimensions known, and Slice of a shape.
Result<bool> fold_shapes(Graph& graph, PassContext& context) {
    const Uses uses(graph);
    for (const auto& node : graph.nodes) {
        if (computes_output(graph, *node)) continue;
        const bool whole = node->is("Shape") || node->is("Size");
        const Node* shape_node = node.get();
        if (node->is("Gather") || node->is("Slice")) shape_node = uses.producer(node->input(0));
        if (shape_node == nullptr || !(whole || shape_node->is("Shape"))) continue;
        const auto shape = shape_part(graph, uses, context, *shape_node);
        if (!shape) continue;
        if (!whole) {
            if (const auto value = part_of_shape(graph, *node, *shape, context.opset)) {
                replace_by_constants(graph, *node, {*value});
            }
        } else if (all_known(*shape) && element_count(*shape) >= 0) {
            const std::int64_t count = element_count(*shape);
            replace_by_constants(graph, *node,
                                 {node->is("Size")
                                      ? Tensor::of_int64s("", {}, std::span(&count, 1))
                                      : Tensor::of_int64s("", {static_cast<std::int64_t>(shape->size())}, *shape)});
        }
    }
    return finish(graph, context);
}

//  y = Op(x)  where nothing reads y      ==>   (nothing)
Result<bool> remove_dead_code(Graph& graph, PassContext& context) {
    const std::size_t removed = remove_dead(graph);
    context.rewrites += removed;
    return removed != 0;
}

} // namespace lathe::passes
